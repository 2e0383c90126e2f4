"""CachedGraph: one executable in XLA's cache, what to feed it, and the hot path that runs it."""

from __future__ import annotations

import operator
import time
from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol

import torch

from xla_notebook.backend import barriers, rehearsal, runtime
from xla_notebook.backend.program import is_on_xla
from xla_notebook.backend.tracing import Traced

State = Literal["warm", "cold", "evicted", "dropped"]
RebuildReason = Literal["evicted", "donated", "cleared"]


# The hash of no graph: a run with it finds nothing in XLA's cache and rebuilds.
_NO_GRAPH = bytes(16)

# Pending constants whose buffers one graph keeps.
_MOST_CONSTANTS = 8


class SavedBufferDonatedError(RuntimeError):
    """A buffer that a graph keeps for later runs was donated by something else."""


class Owner(Protocol):
    """What a graph asks of the segment that it belongs to."""

    def rebuild(self, graph: CachedGraph, inputs: Sequence[Any], reason: RebuildReason) -> None: ...

    def hlo_text(self, graph: CachedGraph) -> str: ...


class CachedGraph:
    """An executable with the bindings of its parameters.

    `runs` counts its runs, and `run_ns` is the host time that they took, until XLA had taken them over: the
    device may work on afterwards. `state` says whether XLA's cache is known to hold the executable. `run` takes
    the segment's inputs in order and gives the executable's results: fresh tensors, one for each output
    of the segment that is a tensor.
    """

    def __init__(
        self,
        graph_id: int,
        traced: Traced,
        inputs: Sequence[Any],
        device: torch.device,
        owner: Owner,
    ):
        self.graph_id = graph_id
        self.state: State
        self.runs = 0
        self.run_ns = 0
        # (shape, dtype) of each input, or the number that it was.
        self.signature = [(tuple(v.shape), v.dtype) if isinstance(v, torch.Tensor) else v for v in inputs]
        self._input_count = len(inputs)
        self._device = device
        self._no_barrier = barriers.excluded(device)
        self._owner = owner
        # Positions of inputs that came pending before: looked at first, as an exception costs more.
        self._often_pending = traced.pending
        self._constants: dict[bytes, torch.Tensor] = {}
        self.load(traced)

    def load(self, traced: Traced) -> None:
        """Take over a trace: at first, and again when the executable or a saved buffer was lost."""
        self.state = "warm"
        self.hash = traced.hash
        self.saved = traced.saved
        self.numbers = traced.numbers
        self.donated = traced.donated
        self._warmed = traced.warmed
        self._outputs = traced.outputs
        # Which output took the memory of each donated input that died, once a run has shown it.
        self.taken: dict[int, int | None] | None = None
        self.saved_nbytes = sum(t.numel() * t.element_size() for t in traced.saved)
        self._checked_barriers = barriers.count if barriers.seen_all() else -1
        self._seeded = any(p.kind == "seed" for p in traced.parameters)
        offsets = {
            "argument": 0,
            "saved": self._input_count,
            "seed": self._input_count + len(self.saved),
        }
        self._select = _selector([offsets[p.kind] + p.index for p in traced.parameters], self._input_count)

    def drop(self) -> int:
        """Give the saved buffers back; returns their bytes. The next run traces and warms again."""
        freed = self.saved_nbytes
        self.state = "dropped"
        # First what a run in another thread looks at last.
        self.hash = _NO_GRAPH
        self._select = None
        self._seeded = False
        self.saved = []
        self.saved_nbytes = 0
        self._constants.clear()
        return freed

    def hlo_text(self) -> str:
        """The graph's HLO with the user's source lines, recorded anew; compiles and executes nothing."""
        return self._owner.hlo_text(self)

    def run(self, inputs: Sequence[Any]) -> list[torch.Tensor]:
        """Run the executable on the segment's inputs; asynchronous, as all of torch_xla."""
        if rehearsal.under_way and (rehearsed := rehearsal.current()) is not None:
            return self._rehearse(inputs, rehearsed)
        started_ns = time.perf_counter_ns()
        if self.saved and self._checked_barriers != barriers.count:
            self._check_saved(inputs)
        if self._often_pending:
            with self._no_barrier:
                inputs = self._without_pending(inputs)
        try:
            # The lock is not held while mending: a rebuild takes locks in another order.
            with self._no_barrier:
                results = self._run(inputs)
        except RuntimeError as error:
            self._mend(error, inputs)
            return self.run(inputs)
        self.runs += 1
        self.run_ns += time.perf_counter_ns() - started_ns
        return results

    def _run(self, inputs: Sequence[Any]) -> list[torch.Tensor]:
        pool = inputs
        if self.saved:
            pool = [*inputs, *self.saved]
        if self._seeded:
            seed = runtime.rng_seed()
            # Draws of the user's own since the last step are behind the running seed, not the base seed.
            runtime.set_rng_seed(seed)
            pool = [*pool, runtime.seed_tensor(self._device)]
        results = runtime.run_cached_graph(self.hash, self._select(pool) if self._select else pool)
        if self._seeded:
            runtime.set_rng_seed(runtime.next_seed(seed))
        return results

    def _rehearse(self, inputs: Sequence[Any], rehearsed: rehearsal.Rehearsal) -> list[torch.Tensor]:
        """Compile what a run would need, and give zeros."""
        if self.state == "dropped" or not (self._warmed or self.runs):
            self._owner.rebuild(self, inputs, "cleared")
        self._often_pending = tuple(i for i, value in enumerate(inputs) if is_on_xla(value))
        self._without_pending(inputs)
        rehearsed.ran(self.graph_id)
        return [rehearsal.zeros(shape, dtype, self._device) for shape, dtype in self._outputs]

    def _mend(self, error: RuntimeError, inputs: Sequence[Any]) -> None:
        """A run was refused before it changed anything: remove the cause, or raise `error`."""
        if runtime.says_evicted(error):
            self._owner.rebuild(self, inputs, "cleared" if self.state == "dropped" else "evicted")
        elif runtime.says_pending(error) and not runtime.skips_pending_check():
            positions = [i for i, v in enumerate(inputs) if is_on_xla(v)]
            waiting = runtime.pending([inputs[i] for i in positions])
            found = {i for i, waits in zip(positions, waiting, strict=True) if waits}
            if not found:
                raise error
            self._often_pending = tuple(sorted({*self._often_pending, *found}))
        else:
            raise error

    def _without_pending(self, inputs: Sequence[Any]) -> Sequence[Any]:
        """`inputs` with a buffer behind each value: pending ones are executed, without donation."""
        positions = [i for i in self._often_pending if is_on_xla(inputs[i])]
        waiting = runtime.pending([inputs[i] for i in positions])
        lazy = [i for i, waits in zip(positions, waiting, strict=True) if waits]
        if not lazy and self.runs:
            # The first run comes after the trace, which has materialized them.
            self._often_pending = ()
        if not lazy or runtime.skips_pending_check():
            return inputs
        if all(inputs[i].numel() == 1 for i in lazy):
            known = {i: buffer for i in lazy if (buffer := self._constant(inputs[i])) is not None}
            if len(known) == len(lazy):
                return [known.get(i, value) for i, value in enumerate(inputs)]
        # All of them at once, as the trace did: the same graph serves again.
        runtime.increment_counter("DynamoSyncInputExecuteTime", 1)
        rehearsal.materialize([inputs[i] for i in lazy])
        return inputs

    def _constant(self, tensor: torch.Tensor) -> torch.Tensor | None:
        """A buffer that holds the value of a pending tensor of one element, or None if that is no constant.

        ``loss.backward()`` starts each backward pass with such a one. Kept here, it costs no execution.
        """
        if runtime.graph_inputs([tensor])[0]:
            return None
        key = runtime.graph_hash([tensor])
        buffer = self._constants.get(key)
        if buffer is None:
            if len(self._constants) >= _MOST_CONSTANTS:
                return None
            with torch.no_grad():
                # A tensor of its own: the user's stays pending.
                buffer = tensor.clone()
                rehearsal.materialize([buffer])
            if rehearsal.current() is None:
                self._constants[key] = buffer
        return buffer

    def _check_saved(self, inputs: Sequence[Any]) -> None:
        """A step barrier has passed since the last look: are the saved buffers still there?"""
        seen = barriers.count
        if any(runtime.handle(t) is None for t in self.saved):
            # Raises if the user wants no recovery, and then does so at each call.
            self._owner.rebuild(self, inputs, "donated")
        elif barriers.seen_all():
            self._checked_barriers = seen


def _selector(order: list[int], input_count: int) -> Callable[[Sequence[Any]], Sequence[Any]] | None:
    """Picks the parameters out of [*inputs, *saved, seed]; None if they are just the inputs."""
    if order == list(range(input_count)):
        return None
    if len(order) > 1:
        return operator.itemgetter(*order)
    return lambda pool: [pool[i] for i in order]
