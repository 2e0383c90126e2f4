"""Events and histories in words."""

from __future__ import annotations

import pytest

from xla_notebook.backend.observer import DonationRefused, GraphEvicted, GraphWarming, TensorSpec
from xla_notebook.session import CellRef, Session, Source
from xla_notebook.session.describe import bytes_text, duration_text, event_text, histories, place_text

from .reports import CELL_FILE, SPEC, FakeClock, FakeGraph, argument, barrier, donated, dropped, traced, warmed


@pytest.mark.parametrize(
    ("nbytes", "text"),
    [(0, "0 B"), (512, "512 B"), (1024, "1 KiB"), (1536, "1.5 KiB"), (200 * 1024, "200 KiB"), (2**26, "64 MiB"),
     (1023, "1 KiB"), (3 * 2**40, "3 TiB")],
)  # fmt: skip
def test_bytes(nbytes: int, text: str) -> None:
    assert bytes_text(nbytes) == text


@pytest.mark.parametrize(
    ("duration_ns", "text"),
    [(0, "0 us"), (12_345, "12 us"), (3_400_000, "3.4 ms"), (1_900_000_000, "1.9 s"), (999_999, "1.0 ms")],
)
def test_durations(duration_ns: int, text: str) -> None:
    assert duration_text(duration_ns) == text


@pytest.mark.parametrize(
    ("cell", "source", "text"),
    [
        (CellRef(5), Source(CELL_FILE, 4, CellRef(3)), "cell 3, line 4"),
        (CellRef(5), Source("/home/me/train.py", 4), "train.py:4"),
        (CellRef(5), Source("C:\\me\\train.py", None), "train.py"),
        (CellRef(5), None, "cell 5"),
        (None, None, ""),
    ],
)
def test_places(cell: CellRef | None, source: Source | None, text: str) -> None:
    assert place_text(cell, source) == text


def told(*reports: object) -> list[str]:
    session = Session(live_graphs=list)
    for report in reports:
        session.report(report)  # type: ignore[arg-type]
    return [event_text(event, {1: "step"}) for event in session.events()]


@pytest.mark.parametrize(
    ("report", "texts"),
    [
        (traced(1), ["step traced in 400.0 ms"]),
        (traced(9), ["graph 9 traced in 400.0 ms"]),
        (GraphWarming(1, 3, "execute", 0), ["step warming up (execute)"]),
        (warmed(1), ["step compiled in 1.5 s"]),
        (warmed(1, compiled=False), ["step was compiled already"]),
        (GraphEvicted(1, "", 0), ["XLA's cache had dropped step"]),
        (dropped(1), ["step is gone, 64 B came free"]),
        (barrier(0, 2_000_000), ["step barrier of 2 tensors took 2.0 ms"]),
        (barrier(0, 2_000_000, tensors=0), ["step barrier took 2.0 ms"]),
        (donated(), ["w (float32 16x8) was donated by a step barrier"]),
        (donated(cause="graph input", graph_id=1), ["w (float32 16x8) was donated by a run of step"]),
        (
            donated(cause="warm-up", graph_id=1, saved=True, would_be=True),
            [
                "w (float32 16x8) would have been donated by the warm-up of step",
                "w, which step needs, was donated: the guard's private copy was, so nothing happened",
            ],
        ),
        (DonationRefused(1, "x", "it is read later", 0), ["x of step was not donated: it is read later"]),
        (traced(1, reason="donated"), ["step traced again (donated) in 400.0 ms"]),
    ],
)
def test_events_in_words(report: object, texts: list[str]) -> None:
    assert told(report) == texts


def test_setting_cell_and_recompile_in_words() -> None:
    live = [FakeGraph(1)]
    clock = FakeClock()
    session = Session(live_graphs=lambda: live, now_ns=clock)
    session.set(guard=False)
    with session.cell(3):
        session.report(traced(1))
        session.report(warmed(1, compiled=False))
        session.report(traced(1, reason="evicted"))
        clock.time_ns += 2_000_000
    texts = [event_text(event, {}) for event in session.events()]
    assert texts[0] == "guard is now False (was True)"
    assert texts[-2:] == [
        "step was compiled again: XLA's cache had dropped the executable",
        "cell ended after 2.0 ms: graphs traced only",
    ]


def test_edited_cell_is_the_same_function() -> None:
    session = Session(live_graphs=list)
    for count, filename, line in ((3, CELL_FILE, 4), (4, "<edited>", 5)):
        with session.cell(count, "id", filename):
            session.report(traced(count, filename=filename, line=line))
    (history,) = histories(session.graphs(), session.events())
    assert history.lines()[-1].endswith("2. cell edited [cell 4]")


def test_history_tells_each_compile_and_what_would_avoid_it() -> None:
    session = Session(live_graphs=list)
    other = TensorSpec((9, 8), "float32", 0)
    for count, graph_id, reason, spec in ((3, 1, "first", SPEC), (4, 1, "evicted", SPEC), (5, 2, "sizes", other)):
        with session.cell(count, filename=CELL_FILE):
            session.report(traced(graph_id, reason=reason, inputs=(argument("x", 0, spec),)))
            session.report(warmed(graph_id))
    session.report(traced(3, function="other", line=9))
    session.report(traced(4, function="other", line=9, kind="backward"))
    first, second = histories(session.graphs(), session.events())
    assert [compiled.graph for compiled in first.compiles] == ["step", "step", "step #2"]
    assert [len(compiled.causes) for compiled in first.compiles] == [0, 1, 1]
    lines = first.lines()
    assert lines[0].endswith("compiled 3 times")
    assert lines[1].endswith("1. first call [cell 4]")
    assert "2. XLA's cache had dropped the executable [cell 4]" in lines[2]
    assert "to avoid it: raise XLA_COMPILATION_CACHE_SIZE" in lines[3]
    assert "3. `x` is 9x8, was 16x8 [cell 5]" in lines[4]
    assert second.lines() == ["other (cell 5, line 9): compiled 1 time", "  1. first call"]


def test_history_outlasts_a_flood_of_step_barriers() -> None:
    """Given a recompile and a ring of events that barriers have filled, then its cause is still told."""
    session = Session(live_graphs=list, capacity=4)
    other = TensorSpec((9, 8), "float32", 0)
    session.report(traced(1))
    session.report(traced(2, reason="sizes", inputs=(argument("x", 0, other),)))
    for _ in range(9):
        session.report(barrier())
    assert {event.kind for event in session.events()} == {"barrier"}
    (history,) = histories(session.graphs(), session.events())
    assert [len(compiled.causes) for compiled in history.compiles] == [0, 1]
    assert "`x` is 9x8, was 16x8" in history.lines()[2]
