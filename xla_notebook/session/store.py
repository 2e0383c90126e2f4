"""The session: the one place that holds graphs, events and settings.

Reports come from any thread, and from finalizers in the middle of anything, this module's own work
included. So `report` only puts them into an inbox, and whoever holds the lock takes them out one after
the other. Nothing here touches the device.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping

from xla_notebook.backend import observer
from xla_notebook.backend.observer import (
    Barrier,
    Donated,
    DonationRefused,
    GraphDropped,
    GraphEvicted,
    GraphTraced,
    GraphWarmed,
    GraphWarming,
    Report,
)
from xla_notebook.session.buffers import Ledger
from xla_notebook.session.causes import recompile_causes
from xla_notebook.session.events import (
    TEXT_LIMIT,
    CellRan,
    CellRef,
    Donation,
    Event,
    Hazard,
    HazardOutcome,
    Recompiled,
    SettingChanged,
    SettingValue,
    from_report,
)
from xla_notebook.session.links import BufferLooks, DynamoGuards, backend_graphs
from xla_notebook.session.places import Places
from xla_notebook.session.records import (
    CellSummary,
    Changes,
    GraphRecord,
    LiveGraph,
    RunningCell,
    Snapshot,
    new_record,
    retraced,
)
from xla_notebook.session.settings import Settings
from xla_notebook.session.timeline import Timeline

# A hundred thousand events of a few hundred bytes each keep well under the budget of 64 MB.
EVENT_CAPACITY = 100_000
# Records of graphs that are gone. Live ones are never forgotten: their buffers outweigh their records.
DROPPED_CAPACITY = 200


class Session(observer.Observer):
    """What happened to graphs and buffers since it was attached. Thread-safe and bounded.

    `live_graphs` gives the backend's cached graphs (they count their runs); `failed_guards` gives Dynamo's
    words on why a function (by name and file) was compiled again; `apply` takes each new `Settings` (to the
    backend); `now_ns` is the clock for what no report dates; `capacity` is the number of events kept.
    """

    def __init__(
        self,
        *,
        live_graphs: Callable[[], Iterable[LiveGraph]] | None = None,
        failed_guards: Callable[[str, str | None], tuple[str, ...]] | None = None,
        apply: Callable[[Settings], None] | None = None,
        now_ns: Callable[[], int] = observer.now_ns,
        capacity: int = EVENT_CAPACITY,
    ) -> None:
        self._live_graphs = live_graphs or backend_graphs
        self._failed_guards = failed_guards or DynamoGuards()
        self._apply = apply
        self._now_ns = now_ns
        self._lock = threading.RLock()
        self._busy = False
        self._inbox: collections.deque[tuple[Report, tuple[str, ...]]] = collections.deque()
        self._timeline = Timeline(capacity)
        self._graphs: dict[int, GraphRecord] = {}
        self._dropped: collections.deque[int] = collections.deque()
        self._forgotten: collections.deque[tuple[int, int]] = collections.deque(maxlen=DROPPED_CAPACITY)
        self._settings = Settings()
        self._look = BufferLooks()
        self._looked_seq = 0
        self._cells: list[RunningCell] = []
        self._places = Places()

    # ---- what the backend calls

    def attach(self) -> None:
        """Receive the backend's reports from now on. Attaching twice is the same as once."""
        observer.attach(self)

    def detach(self) -> None:
        """Receive no more reports. What was recorded stays."""
        observer.detach(self)

    def report(self, report: Report) -> None:
        """Record `report`. Called by the backend, on any thread."""
        # Dynamo's words are taken at once: the next compile of the function would add its own.
        guards = self._failed_guards(report.function, report.filename) if isinstance(report, GraphTraced) else ()
        self._inbox.append((report, guards))
        with self._lock:
            # Busy on this very thread means that a finalizer reports from within the work below.
            # Its report waits in the inbox, which everyone empties before looking at anything.
            if not self._busy:
                try:
                    self._busy = True
                    self._empty_inbox()
                finally:
                    self._busy = False

    # ---- what the notebook calls around cells

    def begin_cell(self, execution_count: int, cell_id: str | None = None, filename: str | None = None) -> CellRef:
        """Say that a cell starts. `filename` is what its tracebacks call it; its lines then name the cell.

        Cells may nest (a cell that runs another one). Every call needs its `end_cell`.
        """
        cell = CellRef(execution_count, cell_id)
        runs = {live.graph_id: live.runs for live in self._live_graphs()}
        with self._settled():
            if filename is not None:
                self._places.name_file(filename, cell)
            self._cells.append(RunningCell(cell, self._now_ns(), runs))
        return cell

    def end_cell(self) -> CellSummary | None:
        """Say that the innermost cell has ended. Returns what it did, or None if no cell was running."""
        live = list(self._live_graphs())
        with self._settled():
            self._take_runs(live)
            if not self._cells:
                return None
            summary = self._cells[-1].summary({graph.graph_id: graph.runs for graph in live}, self._now_ns())
            if summary.traced or summary.compiled or summary.reused:
                self._timeline.add(
                    CellRan(
                        seq=self._timeline.tick(),
                        time_ns=summary.ended_ns,
                        cell=summary.cell,
                        source=None,
                        compiled=summary.compiled,
                        reused=summary.reused,
                        duration_ns=summary.ended_ns - summary.started_ns,
                    )
                )
            self._cells.pop()
        return summary

    @contextlib.contextmanager
    def cell(self, execution_count: int, cell_id: str | None = None, filename: str | None = None) -> Iterator[CellRef]:
        """`begin_cell` and `end_cell` around a block."""
        cell = self.begin_cell(execution_count, cell_id, filename)
        try:
            yield cell
        finally:
            self.end_cell()

    def name_file(self, filename: str, cell: CellRef) -> None:
        """Say that lines of `filename` are lines of `cell` (a cell registers its source while it runs)."""
        with self._settled():
            self._places.name_file(filename, cell)

    # ---- what people ask

    def graphs(self) -> list[GraphRecord]:
        """All graphs in the order of their first trace: live ones, and the last ones that went away."""
        live = list(self._live_graphs())
        with self._settled():
            self._take_runs(live)
            return list(self._graphs.values())

    def events(self) -> list[Event]:
        """The events still held, oldest first."""
        with self._settled():
            return list(self._timeline.events())

    def buffers(self, namespace: Mapping[str, object], error: BaseException | None = None) -> Ledger:
        """The device buffers that graphs keep and that `namespace` reaches, with their names and states.

        `error` is the last exception (``sys.last_value``), whose frames keep buffers alive too. Nothing is
        executed, transferred, waited for or kept. Call it on the thread that runs the cells, or between cells.
        """
        live = list(self._live_graphs())
        names = {graph.graph_id: graph.name for graph in self.graphs()}
        seq = self._timeline.seq
        ledger = self._look(
            [(names.get(graph.graph_id, f"graph {graph.graph_id}"), graph) for graph in live],
            namespace,
            error,
            self._donated_since_look,
        )
        self._looked_seq = seq
        return ledger

    def snapshot(self, last: int | None = None) -> Snapshot:
        """Everything, with the number from which `changes` goes on; of the events only the `last` ones if given."""
        live = list(self._live_graphs())
        with self._settled():
            self._take_runs(live)
            return Snapshot(
                seq=self._timeline.seq,
                graphs=tuple(self._graphs.values()),
                events=self._timeline.events() if last is None else self._timeline.last(last),
                counts=self._timeline.counts(),
                settings=self._settings.to_dict(),
            )

    def changes(self, since: int) -> Changes:
        """What is new after number `since` (from a `Snapshot` or from the last `Changes`)."""
        live = list(self._live_graphs())
        with self._settled():
            self._take_runs(live)
            forgotten_seq = self._forgotten[0][1] if len(self._forgotten) == self._forgotten.maxlen else 0
            return Changes(
                since=since,
                seq=self._timeline.seq,
                complete=since <= self._timeline.seq
                and self._timeline.complete_since(since)
                and since >= forgotten_seq,
                graphs=tuple(record for record in self._graphs.values() if record.version > since),
                forgotten=tuple(graph_id for graph_id, seq in self._forgotten if seq > since),
                events=self._timeline.since(since),
                counts=self._timeline.counts(),
                settings=self._settings.to_dict(),
            )

    # ---- settings

    @property
    def settings(self) -> Settings:
        """The settings at this moment (a frozen value)."""
        return self._settings

    def set(self, **values: SettingValue) -> Settings:
        """Change settings, all or none, at once and from any thread; each change is an event.

        Returns the new settings. Raises `SettingError` for a wrong name or value.
        """
        with self._settled():
            old = self._settings
            new = old.replace(**values)
            if self._apply is not None:
                self._apply(new)
            self._settings = new
            before, after = old.to_dict(), new.to_dict()
            for name in after:
                if before[name] != after[name]:
                    self._timeline.add(
                        SettingChanged(
                            seq=self._timeline.tick(),
                            time_ns=self._now_ns(),
                            cell=self._running_cell(),
                            source=None,
                            name=name,
                            old=before[name],
                            new=after[name],
                        )
                    )
        return new

    @contextlib.contextmanager
    def using(self, **values: SettingValue) -> Iterator[Settings]:
        """`set` for the length of a block; afterwards these settings (and no others) are as before."""
        before = self.settings.to_dict()
        new = self.set(**values)
        try:
            yield new
        finally:
            self.set(**{name: before[name] for name in values})

    # ---- the work, under the lock

    @contextlib.contextmanager
    def _settled(self) -> Iterator[None]:
        """Hold the lock with all reports recorded; reports of finalizers meanwhile wait in the inbox."""
        with self._lock:
            try:
                self._busy = True
                self._empty_inbox()
                yield
            finally:
                self._busy = False

    def _empty_inbox(self) -> None:
        while self._inbox:
            self._record(*self._inbox.popleft())

    def _record(self, report: Report, guards: tuple[str, ...]) -> None:
        # With warm-up off, a first run that finds nothing in XLA's cache is how the graph gets compiled.
        if isinstance(report, GraphEvicted) and self._is_cold(report.graph_id):
            return
        if isinstance(report, GraphTraced) and report.reason == "evicted" and self._is_cold(report.graph_id):
            report = dataclasses.replace(report, reason="first")
        cell, source = self._running_cell(), self._places.of(report, self._graphs)
        event = from_report(report, self._timeline.tick(), cell, source)
        self._timeline.add(event)
        running = self._cells[-1] if self._cells else None
        match report:
            case GraphTraced():
                known = self._graphs.get(report.graph_id)
                if known is not None and known.state == "dropped":
                    self._dropped.remove(report.graph_id)
                if known is None:
                    record = new_record(report, cell, source, self._graphs.values())
                else:
                    record = retraced(known, report, cell, source)
                causes = recompile_causes(guards, report.reason, record, known or self._last_like(record))
                self._put(record)
                if causes:
                    self._timeline.add(
                        Recompiled(
                            seq=self._timeline.tick(),
                            time_ns=report.started_ns,
                            cell=cell,
                            source=source,
                            graph_id=report.graph_id,
                            function=report.function,
                            causes=causes,
                        )
                    )
                if running is not None:
                    running.traced.add(report.graph_id)
                    running.trace_ns += report.trace_ns
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
                    self._add_hazard(report, event)
            case Barrier() | DonationRefused():
                pass

    def _add_hazard(self, report: Donated, event: Event) -> None:
        outcome: HazardOutcome = "raised"
        if report.would_be:
            outcome = "copied"
        elif report.cause == "step barrier" and self._settings.on_donated == "recover":
            outcome = "recovered"
        self._timeline.add(
            Hazard(
                seq=self._timeline.tick(),
                time_ns=event.time_ns,
                cell=event.cell,
                source=event.source,
                graph_id=report.graph_id,
                name=report.name[:TEXT_LIMIT],
                handle=report.handle or None,
                outcome=outcome,
            )
        )
        if self._cells:
            self._cells[-1].hazards += 1

    def _last_like(self, record: GraphRecord) -> GraphRecord | None:
        """The last graph made of the same part of the same function before."""
        part = record.function, record.kind, record.segment
        for other in reversed(self._graphs.values()):
            if (other.function, other.kind, other.segment) == part:
                return other
        return None

    def _donated_since_look(self) -> frozenset[int]:
        with self._settled():
            events = self._timeline.since(self._looked_seq)
        return frozenset(
            event.handle
            for event in events
            if isinstance(event, Donation) and event.handle is not None and not event.would_be
        )

    def _is_cold(self, graph_id: int) -> bool:
        record = self._graphs.get(graph_id)
        return record is not None and record.state == "cold"

    def _put(self, record: GraphRecord) -> None:
        self._graphs[record.graph_id] = dataclasses.replace(record, version=self._timeline.seq)

    def _update(self, graph_id: int, **fields: object) -> None:
        """Change a graph's record. Graphs traced before the session was attached have none, dropped ones stay so."""
        record = self._graphs.get(graph_id)
        if record is not None and record.state != "dropped":
            self._put(dataclasses.replace(record, **fields))  # type: ignore[arg-type]

    def _drop(self, graph_id: int) -> None:
        """Mark a graph's record, and forget the one that was dropped longest ago if there are too many."""
        record = self._graphs.get(graph_id)
        if record is None or record.state == "dropped":
            return
        self._put(dataclasses.replace(record, state="dropped", saved_nbytes=0, saved_count=0))
        self._dropped.append(graph_id)
        if len(self._dropped) > DROPPED_CAPACITY:
            oldest = self._dropped.popleft()
            del self._graphs[oldest]
            self._forgotten.append((oldest, self._timeline.tick()))

    def _take_runs(self, live: Iterable[LiveGraph]) -> None:
        """Bring run counts (and the state of graphs compiled by their first run) up to date."""
        for graph in live:
            record = self._graphs.get(graph.graph_id)
            if record is not None and record.runs != graph.runs:
                self._timeline.tick()
                state = "warm" if record.state == "cold" else record.state
                self._put(dataclasses.replace(record, runs=graph.runs, state=state))

    def _running_cell(self) -> CellRef | None:
        return self._cells[-1].cell if self._cells else None
