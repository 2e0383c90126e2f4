"""Work that must not overlap with a cell: looks at the user's objects, traces for HLO, dropping graphs."""

from __future__ import annotations

import collections
import threading
from collections.abc import Callable


class BetweenCells:
    """Does work at once if no cell runs (which then waits for its end), or else when the cell has ended.

    Requests of a page come on a thread of their own, also while a cell runs.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._running = 0
        self._waiting: collections.deque[Callable[[], None]] = collections.deque()

    def do(self, work: Callable[[], None]) -> None:
        """Do `work` now, on this thread, or on the cells' thread at the end of the cell that runs."""
        with self._lock:
            if self._running:
                self._waiting.append(work)
            else:
                work()

    def begin(self) -> None:
        """A cell begins, once the work under way has ended. Cells may nest."""
        with self._lock:
            self._running += 1

    def end(self) -> None:
        """The innermost cell has ended."""
        with self._lock:
            self._running -= 1
            while self._waiting and not self._running:
                self._waiting.popleft()()
