"""The session: the one place that holds graphs, events and settings.

Reports come from any thread, and from finalizers in the middle of anything, this module's own work
included. So `report` only puts them into an inbox, and whoever holds the lock takes them out one after
the other. Nothing here touches the device.
"""

from __future__ import annotations

import collections
import contextlib
import os
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from xla_notebook.backend import observer
from xla_notebook.backend.observer import Barrier, GraphTraced, Report
from xla_notebook.session import export
from xla_notebook.session.analysis import held_by_graphs_only
from xla_notebook.session.buffers import Ledger
from xla_notebook.session.cost import Cost, cost
from xla_notebook.session.events import CellRef, Donation, Event, SettingValue
from xla_notebook.session.export import Export
from xla_notebook.session.freeze import FrozenError, FrozenWarning
from xla_notebook.session.links import (
    BarrierWatch,
    BufferLooks,
    DynamoGuards,
    ReadWatch,
    backend_graphs,
    clear_graphs,
    host_op_counts,
    leave_barriers,
    see_barriers,
)
from xla_notebook.session.recorder import Recorder
from xla_notebook.session.records import CellSummary, Changes, Cleared, GraphRecord, LiveGraph, RunningCell, Snapshot
from xla_notebook.session.settings import Freeze, Settings

# A hundred thousand events of a few hundred bytes each keep well under the budget of 64 MB.
EVENT_CAPACITY = 100_000
# Step barriers that may wait until someone asks, something else happens or a cell begins or ends.
INBOX_CAPACITY = 256


