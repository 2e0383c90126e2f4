"""The magics that show the session's record and change its settings: arguments and hand-over, nothing else."""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING, Any

from IPython.core.error import UsageError
from IPython.display import display

from xla_notebook import session
from xla_notebook.notebook.tables import buffer_table, event_table
from xla_notebook.session.analysis import advice
from xla_notebook.session.describe import bytes_text, histories
from xla_notebook.session.settings import SettingError

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

NAMES = ("xla_buffers", "xla_events", "xla_explain", "xla_warmup")
_EVENTS_SHOWN = 50
_BUFFERS_SHOWN = 30


class InspectMagics:
    """The functions behind the inspecting magics of one shell."""

    def __init__(self, ip: InteractiveShell) -> None:
        self._ip = ip

    def register(self) -> None:
        """Register the magics named in `NAMES`."""
        register: Any = self._ip.register_magic_function  # a traitlets delegate, whose declared type is wrong
        functions = (self.buffers, self.events, self.explain, self.warmup)
        for name, function in zip(NAMES, functions, strict=True):
            register(function, "line", name)

    def buffers(self, line: str) -> None:
        """List the device buffers that graphs and the notebook's names keep, largest first.

        %xla_buffers [--all]

        Shows names, dtype, shape, bytes and state: live, pending (not computed yet), donated, deleted, or stale
        (gone, but a graph counts on it). Looking computes nothing.

          --all     all of them, not only the largest
        """
        options = _options("xla_buffers", line, flags=("--all",))
        # The names of a cell that failed are in the frames of the last error, which IPython keeps.
        error = getattr(sys, "last_value", None)
        ledger = session.current().buffers(self._ip.user_ns, error)
        display(buffer_table(ledger, None if "--all" in options else _BUFFERS_SHOWN))

    def events(self, line: str) -> None:
        """List what happened: traces, warm-ups, step barriers, donations, hazards, recompiles, settings.

        %xla_events [--hazards] [-n COUNT]

          --hazards   only hazards, and the donations behind them
          -n COUNT    the last COUNT events (default 50)
        """
        options = _options("xla_events", line, flags=("--hazards",), values=("-n",))
        count = options.get("-n", str(_EVENTS_SHOWN))
        if not count.isdigit() or not int(count):
            raise UsageError(f"%xla_events: -n takes a number from 1, and got {count!r}")
        current = session.current()
        events = current.events()
        empty = "Nothing has happened yet."
        if "--hazards" in options:
            empty = "No buffer was donated: nothing is at risk."
            events = [event for event in events if event.kind in ("hazard", "donation")]
        shown = events[-int(count) :]
        names = {graph.graph_id: graph.name for graph in current.graphs()}
        display(event_table(shown, names, len(events) - len(shown), empty))

    def explain(self, line: str) -> None:
        """Say why functions were compiled more than once, and what would save compiles or memory.

        %xla_explain [FUNCTION]
        """
        current = session.current()
        graphs = current.graphs()
        found = histories(graphs, current.events())
        wanted = line.strip()
        if wanted:
            found = [history for history in found if history.function == wanted]
            if not found:
                known = ", ".join(sorted({graph.label for graph in graphs})) or "nothing yet"
                raise UsageError(f"%xla_explain: {wanted!r} was not compiled; compiled were: {known}")
        lines = [text for history in found for text in history.lines()]
        if not wanted:
            counsel = advice(graphs, current.buffers(self._ip.user_ns).buffers)
            lines += [f"{item.text} ({bytes_text(item.nbytes)})" if item.nbytes else item.text for item in counsel]
        print("\n".join(lines) or "Nothing was compiled yet: run a %%xla_compile cell.")

    def warmup(self, line: str) -> None:
        """Show or set how a graph gets into XLA's cache before its first run.

        %xla_warmup [compile|execute|off]

        compile (the default): compiled, and nothing executes. execute: compiled, then run once through a step
        barrier, which may donate buffers. off: compiled at the first run. Acts from the next trace on.
        """
        current = session.current()
        if line.strip():
            try:
                current.set(warm_up=line.strip())
            except SettingError as error:
                raise UsageError(f"%xla_warmup: {error}") from None
        print(f"warm-up: {current.settings.warm_up}")


def _options(magic: str, line: str, flags: tuple[str, ...] = (), values: tuple[str, ...] = ()) -> dict[str, str]:
    """The options on a magic's line; flags have the value "". Raises `UsageError` for any other word."""
    found: dict[str, str] = {}
    try:
        words = iter(shlex.split(line, comments=True))
    except ValueError as error:
        raise UsageError(f"%{magic}: {error} in {line.strip()!r}") from None
    for word in words:
        if word in flags:
            found[word] = ""
        elif word in values:
            found[word] = next(words, "")
        else:
            raise UsageError(f"%{magic}: no option {word!r}; there are {', '.join((*flags, *values))}")
    return found
