"""The magics that show the session's record and change its settings: arguments and hand-over, nothing else."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from IPython.core.error import UsageError
from IPython.display import display

import xla_notebook.session as session
from xla_notebook.notebook import graph_text
from xla_notebook.notebook.hooks import last_error
from xla_notebook.notebook.report import GraphTable
from xla_notebook.notebook.tables import buffer_table, event_table
from xla_notebook.session.analysis import advice
from xla_notebook.session.describe import bytes_text, histories
from xla_notebook.session.settings import SettingError, parse

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

NAMES = ("xla_graphs", "xla_buffers", "xla_events", "xla_explain", "xla_warmup", "xla_clear", "xla_inspect")
_EVENTS_SHOWN = 50
_BUFFERS_SHOWN = 30
# What `--watch` takes: whether donations and reads are watched, and what is said.
_WATCHED = {
    "on": (True, True, "step barriers and reads are watched"),
    "reads": (False, True, "reads are watched"),
    "off": (False, False, "not watched"),
}


class InspectMagics:
    """The functions behind the inspecting magics of one shell."""

    def __init__(self, ip: InteractiveShell) -> None:
        self._ip = ip

    def register(self) -> None:
        """Register the magics named in `NAMES`."""
        register: Any = self._ip.register_magic_function  # a traitlets delegate, whose declared type is wrong
        functions = (self.graphs, self.buffers, self.events, self.explain, self.warmup, self.clear, self.inspect)
        for name, function in zip(NAMES, functions, strict=True):
            register(function, "line", name)

    def graphs(self, line: str) -> None:
        """List the cached graphs: name, hash, cell, input shapes, trace and compile time, runs, saved buffers.

        %xla_graphs                   all of them
        %xla_graphs GRAPH             one: its inputs, outputs, what it updates in place
        %xla_graphs GRAPH --hlo       its HLO with your source lines
        %xla_graphs GRAPH --cost      its flops and bytes, as XLA estimates them (needs jaxlib)
        %xla_graphs --diff GRAPH GRAPH   how the HLO of two graphs differs

        GRAPH is a name (step, step #2, cell 3 line 4) or the beginning of a hash. The HLO is recorded anew when
        it is asked for; nothing is compiled or executed.
        """
        current = session.current()
        graphs = [graph for graph in current.graphs() if graph.state != "dropped"]
        words = line.split()
        options = {word for word in words if word.startswith("--")}
        names = [word.strip("'\"") for word in words if word not in options]
        try:
            if options - {"--hlo", "--cost", "--diff"} or len(options) > 1 or (options and not names):
                raise graph_text.NotOneGraph("takes GRAPH [--hlo|--cost], or --diff GRAPH GRAPH")
            if "--diff" in options:
                first, second = graph_text.find_two(graphs, names)
                texts = current.hlo_text(first.graph_id), current.hlo_text(second.graph_id)
                print(graph_text.diff(first, texts[0], second, texts[1]))
            elif names:
                print(self._about(graph_text.find(graphs, " ".join(names)), options))
            else:
                display(GraphTable(graphs))
        except (LookupError, session.CostUnavailable) as error:
            raise UsageError(f"%xla_graphs: {error}") from None

    def _about(self, graph: session.GraphRecord, options: set[str]) -> str:
        """What the options ask of one graph."""
        current = session.current()
        if "--hlo" in options:
            return graph_text.hlo(graph, current.hlo_text(graph.graph_id))
        if "--cost" in options:
            return graph_text.cost(graph, current.cost(graph.graph_id))
        return graph_text.details(graph)

    def buffers(self, line: str) -> None:
        """List the device buffers that graphs and the notebook's names keep, largest first.

        %xla_buffers [--all]

        Shows names, dtype, shape, bytes and state: live, pending (not computed yet), donated, deleted, or stale
        (gone, but a graph counts on it). Looking computes nothing.

          --all     all of them, not only the largest
        """
        options = _options("xla_buffers", line, flags=("--all",))
        ledger = session.current().buffers(self._ip.user_ns, last_error())
        display(buffer_table(ledger, None if "--all" in options else _BUFFERS_SHOWN))

    def events(self, line: str) -> None:
        """List what happened: traces, warm-ups, step barriers, donations, hazards, recompiles, settings.

        %xla_events [--hazards] [-n COUNT]
        %xla_events --watch on|reads|off

          --hazards   only hazards, and the donations behind them
          -n COUNT    the last COUNT events (default 50)
          --watch     reads: from now on tell which reads of pending tensors (.item(), print, if) force XLA to execute
                      on: also wait at each step barrier, to see which buffers it donates to which tensors; steps no
                      longer overlap, so switch it off for training
        """
        options = _options("xla_events", line, flags=("--hazards",), values=("-n", "--watch"))
        if "--watch" in options:
            print(self._watch(options["--watch"]))
            return
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
        left_out = len(events) - len(shown)
        footer = f"{left_out} older events are not shown: %xla_events -n {len(events)}" if left_out else ""
        display(event_table(shown, names, footer, empty))

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
        """Show or set how a graph gets into XLA's cache before its first run, and whether any may still do so.

        %xla_warmup [compile|execute|off] [--freeze [error|warn|off]]

        compile (the default): compiled, and nothing executes. execute: compiled, then run once through a step
        barrier, which may donate buffers. off: compiled at the first run. Acts from the next trace on.

          --freeze   from now on a function that needs a compile raises an error (or gives a warning) that names
                     the cause and the way out; "--freeze off" allows compiles again
        """
        words = line.split()
        values: dict[str, str] = {}
        if "--freeze" in words:
            at = words.index("--freeze")
            values["freeze"] = words[at + 1] if words[at + 1 :] else "error"
            del words[at : at + 2]
        if words:
            values["warm_up"] = " ".join(words)
        settings = self._set("xla_warmup", **values)
        frozen = f"; compiles are frozen ({settings.freeze})" if settings.freeze != "off" else ""
        print(f"warm-up: {settings.warm_up}{frozen}")

    def clear(self, line: str) -> None:
        """Drop all cached graphs with their saved buffers, and say how many bytes came free.

        %xla_clear

        Compiled functions stay usable: the next call of each traces and compiles again, as far as XLA's own
        cache has not kept the executable.
        """
        _options("xla_clear", line)
        cleared = session.current().clear(self._ip.user_ns, last_error())
        plural = "s" if cleared.graphs != 1 else ""
        print(f"{cleared.graphs} graph{plural} dropped, {bytes_text(cleared.freed_nbytes)} came free")
        shared = cleared.saved_nbytes - cleared.freed_nbytes
        if shared > 0:
            print(f"{bytes_text(shared)} more were shared: between graphs, or with names of yours")

    def _watch(self, what: str) -> str:
        """Watch what was typed, and say so."""
        if what not in _WATCHED:
            raise UsageError(f"%xla_events: --watch takes {', '.join(_WATCHED)}, and got {what!r}")
        donations, reads, said = _WATCHED[what]
        session.current().set(watch_donations=donations, watch_reads=reads)
        return said

    def inspect(self, line: str) -> None:
        """Open the inspector: graphs, buffers and events live, also while a cell runs, with the settings.

        %xla_inspect

        Looking computes, transfers and changes nothing. In a terminal it prints the same as text.
        """
        _options("xla_inspect", line)
        # Only here, because widgets cost a second to import.
        from xla_notebook.notebook.widget import Inspector

        display(Inspector())

    def _set(self, magic: str, **texts: str) -> session.Settings:
        """Change settings to what was typed."""
        try:
            return session.current().set(**{name: parse(name, text) for name, text in texts.items()})
        except SettingError as error:
            raise UsageError(f"%{magic}: {error}") from None


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
            known = f"; there are {', '.join((*flags, *values))}" if flags or values else ""
            raise UsageError(f"%{magic}: no option {word!r}{known}")
    return found
