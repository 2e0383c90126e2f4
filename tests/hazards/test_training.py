"""Training: plain steps run as three graphs, and the numbers are those of eager mode."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch_xla
from hazards.harness import CPU, XLA, assert_same, compiled, counter, executions, pending, reports, settle, values
from torch import Tensor, nn
from torch._dynamo import compiled_autograd

from xla_notebook.backend.observer import GraphTraced

Batch = Callable[[int], tuple[Tensor, Tensor]]


class Transformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(11, 8)
        layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.output = nn.Linear(8, 3)

    def forward(self, ids: Tensor) -> Tensor:
        return self.output(self.encoder(self.embedding(ids)).mean(1))  # type: ignore[no-any-return]


def multilayer() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 3))


def convolutional() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(64, 3),
    )


def labels(call: int) -> Tensor:
    return torch.randint(0, 3, (12,), generator=torch.Generator().manual_seed(call))


def words(call: int) -> Tensor:
    return torch.randint(0, 11, (12, 5), generator=torch.Generator().manual_seed(call))


MODELS: dict[str, tuple[Callable[[], nn.Module], Batch]] = {
    "multilayer": (multilayer, lambda call: (values(12, 6, seed=call), labels(call))),
    "convolutional": (convolutional, lambda call: (values(12, 1, 8, 8, seed=call), labels(call))),
    "transformer": (Transformer, lambda call: (words(call), labels(call))),
}
OPTIMIZERS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "SGD": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.01),
    "Adam": lambda p: torch.optim.Adam(p, lr=0.01),
    "AdamW": lambda p: torch.optim.AdamW(p, lr=0.01, weight_decay=0.1),
    "Adam, capturable": lambda p: torch.optim.Adam(p, lr=0.01, capturable=next(iter(p)).device.type == "xla"),
    "RMSprop": lambda p: torch.optim.RMSprop(p, lr=0.01),
    "Adagrad": lambda p: torch.optim.Adagrad(p, lr=0.01),
}


def twins(make: Callable[[], nn.Module]) -> tuple[nn.Module, nn.Module]:
    torch.manual_seed(0)
    module = make()
    return module, copy.deepcopy(module).to(XLA)


@pytest.mark.parametrize("model", MODELS)
def test_a_plain_step_is_three_graphs_and_three_executions(model: str) -> None:
    """Given a forward pass with its loss, a backward pass and an optimizer step, all compiled, then each step
    runs three graphs, reads no input early and leaves nothing pending."""
    make, batch = MODELS[model]
    eager, module = twins(make)
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9) for m in (eager, module)]
    forward = compiled(lambda x, y: nn.functional.cross_entropy(module(x), y))
    update = compiled(optimizers[1].step)

    ran: list[int] = []
    with reports() as watched:
        for call in range(4):
            x, y = batch(call)
            want = nn.functional.cross_entropy(eager(x), y)
            want.backward()
            optimizers[0].step()
            optimizers[0].zero_grad()

            x, y = x.to(XLA), y.to(XLA)
            settle()
            before = executions()
            syncs = counter("DynamoSyncInputExecuteTime")
            loss = forward(x, y)
            loss.backward()
            update()
            optimizers[1].zero_grad()
            state = [t for s in optimizers[1].state.values() for t in s.values() if isinstance(t, Tensor)]
            assert not any(pending(loss, *module.parameters(), *module.buffers(), *state)), f"step {call}"
            ran.append(executions() - before)
            assert counter("DynamoSyncInputExecuteTime") == syncs
            assert_same(want, loss, f"step {call}: loss", 1e-3, 1e-3)
    # The first two steps also make the constants of their graphs: the gradient of the loss, the momentum.
    assert ran[2:] == [3, 3]
    assert max(ran[:2]) <= 4
    # The optimizer's first step has no momentum buffers yet, and is a graph of its own.
    kinds = [r.kind for r in watched.of(GraphTraced)]
    assert sorted(set(kinds)) == ["backward", "forward", "optimizer"]
    assert len(kinds) <= 4
    for (name, want), got in zip(eager.named_parameters(), module.parameters(), strict=True):
        assert_same(want, got, name, 1e-3, 1e-3)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("inside", ["optimizer alone", "whole step"])
def test_optimizers(optimizer: str, inside: str) -> None:
    eager, module = twins(lambda: nn.Sequential(nn.Linear(6, 4), nn.Tanh(), nn.Linear(4, 3)))
    optimizers = [OPTIMIZERS[optimizer](list(m.parameters())) for m in (eager, module)]

    def step(module: nn.Module, optimizer: torch.optim.Optimizer, update: Callable[[], Any], x: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = module(x).pow(2).mean()
        loss.backward()
        update()
        return loss

    if inside == "whole step":
        run = compiled(lambda x: step(module, optimizers[1], optimizers[1].step, x))
    else:
        update = compiled(optimizers[1].step)
        run = lambda x: step(module, optimizers[1], update, x)  # noqa: E731
    for call in range(4):
        x = values(5, 6, seed=call)
        want = step(eager, optimizers[0], optimizers[0].step, x)
        assert_same(want, run(x.to(XLA)), f"step {call}: loss", 1e-3, 1e-4)
        for first, second in zip(eager.parameters(), module.parameters(), strict=True):
            assert_same(first, second, f"step {call}: weight", 1e-3, 1e-4)


def test_a_scheduled_learning_rate() -> None:
    """Given a learning rate that changes between steps, the compiled step uses the new one."""
    eager, module = twins(multilayer)
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.1) for m in (eager, module)]
    update = compiled(optimizers[1].step)
    for call in range(4):
        for m, device in ((eager, CPU), (module, XLA)):
            m.zero_grad()
            m(values(5, 6, seed=call, device=device)).pow(2).mean().backward()
        for optimizer in optimizers:
            optimizer.param_groups[0]["lr"] = 0.1 / (call + 1)
        optimizers[0].step()
        update()
        for first, second in zip(eager.parameters(), module.parameters(), strict=True):
            assert_same(first, second, f"step {call}", 1e-3, 1e-4)


@pytest.mark.parametrize("set_to_none", [True, False])
def test_accumulation(set_to_none: bool) -> None:
    eager, module = twins(multilayer)
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9) for m in (eager, module)]
    run = compiled(module)
    for call in range(6):
        for m, function, optimizer, device in (
            (eager, eager, optimizers[0], CPU),
            (module, run, optimizers[1], XLA),
        ):
            function(values(5, 6, seed=call, device=device)).pow(2).mean().backward()
            if call % 3 == 2:
                optimizer.step()
                optimizer.zero_grad(set_to_none=set_to_none)
            assert m.training
        if call % 4 == 0:
            torch_xla.sync()
        for first, second in zip(eager.parameters(), module.parameters(), strict=True):
            assert_same(first, second, f"step {call}: weight", 1e-3, 1e-4)
            assert_same(first.grad, second.grad, f"step {call}: gradient", 1e-3, 1e-4)


@pytest.mark.parametrize("model", ["multilayer", "convolutional"])
def test_compiled_autograd(model: str) -> None:
    make, batch = MODELS[model]
    eager, module = twins(make)
    run = compiled(module)
    for call in range(3):
        x, y = batch(call)
        eager.zero_grad()
        module.zero_grad()
        want = nn.functional.cross_entropy(eager(x), y)
        want.backward()
        loss = nn.functional.cross_entropy(run(x.to(XLA)), y.to(XLA))
        with compiled_autograd._enable(lambda graph: compiled(graph, dynamic=False)):
            loss.backward()
        assert_same(want, loss, f"call {call}: loss", 1e-3, 1e-3)
        for (name, first), second in zip(eager.named_parameters(), module.parameters(), strict=True):
            assert_same(first.grad, second.grad, f"call {call}: gradient of {name}", 1e-3, 1e-3)


def test_backward_twice_and_for_some_inputs() -> None:
    def gradients(device: torch.device, run: Callable[..., Any]) -> list[Tensor]:
        x = values(3, 4, device=device).requires_grad_()
        w = values(4, 2, seed=1, device=device).requires_grad_()
        y = run(x, w)
        first = torch.autograd.grad(y.sum(), w, retain_graph=True)[0]
        second = torch.autograd.grad((y * y).sum(), [x, w])
        return [first, *second]

    def function(x: Tensor, w: Tensor) -> Tensor:
        return (x @ w).tanh()

    assert_same(gradients(CPU, function), gradients(XLA, compiled(function)))


def test_a_saved_tensor_changed_before_the_backward_pass() -> None:
    """An error, as in eager mode, or the right gradient; never a wrong one."""
    w, x = values(3, device=XLA).requires_grad_(), values(3, seed=1, device=XLA)
    loss = compiled(lambda w, x: (w * x).pow(2).sum())(w, x)
    x.mul_(100)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_an_update_of_an_argument_that_is_not_a_leaf() -> None:
    def gradient(device: torch.device, run: Callable[..., Any]) -> list[Tensor | None]:
        x = values(3, device=device).requires_grad_()
        y = x * 2
        z = run(y)
        (z * y).sum().backward()
        return [x.grad, y.detach(), z.detach()]

    def function(y: Tensor) -> Tensor:
        y.mul_(3)
        return y.sin()

    for _ in range(2):
        assert_same(gradient(CPU, function), gradient(XLA, compiled(function)))


def test_some_outputs_without_gradients() -> None:
    def gradient(device: torch.device, run: Callable[..., Any]) -> list[Any]:
        x = values(3, 4, device=device).requires_grad_()
        y, index, detached, nothing, view = run(x)
        (y.sum() + view.pow(2).sum()).backward()
        return [x.grad, index, detached, nothing, y, view]

    def function(x: Tensor) -> tuple[Any, ...]:
        y = x * x
        return y, x.argmax(1), y.detach(), None, y[1:]

    assert_same(gradient(CPU, function), gradient(XLA, compiled(function)))


def test_a_custom_autograd_function() -> None:
    class Scale(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor, factor: float) -> Tensor:
            ctx.factor = factor
            ctx.save_for_backward(x)
            return x * factor

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
            (x,) = ctx.saved_tensors
            return gradient * ctx.factor * 10 + x, None

    def gradient(device: torch.device, run: Callable[..., Any]) -> Tensor | None:
        x = values(3, device=device).requires_grad_()
        run(x).sum().backward()
        return x.grad

    def function(x: Tensor) -> Tensor:
        return Scale.apply(x, 2.0).sin()  # type: ignore[no-untyped-call,no-any-return]

    assert_same(gradient(CPU, function), gradient(XLA, compiled(function)))


def test_gradients_of_complex_weights_and_of_a_clipped_norm() -> None:
    eager, module = twins(multilayer)

    def step(module: nn.Module, x: Tensor) -> Tensor:
        module.zero_grad()
        module(x).pow(2).sum().backward()
        return nn.utils.clip_grad_norm_(module.parameters(), 0.5)

    run = compiled(step)
    for call in range(3):
        x = values(5, 6, seed=call)
        assert_same(step(eager, x), run(module, x.to(XLA)), f"call {call}: norm", 1e-3, 1e-3)
        for first, second in zip(eager.parameters(), module.parameters(), strict=True):
            assert_same(first.grad, second.grad, f"call {call}: gradient", 1e-3, 1e-3)
