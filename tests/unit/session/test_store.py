"""The session records what the backend reports, with cells and lines, and tells what is new."""

from __future__ import annotations

import gc
import json
import sys
import threading
import types

import pytest

from xla_notebook.backend import observer
from xla_notebook.backend.observer import Binding, GraphEvicted, GraphWarming
from xla_notebook.session import CellRef, Session, Source
from xla_notebook.session.events import BarrierRan, Donation, Hazard, Traced
from xla_notebook.session.recorder import DROPPED_CAPACITY

from .reports import (
    CELL_FILE,
    SPEC,
    FakeClock,
    FakeGraph,
    argument,
    barrier,
    donated,
    dropped,
    traced,
    warmed,
)


@pytest.fixture
def live() -> list[FakeGraph]:
    return []


@pytest.fixture
def session(live: list[FakeGraph]) -> Session:
    return Session(live_graphs=lambda: live, now_ns=FakeClock())


def test_attached_session_gets_the_backends_reports_until_detached(session: Session) -> None:
    session.attach()
    session.attach()
    observer.send(traced(1))
    session.detach()
    observer.send(traced(2))
    assert [graph.graph_id for graph in session.graphs()] == [1]


def test_record_of_a_graph_tells_what_the_backend_traced(session: Session) -> None:
    saved = Binding("saved", 0, "mask", SPEC)
    with session.cell(3, "abc", CELL_FILE) as cell:
        session.report(
            traced(1, inputs=(argument("x"), saved), mutations=((0, 0),), donated_inputs=(0,), saved_nbytes=512)
        )
        session.report(GraphWarming(1, 3, "compile", 15))
        session.report(warmed(1))
    (graph,) = session.graphs()
    assert (graph.name, graph.function, graph.kind, graph.state) == ("step", "step", "inference", "warm")
    assert graph.cell == cell == CellRef(3, "abc")
    assert graph.source == Source(CELL_FILE, 4, cell)
    assert (graph.saved_count, graph.saved_nbytes) == (1, 512)
    assert (graph.mutations, graph.donated_inputs) == (((0, 0),), (0,))
    assert (graph.warm_up, graph.compiled, graph.compile_ns) == ("compile", True, 1_500_000_000)


def test_function_defined_in_one_cell_and_traced_in_another_names_both(session: Session) -> None:
    with session.cell(3, filename=CELL_FILE):
        pass
    with session.cell(5, filename="<cell 5>"):
        session.report(traced(1))
    (graph,) = session.graphs()
    assert graph.cell == CellRef(5)
    assert graph.source is not None
    assert graph.source.cell == CellRef(3)


def test_code_in_no_function_is_named_by_its_place(session: Session) -> None:
    with session.cell(3, filename=CELL_FILE):
        session.report(traced(1, function="<module>"))
        session.report(traced(2, function="<module>"))
    session.report(traced(3, function="<module>", filename="train.py"))
    assert [graph.name for graph in session.graphs()] == ["cell 3 line 4", "cell 3 line 4 #2", "train.py line 4"]
    assert {graph.label for graph in session.graphs()} == {"cell 3 line 4", "train.py line 4"}


def test_graphs_of_one_function_get_different_names(session: Session) -> None:
    for graph_id in (1, 2, 3):
        session.report(traced(graph_id))
    session.report(traced(4, function="other"))
    assert [graph.name for graph in session.graphs()] == ["step", "step #2", "step #3", "other"]


@pytest.mark.parametrize(
    ("fields", "role"),
    [
        ({"kind": "backward"}, "backward"),
        ({"kind": "forward"}, "forward"),
        ({"filename": "/lib/torch/optim/adamw.py"}, "optimizer"),
        ({"inputs": (argument("self_param_groups_0_params_0"),)}, "optimizer"),
        ({}, "inference"),
    ],
)
def test_role_of_a_graph(session: Session, fields: dict[str, object], role: str) -> None:
    session.report(traced(1, **fields))
    assert session.graphs()[0].kind == role


def test_runs_are_read_from_the_backend(session: Session, live: list[FakeGraph]) -> None:
    session.report(traced(1))
    live.append(FakeGraph(1, runs=5))
    (graph,) = session.graphs()
    assert (graph.runs, graph.state) == (5, "warm")


def test_retrace_keeps_name_and_runs(session: Session, live: list[FakeGraph]) -> None:
    session.report(traced(1))
    live.append(FakeGraph(1, runs=5))
    session.graphs()
    session.report(GraphEvicted(1, "0", 25))
    assert session.graphs()[0].state == "evicted"
    session.report(traced(1, reason="evicted"))
    (graph,) = session.graphs()
    assert (graph.name, graph.runs, graph.traces, graph.reason) == ("step", 5, 2, "evicted")


