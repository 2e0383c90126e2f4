"""Values at which XLA's arithmetic differs from PyTorch's: rounded quotients, bounds, infinities and NaN."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import pytest
import torch
import torch.nn.functional as F
from hazards.harness import CPU, XLA, compiled, same_as_eager, values
from torch import Tensor

# Functions of this file: one of PyTorch's own is not compiled when it is called directly.
Function = Callable[..., object]

_HALVES = [torch.bfloat16, torch.float16]
_FLOATS = [torch.float32, torch.float64, torch.bfloat16]
_WHOLE = [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8]
_EXACT = {"rtol": 0.0, "atol": 0.0}

_SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 0.1, -0.1, 3.0, -7.0, 100.0, 2.0**24, math.inf, -math.inf, math.nan]


def pairs(numbers: Sequence[float], dtype: torch.dtype, device: torch.device) -> list[Tensor]:
    """All pairs of `numbers`, as two tensors."""
    first = torch.tensor(numbers, dtype=dtype)
    return [side.flatten().to(device) for side in torch.meshgrid(first, first, indexing="ij")]


def same_gradients(function: Callable[..., Tensor], *arguments: Tensor) -> None:
    """The compiled function has the gradients of eager mode."""
    found = {}
    for device, called in ((CPU, function), (XLA, compiled(function))):
        leaves = [argument.clone().to(device).requires_grad_() for argument in arguments]
        called(*leaves).sum().backward()
        found[device] = [leaf.grad.cpu() for leaf in leaves if leaf.grad is not None]
    torch.testing.assert_close(found[XLA], found[CPU], equal_nan=True)


DIVISIONS: dict[str, Function] = {
    "//": lambda x, y: x // y,
    "floor": lambda x, y: torch.div(x, y, rounding_mode="floor"),
    "trunc": lambda x, y: torch.div(x, y, rounding_mode="trunc"),
    "%": lambda x, y: x % y,
    "fmod": lambda x, y: torch.fmod(x, y),
}


@pytest.mark.parametrize("dtype", _FLOATS, ids=str)
@pytest.mark.parametrize("name", DIVISIONS)
def test_floats_are_divided_as_by_pytorch(name: str, dtype: torch.dtype) -> None:
    same_as_eager(DIVISIONS[name], lambda _, device: pairs(_SPECIAL, dtype, device), rtol=1e-6, atol=0)


@pytest.mark.parametrize("dtype", _WHOLE, ids=str)
@pytest.mark.parametrize("name", DIVISIONS)
def test_integers_are_divided_exactly(name: str, dtype: torch.dtype) -> None:
    limits = torch.iinfo(dtype)
    numbers = [limits.max, limits.max - 1, limits.min + 1, limits.max // 3 + 1, 1, 3, 7, 86]
    numbers += [] if dtype == torch.uint8 else [limits.min, -1, -3, -7]
    numbers += [2**24 + 1, 2**31 + 5, 2**53 + 1, -(2**62) - 3] if dtype == torch.int64 else []

    def arguments(_: int, device: torch.device) -> list[Tensor]:
        dividend, divisor = pairs(numbers, dtype, CPU)
        # The one quotient that does not fit ends the process in eager mode.
        fits = (divisor != 0) & ~((dividend == limits.min) & (divisor == -1))
        return [dividend[fits].to(device), divisor[fits].to(device)]

    same_as_eager(DIVISIONS[name], arguments, **_EXACT)


DIVIDED_BY_NUMBERS: dict[str, Function] = {
    "// 0.1": lambda x: x // 0.1,
    "% 0.1": lambda x: x % 0.1,
    "// -3": lambda x: x // -3,
    "% -3": lambda x: x % -3,
    "7.5 //": lambda x: 7.5 // (x + 1),
    "7.5 %": lambda x: 7.5 % (x + 1),
    "trunc 3": lambda x: torch.div(x, 3, rounding_mode="trunc"),
    "// size": lambda x: x // x.shape[0],
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.uint8, *_HALVES], ids=str)
@pytest.mark.parametrize("name", DIVIDED_BY_NUMBERS)
def test_numbers_divide_as_by_pytorch(name: str, dtype: torch.dtype) -> None:
    same_as_eager(
        DIVIDED_BY_NUMBERS[name], lambda call, d: [(torch.arange(40) + call).to(dtype).to(d)], rtol=1e-3, atol=1e-6
    )


def test_sizes_that_change_divide() -> None:
    def divide(x: Tensor) -> tuple[Tensor, Tensor]:
        return x // x.shape[0], torch.arange(x.shape[0] * 2**24, x.shape[0] * 2**24 + 3, device=x.device) // 3

    for size in (3, 5, 7):
        same_as_eager(divide, lambda _, d, size=size: [torch.arange(float(size)).to(d)], dynamic=True)


def test_numbers_on_the_host_stay_there() -> None:
    def scale(x: Tensor, step: Tensor) -> tuple[Tensor, Tensor]:
        return x / (1 - 0.9**step), (step // 0.1).clamp(max=5) + torch.arange(0, 1, 0.1).max()

    same_as_eager(scale, lambda call, device: [values(3, seed=call, device=device), torch.tensor(1.0 + call)])


def test_a_number_on_the_host_divides() -> None:
    same_as_eager(
        lambda x, y: (x // y, x % y, torch.maximum(x, y)),
        lambda call, device: [values(3, seed=call, device=device), torch.tensor(0.1)],
    )


def test_division_in_place_and_its_gradient() -> None:
    def divide(x: Tensor, y: Tensor) -> Tensor:
        z = x * 1
        z %= y
        return z

    same_gradients(divide, *pairs([1.0, -1.0, 0.3, 7.0, 0.1], torch.float32, CPU))


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32], ids=str)
def test_powers_of_integers(dtype: torch.dtype) -> None:
    bases, exponents = [0, 1, -1, 2, -2, 4, 6], [0, 1, 5, 31, 63, 64, 127, 2**31 - 1, -1, -2, -7]

    def arguments(_: int, device: torch.device) -> list[Tensor]:
        grid = torch.meshgrid(torch.tensor(bases), torch.tensor(exponents), indexing="ij")
        return [side.flatten().to(dtype).to(device) for side in grid]

    same_as_eager(lambda x, y: torch.pow(x, y), arguments, **_EXACT)
    same_as_eager(lambda _, y: torch.pow(2, y), arguments, **_EXACT)


RANGES: dict[str, Function] = {
    "tenths": lambda x: torch.arange(0, 1, 0.1, device=x.device) * x,
    "down": lambda x: torch.arange(1, -1, -0.3, device=x.device) * x,
    "from": lambda x: torch.arange(0.5, 4, device=x.device) * x,
    "to": lambda x: torch.arange(4.5, device=x.device) * x,
    "half": lambda x: torch.arange(0, 1, 0.1, device=x.device, dtype=torch.bfloat16) * x,
    "whole": lambda x: torch.arange(0.5, 9.5, 1.5, device=x.device, dtype=torch.int64) * x,
    "none": lambda x: torch.arange(1.5, 1.5, 0.5, device=x.device) * x,
}


@pytest.mark.parametrize("name", RANGES)
def test_ranges_have_as_many_numbers(name: str) -> None:
    same_as_eager(RANGES[name], lambda call, device: [torch.tensor(1.0 + call).to(device)])


CHOICES: dict[str, Function] = {
    "maximum": lambda x, y: torch.maximum(x, y),
    "minimum": lambda x, y: torch.minimum(x, y),
    "fmax": lambda x, y: torch.fmax(x, y),
    "clamp": lambda x, y: torch.clamp(x, -2, 2.5),
    "clamp_min": lambda x, y: x.clamp_min(0),
    "clamp_max": lambda x, y: x.clamp(max=1),
    "clamp by tensors": lambda x, y: torch.clamp(x, y, y + 1),
    "relu6": lambda x, y: F.relu6(x),
    "threshold": lambda x, y: F.threshold(x, 0.5, 0.25),
    "nan_to_num": lambda x, y: torch.nan_to_num(x) / 2,
    "nan_to_num to": lambda x, y: torch.nan_to_num(x, 1.0, 2.0, -2.0),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", CHOICES)
def test_nan_and_infinities_go_where_pytorch_puts_them(name: str, dtype: torch.dtype) -> None:
    same_as_eager(CHOICES[name], lambda _, device: pairs(_SPECIAL, dtype, device))


@pytest.mark.parametrize("dtype", _WHOLE, ids=str)
def test_integers_are_chosen_exactly(dtype: torch.dtype) -> None:
    def choose(x: Tensor, y: Tensor) -> object:
        return torch.maximum(x, y), torch.minimum(x, y), x.clamp(2, 5), x.amax(), x.argmin(), x.sort().values

    same_as_eager(choose, lambda _, device: pairs([0, 1, 7, 100, 3], dtype, device), **_EXACT)


REDUCTIONS: dict[str, Function] = {
    "max": lambda x: x.max(),
    "min": lambda x: x.min(),
    "amax": lambda x: (x.amax(1), x.amax((0, 1)), x.amax(0, keepdim=True), x[0, 0].amax()),
    "amin": lambda x: (x.amin(1), x.amin((0, 1)), x.amin(0, keepdim=True)),
    "max of rows": lambda x: tuple(x.max(1)),
    "min of columns": lambda x: tuple(x.min(0, keepdim=True)),
    "argmax": lambda x: (x.argmax(), x.argmax(1), x.argmax(0, keepdim=True), x.argmax(keepdim=True), x[0, 0].argmax()),
    "argmin": lambda x: (x.argmin(), x.argmin(1)),
    "aminmax": lambda x: tuple(torch.aminmax(x, dim=1)),
    "sort": lambda x: x.sort(1).values,
    "sort down": lambda x: x.sort(dim=1, descending=True, stable=True).values,
    "topk": lambda x: x.topk(2).values,
    "least": lambda x: x.topk(3, largest=False).values,
    "kthvalue": lambda x: x.kthvalue(2).values,
    "median": lambda x: x.median(1).values,
    "cummax": lambda x: tuple(x.cummax(1)),
    "cummin": lambda x: tuple(x.flatten().cummin(0)),
    "softmax": lambda x: x.softmax(1),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_nan_is_found_among_numbers(name: str, dtype: torch.dtype) -> None:
    def arguments(_: int, device: torch.device) -> list[Tensor]:
        number = torch.arange(1.0, 5)
        with_nan = torch.stack([number, number.roll(1), number.flip(0), -number])
        with_nan[1, 2], with_nan[2, 0], with_nan[2, 3], with_nan[3] = math.nan, -torch.tensor(math.nan), math.nan, 7
        with_nan[3, 1] = math.inf
        return [with_nan.to(dtype).to(device)]

    same_as_eager(REDUCTIONS[name], arguments, rtol=1e-2)


def test_gradients_flow_to_the_greatest() -> None:
    def greatest(x: Tensor) -> Tensor:
        return x.max(1).values.sum() + x.amin(0).sum() + torch.maximum(x, -x).sum() + x.clamp(-1, 1).sum()

    same_gradients(greatest, values(3, 4))


@pytest.mark.parametrize("length", [1, 16, 17, 25, 100])
def test_running_maxima_of_any_length(length: int) -> None:
    same_as_eager(lambda x: tuple(x.cummax(0)), lambda call, device: [(torch.arange(float(length)) % 7).to(device)])


BOUNDED: dict[str, Callable[..., Tensor]] = {
    "relu6": lambda x: F.relu6(x),
    "hardtanh": lambda x: F.hardtanh(x),
    "hardsigmoid": lambda x: F.hardsigmoid(x),
    "logsigmoid": lambda x: F.logsigmoid(x),
    "softplus": lambda x: F.softplus(x),
}


@pytest.mark.parametrize("name", BOUNDED)
def test_gradients_at_the_bounds(name: str) -> None:
    at = [0.0, 6.0, 1.0, -1.0, 3.0, -3.0, 0.5, -math.inf, math.inf] if name == "logsigmoid" else [0.0, 6, 1, -1, 3, -3]
    same_gradients(BOUNDED[name], torch.tensor(at))
