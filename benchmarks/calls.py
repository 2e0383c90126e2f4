"""Host time per call: what a caller waits for before the device has even begun."""

from __future__ import annotations

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


def _measure(function: Callable[..., Tensor], arguments: Sequence[Any], rounds: int) -> dict[str, list[float]]:
    backends: dict[str, Any] = {THEIRS: THEIRS, OURS: OURS, FLOOR: _nothing}

    def call(backend: Any) -> Callable[[], float]:
        compiled = torch.compile(fresh(function), backend=backend)
        return lambda: call_s(lambda: compiled(*arguments))

    actions = {name: call(backend) for name, backend in backends.items()}
    with torch.no_grad():
        in_turns(5, actions)
        return in_turns(rounds, actions)


def measure(rounds: int) -> Iterator[Row]:
    """A row for each number of arguments or parameters: microseconds a call."""
    device = torch_xla.device()
    for count in _COUNTS:
        tensors = [torch.randn(4).to(device) for _ in range(count)]
        module = _AddAll(count - 1).to(device)
        torch_xla.sync(wait=True)
        cases: dict[str, tuple[Callable[..., Tensor], Sequence[Any]]] = {
            f"{count} arguments": (_add_all, tensors),
            f"1 argument, {count - 1} parameter{'s'[: count - 2]}": (_call_module, (module, tensors[0])),
        }
        for case, (function, arguments) in cases.items():
            samples = _measure(function, arguments, rounds)
            yield Row("host time per call", case, "us", medians(samples, 1e6), paired_ratio(samples), _GOAL)
