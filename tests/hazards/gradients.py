"""Compares outputs and gradients of a compiled module or function with those of eager mode.

In training mode, except where a function draws random numbers: torch_xla has many kernels of its own for the
backward pass, and AOTAutograd puts them together in another way than lazy mode does.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest
import torch
from hazards.harness import CPU, XLA, assert_same, compiled, tensors_in, values
from torch import Tensor, nn

Inputs = Callable[[], Sequence[Any]]


def numbers(*shape: int, high: int = 5) -> Tensor:
    """Whole numbers below `high`."""
    return torch.randint(0, high, shape, generator=torch.Generator().manual_seed(1))


def positive(*shape: int, seed: int = 0) -> Tensor:
    """Values between 0.1 and 0.9."""
    return values(*shape, seed=seed).sigmoid() * 0.8 + 0.1


def moved(inputs: Sequence[Any], device: torch.device) -> list[Any]:
    """Each floating-point tensor becomes a leaf that wants a gradient."""
    tensors = [v.detach().clone().to(device) if isinstance(v, Tensor) else v for v in inputs]
    return [
        v.requires_grad_() if isinstance(v, Tensor) and (v.is_floating_point() or v.is_complex()) else v
        for v in tensors
    ]


def same_gradients(
    module: Callable[..., Any],
    inputs: Sequence[Any],
    rtol: float = 1e-4,
    atol: float = 1e-5,
    **options: Any,
) -> None:
    """Run forward and backward twice in both worlds and compare outputs and all gradients."""
    twin = copy.deepcopy(module).to(XLA) if isinstance(module, nn.Module) else module
    run = compiled(twin, **options)
    for call in range(2):
        expected = _outputs_and_gradients(module, module, moved(inputs, CPU), call)
        got = _outputs_and_gradients(twin, run, moved(inputs, XLA), call)
        assert expected[0], "nothing to differentiate"
        assert_same(expected[0], got[0], f"call {call}: output", rtol, atol)
        assert list(expected[1]) == list(got[1])
        for name, gradient in expected[1].items():
            assert_same(gradient, got[1][name], f"call {call}: gradient of {name}", rtol, atol)


def _outputs_and_gradients(
    module: Callable[..., Any], run: Callable[..., Any], arguments: list[Any], call: int
) -> tuple[list[Tensor], dict[str, Tensor | None]]:
    parameters = dict(module.named_parameters()) if isinstance(module, nn.Module) else {}
    for parameter in parameters.values():
        parameter.grad = None
    outputs = [t for t in tensors_in(run(*arguments)) if t.requires_grad]
    # Weights that differ from element to element, so that a transposed gradient shows.
    weights = [values(*t.shape, seed=50 + call).to(t.dtype).to(t.device) for t in outputs]
    torch.autograd.backward(outputs, weights)
    gradients = {name: p.grad for name, p in parameters.items()}
    gradients.update((f"input {i}", a.grad) for i, a in enumerate(arguments) if isinstance(a, Tensor))
    return outputs, gradients


# Why these are wrong, or refused.
WRONG = {
    "MultiLabelMargin-loss": "refused: AOTAutograd's multilabel_margin_loss is wrong on XLA",
}


def known(names: Iterable[str]) -> list[Any]:
    """The names as parameters; those in `WRONG` are expected to fail."""
    return [
        pytest.param(name, marks=pytest.mark.xfail(strict=True, reason=WRONG[name])) if name in WRONG else name
        for name in names
    ]
