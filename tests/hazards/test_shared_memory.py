"""Arguments that share memory: twins, equal scalars, views that overlap."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hazards.harness import CPU, XLA, assert_same, compiled, same_as_eager, two, values
from torch import Tensor, nn

# Arguments that share device data --------------------------------------------------------------------


def test_a_tensor_and_its_detached_twin_then_two_tensors() -> None:
    """Given x and x.detach() in the first call, other tensors in the second are two inputs."""

    def arguments(call: int, device: torch.device) -> tuple[Tensor, Tensor]:
        a, b = two(call, device)
        return (a, a.detach()) if call == 0 else (a, b)

    same_as_eager(lambda a, b: (a * 2 + b, a - b), arguments)


def test_a_parameter_made_from_an_argument() -> None:
    def arguments(call: int, device: torch.device) -> tuple[Tensor, Tensor]:
        a, b = two(call, device)
        return nn.Parameter(a if call == 0 else b), a

    same_as_eager(lambda p, a: p * 3 - a, arguments, probe=False)


@pytest.mark.parametrize("first", [0.0, 1.0, 2.0])
def test_equal_scalars_then_different_ones(first: float) -> None:
    def arguments(call: int, device: torch.device) -> tuple[Tensor, Tensor]:
        return torch.tensor(first).to(device), torch.tensor(first + call).to(device)

    same_as_eager(lambda a, b: a * 2 + b, arguments)


@pytest.mark.parametrize("constant", [0.0, 1.0, 2.0])
def test_a_scalar_equal_to_a_constant_of_the_graph(constant: float) -> None:
    """Given s equal to the constant in the first call, another s in the second is seen."""

    def arguments(call: int, device: torch.device) -> tuple[Tensor, Tensor]:
        return values(3, seed=call, device=device), torch.tensor(constant + 3 * call).to(device)

    same_as_eager(lambda x, s: x * constant + s + torch.full((), constant, device=x.device), arguments)


def test_a_scalar_equal_to_a_closed_over_literal() -> None:
    def function(x: Tensor, s: Tensor) -> Tensor:
        return x * torch.tensor(2.0, device=x.device) + s * torch.tensor([2.0], device=x.device)

    def arguments(call: int, device: torch.device) -> tuple[Tensor, Tensor]:
        return values(3, seed=call, device=device), torch.tensor(2.0 + call).to(device)

    same_as_eager(function, arguments)


def test_shared_data_after_the_first_call() -> None:
    """Given two tensors in the first call, twins in the second give what eager mode gives."""

    def arguments(call: int, device: torch.device) -> tuple[Tensor, Tensor]:
        a, b = two(call, device)
        return (a, b) if call == 0 else (a, a.detach())

    same_as_eager(lambda a, b: a * 2 + b, arguments)


# Tied after the first call ----------------------------------------------------------------------------


class TwoNorms(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.BatchNorm1d(3), nn.BatchNorm1d(3)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.first(x))  # type: ignore[no-any-return]


class TwoUpdates(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(3, 3), nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            self.first.weight.add_(1)
            self.second.weight.mul_(2)
        return self.second(self.first(x))  # type: ignore[no-any-return]


def ties_modules(module: nn.Module) -> None:
    module.second = module.first


def ties_weights(module: nn.Module) -> None:
    module.second.weight = module.first.weight


def ties_a_buffer(module: nn.Module) -> None:
    module.second.running_mean = module.first.running_mean


def ties_what_is_read_only(module: nn.Module) -> None:
    module.second.bias = module.first.bias


@pytest.mark.parametrize(
    ("kind", "tie"),
    [
        (TwoNorms, ties_modules),
        (TwoNorms, ties_weights),
        (TwoNorms, ties_a_buffer),
        (TwoUpdates, ties_modules),
        (TwoUpdates, ties_weights),
        (TwoUpdates, ties_what_is_read_only),
    ],
)
def test_what_is_tied_after_the_first_call_is_compiled_as_one(
    kind: Callable[[], nn.Module], tie: Callable[[nn.Module], None]
) -> None:
    """Given two of something, then one in both places, and two again: all updates are kept, and nothing runs lazily."""

    def steps(device: torch.device, call: Callable[[nn.Module], Callable[[Tensor], Tensor]]) -> list[Any]:
        torch.manual_seed(0)
        module = kind().to(device)
        function, other = call(module), copy.deepcopy(module.second)
        seen = []
        for step in range(6):
            if step == 2:
                tie(module)
            if step == 4:
                module.second = other
            loss = function(values(4, 3, seed=step, device=device)).square().mean()
            loss.backward()
            seen.append((loss.detach(), [t.detach().clone() for t in module.state_dict().values()]))
        return [*seen, [p.grad for p in module.parameters()]]

    assert_same(steps(CPU, lambda module: module), steps(XLA, compiled))


def test_views_that_come_later_are_told() -> None:
    function = compiled(lambda a, b: a.add_(1) + b)
    function(values(3, device=XLA), values(3, device=XLA))
    x = values(4, device=XLA)
    with pytest.warns(UserWarning, match="some of a, b are views of one tensor"):
        function(x[:3], x[1:])
    assert_same(values(4) + torch.tensor([1.0, 1.0, 1.0, 0.0]), x.cpu())


# Overlapping views -----------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:some of .* are views of one tensor")
@pytest.mark.parametrize(
    "views",
    [
        lambda x: (x, x[1:4]),
        lambda x: (x[1:4], x),
        lambda x: (x[:3], x[2:5]),
        lambda x: (x[:3], x[3:]),
        lambda x: (x, x.detach()),
        lambda x: (x.view(2, 3)[0], x[1:4]),
        lambda x: (x, x),
    ],
    ids=["whole and part", "part and whole", "overlapping", "apart", "detached", "reshaped", "twice"],
)
@pytest.mark.parametrize("from_call", [0, 1])
def test_overlapping_views_one_updated_the_other_read(
    views: Callable[[Tensor], tuple[Tensor, Tensor]], from_call: int
) -> None:
    def function(a: Tensor, b: Tensor) -> Tensor:
        a.add_(1)
        return b * 2

    def arguments(call: int, device: torch.device) -> tuple[Tensor, Tensor]:
        a, b = views(values(6, seed=call, device=device))
        if call < from_call:
            return a.clone(), b.clone()
        return a, b

    same_as_eager(function, arguments)


@pytest.mark.parametrize("dynamic", [False, None])
def test_overlapping_views_that_are_only_read(dynamic: bool | None) -> None:
    def arguments(call: int, device: torch.device) -> tuple[Tensor, ...]:
        x = values(6, seed=call, device=device)
        return x, x[1:4], x[:3], x.view(2, 3).t()

    same_as_eager(lambda x, a, b, c: (a + b, c * x[0], b.sum()), arguments, dynamic=dynamic)


@pytest.mark.parametrize(
    "window",
    [((2, 2), (4, 1), 1), ((3,), (1,), 0), ((4,), (3,), 2), ((2, 2), (1, 6), 0), ((1,), (1,), 11), ((), (), 5)],
    ids=["with gaps", "row", "column", "transposed", "last", "one"],
)
@pytest.mark.parametrize("dynamic", [False, True])
def test_updates_through_a_window_of_memory(window: tuple[Any, ...], dynamic: bool) -> None:
    def function(x: Tensor) -> tuple[Tensor, Tensor]:
        y = x * 2
        y.as_strided(*window).mul_(10)
        y.t().as_strided(*window).add_(1)
        x.as_strided(*window).fill_(7)
        return y, y.as_strided(*window).sum()

    same_as_eager(function, lambda call, device: [values(4, 3, seed=call, device=device)], dynamic=dynamic)


def test_a_window_that_reaches_outside_of_a_view_is_refused() -> None:
    x = values(4, 3, device=XLA)
    with pytest.raises(Exception, match=r"as_strided\(\[3\], \[1\], 0\) of a view .* reaches outside of it"):
        compiled(lambda x: (x * 2)[1:].as_strided((3,), (1,), 0) + 1)(x)
    assert_same(values(4, 3), x.cpu())
