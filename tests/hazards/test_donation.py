"""Buffers that the user offers are donated, unless something could still read them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch_xla
import torch_xla.experimental.dynamo_set_buffer_donor
from hazards.harness import XLA, assert_same, compiled, pending, reports, values
from torch import Tensor

from xla_notebook.backend import runtime
from xla_notebook.backend.donation import DonationRefusedWarning
from xla_notebook.backend.observer import DonationRefused, GraphTraced

offer = torch.ops.xla.dynamo_set_buffer_donor_


def fresh(seed: int = 0, *shape: int) -> Tensor:
    tensor = values(*(shape or (5, 5)), seed=seed, device=XLA)
    torch_xla.sync(wait=True)
    return tensor


def is_dead(tensor: Tensor) -> bool:
    """Whether the tensor's buffer was given away."""
    return pending(tensor) == [False] and runtime.handle(tensor) is None


def consumes(x: Tensor) -> Tensor:
    offer(x, True)
    return x * 2 + 1


def updates(x: Tensor) -> Tensor:
    offer(x, True)
    x += 1
    return x.sum()


# Ways to offer ----------------------------------------------------------------------------------------


def test_by_operator() -> None:
    """Given an argument offered by the operator, its buffer is dead after the call, in every call."""
    function = compiled(consumes)
    for call in range(3):
        x = fresh(call)
        assert_same(values(5, 5, seed=call) * 2 + 1, function(x), f"call {call}")
        assert is_dead(x), f"call {call}"


def test_by_option() -> None:
    function = compiled(lambda x, y: x * 2 + y, options={"donate": ["x"]})
    for call in range(3):
        x, y = fresh(call), fresh(call + 9)
        assert_same(values(5, 5, seed=call) * 2 + values(5, 5, seed=call + 9), function(x, y), f"call {call}")
        assert (is_dead(x), is_dead(y)) == (True, False)


def test_by_hand() -> None:
    """Given arguments marked before each call, unmarked ones stay alive."""
    function = compiled(lambda x: x * 2)
    for call, marked in enumerate([True, True, False, True]):
        x = fresh(call)
        if marked:
            runtime.set_donation(x, True)
        assert_same(values(5, 5, seed=call) * 2, function(x), f"call {call}")
        assert is_dead(x) == marked, f"call {call}"


def test_an_update_in_place_keeps_its_memory() -> None:
    """Given an offered argument that is updated in place, the new value is in the old memory."""
    function = compiled(updates)
    x = fresh()
    for call in range(3):
        before = runtime.address(x)
        function(x)
        assert_same(values(5, 5) + call + 1, x, f"call {call}")
        assert runtime.address(x) == before, f"call {call}"


def test_an_offer_withdrawn() -> None:
    def function(x: Tensor) -> Tensor:
        offer(x, True)
        offer(x, False)
        return x * 2

    x = fresh()
    assert_same(values(5, 5) * 2, compiled(function)(x))
    assert not is_dead(x)


def test_the_mark_does_not_leak_to_the_next_function() -> None:
    first, second = compiled(_update_and_return), compiled(lambda x: x * 100)
    for call in range(3):
        x = fresh(call)
        want = values(5, 5, seed=call) + 1
        result = first(x)
        for _ in range(2):
            assert_same(want * 100, second(result), f"call {call}: second function")
        assert_same(want, x, f"call {call}: updated argument")
        assert_same(want, result, f"call {call}: first result")


def _update_and_return(x: Tensor) -> Tensor:
    offer(x, True)
    x += 1
    return x


def test_reports_tell_what_is_donated() -> None:
    with reports() as watched:
        compiled(consumes)(fresh())
    (traced,) = watched.of(GraphTraced)
    names = {binding.index: binding.name for binding in traced.inputs if binding.kind == "argument"}
    assert [names[i] for i in traced.donated_inputs] == ["x"]


# Refusals ---------------------------------------------------------------------------------------------


