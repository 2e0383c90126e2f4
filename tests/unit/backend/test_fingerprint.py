"""What a traced graph's hash tells apart, and what it does not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from unit.backend.fx import XLA, graph

from xla_notebook.backend.fallback import split
from xla_notebook.backend.program import Segment
from xla_notebook.backend.tracing import Traced, trace


def traced(
    function: Callable[..., Any], *arguments: Tensor, look: Callable[[Traced], Any] = lambda t: t.hash, **options: Any
) -> Any:
    """Trace a function of XLA tensors, which is to be one segment, and look at the result."""
    module = graph(function, *[tuple(t.shape) for t in arguments], dtype=arguments[0].dtype)
    (segment,) = split(module).steps
    assert isinstance(segment, Segment)
    literals = {n: getattr(module, str(n.target)) for n in module.graph.nodes if n.op == "get_attr"}
    with trace(segment, arguments, literals, XLA, **options) as result:
        return look(result)


def given(count: int = 3) -> list[Tensor]:
    return [torch.arange(4.0).reshape(2, 2).to(XLA) + i for i in range(count)]


def times_b(a: Tensor, b: Tensor, c: Tensor) -> Any:
    return a + 1, b + 1, c + 1, a * b + c


def times_c(a: Tensor, b: Tensor, c: Tensor) -> Any:
    return a + 1, b + 1, c + 1, a * c + b


def test_two_wirings_differ() -> None:
    """torch_xla alone hashes these alike (pytorch/xla issue 8353)."""
    assert traced(times_b, *given()) != traced(times_c, *given())


def test_the_same_function_has_one_hash() -> None:
    assert traced(times_b, *given()) == traced(times_b, *[t * 7 for t in given()])


def scaled(rate: float) -> Callable[..., Any]:
    return lambda w, g: (w - g * rate,)


def added(rate: float) -> Callable[..., Any]:
    return lambda w, g: (torch.add(w, g, alpha=-rate),)


@pytest.mark.parametrize("step", [added, scaled])
def test_two_learning_rates_share(step: Callable[[float], Callable[..., Any]]) -> None:
    assert len({traced(step(rate), *given(2)) for rate in (0.1, 0.25, 0.003)}) == 1


def test_two_numbers_that_were_one_do_not_share() -> None:
    """Given x*2 + 2 and x*2 + 3, the first may use one input for both numbers, the second may not."""
    (a,) = given(1)
    assert traced(lambda x: (x * 2.0 + 2.0,), a) != traced(lambda x: (x * 2.0 + 3.0,), a)


def test_other_operators_shapes_and_dtypes_differ() -> None:
    a, b = given(2)
    hashes = [
        traced(lambda a, b: (a + b,), a, b),
        traced(lambda a, b: (a - b,), a, b),
        traced(lambda a, b: (b - a,), a, b),
        traced(lambda a, b: (a + b,), a[:1], b),
        traced(lambda a, b: (a + b,), a.int(), b.int()),
        traced(lambda a, b: (a.sum(0) + b,), a, b),
        traced(lambda a, b: (a.sum(1) + b,), a, b),
        traced(lambda a, b: (a.transpose(0, 1) + b,), a, b),
    ]
    assert len(set(hashes)) == len(hashes)


def test_the_order_of_outputs_and_unused_arguments_matter() -> None:
    a, b = given(2)
    hashes = [
        traced(lambda a, b: (a + 1, b + 1), a, b),
        traced(lambda a, b: (b + 1, a + 1), a, b),
        traced(lambda a, b: (a + 1, a + 1), a, b),
        traced(lambda a, b: (b + 1, b + 1), a, b),
        traced(lambda a, b: (a + 1,), a, b),
    ]
    assert len(set(hashes)) == len(hashes)


def test_donations_matter() -> None:
    (a,) = given(1)
    plain = traced(lambda x: (x * 2,), a)
    assert traced(lambda x: (x * 2,), a, donated=frozenset({0})) != plain
    assert traced(lambda x: (x * 2,), a) == plain


def test_parameters_are_bound_by_position_whatever_shares_data() -> None:
    """Given arguments that share device data, each is a parameter of its own."""
    (a,) = given(1)
    two = torch.tensor(2.0).to(XLA)

    def look(result: Traced) -> set[tuple[str, int]]:
        return {(p.kind, p.index) for p in result.parameters if p.kind == "argument"}

    assert traced(lambda x, y: (x * 2 - y,), a, a.detach(), look=look) == {("argument", 0), ("argument", 1)}
    also = traced(lambda s, t, x: (s * x + t * 2.0,), two, torch.tensor(2.0).to(XLA), a, look=look)
    assert also == {("argument", 0), ("argument", 1), ("argument", 2)}


def test_draws_are_bound_to_the_seed() -> None:
    (a,) = given(1)
    kinds = traced(lambda x: (torch.rand_like(x) + x,), a, look=lambda t: {p.kind for p in t.parameters})
    assert "seed" in kinds


def test_numbers_among_the_outputs_need_no_executable() -> None:
    (a,) = given(1)
    assert traced(lambda x: (x + 1,), a, look=lambda t: (len(t.roots), t.numbers)) == (1, {})


def test_nothing_lazy_outlives_the_trace() -> None:
    (a,) = given(1)
    kept = traced(lambda x: (x + 1,), a, look=lambda t: t)
    assert kept.roots == []
