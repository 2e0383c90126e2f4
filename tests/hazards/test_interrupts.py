"""An exception or an interrupt at any step of tracing and warming up leaves the world as it was.

Each step is made to fail in turn: each call of a function of `runtime`, and each operator of the graph, while a
function is traced and warmed. Then every tensor, the random state and the modes are what they were, and the next
call of the same function is right.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch_xla
import torch_xla.debug.metrics as metrics
from hazards.harness import XLA, Tensor, assert_same, compiled, counter, executions, settle, values
from hazards.saboteur import Injected, Saboteur, modes
from torch import nn

from xla_notebook.backend import runtime

# A mark by hand is refused while the user's own work is pending, with a warning.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*is not donated:"),
    pytest.mark.filterwarnings("ignore:torch.manual_seed does not seed the XLA device"),
]


class World:
    """Tensors of a user's, some of which the function gets, and the state of torch_xla."""

    def __init__(self) -> None:
        self.x = values(3, 3, device=XLA)
        self.total = values(3, 3, seed=1, device=XLA)
        self.weight = nn.Parameter(values(3, 3, seed=2).to(XLA))
        self.weight.grad = values(3, 3, seed=3, device=XLA)
        self.marked = values(3, 3, seed=4, device=XLA)
        self.scalar = torch.tensor(2.0).to(XLA)
        self.constant = torch.arange(3.0).to(XLA)
        settle()
        runtime.set_donation(self.marked, True)
        self.settled = (self.x, self.total, self.weight, self.marked, self.scalar, self.constant)
        self.begin()

    def begin(self) -> None:
        """Start over with work that waits, and with the random numbers."""
        self.waiting = self.x * 5
        torch_xla.manual_seed(11)

    def function(self, x: torch.Tensor, total: torch.Tensor, scalar: torch.Tensor) -> tuple[torch.Tensor, ...]:
        total.add_(x)
        y = (x @ self.weight) * 2.0 + scalar + self.constant
        return y.detach(), torch.rand_like(x) + self.marked, total

    def look(self) -> dict[str, Any]:
        return {
            "tensors": [Tensor.of(t) for t in (*self.settled, self.waiting)],
            **modes(),
            "the user's counter": counter("TheUsersCounter"),
            "step barriers": counter("MarkStep"),
            "input syncs": counter("DynamoSyncInputExecuteTime"),
        }

    def call(self, function: Callable[..., Any], seed: bool = True) -> None:
        """Call the function and check all that it gives."""
        total = self.total.cpu() + values(3, 3)
        if seed:
            torch_xla.manual_seed(11)
        y, drawn, returned = function(self.x, self.total, self.scalar)
        expected = (values(3, 3) @ values(3, 3, seed=2)) * 2 + 2 + torch.arange(3.0)
        assert_same(expected, y, "result", 1e-3, 1e-3)
        assert_same(total, returned, "updated argument")
        assert returned is self.total
        self.drawn = drawn.cpu()
        assert 0 <= (self.drawn - values(3, 3, seed=4)).min().item() <= 1
        assert_same(values(3, 3) * 5, self.waiting, "the user's pending work")


def sabotage(saboteur: Saboteur) -> int:
    """Make one step after the other of a function's first call fail, until it gets through; how many there were."""
    torch_xla._XLAC._xla_increment_counter("TheUsersCounter", 1)
    world = World()
    function = compiled(world.function)
    before, kept = world.look(), []
    for target in range(1, 500):
        ran = executions()
        with saboteur.at(target), torch.no_grad():
            try:
                function(world.x, world.total, world.scalar)
            except saboteur.error as raised:
                # As IPython keeps the last traceback, and with it the frames.
                kept.append(raised)
            else:
                break
        if executions() > ran:
            # The executable had run before the step: its draws are used up, its update is made or not.
            world.total.copy_(values(3, 3, seed=1, device=XLA))
            settle()
            world.begin()
            before = world.look()
            continue
        assert world.look() == before, f"step {target}: {saboteur.name}"
        # A step barrier runs the user's own pending work, and must find nothing of the failed trace to run.
        torch_xla.sync()
        assert [Tensor.of(t) for t in world.settled] == before["tensors"][:-1], f"step {target}: {saboteur.name}"
        world.begin()
        before = world.look()
    assert saboteur.count < target, "an injected error was swallowed"
    assert target > 1
    # The call that got through has used its draws and updated the argument once.
    assert_same(values(3, 3, seed=1) + values(3, 3), world.total)
    for _ in range(2):
        with torch.no_grad():
            world.call(function)
    return target - 1


