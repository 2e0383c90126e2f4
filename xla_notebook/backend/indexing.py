"""Operators that pick elements by their places, which AOTAutograd takes apart because torch_xla's kernels are wrong.

Masks, places counted from the end, diagonals, windows of memory. Each says what is wrong without it.
`NotImplemented` leaves an operator to torch_xla.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.fx.experimental.symbolic_shapes import statically_known_true

from xla_notebook.backend.arithmetic import for_xla, left_alone

aten = torch.ops.aten

# ---- masks

MASKS = (torch.bool, torch.uint8)
"""Types of tensors that choose elements where they are used as an index; others hold places."""


def masked_put(input: Tensor, indices: Sequence[Tensor | None], values: Tensor, accumulate: bool = False) -> Any:
    """What ``x[mask] = value`` makes of `x`, if the value does not say how many elements are chosen.

    torch_xla makes places of a mask, on the host, and so does PyTorch's gradient.
    """
    chosen = [d for d, index in enumerate(indices) if index is not None]
    mask = indices[chosen[0]] if len(chosen) == 1 else None
    if mask is None or mask.dtype not in MASKS:
        return NotImplemented
    if values.dtype != input.dtype:
        # As `masked_fill` does, which the CPU takes one value for.
        if accumulate or not statically_known_true(values.numel() == 1):
            return NotImplemented
        values = values.to(input.dtype)
    behind = input.dim() - chosen[0] - mask.dim()
    if values.dim() > behind:
        front, count, back = (
            values.shape[: -behind - 1],
            values.shape[-behind - 1],
            values.shape[values.dim() - behind :],
        )
        if not statically_known_true(count == 1):
            return NotImplemented
        values = values.reshape(*front, *[1] * mask.dim(), *back)
    values = values.to(input.device).expand(input.shape)
    mask = mask.to(input.device, torch.bool)  # the CPU's may choose on a device, too
    return torch.where(mask.reshape(*mask.shape, *[1] * behind), input + values if accumulate else values, input)


def _index_put(input: Tensor, indices: Sequence[Tensor | None], values: Tensor, accumulate: bool = False) -> Any:
    updated = masked_put(input, indices, values, accumulate)
    if updated is NotImplemented and _differ(indices):
        return left_alone(aten.index_put.default, input, _of_one_type(indices), values, accumulate)
    return updated


def _masked_scatter(input: Tensor, mask: Tensor, source: Tensor) -> Any:
    """torch_xla's kernel fails if the source has more elements than there are places for."""
    places = math.prod(torch.broadcast_shapes(input.shape, mask.shape))
    if statically_known_true(source.numel() <= places):
        return NotImplemented
    return left_alone(aten.masked_scatter.default, input, mask, source.reshape(-1)[:places])


def _masked_scatter_backward(grad_output: Tensor, mask: Tensor, sizes: Sequence[int]) -> Tensor:
    """The gradients at the chosen places, one after the other: torch_xla has no kernel."""
    count = math.prod(sizes)
    chosen = mask.expand(grad_output.shape).reshape(-1)
    # What was not chosen goes behind the end.
    place = torch.where(chosen, (chosen.cumsum(0) - 1).clamp(max=count), count)
    found = grad_output.new_zeros(count + 1).index_put([place], grad_output.reshape(-1))
    return found[:count].reshape(sizes)


# ---- places of several integer types, which XLA does not join


def _index(input: Tensor, indices: Sequence[Tensor | None]) -> Any:
    return left_alone(aten.index.Tensor, input, _of_one_type(indices)) if _differ(indices) else NotImplemented


def _differ(indices: Sequence[Tensor | None]) -> bool:
    return len({index.dtype for index in indices if index is not None and index.dtype not in MASKS}) > 1


def _of_one_type(indices: Sequence[Tensor | None]) -> list[Tensor | None]:
    return [index if index is None or index.dtype in MASKS else index.long() for index in indices]


# ---- places counted from the end


def index_fill(input: Tensor, dim: int, index: Tensor, value: Any) -> Tensor:
    """torch_xla fills nothing at negative places, and PyTorch's gradient of the value needs the places' number."""
    shape = [input.shape[dim], *[1] * (input.dim() - 1 - dim % input.dim())] if input.dim() else []
    chosen = torch.zeros(shape or 1, dtype=torch.bool, device=input.device)
    chosen = aten.index_put(chosen, [index], torch.ones((), dtype=torch.bool, device=input.device))
    if not isinstance(value, Tensor):
        value = torch.full((), value, dtype=input.dtype, device=input.device)
    return torch.where(chosen.reshape(shape), value.to(input), input)


