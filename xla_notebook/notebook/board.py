"""The buffers as they were at the last look, and what changed from look to look."""

from __future__ import annotations

import collections

from xla_notebook.protocol import messages

# Keys of buffers that went away, kept for pages that have not heard of it; a page further behind gets a snapshot.
GONE_CAPACITY = 20_000


class Board:
    """The rows of the last look, each with the number of the look that changed it.

    Not thread-safe: the feed's lock is.
    """

    def __init__(self) -> None:
        self.look = 0
        self.looked_ms: float | None = None
        self.complete = True
        self._rows: dict[str, messages.Buffer] = {}
        self._changed: dict[str, int] = {}
        self._gone: collections.deque[tuple[int, str]] = collections.deque(maxlen=GONE_CAPACITY)

    def take(self, rows: dict[str, messages.Buffer], complete: bool, looked_ms: float) -> None:
        """Take over what a new look found."""
        changed = [key for key, row in rows.items() if self._rows.get(key) != row]
        gone = [key for key in self._rows if key not in rows]
        self.looked_ms, self.complete = looked_ms, complete
        if not changed and not gone:
            return
        self.look += 1
        self._changed = {key: look for key, look in self._changed.items() if key in rows}
        self._changed.update(dict.fromkeys(changed, self.look))
        self._gone.extend((self.look, key) for key in gone)
        self._rows = rows

    def rows(self) -> tuple[messages.Buffer, ...]:
        """All buffers."""
        return tuple(self._rows.values())

    def since(self, look: int) -> tuple[tuple[messages.Buffer, ...], tuple[str, ...]] | None:
        """The buffers changed after look number `look`, and the keys of those gone; None if too much is forgotten."""
        if look == self.look:
            return (), ()
        forgotten = self._gone[0][0] if len(self._gone) == GONE_CAPACITY else 0
        if look > self.look or look < forgotten:
            return None
        changed = tuple(self._rows[key] for key, at in self._changed.items() if at > look)
        # A handle may be used again: what is gone and back is not gone.
        gone = dict.fromkeys(key for at, key in self._gone if at > look and key not in self._rows)
        return changed, tuple(gone)
