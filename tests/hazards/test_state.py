"""What a compiled function keeps between calls follows the user: constants, weights, buffers, flags."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch_xla
from hazards.harness import CPU, XLA, assert_same, compiled, pending, same_as_eager, values
from torch import Tensor, nn


def network(device: torch.device) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.BatchNorm1d(4), nn.Linear(4, 2)).to(device)


def batch(call: int, device: torch.device) -> tuple[Tensor]:
    return (values(5, 3, seed=call, device=device),)


def forward(module: nn.Module, x: Tensor) -> Tensor:
    return module(x)  # type: ignore[no-any-return]


# What people do to a module between two calls --------------------------------------------------------


def loads_a_copy(call: int, module: nn.Module) -> None:
    module.load_state_dict(_other_state(call, module))


def loads_by_assignment(call: int, module: nn.Module) -> None:
    module.load_state_dict(_other_state(call, module), assign=True)


def _other_state(call: int, module: nn.Module) -> dict[str, Tensor]:
    return {
        name: (values(*t.shape, seed=call).abs() + 0.1).to(t.device, t.dtype) for name, t in module.state_dict().items()
    }


def swaps_data(call: int, module: nn.Module) -> None:
    for parameter in module.parameters():
        parameter.data = values(*parameter.shape, seed=call, device=parameter.device)


def writes_into_data(call: int, module: nn.Module) -> None:
    for parameter in module.parameters():
        parameter.data.mul_(0.5).add_(call)


def swaps_two_parameters(_call: int, module: Any) -> None:
    module[0].bias.data, module[2].bias.data = module[2].bias.data, module[0].bias.data


def replaces_a_parameter(call: int, module: Any) -> None:
    module[3].bias = nn.Parameter(values(2, seed=call, device=module[3].bias.device))


def replaces_a_layer(call: int, module: Any) -> None:
    torch.manual_seed(call)
    module[3] = nn.Linear(4, 2).to(module[0].weight.device)


def changes_mode(call: int, module: nn.Module) -> None:
    module.train(call % 2 == 1)


def toggles_gradients(call: int, module: Any) -> None:
    module[0].weight.requires_grad_(call % 2 == 1)
    module[3].requires_grad_(call % 2 == 0)


def resets_a_buffer(_call: int, module: Any) -> None:
    module[2].reset_running_stats()


def halves_and_returns(_call: int, module: nn.Module) -> None:
    module.double().float()


def goes_to_the_cpu_and_back(_call: int, module: Any) -> None:
    device = module[0].weight.device
    module.to("cpu").to(device)


BETWEEN = (
    loads_a_copy,
    loads_by_assignment,
    swaps_data,
    writes_into_data,
    swaps_two_parameters,
    replaces_a_parameter,
    replaces_a_layer,
    changes_mode,
    toggles_gradients,
    resets_a_buffer,
    halves_and_returns,
    goes_to_the_cpu_and_back,
)


@pytest.mark.parametrize("between", BETWEEN, ids=lambda f: f.__name__)
def test_a_module_changed_between_calls(between: Callable[[int, Any], None]) -> None:
    same_as_eager(forward, batch, network, between, calls=4, probe=False, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("between", BETWEEN, ids=lambda f: f.__name__)
def test_a_module_changed_between_calls_in_evaluation(between: Callable[[int, Any], None]) -> None:
    def evaluate(module: nn.Module, x: Tensor) -> Tensor:
        with torch.no_grad():
            return forward(module, x)

    def make(device: torch.device) -> nn.Module:
        return network(device).eval()

    if between is changes_mode:
        pytest.skip("a test of training mode")
    same_as_eager(evaluate, batch, make, between, calls=4, probe=False)


def test_tied_weights_stay_one_tensor() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(7, 4)
            self.output = nn.Linear(4, 7, bias=False)
            self.output.weight = self.embedding.weight

        def forward(self, ids: Tensor) -> Tensor:
            return self.output(self.embedding(ids).tanh())  # type: ignore[no-any-return]

    def step(module: Tied, optimizer: torch.optim.Optimizer, ids: Tensor, run: Callable[..., Tensor]) -> Tensor:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(run(ids), ids)
        loss.backward()
        optimizer.step()
        return loss

    torch.manual_seed(0)
    eager, tied = Tied(), Tied()
    tied.load_state_dict(eager.state_dict())
    tied.to(XLA)
    tied.output.weight = tied.embedding.weight  # torch_xla's `to` takes ties apart
    run = compiled(tied)
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.5, momentum=0.9) for m in (eager, tied)]
    for call in range(3):
        ids = torch.arange(5) + call % 3
        want = step(eager, optimizers[0], ids, eager)
        assert_same(want, step(tied, optimizers[1], ids.to(XLA), run), f"step {call}: loss")
        assert tied.output.weight is tied.embedding.weight
        assert_same(eager.embedding.weight, tied.embedding.weight, f"step {call}: weight")


class Counter(nn.Module):
    """Its buffers are updated in place, replaced, and counted up by a number of Python's."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(3))
        self.register_buffer("last", torch.zeros(3))
        self.register_buffer("calls", torch.tensor(0))
        self.count = 0

    def forward(self, x: Tensor) -> Tensor:
        self.total.add_(x)
        self.last = x * 2
        self.calls += 1
        self.count += 1
        return self.total + self.last * self.count


