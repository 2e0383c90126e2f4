"""What generated programs found (see test_differential.py), each reduced to a few lines."""

from __future__ import annotations

import pytest
import torch
import torch_xla

WIDENED = [
    (torch.bfloat16, torch.float32),
    (torch.float16, torch.float32),
    (torch.float32, torch.float64),
    (torch.uint8, torch.int64),
    (torch.int32, torch.int64),
    (torch.int8, torch.uint8),
]


@pytest.mark.parametrize(("dtype", "scalar"), WIDENED, ids=str)
def test_scalar_tensor_does_not_widen_the_result(dtype: torch.dtype, scalar: torch.dtype) -> None:
    """Lazily, a tensor remembers the dtype that PyTorch says, whatever XLA computes in."""

    def add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x + y

    x, y = torch.tensor([1, 2, 3], dtype=dtype), torch.tensor(2, dtype=scalar)
    want = add(x, y)
    torch._dynamo.reset()
    got = torch.compile(add, backend="xla_notebook", dynamic=False)(x.to("xla"), y.to("xla"))
    assert got.dtype == want.dtype == dtype
    assert torch.equal(got.cpu(), want)


def test_where_promotes() -> None:
    def choose(condition: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.where(condition, x, y)

    condition, x, y = torch.tensor([True, False]), torch.tensor([1, 2]), torch.tensor([1.5, 2.5])
    device = torch_xla.device()
    torch._dynamo.reset()
    compiled = torch.compile(choose, backend="xla_notebook", dynamic=False)
    got = compiled(condition.to(device), x.to(device), y.to(device))
    assert torch.equal(got.cpu(), choose(condition, x, y))
