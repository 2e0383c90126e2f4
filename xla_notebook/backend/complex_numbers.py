"""Operators on complex numbers that AOTAutograd takes apart, because torch_xla's kernels are made for real ones.

Each says what is wrong without it. `NotImplemented` leaves an operator to torch_xla.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from xla_notebook.backend.arithmetic import for_xla, operands

aten = torch.ops.aten


# Parts. torch_xla has kernels only of the operators that copy, and none of these: they would run on the host.


def _complex(real: Tensor, imaginary: Tensor) -> Tensor:
    made: Tensor = aten.view_as_complex_copy.default(torch.stack(torch.broadcast_tensors(real, imaginary), -1))
    return made


def _polar(size: Tensor, angle: Tensor) -> Tensor:
    return _complex(size * angle.cos(), size * angle.sin())


def _angle(input: Tensor) -> Tensor:
    if input.is_complex():
        return torch.atan2(input.imag, input.real)
    real = input if input.is_floating_point() else input.to(torch.get_default_dtype())
    return torch.where(real < 0, math.pi, torch.where(real != real, real, 0.0))


# Arithmetic.


def _is_complex(value: object) -> bool:
    return isinstance(value, complex) or (isinstance(value, Tensor) and value.is_complex())


def _divide(dividend: Tensor, divisor: Any) -> Any:
    """torch_xla takes the quotient for real: alone it is right, but not joined to another one, or over a number."""
    if not _is_complex(dividend) and not _is_complex(divisor):
        return NotImplemented
    (a, b), _ = operands(dividend, divisor)
    return a * b.reciprocal() if _is_complex(divisor) else _complex(a.real / b.real, a.imag / b.real)


def _divide_each(dividends: list[Tensor], divisor: Any) -> Any:
    if not any(map(_is_complex, dividends)) and not _is_complex(divisor):
        return NotImplemented
    return [dividend / divisor for dividend in dividends]


def _power_of_number(base: Tensor, exponent: Any) -> Any:
    """torch_xla refuses a complex exponent."""
    if not isinstance(exponent, complex):
        return NotImplemented
    (a, b), dtype = operands(base, exponent)
    return aten.pow.Tensor_Tensor(a, b).to(dtype)


def _acosh(input: Tensor) -> Any:
    """Left of 1, torch_xla gives the other branch."""
    return ((input - 1).sqrt() * (input + 1).sqrt() + input).log() if input.is_complex() else NotImplemented


def _addmm(input: Tensor, first: Tensor, second: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """torch_xla refuses complex factors."""
    if not isinstance(beta, complex) and not isinstance(alpha, complex):
        return NotImplemented
    return input * beta + first @ second * alpha


def _distance(first: Tensor, second: Tensor, p: Any = 2) -> Any:
    """torch_xla takes the powers of the complex numbers, not of their sizes."""
    if not first.is_complex() and not second.is_complex():
        return NotImplemented
    return aten.norm.Scalar((first - second).abs(), p)


def _vector_norm(input: Tensor, *args: Any, dtype: torch.dtype | None = None) -> Any:
    """torch_xla refuses it."""
    if not input.is_complex():
        return NotImplemented
    return aten.linalg_vector_norm.default(input.abs(), *args, dtype=None if dtype is None else dtype.to_real())


# Gradients, of which torch_xla leaves out the conjugate.


def _tanh_backward(gradient: Tensor, result: Tensor) -> Any:
    return gradient * (1 - result * result).conj() if result.is_complex() else NotImplemented


def _sigmoid_backward(gradient: Tensor, result: Tensor) -> Any:
    return gradient * ((1 - result) * result).conj() if result.is_complex() else NotImplemented


# torch_xla has no complex NaN, which is the mean of nothing.


def _mean(input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    if not (dtype or input.dtype).is_complex:
        return NotImplemented
    total = input.sum(dim, keepdim, dtype=dtype)
    return total / (input.numel() / max(total.numel(), 1))


def _of_variance(finish: Callable[[Tensor], Tensor], with_mean: bool = False) -> Callable[..., Any]:
    def decomposed(input: Tensor, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> Any:
        if not input.is_complex():
            return NotImplemented
        parts = (
            aten.var.correction(part, dim, correction=correction, keepdim=keepdim) for part in (input.real, input.imag)
        )
        made = finish(sum(parts))
        return (made, _mean(input, dim, keepdim)) if with_mean else made

    return decomposed


_DECOMPOSITIONS: dict[Any, Callable[..., Any]] = {
    aten.view_as_real.default: aten.view_as_real_copy.default,
    aten.view_as_complex.default: aten.view_as_complex_copy.default,
    aten.complex.default: _complex,
    aten.polar.default: _polar,
    aten.angle.default: _angle,
    aten.div.Scalar: _divide,
    aten.div.Tensor: _divide,
    aten._foreach_div.Scalar: _divide_each,
    aten.pow.Tensor_Scalar: _power_of_number,
    aten.acosh.default: _acosh,
    aten.addmm.default: _addmm,
    aten.tanh_backward.default: _tanh_backward,
    aten.sigmoid_backward.default: _sigmoid_backward,
    aten.dist.default: _distance,
    aten.linalg_vector_norm.default: _vector_norm,
    aten.mean.default: _mean,
    aten.mean.dim: _mean,
    aten.var.correction: _of_variance(lambda variance: variance),
    aten.var_mean.correction: _of_variance(lambda variance: variance, with_mean=True),
    aten.std.correction: _of_variance(torch.sqrt),
    aten.std_mean.correction: _of_variance(torch.sqrt, with_mean=True),
}

COMPLEX = for_xla(_DECOMPOSITIONS)
"""By operator, what AOTAutograd puts in its place."""
