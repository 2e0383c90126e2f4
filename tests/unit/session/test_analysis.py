"""Totals and advice are pure functions of plain records."""

from __future__ import annotations

from typing import Any

import pytest

from xla_notebook.backend.observer import Binding, TensorSpec
from xla_notebook.session import Session
from xla_notebook.session.analysis import advice, aliases, live_nbytes, totals_by_owner
from xla_notebook.session.buffers import BufferRecord, Owner
from xla_notebook.session.records import GraphRecord

from .reports import SPEC, argument, dropped, traced


def graphs_of(*reports: Any) -> list[GraphRecord]:
    session = Session(live_graphs=list)
    for report in reports:
        session.report(report)
    return session.graphs()


def buffer(
    handle: int | None, *owners: Owner, state: Any = "live", nbytes: int = 5000, shape: tuple[int, ...] = (5, 5)
) -> BufferRecord:
    return BufferRecord(handle, shape, "float32", nbytes, state, owners, len(owners))


def saved(graph_id: int, name: str = "step: constant 0") -> Owner:
    return Owner("saved", name, graph_id)


WEIGHT = Owner("module", "model.weight")


def test_totals_count_a_shared_buffer_once_for_each_kind_of_owner() -> None:
    buffers = [
        buffer(1, WEIGHT, Owner("variable", "w"), Owner("variable", "v")),
        buffer(2, saved(1), nbytes=7),
        buffer(None, WEIGHT, state="pending"),
    ]
    assert totals_by_owner(buffers) == {"module": 5000, "variable": 5000, "saved": 7}
    assert live_nbytes(buffers) == 5007


def test_alias_map_counts_arguments_not_graph_inputs() -> None:
    """Given a graph whose first argument it does not use."""
    (graph,) = graphs_of(traced(1, inputs=(argument("w", 1),), mutations=((1, 0), (0, 1)), donated_inputs=(1,)))
    assert aliases(graph) == [("w", 0, True)]


def test_overwritten_input_could_be_donated() -> None:
    graphs = graphs_of(traced(1, inputs=(argument("w"), argument("x", 1)), mutations=((0, 0),)))
    (only,) = advice(graphs)
    assert (only.kind, only.graph_ids, only.nbytes) == ("donate", (1,), SPEC.nbytes)
    assert only.text == "step overwrites w in each run: --donate w reuses the memory"


@pytest.mark.parametrize(
    ("report", "buffers"),
    [
        (traced(1, mutations=((0, 0),), donated_inputs=(0,)), []),
        (traced(1), []),
        (traced(1, mutations=((0, 0),)), [buffer(1, Owner("variable", "x"), saved(2))]),
        (traced(1, inputs=(argument("self.state['w']"),), mutations=((0, 0),)), []),
        (traced(1, inputs=(Binding("attribute", 0, "x", SPEC),), mutations=((0, 0),)), []),
    ],
    ids=["donated already", "not overwritten", "buffer shared", "no variable", "not an argument"],
)
def test_other_inputs_are_not_to_be_donated(report: Any, buffers: list[BufferRecord]) -> None:
    assert [item for item in advice(graphs_of(report), buffers) if item.kind == "donate"] == []


def test_graphs_that_differ_only_by_a_shape_are_named_with_the_shapes() -> None:
    small, large = TensorSpec((8, 8), "float32", 0), TensorSpec((9, 8), "float32", 0)
    graphs = graphs_of(
        traced(1, inputs=(argument("x", 0, small), argument("w", 1))),
        traced(2, inputs=(argument("x", 0, large), argument("w", 1))),
        traced(3, inputs=(argument("x", 0, TensorSpec((8, 8), "int32", 0)), argument("w", 1))),
        traced(4, line=99),
    )
    (only,) = advice(graphs)
    assert (only.kind, only.graph_ids) == ("pad", (1, 2))
    assert only.text.startswith("2 graphs of step differ only by the shape of `x` (8x8, 9x8):")


def test_constants_kept_by_several_graphs_of_a_function_in_buffers_of_their_own() -> None:
    graphs = graphs_of(traced(1), traced(2, inputs=(argument("y"),)))
    (only,) = advice(graphs, [buffer(1, saved(1)), buffer(2, saved(2))])
    assert (only.kind, only.graph_ids, only.nbytes) == ("constant", (1, 2), 5000)


def test_constants_kept_by_different_functions_may_be_one() -> None:
    """Given two cells that each make a constant of one shape, and a third with another."""
    graphs = graphs_of(traced(1, function="a"), traced(2, function="b"), traced(3, function="c"))
    buffers = [buffer(1, saved(1)), buffer(2, saved(2)), buffer(3, saved(3), shape=(2, 625))]
    (only,) = advice(graphs, buffers)
    assert (only.kind, only.graph_ids, only.nbytes) == ("constant", (1, 2), 5000)
    assert only.text.startswith("a and b keep 2 buffers of float32 ")
    assert advice(graphs, [buffer(1, saved(1), saved(2))]) == []


def test_functions_with_several_buffers_of_a_shape_are_not_suspected() -> None:
    """Given weights kept as constants: which of two functions' might be equal cannot be said."""
    graphs = graphs_of(traced(1, function="a"), traced(2, function="b"))
    kept = [buffer(1, saved(1)), buffer(2, saved(1, "a: constant 1")), buffer(3, saved(2))]
    assert advice(graphs, kept) == []


def test_small_constants_are_not_worth_a_word() -> None:
    graphs = graphs_of(traced(1), traced(2, inputs=(argument("y"),)))
    assert advice(graphs, [buffer(1, saved(1), nbytes=4), buffer(2, saved(2), nbytes=4)]) == []


def test_backward_graphs_follow_the_forward_ones() -> None:
    other = TensorSpec((9, 8), "float32", 0)
    graphs = graphs_of(*(traced(i, kind="backward", inputs=(argument("x", 0, s),)) for i, s in ((1, SPEC), (2, other))))
    assert advice(graphs) == []


def test_constants_in_one_shared_buffer_are_fine() -> None:
    graphs = graphs_of(traced(1), traced(2, inputs=(argument("y"),)))
    assert advice(graphs, [buffer(1, saved(1), saved(2))]) == []


def test_largest_keepers_come_first_and_dropped_graphs_keep_nothing() -> None:
    graphs = graphs_of(
        traced(1, function="a", saved_nbytes=10),
        traced(2, function="b", saved_nbytes=30),
        traced(3, function="c", saved_nbytes=90),
        dropped(3),
    )
    assert [(item.kind, item.nbytes, item.graph_ids) for item in advice(graphs)] == [
        ("large", 30, (2,)),
        ("large", 10, (1,)),
    ]
