"""Turns reports into graph records and events. Not thread-safe: the session's lock is."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterable, Mapping

from xla_notebook.backend.observer import (
    Barrier,
    Donated,
    DonationRefused,
    Forced,
    GraphDropped,
    GraphEvicted,
    GraphTraced,
    GraphWarmed,
    GraphWarming,
    Report,
)
from xla_notebook.session.causes import recompile_causes
from xla_notebook.session.events import (
    TEXT_LIMIT,
    Cause,
    CellRan,
    CellRef,
    Event,
    Frozen,
    Hazard,
    HazardOutcome,
    HostOpsRan,
    Recompiled,
    SettingChanged,
    from_report,
)
from xla_notebook.session.freeze import frozen_text
from xla_notebook.session.places import Places
from xla_notebook.session.records import CellSummary, GraphRecord, LiveGraph, RunningCell, new_record, retraced
from xla_notebook.session.settings import Settings
from xla_notebook.session.timeline import Timeline

# Records of graphs that are gone. Live ones are never forgotten: their buffers outweigh their records.
DROPPED_CAPACITY = 200
# Operators that one cell's event names.
HOST_OPS_NAMED = 32


class Recorder:
    """What happened: graph records, the timeline of events, the running cells and the settings."""

    def __init__(self, capacity: int) -> None:
        self.timeline = Timeline(capacity)
        self.graphs: dict[int, GraphRecord] = {}
        self.forgotten: collections.deque[tuple[int, int]] = collections.deque(maxlen=DROPPED_CAPACITY)
        self.cells: list[RunningCell] = []
        self.places = Places()
        self.settings = Settings()
        self._dropped: collections.deque[int] = collections.deque()
        # Dynamo names the guards that failed once, but a forbidden compile is tried again at the next call.
        self._refused: dict[object, tuple[Cause, ...]] = {}
        # Donations of graphs' saved buffers that were seen at the barrier itself: graph and name of the buffer.
        self._donations_told: set[tuple[int, str]] = set()
        # As `count_host_ops` was last told.
        self._host_ops: tuple[Mapping[str, int], Mapping[str, int]] = {}, {}

    @property
    def cell(self) -> CellRef | None:
        """The cell that is running."""
        return self.cells[-1].cell if self.cells else None

    # ---- reports

    def record(self, report: Report, guards: tuple[str, ...] = ()) -> None:
        """Record `report`; `guards` are Dynamo's words on why it compiles again."""
        # With warm-up off, a first run that finds nothing in XLA's cache is how the graph gets compiled.
        if isinstance(report, GraphEvicted) and self._is("cold", report.graph_id):
            return
        # After its buffers were given back, a graph that is collected has nothing to tell.
        if isinstance(report, GraphDropped) and self._is("dropped", report.graph_id):
            return
        if isinstance(report, GraphTraced):
            report = self._told_truly(report)
        if isinstance(report, Donated) and report.graph_id is not None and report.cause == "step barrier":
            told = report.graph_id, report.name
            if not report.saved:
                self._donations_told.add(told)
            elif told in self._donations_told:
                # The graph finds at its next run what was seen at the barrier.
                self._donations_told.discard(told)
                self._add_hazard(report)
                return
        cell, source = self.cell, self.places.of(report, self.graphs)
        event = from_report(report, self.timeline.tick(), cell, source)
        self.timeline.add(event)
        running = self.cells[-1] if self.cells else None
        match report:
            case GraphTraced():
                self._add_graph(report, guards, event)
            case GraphWarming():
                self._update(report.graph_id, warm_up=report.mode)
            case GraphWarmed():
                self._update(
                    report.graph_id,
                    warm_up=report.mode,
                    state="warm",
                    compile_ns=report.compile_ns,
                    compiled=report.compiled,
                )
                if running is not None and report.compiled:
                    running.compiled.add(report.graph_id)
                    running.compile_ns += report.compile_ns
            case GraphEvicted():
                self._update(report.graph_id, state="evicted")
            case GraphDropped():
                self._drop(report.graph_id)
            case Donated():
                if report.saved:
                    self._add_hazard(report)
                if report.taken is not None:
                    self._take_over(report.graph_id, report.taken)
            case Barrier() | DonationRefused() | Forced():
                pass

    def refuse(self, report: GraphTraced, guards: tuple[str, ...]) -> str:
        """What to tell of a graph that is about to be compiled although compiles are frozen."""
        report = self._told_truly(report)
        record = new_record(report, self.cell, self.places.of(report, self.graphs), self.graphs.values())
        known = self.graphs.get(report.graph_id) or self._last_like(record)
        causes = self._causes(report, guards, record)
        self._refused[_identity(report)] = causes
        if len(self._refused) > DROPPED_CAPACITY:
            del self._refused[next(iter(self._refused))]
        return frozen_text(record, causes, first=known is None)

    def add_frozen(self, report: GraphTraced, allowed: bool) -> None:
        """Note that `report` came while compiles were frozen, and whether it was compiled nevertheless."""
        source = self.places.of(report, self.graphs)
        self.timeline.add(
            Frozen(
                seq=self.timeline.tick(),
                time_ns=report.started_ns,
                cell=self.cell,
                source=source,
                function=report.function,
                causes=self._refused.get(_identity(report), ()),
                allowed=allowed,
            )
        )

    def _told_truly(self, report: GraphTraced) -> GraphTraced:
        if report.reason == "evicted" and self._is("cold", report.graph_id):
            return dataclasses.replace(report, reason="first")
        return report

    def _add_graph(self, report: GraphTraced, guards: tuple[str, ...], event: Event) -> None:
        known = self.graphs.get(report.graph_id)
        if known is not None and known.state == "dropped":
            self._dropped.remove(report.graph_id)
        if known is None:
            record = new_record(report, event.cell, event.source, self.graphs.values())
        else:
            record = retraced(known, report, event.cell, event.source)
        causes = self._causes(report, guards, record)
        self._refused.pop(_identity(report), None)
        self._forget_donations(report.graph_id)
        self._put(dataclasses.replace(record, causes=causes))
        if causes:
            self.timeline.add(
                Recompiled(
                    seq=self.timeline.tick(),
                    time_ns=report.started_ns,
                    cell=event.cell,
                    source=event.source,
                    graph_id=report.graph_id,
                    function=report.function,
                    causes=causes,
                )
            )
        if self.cells:
            self.cells[-1].traced.add(report.graph_id)
            self.cells[-1].trace_ns += report.trace_ns

    def _causes(self, report: GraphTraced, guards: tuple[str, ...], record: GraphRecord) -> tuple[Cause, ...]:
        refused = self._refused.get(_identity(report))
        if refused is not None and not guards:
            return refused
        known = self.graphs.get(report.graph_id)
        return recompile_causes(guards, report.reason, record, known or self._last_like(record))

    def _add_hazard(self, report: Donated) -> None:
        outcome: HazardOutcome = "raised"
        if report.would_be:
            outcome = "copied"
        elif report.cause == "step barrier" and self.settings.on_donated == "recover":
            outcome = "recovered"
        self.timeline.add(
            Hazard(
                seq=self.timeline.tick(),
                time_ns=report.time_ns,
                cell=self.cell,
                source=self.places.of(report, self.graphs),
                graph_id=report.graph_id,
                name=report.name[:TEXT_LIMIT],
                handle=report.handle or None,
                outcome=outcome,
            )
        )
        if self.cells:
            self.cells[-1].hazards += 1

    # ---- cells and settings

    def count_host_ops(self, ran: Mapping[str, int], tried: Mapping[str, int]) -> None:
        """Operators `ran` on the host so often by now, some of it when traces `tried` them.

        Those since the last call are the running cell's.
        """
        ran_before, tried_before = self._host_ops
        if self.cells:
            found = self.cells[-1].host_ops
            for name, count in ran.items():
                before = ran_before.get(name, 0)
                # Fewer than before if the user has cleared torch_xla's counters.
                found[name] += count - before if count >= before else count
            for name, count in tried.items():
                found[name] -= count - tried_before.get(name, 0)
        self._host_ops = ran, tried

    def end_cell(self, live: Iterable[LiveGraph], now_ns: int) -> CellSummary | None:
        """The innermost cell has ended: what it did, or None if no cell was running."""
        if not self.cells:
            return None
        summary = self.cells[-1].summary({graph.graph_id: graph.runs for graph in live}, now_ns)
        ops = +self.cells[-1].host_ops
        if ops:
            self.timeline.add(
                HostOpsRan(
                    seq=self.timeline.tick(),
                    time_ns=summary.ended_ns,
                    cell=summary.cell,
                    source=None,
                    ops=tuple(ops.most_common(HOST_OPS_NAMED)),
                )
            )
        if summary.traced or summary.compiled or summary.reused:
            self.timeline.add(
                CellRan(
                    seq=self.timeline.tick(),
                    time_ns=summary.ended_ns,
                    cell=summary.cell,
                    source=None,
                    compiled=summary.compiled,
                    reused=summary.reused,
                    duration_ns=summary.ended_ns - summary.started_ns,
                )
            )
        self.cells.pop()
        return summary

    def set(self, new: Settings, now_ns: int) -> None:
        """Take over `new` settings; each change is an event."""
        before, after = self.settings.to_dict(), new.to_dict()
        self.settings = new
        for name in after:
            if before[name] != after[name]:
                self.timeline.add(
                    SettingChanged(
                        seq=self.timeline.tick(),
                        time_ns=now_ns,
                        cell=self.cell,
                        source=None,
                        name=name,
                        old=before[name],
                        new=after[name],
                    )
                )

    def take_runs(self, live: Iterable[LiveGraph]) -> None:
        """Bring run counts (and the state of graphs compiled by their first run) up to date."""
        for graph in live:
            record = self.graphs.get(graph.graph_id)
            if record is not None and record.runs != graph.runs:
                self.timeline.tick()
                state = "warm" if record.state == "cold" else record.state
                mean = graph.run_ns // max(graph.runs, 1)
                self._put(dataclasses.replace(record, runs=graph.runs, mean_run_ns=mean, state=state))

    # ---- records

    def _last_like(self, record: GraphRecord) -> GraphRecord | None:
        """The last graph made of the same part of the same function before."""
        part = _part(record)
        for other in reversed(self.graphs.values()):
            if _part(other) == part:
                return other
        return None

    def _is(self, state: str, graph_id: int) -> bool:
        record = self.graphs.get(graph_id)
        return record is not None and record.state == state

    def _put(self, record: GraphRecord) -> None:
        self.graphs[record.graph_id] = dataclasses.replace(record, version=self.timeline.seq)

    def _update(self, graph_id: int, **fields: object) -> None:
        """Change a graph's record. Graphs traced before the session was attached have none, dropped ones stay so."""
        record = self.graphs.get(graph_id)
        if record is not None and record.state != "dropped":
            self._put(dataclasses.replace(record, **fields))  # type: ignore[arg-type]

    def _take_over(self, graph_id: int | None, pair: tuple[int, int | None]) -> None:
        """An output of the graph was seen in the memory of one of its inputs."""
        record = self.graphs.get(graph_id) if graph_id is not None else None
        if record is not None and pair not in (record.taken or ()):
            self._update(record.graph_id, taken=(*(record.taken or ()), pair))

    def _drop(self, graph_id: int) -> None:
        """Mark a graph's record, and forget the one that was dropped longest ago if there are too many."""
        record = self.graphs.get(graph_id)
        self._forget_donations(graph_id)
        if record is None:
            return
        self._put(dataclasses.replace(record, state="dropped", saved_nbytes=0, saved_count=0))
        self._dropped.append(graph_id)
        if len(self._dropped) > DROPPED_CAPACITY:
            oldest = self._dropped.popleft()
            del self.graphs[oldest]
            self.forgotten.append((oldest, self.timeline.tick()))

    def _forget_donations(self, graph_id: int) -> None:
        """The graph has new saved buffers, or none."""
        self._donations_told = {told for told in self._donations_told if told[0] != graph_id}


def _part(record: GraphRecord) -> object:
    """What the graphs of the same code have in common. That of a cell outside of functions is known by its place."""
    source = record.source if record.function == "<module>" else None
    return record.function, record.kind, record.segment, source and (source.filename, source.line)


def _identity(report: GraphTraced) -> object:
    """What a compile that was forbidden has in common with the next try."""
    return report.function, report.filename, report.kind, report.segment, report.hash
