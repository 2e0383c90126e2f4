"""The list of cached graphs, as text for a terminal and as HTML for a notebook."""

from __future__ import annotations

import html
import io
import linecache
import os
from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from xla_notebook.session import GraphRecord
from xla_notebook.session.describe import inputs_text

COLUMNS = ("graph", "hash", "cell", "kind", "inputs", "trace", "compile", "runs", "saved")
_RIGHT = frozenset({"trace", "compile", "runs", "saved"})
_NONE_YET = "No graphs are cached yet: run a %%xla_compile cell."


class GraphTable:
    """Cached graphs for IPython's display: plain text and HTML of the same rows. Touches no device."""

    def __init__(self, graphs: Sequence[GraphRecord]) -> None:
        self.rows = [row(graph) for graph in graphs]

    def text(self, width: int = 120) -> str:
        """The table as text, at most `width` characters wide."""
        if not self.rows:
            return _NONE_YET
        table = Table(box=None, pad_edge=False, header_style="bold")
        for column in COLUMNS:
            table.add_column(column, justify="right" if column in _RIGHT else "left", overflow="fold")
        for cells in self.rows:
            table.add_row(*(Text(cell) for cell in cells))
        out = io.StringIO()
        Console(file=out, force_jupyter=False, width=width, color_system=None, highlight=False, emoji=False).print(
            table
        )
        return "\n".join(line.rstrip() for line in out.getvalue().splitlines())

    def _repr_html_(self) -> str:
        if not self.rows:
            return f"<p>{html.escape(_NONE_YET)}</p>"
        head = "".join(f'<th scope="col" style="{_align(name)}">{name}</th>' for name in COLUMNS)
        body = "".join(
            "<tr>"
            + "".join(
                f'<td style="{_align(name)}">{html.escape(cell)}</td>'
                for name, cell in zip(COLUMNS, cells, strict=True)
            )
            + "</tr>"
            for cells in self.rows
        )
        return f"<table><caption>Cached graphs</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"

    def _repr_pretty_(self, printer: object, cycle: bool) -> None:
        printer.text(self.text())  # type: ignore[attr-defined]  # IPython's printer has no public type

    def __repr__(self) -> str:
        return self.text()


def _align(column: str) -> str:
    return f"text-align: {'right' if column in _RIGHT else 'left'}"


def row(graph: GraphRecord) -> tuple[str, ...]:
    """One graph as the texts of `COLUMNS`."""
    saved = f"{graph.saved_count}, {size(graph.saved_nbytes)}" if graph.saved_count else "none"
    return (
        title(graph),
        graph.hash[:8],
        _place(graph),
        graph.kind,
        inputs_text(graph),
        duration(graph.trace_ns),
        duration(graph.compile_ns) if graph.compiled else "cached",
        str(graph.runs),
        saved,
    )


def title(graph: GraphRecord) -> str:
    """The graph's name; that of a block, which is a cell's own code, is the text of its line."""
    if graph.function != "<module>":
        return graph.name
    text = linecache.getline(graph.source.filename, graph.source.line or 0).strip() if graph.source is not None else ""
    # An exported session is read where the cell's source is not known.
    return f"{text[:37]}..." if len(text) > 40 else text or graph.name


def _place(graph: GraphRecord) -> str:
    cell = f"[{graph.cell.execution_count}]" if graph.cell is not None else ""
    line = ""
    if graph.source is not None and graph.source.line:
        # A cell's file name means nothing to anyone; that of a library does (an optimizer's step, say).
        elsewhere = graph.source.cell is None
        line = (
            f"{os.path.basename(graph.source.filename)}:{graph.source.line}"
            if elsewhere
            else f"line {graph.source.line}"
        )
    return " ".join(part for part in (cell, line) if part)


def titles(graphs: Iterable[GraphRecord]) -> dict[int, str]:
    """The graphs' titles by graph id."""
    return {graph.graph_id: title(graph) for graph in graphs}


def duration(ns: int) -> str:
    """A duration with three digits at most, in a fitting unit: ``850 us``, ``12.3 ms``, ``1.90 s``."""
    if ns < 1_000_000:
        return f"{ns / 1e3:.0f} us"
    if ns < 1_000_000_000:
        return f"{ns / 1e6:.1f} ms"
    return f"{ns / 1e9:.2f} s"


def size(nbytes: int) -> str:
    """A number of bytes in a fitting binary unit: ``512 B``, ``1.5 KiB``."""
    value, unit = float(nbytes), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
