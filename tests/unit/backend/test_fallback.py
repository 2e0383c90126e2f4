"""Splitting FX graphs around what must run on the host."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses import FakeTensorMode
from torch.fx import GraphModule, Node
from torch.fx.experimental.proxy_tensor import make_fx
from unit.backend.fx import XLA, graph

from xla_notebook.backend.fallback import split
from xla_notebook.backend.program import HostStep, Program, Segment, source_line

aten = torch.ops.aten


@torch.library.custom_op("xla_notebook_unit::custom", mutates_args=())
def custom(x: Tensor) -> Tensor:
    return x.clone()


@custom.register_fake
def _(x: Tensor) -> Tensor:
    return torch.empty_like(x)


def shape_of(program: Program) -> list[str]:
    """The steps in short: ``segment`` or the name of the operator."""
    return ["segment" if isinstance(s, Segment) else str(s.node.target).split(".")[1] for s in program.steps]


def segments(program: Program) -> list[Segment]:
    return [s for s in program.steps if isinstance(s, Segment)]


def names(nodes: Any) -> list[str]:
    return [n.name for n in nodes]


def test_plain_work_is_one_segment_that_takes_all_arguments() -> None:
    program = split(graph(lambda x, y, z: (x.sin() + y,), (3,), (3,), (3,)))
    (segment,) = segments(program)
    assert shape_of(program) == ["segment"]
    assert segment.inputs == program.placeholders
    assert [o.node for o in segment.outputs] == list(program.results)
    assert not segment.dynamic
    assert program.host_steps == ()


@pytest.mark.parametrize(
    ("operator", "why"),
    [
        (lambda x: custom(x), "custom operator"),
        (lambda x: aten.nonzero.default(x.cpu()), "works on the CPU"),
        (lambda x: x.cpu() + 1, "works on the CPU"),
    ],
    ids=["custom", "data-dependent", "cpu"],
)
def test_a_host_operator_splits_the_work(operator: Callable[[Tensor], Tensor], why: str) -> None:
    def function(x: Tensor) -> tuple[Tensor, ...]:
        return (operator(x * 2).sum().to(x.device) + x,)

    with FakeTensorMode(shape_env=torch.fx.experimental.symbolic_shapes.ShapeEnv(), allow_non_fake_inputs=True):
        module = make_fx(function)(torch.empty(3, device=XLA))
    program = split(module)
    assert why in {step.why for step in program.host_steps}
    first = program.steps.index(program.host_steps[0])
    assert any(isinstance(s, Segment) for s in program.steps[:first])
    assert any(isinstance(s, Segment) for s in program.steps[first:])


def test_host_steps_keep_their_order_and_segments_lie_between() -> None:
    def function(x: Tensor) -> tuple[Tensor, ...]:
        a = custom(x + 1)
        b = custom(a * 2)
        c = custom(x - 1)
        return (a + b + c,)

    program = split(graph(function, (3,)))
    kinds = shape_of(program)
    assert (kinds[0], kinds[-1], kinds.count("custom")) == ("segment", "segment", 3)
    order = [n.name for n in graph(function, (3,)).graph.nodes if "custom" in str(n.target)]
    assert names(s.node for s in program.host_steps) == order


def test_every_value_is_made_before_it_is_used() -> None:
    """Given a graph in which several segments and host steps feed each other, the steps are in a right order."""

    def function(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        a, b = x.sin(), y.cos()
        c = custom(a * b)
        d = a + c
        e = custom(d)
        return (d * e, b + 1, c, a)

    program = split(graph(function, (3,), (3,)))
    known: set[Any] = set(program.placeholders)
    for step in program.steps:
        needed = step.inputs if isinstance(step, Segment) else step.node.all_input_nodes
        assert set(needed) <= known
        known.update([o.key for o in step.outputs] if isinstance(step, Segment) else [step.node])
    assert {r for r in program.results if isinstance(r, Node)} <= known


def test_a_node_found_on_the_host_while_tracing_is_split_out() -> None:
    module = graph(lambda x: (aten.addmm(x, x, x, beta=0.5).relu(),), (3, 3))
    assert shape_of(split(module)) == ["segment"]
    (node,) = [n.name for n in module.graph.nodes if "addmm" in str(n.target)]
    program = split(module, {node: "fell back to the host"})
    assert shape_of(program) == ["addmm", "segment"]
    assert program.host_steps == (HostStep(program.host_steps[0].node, "fell back to the host"),)


def test_a_final_update_of_an_argument_is_taken_out_of_the_work() -> None:
    def function(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        z = x + y
        aten.copy_.default(x, z)
        return (z * 2,)

    program = split(graph(function, (3,), (3,)))
    ((target, output),) = program.updates
    (segment,) = segments(program)
    assert target is program.placeholders[0]
    assert output in segment.outputs
    assert output.target is target
    assert not any("copy_" in str(n.target) for n in segment.nodes)


def test_a_value_that_is_both_result_and_update_is_handed_out_twice() -> None:
    """An argument's new value needs a buffer of its own."""

    def function(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        z = x + y
        aten.copy_.default(x, z)
        aten.copy_.default(y, z)
        return (z,)

    (segment,) = segments(split(graph(function, (3,), (3,))))
    assert [o.target and o.target.name for o in segment.outputs].count(None) == 1
    assert len(segment.outputs) == 3
    assert len({o.node for o in segment.outputs}) == 1


def test_outputs_that_alias_each_other_are_made_from_their_base() -> None:
    program = split(graph(lambda x: (lambda y: (y, y.view(-1), y[1:]))(x * 2), (2, 3)))
    (segment,) = segments(program)
    assert len(segment.outputs) == 1
    assert set(program.results) == {segment.outputs[0].node, *program.views[-2:]}
    assert len(program.views) >= 2


def test_a_single_view_stays_in_the_graph() -> None:
    program = split(graph(lambda x: ((x * 2).view(-1),), (2, 3)))
    assert program.views == ()
    assert [o.node for o in segments(program)[0].outputs] == list(program.results)


def test_aliases_that_nobody_sees_stay_in_the_graph() -> None:
    """Given outputs that only the backward pass gets, their aliases do not matter."""
    module = graph(lambda x: (lambda y: (y, y.view(-1)))(x * 2), (2, 3))
    assert split(module, visible_outputs=1).views == ()
    assert split(module, visible_outputs=0).views == ()
    assert split(module, visible_outputs=2).views != ()


def test_none_and_arguments_among_the_results() -> None:
    program = split(graph(lambda x, y: (y, None, x + 1), (3,), (3,)))
    assert program.results[0] is program.placeholders[1]
    assert program.results[1] is None


def test_symbolic_sizes_make_a_segment_dynamic() -> None:
    module: GraphModule = make_fx(lambda x: (x * 2 + x.shape[0],), tracing_mode="symbolic")(torch.empty(3, 2))
    for node in module.graph.nodes:
        value = node.meta.get("val")
        if isinstance(value, Tensor):
            node.meta["val"] = value.to(XLA)
    assert [s.dynamic for s in segments(split(module))] == [True]


def test_the_users_line_of_a_node() -> None:
    node = next(iter(graph(lambda x: (x + 1,), (3,)).graph.nodes))
    node.meta["stack_trace"] = (
        '  File "/a.py", line 3, in outer\n    g(x)\n  File "/b c.py", line 14, in g\n    x.median()\n'
    )
    assert source_line(node) == "/b c.py:14: x.median()"
    node.meta["stack_trace"] = None
    assert source_line(node) is None
    node.meta["stack_trace"] = "no file in here"
    assert source_line(node) is None
