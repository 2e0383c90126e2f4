"""Tensors without dimensions and tensors without elements, which torch_xla's kernels are not made for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hazards.harness import XLA, assert_same, compiled, same_as_eager, values
from torch import Tensor

OF_A_SCALAR: dict[str, Callable[[Tensor], Any]] = {
    "flip": lambda x: x.flip(-1),
    "cumsum": lambda x: x.cumsum(0),
    "softmax": lambda x: x.softmax(-1),
    "sum": lambda x: x.sum(0, keepdim=True),
    "max": lambda x: x.max(0),
    "argmax": lambda x: x.argmax(-1),
    "sort": lambda x: x.sort(-1),
    "topk": lambda x: x.topk(1),
    "any": lambda x: (x > 0).any(-1),
    "std": lambda x: x.std(0, correction=0),
    "gather": lambda x: x.gather(0, torch.tensor(0, device=x.device)),
    "scatter": lambda x: x.scatter(0, torch.tensor(0, device=x.device), x * 2),
    "index_select": lambda x: x.index_select(0, torch.tensor([0], device=x.device)),
    "index_fill": lambda x: x.index_fill(0, torch.tensor([0], device=x.device), x.new_tensor(2.0)),
    "unsqueeze": lambda x: (x + 1).unsqueeze(-1),
    "count_nonzero": lambda x: x.count_nonzero(0),
    "permute": lambda x: (x + 1).permute(()) * 2,
}

OF_NOTHING: dict[str, Callable[[Tensor], Any]] = {
    "roll": lambda x: x.roll(1, 0),  # lazily, it ends the process
    "cumsum": lambda x: (x.cumsum(0), x.int().cumsum(0)),
    "gather": lambda x: x.gather(0, x.long()),
    "product": lambda x: (x @ x.t(), x.t() @ x),
    "reductions": lambda x: (x.sum(0), x.prod(), x.amax(1), x.mean(), (x > 0).all()),
    "updates": lambda x: (x.add_(1), x.roll(2, 1)),
    "two results": lambda x: x.sort(0),
}


@pytest.mark.parametrize("name", OF_A_SCALAR)
def test_along_the_dimension_that_a_scalar_has_not(name: str) -> None:
    same_as_eager(OF_A_SCALAR[name], lambda call, device: [values(seed=call, device=device)])


@pytest.mark.parametrize("name", OF_A_SCALAR)
def test_along_the_dimension_that_a_constant_has_not(name: str) -> None:
    """Given a scalar that the function makes itself."""

    def function(x: Tensor) -> Any:
        return OF_A_SCALAR[name](torch.tensor(2.5, device=x.device)), x + 1

    same_as_eager(function, lambda call, device: [values(3, seed=call, device=device)])


@pytest.mark.parametrize("name", ["softmax", "cumsum", "flip", "gather"])
def test_its_gradient(name: str) -> None:
    function = OF_A_SCALAR[name]
    run = compiled(function)
    for call in range(2):
        want, got = (values(seed=call, device=d).requires_grad_() for d in (torch.device("cpu"), XLA))
        (function(want) * want).sum().backward()
        (run(got) * got).sum().backward()
        assert_same(want.grad, got.grad, f"call {call}")


@pytest.mark.parametrize("name", OF_NOTHING)
def test_of_no_elements(name: str) -> None:
    same_as_eager(OF_NOTHING[name], lambda _call, device: [torch.empty(0, 3, device=device)])


OVER_NO_DIMENSION: dict[str, Callable[[Tensor], Any]] = {
    "sum": lambda x: (x.sum(()), torch.ops.aten.sum.dim_IntList(x, [], True)),
    "mean": lambda x: (torch.ops.aten.mean.dim(x, []), torch.ops.aten.mean.dim(x + 1, [], True)),
    "variance": lambda x: (torch.ops.aten.var.correction(x, []), torch.ops.aten.std_mean.correction(x, [])),
    "extremes": lambda x: (x.amax(()), x.amin((), keepdim=True)),
    "norms": lambda x: (torch.linalg.vector_norm(x, 3), torch.ops.aten.linalg_vector_norm.default(x, 2, [], True)),
    "counts": lambda x: (torch.ops.aten.count_nonzero.dim_IntList(x, []), torch.ops.aten.any.dims(x > 0, [])),
}


@pytest.mark.parametrize("name", OVER_NO_DIMENSION)
def test_over_no_dimension_is_over_all(name: str) -> None:
    same_as_eager(OVER_NO_DIMENSION[name], lambda call, device: [values(3, 4, seed=call, device=device)])


@pytest.mark.parametrize("p", [float("inf"), float("-inf"), 0.5, 1, 2, 3])
def test_gradient_of_a_norm(p: float) -> None:
    """As in clipping by norm."""
    want, got = (values(3, 4, device=device).requires_grad_() for device in (torch.device("cpu"), XLA))
    torch.linalg.vector_norm(want, p).backward()
    compiled(lambda x: torch.linalg.vector_norm(x, p))(got).backward()
    assert_same(want.grad, got.grad)


@pytest.mark.parametrize("dims", [0, 1, -1, (0, 1), None])
def test_counting_along_a_dimension(dims: Any) -> None:
    same_as_eager(lambda x: (x > 0).count_nonzero(dims), lambda call, device: [values(3, 4, seed=call, device=device)])
