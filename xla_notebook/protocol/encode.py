"""Session values as parts of messages. Pure functions: they read records, never a device."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import xla_notebook.session as session
from xla_notebook.backend.observer import TensorSpec
from xla_notebook.protocol import messages
from xla_notebook.session.analysis import alias_map
from xla_notebook.session.buffers import BufferRecord
from xla_notebook.session.describe import event_text, inputs_text, place_text
from xla_notebook.session.events import Donation, Hazard
from xla_notebook.session.records import GraphRecord


def cell(ref: session.CellRef | None) -> messages.Cell | None:
    """A run of a cell."""
    return None if ref is None else messages.Cell(ref.execution_count, ref.cell_id)


def place(ref: session.CellRef | None, source: session.Source | None) -> messages.Place | None:
    """A line of the user's code, or else the cell that was running; None if neither is known."""
    text = place_text(ref, source)
    if not text:
        return None
    if source is None:
        return messages.Place(text, None, None, cell(ref))
    return messages.Place(text, source.filename, source.line, cell(source.cell))


def tensor(spec: TensorSpec) -> messages.Tensor:
    """Shape and dtype."""
    return messages.Tensor(spec.shape, spec.dtype, spec.nbytes)


def graph(record: GraphRecord, name: Callable[[GraphRecord], str]) -> messages.Graph:
    """A graph as a row; `name` says what it is called where people see it."""
    return messages.Graph(
        graph_id=record.graph_id,
        name=name(record),
        kind=record.kind,
        state=record.state,
        hash=record.hash,
        place=place(record.cell, record.source),
        cell=cell(record.cell),
        inputs=inputs_text(record),
        input_count=len(record.inputs),
        output_count=len(record.outputs),
        causes=tuple(messages.Cause(cause.what, cause.fix, cause.guard) for cause in record.causes),
        reason=record.reason,
        warm_up=record.warm_up,
        op_count=record.op_count,
        host_op_count=len(record.host_ops),
        saved_count=record.saved_count,
        saved_nbytes=record.saved_nbytes,
        trace_ns=record.trace_ns,
        compile_ns=record.compile_ns,
        compiled=record.compiled,
        traces=record.traces,
        runs=record.runs,
        run_ns=record.mean_run_ns or None,
        time_ms=record.traced_at_ns / 1e6,
    )


def details(request_id: int, record: GraphRecord, name: Callable[[GraphRecord], str]) -> messages.Details:
    """A graph whole: what is too long for a row, with it."""
    return messages.Details(
        id=request_id,
        graph=graph(record, name),
        inputs=tuple(messages.Input(bound.name, bound.kind, tensor(bound.spec)) for bound in record.inputs),
        outputs=tuple(tensor(spec) for spec in record.outputs),
        aliases=tuple(
            messages.Alias(record.inputs.index(source), output, reused) for source, output, reused in alias_map(record)
        ),
        host_ops=tuple(messages.HostOp(op.target, op.why, op.source) for op in record.host_ops),
    )


def buffers(records: Sequence[BufferRecord]) -> dict[str, messages.Buffer]:
    """The buffers of a look by key.

    The key of a buffer is its handle. What has no handle is called after its first owner, with a number
    where several are.
    """
    made: dict[str, messages.Buffer] = {}
    for record in records:
        key = f"{record.handle:x}" if record.handle is not None else record.owners[0].name if record.owners else "?"
        if key in made:
            number = 2
            while f"{key} ({number})" in made:
                number += 1
            key = f"{key} ({number})"
        made[key] = messages.Buffer(
            key=key,
            handle=record.handle,
            shape=record.shape,
            dtype=record.dtype,
            nbytes=record.nbytes,
            state=record.state,
            owners=tuple(messages.Owner(owner.kind, owner.name, owner.graph_id) for owner in record.owners),
            tensors=record.tensors,
        )
    return made


def event(happened: session.Event, names: Mapping[int, str]) -> messages.EventRow:
    """An event as a sentence; `names` are the graphs' by graph id."""
    return messages.EventRow(
        seq=happened.seq,
        time_ms=happened.time_ns / 1e6,
        kind=happened.kind,
        text=event_text(happened, names),
        place=place(happened.cell, happened.source),
        cell=cell(happened.cell),
        graph_id=getattr(happened, "graph_id", None),
        name=happened.name if isinstance(happened, Donation | Hazard) else None,
        handle=getattr(happened, "handle", None),
        taker_handle=getattr(happened, "taker_handle", None),
    )


def settings(values: Mapping[str, session.SettingValue]) -> messages.Settings:
    """All settings."""
    return messages.Settings(**values)  # type: ignore[arg-type]  # validated when they were set
