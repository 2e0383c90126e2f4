"""What a graph does whose saved buffers were donated behind its back.

All that a compiled function uses comes to its graphs as an argument, and what they save is theirs alone: no code of
a user's can donate it by accident. A twin of the saved buffer, made through torch_xla as any extension could make one,
and updated in place before a step barrier, donates it as pytorch/xla pull request 4612 saw it.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch_xla
from hazards.harness import XLA, Tensor, assert_same, compiled, reports, settle, values
from torch.autograd.function import FunctionCtx

from xla_notebook.backend import cache, runtime
from xla_notebook.backend.config import config
from xla_notebook.backend.graph import SavedBufferDonatedError
from xla_notebook.backend.observer import Donated, GraphTraced


def donate_saved_buffers() -> int:
    """Donate every buffer that a graph keeps; how many."""
    kept = [saved for graph in cache.graphs() for saved in graph.saved]
    twins = [runtime.wrapper(saved) for saved in kept]
    for twin in twins:
        assert twin is not None
        twin.add_(1)
    torch_xla.sync(wait=True)
    assert not any(runtime.handle(saved) for saved in kept)
    return len(kept)


def one_graph(x: torch.Tensor) -> torch.Tensor:
    return x * torch.tensor([1.0, 2.0, 3.0], device=x.device)


def split_by_the_host(x: torch.Tensor) -> torch.Tensor:
    # The median has no lowering.
    scaled = x * torch.tensor([1.0, 2.0, 3.0], device=x.device)
    return scaled + torch.median(scaled) * torch.tensor([4.0, 5.0, 6.0], device=x.device)


class _Scaled(torch.autograd.Function):
    @staticmethod
    def forward(_context: FunctionCtx, x: torch.Tensor) -> torch.Tensor:
        return x.sin()

    @staticmethod
    def backward(_context: FunctionCtx, gradient: torch.Tensor) -> torch.Tensor:
        return gradient * torch.tensor([1.0, 2.0, 3.0], device=gradient.device)


FUNCTIONS = [(one_graph, 1), (split_by_the_host, 2)]


@pytest.fixture(autouse=True)
def nothing_compiled() -> None:
    cache.clear()
    settle()


@pytest.mark.parametrize(("function", "constants"), FUNCTIONS)
def test_recovers(function: Callable[[torch.Tensor], torch.Tensor], constants: int) -> None:
    """Given saved buffers that a step barrier donated, the next call traces again from the live tensors, is right,
    touches nothing of the user's, and says what was lost; later calls have nothing to mend."""
    run = compiled(function)
    x, unrelated = values(3, device=XLA), values(3, seed=1, device=XLA)
    run(x)
    assert donate_saved_buffers() == constants
    settle()
    waiting = unrelated * 2
    before = [Tensor.of(t) for t in (x, unrelated, waiting)]
    with reports() as watched:
        assert_same(function(values(3)), run(x))
    assert [Tensor.of(t) for t in (x, unrelated, waiting)] == before
    assert [(d.name, d.cause, d.saved, d.spec.shape) for d in watched.of(Donated)] == [
        (f"constant {number}", "step barrier", True, (3,)) for number in range(constants)
    ]
    assert [t.reason for t in watched.of(GraphTraced)] == ["donated"]
    with reports() as watched:
        for call in range(2):
            assert_same(function(values(3, seed=call)), run(values(3, seed=call).to(XLA)), f"call {call}")
            torch_xla.sync()
    assert watched.of(Donated) == watched.of(GraphTraced) == []


@pytest.mark.parametrize(("function", "constants"), FUNCTIONS)
def test_raises_if_that_is_wanted(function: Callable[[torch.Tensor], torch.Tensor], constants: int) -> None:
    """Given on_donated="raise", each call fails, naming what was lost, for which graph, and the last step barrier,
    until recovery is allowed; nothing of the user's is touched."""
    run = compiled(function)
    x = values(3, device=XLA)
    run(x)
    donate_saved_buffers()
    config.on_donated = "raise"
    settle()
    before = Tensor.of(x)
    for _ in range(2):
        with reports() as watched, pytest.raises(SavedBufferDonatedError) as raised:
            run(x)
        message = str(raised.value)
        assert f"of {function.__name__} keeps" in message
        for number in range(constants):
            assert f"constant {number} (float32[3])" in message
        assert "harness.py" in message, "the last step barrier was placed by settle()"
        assert "on_donated='recover'" in message
        assert len(watched.of(Donated)) == constants
        assert watched.of(GraphTraced) == []
    assert Tensor.of(x) == before
    config.on_donated = "recover"
    assert_same(function(values(3)), run(x))


def test_the_message_tells_the_line_of_the_step_barrier() -> None:
    run = compiled(one_graph)
    run(values(3, device=XLA))
    donate_saved_buffers()
    config.on_donated = "raise"
    torch_xla.sync()
    line = test_the_message_tells_the_line_of_the_step_barrier.__code__.co_firstlineno + 5
    with pytest.raises(SavedBufferDonatedError, match=rf"test_saved_buffers\.py:{line}"):
        run(values(3, device=XLA))


@pytest.mark.parametrize("on_donated", ["recover", "raise"])
def test_of_a_backward_graph(on_donated: str) -> None:
    """Given a constant that only the backward graph keeps, its donation is seen at the next backward pass."""
    run = compiled(lambda x: _Scaled.apply(x).sum())
    x = values(3).to(XLA).requires_grad_()
    run(x).backward()
    x.grad = None
    assert donate_saved_buffers() == 1
    config.on_donated = on_donated
    loss = run(x)
    if on_donated == "raise":
        with pytest.raises(SavedBufferDonatedError, match="constant 0"):
            loss.backward()
        assert x.grad is None
        config.on_donated = "recover"
        loss = run(x)
    loss.backward()
    assert_same(torch.tensor([1.0, 2.0, 3.0]), x.grad)
