"""Whole steps in their steady state: how long, and how many graphs, executions and waits they take."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
import torch_xla

from benchmarks.models import Inference, Make, Training, mlp, resnet18, transformer
from benchmarks.timing import (
    OURS,
    THEIRS,
    Row,
    cached_runs,
    counter,
    executions,
    finished_s,
    in_turns,
    medians,
    paired_ratio,
)
from xla_notebook.backend import runtime

LAZY = "lazy"
EAGER = "eager CPU"
_BATCH = 4
_CASES: tuple[tuple[str, type[Inference | Training], Make], ...] = (
    ("transformer, training step", Training, transformer),
    ("MLP of 200 parameters, training step", Training, mlp),
    ("ResNet-18, training step", Training, resnet18),
    ("ResNet-18, inference", Inference, resnet18),
)
_MOST_STEPS = 5


def _lazily(task: Any) -> Any:
    result = task.step()
    torch_xla.sync()
    return result


def _counts(task: Inference | Training) -> dict[str, float]:
    """What one steady step does."""
    torch_xla.sync(wait=True)
    before = executions(), cached_runs(), counter("DynamoSyncInputExecuteTime")
    result = task.step()
    after = executions(), cached_runs(), counter("DynamoSyncInputExecuteTime")
    # The result is looked at for pending work, too, hence alive until here.
    waiting = runtime.anything_pending(torch_xla.device())
    del result
    executed, graphs, syncs = (b - a for a, b in zip(before, after, strict=True))
    return {"cached graphs run": graphs, "executions": executed, "input syncs": syncs, "tensors left pending": waiting}


def measure(rounds: int) -> Iterator[Row]:
    """Rows of milliseconds a step, the device's work included, and of what a step consists of."""
    device = torch_xla.device()
    for case, work, make in _CASES:
        torch._dynamo.reset()
        tasks = {THEIRS: work(make, _BATCH, device, THEIRS), OURS: work(make, _BATCH, device, OURS)}
        lazy, eager = work(make, _BATCH, device, None), work(make, _BATCH, torch.device("cpu"), None)
        actions = {name: lambda task=task: finished_s(task.step) for name, task in tasks.items()}
        actions[LAZY] = lambda task=lazy: finished_s(lambda: _lazily(task))
        actions[EAGER] = lambda task=eager: finished_s(task.step)
        in_turns(_MOST_STEPS, actions)
        samples = in_turns(rounds, actions)
        yield Row("steady step", case, "ms", medians(samples, 1e3), paired_ratio(samples), 1.0)
        if work is Training:
            counts = {name: _counts(task) for name, task in tasks.items()}
            for what in counts[OURS]:
                yield Row(what, case, "", {name: count[what] for name, count in counts.items()})
