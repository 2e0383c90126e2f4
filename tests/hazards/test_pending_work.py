"""Pending work around a call: it keeps its meaning, and no more of it runs than the call needs."""

from __future__ import annotations

from typing import Any

import torch
import torch_xla
import torch_xla.debug.metrics as metrics
from hazards.harness import XLA, assert_same, compiled, counter, executions, pending, same_as_eager, settle, values
from torch import Tensor

from xla_notebook.backend import runtime


def one(call: int, device: torch.device) -> tuple[Tensor]:
    return (values(3, 4, seed=call, device=device),)


def test_pending_work_that_reads_an_arguments_old_value() -> None:
    """Given work that waits to read x, an in-place update of x that waits too is run without donating x."""
    function = compiled(lambda x: x * 3)
    function(values(4, device=XLA))
    x = values(4, seed=1, device=XLA)
    torch_xla.sync()
    doubled = x * 2
    x.add_(1)
    assert_same((values(4, seed=1) + 1) * 3, function(x), "output")
    assert_same(values(4, seed=1) * 2, doubled, "work that read the old value")
    assert_same(values(4, seed=1) + 1, x, "argument")


def test_unrelated_pending_work_stays_pending() -> None:
    x, y = values(4, device=XLA), values(4, seed=1, device=XLA)
    settle()
    unrelated = y * 5
    before = executions()
    result = compiled(lambda x: x + 1)(x)
    assert executions() == before + 1
    assert pending(unrelated, result) == [True, False]
    assert_same(values(4, seed=1) * 5, unrelated)


def test_a_step_barrier_between_two_calls() -> None:
    def between(_call: int, _state: Any) -> None:
        torch_xla.sync()

    same_as_eager(
        lambda state, a: (state.add_(a), state * 2),
        one,
        state=lambda device: torch.zeros(3, 4, device=device),
        between=between,
        calls=4,
        probe=False,
    )


def test_pending_arguments_are_counted_as_upstream_counts_them() -> None:
    function = compiled(lambda x: x * 3)
    function(values(4, device=XLA))
    before = counter("DynamoSyncInputExecuteTime")
    function(values(4, device=XLA) + 1)
    assert counter("DynamoSyncInputExecuteTime") == before + 1


def test_arguments_that_come_pending_each_time_cost_one_execution_and_one_run() -> None:
    """Given a constant and a computed value that come pending to every call, both are computed together, by the graph
    that the first call made; runs of cached graphs are those of the function alone."""
    function = compiled(lambda x, one: x * 3 + one)
    x = values(4, device=XLA)
    settle()
    counts = []
    for call in range(4):
        runs, compiles, ran = _samples("RunCachedGraphInputData"), runtime.compilations(), executions()
        result = function(x + 1, torch.ones((), device=XLA))
        counts.append((_samples("RunCachedGraphInputData") - runs, executions() - ran))
        assert call == 0 or runtime.compilations() == compiles, f"call {call}"
        assert_same((values(4) + 1) * 3 + 1, result, f"call {call}")
    assert counts == [(1, 2)] * 4


def _samples(metric: str) -> int:
    data = metrics.metric_data(metric)
    return int(data[0]) if data else 0
