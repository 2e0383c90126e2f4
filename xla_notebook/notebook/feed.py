"""Pushes the session to the pages that look at it, from a thread of its own, also while a cell runs.

Nobody looks: no thread, no looks at buffers, nothing. A page is sent what changed since the last push, at
most ten times a second. One that does not keep up is left alone until it says how far it is, and then gets
all changes since as one: there is never a queue.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from xla_notebook.backend import observer
from xla_notebook.notebook.board import Board
from xla_notebook.notebook.report import title, titles
from xla_notebook.protocol import encode, messages
from xla_notebook.session.buffers import Ledger
from xla_notebook.session.store import Session

PUSH_S = 0.1
"""Seconds between two pushes to a page, at least."""
PUSH_SHARE = 300
"""A push that took 1 ms allows the next one after 300 ms. The kernel's threads that send it and hear of it work about
as long again, so that all pushes take 0.7 % of a running cell's time, as a rule."""
PUSH_MOST_S = 1.0
"""Seconds that a push may keep the next one waiting for that reason, at most."""
UNHEARD_S = 0.5
"""The same for a page that cannot say how far it is before the cell has ended."""
QUIET_S = 0.5
"""Seconds between two looks for changes while no cell runs; a cell or a request wakes the feed at once."""
AHEAD = 3
"""Pushes on their way to a page, at most."""
SNAPSHOT_EVENTS = 1_000
"""Events in a snapshot, and the most in a delta. A page asks for older ones."""
LOOK_SHARE = 200
"""A look at the buffers while a cell runs that took 1 ms allows the next one after 200 ms: 0.5 % at most."""
LOOK_S = 0.5
"""Seconds between two looks while a cell runs, at least."""

_log = logging.getLogger(__name__)


class Channel:
    """One way to one or more pages. `send` takes a message's bytes and may be called on any thread."""

    def __init__(self, send: Callable[[bytes], None]) -> None:
        self._send = send
        self.prompt = False
        """Whether requests come while a cell runs."""
        self.pages: dict[int, bool] = {}
        """Whether each page is visible."""
        self.sent: messages.Position | None = None
        """What the last push brought; None if the next one is to be a snapshot."""
        self.last: object = None
        """What else the last push said, to tell whether there is anything new."""
        self.on_their_way = 0
        self.next_s = 0.0

    @property
    def visible(self) -> bool:
        """Whether any of its pages is seen by anyone."""
        return any(self.pages.values())

    @property
    def asks(self) -> bool:
        """Whether the next push asks for an acknowledgement: only the last of those that may be on their way.

        The kernel works more for a message that comes in than for one that goes out.
        """
        return self.on_their_way + 1 >= AHEAD

    def send(self, message: messages.Push | messages.Answer) -> None:
        """Send `message`."""
        self._send(msgspec.json.encode(message))


