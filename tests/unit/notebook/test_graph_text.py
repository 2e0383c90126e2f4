"""Graphs are found by name or hash, and described in full."""

from __future__ import annotations

import pytest

from xla_notebook.backend.observer import HostOp, TensorSpec
from xla_notebook.notebook import graph_text
from xla_notebook.session import GraphRecord, Session

from ..session.reports import FakeGraph, argument, donated, traced


def records() -> list[GraphRecord]:
    session = Session(live_graphs=lambda: [FakeGraph(1, runs=1, run_ns=250_000)])
    session.report(traced(1, hash="abcd1111", mutations=((0, 0),), donated_inputs=(0,)))
    session.report(traced(2, hash="abcd2222", host_ops=(HostOp("aten::nonzero", "no lowering", "train.py:3"),)))
    session.report(traced(3, hash="ffff", function="other", inputs=(argument("y", 0, TensorSpec((), "int64", 8)),)))
    session.report(donated())
    return session.graphs()


@pytest.mark.parametrize(
    ("wanted", "graph_id"), [("step", 1), ("step #2", 2), ("step#2", 2), ("abcd2", 2), ("FFFF", 3), ("other", 3)]
)
def test_find(wanted: str, graph_id: int) -> None:
    assert graph_text.find(records(), wanted).graph_id == graph_id


@pytest.mark.parametrize(
    ("wanted", "says"),
    [
        ("abcd", r"'abcd' is more than one graph: step \(abcd1111\), step #2 \(abcd2222\)"),
        ("fff", r"there is no graph 'fff'; there are step \(abcd1111\), .*, other \(ffff\)"),
    ],
)
def test_not_one_graph(wanted: str, says: str) -> None:
    with pytest.raises(graph_text.NotOneGraph, match=says):
        graph_text.find(records(), wanted)
    with pytest.raises(graph_text.NotOneGraph, match="no graphs are cached yet"):
        graph_text.find([], wanted)


@pytest.mark.parametrize("words", ["step step #2", "step #2 step", "step #2 ffff", "ffff step", "abcd1 abcd2"])
def test_two_graphs_are_told_apart(words: str) -> None:
    names = {"step #2": 2, "step": 1, "ffff": 3, "abcd1": 1, "abcd2": 2}
    first, second = graph_text.find_two(records(), words.split())
    expected = sorted(names.items(), key=lambda item: -len(item[0]))
    left = next(graph_id for name, graph_id in expected if words.startswith(name))
    right = next(graph_id for name, graph_id in expected if words.endswith(name))
    assert (first.graph_id, second.graph_id) == (left, right)


def test_details() -> None:
    first, second, third = records()
    lines = graph_text.details(first).splitlines()
    assert lines == [
        "step (<cell 3>:4): inference graph, warm, hash abcd1111",
        "3 ops; traced in 400.0 ms, compiled before; 1 run, 250 us of host time each",
        "inputs:",
        "  x: argument, float32 16x8, 512 B",
        "outputs:",
        "  0: float32 16x8, 512 B, the new value of x, in its memory",
    ]
    assert graph_text.details(second).endswith("\n  aten::nonzero: no lowering (train.py:3)")
    assert "\n  y: argument, int64 scalar, 8 B\n" in graph_text.details(third)


HLO = "ENTRY %e (p0: f32[2]) -> f32[2] {\n  %p0 = f32[2]{0} parameter(0)\n  ROOT %a.3 = f32[2]{0} add(%p0, %p0)\n}\n"


def test_hlo_and_diff() -> None:
    first, second, _ = records()
    assert graph_text.hlo(first, HLO) == f"// step: add 1\n{HLO.rstrip()}"
    assert graph_text.hlo(first, "") == "// step: no ops\n"
    assert graph_text.diff(first, HLO, second, HLO.replace("a.3", "a.9")) == "step and step #2 have the same HLO."
    assert "+  ROOT %a = f32[2]{0} subtract(%p0, %p0)" in graph_text.diff(
        first, HLO, second, HLO.replace(" add(", " subtract(")
    )