def test_dropped_graphs_are_kept_for_a_while_and_then_forgotten(session: Session) -> None:
    for graph_id in range(DROPPED_CAPACITY + 1):
        session.report(traced(graph_id))
    seq = session.snapshot().seq
    for graph_id in range(DROPPED_CAPACITY + 1):
        session.report(dropped(graph_id))
    graphs = session.graphs()
    assert len(graphs) == DROPPED_CAPACITY
    assert {(graph.state, graph.saved_nbytes) for graph in graphs} == {("dropped", 0)}
    assert session.changes(seq).forgotten == (0,)


def test_summary_of_a_cell_counts_compiled_and_reused_graphs(session: Session, live: list[FakeGraph]) -> None:
    live += [FakeGraph(1, runs=2), FakeGraph(2), FakeGraph(3)]
    session.report(traced(1))
    session.begin_cell(4)
    session.report(traced(2))
    session.report(warmed(2))
    session.report(traced(3))
    session.report(warmed(3, compiled=False))
    live[0].runs, live[1].runs, live[2].runs = 3, 1, 1
    summary = session.end_cell()
    assert summary is not None
    assert (summary.traced, summary.compiled, summary.reused) == (2, 1, 1)
    assert summary.line() == "1 graph compiled in 2.3 s, 1 reused"


def test_cell_without_graphs_has_no_line_and_no_event(session: Session) -> None:
    session.begin_cell(4)
    summary = session.end_cell()
    assert summary is not None
    assert summary.line() is None
    assert session.events() == []


def test_cell_that_only_reuses_says_so(session: Session, live: list[FakeGraph]) -> None:
    session.report(traced(1))
    live.append(FakeGraph(1, runs=1))
    session.begin_cell(4)
    live[0].runs = 9
    summary = session.end_cell()
    assert summary is not None
    assert summary.line() == "1 graph reused"


def test_hazards_are_told_after_the_cell(session: Session, live: list[FakeGraph]) -> None:
    live.append(FakeGraph(1))
    session.begin_cell(4)
    session.report(donated(saved=True))
    live[0].runs = 2
    summary = session.end_cell()
    assert summary is not None
    assert summary.line() == "1 graph reused, 1 hazard (see %xla_events --hazards)"


def test_retrace_of_a_dropped_graph_brings_its_record_back(session: Session) -> None:
    session.report(traced(1))
    session.report(dropped(1))
    session.report(traced(1))
    for graph_id in range(2, DROPPED_CAPACITY + 3):
        session.report(traced(graph_id))
        session.report(dropped(graph_id))
    assert [graph.state for graph in session.graphs() if graph.graph_id == 1] == ["cold"]


def test_late_report_does_not_bring_a_dropped_graph_back(session: Session) -> None:
    session.report(traced(1))
    session.report(dropped(1))
    session.report(warmed(1))
    assert session.graphs()[0].state == "dropped"


def test_end_without_begin_is_none(session: Session) -> None:
    assert session.end_cell() is None


def test_cell_that_raises_is_over(session: Session) -> None:
    with pytest.raises(ZeroDivisionError), session.cell(4):
        raise ZeroDivisionError
    session.report(traced(1))
    assert session.graphs()[0].cell is None


def test_donation_at_a_step_barrier_gets_the_barriers_line(session: Session) -> None:
    session.report(barrier())
    session.report(donated())
    barrier_event, donation = session.events()
    assert isinstance(barrier_event, BarrierRan)
    assert isinstance(donation, Donation)
    assert donation.source == barrier_event.source == Source(CELL_FILE, 7)
    assert (barrier_event.duration_ns, donation.handle, donation.address) == (10, 17, 4096)


def test_donation_found_later_names_the_last_barrier(session: Session) -> None:
    session.report(barrier())
    session.report(barrier(60, 70, line=9))
    session.report(donated(time_ns=99, handle=0))
    donation = session.events()[-1]
    assert isinstance(donation, Donation)
    assert (donation.source, donation.handle) == (Source(CELL_FILE, 9), None)


def test_plain_cell_of_ipython_is_known_by_its_name(session: Session) -> None:
    session.report(barrier(filename="<ipython-input-12-0123abcd>", line=2))
    source = session.events()[0].source
    assert source is not None
    assert source.cell == CellRef(12)


def test_donation_without_a_barrier_has_no_line(session: Session) -> None:
    session.report(donated())
    assert session.events()[0].source is None


