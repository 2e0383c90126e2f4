"""What changes in place in a module is seen: all that Dynamo looks for by itself is another thing in the same place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hazards.harness import CPU, XLA, assert_same, compiled, values
from torch import Tensor, nn


class Table(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(6, 4)
        self.register_buffer("scale", torch.ones(1))

    def forward(self, ids: Tensor) -> Tensor:
        return self.embedding(ids) * self.scale  # type: ignore[no-any-return]


def unfreezes(module: Table) -> None:
    module.requires_grad_(True)


def narrows(module: Table) -> None:
    module.half()


def takes_another_type_of_the_same_size(module: Table) -> None:
    module.bfloat16() if module.scale.dtype == torch.float16 else module.half()


def takes_another_shape_of_the_same_size(module: Table) -> None:
    module.embedding.weight.data = module.embedding.weight.data.reshape(8, 3)


def grows(module: Table) -> None:
    module.embedding.weight.data = torch.cat([module.embedding.weight.data] * 2)


def widens_a_buffer(module: Table) -> None:
    module.scale.data = module.scale.data.double() + 1


IN_PLACE = (
    unfreezes,
    narrows,
    takes_another_type_of_the_same_size,
    takes_another_shape_of_the_same_size,
    grows,
    widens_a_buffer,
)


@pytest.mark.parametrize("closed_over", [False, True], ids=["compiled itself", "closed over"])
@pytest.mark.parametrize("change", IN_PLACE, ids=lambda f: f.__name__)
def test_what_a_module_holds_changed_after_many_calls(change: Callable[[Table], None], closed_over: bool) -> None:
    def outcome(device: torch.device, compile_it: bool) -> list[Tensor | None]:
        torch.manual_seed(0)
        module = Table().to(device).requires_grad_(False)
        ids = torch.tensor([5, 0, 5], device=device)
        run: Callable[[Tensor], Tensor] = (lambda x: module(x)) if closed_over else module
        if compile_it:
            run = compiled(run)
        found: list[Tensor | None] = []
        for _ in range(2):
            # Dynamo looks less closely from the second call on.
            for _ in range(4):
                found.append(run(ids))
            change(module)
            result = run(ids)
            found.append(result)
            if result.requires_grad:
                result.sum().backward()
                found.append(module.embedding.weight.grad)
        return found

    assert_same(outcome(CPU, False), outcome(XLA, True), change.__name__)


HOOKS: dict[str, Callable[[Any], Any]] = {
    "after the forward pass": lambda module: module.register_forward_hook(
        lambda _module, _inputs, output: output * 0 + 5
    ),
    "before the forward pass": lambda module: module.register_forward_pre_hook(lambda _module, inputs: inputs[0] * 2),
    "after the backward pass": lambda module: module.register_full_backward_hook(
        lambda _module, inputs, _outputs: (inputs[0] * 3,)
    ),
}


@pytest.mark.parametrize("inner", [False, True], ids=["the module", "a part"])
@pytest.mark.parametrize("kind", HOOKS)
def test_a_hook_that_a_module_gets_and_loses_after_many_calls(kind: str, inner: bool) -> None:
    def outcome(device: torch.device, compile_it: bool) -> list[Tensor | None]:
        torch.manual_seed(0)
        module = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).to(device)
        run = compiled(module) if compile_it else module
        found: list[Tensor | None] = []

        def calls() -> None:
            for call in range(3):
                x = values(5, 3, seed=call, device=device).requires_grad_()
                result = run(x)
                result.sum().backward()
                found.extend((result, x.grad))

        calls()
        hook = HOOKS[kind](module[1] if inner else module)
        calls()
        hook.remove()
        calls()
        return found

    assert_same(outcome(CPU, False), outcome(XLA, True), kind)


@pytest.mark.parametrize("users", [True, False])
def test_dynamos_settings_stay_the_users(users: bool) -> None:
    names = (
        "skip_tensor_guards_with_matching_dict_tags",
        "skip_nnmodule_hook_guards",
        "skip_no_tensor_aliasing_guards_on_parameters",
        "error_on_nested_fx_trace",
    )

    def settings() -> list[bool]:
        return [getattr(torch._dynamo.config, name) for name in names]

    with torch._dynamo.config.patch(dict.fromkeys(names, users)):
        compiled(lambda x: x.add_(1))(values(3, 4, device=XLA))
        assert settings() == [users] * 4
        with pytest.raises(Exception, match="donate names 'y'"):
            compiled(lambda x: x + 1, options={"donate": ["y"]})(values(3, 4, device=XLA))
        assert settings() == [users] * 4
