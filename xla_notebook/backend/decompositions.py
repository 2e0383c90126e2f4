"""Operators that AOTAutograd takes apart before they reach torch_xla, because its kernels of them are wrong.

Each says what is wrong without it. Those of single numbers (division, bounds, NaN) are in `arithmetic`, those of
complex ones in `complex_numbers`, those that pick elements by their places in `indexing`; other kernels' faults, which
show only when they are called, in `substitutes`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch._decomp import decompositions

from xla_notebook.backend.arithmetic import ARITHMETIC
from xla_notebook.backend.complex_numbers import COMPLEX
from xla_notebook.backend.indexing import INDEXING

# Dropout under autograd. torch_xla's kernel of `native_dropout` gives a mask that says it is boolean but
# holds 0 and 1/(1-p), so `native_dropout_backward` scales twice: with p=0.5 the gradient is 4 where 2 is
# right, under every backend that goes through AOTAutograd (lazy mode takes another way).


def _dropout(input: Tensor, p: float, train: bool | None) -> tuple[Tensor, Tensor]:
    if train is False or p == 0:
        return input.clone(), torch.ones_like(input, dtype=torch.bool)
    if p == 1:
        return torch.zeros_like(input), torch.zeros_like(input, dtype=torch.bool)
    # Drawn in float32: a narrower type has too few values below p.
    mask = torch.rand_like(input, dtype=torch.float32) >= p
    return input * mask.to(input.dtype) * (1 / (1 - p)), mask


def _dropout_backward(grad_output: Tensor, mask: Tensor, scale: float) -> Tensor:
    return grad_output * mask.to(grad_output.dtype) * scale


def _copy(input: Tensor, source: Tensor, _non_blocking: bool = False) -> Any:
    """torch_xla's kernel updates the tensor that is copied to, and gives that one."""
    if input.device != source.device:
        return NotImplemented
    return source.to(input.dtype).expand(input.shape).clone()


def _batch_norm_backward(*args: Any) -> Any:
    """In evaluation torch_xla's kernel fails for want of a batch mean; in training it is left alone."""
    train = args[7]
    return NotImplemented if train else decompositions.native_batch_norm_backward(*args)


def _norm(operator: Callable[..., Tensor]) -> Callable[..., Any]:
    """torch_xla's `norm` is wrong for an infinite p, where its `vector_norm` is right, and for complex numbers."""

    def decomposed(input: Tensor, p: float | None = 2, *args: Any) -> Any:
        if input.is_complex():
            return operator(input.abs(), p, *args)
        return torch.linalg.vector_norm(input, p, *args) if p in (math.inf, -math.inf) else NotImplemented

    return decomposed


def _count_nonzero(input: Tensor, dim: Any = None) -> Tensor:
    """torch_xla's kernel gives the wrong shape for a dimension."""
    return (input != 0).sum(dim=dim)


def _logaddexp(a: Tensor, b: Tensor) -> Any:
    """A scalar of the CPU may take part."""
    device = b.device if a.device.type == "cpu" else a.device
    return torch._refs.logaddexp(a.to(device), b.to(device))


def _slogdet(matrix: Tensor) -> Any:
    """torch_xla's kernel gives no LU factors, which the gradient needs (of ``logdet``, too)."""
    if not torch.is_grad_enabled():
        return NotImplemented
    # Of the transpose where PyTorch's own kernel takes that, because the gradient's formula counts on it.
    transposed = matrix.is_contiguous() and not matrix.is_complex()
    factors, pivots, _ = torch.linalg.lu_factor_ex(matrix.mT if transposed else matrix)
    diagonal = factors.diagonal(dim1=-2, dim2=-1)
    swaps = (pivots != torch.arange(1, matrix.shape[-1] + 1, device=matrix.device)).sum(-1)
    return diagonal.sgn().prod(-1) * (1 - 2 * (swaps % 2)), diagonal.abs().log().sum(-1), factors, pivots


def is_exact(tensor: Tensor) -> bool:
    """Whether it holds integers or booleans."""
    return not (tensor.is_floating_point() or tensor.is_complex())


def _of_floats_only(operator: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Any]:
    """torch_xla finds infinities among integers and booleans, and refuses to look for NaN there and in complex ones."""

    def decomposed(input: Tensor) -> Any:
        if is_exact(input):
            return torch.zeros_like(input, dtype=torch.bool)
        return operator(torch.view_as_real(input)).any(-1) if input.is_complex() else NotImplemented

    return decomposed


def _logsumexp(input: Tensor, dim: list[int], keepdim: bool = False) -> Any:
    """torch_xla refuses integers, booleans and complex numbers."""
    if input.is_complex():
        greatest = input.real.amax(dim, keepdim=True)
        greatest = torch.where(greatest.isinf(), 0, greatest)
        total = (input - greatest).exp().sum(dim, keepdim=True).log() + greatest
        return total if keepdim else total.squeeze(dim)
    if not is_exact(input):
        return NotImplemented
    return input.to(torch.get_default_dtype()).logsumexp(dim, keepdim)


# Average pooling with a divisor of the user's: torch_xla divides by the number of elements in the window.


def _padded_for(
    input: Tensor, kernel: list[int], stride: list[int], padding: list[int], ceil: bool
) -> tuple[list[int], list[int], list[int]]:
    """Kernel and stride of each dimension, and what `pad` has to add so that all windows are whole."""
    n = input.dim() - 2 if input.dim() > len(kernel) + 1 else input.dim() - 1
    kernel, stride, padding = (list(v) * n if len(v) == 1 else list(v) for v in (kernel, stride or kernel, padding))
    pads: list[int] = []
    for size, k, step, p in zip(input.shape[-n:], kernel, stride, padding, strict=True):
        windows = (size + 2 * p - k + (step - 1 if ceil else 0)) // step + 1
        if ceil and (windows - 1) * step >= size + p:
            windows -= 1  # it would begin in the padding on the right
        pads = [p, max((windows - 1) * step + k - size - p, p), *pads]
    return kernel, stride, pads


