"""Pure functions of the record: totals, and advice on what would save memory or compiles."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from xla_notebook.backend.observer import Binding
from xla_notebook.backend.sources import user_name
from xla_notebook.session.buffers import BufferRecord, OwnerKind
from xla_notebook.session.causes import shape_text
from xla_notebook.session.records import GraphRecord

AdviceKind = Literal["donate", "pad", "constant", "large"]
LARGEST = 5
SMALL_NBYTES = 1024


@dataclasses.dataclass(frozen=True, slots=True)
class Advice:
    """One thing that could be better, in a sentence; `nbytes` of device memory are at stake (0 if none)."""

    kind: AdviceKind
    text: str
    graph_ids: tuple[int, ...]
    nbytes: int


def advice(graphs: Sequence[GraphRecord], buffers: Sequence[BufferRecord] = ()) -> list[Advice]:
    """All advice on `graphs` and on `buffers` (from a look at the ledger), most bytes first within a kind."""
    alive = [graph for graph in graphs if graph.state != "dropped"]
    found = [
        *_donations(alive, buffers),
        *_same_but_for_shapes(alive),
        *_constants_kept_twice(alive, buffers),
        *_largest(alive),
    ]
    order: tuple[AdviceKind, ...] = ("donate", "pad", "constant", "large")
    return sorted(found, key=lambda item: (order.index(item.kind), -item.nbytes))


def totals_by_owner(buffers: Iterable[BufferRecord]) -> dict[OwnerKind, int]:
    """Bytes of live buffers by kind of owner. A buffer counts once for each kind, so the sum may exceed the whole."""
    totals: collections.Counter[OwnerKind] = collections.Counter()
    for buffer in buffers:
        if buffer.state == "live":
            for kind in {owner.kind for owner in buffer.owners}:
                totals[kind] += buffer.nbytes
    return dict(totals.most_common())


def live_nbytes(buffers: Iterable[BufferRecord]) -> int:
    """Bytes of all live buffers, each counted once."""
    return sum(buffer.nbytes for buffer in buffers if buffer.state == "live")


def held_by_graphs_only(buffers: Iterable[BufferRecord]) -> int:
    """Bytes of live buffers that graphs keep and no name reaches: what comes free when the graphs go."""
    return sum(
        buffer.nbytes
        for buffer in buffers
        if buffer.state == "live" and all(owner.kind == "saved" for owner in buffer.owners)
    )


def aliases(graph: GraphRecord) -> list[tuple[str, int, bool]]:
    """The graph's alias map with the inputs' names: (name, output number, whether the memory is reused too)."""
    return [(binding.name, output, reused) for binding, output, reused in alias_map(graph)]


def alias_map(graph: GraphRecord) -> list[tuple[Binding, int, bool]]:
    """The graph's input-to-output alias map: (input, output number, whether the memory is reused too).

    An output is the new value of an input that the function changes in place, or has the memory of one that
    was donated. Before the first run of a graph that donates, its donated inputs are expected to give theirs.
    """
    taken = None if graph.taken is None else dict(graph.taken)
    found = {(source, output): source in graph.donated_inputs for source, output in graph.mutations}
    if taken is not None:
        found = {pair: taken.get(pair[0]) == pair[1] for pair in found}
        found |= {(source, output): True for source, output in taken.items() if output is not None}
    bound = ((graph.argument(source), output, reused) for (source, output), reused in found.items())
    return [(binding, output, reused) for binding, output, reused in bound if binding is not None]


def _donations(graphs: Iterable[GraphRecord], buffers: Iterable[BufferRecord]) -> Iterable[Advice]:
    """Variables that each run overwrites anyway: their old value is of no use to the user's own program.

    Not those that share their buffer with another tensor, which would lose its value, nor what an optimizer
    reaches through its own attributes, which ``--donate`` cannot name.
    """
    shared = {name for buffer in buffers if buffer.tensors > 1 for name in buffer.names}
    for graph in graphs:
        names = []
        nbytes = 0
        for source, _ in graph.mutations:
            binding = graph.argument(source)
            if source in graph.donated_inputs or binding is None:
                continue
            if binding.kind == "argument" and binding.name.isidentifier() and binding.name not in shared:
                names.append(binding.name)
                nbytes += binding.spec.nbytes
        if names:
            listed = ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
            text = f"{graph.name} overwrites {listed} in each run: --donate {','.join(names)} reuses the memory"
            yield Advice("donate", text, (graph.graph_id,), nbytes)


def _same_but_for_shapes(graphs: Iterable[GraphRecord]) -> Iterable[Advice]:
    alike: Mapping[object, list[GraphRecord]] = collections.defaultdict(list)
    for graph in graphs:
        if graph.kind == "backward":
            continue  # its shapes follow from those of the forward graph
        inputs = tuple((binding.kind, binding.name, binding.spec.dtype) for binding in graph.inputs)
        alike[graph.function, graph.source, graph.kind, graph.segment, inputs].append(graph)
    for group in alike.values():
        differing = []
        for position, binding in enumerate(group[0].inputs):
            shapes = list(dict.fromkeys(graph.inputs[position].spec.shape for graph in group))
            if len(shapes) > 1 and binding.kind == "argument":
                seen = ", ".join(shape_text(shape) for shape in shapes[:6]) + (", ..." if len(shapes) > 6 else "")
                differing.append(f"`{user_name(binding.name)}` ({seen})")
        if differing:
            text = (
                f"{len(group)} graphs of {group[0].label} differ only by the shape of {' and '.join(differing)}:"
                " pad to one shape, or to a few, to compile less"
            )
            yield Advice("pad", text, tuple(graph.graph_id for graph in group), 0)


def _constants_kept_twice(graphs: Iterable[GraphRecord], buffers: Iterable[BufferRecord]) -> Iterable[Advice]:
    """Buffers of one shape and dtype, kept under one name by several graphs of one function, or by several functions.

    Whether the values are equal would need a look at the device, so this says "may". Two functions are told of
    only if each keeps one such buffer: of more it could not be said which might be equal.
    """
    functions = {graph.graph_id: graph.label for graph in graphs}
    within: Mapping[object, list[BufferRecord]] = collections.defaultdict(list)
    across: Mapping[object, dict[str, list[BufferRecord]]] = collections.defaultdict(dict)
    for buffer in buffers:
        if buffer.state != "live" or buffer.nbytes < SMALL_NBYTES:
            continue
        for owner in buffer.owners:
            if owner.graph_id in functions:
                function, constant = functions[owner.graph_id], owner.name.rpartition(": ")[2]
                within[function, constant, buffer.shape, buffer.dtype].append(buffer)
                across[buffer.shape, buffer.dtype].setdefault(function, []).append(buffer)
    for group in within.values():
        yield from _kept_twice(group, functions, " made anew in each graph")
    for by_function in across.values():
        single = [group[0] for group in by_function.values() if len({buffer.handle for buffer in group}) == 1]
        if len(single) == len(by_function):
            yield from _kept_twice(single, functions, "")


def _kept_twice(group: Sequence[BufferRecord], functions: Mapping[int, str], made: str) -> Iterable[Advice]:
    distinct = {buffer.handle: buffer for buffer in group}
    if len(distinct) < 2:
        return
    ids = tuple(sorted({graph_id for buffer in group for graph_id in buffer.graph_ids if graph_id in functions}))
    keepers = list(dict.fromkeys(functions[graph_id] for graph_id in ids))
    keep = f"{keepers[0]} keeps" if len(keepers) == 1 else f"{', '.join(keepers[:-1])} and {keepers[-1]} keep"
    text = (
        f"{keep} {len(distinct)} buffers of {group[0].dtype} {shape_text(group[0].shape)}, which may be one"
        f" constant{made}: make it once and pass it as an argument"
    )
    yield Advice("constant", text, ids, sum(buffer.nbytes for buffer in distinct.values()) - group[0].nbytes)


def _largest(graphs: Iterable[GraphRecord]) -> Iterable[Advice]:
    keepers = sorted((graph for graph in graphs if graph.saved_nbytes), key=lambda graph: -graph.saved_nbytes)
    for graph in keepers[:LARGEST]:
        plural = "s" if graph.saved_count != 1 else ""
        text = f"{graph.name} keeps {graph.saved_count} saved buffer{plural} for later runs"
        yield Advice("large", text, (graph.graph_id,), graph.saved_nbytes)
