"""The record's typed events: what happened, when, in which cell and on which line.

An event is a small frozen value: facts about a graph stand in its `GraphRecord`, not in every event that
names it, so that a ring of a hundred thousand events stays small. `seq` grows with every change of the
session (not by one from event to event: changes of run counts take numbers too).
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar, Literal

from xla_notebook.backend.observer import (
    Barrier,
    BarrierCause,
    Donated,
    DonationCause,
    DonationRefused,
    Forced,
    GraphDropped,
    GraphEvicted,
    GraphTraced,
    GraphWarmed,
    GraphWarming,
    Report,
    TensorSpec,
    TraceReason,
    WarmUpMode,
)

# Names and reasons longer than this are cut: an event must stay small.
TEXT_LIMIT = 160

EventKind = Literal[
    "traced",
    "warming",
    "warmed",
    "evicted",
    "dropped",
    "barrier",
    "donation",
    "refused",
    "forced",
    "host",
    "hazard",
    "recompiled",
    "frozen",
    "setting",
    "cell",
]
HazardOutcome = Literal["copied", "recovered", "raised"]
SettingValue = str | bool


@dataclasses.dataclass(frozen=True, slots=True)
class CellRef:
    """A run of a notebook cell: execution count (7 for ``In[7]``) and the notebook's id of it, if known."""

    execution_count: int
    cell_id: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Source:
    """A line of the user's code (from 1), and the cell that holds it if the file is a cell."""

    filename: str
    line: int | None
    cell: CellRef | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Cause:
    """Why something was compiled again, in the user's words (``what``), and what would avoid it.

    `guard` is what Dynamo said, if a guard of Dynamo's was the reason.
    """

    what: str
    fix: str | None = None
    guard: str | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Event:
    """What all events have: number, wall-clock time, the cell that was running, and the line if known."""

    kind: ClassVar[EventKind]
    seq: int
    time_ns: int
    cell: CellRef | None
    source: Source | None

    def to_dict(self) -> dict[str, Plain]:
        """All fields as plain values, ready for JSON or a data frame."""
        return to_dict(self)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Traced(_Event):
    """A graph was recorded; nothing was executed."""

    kind: ClassVar[EventKind] = "traced"
    graph_id: int
    reason: TraceReason
    trace_ns: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Warming(_Event):
    """A warm-up began."""

    kind: ClassVar[EventKind] = "warming"
    graph_id: int
    mode: WarmUpMode


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Warmed(_Event):
    """A warm-up ended. `compiled` is false when XLA had the executable already."""

    kind: ClassVar[EventKind] = "warmed"
    graph_id: int
    mode: WarmUpMode
    compiled: bool
    compile_ns: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Evicted(_Event):
    """XLA had dropped the executable of a graph that was called."""

    kind: ClassVar[EventKind] = "evicted"
    graph_id: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Dropped(_Event):
    """A graph went away, and `saved_nbytes` of saved buffers with it."""

    kind: ClassVar[EventKind] = "dropped"
    graph_id: int
    saved_nbytes: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class BarrierRan(_Event):
    """A step barrier, or a materialization of pending arguments, of `tensors` tensors."""

    kind: ClassVar[EventKind] = "barrier"
    cause: BarrierCause
    graph_id: int | None
    tensors: int
    duration_ns: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Donation(_Event):
    """A buffer was given to an output: it is dead (or, with `would_be`, would be without the guard).

    `handle` and `address` are the dead buffer's, None if nobody knew them while it lived. Where the backend
    finds the buffer dead only later, `source` is the line of the last step barrier before. `taker` is the tensor
    that has the memory now, and `taker_handle` its handle, where step barriers were watched.
    """

    kind: ClassVar[EventKind] = "donation"
    cause: DonationCause
    graph_id: int | None
    name: str
    spec: TensorSpec
    handle: int | None
    address: int | None
    would_be: bool
    taker: str
    taker_handle: int | None
    output: int | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Refused(_Event):
    """A donation that the user asked for was not made."""

    kind: ClassVar[EventKind] = "refused"
    graph_id: int | None
    name: str
    why: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionForced(_Event):
    """Reading a pending tensor, by what `by` says (``.item()``, ``print``), executed its `op_count` operators.

    `compiled`: they had to be compiled first. Seen only while reads are watched.
    """

    kind: ClassVar[EventKind] = "forced"
    by: str
    spec: TensorSpec
    op_count: int
    compiled: bool
    duration_ns: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class HostOpsRan(_Event):
    """A cell ran operators on the host, because XLA has no kernel for them. Each executes what it needs first.

    `ops` are their names (``aten::nonzero``) and how often each ran, the most frequent ones first.
    """

    kind: ClassVar[EventKind] = "host"
    ops: tuple[tuple[str, int], ...]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Hazard(_Event):
    """A donation hit a buffer that a graph needs.

    `outcome`: the guard had ``copied`` it, so nothing happened; the graph ``recovered`` by tracing anew; or
    its run ``raised`` an error.
    """

    kind: ClassVar[EventKind] = "hazard"
    graph_id: int | None
    name: str
    handle: int | None
    outcome: HazardOutcome


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Recompiled(_Event):
    """A function was compiled again, which made the graph `graph_id`. The first cause counts most."""

    kind: ClassVar[EventKind] = "recompiled"
    graph_id: int
    function: str
    causes: tuple[Cause, ...]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Frozen(_Event):
    """A compile came while compiles were frozen; `allowed` is false if it was forbidden."""

    kind: ClassVar[EventKind] = "frozen"
    function: str
    causes: tuple[Cause, ...]
    allowed: bool


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SettingChanged(_Event):
    """A setting took a new value."""

    kind: ClassVar[EventKind] = "setting"
    name: str
    old: SettingValue
    new: SettingValue


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CellRan(_Event):
    """A cell in which graphs were traced, compiled or reused has ended."""

    kind: ClassVar[EventKind] = "cell"
    compiled: int
    reused: int
    duration_ns: int