def _avg_pool(pool: Callable[..., Tensor]) -> Callable[..., Any]:
    def decomposed(
        input: Tensor,
        kernel_size: list[int],
        stride: list[int] = (),  # type: ignore[assignment]
        padding: list[int] = (0,),  # type: ignore[assignment]
        ceil_mode: bool = False,
        _count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> Any:
        if divisor_override is None:
            return NotImplemented
        kernel, stride, pads = _padded_for(input, kernel_size, stride, padding, ceil_mode)
        if input.is_floating_point():
            return pool(F.pad(input, pads), kernel, stride) * (math.prod(kernel) / divisor_override)
        total = (pool(F.pad(input.double(), pads), kernel, stride) * math.prod(kernel)).round()
        return total.div(divisor_override, rounding_mode="trunc").to(input.dtype)

    return decomposed


def _avg_pool_backward(backward: Callable[..., Tensor]) -> Callable[..., Any]:
    def decomposed(
        grad_output: Tensor,
        input: Tensor,
        kernel_size: list[int],
        stride: list[int],
        padding: list[int],
        ceil_mode: bool,
        _count_include_pad: bool,
        divisor_override: int | None,
    ) -> Any:
        if divisor_override is None:
            return NotImplemented
        kernel, stride, pads = _padded_for(input, kernel_size, stride, padding, ceil_mode)
        grad_output = grad_output * (math.prod(kernel) / divisor_override)
        grad = backward(grad_output, F.pad(input, pads), kernel, stride, [0] * len(kernel), False, True, None)
        return F.pad(grad, [-pad for pad in pads])

    return decomposed


DECOMPOSITIONS: dict[Any, Callable[..., Any]] = {
    **ARITHMETIC,
    **COMPLEX,
    **INDEXING,
    torch.ops.aten._linalg_slogdet.default: _slogdet,
    torch.ops.aten.copy.default: _copy,
    torch.ops.aten.native_dropout.default: _dropout,
    torch.ops.aten.native_dropout_backward.default: _dropout_backward,
    # torch_xla's kernel takes the input for the result, which is right only where the two agree in sign.
    torch.ops.aten.elu_backward.default: decompositions.elu_backward,
    torch.ops.aten.native_batch_norm_backward.default: _batch_norm_backward,
    torch.ops.aten.count_nonzero.default: _count_nonzero,
    torch.ops.aten.count_nonzero.dim_IntList: _count_nonzero,
    # torch_xla's kernels divide, which rounds negative numbers the other way, and give 0 for a tensor of shifts.
    torch.ops.aten.__rshift__.Scalar: torch.ops.aten.bitwise_right_shift.Tensor_Scalar,
    torch.ops.aten.__rshift__.Tensor: torch.ops.aten.bitwise_right_shift.Tensor,
    torch.ops.aten.__lshift__.Scalar: torch.ops.aten.bitwise_left_shift.Tensor_Scalar,
    torch.ops.aten.__lshift__.Tensor: torch.ops.aten.bitwise_left_shift.Tensor,
    torch.ops.aten.isneginf.default: _of_floats_only(torch.isneginf),
    torch.ops.aten.isposinf.default: _of_floats_only(torch.isposinf),
    torch.ops.aten.isnan.default: _of_floats_only(torch.isnan),
    torch.ops.aten.isinf.default: _of_floats_only(torch.isinf),
    torch.ops.aten.logsumexp.default: _logsumexp,
    # torch_xla sums in the matrix's own type, of which uint8 is soon too narrow.
    torch.ops.aten.trace.default: lambda matrix: matrix.diagonal().sum(),
    torch.ops.aten.avg_pool2d.default: _avg_pool(F.avg_pool2d),
    torch.ops.aten.avg_pool3d.default: _avg_pool(F.avg_pool3d),
    torch.ops.aten.avg_pool2d_backward.default: _avg_pool_backward(torch.ops.aten.avg_pool2d_backward),
    torch.ops.aten.avg_pool3d_backward.default: _avg_pool_backward(torch.ops.aten.avg_pool3d_backward),
    # torch_xla takes two of them with other factors for one, and gives the second the shape of the first.
    torch.ops.aten.pixel_shuffle.default: torch._refs.nn.functional.pixel_shuffle,
    torch.ops.aten.pixel_unshuffle.default: torch._refs.nn.functional.pixel_unshuffle,
    # torch_xla's kernel mixes the chunks up.
    torch.ops.aten._chunk_cat.default: decompositions._chunk_cat,
    # torch_xla has no kernel, so they would run on the host.
    torch.ops.aten.bucketize.Tensor: torch._refs.bucketize,
    torch.ops.aten.col2im.default: decompositions.col2im,
    torch.ops.aten.huber_loss.default: torch._refs.nn.functional.huber_loss,
    torch.ops.aten.huber_loss_backward.default: decompositions.huber_loss_backward,
    torch.ops.aten.im2col.default: decompositions.im2col,
    torch.ops.aten.linalg_cross.default: torch._refs.linalg.cross,
    torch.ops.aten.logaddexp.default: _logaddexp,
    torch.ops.aten.nansum.default: decompositions.nansum,
    torch.ops.aten.unfold_backward.default: decompositions.unfold_backward,
    torch.ops.aten.vdot.default: torch._refs.vdot,
    torch.ops.aten.norm.Scalar: _norm(torch.ops.aten.norm.Scalar),
    torch.ops.aten.norm.ScalarOpt_dim: _norm(torch.ops.aten.norm.ScalarOpt_dim),
}
