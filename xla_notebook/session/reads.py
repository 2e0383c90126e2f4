"""Sees which reads of pending tensors force XLA to execute. Installed only while someone watches.

Note [reads without frames]. A wrapper around ``Tensor.item`` would stand in the user's tracebacks, and would be
another function than the one that PyTorch knows. So a descriptor stands at the method's name: asked for by the
class it gives the method itself, and by a tensor the bound method that it would have given anyway. A weak
reference to that bound method tells when it is let go, which is when the call has ended. Whether the call
executed anything is told by torch_xla's counters. The tensor would not tell: after ``.item()`` it is as pending
as before (torch_xla 2.9 executes into a copy on the host), so that the next one executes again.
"""

from __future__ import annotations

import collections
import threading
import weakref
from collections.abc import Callable
from typing import Any

import torch

from xla_notebook.backend import barriers, observer, runtime
from xla_notebook.backend.observer import Forced
from xla_notebook.backend.program import spec_of
from xla_notebook.session.ledger import says_deleted, waits

# The methods behind what a user writes. What they call themselves on the same tensor is part of them; a formatted
# scalar (f"{loss:.2f}") is an `.item()` of PyTorch's own, and told as that.
READS = {
    "item": ".item()",
    "tolist": ".tolist()",
    "cpu": ".cpu()",
    "to": ".to()",
    "numpy": ".numpy()",
    "__bool__": "the truth value",
    "__float__": "float()",
    "__int__": "int()",
    "__index__": "use as an index",
    "__complex__": "complex()",
    "__repr__": "the printed text",
    "equal": ".equal()",
    "allclose": ".allclose()",
    "is_nonzero": ".is_nonzero()",
    "nonzero": ".nonzero()",
    "masked_select": ".masked_select()",
    "type": ".type()",
}
# Counting the operators of a graph takes longer than hashing it, and loops read the same graph again and again.
_COUNTS_KEPT = 256
_PLAIN = torch._C._disabled_torch_dispatch_impl

_lock = threading.Lock()
_watchers: set[int] = set()
_absent = object()
_before: dict[str, object] = {}


def watch(owner: object) -> None:
    """Send `Forced` reports to the backend's observers until every owner that called this called `unwatch`."""
    with _lock:
        _watchers.add(id(owner))
        if not _before:
            for name, by in READS.items():
                _before[name] = vars(torch.Tensor).get(name, _absent)
                setattr(torch.Tensor, name, _Read(getattr(torch.Tensor, name), by))


def unwatch(owner: object) -> None:
    """Undo `watch`: with the last owner, `torch.Tensor` has what it had before."""
    with _lock:
        _watchers.discard(id(owner))
        if not _watchers:
            for name, was in _before.items():
                if was is _absent:
                    delattr(torch.Tensor, name)
                else:
                    setattr(torch.Tensor, name, was)
            _before.clear()


class _Read:
    """Stands for one method of `torch.Tensor`. See Note [reads without frames]."""

    def __init__(self, method: Any, by: str) -> None:
        self._method = method
        self._by = by

    def _get(self, tensor: torch.Tensor | None, owner: type | None = None) -> Any:
        bound = self._method.__get__(tensor, owner)
        if tensor is not None and type(tensor).__torch_dispatch__ is _PLAIN:
            with torch._C.DisableTorchFunctionSubclass():
                if tensor.is_xla and id(tensor) not in _open and waits([tensor]) == [True]:  # type: ignore[attr-defined]
                    _begin(tensor, bound, self._by)
        return bound

    # Where a compiled function's own frames ask, Dynamo must compile neither this nor what it calls.
    __get__: Callable[..., Any] = torch.compiler.disable(_get)


# Reads that have begun, by the id of their tensor; weak references live no longer than someone keeps them.
_open: dict[int, weakref.ref[Any]] = {}
_op_counts: collections.OrderedDict[bytes, int] = collections.OrderedDict()


def _begin(tensor: torch.Tensor, bound: Any, by: str) -> None:
    try:
        op_count = _op_count(tensor)
    except RuntimeError as error:
        if not says_deleted(error):
            raise
        return  # the work reads a dead buffer, so the read is about to fail
    filename, line = barriers.user_line()
    spec = spec_of(tensor)
    key, before, started = id(tensor), runtime.lazy_executions(), observer.now_ns()

    def end(_bound: weakref.ref[Any]) -> None:
        ended = observer.now_ns()
        del _open[key]
        after = runtime.lazy_executions()
        if after != before:
            observer.send(Forced(by, filename, line, spec, op_count, after[1] != before[1], started, ended))

    done: Callable[[weakref.ref[Any]], None] = torch.compiler.disable(end)
    _open[key] = weakref.ref(bound, done)


def _op_count(tensor: torch.Tensor) -> int:
    key = runtime.graph_hash([tensor])
    if key not in _op_counts:
        _op_counts[key] = runtime.pending_op_count(tensor)
        if len(_op_counts) > _COUNTS_KEPT:
            _op_counts.popitem(last=False)
    return _op_counts[key]
