"""One graph as text: which one is meant, what goes in and out, its HLO, and its difference from another one."""

from __future__ import annotations

from collections.abc import Sequence

from xla_notebook.backend.observer import TensorSpec
from xla_notebook.notebook.report import duration
from xla_notebook.session import Cost, GraphRecord
from xla_notebook.session.analysis import aliases
from xla_notebook.session.causes import shape_text
from xla_notebook.session.describe import bytes_text, place_text
from xla_notebook.session.hlo import hlo_diff, op_histogram

SHORT_HASH = 8
_SHORTEST_PREFIX = 4


class NotOneGraph(LookupError):
    """No graph, or more than one, is called what was asked for; the message names those there are."""


def find(graphs: Sequence[GraphRecord], wanted: str) -> GraphRecord:
    """The graph with the name `wanted` (``step #2``, spaces do not matter) or with a hash that begins so."""
    name = _plain(wanted)
    found = [graph for graph in graphs if _plain(graph.name) == name]
    if not found and len(name) >= _SHORTEST_PREFIX:
        found = [graph for graph in graphs if graph.hash.startswith(name.lower())]
    if len(found) == 1:
        return found[0]
    known = ", ".join(f"{graph.name} ({graph.hash[:SHORT_HASH]})" for graph in found or graphs)
    if found:
        raise NotOneGraph(f"{wanted!r} is more than one graph: {known}")
    raise NotOneGraph(f"there is no graph {wanted!r}; there are {known}" if known else "no graphs are cached yet")


def find_two(graphs: Sequence[GraphRecord], words: Sequence[str]) -> tuple[GraphRecord, GraphRecord]:
    """The two graphs that `words` name one after the other, wherever the first name ends."""
    if len(words) < 2:
        raise NotOneGraph("takes two graphs, by name or hash")
    for end in range(1, len(words) - 1):
        names = " ".join(words[:end]), " ".join(words[end:])
        if all(any(_plain(graph.name) == _plain(name) for graph in graphs) for name in names):
            return find(graphs, names[0]), find(graphs, names[1])
    return find(graphs, " ".join(words[:-1])), find(graphs, words[-1])


def details(graph: GraphRecord) -> str:
    """All that is known of a graph, without its HLO."""
    place = place_text(graph.cell, graph.source)
    lines = [
        f"{graph.name}{f' ({place})' if place else ''}: {graph.kind} graph, {graph.state}, hash {graph.hash}",
        f"{graph.op_count} ops; traced in {duration(graph.trace_ns)}, "
        + (f"compiled in {duration(graph.compile_ns)}" if graph.compiled else "compiled before")
        + f"; {graph.runs} run{'s' if graph.runs != 1 else ''}"
        + (f", {duration(graph.mean_run_ns)} of host time each" if graph.runs else ""),
        "inputs:",
    ]
    for binding in graph.inputs:
        lines.append(f"  {binding.name}: {binding.kind}, {_spec(binding.spec)}")
    lines.append("outputs:")
    updates = {output: graph.argument(source) for source, output in graph.mutations}
    memory = {output: name for name, output, reused in aliases(graph) if reused}
    for number, spec in enumerate(graph.outputs):
        line = f"  {number}: {_spec(spec)}"
        updated = updates.get(number)
        if updated is not None:
            line += f", the new value of {updated.name}"
        if number in memory:
            own = updated is not None and updated.name == memory[number]
            line += f", in {'its' if own else 'the donated'} memory{'' if own else f' of {memory[number]}'}"
        lines.append(line)
    if graph.host_ops:
        lines.append("ops that run on the host, around the graph:")
        lines += [f"  {op.target}: {op.why}{f' ({op.source})' if op.source else ''}" for op in graph.host_ops]
    return "\n".join(lines)


def hlo(graph: GraphRecord, text: str) -> str:
    """HLO below a line that says how often each op occurs."""
    ops = ", ".join(f"{op} {count}" for op, count in op_histogram(text).items())
    return f"// {graph.name}: {ops or 'no ops'}\n{text.rstrip()}"


def cost(graph: GraphRecord, found: Cost) -> str:
    """XLA's estimate of one run."""
    return (
        f"{graph.name}: {found.flops:,} flops and {found.transcendentals:,} transcendental functions in a run,"
        f" {bytes_text(found.accessed_nbytes)} read and written if no ops are fused (XLA's estimate)"
    )


def diff(first: GraphRecord, first_text: str, second: GraphRecord, second_text: str) -> str:
    """What differs between two graphs' HLO, numbering and source lines aside."""
    lines = hlo_diff(first_text, second_text, first.name, second.name)
    return "\n".join(lines) or f"{first.name} and {second.name} have the same HLO."


def _spec(spec: TensorSpec) -> str:
    return f"{spec.dtype} {shape_text(spec.shape)}, {bytes_text(spec.nbytes)}"


def _plain(name: str) -> str:
    return "".join(name.split())
