"""What happens before and after each cell."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import xla_notebook.session as session
from xla_notebook.backend import observer
from xla_notebook.notebook import quiet
from xla_notebook.notebook.progress import Progress, line_for

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell


class Hooks:
    """Tells the session which cell runs, and says after a compiled cell what its graphs were."""

    def __init__(self, ip: InteractiveShell) -> None:
        self._ip = ip
        self._callbacks = CellCallbacks(ip)
        self._begun = 0
        self._reporting = False
        line = line_for(ip)
        self._progress = None if line is None else Progress(line)
        self.cell_id: str | None = None
        """The notebook's id of the running cell; None where the front end gives none."""
        self.count = ip.execution_count
        """The execution count of the running cell, as its prompt shows it."""
        self.remark: str | None = None
        """What the summary of the running cell says besides, after the number of graphs."""

    def install(self) -> None:
        """Register the callbacks."""
        self._callbacks.register(self._before, self._after)
        if self._progress is not None:
            observer.attach(self._progress)

    def remove(self) -> None:
        """Undo `install`. A cell that is running ends without a report."""
        if self._progress is not None:
            observer.detach(self._progress)
            self._progress.end(None)
        self._callbacks.remove()
        while self._begun:
            self._begun -= 1
            session.current().end_cell()

    def compiling(self, filename: str, quiet: bool) -> None:
        """Note that the running cell is one of ours, whose source is known as `filename`.

        Nothing is said about the graphs of a `quiet` one.
        """
        current = session.current()
        cell = session.CellRef(self.count, self.cell_id)
        current.name_file(filename, cell)
        self._reporting = not quiet
        if quiet and self._progress is not None:
            self._progress.silence()

    def _before(self, *args: Any) -> None:
        # IPython passes an ExecutionInfo; it has changed its arguments before, so none is relied on.
        self.cell_id = getattr(args[0], "cell_id", None) if args else None
        self._reporting = False
        self.remark = None
        # IPython 9 has counted on before this event, IPython 8 counts on later: neither has stored this cell yet.
        history = self._ip.history_manager
        self.count = len(history.input_hist_parsed) if history is not None else self._ip.execution_count
        quiet.take()
        if self._progress is not None and not self._begun:
            self._progress.begin()
        session.current().begin_cell(self.count, self.cell_id, self._filename(*args))
        self._begun += 1

    def _filename(self, *args: Any) -> str | None:
        """What tracebacks will call the cell, so that events can name the cell and its line."""
        raw = getattr(args[0], "raw_cell", None) if args else None
        if raw is None:
            return None
        code = getattr(args[0], "transformed_cell", None) or raw
        return str(self._ip.compile.get_code_name(raw, code, self.count))

    def _after(self, *args: Any) -> None:
        if not self._begun:
            return  # the cell that loaded the extension
        self._begun -= 1
        summary = session.current().end_cell()
        reporting, self._reporting = self._reporting, False
        worked = summary is not None and getattr(args[0] if args else None, "success", True)
        line = summary.line() if summary is not None and worked else None
        remark, self.remark = self.remark, None
        if remark is not None and worked:
            line = f"{line or '0 graphs compiled'} {remark}"
        if reporting and worked:
            for notice in quiet.take():
                print(f"xla_notebook: {notice}")
        # Whatever cell it was: the live line has been seen, and ends as the summary.
        in_place = self._progress is not None and not self._begun and self._progress.end(line)
        if reporting and line is not None and not in_place:
            print(line)


class CellCallbacks:
    """What one part of us does before and after each cell of a shell."""

    def __init__(self, ip: InteractiveShell) -> None:
        self._ip = ip
        self._registered: list[tuple[str, Callable[..., None]]] = []

    def register(self, before: Callable[..., None], after: Callable[..., None]) -> None:
        """Call `before` and `after` each cell, guarded."""
        # Not pre_execute and post_execute: those also fire for every comm message, on another thread.
        for event, callback in (("pre_run_cell", before), ("post_run_cell", after)):
            made = _guarded(self._ip, event, callback)
            self._ip.events.register(event, made)
            self._registered.append((event, made))

    def remove(self) -> None:
        """Undo `register`."""
        while self._registered:
            event, callback = self._registered.pop()
            if callback in self._ip.events.callbacks[event]:
                self._ip.events.unregister(event, callback)


def last_error() -> BaseException | None:
    """The last exception that a cell showed: IPython keeps it, and the names of the cell are in its frames."""
    return getattr(sys, "last_value", None)


def _guarded(ip: InteractiveShell, event: str, callback: Callable[..., None]) -> Callable[..., None]:
    """`callback`, which switches itself off with one notice if it fails, and never breaks a cell."""

    def call(*args: Any, **kwargs: Any) -> None:
        try:
            callback(*args)
        except Exception as error:
            ip.events.unregister(event, call)
            print(
                f"xla_notebook: what it does at {event} failed and is switched off"
                f" ({type(error).__name__}: {error}). %reload_ext xla_notebook switches it on again."
            )

    return call
