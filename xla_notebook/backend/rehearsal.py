"""Rehearsals: every graph that a call would need is compiled, and nothing executes.

While a rehearsal is under way on a thread, a cached graph that is called compiles what it still needs and
hands out zeros of the right shapes in the place of results; pending work is compiled where it would be
executed; operators that run on the host give zeros, too; step barriers pass. What depends on a value raises
`NotReached`.

The mark is kept in PyTorch's thread-local state, which the autograd engine carries to the threads of a
backward pass, and nothing else carries on: other threads of the user's run as always.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator, Sequence

import torch
from torch.fx import Node

from xla_notebook.backend import runtime

_KEY = "xla_notebook_rehearsal"

# A loop inside of a function goes on for as long as its data lasts. Once each graph has run this often
# without a new one, there is nothing left to learn.
_ENOUGH_RUNS_OF_EACH = 8

under_way = 0
"""How many rehearsals are under way in the process: what the hot path looks at."""


class NotReached(BaseException):
    """What follows cannot be rehearsed. Not an `Exception`: the user's own handlers must not see it."""


def zeros(shape: Sequence[int], dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """A stand-in with a buffer of its own: to lazy work, tensors that share one would be one input."""
    return runtime.uploaded([torch.zeros(tuple(shape), dtype=dtype)], device)[0]


class Rehearsal:
    """One rehearsal: what it has learnt.

    `runs` counts the graphs that would have run, `new` those that were traced, `barriers` the step barriers
    that would have compiled pending work of their own.
    """

    def __init__(self) -> None:
        self.runs = 0
        self.new = 0
        self.barriers: list[tuple[str | None, int | None]] = []
        self._seen: set[int] = set()
        self._idle = 0
        self._pending_before = runtime.anything_pending(runtime.current_device())

    def traced(self) -> None:
        """Note that a graph was new."""
        self.new += 1
        self._idle = 0

    def ran(self, graph_id: int) -> None:
        """Note that a graph would have run. Raises `NotReached` when there is nothing left to learn."""
        self.runs += 1
        self._idle = self._idle + 1 if graph_id in self._seen else 0
        self._seen.add(graph_id)
        if self._idle > _ENOUGH_RUNS_OF_EACH * len(self._seen):
            raise NotReached("goes on with the same graphs")

    def step_barrier(self, device: torch.device, line: tuple[str | None, int | None]) -> None:
        """A step barrier would have run here. Its graph of pending work cannot be compiled ahead (torch_xla 2.9):
        its hash is that of a barrier, which only a barrier itself can make."""
        if runtime.anything_pending(device) > self._pending_before and line not in self.barriers:
            self.barriers.append(line)


def current() -> Rehearsal | None:
    """The rehearsal that is under way on this thread, or on the one that a backward pass works for."""
    if not under_way or not torch._C._is_key_in_tls(_KEY):
        return None
    found: Rehearsal | None = torch._C._get_obj_in_tls(_KEY)
    return found


@contextlib.contextmanager
def rehearsing() -> Iterator[Rehearsal]:
    """Rehearse what this thread calls meanwhile. The tensors that it meets must be stand-ins: their lazy work
    is dropped."""
    global under_way
    rehearsal = Rehearsal()
    under_way += 1
    _mark(rehearsal)
    try:
        yield rehearsal
    finally:
        _mark(None)
        under_way -= 1


def _mark(rehearsal: Rehearsal | None) -> None:
    # PyTorch takes over a reference that it was not given (torch 2.9, ``_stash_obj_in_tls``): without one of its own,
    # the object is freed while others hold it, and the process dies of that later, anywhere.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(rehearsal))
    torch._C._stash_obj_in_tls(_KEY, rehearsal)


# Hashes of the graphs that rehearsals compiled for `materialize`.
_compiled_ahead: set[bytes] = set()


def materialize(tensors: Sequence[torch.Tensor]) -> None:
    """`runtime.materialize`; in a rehearsal its graph is compiled, and the tensors become zeros."""
    if current() is None:
        runtime.materialize(tensors, _compiled_ahead)
        return
    lazy = runtime.pending_roots(tensors)
    if lazy:
        _compiled_ahead.add(runtime.graph_hash(lazy))
        runtime.warm_up(lazy)
    for tensor in tensors:
        runtime.replace_data(tensor, zeros(tensor.shape, tensor.dtype, tensor.device))


def host_result(node: Node) -> object:
    """What an operator on the host would give, as zeros. Raises `NotReached` if its shape depends on a value."""
    return _like(node.meta.get("val"), str(node.target))


def _like(value: object, target: str) -> object:
    if value is None:
        return None
    if isinstance(value, (list, tuple)):
        return type(value)(_like(item, target) for item in value)
    if isinstance(value, torch.Tensor) and all(type(size) is int for size in value.shape):
        if value.device.type == "xla":
            return zeros(value.shape, value.dtype, runtime.current_device())
        return torch.zeros(value.shape, dtype=value.dtype, device=value.device)
    raise NotReached(f"what {target} gives depends on a value")
