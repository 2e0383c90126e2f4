"""Sees which buffers a step barrier donates, and to which tensors. Only for those who ask: it waits.

Whether a buffer was donated is known only to those who hold it: its handle then says that it is deleted.
Which tensor took its memory is seen by the address, which is there only once the work is sent to the
device; and when the next step begins, the tensor is pending again. So the watch waits for the device before
and after the barrier, and holds the buffers that the pending work reads for just that long. Handles alone
would not do: torch_xla uses their numbers again.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Mapping

import torch

from xla_notebook.backend import observer, runtime
from xla_notebook.backend.observer import Donated
from xla_notebook.backend.program import spec_of
from xla_notebook.session.ledger import places, says_deleted, waits
from xla_notebook.session.records import LiveGraph
from xla_notebook.session.walk import Walk, notebook_roots

_PLAIN = torch._C._disabled_torch_dispatch_impl


class DonationWatch:
    """Watches one step barrier after the other, and remembers which names their results had."""

    def __init__(self) -> None:
        # By handle and address: numbers of handles come again, but not while their buffer is alive.
        self._names: dict[tuple[int, int | None], str] = {}
        self._walk = Walk()

    def before(self, namespace: Mapping[str, object], graphs: Iterable[LiveGraph]) -> Callable[[], list[Donated]]:
        """Look before a step barrier; call what it returns after it, for the donations that it made.

        A donation's name is that of the tensor which had the buffer, or else of the one which took it.
        """
        runtime.wait_for_device()
        with torch._C.DisableTorchFunctionSubclass():
            tensors = _live_tensors()
            lazy = [tensor for tensor, pending in zip(tensors, waits(tensors), strict=True) if pending]
            known = self._names | self._places_of(tensors, self._named(namespace))
            saved: dict[int, tuple[int, str]] = {}
            for graph in graphs:
                for position, place in enumerate(places(graph.saved)):
                    if isinstance(place, int):
                        saved[place] = graph.graph_id, f"constant {position}"
            # Wrappers of the buffers that the pending work reads. Making them changes nothing.
            try:
                data = runtime.graph_inputs(lazy)[1] if lazy else []
            except RuntimeError as error:
                if not says_deleted(error):
                    raise
                # The pending work reads a dead buffer: the barrier is about to fail and donates nothing.
                return list
            buffers = [(place, runtime.address(tensor)) for place, tensor in zip(places(data), data, strict=True)]

        def after() -> list[Donated]:
            runtime.wait_for_device()
            with torch._C.DisableTorchFunctionSubclass():
                names = self._named(namespace)
                self._names = self._places_of(_live_tensors(), names)
                takers: dict[int | None, str] = {}
                for tensor in lazy:
                    # Several tensors may be on one buffer; one that has a name says more.
                    address = runtime.address(tensor)
                    takers[address] = takers.get(address) or names.get(id(tensor), "")
                handles = {runtime.address(tensor): runtime.handle(tensor) for tensor in lazy}
                found = []
                for tensor, now, (handle, address) in zip(data, places(data), buffers, strict=True):
                    if now != "deleted" or not isinstance(handle, int):
                        continue
                    taker = takers.get(address, "")
                    graph_id, constant = saved.get(handle, (None, ""))
                    found.append(
                        Donated(
                            cause="step barrier",
                            graph_id=graph_id,
                            name=constant or known.get((handle, address), "") or taker,
                            spec=spec_of(tensor),
                            handle=handle,
                            address=address,
                            saved=False,
                            would_be=False,
                            time_ns=observer.now_ns(),
                            taker=taker,
                            taker_handle=handles.get(address),
                        )
                    )
                data.clear()
                lazy.clear()
                return found

        return after

    def _named(self, namespace: Mapping[str, object]) -> dict[int, str]:
        reached = self._walk.look(notebook_roots(namespace))
        return {id(tensor): names[0][1] for tensor, names in zip(reached.tensors, reached.names, strict=True)}

    def _places_of(self, tensors: list[torch.Tensor], names: Mapping[int, str]) -> dict[tuple[int, int | None], str]:
        named = [tensor for tensor in tensors if id(tensor) in names]
        return {
            (place, runtime.address(tensor)): names[id(tensor)]
            for tensor, place in zip(reversed(named), reversed(places(named)), strict=True)
            if isinstance(place, int)
        }


def _live_tensors() -> list[torch.Tensor]:
    """All XLA tensors that Python knows, those in local variables included."""
    found = []
    for thing in gc.get_objects():
        kind = type(thing)
        if issubclass(kind, torch.Tensor) and kind.__torch_dispatch__ is _PLAIN:
            # The collector also lists those that only C++ holds, which torch must be told of, as with weak references.
            thing._fix_weakref()
            if thing.is_xla:
                found.append(thing)
    return found