Event = (
    Traced
    | Warming
    | Warmed
    | Evicted
    | Dropped
    | BarrierRan
    | Donation
    | Refused
    | ExecutionForced
    | HostOpsRan
    | Hazard
    | Recompiled
    | Frozen
    | SettingChanged
    | CellRan
)

Plain = None | bool | int | float | str | list["Plain"] | dict[str, "Plain"]


def to_plain(value: object) -> Plain:
    """`value` as ``json.dumps`` takes it: records become dicts (events with a ``"kind"``), other tuples lists.

    Raises `TypeError` for anything else, so that no device object can slip into a snapshot.
    """
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, tuple | list):
        return [to_plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): to_plain(item) for key, item in value.items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        plain = {field.name: to_plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
        return {"kind": value.kind, **plain} if isinstance(value, _Event) else plain
    raise TypeError(f"a record cannot hold a {type(value).__name__}")


def to_dict(value: object) -> dict[str, Plain]:
    """A record or an event as a plain dict, ready for JSON or a data frame. Raises `TypeError` for others."""
    plain = to_plain(value)
    if not isinstance(plain, dict):
        raise TypeError(f"to_dict takes a record, not a {type(value).__name__}")
    return plain


def from_report(report: Report, seq: int, cell: CellRef | None, source: Source | None) -> Event:
    """The event that tells of the backend's `report`."""
    match report:
        case GraphTraced():
            return Traced(
                seq=seq,
                time_ns=report.started_ns,
                cell=cell,
                source=source,
                graph_id=report.graph_id,
                reason=report.reason,
                trace_ns=report.trace_ns,
            )
        case GraphWarming():
            return Warming(
                seq=seq,
                time_ns=report.started_ns,
                cell=cell,
                source=source,
                graph_id=report.graph_id,
                mode=report.mode,
            )
        case GraphWarmed():
            return Warmed(
                seq=seq,
                time_ns=report.ended_ns,
                cell=cell,
                source=source,
                graph_id=report.graph_id,
                mode=report.mode,
                compiled=report.compiled,
                compile_ns=report.compile_ns,
            )
        case GraphEvicted():
            return Evicted(seq=seq, time_ns=report.time_ns, cell=cell, source=source, graph_id=report.graph_id)
        case GraphDropped():
            return Dropped(
                seq=seq,
                time_ns=report.time_ns,
                cell=cell,
                source=source,
                graph_id=report.graph_id,
                saved_nbytes=report.saved_nbytes,
            )
        case Barrier():
            return BarrierRan(
                seq=seq,
                time_ns=report.started_ns,
                cell=cell,
                source=source,
                cause=report.cause,
                graph_id=report.graph_id,
                tensors=report.tensors,
                duration_ns=report.ended_ns - report.started_ns,
            )
        case Donated():
            return Donation(
                seq=seq,
                time_ns=report.time_ns,
                cell=cell,
                source=source,
                cause=report.cause,
                graph_id=report.graph_id,
                name=report.name[:TEXT_LIMIT],
                spec=report.spec,
                handle=report.handle or None,
                address=report.address,
                would_be=report.would_be,
                taker=report.taker[:TEXT_LIMIT],
                taker_handle=report.taker_handle,
                output=report.taken[1] if report.taken is not None else None,
            )
        case Forced():
            return ExecutionForced(
                seq=seq,
                time_ns=report.started_ns,
                cell=cell,
                source=source,
                by=report.by,
                spec=report.spec,
                op_count=report.op_count,
                compiled=report.compiled,
                duration_ns=report.ended_ns - report.started_ns,
            )
        case DonationRefused():
            return Refused(
                seq=seq,
                time_ns=report.time_ns,
                cell=cell,
                source=source,
                graph_id=report.graph_id,
                name=report.name[:TEXT_LIMIT],
                why=report.why[:TEXT_LIMIT],
            )
