"""What Dynamo knows of the function that it compiles, besides the graph that it hands over."""

from __future__ import annotations

import collections
import dataclasses
import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any

from torch._dynamo.output_graph import OutputGraph
from torch._dynamo.side_effects import SideEffects
from torch._dynamo.source import LocalCellSource
from torch._dynamo.variables.base import VariableTracker


@dataclasses.dataclass(frozen=True)
class DynamoFrame:
    """What Dynamo knows about the values of the function that it is compiling, by their sources.

    `kept`: values that the function hands on besides its graph (returned arguments, live locals at a
    graph break) or that it takes twice. An argument that is returned unchanged does not appear in the
    graph: Dynamo's bytecode returns it. `variables`: names of the function's own variables. `bounded`: deques
    with a `maxlen` that it changes.
    """

    kept: frozenset[str]
    variables: frozenset[str]
    bounded: frozenset[str]


def dynamo_frame() -> DynamoFrame | None:
    """Call while Dynamo compiles a graph; None if this Dynamo does not tell."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code is not OutputGraph.compile_subgraph.__code__:
        frame = frame.f_back
    if frame is None:
        return None
    translator, output = frame.f_locals["tx"], frame.f_locals["self"]
    values = list(frame.f_locals.get("stack_values_flat", ()))
    if frame.f_locals["reason"].graph_break:
        values.extend(translator.symbolic_locals.values())
    kept: set[str] = set()

    def note(value: VariableTracker) -> None:
        # Cells have a source that stands for no expression of the user's; what they hold is visited too.
        source: Any = value.source
        if source is not None and not isinstance(source, LocalCellSource):
            kept.add(source.name())

    VariableTracker.visit(note, values)
    for guard in output.guards:
        if guard.create_fn_name() == "DUPLICATE_INPUT":
            kept.add(guard.name)
            kept.add(guard.create_fn.keywords["source_b"].name())
    code = translator.f_code
    variables = frozenset((*code.co_varnames, *code.co_freevars, *code.co_names))
    return DynamoFrame(frozenset(kept), variables, frozenset(_bounded(output.side_effects)))


def _bounded(effects: SideEffects) -> Iterator[str]:
    for value in effects.keepalive:
        if isinstance(value, collections.deque) and value.maxlen is not None:
            variable: Any = effects.id_to_variable.get(id(value))
            # One that the function makes has no source, and Dynamo knows its `maxlen`.
            if variable is not None and variable.source is not None and effects.is_modified(variable):
                yield variable.source.name()
