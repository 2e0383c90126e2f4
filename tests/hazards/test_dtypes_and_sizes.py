"""All dtypes, autocast, empty and 0-dim tensors, sizes that change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
import torch_xla
from hazards.harness import CPU, XLA, assert_same, compiled, same_as_eager, values
from torch import Tensor, nn

from xla_notebook.backend import cache

FLOATS = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
INTEGERS = (torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64)


def some(dtype: torch.dtype, device: torch.device, seed: int = 0, shape: tuple[int, ...] = (3, 4)) -> Tensor:
    if dtype == torch.bool:
        return (values(*shape, seed=seed) > 0).to(device)
    if dtype.is_complex:
        return torch.complex(values(*shape, seed=seed), values(*shape, seed=seed + 1)).to(dtype).to(device)
    if dtype in FLOATS:
        return values(*shape, seed=seed, dtype=dtype, device=device)
    return (values(*shape, seed=seed).abs() * 20).to(dtype).to(device)


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS, torch.complex64], ids=lambda d: str(d).removeprefix("torch."))
def test_arithmetic_keeps_its_type(dtype: torch.dtype) -> None:
    def function(x: Tensor, y: Tensor) -> Any:
        x.add_(y)
        y[0] = 1
        return x * y + 2, x == y, x.sum(), y.t(), x / 3, x.real.to(torch.float32)

    tolerance = 0.05 if dtype in (torch.bfloat16, torch.float16) else 1e-6 if dtype == torch.float64 else 1e-4
    same_as_eager(
        function,
        lambda call, device: (some(dtype, device, call), some(dtype, device, call + 9)),
        rtol=tolerance,
        atol=tolerance,
        calls=2,
    )


@pytest.mark.parametrize("dtype", INTEGERS, ids=lambda d: str(d).removeprefix("torch."))
def test_shifts(dtype: torch.dtype) -> None:
    def function(x: Tensor, by: Tensor) -> Any:
        return x >> 1, x << 1, x >> by, x << by, x >> 0

    def integers(call: int, device: torch.device) -> tuple[Tensor, Tensor]:
        numbers = torch.tensor([-128, -5, -1, 0, 7, 127]) + call
        return numbers.to(dtype).to(device), (torch.arange(6) % 4).to(dtype).to(device)

    same_as_eager(function, integers)


def test_booleans() -> None:
    def function(x: Tensor, y: Tensor) -> Any:
        x.logical_or_(y)
        return x & ~y, x ^ y, x.any(), y.all(1), x.sum(), torch.where(x, 1, 2), x.int()

    same_as_eager(function, lambda call, device: (some(torch.bool, device, call), some(torch.bool, device, call + 9)))


def test_precision_is_not_narrowed() -> None:
    def function(a: Tensor, b: Tensor, z: Tensor) -> Any:
        return a / 3, b * 3_000_000_007, z / 2, torch.view_as_real(z * 2), a.to(torch.float16), b // 7

    same_as_eager(
        function,
        lambda call, device: (
            some(torch.float64, device, call),
            (torch.arange(4) + call).to(device),
            some(torch.complex64, device, call),
        ),
        rtol=1e-6,
        atol=1e-9,
        probe=False,
    )


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2], ids=str)
def test_eight_bit_floats(dtype: torch.dtype) -> None:
    same_as_eager(
        lambda x: (x.to(dtype).to(torch.float32) * 2, x.to(dtype).to(torch.float32).to(dtype).to(torch.bfloat16)),
        lambda call, device: (values(3, seed=call, device=device),),
    )


def test_mixed_dtypes_and_promotion() -> None:
    def function(i: Tensor, f: Tensor, h: Tensor, b: Tensor) -> Any:
        return i + f, f * h, b + i, i * 2.5, h + 1, b * 3, torch.cat([f, h.float()]), i / i.clamp(min=1), f + b

    same_as_eager(
        function,
        lambda call, device: tuple(
            some(d, device, call) for d in (torch.int64, torch.float32, torch.bfloat16, torch.bool)
        ),
        rtol=0.02,
        atol=0.02,
    )


# Empty and 0-dim --------------------------------------------------------------------------------------


def test_empty_tensors() -> None:
    def function(x: Tensor, empty: Tensor) -> Any:
        empty.add_(1)
        return torch.cat([x, empty]), empty.sum(), x[:0], empty * 2, empty.t(), x.sum(0), empty @ x.t()

    same_as_eager(
        function, lambda call, device: (values(3, 2, seed=call, device=device), torch.zeros(0, 2, device=device))
    )


def test_only_empty_tensors() -> None:
    same_as_eager(
        lambda a, b: (a + b, a.add_(1), b.view(0)),
        lambda call, device: (torch.zeros(0, 2, device=device), torch.zeros(0, 2, device=device)),
    )


def test_a_gradient_through_nothing() -> None:
    def gradient(run: Callable[..., Tensor], device: torch.device) -> Any:
        x = values(3, 2, device=device).requires_grad_()
        y = torch.zeros(0, 2, device=device).requires_grad_()
        run(x, y).sum().backward()
        return x.grad, y.grad

    def function(x: Tensor, y: Tensor) -> Tensor:
        return torch.cat([x * 2, y.exp()]).tanh()

    assert_same(gradient(function, CPU), gradient(compiled(function), XLA))


def test_scalars_of_several_types() -> None:
    def function(step: Tensor, flag: Tensor, rate: Tensor) -> Any:
        step.add_(1)
        rate.mul_(0.5)
        return step, flag.logical_not(), torch.where(flag, rate, -rate), step.float() / 3, rate.view(1)

    same_as_eager(
        function,
        lambda call, device: (
            torch.tensor(call, device=device),
            torch.tensor(call % 2 == 0, device=device),
            torch.tensor(0.1 * (call + 1), device=device),
        ),
        calls=4,
    )


def test_scalars_change_in_place_between_calls() -> None:
    """Given a scalar argument that is counted up outside, each call sees its value."""
    function = compiled(lambda x, s: x * s)
    x, s = values(3, device=XLA), torch.tensor(0.0).to(XLA)
    for call in range(4):
        assert_same(values(3) * call, function(x, s), f"call {call}")
        s.add_(1)


# Autocast ---------------------------------------------------------------------------------------------


def test_autocast_inside() -> None:
    w = values(4, 4, seed=1, device=XLA)

    def function(x: Tensor) -> Any:
        with torch.autocast("xla", dtype=torch.bfloat16):
            y = x @ w
            return y, y.softmax(-1), (y * 2).sum()

    run = compiled(function)
    for call in range(2):
        lazy = [t.cpu() for t in function(values(3, 4, seed=call, device=XLA))]
        got = run(values(3, 4, seed=call, device=XLA))
        assert got[0].dtype == torch.bfloat16
        assert_same(lazy, list(got), f"call {call}", 2e-2, 2e-2)


def test_autocast_around_calls_and_not() -> None:
    torch.manual_seed(0)
    lazy, module = nn.Linear(4, 4), nn.Linear(4, 4)
    module.load_state_dict(lazy.state_dict())
    lazy.to(XLA), module.to(XLA)
    run = compiled(module)
    for call in range(4):
        seen = []
        for function, m in ((lazy, lazy), (run, module)):
            m.zero_grad()
            with torch.autocast("xla", dtype=torch.bfloat16, enabled=call % 2 == 0):
                y = function(values(3, 4, seed=call, device=XLA))
            assert y.dtype == (torch.bfloat16 if call % 2 == 0 else torch.float32)
            y.float().pow(2).sum().backward()
            seen.append([y.detach().cpu(), m.weight.grad.cpu(), m.bias.grad.cpu()])
        assert_same(seen[0], seen[1], f"call {call}", 5e-2, 5e-2)


@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_samples_of_a_grid_in_bfloat16(mode: str) -> None:
    """The places are found in float32; the CPU's kernel, in bfloat16, finds others."""
    x, grid = values(2, 3, 6, 6).bfloat16(), values(2, 5, 4, 2, seed=1).tanh().bfloat16()
    run = compiled(lambda x, grid: F.grid_sample(x, grid, mode=mode, align_corners=True))
    want = F.grid_sample(x.float(), grid.float(), mode=mode, align_corners=True).bfloat16()
    assert_same(want, run(x.to(XLA), grid.to(XLA)).cpu(), rtol=1e-2, atol=1e-2)


