"""What a warm-up (trace and compile, without the run that follows) does on the device.

The CPU device has no memory figures, and torch_xla counts the buffers that are made but not those that are
freed. So this counts the buffers made, which is the most that there can be at any time, and the tensor objects
that are still alive when the warm-up is over, which is the most that it adds for good (several may share a
buffer). An execution is the materialization of arguments that came pending, such as the gradient of the loss.
"""

from __future__ import annotations

import collections
import contextlib
import gc
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import torch
import torch_xla
import torch_xla.core.dynamo_bridge as bridge
import torch_xla.debug.metrics as metrics

from benchmarks.models import MODELS, Inference, Make, Training
from benchmarks.timing import OURS, THEIRS, Row, counter, executions
from xla_notebook.backend.cache import SegmentGraphs

_clear_counters: Callable[[], None] = metrics.clear_counters
_COUNTERS = ("CreateDataHandles", "CreateXlaTensor", "DestroyXlaTensor")


class _Count:
    """Sums up what happens on the device in calls of functions that it watches."""

    def __init__(self) -> None:
        self.totals: collections.Counter[str] = collections.Counter()
        self._cleared: collections.Counter[str] = collections.Counter()

    def _now(self) -> collections.Counter[str]:
        gc.collect()
        made, created, destroyed = (self._cleared[name] + counter(name) for name in _COUNTERS)
        figures = {"buffers made": made, "tensors kept": created - destroyed, "executions": executions()}
        return collections.Counter(figures)

    def clear_counters(self) -> None:
        """In the place of torch_xla's: upstream's bridge clears the counters of the whole process."""
        for name in _COUNTERS:
            self._cleared[name] += counter(name)
        _clear_counters()

    def watched(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            before = self._now()
            result = function(*args, **kwargs)
            after = self._now()
            after.subtract(before)
            self.totals.update(after)
            return result

        return call


@contextlib.contextmanager
def _warm_ups_counted() -> Iterator[_Count]:
    count = _Count()
    with (
        mock.patch.object(metrics, "clear_counters", count.clear_counters),
        mock.patch.object(bridge, "extract_compiled_graph", count.watched(bridge.extract_compiled_graph)),
        mock.patch.object(SegmentGraphs, "_trace", count.watched(SegmentGraphs._trace)),
    ):
        yield count


def _warm_up(work: type[Inference | Training], make: Make, backend: str) -> _Count:
    torch._dynamo.reset()
    task = work(make, 2, torch_xla.device(), backend)
    torch_xla.sync(wait=True)
    with _warm_ups_counted() as count:
        task.step()
    return count


def measure() -> Iterator[Row]:
    """Three rows for each model: what the warm-ups of a training step's graphs did."""
    for name, make in MODELS.items():
        counts = {backend: _warm_up(Training, make, backend) for backend in (THEIRS, OURS)}
        for what in ("buffers made", "tensors kept", "executions"):
            figures = {backend: count.totals[what] for backend, count in counts.items()}
            yield Row(f"warm-up: {what}", f"{name}, training", "", figures)
