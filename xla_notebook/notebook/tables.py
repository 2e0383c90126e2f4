"""Tables of the session's events and buffers, as text for a terminal and as HTML for a notebook."""

from __future__ import annotations

import dataclasses
import datetime
import html
import io
from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from xla_notebook.session.analysis import live_nbytes, totals_by_owner
from xla_notebook.session.buffers import BufferRecord, Ledger
from xla_notebook.session.causes import shape_text
from xla_notebook.session.describe import bytes_text, event_text, place_text
from xla_notebook.session.events import Event


@dataclasses.dataclass(frozen=True, slots=True)
class Table:
    """Rows of text under `columns`, for IPython's display; `right` columns are aligned right.

    `footer` is a line below it, and `empty` what is said instead of a table without rows.
    """

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    empty: str
    right: frozenset[str] = frozenset()
    footer: str = ""

    def text(self, width: int = 120) -> str:
        """The table as text, at most `width` characters wide."""
        if not self.rows:
            return self.empty
        table = RichTable(box=None, pad_edge=False, header_style="bold")
        for column in self.columns:
            table.add_column(column, justify="right" if column in self.right else "left", overflow="fold")
        for cells in self.rows:
            table.add_row(*(Text(cell) for cell in cells))
        out = io.StringIO()
        # Without force_jupyter, rich would show the table itself, besides the HTML.
        console = Console(file=out, width=width, color_system=None, force_jupyter=False, highlight=False, emoji=False)
        console.print(table)
        lines = [line.rstrip() for line in out.getvalue().splitlines()]
        return "\n".join([*lines, self.footer] if self.footer else lines)

    def _repr_html_(self) -> str:
        if not self.rows:
            return f"<p>{html.escape(self.empty)}</p>"
        head = "".join(f'<th scope="col" style="{self._align(name)}">{html.escape(name)}</th>' for name in self.columns)
        body = "".join(f"<tr>{self._html_cells(cells)}</tr>" for cells in self.rows)
        caption = f"<caption>{html.escape(self.caption)}</caption>"
        footer = f"<p>{html.escape(self.footer)}</p>" if self.footer else ""
        return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{footer}"

    def _repr_pretty_(self, printer: object, cycle: bool) -> None:
        printer.text(self.text())  # type: ignore[attr-defined]  # IPython's printer has no public type

    def _html_cells(self, cells: Sequence[str]) -> str:
        pairs = zip(self.columns, cells, strict=True)
        return "".join(f'<td style="{self._align(name)}">{html.escape(cell)}</td>' for name, cell in pairs)

    def _align(self, column: str) -> str:
        return f"text-align: {'right' if column in self.right else 'left'}"


def event_table(events: Sequence[Event], names: Mapping[int, str], footer: str, empty: str) -> Table:
    """Events, oldest first; `names` are the graphs' by graph id, `footer` says what is not shown."""
    rows = tuple(
        (_clock(event.time_ns), place_text(event.cell, event.source), event.kind, event_text(event, names))
        for event in events
    )
    return Table("Events", ("time", "where", "kind", "what"), rows, empty, frozenset(), footer)


def buffer_table(ledger: Ledger, limit: int | None) -> Table:
    """The buffers of a look, largest first, at most `limit`, with the totals of all of them below."""
    buffers = sorted(ledger.buffers, key=lambda buffer: -buffer.nbytes)
    shown = buffers if limit is None else buffers[:limit]
    totals = ", ".join(f"{kind} {bytes_text(nbytes)}" for kind, nbytes in totals_by_owner(buffers).items())
    footer = f"{len(buffers)} buffers, {bytes_text(live_nbytes(buffers))} live ({totals or 'no owners'})"
    if len(shown) < len(buffers):
        footer += f"; {len(buffers) - len(shown)} smaller ones are not shown: %xla_buffers --all"
    if not ledger.complete:
        footer += "; the search hit its limits, so there may be more"
    return Table(
        "Device buffers",
        ("handle", "names", "dtype", "shape", "bytes", "state"),
        tuple(_buffer_row(buffer) for buffer in shown),
        "No device buffers: neither graphs nor the notebook's names keep any.",
        frozenset({"bytes"}),
        footer,
    )


def _buffer_row(buffer: BufferRecord) -> tuple[str, ...]:
    return (
        f"{buffer.handle:x}" if buffer.handle is not None else "",
        ", ".join(dict.fromkeys(buffer.names)),
        buffer.dtype,
        shape_text(buffer.shape),
        bytes_text(buffer.nbytes),
        buffer.state,
    )


def _clock(time_ns: int) -> str:
    return datetime.datetime.fromtimestamp(time_ns / 1e9).strftime("%H:%M:%S.%f")[:-3]
