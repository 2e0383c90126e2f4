"""Every compile after the first of a function names its cause, from what Dynamo really says."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from xla_notebook.backend.observer import Binding, GraphEvicted, TensorSpec
from xla_notebook.session import Session
from xla_notebook.session.causes import explain_guard, same_thing
from xla_notebook.session.events import Recompiled

from .reports import CELL_FILE, argument, traced, warmed

graph_ids = itertools.count(1)


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = 2
        self.sizes = [1, 2]

    def forward(self, x: Any, factor: Any = 1) -> Any:
        y = x * 2 if self.training else x
        return y * self.scale * factor * len(self.sizes)


def add(a: Any, b: Any) -> Any:
    return a + b


def compiled_into(session: Session, function: Callable[..., Any], code: Any) -> Callable[..., Any]:
    """`function` compiled by a backend that reports its trace at the first call, as the real one does."""

    def backend(module: torch.fx.GraphModule, examples: list[Any]) -> Callable[..., Any]:
        nodes = [node for node in module.graph.nodes if node.op == "placeholder"]
        inputs = tuple(
            Binding("argument", i, node.name, TensorSpec(tuple(example.shape), str(example.dtype), 0))
            for i, (node, example) in enumerate(zip(nodes, examples, strict=True))
            if isinstance(example, torch.Tensor)
        )
        report = traced(
            next(graph_ids),
            function=code.co_name,
            filename=code.co_filename,
            line=code.co_firstlineno,
            inputs=inputs,
        )
        waiting = [report]

        def run(*args: Any) -> Any:
            while waiting:
                session.report(waiting.pop())
            return module.forward(*args)

        return run

    return torch.compile(function, backend=backend, dynamic=False)


def causes_of(session: Session) -> list[str]:
    """What each recompile was said to come from, against the version used last."""
    return [event.causes[0].what for event in session.events() if isinstance(event, Recompiled)]


@pytest.fixture
def session() -> Iterator[Session]:
    torch._dynamo.reset()
    yield Session(live_graphs=list)
    torch._dynamo.reset()


@pytest.fixture
def model() -> Model:
    return Model()


Call = Callable[[Callable[..., Any], Model], object]


def in_eval(run: Callable[..., Any], model: Model) -> object:
    model.eval()
    return run(torch.ones(8, 8))


def without_grad(run: Callable[..., Any], model: Model) -> object:
    with torch.no_grad():
        return run(torch.ones(8, 8))


def in_autocast(run: Callable[..., Any], model: Model) -> object:
    with torch.autocast("cpu"):
        return run(torch.ones(8, 8))


def longer(run: Callable[..., Any], model: Model) -> object:
    model.sizes.append(3)
    return run(torch.ones(8, 8))


def scaled(run: Callable[..., Any], model: Model) -> object:
    model.scale = 5
    return run(torch.ones(8, 8))


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda run, _: run(torch.ones(16, 8)), "`x` is 16x8, was 8x8"),
        (lambda run, _: run(torch.ones(8, 3)), "`x` is 8x3, was 8x8"),
        (lambda run, _: run(torch.ones(4)), "`x` has 1 dimensions, had 2"),
        (lambda run, _: run(torch.ones(8, 8).double()), "`x` is of dtype float64, was float32"),
        (
            lambda run, _: run(torch.ones(8, 4, 2)[:, :, 0].repeat(1, 2).t()),
            "`x` has stride 1 in dimension 0, had 8",
        ),
        (lambda run, _: run(torch.ones(8, 8, requires_grad=True)), "`x` now requires a gradient"),
        (lambda run, _: run(torch.ones(8, 8), 2), "`factor` changed (was 1)"),
        (in_eval, "`self.training` changed (was True)"),
        (without_grad, "grad mode changed"),
        (in_autocast, "autocast changed"),
        (longer, "`self.sizes` no longer has 2 items"),
        (scaled, "`self.scale` changed (was 2)"),
    ],
)
def test_recompile_names_its_cause(session: Session, model: Model, call: Call, says: str) -> None:
    run = compiled_into(session, model, Model.forward.__code__)
    run(torch.ones(8, 8))
    assert causes_of(session) == []
    call(run, model)
    run(torch.ones(8, 8))
    assert causes_of(session) == [says]


def test_one_tensor_passed_twice_is_named(session: Session) -> None:
    run = compiled_into(session, add, add.__code__)
    run(torch.ones(3), torch.ones(3))
    x = torch.ones(3)
    run(x, x)
    assert causes_of(session) == ["`a` and `b` are one and the same tensor now"]


def test_one_of_many_tensors_passed_twice_is_named(session: Session) -> None:
    def add_all(tensors: dict[str, torch.Tensor]) -> torch.Tensor:
        return torch.stack(list(tensors.values())).sum()

    run = compiled_into(session, add_all, add_all.__code__)
    run({name: torch.ones(3) for name in "abcdef"})
    x, y, z = (torch.ones(3) for _ in range(3))
    run({"a": x, "b": y, "c": x, "d": y, "e": z, "f": z})
    assert causes_of(session) == ["`tensors['a']` and `tensors['c']` are one and the same tensor now (and 2 more such)"]


def test_a_dict_of_another_length(session: Session) -> None:
    def add_all(tensors: dict[str, torch.Tensor]) -> torch.Tensor:
        return torch.stack(list(tensors.values())).sum()

    run = compiled_into(session, add_all, add_all.__code__)
    run({name: torch.ones(3) for name in "ab"})
    run({name: torch.ones(3) for name in "abc"})
    assert causes_of(session) == ["`tensors` no longer has 2 items"]


def test_each_recompile_is_told_once_and_the_last_version_first(session: Session) -> None:
    run = compiled_into(session, add, add.__code__)
    for size in (3, 5, 7):
        run(torch.ones(size), torch.ones(size))
    events = [event for event in session.events() if isinstance(event, Recompiled)]
    assert [event.causes[0].what for event in events] == ["`a` is 5, was 3", "`a` is 7, was 5"]
    assert [len(event.causes) for event in events] == [1, 2]
    assert events[0].causes[0].guard is not None
    assert "size mismatch at index 0" in events[0].causes[0].guard
    assert events[0].graph_id == session.graphs()[1].graph_id


def test_first_compile_after_a_reset_is_not_blamed_on_old_guards(session: Session) -> None:
    run = compiled_into(session, add, add.__code__)
    run(torch.ones(3), torch.ones(3))
    run(torch.ones(5), torch.ones(5))
    torch._dynamo.reset()
    run(torch.ones(9), torch.ones(9))
    assert causes_of(session) == ["`a` is 5, was 3", "the function was defined anew, or Dynamo was reset"]


@pytest.mark.parametrize(
    ("guard", "cause"),
    [
        ("G['step'] == 3   # y = x * step  # cell.py:3 in f", "`step` changed (was 3)"),
        ("tensor 'G['H']' size mismatch at index 0. expected 2, actual 3", "`H` has 3 in dimension 0, had 2"),
        ("___check_obj_id(self.layer, 140164022500576)", "`self.layer` is another object"),
        (
            "Cache line invalidated because L['x'] got deallocated",
            "`x` was deleted or replaced by a new object",
        ),
        (
            "tensor '___stack0' size mismatch at index 0. expected 12, actual 9",
            "`result before the graph break` has 9 in dimension 0, had 12",
        ),
        ("self._modules['net']._modules['0'].count == 1", "`self.net[0].count` changed (was 1)"),
        (
            "object.__getattribute__(object.__getattribute__(self, 'config'), 'kind') is None",
            "`self.config.kind` changed (was None)",
        ),
        ("len(self.state[list(dict.keys(self.state))[0]]) != 0", "the optimizer made its state in its first step"),
        ("self.param_groups[0]['lr'] == 0.1  # for group in", "the learning rate changed (was 0.1)"),
        ("GLOBAL_STATE changed: grad_mode autocast ", "grad mode changed and autocast changed"),
        ("GLOBAL_STATE changed: torch_function ", "the global state torch_function changed"),
        (
            "expected type of 'b' to be a tensor type, ' but found <class 'int'>",
            "`b` is of type int, was a tensor",
        ),
        ("___check_type_id(k, 140164022500576)  # y = k * x", "`k` is of another type"),
        ("x is None", "`x` changed (was None)"),
        ("mode == 'fast'", "`mode` changed (was 'fast')"),
        ("2 <= x.size()[0]", "the condition `2 <= x.size()[0]` no longer holds"),
        (
            "tensor 'x' dispatch key set mismatch. expected A, actual B",
            "`x` is on another device, or is another kind of tensor",
        ),
    ],
)
def test_guards_in_the_users_words(guard: str, cause: str) -> None:
    explained = explain_guard(guard)
    assert explained.what == cause
    assert explained.guard == guard.strip()


def test_unknown_guard_is_quoted_and_cut() -> None:
    explained = explain_guard("some_new_form(" + "x" * 1000)
    assert explained.what.startswith("the condition `some_new_form(xxx")
    assert len(explained.what) < 250


@pytest.mark.parametrize(
    ("source", "placeholder", "same"),
    [
        ("x", "l_x_", True),
        ("x", "L_x_", True),
        ("G['H']", "G_H_", True),
        ("x", "l_y_", False),
        ("l", "l_", True),
    ],
)
def test_same_thing(source: str, placeholder: str, same: bool) -> None:
    assert same_thing(source, placeholder) is same


def test_new_sizes_of_a_dynamic_function_are_named(session: Session) -> None:
    large, small = (TensorSpec((rows, 8), "float32", 0) for rows in (16, 9))
    for graph_id, kind, name in ((1, "forward", "kwargs['ids']"), (10, "backward", "view_40")):
        inputs = [(argument(name, 0, spec), argument("y", 1)) for spec in (large, small)]
        session.report(traced(graph_id, kind=kind, inputs=inputs[0]))
        session.report(traced(graph_id + 1, kind=kind, reason="sizes", inputs=inputs[1]))
    # The backward graph is fed with intermediate results, and follows from the forward one.
    assert causes_of(session) == ["`kwargs['ids']` is 9x8, was 16x8"]


@pytest.mark.parametrize(
    ("reason", "says"),
    [
        ("evicted", "XLA's cache had dropped the executable"),
        ("donated", "a saved buffer had been donated"),
        ("sharding", "the sharding of an argument changed"),
    ],
)
def test_traces_of_the_backends_own_accord_are_named(session: Session, reason: str, says: str) -> None:
    session.report(traced(1))
    session.report(warmed(1))
    session.report(traced(1, reason=reason))
    assert causes_of(session) == [says]


def test_first_compile_with_warm_up_off_is_no_eviction(session: Session) -> None:
    """Given a graph that was never compiled, when its first run finds nothing in the cache."""
    session.report(traced(1))
    session.report(GraphEvicted(1, "", 0))
    session.report(traced(1, reason="evicted"))
    session.report(warmed(1))
    assert [event.kind for event in session.events()] == ["traced", "traced", "warmed"]
    assert session.graphs()[0].reason == "first"


def test_edited_cell_is_named(session: Session) -> None:
    for count, filename in ((3, CELL_FILE), (4, "<cell edited>")):
        with session.cell(count, "the-cell", filename):
            session.report(traced(count, filename=filename))
    assert causes_of(session) == ["cell edited"]


def test_backward_and_later_segments_of_a_recompile_are_no_recompiles_of_their_own(session: Session) -> None:
    for first in (1, 4):
        session.report(traced(first, kind="forward"))
        session.report(traced(first + 1, kind="forward", segment=1))
        session.report(traced(first + 2, kind="backward"))
    events = [event for event in session.events() if isinstance(event, Recompiled)]
    assert [event.graph_id for event in events] == [4]


def test_same_name_in_another_cell_is_no_recompile(session: Session) -> None:
    for count, cell_id, filename in ((3, "a", CELL_FILE), (4, "b", "<other>")):
        with session.cell(count, cell_id, filename):
            session.report(traced(count, filename=filename))
    assert causes_of(session) == []
