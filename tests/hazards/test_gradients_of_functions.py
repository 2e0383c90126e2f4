"""Outputs and gradients of functions are those of eager mode."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hazards.gradients import Inputs, known, numbers, positive, same_gradients
from hazards.harness import reports, values
from torch import Tensor

from xla_notebook.backend.observer import GraphTraced

UNARY = (
    "abs acos asin atan acosh asinh atanh ceil cos cosh deg2rad digamma erf erfc erfinv exp exp2 expm1 frac lgamma log"
    " log10 log1p log2 logit neg rad2deg reciprocal rsqrt sigmoid sign sin sinc sinh sqrt square tan tanh trunc i0"
    " nan_to_num"
).split()
BINARY = (
    "add sub mul div atan2 fmod remainder maximum minimum fmax fmin pow hypot logaddexp logaddexp2 xlogy ldexp copysign"
    " float_power rsub dist"
).split()
FUNCTIONS: dict[str, tuple[Callable[..., Any], Inputs]] = {
    "sum-mean-var": (lambda x: (x.sum(0), x.mean(1), x.var(0, unbiased=False), x.var()), lambda: [values(3, 4)]),
    "std": (lambda x: x.std(1), lambda: [values(3, 4)]),
    "selu-positive": (F.selu, lambda: [positive(3, 4)]),
    "diag": (lambda x: torch.diag(x[0]), lambda: [values(3, 4)]),
    "inverse": (torch.inverse, lambda: [values(3, 3) + 4 * torch.eye(3)]),
    "svd": (lambda x: torch.svd(x)[1], lambda: [values(3, 3) + 4 * torch.eye(3)]),
    "torch-qr": (lambda x: torch.qr(x)[1].abs(), lambda: [values(3, 3) + 4 * torch.eye(3)]),
    "torch-cross": (lambda x, y: torch.cross(x, y, dim=1), lambda: [values(2, 3), values(2, 3, seed=1)]),
    "kl-div": (lambda x, y: F.kl_div(x, y, reduction="sum"), lambda: [values(3, 4), positive(3, 4)]),
    "slogdet": (lambda x: torch.linalg.slogdet(x).logabsdet, lambda: [values(3, 3) + 4 * torch.eye(3)]),
    "count-nonzero": (lambda x: x * x.count_nonzero(), lambda: [values(3, 4)]),
    "norm-infinite": (lambda x: x.norm(float("inf")), lambda: [values(3, 4)]),
    "celu-alpha": (lambda x: F.celu(x, 0.5), lambda: [values(3, 4)]),
    "complex-abs": (lambda z: z.abs() * 2, lambda: [torch.complex(values(3), values(3, seed=1))]),
    "prod": (lambda x: (x.prod(1), x.prod()), lambda: [positive(3, 4)]),
    "prod-zero": (lambda x: x.prod(1), lambda: [torch.tensor([[1.0, 0.0, 2.0], [3.0, 4.0, 5.0]])]),
    "norms": (
        lambda x: (x.norm(), x.norm(1, dim=0), torch.linalg.vector_norm(x, 3, dim=1), x.norm(3)),
        lambda: [values(3, 4)],
    ),
    "norm-of-zero": (lambda x: x.norm(), lambda: [torch.zeros(3)]),
    "logsumexp": (lambda x: (x.logsumexp(0), x.log_softmax(1)), lambda: [values(3, 4)]),
    "amax-amin": (lambda x: (x.amax(0), x.amin(1), x.max(), x.min()), lambda: [values(3, 4)]),
    "amax-ties": (lambda x: (x.amax(1), x.max()), lambda: [torch.ones(2, 3)]),
    "max-dim": (lambda x: (x.max(1).values, x.min(0).values), lambda: [values(3, 4)]),
    "max-dim-ties": (lambda x: (x.max(1).values, x.min(0).values), lambda: [torch.ones(2, 3)]),
    "maximum-ties": (lambda x, y: (torch.maximum(x, y), torch.minimum(x, y)), lambda: [torch.ones(3), torch.ones(3)]),
    "median": (lambda x: x.median(1).values, lambda: [values(3, 5)]),
    "mode": (lambda x: x.mode(1).values, lambda: [values(3, 5)]),
    "kthvalue": (lambda x: x.kthvalue(2, 1).values, lambda: [values(3, 5)]),
    "topk": (lambda x: x.topk(2, 1).values, lambda: [values(3, 5)]),
    "sort": (lambda x: x.sort(1, descending=True).values, lambda: [values(3, 5)]),
    "cumsum": (lambda x: (x.cumsum(0), x.cumsum(1)), lambda: [values(3, 4)]),
    "cumprod": (lambda x: x.cumprod(1), lambda: [positive(3, 4)]),
    "cummax": (lambda x: (x.cummax(1).values, x.cummin(0).values), lambda: [values(3, 4)]),
    "logcumsumexp": (lambda x: x.logcumsumexp(1), lambda: [values(3, 4)]),
    "clamp": (lambda x: (x.clamp(-0.5, 0.5), x.clamp(min=0.1), x.clamp_max(0.2)), lambda: [values(3, 4)]),
    "clamp-tensor": (
        lambda x, a: (x.clamp(max=a), torch.clamp(x, min=a)),
        lambda: [values(3, 4), values(3, 4, seed=1)],
    ),
    "where": (lambda x, y: torch.where(x > 0, x, y * 2), lambda: [values(3, 4), values(3, 4, seed=1)]),
    "where-nan": (lambda x: torch.where(x > 0, x.abs().sqrt(), x), lambda: [values(3, 4)]),
    "lerp": (lambda x, y: torch.lerp(x, y, 0.3), lambda: [values(3, 4), values(3, 4, seed=1)]),
    "lerp-tensor": (torch.lerp, lambda: [values(3, 4), values(3, 4, seed=1), positive(3, 4)]),
    "addcmul": (
        lambda a, b, c: (torch.addcmul(a, b, c, value=0.5), torch.addcdiv(a, b, c.exp(), value=2)),
        lambda: [values(3, 4), values(3, 4, seed=1), values(3, 4, seed=2)],
    ),
    "matmul": (
        lambda a, b: (a @ b, b.t() @ a.t()),
        lambda: [values(3, 4), values(4, 2, seed=1)],
    ),
    "matmul-batched": (torch.matmul, lambda: [values(2, 1, 3, 4), values(5, 4, 2, seed=1)]),
    "matmul-vector": (lambda a, v: (a @ v, v @ v), lambda: [values(3, 4), values(4, seed=1)]),
    "addmm": (
        lambda m, a, b: torch.addmm(m, a, b, beta=0.5, alpha=2.0),
        lambda: [values(2, 5), values(2, 3, seed=1), values(3, 5, seed=2)],
    ),
    "baddbmm": (
        lambda m, a, b: torch.baddbmm(m, a, b, beta=0.5, alpha=2.0),
        lambda: [values(2, 3, 5), values(2, 3, 4, seed=1), values(2, 4, 5, seed=2)],
    ),
    "addbmm": (torch.addbmm, lambda: [values(3, 5), values(2, 3, 4, seed=1), values(2, 4, 5, seed=2)]),
    "addmv-addr": (
        lambda m, a, v: (torch.addmv(v[:3], a, v), torch.addr(m, v[:3], v)),
        lambda: [values(3, 4), values(3, 4, seed=1), values(4, seed=2)],
    ),
    "einsum": (
        lambda a, b: torch.einsum("bij,bkj->bik", a, b),
        lambda: [values(2, 3, 4), values(2, 5, 4, seed=1)],
    ),
    "outer-kron": (lambda a, b: (torch.outer(a, b), torch.kron(a, b)), lambda: [values(3), values(4, seed=1)]),
    "cross": (lambda a, b: torch.linalg.cross(a, b), lambda: [values(2, 3), values(2, 3, seed=1)]),
    "det": (
        lambda a: (torch.linalg.inv(a), torch.det(a)),
        lambda: [values(3, 3) + 4 * torch.eye(3)],
    ),
    "solve-cholesky": (
        lambda a, b: (torch.linalg.solve(a @ a.t() + torch.eye(3).to(a.device), b), torch.linalg.cholesky(a @ a.t())),
        lambda: [values(3, 3) + 3 * torch.eye(3), values(3, 2, seed=1)],
    ),
    "triangular-solve": (
        lambda a, b: torch.linalg.solve_triangular(a.triu(), b, upper=True),
        lambda: [values(3, 3) + 3 * torch.eye(3), values(3, 2, seed=1)],
    ),
    "eigh": (lambda a: torch.linalg.eigvalsh(a + a.t()), lambda: [values(3, 3)]),
    "svdvals": (lambda a: torch.linalg.svdvals(a), lambda: [values(3, 4)]),
    "qr": (lambda a: [t.abs() for t in torch.linalg.qr(a)], lambda: [values(4, 3)]),
    "trace-tril-diag": (
        lambda a: (a.trace(), a.tril(), a.triu(1), a.diagonal(), torch.diag_embed(a)),
        lambda: [values(3, 3)],
    ),
    "index": (
        lambda x, i: (x[i], x[:, i], x[x > 10.0], x.index_select(0, i), x.take(i)),
        lambda: [values(5, 5), numbers(4)],
    ),
    "index-twice": (lambda x, i: x[i, i], lambda: [values(5, 5), torch.tensor([1, 1, 3])]),
    "index-mask": (lambda x: x[x > 0] * 2, lambda: [values(3, 4)]),
    "gather-scatter": (
        lambda x, y, i: (x.gather(1, i), x.scatter(1, i, y), x.scatter_add(1, i, y)),
        lambda: [values(3, 5), values(3, 5, seed=1), numbers(3, 5).argsort(1)],
    ),
    "scatter-add-twice": (
        lambda x, y, i: x.scatter_add(0, i, y),
        lambda: [values(5, 3), values(4, 3, seed=1), numbers(4, 3)],
    ),
    "scatter-reduce": (
        lambda x, y, i: (x.scatter_reduce(0, i, y, "amax"), x.scatter_reduce(0, i, y, "mean", include_self=False)),
        lambda: [values(5), values(4, seed=1), numbers(4)],
    ),
    "index-put": (
        lambda x, y, i: (x.index_put((i,), y), x.index_put((i,), y, accumulate=True)),
        lambda: [values(5, 3), values(3, 3, seed=1), torch.tensor([0, 3, 4])],
    ),
    "index-add-copy-fill": (
        lambda x, y, i: (x.index_add(0, i, y, alpha=2), x.index_copy(0, i, y), x.index_fill(0, i, 2.0)),
        lambda: [values(5, 3), values(3, 3, seed=1), torch.tensor([0, 3, 4])],
    ),
    "take-along-masked": (
        lambda x, y: (
            x.take_along_dim(x.argsort(1), 1),
            x.masked_fill(y > 0, 3.0),
            x.masked_scatter(y > 0, y),
            x.masked_select(y > 0),
        ),
        lambda: [values(3, 4), values(3, 4, seed=1)],
    ),
    "select-scatter": (
        lambda x, y: (x.select_scatter(y[0], 0, 1), x.slice_scatter(y, 0, 1, 3), x.diagonal_scatter(y[0, :3])),
        lambda: [values(3, 4), values(2, 4, seed=1)],
    ),
    "shapes": (
        lambda x: (x.t(), x.reshape(2, 6), x.unsqueeze(1), x.flip(0), x.roll(1, 1), x.repeat(2, 1), x.expand(2, 3, 4)),
        lambda: [values(3, 4)],
    ),
    "more-shapes": (
        lambda x: (
            x.rot90(),
            x.movedim(0, 1),
            x.repeat_interleave(2, 1),
            x.unfold(1, 2, 1),
            x.as_strided((2, 2), (1, 2)),
        ),
        lambda: [values(3, 4)],
    ),
    "windows": (
        # Computed with: a window of an argument that is returned as it is comes from torch_xla's own operator.
        lambda x: (
            x.as_strided((3,), (1,)) + 1,
            x.as_strided((2, 2), (4, 1), 1) + 1,  # with gaps
            x.as_strided((5, 3), (1, 1)) + 1,  # overlapping
            x.t().as_strided((4,), (1,)) + 1,
            x[1:].as_strided((4,), (1,)) + 1,
            torch.as_strided_scatter(x, x[0, :2] * 2, (2,), (5,), 1),
        ),
        lambda: [values(3, 4)],
    ),
    "average-with-a-divisor": (
        lambda x: (
            F.avg_pool2d(x, 3, 2, 1, True, False, 4),
            F.avg_pool2d(x[0], (3, 2), (2, 3), (1, 0), False, True, 5),
            F.avg_pool3d(x, 2, 2, 1, True, True, 3),
        ),
        lambda: [values(2, 3, 6, 7)],
    ),
    "bounds-that-broadcast": (
        lambda x, low, high: (x.clamp(low, high), x.clamp(min=low), x.clamp(max=high)),
        lambda: [values(2, 3, 4), values(3, 1, seed=1) - 1, values(4, seed=2) + 1],
    ),
    "batch-of-factors": (
        lambda x: (torch.linalg.svdvals(x), torch.linalg.pinv(x), torch.linalg.matrix_norm(x, "nuc")),
        lambda: [values(3, 5, 4)],
    ),
    "in-place-shapes": (
        lambda x: (
            (x + 1).squeeze_(),
            (x + 2).unsqueeze_(0),
            (x + 3).transpose_(0, 1),
            (x[0] + 4).t_().swapaxes_(0, 1),
        ),
        lambda: [values(3, 1, 4)],
    ),
    "quantiles": (
        lambda x: (x.quantile(0.3), x.quantile(0.5, dim=1, keepdim=True), x.nanquantile(0.7, dim=0)),
        lambda: [values(3, 4)],
    ),
    "joins": (
        lambda x, y: (
            torch.cat([x, y], 1),
            torch.stack([x, y, x]),
            torch.hstack([x, y]),
            x.chunk(2, 1),
            x.split([1, 2]),
        ),
        lambda: [values(3, 4), values(3, 4, seed=1)],
    ),
    "pad": (lambda x: (F.pad(x, (1, -1)), F.pad(x, (1, 1), "constant", 2.0)), lambda: [values(3, 4)]),
    "normalize": (lambda x: (F.normalize(x), x.renorm(2, 0, 1.0)), lambda: [values(3, 4)]),
    "cdist": (lambda x, y: (torch.cdist(x, y), torch.cdist(x, y, p=1)), lambda: [values(3, 4), values(2, 4, seed=1)]),
    "pdist": (lambda x: F.pdist(x), lambda: [values(4, 3)]),
    "gumbel-free-softmax": (lambda x: (F.softmin(x, 1), F.log_softmax(x, 0), F.softmax(x, -1)), lambda: [values(3, 4)]),
    "attention": (
        F.scaled_dot_product_attention,
        lambda: [values(2, 2, 5, 4), values(2, 2, 6, 4, seed=1), values(2, 2, 6, 4, seed=2)],
    ),
    "attention-causal": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        lambda: [values(2, 2, 5, 4), values(2, 2, 5, 4, seed=1), values(2, 2, 5, 4, seed=2)],
    ),
    "attention-mask": (
        lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, m > -0.5, scale=0.3),
        lambda: [values(2, 2, 5, 4), values(2, 2, 6, 4, seed=1), values(2, 2, 6, 4, seed=2), values(5, 6, seed=3)],
    ),
    "attention-bias": (
        F.scaled_dot_product_attention,
        lambda: [values(2, 2, 5, 4), values(2, 2, 6, 4, seed=1), values(2, 2, 6, 4, seed=2), values(5, 6, seed=3)],
    ),
    "grid-sample": (
        lambda x, g: F.grid_sample(x, g.tanh(), align_corners=False),
        lambda: [values(1, 2, 4, 4), values(1, 3, 3, 2, seed=1)],
    ),
    "grid-sample-border": (
        lambda x, g: F.grid_sample(x, g.tanh() * 1.3, padding_mode="border", align_corners=True),
        lambda: [values(1, 2, 4, 4), values(1, 3, 3, 2, seed=1)],
    ),
    "affine-grid": (lambda t: F.affine_grid(t, [1, 2, 3, 3], align_corners=False), lambda: [values(1, 2, 3)]),
    "interpolate-area": (lambda x: F.interpolate(x, size=(2, 2), mode="area"), lambda: [values(1, 2, 6, 6)]),
    "interpolate-nearest-exact": (
        lambda x: F.interpolate(x, size=(3, 5), mode="nearest-exact"),
        lambda: [values(1, 2, 6, 6)],
    ),
    "interpolate-antialias": (
        lambda x: F.interpolate(x, size=(3, 3), mode="bilinear", antialias=True),
        lambda: [values(1, 2, 6, 6)],
    ),
    "max-unpool": (
        lambda x: F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2),
        lambda: [values(1, 2, 6, 6)],
    ),
    "pool-with-indices": (
        lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True),
        lambda: [values(1, 2, 6, 6)],
    ),
    "complex": (
        lambda z: (z * z.conj()).real + torch.view_as_real(z).sum(-1),
        lambda: [torch.complex(values(3), values(3, seed=1))],
    ),
    "fft": (lambda x: torch.view_as_real(torch.fft.rfft(x)).sum(-1), lambda: [values(3, 8)]),
    "in-place-chain": (
        lambda x: x.mul(2).add_(1).mul_(3).tanh_(),
        lambda: [values(3, 4)],
    ),
    "in-place-view": (lambda x: _update_a_view(x), lambda: [values(3, 4)]),
    "detach-inside": (lambda x: x * x.detach() + (x - x.detach()).exp(), lambda: [values(3, 4)]),
    "no-grad-inside": (lambda x: _without_grad(x) * x, lambda: [values(3, 4)]),
    "straight-through": (lambda x: x + (x.round() - x).detach(), lambda: [values(3, 4)]),
    "fake-quantize": (lambda x: torch.fake_quantize_per_tensor_affine(x, 0.1, 0, -8, 7), lambda: [values(3, 4)]),
    "trapezoid-diff": (lambda x: (torch.trapezoid(x, dim=1), x.diff(dim=1), torch.cov(x)), lambda: [values(3, 4)]),
    "polygamma-mvlgamma": (lambda x: (torch.polygamma(1, x), torch.special.xlog1py(x, x)), lambda: [positive(3, 4)]),
    "searchless-bucket": (
        lambda x: x * torch.bucketize(x, torch.linspace(-1, 1, 5).to(x.device)),
        lambda: [values(3, 4)],
    ),
    "logical-mix": (
        lambda x: (x * (x > 0)).sum() + (x.isnan() | (x < 1)).float().sum() * x.sum(),
        lambda: [values(3, 4)],
    ),
    "logaddexp-scalar": (lambda x: torch.logaddexp(x, torch.tensor(0.5)), lambda: [values(3, 4)]),
    "nansum": (lambda x: (x.nansum(1), x.nanmean(0)), lambda: [values(3, 4)]),
    "glu-threshold": (lambda x: (F.glu(x), F.threshold(x, 0.1, 3.0)), lambda: [values(3, 4)]),
    "prelu-channels": (lambda x, w: F.prelu(x, w), lambda: [values(2, 3, 4), positive(3)]),
    "rrelu-eval": (lambda x: F.rrelu(x, training=False), lambda: [values(3, 4)]),
    "linear-cross-entropy": (
        lambda x, w: F.cross_entropy(x @ w.t(), torch.tensor([0, 2, 1], device=x.device)),
        lambda: [values(3, 4), values(5, 4, seed=1)],
    ),
    "unique-free-one-hot": (lambda x, i: x[:, None] * F.one_hot(i, 5), lambda: [values(4), numbers(4)]),
    "foreach": (
        lambda x, y: torch._foreach_add(torch._foreach_mul([x, y], 2.0), [y, x], alpha=3),
        lambda: [values(3), values(3, seed=1)],
    ),
}


# For these torch_xla has no kernels.
WITHOUT_KERNELS: dict[str, tuple[Callable[..., Any], Inputs]] = {
    "patches": (
        lambda x: (F.unfold(x, 3, padding=1, stride=2), F.fold(x.reshape(2, 36, 4), (5, 5), 3, padding=1, stride=3)),
        lambda: [values(2, 4, 6, 6)],
    ),
    "windows along a dimension": (
        lambda x: (x.unfold(2, 3, 2) * 2, x.unfold(-1, 2, 3) + 1, x.transpose(0, 1).unfold(0, 4, 1) + 1),
        lambda: [values(2, 4, 6, 6)],
    ),
    "samples of a grid": (
        lambda x, g: [
            F.grid_sample(x, g.tanh() * 1.2, mode=mode, padding_mode=padding, align_corners=mode != "bicubic")
            for mode in ("bilinear", "nearest", "bicubic")
            for padding in ("zeros", "border", "reflection")
        ],
        lambda: [values(2, 3, 6, 6), values(2, 5, 4, 2, seed=1)],
    ),
    "weight norm": (
        lambda v, g, h: (torch._weight_norm(v, g, 0) * 2, torch._weight_norm(v, h, 1) * 3),
        lambda: [values(4, 6), positive(4, 1), positive(1, 6)],
    ),
    "Huber's loss": (
        lambda x, y: (F.huber_loss(x, y, delta=0.3), F.huber_loss(x, y, reduction="none")),
        lambda: [values(3, 4), values(3, 4, seed=1)],
    ),
    "sums without NaN": (
        lambda x: (torch.where(x > 1, torch.nan, x).nansum(1), torch.where(x > 1, torch.nan, x).nanmean()),
        lambda: [values(3, 4)],
    ),
    "products": (
        lambda x, y: (torch.vdot(x[0], y[0]), torch.linalg.cross(x, y), torch.linalg.cross(x[:, 1:], y[:, :2], dim=0)),
        lambda: [values(3, 3), values(3, 3, seed=1)],
    ),
    "buckets": (
        lambda x, b: x * torch.bucketize(x, b.detach().sort().values, right=True, out_int32=True),
        lambda: [values(3, 4), values(5, seed=1)],
    ),
    "sums of logarithms": (
        lambda x, y: torch.logaddexp(x, y) + torch.logaddexp(x, torch.full_like(x, -torch.inf)),
        lambda: [values(3, 4), values(4, seed=1)],
    ),
}


def _update_a_view(x: Tensor) -> Tensor:
    y = x * 2
    y[1:].mul_(3)
    y.t()[0] = x[:, 1]
    return y


def _without_grad(x: Tensor) -> Tensor:
    with torch.no_grad():
        return x * 2


@pytest.mark.parametrize("name", known(FUNCTIONS))
def test_function(name: str) -> None:
    function, inputs = FUNCTIONS[name]
    same_gradients(function, inputs(), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", WITHOUT_KERNELS)
def test_without_a_kernel_nothing_runs_on_the_host(name: str, dynamic: bool) -> None:
    function, inputs = WITHOUT_KERNELS[name]
    with reports() as watched:
        same_gradients(function, inputs(), rtol=1e-3, atol=1e-4, dynamic=dynamic)
    traced = watched.of(GraphTraced)
    if not dynamic:  # means over sizes that change are made of numbers on the host
        assert [report.kind for report in traced] == ["forward", "backward"]
        assert [report.host_ops for report in traced] == [(), ()]


def in_groups(names: Sequence[str], size: int = 11) -> list[Any]:
    """Some names at a time: one graph for a group is quicker than a graph for each."""
    return [
        pytest.param(names[i : i + size], id=f"{names[i]} to {names[i : i + size][-1]}")
        for i in range(0, len(names), size)
    ]


@pytest.mark.parametrize("names", in_groups(UNARY))
def test_unary(names: Sequence[str]) -> None:
    def function(x: Tensor) -> list[Tensor]:
        return [getattr(torch, name)(x + 1 if name == "acosh" else x) for name in names]

    same_gradients(function, [positive(3, 4)], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("names", in_groups(BINARY))
def test_binary(names: Sequence[str]) -> None:
    """With broadcasting, so that gradients are summed."""

    def function(x: Tensor, y: Tensor) -> list[Tensor]:
        return [getattr(torch, name)(x, y) for name in names]

    same_gradients(function, [positive(3, 4), positive(4, seed=1) + 0.2], rtol=1e-3, atol=1e-4)
