"""Which arguments a call may donate: what the user offers, less what is not safe to give away.

XLA decides nothing here. A buffer is donated only if the user offered it (the operator
``xla::dynamo_set_buffer_donor_``, ``_set_buffer_donation`` on the argument of the first call, or the
compile option ``donate``) and nothing else can still read it. Where something can, the call runs an
executable without that donation and says so once.
"""

from __future__ import annotations

import collections
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch

from xla_notebook.backend import observer, runtime
from xla_notebook.backend.graph import CachedGraph
from xla_notebook.backend.program import is_on_xla, spec_of


class DonationRefusedWarning(UserWarning):
    """An offered buffer was not donated, because something could still have read it."""


class Offers:
    """The buffers that the calls of one graph may donate, by position among its arguments."""

    def __init__(
        self,
        marked: Iterable[int],
        by_hand: Iterable[int],
        updated: Iterable[int],
        kept: Iterable[int] | None,
        names: Mapping[int, str],
        function: str,
    ):
        self._updated = frozenset(updated)
        self._by_hand = frozenset(by_hand)
        self._offered = tuple(sorted({*marked, *self._by_hand}))
        self._kept = None if kept is None else frozenset(kept)
        self._names = names
        self._function = function
        self._said: set[tuple[int, str]] = set()

    def __bool__(self) -> bool:
        return bool(self._offered)

    def accepted(self, args: Sequence[Any]) -> frozenset[int]:
        """The positions that this call donates. Marks the tensors, as torch_xla's own bridge does."""
        accepted = set()
        if not self._offered:
            return frozenset()
        on_xla = [a for a in args if is_on_xla(a)]
        if on_xla:
            # Until then, two arguments with one buffer may show two handles.
            runtime.wait_until_sent(on_xla[0].device)
        sharing = collections.Counter(runtime.handle(a) for a in on_xla)
        for position in self._offered:
            tensor = args[position]
            if position in self._by_hand and position not in self._updated and not runtime.get_donation(tensor):
                # Marked by hand for an earlier call, but this tensor was not.
                continue
            why = self._objection(position, args, sharing)
            if why is None:
                accepted.add(position)
            else:
                self._refuse(position, why)
        for position in accepted:
            runtime.set_donation(args[position], True)
        return frozenset(accepted)

    def watch(self, graph: CachedGraph, args: Sequence[Any], updates: Mapping[int, int]) -> Watch | None:
        """To be called before a run of `graph`, for what is to be called after it; None if nobody wants to know.

        `updates` are the outputs that are new values of arguments, with the arguments' positions.
        """
        if not graph.donated or not observer.watching():
            return None
        outputs = {output: self._names.get(position, "") for output, position in updates.items()}
        return Watch(graph, args, self._names, outputs)

    def refuse_all(self, why: str) -> None:
        """Say of every offer that it is not taken."""
        for position in self._offered:
            self._refuse(position, why)

    def _objection(self, position: int, args: Sequence[Any], sharing: Mapping[int | None, int]) -> str | None:
        """Why the argument's buffer must stay, or None. `sharing`: how many arguments have each handle."""
        tensor = args[position]
        if not isinstance(tensor, torch.Tensor) or tensor.device.type != "xla":
            return "it is not on the XLA device"
        if position not in self._updated:
            if self._kept is None:
                return "Dynamo does not tell whether the function returns it"
            if position in self._kept:
                return "the function returns it or uses it later"
        if torch._C._storage_Use_Count(tensor.untyped_storage()._cdata) > 1:
            return "a view or a detached copy of it is alive"
        if runtime.anything_pending(tensor.device):
            return "pending work on the device may read it"
        if sharing[runtime.handle(tensor)] > 1:
            return "another argument shares its buffer"
        return None

    def _refuse(self, position: int, why: str) -> None:
        if (position, why) in self._said:
            return
        self._said.add((position, why))
        name = self._names.get(position, f"argument {position}")
        observer.send(observer.DonationRefused(None, name, why, observer.now_ns()))
        warnings.warn(
            f"{self._function}: the buffer of {name} is not donated: {why}", DonationRefusedWarning, stacklevel=2
        )


class Watch:
    """Tells observers which inputs of a graph a run donates, and which outputs take their memory.

    XLA pairs them when it compiles, and leaves out what fits no output; it tells nobody. So the first run
    of a graph waits for the device before and after, and compares addresses; later runs need no waiting,
    unless an observer wants their addresses, too. Without waiting, the taker's handle is not told: results of
    work in flight have a handle that is not the one of their buffer in the end.
    """

    def __init__(self, graph: CachedGraph, args: Sequence[Any], names: Mapping[int, str], outputs: Mapping[int, str]):
        self._graph = graph
        self._names = names
        self._outputs = outputs
        self._runs = graph.runs
        self._inputs = {p: (args[p], runtime.handle(args[p])) for p in graph.donated}
        self._waits = graph.taken is None or observer.watching_donations()
        self._addresses: dict[int, int | None] = {}
        if self._waits:
            runtime.wait_for_device()
            self._addresses = {p: runtime.address(args[p]) for p in graph.donated}

    def tell(self, results: Sequence[torch.Tensor]) -> None:
        """The graph was called, and its arguments are not updated yet."""
        if self._graph.runs == self._runs:
            return
        if self._waits:
            runtime.wait_for_device()
            outputs = {runtime.address(result): number for number, result in enumerate(results)}
            dead = [p for p, (tensor, _) in self._inputs.items() if runtime.handle(tensor) is None]
            self._graph.taken = {p: outputs.get(self._addresses[p]) for p in dead}
        for position, output in (self._graph.taken or {}).items():
            tensor, handle = self._inputs[position]
            observer.send(
                observer.Donated(
                    cause="graph input",
                    graph_id=self._graph.graph_id,
                    name=self._names.get(position, f"argument {position}"),
                    spec=spec_of(tensor),
                    handle=handle or 0,
                    address=self._addresses.get(position),
                    saved=False,
                    would_be=False,
                    time_ns=observer.now_ns(),
                    taker="" if output is None else self._outputs.get(output) or f"output {output}",
                    taker_handle=runtime.handle(results[output]) if self._waits and output is not None else None,
                    taken=(position, output),
                )
            )
