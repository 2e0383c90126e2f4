"""Events and histories as sentences: the words that magics, widget and sidebar share. Pure functions."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

from xla_notebook.session.causes import shape_text
from xla_notebook.session.events import (
    BarrierRan,
    Cause,
    CellRan,
    CellRef,
    Donation,
    Dropped,
    Event,
    Evicted,
    ExecutionForced,
    Frozen,
    Hazard,
    HazardOutcome,
    HostOpsRan,
    Recompiled,
    Refused,
    SettingChanged,
    Source,
    Traced,
    Warmed,
    Warming,
)
from xla_notebook.session.records import GraphRecord

SHOWN_INPUTS = 4
SHOWN_HOST_OPS = 4


def bytes_text(nbytes: int) -> str:
    """``512 B``, ``1.5 KiB``, ``64 MiB``: in a fitting unit, with three digits at most."""
    size = float(nbytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 999.5:
            return f"{size:.0f} {unit}" if unit == "B" or size >= 99.95 else f"{size:.1f} {unit}".replace(".0 ", " ")
        size /= 1024
    return f"{size:.1f} TiB".replace(".0 ", " ")


def duration_text(duration_ns: int) -> str:
    """``12 us``, ``3.4 ms``, ``1.9 s``."""
    for unit, length in (("s", 1e9), ("ms", 1e6)):
        if duration_ns >= length * 0.9995:
            return f"{duration_ns / length:.1f} {unit}"
    return f"{duration_ns / 1e3:.0f} us"


def place_text(cell: CellRef | None, source: Source | None) -> str:
    """Where: ``cell 3, line 7`` for a line of a cell, ``train.py:7`` for one of a file, or the running cell."""
    if source is not None and source.cell is not None:
        line = f", line {source.line}" if source.line is not None else ""
        return f"cell {source.cell.execution_count}{line}"
    if source is not None:
        file = source.filename.replace("\\", "/").rpartition("/")[2]
        return file if source.line is None else f"{file}:{source.line}"
    return f"cell {cell.execution_count}" if cell is not None else ""


def inputs_text(graph: GraphRecord) -> str:
    """The first arguments' dtypes and shapes: ``float32[16,8] float32[16] and 3 more``."""
    specs = [binding.spec for binding in graph.inputs if binding.kind == "argument"]
    more = len(specs) - SHOWN_INPUTS
    return " ".join(map(str, specs[:SHOWN_INPUTS])) + (f" and {more} more" if more > 0 else "")


def event_text(event: Event, names: Mapping[int, str]) -> str:
    """What happened, in a sentence without time and place. `names` are the graphs' by graph id."""
    graph_id = getattr(event, "graph_id", None)
    graph = names.get(graph_id, f"graph {graph_id}") if graph_id is not None else "a graph"
    match event:
        case Traced():
            why = "" if event.reason == "first" else f" again ({event.reason})"
            return f"{graph} traced{why} in {duration_text(event.trace_ns)}"
        case Warming():
            return f"{graph} warming up ({event.mode})"
        case Warmed():
            if not event.compiled:
                return f"{graph} was compiled already"
            return f"{graph} compiled in {duration_text(event.compile_ns)}"
        case Evicted():
            return f"XLA's cache had dropped {graph}"
        case Dropped():
            freed = f", {bytes_text(event.saved_nbytes)} came free" if event.saved_nbytes else ""
            return f"{graph} is gone{freed}"
        case BarrierRan():
            tensors = f" of {event.tensors} tensor{'s' if event.tensors != 1 else ''}" if event.tensors else ""
            return f"{event.cause}{tensors} took {duration_text(event.duration_ns)}"
        case Donation():
            shape = f"{event.spec.dtype} {shape_text(event.spec.shape)}"
            verb = "would have been donated" if event.would_be else "was donated"
            return f"{event.name or 'a buffer'} ({shape}) {verb} by {_culprit(event, graph)}{_taker(event)}"
        case Refused():
            return f"{event.name} of {graph} was not donated: {event.why}"
        case ExecutionForced():
            ops = f"{event.op_count} pending op{'s' if event.op_count != 1 else ''}"
            compiled = "compiled and executed" if event.compiled else "executed"
            what = f"{event.by} of a {event.spec.dtype} {shape_text(event.spec.shape)}"
            return f"{what} {compiled} {ops} in {duration_text(event.duration_ns)}"
        case HostOpsRan():
            return f"ran on the host, for want of an XLA kernel: {_counted(event.ops)}"
        case Hazard():
            return _hazard_text(event, graph)
        case Recompiled():
            return f"{event.function} was compiled again: {event.causes[0].what}"
        case Frozen():
            what = "compiled although compiles are frozen" if event.allowed else "refused, because compiles are frozen"
            return f"{event.function} was {what}{f': {event.causes[0].what}' if event.causes else ''}"
        case SettingChanged():
            return f"{event.name} is now {event.new} (was {event.old})"
        case CellRan():
            parts = [f"{event.compiled} compiled"] if event.compiled else []
            parts += [f"{event.reused} reused"] if event.reused else []
            return f"cell ended after {duration_text(event.duration_ns)}: graphs {', '.join(parts) or 'traced only'}"


