"""Frozen compiles: what is said of a compile that comes although the user wanted no more of them."""

from __future__ import annotations

from collections.abc import Sequence

from xla_notebook.backend.observer import Veto
from xla_notebook.session.describe import place_text
from xla_notebook.session.events import Cause
from xla_notebook.session.records import GraphRecord

_THAW = "To allow it: %xla_warmup --freeze off, or call it outside of frozen()."


class FrozenError(Veto):
    """A function would have been compiled while compiles are frozen. Nothing was compiled or executed."""


class FrozenWarning(RuntimeWarning):
    """A function was compiled although compiles are frozen."""


def frozen_text(graph: GraphRecord, causes: Sequence[Cause], first: bool) -> str:
    """Which compile is meant, why it comes, and the ways out. `first`: the function was never compiled before."""
    part = "the backward pass of " if graph.kind == "backward" else ""
    place = "" if graph.function == "<module>" else place_text(None, graph.source)
    who = f"{part}{graph.label}{f' ({place})' if place else ''}"
    why: str
    fix: str | None
    if first:
        why, fix = "it was never called before", "call it once before compiles are frozen"
    elif causes:
        why, fix = causes[0].what, causes[0].fix
    else:
        why, fix = "this part of it has changed", None
    avoid = f" To avoid it: {fix}." if fix else ""
    return f"Compiles are frozen, and {who} needs one: {why}.{avoid} {_THAW}"
