"""An exception or an interrupt in a backward graph, or between the steps of a function that is split by operators on
the host, leaves the world as it was, and the next call right (see `test_interrupts` for a function of one graph)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch_xla
from hazards.harness import XLA, Tensor, assert_same, compiled, settle, values
from hazards.saboteur import Injected, Saboteur, modes

WAYS = [
    pytest.param(lambda saboteur, patch: saboteur.install(patch), False, id="instead of the step"),
    pytest.param(lambda saboteur, patch: saboteur.install(patch), True, id="after the step"),
    pytest.param(lambda saboteur, patch: saboteur.install_in_operators(patch), False, id="at each operator"),
]
Install = Callable[[Saboteur, pytest.MonkeyPatch], None]


class World:
    """Tensors that a function gets, one that it updates, and work that waits."""

    def __init__(self) -> None:
        self.x = values(3, 3, device=XLA)
        self.weight = torch.nn.Parameter(values(3, 3, seed=1).to(XLA))
        self.weight.grad = values(3, 3, seed=2, device=XLA)
        self.total = values(3, 3, seed=3, device=XLA)
        settle()
        self.waiting = self.x * 5

    def look(self) -> dict[str, Any]:
        tensors = (self.x, self.weight, self.total, self.waiting)
        return {"tensors": [Tensor.of(t) for t in tensors], **modes()}

    def step_barrier(self) -> None:
        """Run what waits: the user's own work, and nothing of a failed trace."""
        torch_xla.sync()
        assert_same(values(3, 3) * 5, self.waiting, "the user's pending work")
        self.waiting = self.x * 5


def fail_at_each_step(saboteur: Saboteur, world: World, before: Callable[[], None], action: Callable[[], None]) -> int:
    """Make one step of `action` after the other fail until it gets through; how many there were.

    `before` prepares each attempt. An action that fails must leave the world as it was.
    """
    kept = []
    for target in range(1, 500):
        before()
        look = world.look()
        with saboteur.at(target):
            try:
                action()
            except saboteur.error as raised:
                # As IPython keeps the last traceback, and with it the frames.
                kept.append(raised)
            else:
                break
        assert world.look() == look, f"step {target}: {saboteur.name}"
        world.step_barrier()
    assert saboteur.count < target, "an injected error was swallowed"
    return target - 1


@pytest.mark.parametrize("error", [Injected, KeyboardInterrupt])
@pytest.mark.parametrize(("install", "after"), WAYS)
def test_in_a_backward_graph(
    install: Install, after: bool, error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given a backward pass that fails, no gradient is touched, and another forward and backward pass are right."""
    saboteur = Saboteur(error, after)
    install(saboteur, monkeypatch)
    world = World()

    def function(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return ((x @ weight).sin() * torch.tensor([1.0, 2.0, 3.0], device=x.device)).sum()

    run = compiled(function)
    losses: list[torch.Tensor] = []

    def forward() -> None:
        losses[:] = [run(world.x, world.weight)]

    assert fail_at_each_step(saboteur, world, forward, lambda: losses[0].backward()) > 5
    for passes in (1, 2):
        eager = values(3, 3, seed=1).requires_grad_()
        function(values(3, 3), eager).backward()
        assert eager.grad is not None
        assert_same(values(3, 3, seed=2) + passes * eager.grad, world.weight.grad, f"pass {passes}", 1e-3, 1e-3)
        forward()
        losses[0].backward()


@pytest.mark.parametrize("error", [Injected, KeyboardInterrupt])
@pytest.mark.parametrize(("install", "after"), WAYS)
def test_between_the_steps_of_a_split_function(
    install: Install, after: bool, error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given a function of graphs and operators on the host that fails anywhere, its updates, which come last, are not
    made at all; its next call makes them once."""
    saboteur = Saboteur(error, after)
    install(saboteur, monkeypatch)
    world = World()

    def function(x: torch.Tensor, weight: torch.Tensor, total: torch.Tensor) -> torch.Tensor:
        total.add_(torch.median(x @ weight))
        total.mul_(torch.tensor([1.0, 2.0, 0.5], device=x.device))
        return torch.median(total * 2) + x

    run = compiled(function)

    def call() -> torch.Tensor:
        with torch.no_grad():
            result: torch.Tensor = run(world.x, world.weight, world.total)
            return result

    results: list[torch.Tensor] = []
    assert fail_at_each_step(saboteur, world, lambda: None, lambda: results.append(call())) > 3
    total = values(3, 3, seed=3)
    for number in range(3):
        assert_same(function(values(3, 3), values(3, 3, seed=1), total), results[-1], f"call {number}", 1e-3, 1e-3)
        assert_same(total, world.total, f"update {number}", 1e-3, 1e-3)
        results.append(call())
