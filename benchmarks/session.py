"""What the session costs: a step while nobody looks, a look at the buffers, and memory after a million events.

Runs are not reported, so that a step's only reports are its step barrier's. Their time is also measured by
itself, because it is far below what two steps differ by on a busy machine.
"""

from __future__ import annotations

import gc
import statistics
import tracemalloc
from collections.abc import Callable, Iterator

import torch
import torch_xla

from benchmarks.models import Training, loss_of, mlp, transformer
from benchmarks.timing import OURS, Row, call_s, finished_s, in_turns, medians, paired_ratio, seconds_in
from xla_notebook.backend.observer import Barrier
from xla_notebook.session import Session

BARE = "no session"
_BATCH = 4
_CASE = "transformer, training step, barrier"
_GOAL = 1.005
_EVENTS = 1_000_000
_MEMORY_GOAL_NBYTES = 64 * 2**20
_LOOK_GOAL_US = 1.0  # a tensor


def _step(task: Training) -> object:
    result = task.step()
    torch_xla.sync()
    return result


def _attached(session: Session, function: Callable[[], float]) -> float:
    session.attach()
    try:
        return function()
    finally:
        session.detach()


def _report_s(session: Session, task: Training) -> float:
    """Seconds that the session takes for the reports of one step."""
    with seconds_in(session, "report") as seconds:
        _attached(session, lambda: finished_s(lambda: _step(task)))
    return sum(seconds)


def _nbytes_after(events: int) -> int:
    """Bytes that a session holds after so many events, of which none shares a line with another."""
    session = Session(live_graphs=list)
    gc.collect()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for number in range(events):
            session.report(Barrier("step barrier", f"/home/me/train_{number}.py", number, None, 0, number, number + 1))
        return tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()


def _looks(rounds: int) -> Iterator[Row]:
    """Rows: a look at a model with gradients and Adam's state, after a step and again."""
    device = torch_xla.device()
    model, x = mlp(_BATCH)
    model, x, labels = model.to(device), x.to(device), torch.arange(_BATCH).to(device)
    optimizer = torch.optim.Adam(model.parameters())
    session, namespace = Session(live_graphs=list), {"model": model, "optimizer": optimizer, "x": x, "labels": labels}
    samples: dict[str, list[float]] = {"every buffer replaced": [], "nothing changed": []}
    for _ in range(rounds):
        optimizer.zero_grad()
        loss_of(model, x, labels).backward()
        optimizer.step()
        torch_xla.sync()
        for case in samples:
            samples[case].append(call_s(lambda: session.buffers(namespace)))
    count = sum(record.tensors for record in session.buffers(namespace).buffers)
    for case, seconds in samples.items():
        a_tensor_us = statistics.median(seconds) / count * 1e6
        yield Row("a look, of each tensor", case, "us", {OURS: a_tensor_us}, a_tensor_us / _LOOK_GOAL_US, 1.0)


def measure(rounds: int) -> Iterator[Row]:
    """Rows: a step with the session on, its own work in a step, looks at the buffers, memory after many events."""
    torch._dynamo.reset()
    task, session = Training(transformer, _BATCH, torch_xla.device(), OURS), Session()
    actions = {
        OURS: lambda: _attached(session, lambda: finished_s(lambda: _step(task))),
        BARE: lambda: finished_s(lambda: _step(task)),
    }
    in_turns(5, actions)
    samples = in_turns(rounds, actions)
    yield Row("session on", _CASE, "ms", medians(samples, 1e3), paired_ratio(samples, BARE), _GOAL)
    # The mean, because the session works off many step barriers at once.
    own = statistics.mean(_report_s(session, task) for _ in range(rounds))
    share = 1 + own / statistics.median(samples[BARE])
    yield Row("session's own work", _CASE, "us", {OURS: own * 1e6}, share, _GOAL)
    yield from _looks(rounds // 10)
    nbytes = _nbytes_after(_EVENTS)
    yield Row("session's memory", "1,000,000 events", "MiB", {OURS: nbytes / 2**20}, nbytes / _MEMORY_GOAL_NBYTES, 1.0)
