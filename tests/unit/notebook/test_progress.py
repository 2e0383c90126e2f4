"""The live line of a compile, apart from a kernel."""

from __future__ import annotations

import io
import threading

import pytest

from xla_notebook.backend.observer import GraphWarmed, GraphWarming, now_ns
from xla_notebook.notebook import progress
from xla_notebook.notebook.progress import Progress, Terminal


class Kept:
    """A line that remembers what it showed."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.shown = threading.Event()

    def show(self, text: str) -> None:
        self.texts.append(text)
        self.shown.set()

    def end(self, summary: str | None) -> bool:
        shown = bool(self.texts)
        self.texts.append(f"end: {summary}")
        return shown


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> Kept:
    monkeypatch.setattr(progress, "DELAY_S", 0.001)
    return Kept()


def warming(graph_id: int) -> GraphWarming:
    return GraphWarming(graph_id, op_count=3400, mode="compile", started_ns=now_ns() - 12_000_000_000)


def test_the_line_counts_the_graphs_of_the_cell_and_ends_as_the_summary(kept: Kept) -> None:
    live = Progress(kept)
    live.begin()
    live.report(warming(7))
    assert kept.shown.wait(30)
    live.report(GraphWarmed(7, "compile", True, 1, now_ns()))
    count = len(kept.texts)
    kept.shown.clear()
    live.report(warming(8))
    assert kept.shown.wait(30)
    assert live.end("done") is True
    assert kept.texts[0] == "compiling graph 1, 3,400 ops, 12 s"
    assert kept.texts[count] == "compiling graph 2, 3,400 ops, 12 s"
    assert kept.texts[-1] == "end: done"


@pytest.mark.parametrize("silenced", [True, False])
def test_nothing_is_shown_outside_of_a_cell_and_in_a_quiet_one(kept: Kept, silenced: bool) -> None:
    live = Progress(kept)
    if silenced:
        live.begin()
        live.silence()
    before = threading.active_count()
    live.report(warming(7))
    assert threading.active_count() == before
    assert live.end("done") is False


def test_a_terminal_shows_one_line_that_erases_itself() -> None:
    stream = io.StringIO()
    line = Terminal(stream)
    line.show("long text")
    line.show("short")
    assert line.end("done") is False
    assert line.end("done") is False
    assert stream.getvalue() == "\rlong text\rshort    \r     \r"
