"""Keeps step barriers apart from traces and runs, and tells observers of each step barrier.

A trace works on wrappers that share the user's device data. A step barrier of another thread would
execute through those wrappers and donate the user's buffers, so the two exclude each other. The lock is
the device's: replicas in threads of one process wait for each other's step barriers.

Runs and updates of arguments hold the lock, too. A step barrier goes over every live tensor of the device
without the interpreter's lock, and `copy_` leaves a tensor for a moment with its old IR and no data: a
barrier that looks just then gives it the old data back, and the update is lost, or the process dies
(torch_xla 2.9, ``XLAGraphExecutor::CollectSyncTensors``, ``XLATensor::SetIrValue``).

A step barrier passes through Python exactly once (``torch_xla.sync``, ``xm.mark_step``,
``xm.optimizer_step`` and the parallel loader all call the same private function), which is where
`install` puts its door.
"""

from __future__ import annotations

import collections
import contextlib
import os
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

import torch

from xla_notebook.backend import observer, rehearsal, runtime

# One for each device that was traced on or had a step barrier. Re-entrant: a trace may trace within.
_locks: collections.defaultdict[str, Any] = collections.defaultdict(threading.RLock)
_STEP_BARRIERS = ("_xla_step_marker", "_xla_sync_live_tensors")

# Counts the step barriers of the process. A graph compares it with the count at its last check to know
# whether any of its saved buffers may have been donated since, at the cost of one integer comparison.
count = 0

# Where the last step barrier was called: the first suspect when a buffer turns out to be dead.
last_line: tuple[str | None, int | None] = (None, None)

# torch_xla names the cause of a compile from the Python frames above the barrier and expects its own
# `sync` to be the first (csrc/debug_util.cpp). With its debug report on, our frame must not be there.
_REPORTS_FRAMES = any(os.environ.get(name, "0") not in ("", "0") for name in ("PT_XLA_DEBUG", "PT_XLA_DEBUG_LEVEL"))

# torch_xla's own functions, by name, while `install` has put its door before them.
_originals: dict[str, Callable[..., Any]] = {}
_needed = False
_installing = threading.Lock()


def excluded(device: torch.device) -> contextlib.AbstractContextManager[Any]:
    """No other thread runs a step barrier of `device` while this is held. Costs 0.1 us if it is kept.

    Nothing that might wait for another thread may run meanwhile, such as operators on the host.
    """
    lock: contextlib.AbstractContextManager[Any] = _locks[str(device)]
    return lock


def user_line() -> tuple[str | None, int | None]:
    """File and line of the nearest caller outside of torch, IPython and this package; about 1 us."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if not name.startswith(("torch", "xla_notebook", "contextlib", "IPython")):
            return frame.f_code.co_filename, frame.f_lineno
        frame = frame.f_back
    return None, None


def _guarded(barrier: Callable[..., Any]) -> Callable[..., Any]:
    def step_barrier(device: str = "", *args: Any, **kwargs: Any) -> Any:
        global count, last_line
        where = torch.device(device) if device else runtime.current_device()
        rehearsed = rehearsal.current()
        if rehearsed is not None:
            rehearsed.step_barrier(where, user_line())
            return None
        with excluded(where):
            count += 1
            last_line = user_line()
            if not observer.watching():
                return barrier(device, *args, **kwargs)
            filename, line = last_line
            watches = observer.before_barrier()
            started = observer.now_ns()
            result = barrier(device, *args, **kwargs)
            ended = observer.now_ns()
            seen = observer.after_barrier(watches) if watches else []
        observer.send(
            observer.Barrier(
                cause="step barrier",
                filename=filename,
                line=line,
                graph_id=None,
                tensors=0,
                started_ns=started,
                ended_ns=ended,
            )
        )
        for report in seen:
            observer.send(report)
        return result

    # Dynamo must break the graph here, as it does at torch_xla's own function, not look inside.
    disabled: Callable[..., Any] = torch.compiler.disable(step_barrier)
    return disabled


def install(for_graphs: bool = False) -> None:
    """Stand at the door of every step barrier from now on. Calling it again changes nothing.

    `for_graphs`: graphs will count on it, so it stays for good.
    """
    global _needed
    with _installing:
        _needed = _needed or for_graphs
        if _originals or _REPORTS_FRAMES:
            return
        for name in _STEP_BARRIERS:
            _originals[name] = runtime.wrap_private(name, _guarded)


def uninstall() -> None:
    """Leave the door, unless graphs count on it."""
    with _installing:
        if _needed:
            return
        for name, original in _originals.items():
            runtime.restore_private(name, original)
        _originals.clear()


def seen_all() -> bool:
    """Whether `count` can be trusted to count every step barrier."""
    return bool(_originals)