def test_a_module_in_bfloat16_trains() -> None:
    torch.manual_seed(0)
    eager = nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 2)).to(torch.bfloat16)
    module = nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 2)).to(torch.bfloat16)
    module.load_state_dict(eager.state_dict())
    module.to(XLA)
    run = compiled(module)
    for call in range(2):
        eager.zero_grad(), module.zero_grad()
        x = values(5, 4, seed=call, dtype=torch.bfloat16)
        eager(x).sum().backward()
        run(x.to(XLA)).sum().backward()
        for (name, first), second in zip(eager.named_parameters(), module.parameters(), strict=True):
            assert_same(first.grad, second.grad, f"call {call}: {name}", 0.1, 0.15)


# Sizes that change ------------------------------------------------------------------------------------


def rows(call: int) -> int:
    return 3 + call % 3


DYNAMIC: dict[str, tuple[Callable[..., Any], tuple[tuple[Any, ...], ...]]] = {
    "sizes among the outputs": (
        lambda x, y: (x.shape[0], x @ y, x.shape[0] * y.shape[1], x.shape[1] + 1),
        (("n", 3), (3, "n")),
    ),
    "sizes in the arithmetic": (lambda x, y: (x * x.shape[0] + y.numel(), x.sum() / x.shape[0]), (("n", 3), ("n",))),
    "views of symbolic size": (lambda x, y: (x.view(-1), x[1:], x.t(), y[: x.shape[0] - 1]), (("n", 3), ("n",))),
    "made inside": (
        lambda x, y: (torch.arange(x.shape[0], device=x.device) + y, torch.ones_like(x).cumsum(0)),
        (("n", 3), ("n",)),
    ),
    "updates": (lambda x, y: (y.add_(x.shape[0]), x.mul_(2), x.sum() + y), (("n", 3), ("n",))),
    "a fallback": (lambda x, y: torch.median(x * 2, 0)[0].sum() + y, (("n", 3), ("n",))),
    "a fallback and updates": (
        lambda x, y: (y.add_(torch.median(x)), torch.cummin(x, 0)[0] * x.shape[0]),
        (("n", 3), ("n",)),
    ),
    "reshape and expand": (
        lambda x, y: (x.reshape(3, -1), y[None].expand(2, -1) + 1, x.repeat(2, 1)),
        (("n", 3), ("n",)),
    ),
    "attention": (lambda x, y: nn.functional.scaled_dot_product_attention(x, x, x), ((2, 2, "n", 4), ("n",))),
    "cat and pad": (lambda x, y: (torch.cat([y, y * 2]), nn.functional.pad(x, (1, 2)), x.split(2)), (("n", 3), ("n",))),
}


