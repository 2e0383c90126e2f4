"""Looks at all device buffers that graphs keep and that a namespace reaches.

A look never executes, transfers or waits: it asks torch_xla for handles and for what is pending, in two calls
for a few hundred tensors (measured with torch_xla 2.9 on CPU: 0.3 and 0.1 us a tensor, several times that on a
busy machine). It never asks for a buffer's address, which would wait for work in flight. It reads tensors that
a running cell may be changing, so it belongs on the thread that runs the cells, or between cells.

Note [runs in flight]. Results of a run that is only being sent to the device have no buffers yet: their handles
are those of placeholders, and asking for those of sharded ones crashes the process. They are told as pending.
Asking whether a tensor was sent costs more than all else, so only those with a handle that the last look did
not see are asked, and of many only some: a run is sent as a whole.
"""

from __future__ import annotations

import contextlib
import math
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain, compress
from typing import NamedTuple

import torch

from xla_notebook.backend import runtime
from xla_notebook.session.buffers import BufferRecord, BufferState, Ledger, Owner, OwnerKind
from xla_notebook.session.records import LiveGraph
from xla_notebook.session.trees import Name, Root
from xla_notebook.session.walk import Walk, parts

# What torch_xla says of a buffer that was given away (PjRtComputationClient).
_DELETED = ("is deleted", "IsDeleted()")

# Of the tensors with new handles so many are asked whether they were sent, out of each few hundred.
_ASKED = 32

_OwnerKey = Name | tuple[OwnerKind, str, int]

_shape: Callable[[torch.Tensor], torch.Size] = vars(torch._C.TensorBase)["shape"].__get__
_dtype: Callable[[torch.Tensor], torch.dtype] = vars(torch._C.TensorBase)["dtype"].__get__


class _Part(NamedTuple):
    """What a look found of some tensors, a list for each fact."""

    places: list[int | str]
    numbers: list[int]
    owners: Sequence[tuple[_OwnerKey, ...]]
    shapes: list[torch.Size]
    dtypes: list[torch.dtype]

    def moved_from(self, last: _Part) -> bool:
        """Whether these are as those of `last` with other buffers, all live: after a step, most are."""
        return self[2:] == last[2:] and set(map(type, chain(self.places, last.places))) == {int}


class _Known(NamedTuple):
    """What the last look found of a tensor."""

    tensor: weakref.ref[torch.Tensor]
    place: int | str
    owners: tuple[_OwnerKey, ...]
    shape: torch.Size
    dtype: torch.dtype
    record: BufferRecord


