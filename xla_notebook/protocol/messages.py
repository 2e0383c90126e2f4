"""The messages between kernel and page, defined once: the JSON Schema and the TypeScript types are made from here.

The page sends a `Request`; each one that has an `id` is answered exactly once, by the `Answer` that its
docstring names or by `Failed`. The kernel pushes a `Snapshot` when a page opens, and `Delta` after it.
Times are milliseconds since 1970 (`time_ms`), because a page's numbers hold no nanoseconds of them;
durations are nanoseconds (`trace_ns`). After a change here: ``make protocol``.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from xla_notebook.backend.observer import BindingKind, TraceReason, WarmUpMode
from xla_notebook.session.buffers import BufferState, OwnerKind
from xla_notebook.session.events import EventKind
from xla_notebook.session.records import GraphRole, GraphState
from xla_notebook.session.settings import Freeze, OnDonated, SavedBuffers

Version = Literal[1]
VERSION: Version = 1

# More than a page can want at once; a larger number is refused with the message that says so.
MOST_EVENTS = 5_000

FailureCode = Literal["malformed", "protocol", "setting", "gone", "failed"]
Id = Annotated[int, Meta(ge=0, le=2**53 - 1)]
Count = Annotated[int, Meta(ge=1, le=MOST_EVENTS)]


class _Value(Struct, forbid_unknown_fields=True):
    """A part of a message."""


class _Message(Struct, forbid_unknown_fields=True, tag_field="type"):
    """A message; its ``type`` says which one."""


# ---- parts


class Cell(_Value):
    """A run of a notebook cell: 7 for ``In[7]``, and the notebook's id of the cell where the front end gives one."""

    execution_count: int
    cell_id: str | None


class Place(_Value):
    """A line of the user's code, and the cell that holds it. `text` says it in words: ``cell 3, line 7``."""

    text: str
    filename: str | None
    line: int | None
    cell: Cell | None


class Tensor(_Value):
    """What a tensor looks like."""

    shape: tuple[int, ...]
    dtype: str
    nbytes: int


class Input(_Value):
    """An input of a graph: what brings it, and its name in the user's words."""

    name: str
    kind: BindingKind
    tensor: Tensor


class Alias(_Value):
    """The output at position `output` is the new value of the input at `input`, or (`reused`) has its memory."""

    input: int
    output: int
    reused: bool


class HostOp(_Value):
    """An op that runs on the host, around which the graph was split."""

    target: str
    why: str
    source: str | None


class Cause(_Value):
    """Why something was compiled again, what would avoid it, and what Dynamo said."""

    what: str
    fix: str | None
    guard: str | None


class Graph(_Value):
    """A cached graph, as a row of the table. What is long (inputs, outputs) is in `Details`.

    `causes` is empty for a function's first compile. `compile_ns` is of a compile that XLA's cache did not save
    (`compiled`). `run_ns` is the mean host time of a run, None if it was not taken.
    """

    graph_id: int
    name: str
    kind: GraphRole
    state: GraphState
    hash: str
    place: Place | None
    cell: Cell | None
    inputs: str
    input_count: int
    output_count: int
    causes: tuple[Cause, ...]
    reason: TraceReason
    warm_up: WarmUpMode | None
    op_count: int
    host_op_count: int
    saved_count: int
    saved_nbytes: int
    trace_ns: int
    compile_ns: int
    compiled: bool
    traces: int
    runs: int
    run_ns: int | None
    time_ms: float


class Owner(_Value):
    """Who keeps a buffer: a variable, a module, a graph (`graph_id`), ..."""

    kind: OwnerKind
    name: str
    graph_id: int | None


class Buffer(_Value):
    """A device buffer, or a tensor whose value is pending (`handle` is None). `key` is the same at each look."""

    key: str
    handle: int | None
    shape: tuple[int, ...]
    dtype: str
    nbytes: int
    state: BufferState
    owners: tuple[Owner, ...]
    tensors: int


class EventRow(_Value):
    """Something that happened, in a sentence.

    Of a donation or a hazard, `name` and `handle` are those of the buffer that died, and `taker_handle` is that of
    the buffer in its memory.
    """

    seq: int
    time_ms: float
    kind: EventKind
    text: str
    place: Place | None
    cell: Cell | None
    graph_id: int | None
    name: str | None
    handle: int | None
    taker_handle: int | None


class Settings(_Value):
    """All settings (see `xla_notebook.session.settings.Settings`)."""

    warm_up: WarmUpMode
    guard: bool
    saved_buffers: SavedBuffers
    on_donated: OnDonated
    freeze: Freeze
    watch_donations: bool
    watch_reads: bool


class Position(_Value):
    """How far a page has seen: the session's number, and the number of looks at the buffers."""

    session: int
    look: int


class Status(_Value):
    """The kernel at this moment.

    `busy`: the cell that runs. `prompt`: requests are served while a cell runs; where the kernel or the front
    end has no subshells they wait for its end. `looked_ms`: when the buffers were looked at last.
    """

    device: str
    busy: Cell | None
    prompt: bool
    looked_ms: float | None
    buffers_complete: bool


