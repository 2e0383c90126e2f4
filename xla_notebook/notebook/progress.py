"""A live line while a graph compiles for longer than a second: ``compiling graph 2, 3,400 ops, 12 s``.

In a notebook it is one output, which ends as the cell's summary (or empty, if the cell failed), so that a
saved notebook or a headless run keeps no trace of it. In a terminal it is one line that erases itself.
Elsewhere, in a script whose output goes to a file, say, nothing is shown.
"""

from __future__ import annotations

import contextvars
import sys
import threading
from typing import TYPE_CHECKING, Protocol, TextIO

from IPython.display import DisplayHandle

from xla_notebook.backend import observer
from xla_notebook.backend.observer import GraphWarmed, GraphWarming, Observer, Report

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

DELAY_S = 1.0
"""How long a compile goes on before it is shown, and how often the line is renewed."""


class Line(Protocol):
    """Where the live line is shown."""

    def show(self, text: str) -> None:
        """Show `text` in the place of what was shown."""

    def end(self, summary: str | None) -> bool:
        """Take the line away, for `summary` if there can be one in its place; tells whether it is."""


class Page:
    """One output of a notebook's cell."""

    def __init__(self) -> None:
        self._handle: DisplayHandle | None = None

    def show(self, text: str) -> None:
        if self._handle is None:
            self._handle = DisplayHandle()
            self._handle.display(_plain(text), raw=True)
        else:
            self._handle.update(_plain(text), raw=True)

    def end(self, summary: str | None) -> bool:
        handle, self._handle = self._handle, None
        if handle is None:
            return False
        handle.update(_plain(summary or ""), raw=True)
        return summary is not None


class Terminal:
    """One line of a terminal."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._width = 0

    def show(self, text: str) -> None:
        self._stream.write(f"\r{text.ljust(self._width)}")
        self._stream.flush()
        self._width = len(text)

    def end(self, summary: str | None) -> bool:
        if self._width:
            self._stream.write(f"\r{' ' * self._width}\r")
            self._stream.flush()
            self._width = 0
        return False


def line_for(ip: InteractiveShell) -> Line | None:
    """The place for the live line in this front end; None where nobody would see it live."""
    if hasattr(ip, "kernel"):
        return Page()
    return Terminal(sys.stderr) if sys.stderr.isatty() else None


class Progress(Observer):
    """Shows on `line` what is compiled while a cell runs. Never touches the device.

    A compile keeps the cell's thread busy but lets go of the interpreter, so that another thread can tell.
    """

    def __init__(self, line: Line) -> None:
        self._line = line
        self._lock = threading.Lock()
        self._count = 0
        self._silent = True
        # Threads see the cell's own variables, among them the one by which a kernel knows whose output it is.
        self._context = contextvars.copy_context()
        # Compiles under way, by graph id, and what ends the thread that tells of each.
        self._running: dict[int, threading.Event] = {}

    def begin(self) -> None:
        """A cell starts."""
        with self._lock:
            self._count = 0
            self._silent = False
            self._context = contextvars.copy_context()

    def silence(self) -> None:
        """Show nothing for the rest of the cell."""
        with self._lock:
            self._silent = True

    def end(self, summary: str | None) -> bool:
        """The cell is over; tells whether `summary` (None if it failed) now stands where the line was."""
        with self._lock:
            self._silent = True
            for stop in self._running.values():
                stop.set()
            self._running.clear()
            return self._line.end(summary)

    def report(self, report: Report) -> None:
        """Start or end the telling of one compile."""
        if isinstance(report, GraphWarming):
            self._start(report)
        elif isinstance(report, GraphWarmed):
            with self._lock:
                stop = self._running.pop(report.graph_id, None)
                if stop is not None:
                    stop.set()

    def _start(self, report: GraphWarming) -> None:
        stop = threading.Event()
        with self._lock:
            if self._silent:
                return
            self._count += 1
            self._running[report.graph_id] = stop
            what = f"compiling graph {self._count}, {report.op_count:,} ops"
            context = self._context.copy()
        arguments = (self._tell, what, report.started_ns, stop)
        threading.Thread(target=context.run, args=arguments, name="xla_notebook progress", daemon=True).start()

    def _tell(self, what: str, started_ns: int, stop: threading.Event) -> None:
        while not stop.wait(DELAY_S):
            with self._lock:
                # Again, because the compile or the cell may have ended while this waited for the lock.
                if not stop.is_set():
                    self._line.show(f"{what}, {(observer.now_ns() - started_ns) / 1e9:.0f} s")


def _plain(text: str) -> dict[str, str]:
    return {"text/plain": text}
