"""`compile` as a decorator and as a call, on the XLA device."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch_xla

from xla_notebook.backend import observer
from xla_notebook.notebook.decorator import compile


@compile
def doubled(x: torch.Tensor) -> torch.Tensor:
    """Twice."""
    return x * 2 + 1


@compile
class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = torch.nn.Parameter(torch.full((3,), 2.0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.scale

    def shifted(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.scale + 1


@pytest.fixture
def x() -> torch.Tensor:
    return torch.ones(2, 3).to(torch_xla.device())


class Traces(observer.Observer):
    """Counts the graphs that are traced."""

    def __init__(self) -> None:
        self.count = 0

    def report(self, report: observer.Report) -> None:
        self.count += isinstance(report, observer.GraphTraced)


@pytest.fixture
def traces() -> Iterator[Traces]:
    torch._dynamo.reset()
    counter = Traces()
    observer.attach(counter)
    yield counter
    observer.detach(counter)


def test_a_function(x: torch.Tensor, traces: Traces) -> None:
    assert doubled(x).cpu().tolist() == [[3.0] * 3] * 2
    assert traces.count == 1
    assert pickle.loads(pickle.dumps(doubled)) is doubled
    assert doubled.__doc__ == "Twice."


def test_a_function_with_options(x: torch.Tensor, traces: Traces) -> None:
    @compile(dynamic=False, fullgraph=True)
    def tripled(x: torch.Tensor) -> torch.Tensor:
        return x * 3

    assert tripled(x).cpu().tolist() == [[3.0] * 3] * 2
    assert traces.count == 1


def test_a_module_class_and_a_method(x: torch.Tensor, traces: Traces) -> None:
    net = Net().to(x.device)
    assert net(x).detach().cpu().tolist() == [[2.0] * 3] * 2
    shifted: Any = compile(net.shifted)
    assert shifted(x).detach().cpu().tolist() == [[3.0] * 3] * 2
    assert traces.count == 2


def test_a_module_in_place(x: torch.Tensor, traces: Traces) -> None:
    linear = torch.nn.Linear(3, 2).to(x.device)
    assert compile(linear) is linear
    assert linear(x).shape == (2, 2)
    assert traces.count == 1
    assert torch.equal(copy.deepcopy(linear).weight.cpu(), linear.weight.cpu())


@pytest.mark.parametrize("thing", [3, "text", int, print])
def test_anything_else_is_refused(thing: Any) -> None:
    with pytest.raises(TypeError, match="takes a function"):
        compile(thing)


def test_a_wrong_warm_up_names_the_right_one() -> None:
    with pytest.raises(ValueError, match="did you mean 'compile'"):
        compile(doubled, warm_up="compiled")