def first_draw() -> torch.Tensor:
    """What the function draws after the seed when nothing fails."""
    torch._dynamo.reset()
    world = World()
    with torch.no_grad():
        world.call(compiled(world.function))
    torch._dynamo.reset()
    return world.drawn


@pytest.mark.parametrize("after", [False, True], ids=["instead of the step", "after the step"])
@pytest.mark.parametrize("error", [Injected, KeyboardInterrupt])
def test_at_each_step(error: type[BaseException], after: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    saboteur = Saboteur(error, after)
    saboteur.install(monkeypatch)
    assert sabotage(saboteur) > 15


@pytest.mark.parametrize("error", [Injected, KeyboardInterrupt])
def test_at_each_operator(error: type[BaseException], monkeypatch: pytest.MonkeyPatch) -> None:
    saboteur = Saboteur(error, after=False)
    saboteur.install_in_operators(monkeypatch)
    assert sabotage(saboteur) > 5


@pytest.mark.parametrize("name", ["uploaded", "graph_inputs", "graph_hash", "warm_up", "run_cached_graph"])
def test_the_next_call_draws_what_the_failed_one_would_have(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    want = first_draw()
    saboteur = Saboteur(KeyboardInterrupt, after=False)
    monkeypatch.setattr(runtime, name, saboteur.step(getattr(runtime, name)))
    world = World()
    function = compiled(world.function)
    with torch.no_grad():
        with saboteur.at(1), pytest.raises(KeyboardInterrupt):
            function(world.x, world.total, world.scalar)
        world.call(function, seed=False)
    assert torch.equal(want, world.drawn)


def test_a_real_interrupt_in_a_custom_operator() -> None:
    """Given an interrupt while the function first runs, the cell can be run again."""
    hits = []

    @torch.library.custom_op("xla_notebook_tests::stop", mutates_args=())
    def stop(x: torch.Tensor) -> torch.Tensor:
        hits.append(1)
        if len(hits) == 1:
            raise KeyboardInterrupt
        return x + 1

    stop.register_fake(lambda x: torch.empty_like(x))

    def function(x: torch.Tensor, total: torch.Tensor) -> torch.Tensor:
        total.add_(1)
        return stop(x * total)

    run = compiled(function)
    x, total = values(3, device=XLA), torch.zeros(3, device=XLA)
    waiting = values(3, seed=1, device=XLA) * 5
    with pytest.raises(KeyboardInterrupt):
        run(x, total)
    base = total.cpu()[0].item()
    assert base in (0.0, 1.0)
    for call in range(3):
        assert_same(values(3) * (base + call + 1) + 1, run(x, total), f"call {call}")
    assert_same(values(3, seed=1) * 5, waiting)


def test_a_failed_trace_leaves_nothing_for_the_next_step_barrier() -> None:
    """Given a kept traceback of a failed trace, a step barrier afterwards executes none of its work."""

    @torch.library.custom_op("xla_notebook_tests::fails_late", mutates_args=())
    def fails_late(x: torch.Tensor) -> torch.Tensor:
        raise ValueError("late")

    fails_late.register_fake(lambda x: torch.empty_like(x))
    x = values(3, device=XLA)
    settle()
    with pytest.raises(ValueError, match="late") as kept:
        compiled(lambda x: fails_late(x * 2) + 1)(x)
    handle = runtime.handle(x)
    torch_xla.sync()
    assert runtime.handle(x) == handle
    assert_same(values(3), x)
    assert kept.value is not None


def test_metrics_survive_a_failed_compile() -> None:
    names = set(metrics.counter_names())
    with pytest.raises(ValueError, match="boom"):
        compiled(_boom)(values(3, device=XLA))
    assert names <= set(metrics.counter_names())


@torch.library.custom_op("xla_notebook_tests::raise_boom", mutates_args=())
def raise_boom(x: torch.Tensor) -> torch.Tensor:
    raise ValueError("boom")


@raise_boom.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


def _boom(x: torch.Tensor) -> torch.Tensor:
    return raise_boom(x) + 1