@pytest.mark.filterwarnings("ignore:.*place depends on sizes")  # see test_found
@pytest.mark.parametrize("name", DYNAMIC)
@pytest.mark.parametrize("dynamic", [True, None])
def test_dynamic(name: str, dynamic: bool | None) -> None:
    function, shapes = DYNAMIC[name]

    def arguments(call: int, device: torch.device) -> tuple[Tensor, ...]:
        sizes = [[rows(call) if n == "n" else n for n in shape] for shape in shapes]
        return tuple(values(*shape, seed=call + i, device=device) for i, shape in enumerate(sizes))

    same_as_eager(function, arguments, calls=5, dynamic=dynamic, probe=name != "views of symbolic size")


@pytest.mark.parametrize("fallback", [False, True])
def test_mark_dynamic(fallback: bool) -> None:
    function = compiled(lambda x: (torch.median(x) if fallback else x.mean()) + x * x.shape[0])
    for call in range(4):
        x = values(rows(call), 3, seed=call)
        y = x.to(XLA)
        torch._dynamo.mark_dynamic(y, 0)
        assert_same((torch.median(x) if fallback else x.mean()) + x * x.shape[0], function(y), f"call {call}")


NORMS: dict[str, tuple[Callable[[], nn.Module], tuple[Any, ...]]] = {
    "LayerNorm": (lambda: nn.LayerNorm(4), ("n", 4)),
    "LayerNorm without weights": (lambda: nn.LayerNorm(4, elementwise_affine=False), ("n", 2, 4)),
    "GroupNorm": (lambda: nn.GroupNorm(2, 4), ("n", 4, 3)),
    "GroupNorm over a symbolic size": (lambda: nn.GroupNorm(2, 4), (2, 4, "n")),
    "RMSNorm": (lambda: nn.RMSNorm(4), ("n", 4)),
    "Linear": (lambda: nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 4)), ("n", 4)),
    "Embedding": (lambda: nn.Sequential(nn.Linear(4, 4), nn.Softmax(-1)), ("n", 4)),
    "Conv1d": (lambda: nn.Conv1d(4, 2, 2), (2, 4, "n")),
    "TransformerEncoderLayer": (lambda: nn.TransformerEncoderLayer(4, 1, 4, 0.0, batch_first=True), (2, "n", 4)),
}


