"""A session's memory is bounded, however many events, graphs, names and lines it sees."""

from __future__ import annotations

import sys
import tracemalloc

import pytest

from xla_notebook.backend.observer import Report, TensorSpec
from xla_notebook.session import Session
from xla_notebook.session.recorder import DROPPED_CAPACITY
from xla_notebook.session.store import EVENT_CAPACITY

from .reports import FakeClock, argument, barrier, donated, dropped, traced

BUDGET_NBYTES = 64 * 2**20


def fresh_text(length: int, number: int) -> str:
    """A text that no other event shares."""
    return f"{number:0{length}d}"


def fresh_reports(number: int) -> list[Report]:
    """Reports as big as they get, sharing nothing with those before them."""
    spec = TensorSpec((number + 1000, number + 2000, 3, 4), fresh_text(8, number), number + 10**12)
    return [
        barrier(number * 1000, number * 1000 + 900, filename=fresh_text(60, number), line=number + 1000),
        donated(
            name=fresh_text(400, number),
            spec=spec,
            handle=number + 10**12,
            address=number + 10**13,
            saved=True,
        ),
    ]


@pytest.mark.slow
def test_million_events_stay_within_the_budget() -> None:
    session = Session(live_graphs=list, now_ns=FakeClock())
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        # Of each pair, the barrier makes one event, and the donated saved buffer two. The last ones,
        # which fill the ring, are the big ones: making a million of those would take a minute.
        small, big = fresh_reports(0), EVENT_CAPACITY // 3 + 1
        for number in range(1_000_000 // 3 + 1):
            for report in small if number < 1_000_000 // 3 - big else fresh_reports(number):
                session.report(report)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    counts = session.snapshot().counts
    assert sum(counts.values()) >= 1_000_000
    assert counts["barrier"] == counts["donation"] == counts["hazard"]
    assert len(session.events()) == EVENT_CAPACITY
    assert after - before < BUDGET_NBYTES


def test_graphs_that_come_and_go_leave_a_bounded_record() -> None:
    session = Session(live_graphs=list, capacity=1)
    for graph_id in range(3 * DROPPED_CAPACITY):
        session.report(traced(graph_id, inputs=tuple(argument(f"x{i}", i) for i in range(3))))
        session.report(dropped(graph_id))
    assert len(session.graphs()) == DROPPED_CAPACITY


def test_cells_leave_nothing_behind_when_nothing_happens() -> None:
    session = Session(live_graphs=list, now_ns=FakeClock())
    with session.cell(0, filename="<cell>"):
        pass
    before = sys.getsizeof(session._recorder.cells) + sys.getsizeof(session._recorder.places._cells)
    for count in range(10_000):
        with session.cell(count, filename="<cell>"):
            pass
    assert sys.getsizeof(session._recorder.cells) + sys.getsizeof(session._recorder.places._cells) == before
    assert session.events() == []
