"""`compile` as a decorator and as a call, on the XLA device."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch_xla

from xla_notebook import compile, compiling
from xla_notebook.backend import observer


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


def test_a_module_and_its_optimizer_while_a_block_runs(x: torch.Tensor, traces: Traces) -> None:
    model = torch.nn.Linear(3, 2).to(x.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    before = model.weight.detach().cpu()
    training = compiling(model, optimizer)
    for _ in range(2):
        with training as (same, stepping):
            assert same is model
            assert stepping is optimizer
            model(x).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    assert torch.allclose(model.weight.detach().cpu(), before - 2 * 0.1 * 2)
    assert traces.count == 3
    model(x).sum().backward()
    optimizer.step()
    assert traces.count == 3
    assert "step" not in vars(optimizer)


def test_a_scheduler_made_in_the_block_still_counts_steps(x: torch.Tensor) -> None:
    model = torch.nn.Linear(3, 2).to(x.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    with compiling(optimizer):
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.5)
    model(x).sum().backward()
    optimizer.step()
    scheduler.step()
    assert optimizer.param_groups[0]["lr"] == 0.5


def test_one_function_while_a_block_runs(x: torch.Tensor, traces: Traces) -> None:
    def halved(x: torch.Tensor) -> torch.Tensor:
        return x / 2

    with compiling(halved, dynamic=False) as made:
        assert made(x).cpu().tolist() == [[0.5] * 3] * 2
    assert traces.count == 1


def test_a_block_that_fails_leaves_the_module_as_it_was(x: torch.Tensor) -> None:
    model = torch.nn.Linear(3, 2).to(x.device)
    with pytest.raises(LookupError), compiling(model):
        raise LookupError
    assert model._compiled_call_impl is None


def test_what_a_block_cannot_compile_is_refused() -> None:
    with pytest.raises(TypeError, match="takes what to compile"):
        compiling()
    with pytest.raises(TypeError, match="modules, optimizers, functions and methods, not int"):
        compiling(3)
