"""On which line of the user's code a report happened, and which cell holds that line."""

from __future__ import annotations

import re
from collections.abc import Mapping

from xla_notebook.backend.observer import Barrier, Donated, Forced, GraphTraced, Report
from xla_notebook.session.events import CellRef, Source
from xla_notebook.session.records import GraphRecord

CAPACITY = 4_096
# What IPython in a terminal calls a cell that nobody named; the number is its execution count.
_PLAIN_CELL = re.compile(r"<ipython-input-(\d+)-")


class Places:
    """Knows which files are cells. Bounded. Not thread-safe: the session's lock is."""

    def __init__(self) -> None:
        self._cells: dict[str, CellRef] = {}
        self._sources: dict[tuple[str, int | None], Source] = {}
        self._barrier: Barrier | None = None

    def name_file(self, filename: str, cell: CellRef) -> None:
        """Lines of `filename` are lines of `cell` from now on."""
        self._cells.pop(filename, None)
        self._cells[filename] = cell
        if len(self._cells) > CAPACITY:
            del self._cells[next(iter(self._cells))]

    def of(self, report: Report, graphs: Mapping[int, GraphRecord]) -> Source | None:
        """The line that `report` is about: its own, its barrier's or its graph's."""
        match report:
            case GraphTraced() | Forced():
                return self._source(report.filename, report.line)
            case Barrier():
                self._barrier = report
                return self._source(report.filename, report.line)
            case Donated() if report.cause == "step barrier":
                # The last one before is the first suspect: graphs find out at their next run.
                barrier = self._barrier
                return self._source(barrier.filename, barrier.line) if barrier is not None else None
            case _:
                graph = graphs.get(report.graph_id) if report.graph_id is not None else None
                return graph.source if graph is not None else None

    def _source(self, filename: str | None, line: int | None) -> Source | None:
        """The line as a value shared by all its events, which are many in a loop."""
        if filename is None:
            return None
        cell = self._cells.get(filename)
        if cell is None and (plain := _PLAIN_CELL.match(filename)):
            cell = CellRef(int(plain[1]))
        known = self._sources.get((filename, line))
        if known is None or known.cell != cell:
            if len(self._sources) >= CAPACITY:
                self._sources.clear()
            known = self._sources[filename, line] = Source(filename, line, cell)
        return known
