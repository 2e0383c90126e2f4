"""What is known of one device buffer: a plain value that keeps no tensor alive."""

from __future__ import annotations

import dataclasses
from typing import Literal, NamedTuple

from xla_notebook.session.events import Plain, to_dict

BufferState = Literal["live", "pending", "donated", "deleted", "stale"]
OwnerKind = Literal["saved", "variable", "module", "optimizer", "gradient", "output", "traceback"]


@dataclasses.dataclass(frozen=True, slots=True)
class Owner:
    """Who keeps a buffer: by what `kind` of thing, and its `name` in the user's words.

    ``model.layers[0].weight`` for a module's tensor, ``Out[3]`` for a cell's result that IPython keeps,
    ``step: constant 0`` for a graph's saved buffer.
    """

    kind: OwnerKind
    name: str
    graph_id: int | None = None


class BufferRecord(NamedTuple):
    """A device buffer, or a tensor whose value is still pending, with all its owners.

    `handle` is None where there is no buffer. `live`: a buffer with its value; `pending`: not computed yet;
    `donated`: its memory was given to another buffer, as an event tells; `deleted`: gone for another
    reason; `stale`: gone, but a graph still counts on it. All `tensors` on one buffer are one record, so
    that bytes are counted once; one tensor may have several owners.
    """

    handle: int | None
    shape: tuple[int, ...]
    dtype: str
    nbytes: int
    state: BufferState
    owners: tuple[Owner, ...]
    tensors: int

    @property
    def names(self) -> tuple[str, ...]:
        """The owners' names."""
        return tuple(owner.name for owner in self.owners)

    @property
    def graph_ids(self) -> tuple[int, ...]:
        """The graphs that keep it for later runs."""
        return tuple(owner.graph_id for owner in self.owners if owner.graph_id is not None)

    def to_dict(self) -> dict[str, Plain]:
        """All fields as plain values, ready for JSON or a data frame."""
        return to_dict(self)


@dataclasses.dataclass(frozen=True, slots=True)
class Ledger:
    """All buffers found in one look, saved ones first.

    `complete` is false if the walk hit its limits. `sent` is false if results of a run were only being sent to the
    device: they are told as pending, and another look tells their buffers.
    """

    buffers: tuple[BufferRecord, ...]
    complete: bool
    sent: bool = True