@pytest.mark.parametrize("gradients", [True, False])
def test_a_module_that_keeps_count(gradients: bool) -> None:
    def run(module: Counter, x: Tensor) -> Tensor:
        with torch.set_grad_enabled(gradients):
            return module(x)  # type: ignore[no-any-return]

    torch._dynamo.config.patch(recompile_limit=16)
    same_as_eager(
        run,
        lambda call, device: (values(3, seed=call, device=device),),
        lambda device: Counter().to(device),
        lambda call, module: torch_xla.sync() if call == 1 else None,
        calls=4,
    )


# Constants -------------------------------------------------------------------------------------------


def test_a_closed_over_tensor_updated_in_place() -> None:
    constant = torch.arange(6.0).to(XLA)
    function = compiled(lambda x: x * constant + 1)
    for call in range(4):
        x = values(6, seed=call)
        assert_same(x * (torch.arange(6.0) + call) + 1, function(x.to(XLA)), f"call {call}")
        constant.add_(1)
        if call == 2:
            torch_xla.sync()


SCALE = torch.ones(3)


def test_a_global_tensor_replaced_and_updated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "SCALE", torch.ones(3, device=XLA))
    function = compiled(lambda x: x * SCALE)
    x = values(3, device=XLA)
    assert_same(values(3), function(x))
    SCALE.mul_(2)
    assert_same(values(3) * 2, function(x))
    monkeypatch.setitem(globals(), "SCALE", torch.full((3,), 5.0, device=XLA))
    assert_same(values(3) * 5, function(x))


def test_literals_are_fresh_in_each_call() -> None:
    """Given a literal that is returned, writing into one call's result leaves the next call's alone."""

    def function(x: Tensor) -> tuple[Tensor, Tensor]:
        literal = torch.tensor([1.0, 2.0, 3.0], device=x.device)
        return literal, x + literal

    same_as_eager(function, lambda call, device: (values(3, seed=call, device=device),))


def test_many_literals_around_a_host_operator() -> None:
    def function(x: Tensor) -> tuple[Tensor, ...]:
        a = torch.tensor([1.0, 2.0, 3.0], device=x.device)
        b = torch.tensor([4.0, 5.0, 6.0], device=x.device)
        index = torch.tensor([2, 0], device=x.device)
        median = torch.median(x * a)
        return (x + b)[index] * median, a * b, torch.tensor(7), torch.tensor([0.5]).to(x.device)

    same_as_eager(function, lambda call, device: (values(3, seed=call, device=device),))


def test_one_structure_with_other_constants() -> None:
    """Each function keeps its own constants, although their graphs have one structure."""
    functions = [
        compiled(lambda x, n=n: x * n + torch.tensor([n, 2.0 * n], device=x.device) + torch.full((), n + 0.5).to(XLA))
        for n in (1.0, 2.0, 3.0)
    ]
    x = values(2, device=XLA)
    for _ in range(2):
        for n, function in zip((1.0, 2.0, 3.0), functions, strict=True):
            want = values(2) * n + torch.tensor([n, 2.0 * n]) + n + 0.5
            assert_same(want, function(x), f"function of {n}")


def test_a_float_that_changes() -> None:
    def function(x: Tensor, rate: float, temperature: float) -> Tensor:
        x.sub_(x * rate)
        return (x / temperature).softmax(-1)

    def arguments(call: int, device: torch.device) -> tuple[Tensor, float, float]:
        return values(3, 4, seed=call, device=device), 0.1 / (call + 1), 0.7 + 0.1 * call

    same_as_eager(function, arguments, calls=4)


