"""Arithmetic that AOTAutograd takes apart, because torch_xla or XLA computes it otherwise than PyTorch does.

Division that rounds, powers, bounds that are met exactly, and NaN. Each says what is wrong without it.
`NotImplemented` leaves an operator to torch_xla.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._decomp import decompositions
from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND, elementwise_dtypes
from torch.fx.experimental.proxy_tensor import decompose

aten = torch.ops.aten

_PLAIN_NUMBERS = (bool, int, float)
# Integers that float32, in which torch_xla divides integers, does not hold.
_WIDE = (torch.int32, torch.int64)
# XLA's power of integers looks at so many bits of the exponent.
_EXPONENT_BITS = 6


def _is_on_xla(value: object) -> bool:
    if isinstance(value, list | tuple):
        return any(map(_is_on_xla, value))
    return isinstance(value, Tensor) and value.device.type == "xla"


def for_xla(decompositions: Mapping[Any, Callable[..., Any]]) -> dict[Any, Callable[..., Any]]:
    """`decompositions`, for what is computed on an XLA device: graphs hold numbers of the host, too (Adam's step)."""

    def of_xla(decomposition: Callable[..., Any]) -> Callable[..., Any]:
        def decomposed(*args: Any, **kwargs: Any) -> Any:
            is_ours = _is_on_xla(args) or torch.device(kwargs.get("device") or "cpu").type == "xla"
            return decomposition(*args, **kwargs) if is_ours else NotImplemented

        return decomposed

    return {operator: of_xla(decomposition) for operator, decomposition in decompositions.items()}


def left_alone(operator: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """What torch_xla makes of `operator`, for a decomposition that corrects it."""
    with decompose({}):
        return operator(*args, **kwargs)


def operands(*values: Any) -> tuple[list[Tensor], torch.dtype]:
    """`values`, of which one is on XLA, as tensors in the type that PyTorch computes in, and the type of the result."""
    kind = ELEMENTWISE_TYPE_PROMOTION_KIND.DEFAULT
    computed_in, result = elementwise_dtypes(*values, type_promotion_kind=kind)
    device = next(value.device for value in values if _is_on_xla(value))
    return [
        value.to(computed_in) if isinstance(value, Tensor) else torch.full((), value, dtype=computed_in, device=device)
        for value in values
    ], result


# ---- division that rounds


def _divide(dividend: Tensor, divisor: Any, *, rounding_mode: str | None) -> Any:
    """torch_xla rounds the quotient: of floats 1 // 0.1 is 10 (PyTorch's is 9), of integers it has 24 bits."""
    (a, b), dtype = operands(dividend, divisor)
    if dtype in _WIDE and rounding_mode is not None:
        return _whole_quotient(a, b, floor=rounding_mode == "floor")
    if dtype.is_floating_point and rounding_mode == "floor":
        return _floor_quotient(a, b).to(dtype)
    return NotImplemented


def _floor_divide(dividend: Tensor, divisor: Any) -> Any:
    return _divide(dividend, divisor, rounding_mode="floor")


def _whole_quotient(a: Tensor, b: Tensor, floor: bool) -> Tensor:
    # XLA's remainder of integers is exact. What is left divides without a rest, and float64 holds 53 bits of it.
    rest = torch.fmod(a, b)
    multiple = a - rest
    quotient = (multiple.double() / b.double()).to(a.dtype)
    if a.dtype == torch.int64:
        quotient = quotient + ((multiple - quotient * b).double() / b.double()).to(a.dtype)
    return torch.where((rest != 0) & ((rest < 0) != (b < 0)), quotient - 1, quotient) if floor else quotient


def _floor_quotient(a: Tensor, b: Tensor) -> Tensor:
    # The same steps as PyTorch's, for the same roundings (c10::div_floor_floating).
    rest = torch.fmod(a, b)
    quotient = (a - rest) / b
    quotient = torch.where((rest != 0) & ((rest < 0) != (b < 0)), quotient - 1, quotient)
    floor = quotient.floor()
    floor = torch.where(quotient - floor > 0.5, floor + 1, floor)
    floor = torch.where(quotient != 0, floor, 0 * (a / b))  # a zero with the quotient's sign
    return torch.where(b != 0, floor, a / b)


def _remainder(dividend: Any, divisor: Any) -> Any:
    """torch_xla gives NaN for an infinite divisor."""
    (a, b), dtype = operands(dividend, divisor)
    if not dtype.is_floating_point:
        return NotImplemented
    if not isinstance(divisor, Tensor):
        b = b.to(dtype).to(b.dtype)  # PyTorch rounds this number, but not that of a floor division
    rest = torch.fmod(a, b)
    return torch.where((rest != 0) & ((rest < 0) != (b < 0)), rest + b, rest).to(dtype)


def _power(base: Any, exponent: Tensor) -> Any:
    """XLA's powers of integers are wrong for negative exponents, and 0 ** 64 is 1.

    An odd base to a power from 64 on, which no integer type holds, stays as XLA computes it. A complex number as base
    torch_xla refuses.
    """
    (a, b), dtype = operands(base, exponent)
    if isinstance(base, complex):
        return aten.pow.Tensor_Tensor(a, b)
    if dtype.is_floating_point or dtype.is_complex or dtype == torch.bool:
        return NotImplemented
    power = left_alone(aten.pow.Tensor_Tensor, a, b & (2**_EXPONENT_BITS - 1))
    power = torch.where((b >= 2**_EXPONENT_BITS) & (a % 2 == 0), 0, power)
    # Of a negative exponent the lower bits say whether it is even: all that counts for 1 and -1.
    return torch.where((b < 0) & ((a < -1) | (a == 0) | (a > 1)), 0, power)


def _arange(start: Any, end: Any, step: Any = 1, *, dtype: Any = None, device: Any = None, **_: Any) -> Any:
    """torch_xla counts in float32: ``arange(0, 1, 0.1)`` has eleven elements there, and ten in PyTorch."""
    numbers = (start, end, step)
    if not all(type(n) in _PLAIN_NUMBERS for n in numbers) or not any(isinstance(n, float) for n in numbers):
        return NotImplemented
    dtype = torch.get_default_dtype() if dtype is None else dtype
    count = math.ceil((end - start) / step)
    counted = torch.arange(count, dtype=torch.float64, device=device)
    return NotImplemented if count < 0 or not dtype.is_floating_point else (start + counted * step).to(dtype)


# ---- NaN


def _choose(is_better: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., Any]:
    """`maximum` or `minimum`, in which XLA's compiler for CPUs takes any number for better than NaN."""

    def decomposed(first: Tensor, second: Tensor) -> Any:
        (a, b), dtype = operands(first, second)
        if not dtype.is_floating_point:
            return NotImplemented
        return torch.where(is_better(a, b) | (a != a), a, b).to(dtype)

    return decomposed


def _clamp(input: Tensor, low: Any = None, high: Any = None) -> Any:
    """Between numbers: NaN becomes the lower one on CPUs, and infinity the greatest number of its type."""
    if not input.is_floating_point():
        return NotImplemented
    if low is not None:
        input = torch.where(input < low, low, input)
    return input if high is None else torch.where(input > high, high, input)


def _clamp_between(input: Tensor, low: Tensor | None = None, high: Tensor | None = None) -> Tensor:
    """Between tensors: torch_xla's kernels do not broadcast them."""
    if low is not None:
        input = torch.maximum(input, low)
    return input if high is None else torch.minimum(input, high)


def _extreme(operator: Callable[..., Tensor]) -> Callable[..., Any]:
    """`amax`, `amin`, and `max` and `min` of all elements: on CPUs, NaN is lost among numbers."""

    def decomposed(input: Tensor, dim: Sequence[int] = (), keepdim: bool = False) -> Any:
        if not input.is_floating_point() or not input.dim():
            return NotImplemented
        dims = list(dim) or list(range(input.dim()))
        found = left_alone(operator, input, dims, keepdim)
        return torch.where((input != input).any(dims, keepdim), math.nan, found)

    return decomposed


def _first_nan(input: Tensor, dim: int, keepdim: bool) -> tuple[Tensor, Tensor]:
    """Whether there is NaN along `dim`, and where the first is."""
    is_nan = input != input
    first = left_alone(aten.argmax.default, is_nan.to(torch.int32), dim, keepdim)
    return is_nan.any(dim, keepdim), first


def _extreme_of_dim(operator: Callable[..., tuple[Tensor, Tensor]]) -> Callable[..., Any]:
    """`max` and `min` along a dimension, with indices: NaN is lost on CPUs, and its place everywhere."""

    def decomposed(input: Tensor, dim: int, keepdim: bool = False) -> Any:
        if not input.is_floating_point() or not input.dim():
            return NotImplemented
        found, at = left_alone(operator, input, dim, keepdim)
        has_nan, first = _first_nan(input, dim, keepdim)
        return torch.where(has_nan, math.nan, found), torch.where(has_nan, first, at)

    return decomposed


def _place(operator: Callable[..., Tensor]) -> Callable[..., Any]:
    """`argmax` and `argmin`: the place of the last NaN, or of none; PyTorch's is that of the first."""

    def decomposed(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
        if not input.is_floating_point() or not input.dim():
            return NotImplemented
        if dim is None:
            shape = (1,) * input.dim() if keepdim else ()
            return decomposed(input.reshape(-1), 0).reshape(shape)
        at = left_alone(operator, input, dim, keepdim)
        has_nan, first = _first_nan(input, dim, keepdim)
        return torch.where(has_nan, first, at)

    return decomposed


def _with_nan_last(operator: Callable[..., Any]) -> Callable[..., Any]:
    """XLA sorts by the sign, too, of which NaN may have either: 0 / 0 has the one that comes first."""

    def decomposed(input: Tensor, *args: Any, **kwargs: Any) -> Any:
        if not input.is_floating_point():
            return NotImplemented
        return left_alone(operator, torch.where(input != input, math.nan, input), *args, **kwargs)

    return decomposed


def _nan_to_num(input: Tensor, nan: float | None = None, high: float | None = None, low: float | None = None) -> Any:
    """torch_xla's greatest bfloat16 is infinite."""
    if input.dtype != torch.bfloat16:
        return NotImplemented
    limits = torch.finfo(input.dtype)
    high, low = limits.max if high is None else high, limits.min if low is None else low
    input = torch.where(input == math.inf, high, torch.where(input == -math.inf, low, input))
    return torch.where(input != input, 0.0 if nan is None else nan, input)


_DECOMPOSITIONS: dict[Any, Callable[..., Any]] = {
    aten.floor_divide.default: _floor_divide,
    aten.floor_divide.Scalar: _floor_divide,
    aten.div.Tensor_mode: _divide,
    aten.div.Scalar_mode: _divide,
    aten.remainder.Tensor: _remainder,
    aten.remainder.Scalar: _remainder,
    aten.remainder.Scalar_Tensor: _remainder,
    aten.pow.Tensor_Tensor: _power,
    aten.pow.Scalar: _power,
    aten.arange.start: _arange,
    aten.arange.start_step: _arange,
    aten.maximum.default: _choose(torch.gt),
    aten.minimum.default: _choose(torch.lt),
    aten.clamp.default: _clamp,
    aten.clamp_min.default: _clamp,
    aten.clamp_max.default: lambda input, high: _clamp(input, None, high),
    aten.clamp.Tensor: _clamp_between,
    aten.clamp_min.Tensor: _clamp_between,
    aten.clamp_max.Tensor: lambda input, high: _clamp_between(input, None, high),
    aten.amax.default: _extreme(aten.amax.default),
    aten.amin.default: _extreme(aten.amin.default),
    aten.max.default: _extreme(aten.amax.default),
    aten.min.default: _extreme(aten.amin.default),
    aten.max.dim: _extreme_of_dim(aten.max.dim),
    aten.min.dim: _extreme_of_dim(aten.min.dim),
    aten.argmax.default: _place(aten.argmax.default),
    aten.argmin.default: _place(aten.argmin.default),
    aten.sort.default: _with_nan_last(aten.sort.default),
    aten.sort.stable: _with_nan_last(aten.sort.stable),
    aten.topk.default: _with_nan_last(aten.topk.default),
    aten.kthvalue.default: _with_nan_last(aten.kthvalue.default),
    aten.nan_to_num.default: _nan_to_num,
    # At the bound itself torch_xla's gradient is 1 or 1/6, and PyTorch's 0: ReLU6 of zeros.
    aten.hardtanh_backward.default: decompositions.hardtanh_backward,
    aten.hardsigmoid_backward.default: decompositions.hardsigmoid_backward,
    # NaN for -inf, also for the gradient.
    aten.log_sigmoid_forward.default: decompositions.log_sigmoid_forward,
    aten.log_sigmoid_backward.default: decompositions.log_sigmoid_backward,
    # It replaces NaN, too.
    aten.threshold.default: lambda input, threshold, value: torch.where(input <= threshold, value, input),
}

ARITHMETIC = for_xla(_DECOMPOSITIONS)
"""By operator, what AOTAutograd puts in its place."""
