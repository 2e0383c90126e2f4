"""Paired measurements: what is compared takes turns, so that a change in the machine's load hits all alike."""

from __future__ import annotations

import contextlib
import dataclasses
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from unittest import mock

import torch_xla.core.xla_model as xm
import torch_xla.debug.metrics as metrics

OURS = "xla_notebook"
THEIRS = "openxla"

# Long enough for the caches to hold something else by then, as they do between two calls of a real program.
_PAUSE_S = 0.001


@dataclasses.dataclass(frozen=True)
class Row:
    """One line of the table: a figure for each of the compared, and ours relative to upstream's (or to the goal).

    `goal` is the most that `ratio` may be; None if the line is for information.
    """

    question: str
    case: str
    unit: str
    figures: Mapping[str, float]
    ratio: float | None = None
    goal: float | None = None


def in_turns(rounds: int, actions: Mapping[str, Callable[[], float]]) -> dict[str, list[float]]:
    """Call each action once a round, in an order that rotates, and collect what they return."""
    samples: dict[str, list[float]] = {name: [] for name in actions}
    names = list(actions)
    for turn in range(rounds):
        first = turn % len(names)
        for name in names[first:] + names[:first]:
            samples[name].append(actions[name]())
    return samples


def medians(samples: Mapping[str, Sequence[float]], scale: float = 1.0) -> dict[str, float]:
    """The median of each, times `scale`."""
    return {name: statistics.median(values) * scale for name, values in samples.items()}


def paired_ratio(samples: Mapping[str, Sequence[float]], base: str = THEIRS) -> float:
    """The median of ours over the base's (upstream's), each pair being of one round."""
    return statistics.median(a / b for a, b in zip(samples[OURS], samples[base], strict=True))


def call_s(function: Callable[[], object]) -> float:
    """Seconds until `function` returns, begun on an idle device. Its result is not awaited."""
    xm.wait_device_ops()
    time.sleep(_PAUSE_S)
    start = time.perf_counter()
    result = function()
    seconds = time.perf_counter() - start
    del result
    return seconds


def finished_s(function: Callable[[], object]) -> float:
    """Seconds until the device has finished what `function` asked for, begun on an idle device."""
    xm.wait_device_ops()
    start = time.perf_counter()
    result = function()
    xm.wait_device_ops()
    seconds = time.perf_counter() - start
    del result
    return seconds


@contextlib.contextmanager
def seconds_in(owner: object, method: str) -> Iterator[list[float]]:
    """The seconds of each call of a method of `owner`, a class or an instance, while the block runs."""
    seconds: list[float] = []
    original = getattr(owner, method)

    def timed(*args: Any) -> None:
        started = time.perf_counter()
        original(*args)
        seconds.append(time.perf_counter() - started)

    with mock.patch.object(owner, method, timed):
        yield seconds


def xla_compile_s() -> float:
    """Seconds that XLA has spent compiling so far in this process."""
    data = metrics.metric_data("CompileTime")
    return data[1] / 1e9 if data else 0.0


def executions() -> int:
    """How many graphs the device has run so far, cached or not."""
    xm.wait_device_ops()
    data = metrics.metric_data("ExecuteTime")
    return int(data[0]) if data else 0


def cached_runs() -> int:
    """How many of the executions were runs of a Dynamo backend's cached graph."""
    data = metrics.metric_data("RunCachedGraphInputData")
    return int(data[0]) if data else 0


def counter(name: str) -> int:
    """A torch_xla counter; 0 if it was never raised."""
    return int(metrics.counter_value(name) or 0)