class Session(observer.Observer):
    """What happened to graphs and buffers since it was attached. Thread-safe and bounded.

    `live_graphs` gives the backend's cached graphs (they count their runs); `failed_guards` gives Dynamo's
    words on why a function (by name and file) was compiled again; `host_ops` counts the operators that ran on the
    host, and those of them that traces tried; `apply` takes each new `Settings` (to the backend); `now_ns` is the
    clock for what no report dates; `capacity` is the number of events kept.
    """

    def __init__(
        self,
        *,
        live_graphs: Callable[[], Iterable[LiveGraph]] | None = None,
        failed_guards: Callable[[str, str | None], tuple[str, ...]] | None = None,
        host_ops: Callable[[], tuple[Mapping[str, int], Mapping[str, int]]] = host_op_counts,
        apply: Callable[[Settings], None] | None = None,
        now_ns: Callable[[], int] = observer.now_ns,
        capacity: int = EVENT_CAPACITY,
    ) -> None:
        self._live_graphs = live_graphs or backend_graphs
        self._failed_guards = failed_guards or DynamoGuards()
        self._host_ops = host_ops
        self._apply = apply
        self._now_ns = now_ns
        self._lock = threading.RLock()
        self._busy = False
        self._inbox: collections.deque[tuple[Report, tuple[str, ...]]] = collections.deque()
        self._recorder = Recorder(capacity)
        self._attached = False
        self._look = BufferLooks()
        self._watch = BarrierWatch()
        self._watch_reads = ReadWatch()
        # Where the names of tensors are looked up when a step barrier is watched: the notebook's namespace.
        self.namespace: Mapping[str, object] = {}
        self._looked_seq = 0

    # ---- what the backend calls

    def attach(self) -> None:
        """Receive the backend's reports from now on. Attaching twice is the same as once."""
        self._attached = True
        observer.attach(self)
        see_barriers()
        self._watch_reads(self.settings.watch_reads)

    def detach(self) -> None:
        """Receive no more reports. What was recorded stays."""
        self._attached = False
        observer.detach(self)
        self._watch_reads(False)
        leave_barriers()

    def report(self, report: Report) -> None:
        """Record `report`. Called by the backend, on any thread.

        Raises `FrozenError` for a graph that is about to be compiled while compiles are frozen.
        """
        # One comes in every step, and what a step waits for is code that is not in the processor's caches.
        if isinstance(report, Barrier) and len(self._inbox) < INBOX_CAPACITY:
            self._inbox.append((report, ()))
            return
        # Dynamo's words are taken at once: the next compile of the function would add its own.
        guards = self._failed_guards(report.function, report.filename) if isinstance(report, GraphTraced) else ()
        if isinstance(report, GraphTraced) and not report.cached and self.settings.freeze != "off":
            self._refuse(report, guards, self.settings.freeze)
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

    def before_barrier(self) -> Callable[[], Sequence[Report]] | None:
        """Watch the step barrier that is about to run, if that is wanted. Called by the backend."""
        if not self.settings.watch_donations:
            return None
        return self._watch(self.namespace, self._live_graphs())

    def watches_donations(self) -> bool:
        """Whether runs that donate should wait, too. Called by the backend."""
        return self.settings.watch_donations

    # ---- what the notebook calls around cells

    def begin_cell(self, execution_count: int, cell_id: str | None = None, filename: str | None = None) -> CellRef:
        """Say that a cell starts. `filename` is what its tracebacks call it; its lines then name the cell.

        Cells may nest (a cell that runs another one). Every call needs its `end_cell`.
        """
        if self._attached:
            see_barriers()  # the cell before may have been the first to load torch_xla
        cell = CellRef(execution_count, cell_id)
        runs = {live.graph_id: live.runs for live in self._live_graphs()}
        with self._settled():
            if filename is not None:
                self._recorder.places.name_file(filename, cell)
            self._recorder.count_host_ops(*self._host_ops())
            self._recorder.cells.append(RunningCell(cell, self._now_ns(), runs))
        return cell

    def end_cell(self) -> CellSummary | None:
        """Say that the innermost cell has ended. Returns what it did, or None if no cell was running."""
        live = list(self._live_graphs())
        with self._settled():
            self._recorder.take_runs(live)
            self._recorder.count_host_ops(*self._host_ops())
            return self._recorder.end_cell(live, self._now_ns())

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
            self._recorder.places.name_file(filename, cell)

    # ---- what people ask

    @property
    def running(self) -> CellRef | None:
        """The cell that runs at this moment, the innermost one."""
        return self._recorder.cell

    def graphs(self) -> list[GraphRecord]:
        """All graphs in the order of their first trace: live ones, and the last ones that went away."""
        live = list(self._live_graphs())
        with self._settled():
            self._recorder.take_runs(live)
            return list(self._recorder.graphs.values())

    def events(self) -> list[Event]:
        """The events still held, oldest first."""
        with self._settled():
            return list(self._recorder.timeline.events())

    @property
    def event_count(self) -> int:
        """How many events are still held."""
        return len(self._recorder.timeline)

    def buffers(self, namespace: Mapping[str, object], error: BaseException | None = None) -> Ledger:
        """The device buffers that graphs keep and that `namespace` reaches, with their names and states.

        `error` is the last exception (``sys.last_value``), whose frames keep buffers alive too. Nothing is
        executed, transferred, waited for or kept. Call it on the thread that runs the cells, or between cells.
        """
        live = list(self._live_graphs())
        names = {graph.graph_id: graph.name for graph in self.graphs()}
        seq = self._recorder.timeline.seq
        ledger = self._look(
            [(names.get(graph.graph_id, f"graph {graph.graph_id}"), graph) for graph in live],
            namespace,
            error,
            self._donated_since_look,
        )
        self._looked_seq = seq
        return ledger

    def hlo_text(self, graph_id: int) -> str:
        """The HLO of a live graph with the user's source lines, recorded anew; compiles and executes nothing.

        Call it between cells: the trace keeps other traces and step barriers waiting. Raises `LookupError` if
        the graph is gone.
        """
        for graph in self._live_graphs():
            if graph.graph_id == graph_id:
                return graph.hlo_text()
        raise LookupError(f"graph {graph_id} is gone")

    def cost(self, graph_id: int) -> Cost:
        """XLA's estimate of a live graph's operations and bytes, from its HLO (see `hlo_text`, also for when).

        Raises `LookupError` if the graph is gone, and `CostUnavailable` without jaxlib.
        """
        return cost(self.hlo_text(graph_id))

    def snapshot(self, last: int | None = None) -> Snapshot:
        """Everything, with the number from which `changes` goes on; of the events only the `last` ones if given."""
        live = list(self._live_graphs())
        with self._settled():
            self._recorder.take_runs(live)
            return Snapshot(
                seq=self._recorder.timeline.seq,
                graphs=tuple(self._recorder.graphs.values()),
                events=self._recorder.timeline.events() if last is None else self._recorder.timeline.last(last),
                counts=self._recorder.timeline.counts(),
                settings=self._recorder.settings.to_dict(),
            )

    def changes(self, since: int) -> Changes:
        """What is new after number `since` (from a `Snapshot` or from the last `Changes`)."""
        live = list(self._live_graphs())
        with self._settled():
            self._recorder.take_runs(live)
            forgotten = self._recorder.forgotten
            forgotten_seq = forgotten[0][1] if len(forgotten) == forgotten.maxlen else 0
            return Changes(
                since=since,
                seq=self._recorder.timeline.seq,
                complete=since <= self._recorder.timeline.seq
                and self._recorder.timeline.complete_since(since)
                and since >= forgotten_seq,
                graphs=tuple(record for record in self._recorder.graphs.values() if record.version > since),
                forgotten=tuple(graph_id for graph_id, seq in forgotten if seq > since),
                events=self._recorder.timeline.since(since),
                counts=self._recorder.timeline.counts(),
                settings=self._recorder.settings.to_dict(),
            )

    def export(
        self,
        path: str | os.PathLike[str],
        namespace: Mapping[str, object] | None = None,
        error: BaseException | None = None,
    ) -> None:
        """Write everything to a JSON file, which ``python -m xla_notebook show FILE`` renders.

        With a `namespace` (``globals()``) and the last `error`, the buffers that they reach are in it too.
        Raises `OSError` if the file cannot be written.
        """
        export.write(path, self.exported(namespace, error))

    def exported(self, namespace: Mapping[str, object] | None = None, error: BaseException | None = None) -> Export:
        """What `export` writes, as a value."""
        return Export.of(self.snapshot(), self.buffers(namespace or {}, error), self._now_ns())

    def clear(self, namespace: Mapping[str, object], error: BaseException | None = None) -> Cleared:
        """Drop all cached graphs with their saved buffers. Call it where `buffers` may be called.

        `namespace` and `error` are what else may keep those buffers (see `buffers`).
        """
        freed_nbytes = held_by_graphs_only(self.buffers(namespace, error).buffers)
        graphs, saved_nbytes = clear_graphs()
        return Cleared(graphs, saved_nbytes, freed_nbytes)

    # ---- settings

    @property
    def settings(self) -> Settings:
        """The settings at this moment (a frozen value)."""
        return self._recorder.settings

    def set(self, **values: SettingValue) -> Settings:
        """Change settings, all or none, at once and from any thread; each change is an event.

        Returns the new settings. Raises `SettingError` for a wrong name or value.
        """
        with self._settled():
            new = self._recorder.settings.replace(**values)
            if self._apply is not None:
                self._apply(new)
            self._recorder.set(new, self._now_ns())
            self._watch_reads(self._attached and new.watch_reads)
            if new.watch_donations:
                see_barriers(load=True)
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

    @contextlib.contextmanager
    def frozen(self, mode: Freeze = "error") -> Iterator[None]:
        """Allow no compile within a block: it raises `FrozenError`, or with ``warn`` gives a `FrozenWarning`.

        Both name the function, the cause and the way out. What was compiled before runs as always. Acts in
        all threads, and also where the session was not attached.
        """
        attached = self._attached
        self.attach()
        try:
            with self.using(freeze=mode):
                yield
        finally:
            if not attached:
                self.detach()

    # ---- the work

    def _refuse(self, report: GraphTraced, guards: tuple[str, ...], freeze: Freeze) -> None:
        """Raise `FrozenError` or give the warning, outside of the lock: a warning may run code of the user's."""
        with self._settled():
            text = self._recorder.refuse(report, guards)
        allowed = freeze == "warn"
        if allowed:
            try:
                warnings.warn_explicit(text, FrozenWarning, report.filename or "<unknown>", report.line or 1)
            except FrozenWarning:
                allowed = False  # where warnings are errors, this one is
        with self._settled():
            self._recorder.add_frozen(report, allowed)
        if not allowed:
            raise FrozenError(text)

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
            self._recorder.record(*self._inbox.popleft())

    def _donated_since_look(self) -> frozenset[int]:
        with self._settled():
            events = self._recorder.timeline.since(self._looked_seq)
        return frozenset(
            event.handle
            for event in events
            if isinstance(event, Donation) and event.handle is not None and not event.would_be
        )
