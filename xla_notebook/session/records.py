"""What the session knows of graphs and cells, and what it hands to those who show it. Plain frozen values."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, Protocol

from xla_notebook.backend.observer import Binding, GraphTraced, HostOp, TensorSpec, TraceReason, WarmUpMode
from xla_notebook.session.events import Cause, CellRef, Event, EventKind, Plain, SettingValue, Source, to_dict

if TYPE_CHECKING:
    import torch

GraphRole = Literal["inference", "forward", "backward", "optimizer"]
GraphState = Literal["warm", "cold", "evicted", "dropped"]


class LiveGraph(Protocol):
    """What the session reads of the backend's cached graphs: runs are counted and buffers kept there."""

    @property
    def graph_id(self) -> int: ...
    @property
    def runs(self) -> int: ...
    @property
    def run_ns(self) -> int: ...
    @property
    def saved(self) -> Sequence[torch.Tensor]: ...
    @property
    def saved_nbytes(self) -> int: ...
    @property
    def state(self) -> str: ...
    def hlo_text(self) -> str: ...


@dataclasses.dataclass(frozen=True, slots=True)
class GraphRecord:
    """One cached graph.

    `name` is unique in the session: the function's name, or the place in the cell for code that stands in no
    function, with a number from the second graph on; `label` is the same without the number. `mutations` are
    pairs (argument, output): the output is the argument's new value. `donated_inputs` are the arguments
    whose buffer an output takes. Both count arguments as `Binding.index` does. `traces` counts traces (more
    than one after an eviction or a recovery). Times are nanoseconds, those of the last trace and compile.
    `version` is the session's number of the last change. `causes` say why it was compiled although its function
    had been before, none for a first compile. `mean_run_ns` is the host's time for a run: picking its inputs and
    handing it to XLA; the device may still be at work when it ends, and its time is not known for each graph.
    `taken` are pairs (argument, output): whose memory a donating run was seen to reuse, and by which output (None:
    by none); None before such a run.
    """

    graph_id: int
    name: str
    function: str
    cell: CellRef | None
    source: Source | None
    kind: GraphRole
    segment: int
    reason: TraceReason
    hash: str
    inputs: tuple[Binding, ...]
    outputs: tuple[TensorSpec, ...]
    mutations: tuple[tuple[int, int], ...]
    donated_inputs: tuple[int, ...]
    saved_count: int
    saved_nbytes: int
    op_count: int
    host_ops: tuple[HostOp, ...]
    warm_up: WarmUpMode | None
    state: GraphState
    trace_ns: int
    compile_ns: int
    compiled: bool
    traces: int
    runs: int
    traced_at_ns: int
    version: int
    causes: tuple[Cause, ...] = ()
    mean_run_ns: int = 0
    taken: tuple[tuple[int, int | None], ...] | None = None

    @property
    def label(self) -> str:
        """`name` without its number."""
        return self.name.rpartition(" #")[0] or self.name

    def argument(self, index: int) -> Binding | None:
        """The graph input that is argument or attribute `index`; None if the graph does not use it."""
        for binding in self.inputs:
            if binding.index == index and binding.kind in ("argument", "attribute"):
                return binding
        return None

    def to_dict(self) -> dict[str, Plain]:
        """All fields as plain values, ready for JSON or a data frame."""
        return to_dict(self)


def new_record(
    traced: GraphTraced, cell: CellRef | None, source: Source | None, known: Iterable[GraphRecord]
) -> GraphRecord:
    """The record of a graph just traced, cold and not yet run. `known` are the records with names taken."""
    label = _label(traced, source)
    number = max((_number(record.name) for record in known if record.label == label), default=0) + 1
    saved = sum(binding.kind == "saved" for binding in traced.inputs)
    return GraphRecord(
        graph_id=traced.graph_id,
        name=label if number == 1 else f"{label} #{number}",
        function=traced.function,
        cell=cell,
        source=source,
        kind=_role(traced),
        segment=traced.segment,
        reason=traced.reason,
        hash=traced.hash,
        inputs=traced.inputs,
        outputs=traced.outputs,
        mutations=traced.mutations,
        donated_inputs=traced.donated_inputs,
        saved_count=saved,
        saved_nbytes=traced.saved_nbytes,
        op_count=traced.op_count,
        host_ops=traced.host_ops,
        warm_up=None,
        state="cold",
        trace_ns=traced.trace_ns,
        compile_ns=0,
        compiled=False,
        traces=1,
        runs=0,
        traced_at_ns=traced.started_ns,
        version=0,
    )


