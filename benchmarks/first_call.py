"""First call: what a backend adds to XLA's own compile.

Each repetition has a batch size of its own, so that XLA truly compiles, and what lies next to the compile
(lowering to HLO) is part of the figures.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import torch
import torch_xla
import torch_xla.core.dynamo_bridge as bridge

from benchmarks.models import MODELS, Inference, Make, Training
from benchmarks.timing import OURS, THEIRS, Row, in_turns, medians, paired_ratio, xla_compile_s
from xla_notebook.backend.function import CompiledFunction

_GOAL = 0.5


class _Stopwatch:
    """Sums up the time of calls, without what XLA spends compiling in them."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def timed(self, function: Callable[..., Any], *args: Any) -> Any:
        start, compiling = time.perf_counter(), xla_compile_s()
        try:
            return function(*args)
        finally:
            self.seconds += time.perf_counter() - start - (xla_compile_s() - compiling)


@contextlib.contextmanager
def _bridges_timed() -> Iterator[_Stopwatch]:
    """Time both backends from the moment in which AOTAutograd calls a graph for the first time.

    That first run is part of the time on both sides.
    """
    watch = _Stopwatch()
    extract = bridge.extract_compiled_graph
    call = CompiledFunction.__call__
    seen: set[int] = set()

    def timed_extract(module: Any, args: Any) -> Any:
        graph = watch.timed(extract, module, args)
        first = True

        def run(*arguments: Any) -> Any:
            nonlocal first
            if not first:
                return graph(*arguments)
            first = False
            return watch.timed(graph, *arguments)

        return run

    def timed_call(self: CompiledFunction, args: Any) -> Any:
        if id(self) in seen:
            return call(self, args)
        seen.add(id(self))
        return watch.timed(call, self, args)

    with (
        mock.patch.object(bridge, "extract_compiled_graph", timed_extract),
        mock.patch.object(CompiledFunction, "__call__", timed_call),
    ):
        yield watch


def _first_s(work: type[Inference | Training], make: Make, batch: int, backend: str) -> tuple[float, float]:
    """Seconds without XLA's compile of a first call: in the bridge, and as a whole."""
    torch._dynamo.reset()
    task = work(make, batch, torch_xla.device(), backend)
    torch_xla.sync(wait=True)
    whole = _Stopwatch()
    with _bridges_timed() as watch:
        whole.timed(task.step)
    torch_xla.sync(wait=True)
    return watch.seconds, whole.seconds


def measure(rounds: int) -> Iterator[Row]:
    """Two rows for each model and kind of work: milliseconds in the bridge, and of the first call as a whole."""
    for work, goal in ((Inference, _GOAL), (Training, _GOAL)):
        for name, make in MODELS.items():
            whole: dict[str, list[float]] = {OURS: [], THEIRS: []}
            batches = {backend: iter(range(2, 2 + rounds)) for backend in whole}

            def first(
                backend: str, make: Make = make, work: Any = work, whole: Any = whole, batches: Any = batches
            ) -> float:
                in_bridge, total = _first_s(work, make, next(batches[backend]), backend)
                whole[backend].append(total)
                return in_bridge

            samples = in_turns(rounds, {THEIRS: lambda: first(THEIRS), OURS: lambda: first(OURS)})
            case = f"{name}, {work.__name__.lower()}"
            yield Row("first call, bridge alone", case, "ms", medians(samples, 1e3), paired_ratio(samples), goal)
            yield Row("first call, with Dynamo", case, "ms", medians(whole, 1e3), paired_ratio(whole))
