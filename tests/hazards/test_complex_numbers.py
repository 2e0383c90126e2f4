"""Complex numbers, for which few of torch_xla's kernels are made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hazards.harness import CPU, XLA, assert_same, compiled, reports, same_as_eager, values
from torch import Tensor

from xla_notebook.backend.observer import GraphTraced


def numbers(*shape: int, seed: int = 0, device: torch.device = CPU) -> Tensor:
    """Complex numbers on all sides of zero."""
    return torch.view_as_complex(values(*shape, 2, seed=seed)).to(device)


OF_TWO: dict[str, Callable[[Tensor, Tensor], Any]] = {
    "quotients joined": lambda x, y: torch.cat([x / y, x]),
    "quotients by a real tensor": lambda x, y: torch.stack([x / y.real, y.imag / x]),
    "quotients by numbers": lambda x, y: torch.cat([torch.ops.aten.div.Scalar(x, 2), y / 3, x / (1 + 2j)]),
    "quotients of a list": lambda x, y: torch._foreach_div([x, y], 2),
    "parts": lambda x, y: (x.real * 2, y.imag, torch.view_as_real(x) + 1, x.angle(), y.real.angle()),
    "of parts": lambda x, y: (torch.complex(x.real, y.imag), torch.polar(x.abs(), y.real), y.conj() * x),
    "gradient": lambda x, y: torch.gradient(x, dim=0)[0] + y,
    "trapezoid": lambda x, y: torch.trapezoid(x, y.real),
    "mean": lambda x, y: (x.mean(), y.mean(1), x.mean((0, 1), keepdim=True)),
    "variance": lambda x, y: (x.var(), y.var(0), x.std(1, correction=0), *torch.var_mean(y), *torch.std_mean(x, 1)),
    "norm": lambda x, y: (x.norm(), y.norm(dim=1), x.norm(1), x.norm(float("inf"))),
    "vector norm": lambda x, y: (torch.linalg.vector_norm(x, 3, 1), torch.linalg.vector_norm(y, float("-inf"))),
    "matrix norm": lambda x, y: (torch.linalg.matrix_norm(x), torch.linalg.matrix_norm(y, 1)),
    "distance": lambda x, y: (torch.dist(x, y), torch.dist(x, y, 1), F.pairwise_distance(x, y)),
    "powers": lambda x, y: (x**2, x**y, x ** (1 + 1j), (1 + 1j) ** y, y.real.abs() ** 2j, 2**x),
    "acosh": lambda x, y: (x.acosh(), (y * 3).acosh()),
    "activations": lambda x, y: (x.tanh(), y.sigmoid(), F.tanhshrink(x + y)),
    "products with factors": lambda x, y: torch.addmm(x @ y.mT, x, y.mT, beta=1 + 1j, alpha=2j),
    "logsumexp": lambda x, y: (x.logsumexp(1), y.logsumexp(0, keepdim=True)),
    "infinite or not": lambda x, y: ((x / 0).isinf(), (x * float("nan")).isnan(), y.isnan(), y.isinf()),
    "inverse": lambda x, y: (torch.linalg.inv(x @ x.mH + y @ y.mH), torch.linalg.inv_ex(x @ y.mH)[0]),
    "singular values": lambda x, y: (torch.linalg.svdvals(x), torch.linalg.pinv(y)),
}


@pytest.mark.parametrize("name", OF_TWO)
def test_same_as_eager(name: str) -> None:
    def arguments(call: int, device: torch.device) -> list[Tensor]:
        return [numbers(3, 4, seed=call + seed, device=device) for seed in (0, 50)]

    same_as_eager(OF_TWO[name], arguments, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.int64], ids=str)
def test_angles_of_real_numbers(dtype: torch.dtype) -> None:
    numbers = torch.tensor([-2.0, -0.0, 0.0, 3.0]).to(dtype)
    same_as_eager(lambda x: x.angle(), lambda _, device: [numbers.to(device)], rtol=1e-12, atol=0)


WITH_GRADIENTS = [name for name in OF_TWO if name not in ("infinite or not", "inverse", "singular values")]


@pytest.mark.parametrize("name", WITH_GRADIENTS)
def test_same_gradients(name: str) -> None:
    function = OF_TWO[name]

    def loss(x: Tensor, y: Tensor) -> Tensor:
        results = function(x, y)
        return sum(
            (r.abs().square().sum() for r in ([results] if isinstance(results, Tensor) else results)),
            x.new_zeros(()).real,
        )

    run = compiled(loss)
    for call in range(2):
        want, got = ([numbers(3, 4, seed=call + s, device=d).requires_grad_() for s in (0, 50)] for d in (CPU, XLA))
        loss(*want).backward()
        run(*got).backward()
        assert_same([x.grad for x in want], [x.grad for x in got], f"call {call}", rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("name", ["parts", "of parts", "quotients joined", "variance", "norm", "powers"])
def test_nothing_runs_on_the_host(name: str) -> None:
    with reports() as watched:
        compiled(OF_TWO[name])(numbers(3, 4, device=XLA), numbers(3, 4, seed=1, device=XLA))
    assert [report.host_ops for report in watched.of(GraphTraced)] == [()]