def retraced(record: GraphRecord, traced: GraphTraced, cell: CellRef | None, source: Source | None) -> GraphRecord:
    """`record` after another trace of the same graph: its name and runs stay, the rest is new."""
    new = new_record(traced, cell, source, ())
    return dataclasses.replace(
        new, name=record.name, runs=record.runs, mean_run_ns=record.mean_run_ns, traces=record.traces + 1
    )


def _label(traced: GraphTraced, source: Source | None) -> str:
    if traced.function != "<module>" or source is None:
        return traced.function
    if source.cell is not None:
        return f"cell {source.cell.execution_count} line {source.line}"
    return f"{source.filename} line {source.line}"


def _number(name: str) -> int:
    _, separator, number = name.rpartition(" #")
    return int(number) if separator else 1


def _role(traced: GraphTraced) -> GraphRole:
    """Optimizer steps are inference graphs to the backend; their file or their arguments tell them apart."""
    if traced.kind != "inference":
        return traced.kind
    in_optimizer = "torch/optim/" in (traced.filename or "").replace("\\", "/")
    steps = any("param_groups" in binding.name for binding in traced.inputs)
    return "optimizer" if in_optimizer or steps else "inference"


@dataclasses.dataclass(frozen=True, slots=True)
class CellSummary:
    """What one run of a cell did: graphs traced, compiled, reused; nanoseconds spent in trace and compile.

    A graph is reused if it ran during the cell and was neither traced nor compiled in it.
    """

    cell: CellRef
    traced: int
    compiled: int
    reused: int
    trace_ns: int
    compile_ns: int
    hazards: int
    started_ns: int
    ended_ns: int

    def line(self) -> str | None:
        """The one line shown after the cell, or None if no graph had a part in it.

        For example ``2 graphs compiled in 1.9 s, 1 reused``.
        """
        parts: list[str] = []
        if self.compiled:
            seconds = (self.trace_ns + self.compile_ns) / 1e9
            parts.append(f"{_graphs(self.compiled)} compiled in {seconds:.1f} s")
        elif self.traced:
            parts.append(f"{_graphs(self.traced)} traced in {self.trace_ns / 1e9:.1f} s")
        if self.reused:
            parts.append(f"{self.reused} reused" if parts else f"{_graphs(self.reused)} reused")
        if self.hazards:
            plural = "s" if self.hazards != 1 else ""
            parts.append(f"{self.hazards} hazard{plural} (see %xla_events --hazards)")
        return ", ".join(parts) or None


@dataclasses.dataclass(slots=True)
class RunningCell:
    """What is counted while a cell runs."""

    cell: CellRef
    started_ns: int
    runs_before: Mapping[int, int]
    traced: set[int] = dataclasses.field(default_factory=set)
    compiled: set[int] = dataclasses.field(default_factory=set)
    trace_ns: int = 0
    compile_ns: int = 0
    hazards: int = 0
    host_ops: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)

    def summary(self, runs: Mapping[int, int], ended_ns: int) -> CellSummary:
        """The summary at the cell's end, when graphs have made `runs` (by graph id)."""
        ran = {graph_id for graph_id, count in runs.items() if count > self.runs_before.get(graph_id, 0)}
        return CellSummary(
            cell=self.cell,
            traced=len(self.traced),
            compiled=len(self.compiled),
            reused=len(ran - self.traced - self.compiled),
            trace_ns=self.trace_ns,
            compile_ns=self.compile_ns,
            hazards=self.hazards,
            started_ns=self.started_ns,
            ended_ns=ended_ns,
        )


@dataclasses.dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything the session holds at number `seq`. `counts` include events that were pushed out since."""

    seq: int
    graphs: tuple[GraphRecord, ...]
    events: tuple[Event, ...]
    counts: Mapping[EventKind, int]
    settings: Mapping[str, SettingValue]

    def to_dict(self) -> dict[str, Plain]:
        """All of it as plain values, ready for JSON."""
        return to_dict(self)


@dataclasses.dataclass(frozen=True, slots=True)
class Changes:
    """What is new after number `since`: changed graphs whole, graphs forgotten, new events.

    With `complete` false, events after `since` were evicted already: take a snapshot instead.
    """

    since: int
    seq: int
    complete: bool
    graphs: tuple[GraphRecord, ...]
    forgotten: tuple[int, ...]
    events: tuple[Event, ...]
    counts: Mapping[EventKind, int]
    settings: Mapping[str, SettingValue]

    def to_dict(self) -> dict[str, Plain]:
        """All of it as plain values, ready for JSON."""
        return to_dict(self)


@dataclasses.dataclass(frozen=True, slots=True)
class Cleared:
    """How many graphs were dropped, the bytes of their saved buffers, and those that nothing else keeps."""

    graphs: int
    saved_nbytes: int
    freed_nbytes: int


def _graphs(count: int) -> str:
    return f"{count} graph{'s' if count != 1 else ''}"
