"""Host time per call: what a caller waits for before the device has even begun."""

from __future__ import annotations

import concurrent.futures
import itertools
import multiprocessing
import statistics
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
import torch_xla
from torch import Tensor, nn

from benchmarks.models import fresh
from benchmarks.timing import OURS, THEIRS, Row, call_s, in_turns, medians, paired_ratio

FLOOR = "guards"
_COUNTS = (2, 50, 200)
_GOAL = 0.7


def _add_all(*tensors: Tensor) -> Tensor:
    total = tensors[0]
    for tensor in tensors[1:]:
        total = total + tensor
    return total


class _AddAll(nn.Module):
    """The same, with parameters: Dynamo guards on these in another way."""

    def __init__(self, count: int):
        super().__init__()
        self.tensors = nn.ParameterList(torch.randn(4) for _ in range(count))

    def forward(self, x: Tensor) -> Tensor:
        for tensor in self.tensors:
            x = x + tensor
        return x


def _call_module(module: nn.Module, x: Tensor) -> Tensor:
    output: Tensor = module(x)
    return output


def _nothing(_graph: torch.fx.GraphModule, _inputs: Sequence[Any]) -> Callable[..., Any]:
    """A backend whose graphs do nothing: what is left is Dynamo's guards, which no backend can go below."""
    return lambda *arguments: (arguments[0],)


def _measure(count: int, parameters: bool, order: Sequence[str], rounds: int) -> dict[str, list[float]]:
    """Seconds of each call, by backend, of backends that were compiled in this order."""
    tensors: list[Any] = [torch.randn(4).to(torch_xla.device()) for _ in range(1 if parameters else count)]
    arguments = [_AddAll(count - 1).to(torch_xla.device()), *tensors] if parameters else tensors
    function = _call_module if parameters else _add_all
    torch_xla.sync(wait=True)

    def call(backend: Any) -> Callable[[], float]:
        compiled = torch.compile(fresh(function), backend=backend)
        return lambda: call_s(lambda: compiled(*arguments))

    actions = {name: call(_nothing if name == FLOOR else name) for name in order}
    with torch.no_grad():
        in_turns(5, actions)
        return in_turns(rounds, actions)


def measure(rounds: int) -> Iterator[Row]:
    """A row for each number of arguments or parameters: microseconds a call.

    What a process compiles first gets the cheapest guards, by as much as a fifth at 200 arguments, because they lie
    close together in memory. So each backend is the first to be compiled in a process that is new, once.
    """
    orders = [(THEIRS, OURS, FLOOR), (OURS, THEIRS, FLOOR)]
    spawn = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=spawn, max_tasks_per_child=1) as processes:
        for count, parameters in itertools.product(_COUNTS, (False, True)):
            halves = [processes.submit(_measure, count, parameters, o, rounds // 2).result() for o in orders]
            samples = {name: [s for half in halves for s in half[name]] for name in orders[0]}
            case = f"1 argument, {count - 1} parameter{'s'[: count - 2]}" if parameters else f"{count} arguments"
            ratio = statistics.geometric_mean(paired_ratio(half) for half in halves)
            yield Row("host time per call", case, "us", medians(samples, 1e6), ratio, _GOAL)
