"""A ring of events with their numbers and totals. Not thread-safe: the session's lock is."""

from __future__ import annotations

import collections
from collections.abc import Mapping
from itertools import islice

from xla_notebook.session.events import Event, EventKind


class Timeline:
    """The last `capacity` events, the number of events of each kind since the start, and the current number.

    Numbers count every change of the session; an event carries the number at which it came.
    """

    def __init__(self, capacity: int) -> None:
        if capacity < 1:
            raise ValueError(f"capacity must be at least 1, not {capacity}")
        self._events: collections.deque[Event] = collections.deque(maxlen=capacity)
        self._counts: collections.Counter[EventKind] = collections.Counter()
        self._evicted_seq = 0
        self.seq = 0

    def __len__(self) -> int:
        """How many events are held."""
        return len(self._events)

    def tick(self) -> int:
        """Take the next number."""
        self.seq += 1
        return self.seq

    def add(self, event: Event) -> None:
        """Append `event`, which may push the oldest one out; its count stays."""
        if len(self._events) == self._events.maxlen:
            self._evicted_seq = self._events[0].seq
        self._events.append(event)
        self._counts[event.kind] += 1

    def events(self) -> tuple[Event, ...]:
        """All events still held, oldest first."""
        return tuple(self._events)

    def last(self, count: int) -> tuple[Event, ...]:
        """The last `count` events held, oldest first."""
        return tuple(islice(reversed(self._events), count))[::-1]

    def since(self, seq: int) -> tuple[Event, ...]:
        """The events held with a number above `seq`, oldest first; costs as much as there are of them."""
        fresh = 0
        for event in reversed(self._events):
            if event.seq <= seq:
                break
            fresh += 1
        return self.last(fresh)

    def complete_since(self, seq: int) -> bool:
        """Whether no event with a number above `seq` was pushed out."""
        return seq >= self._evicted_seq

    def counts(self) -> Mapping[EventKind, int]:
        """Events of each kind since the start, those pushed out included."""
        return dict(self._counts)