# ---- kernel to page, unasked


class Snapshot(_Message, tag="snapshot"):
    """Everything, with the last events; `event_total` counts those that are held in the kernel.

    `ack`: whether the page is to say that it has this.
    """

    protocol: Version
    at: Position
    ack: bool
    time_ms: float
    status: Status
    settings: Settings
    graphs: tuple[Graph, ...]
    buffers: tuple[Buffer, ...]
    events: tuple[EventRow, ...]
    event_total: int
    counts: dict[str, int]


class Delta(_Message, tag="delta"):
    """What changed between two positions: changed rows whole, and keys of those gone. `ack` as in `Snapshot`."""

    since: Position
    at: Position
    ack: bool
    time_ms: float
    status: Status
    settings: Settings
    graphs: tuple[Graph, ...]
    graphs_gone: tuple[int, ...]
    buffers: tuple[Buffer, ...]
    buffers_gone: tuple[str, ...]
    events: tuple[EventRow, ...]
    event_total: int
    counts: dict[str, int]


class Closed(_Message, tag="closed"):
    """The kernel's side ends (the extension was unloaded)."""


Push = Snapshot | Delta | Closed


# ---- kernel to page, in answer


class Changed(_Message, tag="changed"):
    """The settings after a `SetSetting`."""

    id: Id
    settings: Settings


class Details(_Message, tag="details"):
    """One graph whole."""

    id: Id
    graph: Graph
    inputs: tuple[Input, ...]
    outputs: tuple[Tensor, ...]
    aliases: tuple[Alias, ...]
    host_ops: tuple[HostOp, ...]


class Hlo(_Message, tag="hlo"):
    """A graph's HLO text with the user's source lines, and how often each op occurs in it."""

    id: Id
    graph_id: int
    text: str
    ops: dict[str, int]


class Diff(_Message, tag="diff"):
    """A unified diff of two graphs' HLO without numbering and metadata; no lines if they are the same."""

    id: Id
    lines: tuple[str, ...]


class Rows(_Message, tag="rows"):
    """Older events, oldest first."""

    id: Id
    events: tuple[EventRow, ...]


class Cleared(_Message, tag="cleared"):
    """How many graphs were dropped, and how many bytes no other owner keeps."""

    id: Id
    graphs: int
    nbytes: int


class Exported(_Message, tag="exported"):
    """The session as the JSON text that ``python -m xla_notebook show FILE`` reads."""

    id: Id
    filename: str
    text: str


class ReportText(_Message, tag="report_text"):
    """The graphs, buffers and causes as plain text."""

    id: Id
    text: str


class Failed(_Message, tag="failed"):
    """A request was not served, and nothing was changed. `id` is None if the message had none that could be read."""

    id: Id | None
    code: FailureCode
    text: str


Answer = Changed | Details | Hlo | Diff | Rows | Cleared | Exported | ReportText | Failed


# ---- page to kernel


class Open(_Message, tag="open"):
    """Begin, or begin anew: the kernel pushes a `Snapshot` and goes on with deltas.

    A widget's messages reach all pages that show its notebook; `page` tells them apart.
    """

    protocol: int
    visible: bool = True
    page: Id = 0


class Ack(_Message, tag="ack"):
    """All up to this position is on the page: said after a push that asks for it."""

    at: Position


class Show(_Message, tag="show"):
    """Whether anyone can see the page. Nothing is pushed to one that is hidden."""

    visible: bool
    page: Id = 0


class SetSetting(_Message, tag="set_setting"):
    """Change one setting, at once, also while a cell runs. Answered by `Changed`."""

    id: Id
    name: Annotated[str, Meta(max_length=64)]
    value: bool | Annotated[str, Meta(max_length=64)]


class GetDetails(_Message, tag="get_details"):
    """Answered by `Details`."""

    id: Id
    graph_id: Id


class GetHlo(_Message, tag="get_hlo"):
    """Answered by `Hlo`, at the end of the cell if one runs."""

    id: Id
    graph_id: Id


class GetDiff(_Message, tag="get_diff"):
    """Answered by `Diff`, at the end of the cell if one runs."""

    id: Id
    first: Id
    second: Id


class GetEvents(_Message, tag="get_events"):
    """Up to `count` events before number `before`. Answered by `Rows`."""

    id: Id
    before: Id
    count: Count


class Clear(_Message, tag="clear"):
    """Drop all cached graphs with their saved buffers, at the end of the cell if one runs. Answered by `Cleared`."""

    id: Id


class GetExport(_Message, tag="get_export"):
    """Answered by `Exported`, at the end of the cell if one runs."""

    id: Id


class GetReport(_Message, tag="get_report"):
    """Answered by `ReportText`, at the end of the cell if one runs."""

    id: Id


Request = Open | Ack | Show | SetSetting | GetDetails | GetHlo | GetDiff | GetEvents | Clear | GetExport | GetReport