@dataclasses.dataclass(frozen=True, slots=True)
class Compile:
    """One compile of a function: the graph it made, and its causes (none for the first one)."""

    graph: str
    cell: CellRef | None
    causes: tuple[Cause, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class History:
    """All compiles of one function, oldest first."""

    function: str
    source: Source | None
    compiles: tuple[Compile, ...]

    def lines(self) -> list[str]:
        """As text: a line for the function, then one for each compile, with what would avoid it below."""
        place = place_text(None, self.source)
        times = f"{len(self.compiles)} time{'s' if len(self.compiles) != 1 else ''}"
        lines = [f"{self.function}{f' ({place})' if place else ''}: compiled {times}"]
        for number, compiled in enumerate(self.compiles, start=1):
            where = place_text(compiled.cell, None)
            what = " / ".join(cause.what for cause in compiled.causes[:1]) or "first call"
            lines.append(f"  {number}. {what}{f' [{where}]' if where else ''}")
            lines += [f"     to avoid it: {cause.fix}" for cause in compiled.causes[:1] if cause.fix]
        return lines


def histories(graphs: Sequence[GraphRecord], events: Iterable[Event]) -> list[History]:
    """Why each function was compiled as often as it was; those compiled most often first.

    Backward graphs and later parts of a function follow from its first part and are not counted.
    """
    recompiled: dict[int, list[Recompiled]] = {}
    for event in events:
        if isinstance(event, Recompiled):
            recompiled.setdefault(event.graph_id, []).append(event)
    functions: dict[object, list[Compile]] = {}
    sources: dict[object, tuple[str, Source | None]] = {}
    for graph in graphs:
        again = [Compile(graph.name, event.cell, event.causes) for event in recompiled.get(graph.graph_id, ())]
        if graph.causes and not again:
            # The event was pushed out, say by the step barriers of a long training.
            again = [Compile(graph.name, graph.cell, graph.causes)]
        function = _function_of(graph)
        cell = graph.source.cell if graph.function == "<module>" and graph.source is not None else None
        name = f"cell {cell.execution_count}" if cell is not None else graph.label
        sources[function] = name, graph.source if cell is None else None
        compiles = functions.setdefault(function, [])
        if graph.traces > len(again) and graph.segment == 0 and graph.kind != "backward":
            compiles.append(Compile(graph.name, graph.cell, ()))
        compiles += again
    found = [History(*sources[key], tuple(compiles)) for key, compiles in functions.items() if compiles]
    return sorted(found, key=lambda history: -len(history.compiles))


def _function_of(graph: GraphRecord) -> object:
    """What stays the same when a cell is run again or edited; in a file, one line is one function."""
    source = graph.source
    if source is None:
        return graph.function
    if source.cell is not None and source.cell.cell_id is not None:
        return graph.function, source.cell.cell_id
    return graph.function, source.filename, source.line


def _counted(ops: Sequence[tuple[str, int]]) -> str:
    """``aten::nonzero (3 times), aten::median``, and how many others there were."""
    named = [name if count == 1 else f"{name} ({count} times)" for name, count in ops[:SHOWN_HOST_OPS]]
    others = len(ops) - len(named)
    return ", ".join(named) + (f" and {others} other{'s' if others != 1 else ''}" if others else "")


def _culprit(event: Donation, graph: str) -> str:
    if event.cause == "graph input":
        return f"a run of {graph}"
    return f"the warm-up of {graph}" if event.cause == "warm-up" else "a step barrier"


def _taker(event: Donation) -> str:
    if not event.taker:
        return ""
    return ", to its own new value" if event.taker == event.name else f": {event.taker} has its memory now"


def _hazard_text(event: Hazard, graph: str) -> str:
    outcomes: dict[HazardOutcome, str] = {
        "copied": "the guard's private copy was, so nothing happened",
        "recovered": "the graph was traced again",
        "raised": "the run failed",
    }
    return f"{event.name or 'a buffer'}, which {graph} needs, was donated: {outcomes[event.outcome]}"