class Looker:
    """Makes ledgers, and remembers by weak references what the tensors were at the last look.

    A record is used again where a tensor has the same buffer and owners as one had then.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._walk = Walk()
        # What the last look found, by parts: facts, the tensors, and a record for each tensor.
        self._parts: list[_Part] = []
        self._tensors: list[list[weakref.ref[torch.Tensor]]] = []
        self._records: list[list[BufferRecord]] = []
        self._ledger = Ledger((), True)

    def look(
        self,
        keepers: Iterable[tuple[str, LiveGraph]],
        roots: Iterable[Root],
        donated_since: Callable[[], frozenset[int]],
    ) -> Ledger:
        """The buffers kept by graphs (with the graphs' names) and those that `roots` reach.

        The ledger of the last look, if nothing has changed since. `donated_since` gives the handles that were
        donated since the last look; it is called only if a buffer is found dead.
        """
        # Tensor subclasses would otherwise answer for their shape with their own code.
        with self._lock, torch._C.DisableTorchFunctionSubclass():
            reached: list[torch.Tensor] = []
            owners: list[tuple[_OwnerKey, ...]] = []
            for name, graph in keepers:
                for position, tensor in enumerate(graph.saved):
                    reached.append(tensor)
                    owners.append((("saved", f"{name}: constant {position}", graph.graph_id),))
            walked = self._walk.look(roots)
            reached += walked.tensors
            owners += walked.names
            found: list[_Part] = []
            tensors: list[list[weakref.ref[torch.Tensor]]] = []
            for number, (some, owned) in enumerate(zip(parts(reached), parts(owners), strict=True)):
                last = self._parts[number] if number < len(self._parts) else None
                there, part = _looked(some, owned, last)
                found.append(last if last is not None and part == last else part)
                tensors.append(list(map(weakref.ref, there)))
            if found != self._parts or walked.complete != self._ledger.complete:
                records = self._recorded(found, tensors, donated_since)
                self._records, self._ledger = records, _ledger(found, records, walked.complete)
            self._parts, self._tensors = found, tensors
            return self._ledger

    def _recorded(
        self,
        found: list[_Part],
        tensors: list[list[weakref.ref[torch.Tensor]]],
        donated_since: Callable[[], frozenset[int]],
    ) -> list[list[BufferRecord]]:
        """A record for each tensor, by parts."""
        made: list[list[BufferRecord]] = []
        known: dict[int, _Known] = {}
        donated: frozenset[int] | None = None
        for number, part in enumerate(found):
            last = self._parts[number] if number < len(self._parts) else None
            if part is last:
                made.append(self._records[number])
            elif last is not None and part.moved_from(last):
                made.append(_moved(self._records[number], part.places))
            else:
                known = known or self._known()
                if donated is None and "deleted" in part.places:
                    donated = donated_since()
                facts = zip(tensors[number], *part, strict=True)
                made.append([_record(known, donated or frozenset(), *of_one) for of_one in facts])
        return made

    def _known(self) -> dict[int, _Known]:
        """What the last look found, by the tensors' numbers."""
        known: dict[int, _Known] = {}
        for tensors, part, records in zip(self._tensors, self._parts, self._records, strict=True):
            places, numbers, *facts = part
            known.update(zip(numbers, map(_Known, tensors, places, *facts, records), strict=True))
        return known


def _looked(
    tensors: Sequence[torch.Tensor], owners: Sequence[tuple[_OwnerKey, ...]], last: _Part | None
) -> tuple[Sequence[torch.Tensor], _Part]:
    """Those of `tensors` that are anything at all, and the facts of them."""
    found = _sent_places(tensors, () if last is None else last.places)
    if "nothing" in found:
        # What a failed step barrier leaves has not even a shape.
        there = [place != "nothing" for place in found]
        tensors, owners = list(compress(tensors, there)), list(compress(owners, there))
        found = list(compress(found, there))
    return tensors, _Part(found, list(map(id, tensors)), owners, list(map(_shape, tensors)), list(map(_dtype, tensors)))


def _moved(records: Sequence[BufferRecord], handles: Sequence[int | str]) -> list[BufferRecord]:
    """`records` of other buffers; with `_replace` it would take three times as long."""
    return [
        record if record.handle == handle else BufferRecord._make((handle, *record[1:]))
        for record, handle in zip(records, handles, strict=True)
    ]


def _record(
    known: Mapping[int, _Known],
    donated: frozenset[int],
    tensor: weakref.ref[torch.Tensor],
    place: int | str,
    number: int,
    owners: tuple[_OwnerKey, ...],
    shape: torch.Size,
    dtype: torch.dtype,
) -> BufferRecord:
    """The record of a tensor; `donated` are the handles that were donated since the last look."""
    last = known.get(number)
    if last is not None and last.tensor() is not tensor():
        last = None  # another tensor had this number
    state: BufferState
    if isinstance(place, int):
        state = "live"
    elif place in ("pending", "sending"):
        state = "pending"
    elif any(owner[0] == "saved" for owner in owners):
        state = "stale"
    else:
        known_to_be = last is not None and (last.record.state == "donated" or last.place in donated)
        state = "donated" if known_to_be else "deleted"
    handle = place if isinstance(place, int) else None
    # The kind too, because torch_xla uses numbers of handles again and a tensor can get other data.
    if last is not None and (last.owners, last.shape, last.dtype) == (owners, shape, dtype):
        same = (last.record.handle, last.record.state) == (handle, state)
        return last.record if same else last.record._replace(handle=handle, state=state)
    return BufferRecord(
        handle=handle,
        shape=tuple(shape),
        dtype=str(dtype).removeprefix("torch."),
        nbytes=math.prod(shape) * dtype.itemsize,
        state=state,
        owners=tuple(Owner(*owner) for owner in owners),
        tensors=1,
    )


def _ledger(found: Iterable[_Part], records: Iterable[list[BufferRecord]], complete: bool) -> Ledger:
    """A record for each buffer, of the records for each tensor: tensors on one handle are one buffer."""
    sent = not any("sending" in part.places for part in found)
    buffers = list(chain.from_iterable(records))
    handles = [record.handle for record in buffers if record.handle is not None]
    if len(set(handles)) < len(handles):
        # Without a handle each tensor stands for itself.
        by_handle: dict[object, BufferRecord] = {}
        for number, record in enumerate(buffers):
            key = (number, "no handle") if record.handle is None else record.handle
            known = by_handle.get(key)
            by_handle[key] = record if known is None else _joined(known, record)
        buffers = list(by_handle.values())
    return Ledger(tuple(buffers), complete, sent)


def _joined(first: BufferRecord, second: BufferRecord) -> BufferRecord:
    return first._replace(owners=first.owners + second.owners, tensors=first.tensors + second.tensors)


def says_deleted(error: RuntimeError) -> bool:
    """Whether torch_xla refused something because a buffer was given away."""
    return any(words in str(error) for words in _DELETED)


def waits(tensors: Sequence[torch.Tensor]) -> list[bool | None]:
    """Whether each tensor's value is still pending; None if it has neither value nor work (a barrier failed)."""
    try:
        return list(runtime.pending(tensors))
    except RuntimeError:
        # One such tensor fails the call for all, so a batch that fails is halved.
        if len(tensors) == 1:
            return [None]
        half = len(tensors) // 2
        return waits(tensors[:half]) + waits(tensors[half:])


def places(tensors: Sequence[torch.Tensor]) -> list[int | str]:
    """For each tensor its buffer's handle, ``"pending"``, ``"deleted"``, or ``"nothing"`` (see `waits`).

    Not for a tensor whose run is only being sent: see `_sent_places`.
    """
    waiting = waits(tensors)
    if waiting.count(False) == len(waiting):
        # As a rule nothing is pending and no buffer is dead. Which one is, is found out below.
        with contextlib.suppress(RuntimeError):
            return list(runtime.handles(tensors))
    result: list[int | str] = ["pending"] * len(tensors)
    for i, pending in enumerate(waiting):
        if pending is None:
            result[i] = "nothing"
    settled = [i for i, pending in enumerate(waiting) if pending is False]
    # One dead buffer fails the call for all, so a batch that fails is halved until the dead ones are alone.
    batches = [settled] if settled else []
    while batches:
        batch = batches.pop()
        try:
            found = runtime.handles([tensors[i] for i in batch])
        except RuntimeError as error:
            if len(batch) > 1:
                half = len(batch) // 2
                batches += [batch[:half], batch[half:]]
            elif says_deleted(error):
                result[batch[0]] = "deleted"
            # Otherwise its computation is only just being sent to the device: pending.
            continue
        for i, handle in zip(batch, found, strict=True):
            result[i] = handle
    return result


def _sent_places(tensors: Sequence[torch.Tensor], before: Sequence[int | str]) -> list[int | str]:
    """`places`, with ``"sending"`` for what is in flight; `before` are those at the last look.

    See Note [runs in flight].
    """
    if runtime.is_spmd():
        asked = [i for i, pending in enumerate(waits(tensors)) if pending is False]
        sent = [i for i in asked if runtime.is_sent(tensors[i])]
        in_flight = set(asked) - set(sent)
        there = iter(places([tensor for i, tensor in enumerate(tensors) if i not in in_flight]))
        return ["sending" if i in in_flight else next(there) for i in range(len(tensors))]
    result = places(tensors)
    known = set(before)
    if known.issuperset(result):
        return result
    new = [i for i, place in enumerate(result) if isinstance(place, int) and place not in known]
    sample = new if len(new) <= _ASKED else new[:: len(new) // _ASKED]
    if not all(runtime.is_sent(tensors[i]) for i in sample):
        for i in new:
            if not runtime.is_sent(tensors[i]):
                result[i] = "sending"
    return result