class Feed(observer.Observer):
    """All channels of a kernel, and the thread that feeds them. Thread-safe."""

    def __init__(self, current: Session, device: str, error: Callable[[], BaseException | None]) -> None:
        self._session = current
        self._device = device
        self._error = error
        self._lock = threading.RLock()
        self._channels: list[Channel] = []
        self._board = Board()
        self._thread: threading.Thread | None = None
        self._wake = threading.Event()
        self._stopped = False
        self._look_next_s = 0.0
        self._ledger: Ledger | None = None
        self._look_again = False
        self.between: Callable[[Callable[[], None]], None] | None = None
        """Does what must not overlap with a cell; None where there are no cells."""

    # ---- channels

    def add(self, channel: Channel) -> None:
        """Begin to feed `channel`, once a page of it has opened."""
        with self._lock:
            if channel not in self._channels:
                self._channels.append(channel)

    def remove(self, channel: Channel) -> None:
        """The channel is closed: nothing more is sent to it."""
        with self._lock:
            if channel in self._channels:
                self._channels.remove(channel)
            channel.pages.clear()
        self._seen()

    def open(self, channel: Channel, page: int, visible: bool) -> None:
        """A page begins (or begins anew), and gets a snapshot."""
        with self._lock:
            self.add(channel)
            channel.pages[page] = visible
            channel.sent, channel.on_their_way, channel.next_s = None, 0, 0.0
        self._seen()

    def show(self, channel: Channel, page: int, visible: bool) -> None:
        """A page came into view, or went out of it."""
        with self._lock:
            channel.pages[page] = visible
        self._seen()

    def acknowledge(self, channel: Channel, at: messages.Position) -> None:
        """A page has everything up to `at`, as it was asked to say."""
        with self._lock:
            if at == channel.sent:
                channel.on_their_way = 0
        self._wake.set()

    def close(self) -> None:
        """End: every page is told that the kernel's side is gone."""
        with self._lock:
            channels, self._channels = self._channels, []
            self._stopped = True
        observer.detach(self)
        self._wake.set()
        for channel in channels:
            channel.send(messages.Closed())

    @property
    def watched(self) -> bool:
        """Whether anyone sees a page."""
        return any(channel.visible for channel in self._channels)

    # ---- looks at the buffers

    def look(self) -> None:
        """Look at the buffers. To be called between cells, or by the thread that runs them."""
        started = time.monotonic()
        ledger = self._session.buffers(self._session.namespace, self._error())
        # Where nothing has changed, the session gives the ledger of the last look.
        rows = None if ledger is self._ledger else encode.buffers(ledger.buffers)
        with self._lock:
            if rows is None:
                self._board.looked_ms = time.time() * 1000
            else:
                self._board.take(rows, ledger.complete, time.time() * 1000)
            self._ledger = ledger
            self._look_again = not ledger.sent
        took = time.monotonic() - started
        self._look_next_s = time.monotonic() + max(LOOK_S, LOOK_SHARE * took)
        self._wake.set()

    def look_if_watched(self) -> None:
        """`look`, if anyone sees it."""
        if self.watched:
            self.look()

    def look_if_due(self) -> None:
        """`look` from within a cell, if anyone sees it and it does not slow the cell down."""
        if self.watched and time.monotonic() >= self._look_next_s:
            self.look()

    def before_barrier(self) -> None:
        """The user's own step barrier is a place to look from (see `Observer`)."""
        if threading.current_thread() is threading.main_thread():
            self.look_if_due()

    def wake(self) -> None:
        """Something has changed that a page wants to see at once."""
        self._wake.set()

    # ---- the thread

    def _seen(self) -> None:
        """Run the thread while anyone sees a page."""
        with self._lock:
            watched = self.watched and not self._stopped
            if watched and self._thread is None:
                observer.attach(self)
                self._thread = threading.Thread(target=self._run, name="xla_notebook feed", daemon=True)
                self._thread.start()
        self._wake.set()

    def _run(self) -> None:
        while True:
            self._wake.clear()
            with self._lock:
                if self._stopped or not self.watched:
                    observer.detach(self)
                    self._thread = None
                    return
                channels = [channel for channel in self._channels if channel.visible]
            for channel in channels:
                self._push(channel)
            if self._session.running is None:
                self._wake.wait(QUIET_S)
                # The last cell's results may have been on their way at its end.
                if self._look_again and self.between is not None:
                    self.between(self.look_if_watched)
            # Whatever wakes it, the pace is kept.
            time.sleep(PUSH_S)

    def _push(self, channel: Channel) -> None:
        # What is wrong with one page must not end the others, nor go unnoticed.
        message: messages.Push | messages.Failed | None
        started = time.thread_time()  # what the cell loses, not what the thread waited for
        try:
            message = self._next(channel)
        except Exception as error:
            _log.exception("The state could not be told to a page.")
            self.remove(channel)
            message = messages.Failed(None, "failed", f"No more updates: {type(error).__name__}: {error}")
        if message is None:
            return
        try:
            channel.send(message)
        except Exception:
            _log.exception("A page could not be reached and gets no more updates.")
            self.remove(channel)
        if self._session.running is not None:
            rest = min(PUSH_SHARE * (time.thread_time() - started), PUSH_MOST_S)
            with self._lock:
                channel.next_s = max(channel.next_s, time.monotonic() + rest)

    def _next(self, channel: Channel) -> messages.Snapshot | messages.Delta | None:
        """What `channel` gets now, if it is its turn and there is anything."""
        now = time.monotonic()
        with self._lock:
            if now < channel.next_s or (channel.prompt and channel.on_their_way >= AHEAD):
                return None
            message = self._message(channel)
            if message is not None:
                channel.sent = message.at
                channel.on_their_way += 1
                channel.next_s = now + (PUSH_S if channel.prompt or self._session.running is None else UNHEARD_S)
            return message

    def _message(self, channel: Channel) -> messages.Snapshot | messages.Delta | None:
        """What `channel` has not been sent yet; None if there is nothing."""
        status = messages.Status(
            device=self._device,
            busy=encode.cell(self._session.running),
            prompt=channel.prompt,
            looked_ms=self._board.looked_ms,
            buffers_complete=self._board.complete,
        )
        if channel.sent is None:
            return self._snapshot(channel, status)
        changes = self._session.changes(channel.sent.session)
        buffers = self._board.since(channel.sent.look)
        if not changes.complete or buffers is None or len(changes.events) > SNAPSHOT_EVENTS:
            return self._snapshot(channel, status)
        at = messages.Position(changes.seq, self._board.look)
        other = (status, changes.settings)
        if at == channel.sent and other == channel.last:
            return None
        channel.last = other
        names = titles(self._session.graphs() if changes.events else ())
        return messages.Delta(
            since=channel.sent,
            at=at,
            ack=channel.asks,
            time_ms=time.time() * 1000,
            status=status,
            settings=encode.settings(changes.settings),
            graphs=tuple(encode.graph(record, title) for record in changes.graphs),
            graphs_gone=changes.forgotten,
            buffers=buffers[0],
            buffers_gone=buffers[1],
            events=tuple(encode.event(event, names) for event in changes.events),
            event_total=self._session.event_count,
            counts=_counts(changes.counts),
        )

    def _snapshot(self, channel: Channel, status: messages.Status) -> messages.Snapshot:
        snapshot = self._session.snapshot(SNAPSHOT_EVENTS)
        channel.last = (status, snapshot.settings)
        names = titles(snapshot.graphs)
        return messages.Snapshot(
            protocol=messages.VERSION,
            at=messages.Position(snapshot.seq, self._board.look),
            ack=channel.asks,
            time_ms=time.time() * 1000,
            status=status,
            settings=encode.settings(snapshot.settings),
            graphs=tuple(encode.graph(record, title) for record in snapshot.graphs),
            buffers=self._board.rows(),
            events=tuple(encode.event(event, names) for event in snapshot.events),
            event_total=self._session.event_count,
            counts=_counts(snapshot.counts),
        )


def _counts(counts: Mapping[Any, int]) -> dict[str, int]:
    return {str(kind): count for kind, count in counts.items()}
