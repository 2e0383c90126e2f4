"""What generated programs (see test_differential.py) and sweeps over all operators found, reduced to a few lines."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
import torch_xla
from hazards.harness import same_as_eager, values
from torch import Tensor

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


INDICES: dict[str, Callable[[Tensor], object]] = {
    "cummax": lambda x: x.cummax(1),
    "cummin": lambda x: x[0].cummin(0).indices,
    "max_pool1d": lambda x: F.max_pool1d(x[0], 2, return_indices=True),
    "max_pool2d": lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True),
    "max_pool3d": lambda x: F.max_pool3d(x[None], 2, return_indices=True),
    "adaptive": lambda x: F.adaptive_max_pool2d(x, 2, return_indices=True),
    "used": lambda x: F.max_pool2d(x, 2, return_indices=True)[1] * 2**31,
}


@pytest.mark.parametrize("name", INDICES)
def test_indices_are_int64(name: str) -> None:
    same_as_eager(INDICES[name], lambda call, device: [values(2, 4, 4, 4, seed=call, device=device)])


def test_chunks_are_padded_and_joined() -> None:
    def join(x: Tensor, y: Tensor) -> Tensor:
        return torch._chunk_cat([x, y], 0, 2)

    same_as_eager(join, lambda call, d: [values(3, 2, seed=call, device=d), values(4, 5, seed=call, device=d)])


@pytest.mark.parametrize("momentum", [0.1, 1.0])
@pytest.mark.parametrize("shape", [(2, 3), (2, 3, 2, 2)], ids=str)
def test_running_variance_is_that_of_a_sample(shape: tuple[int, ...], momentum: float) -> None:
    def norm(device: torch.device) -> torch.nn.Module:
        kind = torch.nn.BatchNorm1d if len(shape) == 2 else torch.nn.BatchNorm2d
        return kind(3, momentum=momentum).to(device)

    same_as_eager(
        lambda module, x: module(x),
        lambda call, device: [values(*shape, seed=call, device=device)],
        state=norm,
        calls=3,
        rtol=1e-3,
    )


def test_running_variance_of_each_instance() -> None:
    same_as_eager(
        lambda module, x: module(x),
        lambda call, device: [values(2, 3, 2, 2, seed=call, device=device)],
        state=lambda device: torch.nn.InstanceNorm2d(3, track_running_stats=True).to(device),
        rtol=1e-3,
    )


BY_SIZE: dict[str, Callable[[Tensor], Tensor]] = {
    "chunk": lambda x: x.chunk(2)[-1],
    "slice": lambda x: x[x.shape[0] // 2 :],
    "narrow": lambda x: x.narrow(0, x.shape[0] // 2, 1),
    "columns": lambda x: x.t()[:, x.shape[0] // 2 :],
    "split in two": lambda x: x.view(2, x.shape[0] // 2, 3)[1],
}


@pytest.mark.parametrize("name", BY_SIZE)
def test_view_whose_place_depends_on_changing_sizes(name: str) -> None:
    """AOTAutograd takes its offset from the graph's result, where it is 0 on XLA."""

    def update(x: Tensor) -> Tensor:
        x.add_(1)
        return BY_SIZE[name](x)

    with pytest.warns(UserWarning, match="place depends on sizes"):
        same_as_eager(update, lambda call, device: [values(4, 3, seed=call, device=device)], dynamic=True)


@pytest.mark.parametrize("name", BY_SIZE)
def test_detached_view_whose_place_depends_on_changing_sizes(name: str) -> None:
    with pytest.warns(UserWarning, match="place depends on sizes"):
        same_as_eager(
            lambda x: (BY_SIZE[name](x).detach(), x * 2),
            lambda call, device: [values(4, 3, seed=call, device=device)],
            dynamic=True,
        )


@pytest.mark.parametrize("name", BY_SIZE)
def test_view_by_changing_sizes_of_an_inference_tensor(name: str) -> None:
    with torch.inference_mode(), pytest.warns(UserWarning, match="place depends on sizes"):
        same_as_eager(
            lambda x: (BY_SIZE[name](x), x * 2),
            lambda call, device: [values(4, 3, seed=call, device=device)],
            dynamic=True,
        )


@pytest.mark.parametrize("name", BY_SIZE)
def test_copy_of_a_view_by_size_is_compiled(name: str) -> None:
    same_as_eager(
        lambda x: (BY_SIZE[name](x).clone(), x * 2), lambda call, d: [values(4, 3, seed=call, device=d)], dynamic=True
    )