def refused(run: Callable[[], Any], why: str) -> Any:
    """The result of `run`, which must warn and report once that a donation was refused because of `why`."""
    with reports() as watched, pytest.warns(DonationRefusedWarning, match=why):
        result = run()
    (refusal,) = watched.of(DonationRefused)
    assert why in refusal.why
    assert refusal.name == "x"
    return result


def test_a_returned_argument_is_not_donated() -> None:
    def function(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        offer(x, True)
        return x, x + y

    x, y = fresh(), fresh(1)
    p, q = refused(lambda: compiled(function)(x, y), "the function returns it or uses it later")
    assert p is x
    assert_same(values(5, 5), x)
    assert_same(values(5, 5) + values(5, 5, seed=1), q)


def test_an_argument_used_after_a_graph_break_is_not_donated() -> None:
    def function(x: Tensor) -> Tensor:
        offer(x, True)
        y = x * 2
        torch._dynamo.graph_break()
        return y + x

    x = fresh()
    result = refused(lambda: compiled(function)(x), "the function returns it or uses it later")
    assert_same(values(5, 5) * 3, result)


def test_an_argument_passed_twice_is_not_donated() -> None:
    function = compiled(lambda x, y: x * 2 + y, options={"donate": ["x"]})
    function(fresh(3), fresh(4))
    x = fresh()
    twin = torch_xla._XLAC._get_tensors_xla_device_data_node([x])[1][0]
    result = refused(lambda: function(x, twin), "another argument shares its buffer")
    assert_same(values(5, 5) * 3, result)
    assert_same(values(5, 5), x)


def test_the_same_tensor_in_both_places_stays_alive() -> None:
    function = compiled(lambda x, y: x * 2 + y, options={"donate": ["x"]})
    x = fresh()
    assert_same(values(5, 5) * 3, refused(lambda: function(x, x), "the function returns it or uses it later"))
    assert_same(values(5, 5), x)


@pytest.mark.parametrize(
    "alias",
    [lambda x: x.detach(), lambda x: x[0], lambda x: x.view(-1), lambda x: torch.nn.Parameter(x)],
    ids=["detached", "row", "view", "parameter"],
)
@pytest.mark.parametrize("function", [consumes, updates])
def test_an_argument_with_a_living_alias_is_not_donated(
    alias: Callable[[Tensor], Tensor], function: Callable[[Tensor], Tensor]
) -> None:
    run = compiled(function)
    x = fresh()
    other = alias(x)
    want = alias(values(5, 5))
    refused(lambda: run(x), "a view or a detached copy of it is alive")
    assert_same(want.detach() + (function is updates), other.detach(), "alias")
    assert_same(values(5, 5) + (function is updates), x, "argument")


def test_an_argument_that_pending_work_reads_is_not_donated() -> None:
    run = compiled(consumes)
    run(fresh(3))
    x = fresh()
    waiting = x * 3
    result = refused(lambda: run(x), "pending work on the device may read it")
    assert_same(values(5, 5) * 2 + 1, result)
    assert_same(values(5, 5) * 3, waiting)


def test_an_argument_of_a_function_with_host_operators_is_not_donated() -> None:
    def function(x: Tensor) -> Tensor:
        offer(x, True)
        return torch.median(x * 2) + x

    x = fresh()
    result = refused(lambda: compiled(function)(x), "operators that run on the host")
    assert_same(torch.median(values(5, 5) * 2) + values(5, 5), result)
    assert_same(values(5, 5), x)


def test_an_argument_on_the_cpu_is_not_donated() -> None:
    function = compiled(lambda x, y: x * 2 + y, options={"donate": ["x"]})
    x = torch.tensor(3.0)
    result = refused(lambda: function(x, fresh()), "operators that run on the host")
    assert_same(values(5, 5) + 6, result)


def test_a_refusal_is_said_once_and_ends_with_its_cause() -> None:
    run = compiled(consumes)
    x = fresh()
    alias = x.detach()
    refused(lambda: run(x), "a view or a detached copy of it is alive")
    with reports() as watched:
        run(x)
    assert watched.of(DonationRefused) == []
    del alias
    y = fresh(1)
    assert_same(values(5, 5, seed=1) * 2 + 1, run(y))
    assert is_dead(y)
