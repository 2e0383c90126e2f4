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
import dataclasses
import threading
import weakref
from collections.abc import Callable, Iterable, Sequence
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
    """What a look found of some tensors."""

    numbers: list[int]
    owners: Sequence[tuple[_OwnerKey, ...]]
    places: Sequence[int | str]
    shapes: list[torch.Size]
    dtypes: list[torch.dtype]


class _Seen(NamedTuple):
    """A tensor at the last look, by a weak reference."""

    tensor: weakref.ref[torch.Tensor]
    place: int | str
    kind: list[object]
    owners: tuple[_OwnerKey, ...]
    record: BufferRecord


class Looker:
    """Makes ledgers, and remembers by weak references what the tensors were at the last look.

    A record whose tensor has the same buffer and owners as then is used again: most are.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._walk = Walk()
        self._parts: list[_Part] = []
        self._ledger = Ledger((), True)
        self._seen: dict[int, _Seen] = {}

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
            tensors: list[torch.Tensor] = []
            owners: list[tuple[_OwnerKey, ...]] = []
            for name, graph in keepers:
                for position, tensor in enumerate(graph.saved):
                    tensors.append(tensor)
                    owners.append((("saved", f"{name}: constant {position}", graph.graph_id),))
            reached = self._walk.look(roots)
            tensors += reached.tensors
            owners += reached.names
            found = []
            for number, (part, owned) in enumerate(zip(parts(tensors), parts(owners), strict=True)):
                last = self._parts[number] if number < len(self._parts) else None
                looked = _looked(part, owned, last)
                found.append(last if last is not None and looked == last else looked)
            if found != self._parts or reached.complete != self._ledger.complete:
                self._ledger = self._made(tensors, found, reached.complete, donated_since)
                self._parts = found
            return self._ledger

    def _made(
        self,
        tensors: list[torch.Tensor],
        found: list[_Part],
        complete: bool,
        donated_since: Callable[[], frozenset[int]],
    ) -> Ledger:
        by_number = {id(tensor): tensor for tensor in tensors}
        donated: frozenset[int] | None = None
        records: dict[object, BufferRecord] = {}
        seen: dict[int, _Seen] = {}
        for number, owned, place, *kind in chain.from_iterable(zip(*part, strict=True) for part in found):
            tensor = by_number[number]
            last = self._seen.get(number)
            if last is not None and last.tensor() is not tensor:
                last = None
            # Tensors on one handle are one buffer. Without a handle each tensor stands for itself.
            key = place if isinstance(place, int) else (number, "no handle")
            known = records.get(key)
            # The kind too, because torch_xla uses numbers of handles again and a tensor can get other data.
            is_as_it_was = last is not None and last[2:4] == (kind, owned)
            if known is None and last is not None and is_as_it_was and last.place == place:
                record = last.record
                seen[number] = last
            else:
                state: BufferState
                if isinstance(place, int):
                    state = "live"
                elif place in ("pending", "sending"):
                    state = "pending"
                elif any(owner[0] == "saved" for owner in owned):
                    state = "stale"
                else:
                    donated = donated_since() if donated is None else donated
                    known_to_be = last is not None and (last.record.state == "donated" or last.place in donated)
                    state = "donated" if known_to_be else "deleted"
                handle = place if isinstance(place, int) else None
                if last is not None and is_as_it_was:
                    record = _moved(last.record, handle, state)
                else:
                    record = _record(tensor, handle, state, owned)
                if isinstance(place, int) or state == "donated":
                    seen[number] = _Seen(weakref.ref(tensor), place, kind, owned, record)
            records[key] = record if known is None else _joined(known, record)
        self._seen = seen
        sent = not any("sending" in part.places for part in found)
        return Ledger(tuple(records.values()), complete, sent)


def _looked(tensors: Sequence[torch.Tensor], owners: Sequence[tuple[_OwnerKey, ...]], last: _Part | None) -> _Part:
    found = _sent_places(tensors, () if last is None else last.places)
    if "nothing" in found:
        # What a failed step barrier leaves has not even a shape.
        there = [place != "nothing" for place in found]
        tensors, owners = list(compress(tensors, there)), list(compress(owners, there))
        found = list(compress(found, there))
    return _Part(list(map(id, tensors)), owners, found, list(map(_shape, tensors)), list(map(_dtype, tensors)))


def _moved(record: BufferRecord, handle: int | None, state: BufferState) -> BufferRecord:
    """`record` for another buffer; a third of the time that `dataclasses.replace` takes."""
    return BufferRecord(handle, record.shape, record.dtype, record.nbytes, state, record.owners, record.tensors)


def _record(tensor: torch.Tensor, handle: int | None, state: BufferState, owners: Iterable[_OwnerKey]) -> BufferRecord:
    return BufferRecord(
        handle=handle,
        shape=tuple(tensor.shape),
        dtype=str(tensor.dtype).removeprefix("torch."),
        nbytes=tensor.numel() * tensor.element_size(),
        state=state,
        owners=tuple(Owner(*owner) for owner in owners),
        tensors=1,
    )


def _joined(first: BufferRecord, second: BufferRecord) -> BufferRecord:
    return dataclasses.replace(first, owners=first.owners + second.owners, tensors=first.tensors + second.tensors)


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
