"""An exported session as text for a terminal and as an HTML page. Needs neither torch nor a device."""

from __future__ import annotations

import datetime
import html

from xla_notebook.notebook.report import GraphTable
from xla_notebook.notebook.tables import Table, buffer_table, event_table
from xla_notebook.session.analysis import advice
from xla_notebook.session.describe import bytes_text, histories
from xla_notebook.session.export import Export

_STYLE = (
    ":root{color-scheme:light dark}body{font:14px/1.4 system-ui,sans-serif;margin:1.5rem}"
    "table{border-collapse:collapse;display:block;overflow-x:auto}caption{text-align:left}"
    "th,td{padding:.15rem .6rem;border-bottom:1px solid #8884;vertical-align:top}pre{white-space:pre-wrap}"
)
_NO_EVENTS = "Nothing had happened."


def text(export: Export, width: int = 120, shown: int | None = None, buffers: int | None = None) -> str:
    """Graphs, why they were compiled, the largest `buffers` and the last `shown` events (None: all), as text."""
    tables = [
        ("Graphs", _graphs(export).text(width)),
        ("Why they were compiled", _reasons(export)),
        ("Device buffers", buffer_table(export.ledger, buffers).text(width)),
        ("Events", _events(export, shown).text(width)),
    ]
    parts = [_header(export), *(f"{title}\n\n{body}" for title, body in tables if body)]
    return "\n\n".join(parts) + "\n"


def page(export: Export) -> str:
    """The same as a self-contained HTML page, with all events. Everything in it is text, never markup."""
    return (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>XLA session</title>'
        f"<style>{_STYLE}</style></head><body><h1>XLA session</h1>{fragment(export, None, None)}</body></html>\n"
    )


def fragment(export: Export, shown: int | None, buffers: int | None) -> str:
    """The same as HTML for within a page, with the last `shown` events and the largest `buffers` (None: all)."""
    reasons = html.escape(_reasons(export))
    parts = [
        f"<p>{html.escape(_header(export))}</p>",
        _graphs(export)._repr_html_(),
        f"<p>Why they were compiled</p><pre>{reasons}</pre>" if reasons else "",
        buffer_table(export.ledger, buffers)._repr_html_(),
        _events(export, shown)._repr_html_(),
    ]
    return "".join(parts)


def _header(export: Export) -> str:
    time = datetime.datetime.fromtimestamp(export.exported_ns / 1e9).strftime("%Y-%m-%d %H:%M:%S")
    versions = ", ".join(f"{name} {number}" for name, number in export.versions.items())
    settings = ", ".join(f"{name}={value}" for name, value in export.snapshot.settings.items())
    return f"Exported {time}; {versions}; settings {settings}"


def _graphs(export: Export) -> GraphTable:
    return GraphTable([graph for graph in export.snapshot.graphs if graph.state != "dropped"])


def _reasons(export: Export) -> str:
    graphs = export.snapshot.graphs
    lines = [line for history in histories(graphs, export.snapshot.events) for line in history.lines()]
    for item in advice(graphs, export.ledger.buffers):
        lines.append(f"{item.text} ({bytes_text(item.nbytes)})" if item.nbytes else item.text)
    return "\n".join(lines)


def _events(export: Export, shown: int | None) -> Table:
    events = export.snapshot.events
    last = events if shown is None else events[max(0, len(events) - shown) :]
    names = {graph.graph_id: graph.name for graph in export.snapshot.graphs}
    left_out = sum(export.snapshot.counts.values()) - len(last)
    return event_table(last, names, f"{left_out} older events are not shown" if left_out else "", _NO_EVENTS)