def test_keyword_variadic_and_none_arguments() -> None:
    def inner(x: Tensor, *rest: Tensor, scale: float = 2.0, bias: Tensor | None = None) -> Tensor:
        total = x * scale
        for r in rest:
            total = total - r
        return total if bias is None else total + bias

    def function(x: Tensor, unused: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        return inner(x, x, x, bias=mask), inner(x, scale=0.5), unused

    def arguments(call: int, device: torch.device) -> tuple[Tensor, Tensor, Tensor | None]:
        mask = None if call % 2 else values(3, seed=7, device=device)
        return values(3, seed=call, device=device), values(2, seed=call, device=device), mask

    same_as_eager(function, arguments, calls=4)


# Containers -----------------------------------------------------------------------------------------


def appends(bank: deque[Tensor], x: Tensor) -> None:
    bank.append(x * 2)


def appends_left(bank: deque[Tensor], x: Tensor) -> None:
    bank.appendleft(x * 2)


def extends(bank: deque[Tensor], x: Tensor) -> None:
    bank.extend([x + 1, x + 2])


@pytest.mark.parametrize("change", [appends, appends_left, extends], ids=lambda f: f.__name__)
def test_a_bank_of_the_last_few_results(change: Callable[[deque[Tensor], Tensor], None]) -> None:
    """What has fallen out of a deque with a `maxlen` is not computed with: Dynamo does (torch 2.9, any backend)."""

    def calls(device: torch.device, bank: deque[Tensor], compile: Callable[..., Any]) -> list[Any]:
        def function(x: Tensor) -> Tensor:
            change(bank, x)
            return torch.stack(list(bank)).sum(0)

        run = compile(function)
        return [[run(values(3, seed=call, device=device)) for call in range(6)], list(bank)]

    want = calls(CPU, deque(maxlen=3), lambda function: function)
    with pytest.warns(UserWarning, match="changes bank, a deque with a maxlen; it runs uncompiled"):
        got = calls(XLA, deque(maxlen=3), compiled)
    assert_same(want, got)


@pytest.mark.parametrize(("maxlen", "changes"), [(None, True), (3, False)], ids=["unbounded", "read only"])
def test_other_deques_are_compiled(maxlen: int | None, changes: bool) -> None:
    def function(x: Tensor, bank: deque[Tensor]) -> Tensor:
        if changes:
            bank.append(x * 2)
        made = deque([x, x + 1], maxlen=1)
        made.append(x * 3)
        return torch.stack([*bank, *made]).sum(0)

    def arguments(call: int, device: torch.device) -> tuple[Tensor, deque[Tensor]]:
        x = values(3, seed=call, device=device)
        return x, deque([x + 1, x + 2, x + 3], maxlen=maxlen)

    same_as_eager(function, arguments)


# Modes -----------------------------------------------------------------------------------------------


def test_inference_mode_and_then_gradients() -> None:
    """Given arguments made outside, calls inside inference mode and outside of it are as in eager mode."""
    torch.manual_seed(0)
    eager = nn.Linear(3, 3)
    module = nn.Linear(3, 3)
    module.load_state_dict(eager.state_dict())
    module.to(XLA)
    function = compiled(lambda x: module(x).relu() * 2)
    for call in range(4):
        x = values(2, 3, seed=call)
        if call % 2 == 0:
            with torch.inference_mode():
                want, got = eager(x).relu() * 2, function(x.to(XLA))
                assert_same(want, got, f"call {call}")
                got.add_(1)
        else:
            eager.zero_grad(), module.zero_grad()
            (eager(x).relu() * 2).sum().backward()
            function(x.to(XLA)).sum().backward()
            assert_same(eager.weight.grad, module.weight.grad, f"call {call}: gradient")


def test_inference_mode_with_updates_and_views() -> None:
    def function(x: Tensor, total: Tensor) -> tuple[Tensor, ...]:
        total.add_(x)
        y = x * 2
        return y, y.view(-1), x.t(), total

    with torch.inference_mode():
        same_as_eager(
            function,
            lambda call, device: (values(2, 3, seed=call, device=device), values(2, 3, seed=9, device=device)),
            probe=False,
        )


def test_eager_mode_stays_on() -> None:
    torch_xla.experimental.eager_mode(True)
    try:
        same_as_eager(
            lambda x, total: (total.mul_(0.5).add_(x).sin() + x).sum(),
            lambda call, device: (values(3, seed=call, device=device), values(3, seed=9, device=device)),
        )
        assert torch_xla.experimental.is_eager_mode()
        assert pending(values(3, device=XLA) + 1) == [False]
    finally:
        torch_xla.experimental.eager_mode(False)


def test_a_step_barrier_inside_the_function() -> None:
    def function(x: Tensor) -> Tensor:
        y = x * 2
        torch_xla.sync()
        return y + x

    same_as_eager(function, lambda call, device: (values(3, seed=call, device=device),))


def test_everything_on_the_cpu_runs_there_and_says_so() -> None:
    torch.manual_seed(0)
    module = nn.Linear(3, 2)
    function = compiled(lambda x: module(x).relu())
    with pytest.warns(UserWarning, match=r"Found tensor with shape .* on cpu.* move its tensors and modules"):
        got = function(values(4, 3))
    assert got.device.type == "cpu"
    assert_same(module(values(4, 3)).relu(), got)
    assert_same(module(values(4, 3, seed=1)).relu(), function(values(4, 3, seed=1)))


def test_a_0_dim_argument_on_the_cpu() -> None:
    same_as_eager(
        lambda x, s: x * s + 1,
        lambda call, device: (values(3, seed=call, device=device), torch.tensor(call + 2.0)),
    )


def test_outputs_on_the_cpu() -> None:
    same_as_eager(
        lambda x: (x * 2, x.sum().to("cpu"), torch.arange(3), x.cpu() + 1),
        lambda call, device: (values(3, seed=call, device=device),),
    )
