"""Whoever applies a session's changes one after the other ends with the same state as a fresh snapshot."""

from __future__ import annotations

import dataclasses
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xla_notebook.backend.observer import GraphEvicted
from xla_notebook.session import Changes, FrozenError, Session, Snapshot, recorder

from .reports import FakeClock, FakeGraph, barrier, donated, dropped, traced, warmed

CAPACITY = 12

graph_ids = st.integers(0, 3)
steps = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["trace", "run", "run", "run", "warm", "evict", "drop"]), graph_ids),
        st.tuples(st.sampled_from(["look", "look", "look", "barrier", "donate", "set", "cell"]), st.integers(0, 3)),
    ),
    min_size=20,
    max_size=60,
)


class Mirror:
    """What a page keeps: the last snapshot with all changes since applied to it."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot

    def apply(self, changes: Changes) -> None:
        assert changes.since == self.snapshot.seq
        graphs = {graph.graph_id: graph for graph in self.snapshot.graphs}
        for graph_id in changes.forgotten:
            graphs.pop(graph_id, None)
        graphs |= {graph.graph_id: graph for graph in changes.graphs}
        self.snapshot = dataclasses.replace(
            self.snapshot,
            seq=changes.seq,
            graphs=tuple(graphs.values()),
            events=(*self.snapshot.events, *changes.events)[-CAPACITY:],
            counts=changes.counts,
            settings=changes.settings,
        )


def act(session: Session, live: dict[int, FakeGraph], name: str, number: int) -> None:
    match name:
        case "trace":
            try:
                session.report(traced(number, reason="donated" if number == 3 else "first"))
            except FrozenError:
                assert session.settings.freeze == "error"
            else:
                live.setdefault(number, FakeGraph(number))
        case "warm":
            session.report(warmed(number))
        case "run":
            if number in live:
                live[number].runs += 1
        case "evict":
            session.report(GraphEvicted(number, "", 0))
        case "drop":
            live.pop(number, None)
            session.report(dropped(number))
        case "barrier":
            session.report(barrier())
        case "donate":
            session.report(donated(saved=number == 1))
        case "set":
            session.set(freeze=("off", "warn", "error")[number % 3])
        case "cell":
            with session.cell(number):
                session.report(barrier())


@pytest.mark.filterwarnings("ignore::xla_notebook.session.FrozenWarning")
@mock.patch.object(recorder, "DROPPED_CAPACITY", 2)
@settings(max_examples=150, deadline=None)
@given(steps)
def test_changes_add_up_to_the_snapshot(actions: list[tuple[str, int]]) -> None:
    live: dict[int, FakeGraph] = {}
    session = Session(
        live_graphs=lambda: list(live.values()),
        failed_guards=lambda function, filename: (),
        now_ns=FakeClock(),
        capacity=CAPACITY,
    )
    mirror = Mirror(session.snapshot())
    for name, number in actions:
        if name == "look":
            changes = session.changes(mirror.snapshot.seq)
            if changes.complete:
                mirror.apply(changes)
            else:
                mirror = Mirror(session.snapshot())
        else:
            act(session, live, name, number)
    changes = session.changes(mirror.snapshot.seq)
    if changes.complete:
        mirror.apply(changes)
        assert mirror.snapshot == session.snapshot()