@pytest.mark.parametrize(
    ("fields", "on_donated", "outcome"),
    [
        ({"cause": "warm-up", "would_be": True}, "recover", "copied"),
        ({"cause": "warm-up"}, "recover", "raised"),
        ({}, "recover", "recovered"),
        ({}, "raise", "raised"),
    ],
)
def test_donated_saved_buffer_is_a_hazard(
    session: Session, fields: dict[str, object], on_donated: str, outcome: str
) -> None:
    session.set(on_donated=on_donated)
    with session.cell(6):
        session.report(donated(saved=True, graph_id=1, **fields))
    donation, hazard = session.events()[-2:]
    assert isinstance(donation, Donation)
    assert isinstance(hazard, Hazard)
    assert (hazard.name, hazard.handle, hazard.outcome, hazard.cell) == ("w", 17, outcome, CellRef(6))


def test_changes_since_a_snapshot_are_what_is_new(session: Session, live: list[FakeGraph]) -> None:
    live.append(FakeGraph(1))
    session.report(traced(1))
    session.report(traced(2))
    before = session.snapshot()
    assert [graph.graph_id for graph in before.graphs] == [1, 2]
    assert session.changes(before.seq).graphs == session.changes(before.seq).events == ()
    live[0].runs = 1
    session.report(barrier())
    changes = session.changes(before.seq)
    assert [graph.graph_id for graph in changes.graphs] == [1]
    assert [event.kind for event in changes.events] == ["barrier"]
    assert changes.complete
    assert session.changes(changes.seq).events == ()


def test_snapshot_may_hold_the_last_events_only(session: Session) -> None:
    for graph_id in range(5):
        session.report(traced(graph_id, line=graph_id))
    snapshot = session.snapshot(last=2)
    assert [event.graph_id for event in snapshot.events if isinstance(event, Traced)] == [3, 4]
    assert len(snapshot.graphs) == snapshot.counts["traced"] == 5
    assert session.changes(snapshot.seq).events == ()


def test_changes_say_when_events_were_missed(live: list[FakeGraph]) -> None:
    session = Session(live_graphs=lambda: live, capacity=3)
    for graph_id in range(5):
        session.report(traced(graph_id, function=f"f{graph_id}"))
    first = session.events()[0].seq
    assert len(session.events()) == 3
    assert session.snapshot().counts == {"traced": 5}
    assert session.changes(first - 1).complete
    assert not session.changes(first - 2).complete


def test_changes_since_another_sessions_number_are_not_complete(session: Session) -> None:
    assert not session.changes(99).complete


def test_snapshot_goes_through_json(session: Session) -> None:
    with session.cell(3, "abc", CELL_FILE):
        session.report(traced(1))
        session.report(donated(saved=True))
    plain = json.loads(json.dumps(session.snapshot().to_dict()))
    assert json.loads(json.dumps([event.to_dict() for event in session.events()])) == plain["events"]
    assert [event["kind"] for event in plain["events"]] == ["traced", "donation", "hazard", "cell"]
    assert plain["graphs"][0]["inputs"][0]["spec"] == {"shape": [16, 8], "dtype": "float32", "nbytes": 512}
    assert plain["settings"]["warm_up"] == "compile"


def test_reports_of_many_threads_are_all_recorded_in_order(session: Session) -> None:
    def work(first: int) -> None:
        for graph_id in range(first, first + 200):
            session.report(traced(graph_id, line=graph_id))
            session.changes(0)

    threads = [threading.Thread(target=work, args=(first,)) for first in (0, 1000, 2000, 3000)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    numbers = [event.seq for event in session.events()]
    assert len(numbers) == 800
    assert numbers == sorted(set(numbers))
    assert len({graph.name for graph in session.graphs()}) == 800


def test_finalizer_may_report_while_the_session_is_at_work(session: Session) -> None:
    """Given a reader that, while it holds the lock, triggers a finalizer that reports on the same thread."""

    class Cached:
        def __del__(self) -> None:
            session.report(dropped(1))

    session.report(traced(1))

    cycle = [Cached()]
    cycle.append(cycle)  # type: ignore[arg-type]
    del cycle
    with session._settled():
        gc.collect()
        held = session._recorder.graphs[1].state
    assert held == "cold"
    assert session.graphs()[0].state == "dropped"
    assert isinstance(session.events()[0], Traced)


def test_a_backend_in_the_middle_of_its_import_has_no_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "xla_notebook.backend.cache", types.ModuleType("cache"))
    assert Session().graphs() == []
    assert Session().changes(0).graphs == ()