# ---- diagonals, which torch_xla takes from the first two of three dimensions wrongly


def _diagonal(input: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    return left_alone(aten.diagonal.default, input.movedim((dim1, dim2), (-2, -1)), offset, -2, -1)


def _diagonal_scatter(input: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    """One that has no elements, because it lies outside, torch_xla does not compile."""
    if 0 in src.shape:
        return input.clone()
    written = left_alone(aten.diagonal_scatter.default, input.movedim((dim1, dim2), (-2, -1)), src, offset, -2, -1)
    return written.movedim((-2, -1), (dim1, dim2))


def _diagonal_backward(grad_output: Tensor, sizes: Sequence[int], offset: int, dim1: int, dim2: int) -> Tensor:
    return torch.diagonal_scatter(grad_output.new_zeros(sizes), grad_output, offset, dim1, dim2)


# ---- windows along a dimension, for which torch_xla has no kernel


def _unfold(input: Tensor, dim: int, size: int, step: int) -> Any:
    if not input.dim():
        return NotImplemented
    count = (input.shape[dim] - size) // step + 1
    places = torch.arange(count, device=input.device).mul(step).unsqueeze(1) + torch.arange(size, device=input.device)
    return input.movedim(dim, -1)[..., places].movedim(-2, dim % input.dim())


# ---- `as_strided` and its like
#
# torch_xla's kernels take every window whose smallest stride is 1 for one without gaps:
# ``x.as_strided((2, 2), (4, 1))`` has the wrong gradient, and written to through it, `x` gets the wrong values. A
# slice's place in the memory of its base they do not know.


def _memory_and_window(
    input: Tensor, size: list[int], stride: list[int], offset: int | None
) -> tuple[Tensor, list[int], Tensor]:
    """A tensor's elements as they lie in memory, its dimensions from the outermost to the innermost there, and the
    place in that memory of each element of the window, int64[*size]."""
    order = sorted(range(input.dim()), key=lambda d: (input.stride(d), input.size(d)), reverse=True)
    inside = input.permute(order)
    first = 0 if offset is None else offset - input.storage_offset()
    last = first + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
    if not inside.is_contiguous() or first < 0 or last >= input.numel():
        raise NotImplementedError(
            f"as_strided({size}, {stride}, {offset}) of a view (shape {list(input.shape)}, strides "
            f"{list(input.stride())}, offset {input.storage_offset()}) reaches outside of it, and an XLA tensor has no "
            "memory around it; call as_strided on the tensor that the view was taken from, or index it"
        )
    window: Any = torch.zeros(size, dtype=torch.int64, device=input.device) + first
    for d, (n, step) in enumerate(zip(size, stride, strict=True)):
        window = window + (torch.arange(n, device=input.device) * step).reshape(-1, *[1] * (len(size) - d - 1))
    return inside.reshape(-1), order, window


def _as_strided(input: Tensor, size: list[int], stride: list[int], offset: int | None = None) -> Any:
    if 0 in size:
        return NotImplemented
    memory, _, window = _memory_and_window(input, size, stride, offset)
    return aten.index(memory, [window])  # a 0-dim `memory[window]` would read its value


def _as_strided_scatter(
    input: Tensor, src: Tensor, size: list[int], stride: list[int], offset: int | None = None
) -> Any:
    if 0 in size:
        return NotImplemented
    memory, order, window = _memory_and_window(input, size, stride, offset)
    written = memory.index_put([window], src.to(input.dtype)).reshape([input.size(d) for d in order])
    return written.permute([order.index(d) for d in range(input.dim())])


INDEXING = for_xla(
    {
        aten.index.Tensor: _index,
        aten.index_put.default: _index_put,
        aten.masked_scatter.default: _masked_scatter,
        aten.masked_scatter_backward.default: _masked_scatter_backward,
        aten.index_fill.int_Scalar: index_fill,
        aten.index_fill.int_Tensor: index_fill,
        aten.diagonal.default: _diagonal,
        aten.diagonal_backward.default: _diagonal_backward,
        aten.diagonal_copy.default: _diagonal,
        aten.diagonal_scatter.default: _diagonal_scatter,
        aten.unfold.default: _unfold,
        aten.as_strided.default: _as_strided,
        aten.as_strided_copy.default: _as_strided,
        aten.as_strided_scatter.default: _as_strided_scatter,
    }
)
"""By operator, what AOTAutograd puts in its place."""