@pytest.mark.parametrize("dynamic", [True, None])
def test_gradients_with_numbers_made_of_sizes(dynamic: bool | None) -> None:
    def function(x: Tensor) -> Tensor:
        n = x.shape[0]
        return ((x * (n * 0.5 - 0.5)).sin() * x / n**0.5 + x.numel() * 0.25).mean(0)

    run = compiled(function, dynamic=dynamic, fullgraph=True)
    for rows in (3, 4, 5):
        want, got = (values(rows, 2, device=device).requires_grad_() for device in (CPU, XLA))
        expected, result = function(want), run(got)
        expected.sum().backward()
        result.sum().backward()
        assert_same((expected, want.grad), (result, got.grad))


@pytest.mark.parametrize("name", NORMS)
def test_modules_with_dynamic_sizes(name: str) -> None:
    """Outputs and gradients for each length, in training."""
    make, shape = NORMS[name]
    torch.manual_seed(0)
    eager, module = make(), make()
    module.load_state_dict(eager.state_dict())
    module.to(XLA)
    run = compiled(module, dynamic=True)
    for call in range(3):
        sizes = [rows(call) if n == "n" else n for n in shape]
        seen = []
        for m, function, device in ((eager, eager, CPU), (module, run, XLA)):
            m.zero_grad()
            x = values(*sizes, seed=call, device=device).requires_grad_()
            y = function(x)
            y.backward(values(*y.shape, seed=50, device=device))
            seen.append([y, x.grad, [p.grad for p in m.parameters()]])
        assert_same(seen[0], seen[1], f"call {call}", 1e-3, 1e-4)


def test_a_revisited_size_compiles_nothing() -> None:
    function = compiled(lambda x: (x * 3).sum(0) + 1, dynamic=True)
    for call in range(3):
        function(values(rows(call), 2, device=XLA))
    torch_xla.sync()
    before = len(cache.graphs()), _compilations()
    for call in range(6):
        x = values(rows(call), 2, seed=call)
        assert_same((x * 3).sum(0) + 1, function(x.to(XLA)), f"call {call}")
    assert (len(cache.graphs()), _compilations()) == before


def _compilations() -> int:
    from xla_notebook.backend import runtime

    return runtime.compilations()


# Functions of floats, called on integers and booleans ---------------------------------------------------

OF_FLOATS = (
    "acos asin atan sinh cosh asinh acosh exp expm1 log1p sqrt rsqrt reciprocal sigmoid tanh erf erfc erfinv cos isnan"
    " isinf isneginf isposinf"
).split()


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int64], ids=str)
def test_functions_of_floats_take_integers(dtype: torch.dtype) -> None:
    def function(x: Tensor) -> list[Tensor]:
        return [getattr(x, name)() for name in OF_FLOATS] + [torch.atan2(x, x), 2 / (x + 1), x.logsumexp(1)]

    same_as_eager(function, lambda call, device: [values(3, 4, seed=call).abs().to(dtype).to(device)])


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int32, torch.int64], ids=str)
def test_a_trace_is_wide_enough(dtype: torch.dtype) -> None:
    def matrix(call: int, device: torch.device) -> list[Tensor]:
        return [torch.full((3, 3), 100 + call, dtype=dtype, device=device)]

    same_as_eager(lambda x: x.trace(), matrix)
