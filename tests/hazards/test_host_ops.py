"""Operators that run on the host: once a call, around the graphs, named with their line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hazards.harness import XLA, assert_same, compiled, reports, same_as_eager, values
from torch import Tensor

from xla_notebook.backend.observer import GraphTraced

calls: list[float] = []


@pytest.fixture(autouse=True)
def no_calls() -> None:
    calls.clear()


@torch.library.custom_op("xla_notebook_tests::host_sort", mutates_args=())
def host_sort(x: Tensor) -> Tensor:
    return torch.from_numpy(np.sort(x.detach().cpu().numpy())).to(x.device)


@host_sort.register_fake
def _(x: Tensor) -> Tensor:
    return torch.empty_like(x)


@torch.library.custom_op("xla_notebook_tests::probe", mutates_args=())
def probe(x: Tensor) -> Tensor:
    calls.append(round(x.detach().cpu().sum().item(), 3))
    return x.clone()


@probe.register_fake
def _(x: Tensor) -> Tensor:
    return torch.empty_like(x)


@torch.library.custom_op("xla_notebook_tests::add_twice_", mutates_args=("total",))
def add_twice_(total: Tensor, x: Tensor) -> None:
    total.add_(x * 2)


@add_twice_.register_fake
def _(total: Tensor, x: Tensor) -> None:
    return None


@torch.library.custom_op("xla_notebook_tests::log", mutates_args=(), tags=())
def log(x: Tensor) -> None:
    calls.append(round(x.detach().cpu().sum().item(), 3))


@log.register_fake
def _(x: Tensor) -> None:
    return None


# Without this an operator with no outputs is dead code, as it is for every backend.
torch.fx.node.has_side_effect(torch.ops.xla_notebook_tests.log.default)


@torch.library.custom_op("xla_notebook_tests::halves", mutates_args=())
def halves(x: Tensor) -> list[Tensor]:
    return [x / 2, x.sum() / 2]


@halves.register_fake
def _(x: Tensor) -> list[Tensor]:
    return [torch.empty_like(x), x.new_empty(())]


def vector(call: int, device: torch.device) -> tuple[Tensor]:
    return (values(5, seed=call, device=device),)


def matrix(call: int, device: torch.device) -> tuple[Tensor]:
    return (values(4, 5, seed=call, device=device),)


def square(call: int, device: torch.device) -> tuple[Tensor]:
    x = values(4, 4, seed=call, device=device)
    return (x @ x.t() + torch.eye(4).to(device),)


# Operators of PyTorch without an XLA lowering, always or sometimes ------------------------------------

FALLBACKS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "median": (lambda x: (torch.median(x * 2, dim=1)[0] + x.sum(), torch.median(x)), matrix),
    "cummin": (lambda x: torch.cummin(x * 2, 1)[0] + 1, matrix),
    "mode": (lambda x: torch.mode((x * 2).round(), 1).values + 1, matrix),
    "addmm with beta": (lambda x: torch.addmm(x, x, x, beta=0.5, alpha=2.0).relu() + 1, square),
    "cholesky": (lambda x: torch.linalg.cholesky(x) * 2 + 1, square),
    "eigenvalues": (lambda x: torch.linalg.eigvalsh(x) * 2, square),
    "inverse": (lambda x: torch.linalg.inv(x) @ x, square),
    "bincount": (lambda x: torch.bincount((x.abs() * 3).long(), minlength=20)[:10] + 1, vector),
    "searchsorted": (lambda x: torch.searchsorted(x.sort().values, x) + 1, vector),
    "lgamma": (lambda x: torch.lgamma(x.abs() + 1) + torch.special.i0(x), vector),
    "histc": (lambda x: torch.histc(x, 5, -1, 1) * 2, vector),
    "unfold then median": (lambda x: x.unfold(0, 2, 1).median(1).values.exp(), vector),
    "take along dim": (lambda x: torch.take_along_dim(x, x.argsort(dim=1), 1) * 2, matrix),
    "two of them": (lambda x: torch.median(torch.cummax(x, 1)[0] + x.median(), dim=0)[0] * 3, matrix),
}


@pytest.mark.parametrize("name", FALLBACKS)
@pytest.mark.parametrize("dynamic", [False, True])
def test_fallback(name: str, dynamic: bool) -> None:
    function, arguments = FALLBACKS[name]

    def varied(call: int, device: torch.device) -> tuple[Tensor]:
        (x,) = arguments(call, device)
        return (x if not dynamic or call % 2 == 0 else x.repeat(*[2] * x.dim()),)

    if dynamic and arguments is square:
        varied = arguments  # a repeated matrix has no inverse
    same_as_eager(function, varied, dynamic=dynamic)


def test_literals_of_the_cpu_on_both_sides_of_a_fallback() -> None:
    def function(x: Tensor) -> tuple[Tensor, Tensor]:
        half = torch.tensor(0.5) + 1
        return x * half, (x * 2).median() * half + (x * half).sum() * torch.tensor(2.0)

    same_as_eager(function, lambda call, device: [values(5, seed=call, device=device)])


def test_updates_on_both_sides_of_a_fallback() -> None:
    def function(x: Tensor, total: Tensor) -> tuple[Tensor, Tensor]:
        total.add_(x)
        smallest = torch.cummin(total, 0)[0]
        total.mul_(2)
        x[1:3] = 0
        return smallest + total, total

    same_as_eager(
        function, lambda call, device: (values(5, seed=call, device=device), values(5, seed=9, device=device))
    )


def test_a_fallback_is_named_with_its_line() -> None:
    def function(x: Tensor) -> Tensor:
        y = x * 2
        m = torch.median(y)  # the line
        return y + m

    with reports() as watched:
        compiled(function)(values(5, device=XLA))
    operators = {op for report in watched.of(GraphTraced) for op in report.host_ops}
    (operator,) = operators
    assert "median" in operator.target
    assert operator.why
    assert operator.source is not None
    filename, line, code = operator.source.split(":", 2)
    assert filename == __file__
    assert int(line) == function.__code__.co_firstlineno + 2
    assert "m = torch.median(y)" in code


@pytest.mark.parametrize(
    ("function", "target"),
    [
        (lambda x: torch.addmm(x, x, x, beta=0.5) + 1, "addmm"),
        (lambda x: host_sort(x * 2) + 1, "host_sort"),
        (lambda x: x[x > 0].sum() + x, "index"),
    ],
    ids=["a condition that only a trace shows", "custom operator", "data-dependent"],
)
def test_host_operators_are_reported(function: Callable[[Tensor], Tensor], target: str) -> None:
    with reports() as watched, torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        compiled(function)(values(4, 4, device=XLA))
    operators = {op for report in watched.of(GraphTraced) for op in report.host_ops}
    assert any(target in op.target for op in operators), operators
    assert all(op.source is not None and op.source.startswith(__file__) for op in operators)


def test_a_host_operator_with_several_results_is_reported_once() -> None:
    def function(x: Tensor) -> Tensor:
        greatest, at = (x * 2).cummax(0)
        return greatest + at

    with reports() as watched:
        compiled(function)(values(4, 4, device=XLA))
    reported = [[op.target for op in report.host_ops] for report in watched.of(GraphTraced)]
    assert reported
    assert all(targets == ["aten.cummax.default"] for targets in reported)


def test_a_graph_without_host_operators_reports_none() -> None:
    with reports() as watched:
        compiled(lambda x: x.sin() + 1)(values(4, 4, device=XLA))
    assert [report.host_ops for report in watched.of(GraphTraced)] == [()]


# Custom operators ------------------------------------------------------------------------------------


def test_a_custom_operator_runs_in_every_call() -> None:
    same_as_eager(lambda x: host_sort(x * 2) + 1, vector)


def test_a_side_effect_happens_once_a_call() -> None:
    function = compiled(lambda x: probe(x * 2) + 1)
    for call in range(4):
        calls.clear()
        x = values(3, seed=call)
        assert_same(x * 2 + 1, function(x.to(XLA)), f"call {call}")
        assert calls == [round((x * 2).sum().item(), 3)]


def test_side_effects_keep_their_order_and_number() -> None:
    def function(x: Tensor) -> Tensor:
        a = probe(x)
        b = torch.median(probe(a * 2))
        return probe(b + a) + 1

    run = compiled(function)
    for call in range(3):
        x = values(3, seed=call)
        calls.clear()
        want = function(x)
        expected = list(calls)
        calls.clear()
        assert_same(want, run(x.to(XLA)), f"call {call}")
        assert calls == expected


def test_an_operator_without_outputs_runs_once_a_call() -> None:
    def function(x: Tensor) -> Tensor:
        y = x * 2
        log(y)
        return y + 1

    run = compiled(function)
    for call in range(3):
        x = values(3, seed=call)
        calls.clear()
        assert_same(x * 2 + 1, run(x.to(XLA)), f"call {call}")
        assert calls == [round((x * 2).sum().item(), 3)]


def test_an_operator_without_outputs_alone() -> None:
    run = compiled(lambda x: log(x))
    for call in range(3):
        calls.clear()
        assert run(values(3, seed=call, device=XLA)) is None
        assert calls == [round(values(3, seed=call).sum().item(), 3)]


def test_a_side_effect_before_an_operator_found_on_the_host_while_tracing() -> None:
    """Given a probe, and after it an operator of which only the trace shows that it needs the host, the probe
    does not run again when the graph is split anew."""

    def function(x: Tensor) -> Tensor:
        y = probe(x * 2)
        return torch.addmm(y, y, y, beta=0.5) + torch.addmm(y, y, y, beta=0.25)

    run = compiled(function)
    for call in range(3):
        x = values(4, 4, seed=call)
        calls.clear()
        got = run(x.to(XLA))
        assert calls == [round((x * 2).sum().item(), 3)]
        assert_same(function(x), got, f"call {call}", 1e-3, 1e-3)


def test_a_custom_operator_that_updates_an_argument() -> None:
    def function(total: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        add_twice_(total, x)
        y = total * 3
        add_twice_(total, y)
        return y, total

    same_as_eager(
        function, lambda call, device: (values(3, seed=call, device=device), values(3, seed=9, device=device))
    )


def test_a_custom_operator_that_updates_a_view_and_an_intermediate() -> None:
    def function(total: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        y = x * 1
        add_twice_(total[1:3], x[:2])
        add_twice_(y, x)
        return y, total + 1

    same_as_eager(
        function, lambda call, device: (values(4, seed=call, device=device), values(4, seed=9, device=device))
    )


def test_a_custom_operator_with_several_outputs() -> None:
    def function(x: Tensor) -> tuple[Tensor, Tensor]:
        a, b = halves(x * 2)
        return a + 1, b * a

    same_as_eager(function, vector)


def test_a_custom_operator_with_a_gradient() -> None:
    @torch.library.custom_op("xla_notebook_tests::host_square", mutates_args=())
    def host_square(x: Tensor) -> Tensor:
        calls.append(1)
        return (x.cpu() ** 2).to(x.device)

    host_square.register_fake(lambda x: torch.empty_like(x))

    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return gradient * 2 * x

    host_square.register_autograd(backward, setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[0]))
    run = compiled(lambda x: host_square(x * 3).sin())
    for call in range(3):
        calls.clear()
        want, x = values(4, seed=call).requires_grad_(), values(4, seed=call, device=XLA).requires_grad_()
        ((want * 3) ** 2).sin().sum().backward()
        run(x).sum().backward()
        assert calls == [1]
        assert_same(want.grad, x.grad, f"call {call}", 1e-3, 1e-3)


def test_an_error_of_a_custom_operator_is_the_users() -> None:
    @torch.library.custom_op("xla_notebook_tests::boom", mutates_args=())
    def boom(x: Tensor) -> Tensor:
        raise ValueError("boom at run time")

    boom.register_fake(lambda x: torch.empty_like(x))

    def function(x: Tensor, total: Tensor) -> Tensor:
        total.add_(x)
        return boom(x) * total

    run = compiled(function)
    for call in range(2):
        x, total = values(3, seed=call, device=XLA), values(3, seed=9, device=XLA)
        with pytest.raises(ValueError, match="boom at run time"):
            run(x, total)
        assert_same(values(3, seed=call), x)
        got = total.cpu()
        old, new = values(3, seed=9), values(3, seed=9) + values(3, seed=call)
        assert torch.allclose(got, old) or torch.allclose(got, new), f"half an update: {got}"
