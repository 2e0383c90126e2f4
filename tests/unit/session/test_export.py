"""An exported session is read back as it was, and rendered where neither torch nor a device is known."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from xla_notebook.__main__ import main
from xla_notebook.backend.observer import Binding, DonationRefused, Forced, GraphEvicted, GraphWarming, HostOp
from xla_notebook.session import FrozenError, Session
from xla_notebook.session.buffers import BufferRecord, Ledger, Owner
from xla_notebook.session.events import EventKind
from xla_notebook.session.export import Export, ExportError, decode, read, write

from .reports import CELL_FILE, SPEC, FakeClock, FakeGraph, argument, barrier, donated, dropped, traced, warmed


def busy_session() -> Session:
    """A session with an event of every kind."""
    live = [FakeGraph(1)]
    counts = iter([({}, {}), ({"aten::nonzero": 3}, {"aten::nonzero": 1})])
    session = Session(
        live_graphs=lambda: live,
        now_ns=FakeClock(),
        failed_guards=lambda function, filename: (),
        host_ops=lambda: next(counts),
    )
    with session.cell(3, "abc", CELL_FILE):
        host_op = HostOp("aten::nonzero", "no lowering", None)
        saved = Binding("saved", 0, "constant 0", SPEC)
        session.report(traced(1, inputs=(argument("<b>x</b>"), saved), mutations=((0, 0),), host_ops=(host_op,)))
        session.report(GraphWarming(1, 3, "compile", 15))
        session.report(warmed(1))
        session.report(barrier())
        session.report(donated(saved=True))
        session.report(DonationRefused(1, "w", "it is kept", 60))
        session.report(Forced(".item()", CELL_FILE, 9, SPEC, 4, True, 58, 59))
        session.report(GraphEvicted(1, "0", 61))
        session.report(traced(1, reason="evicted"))
        session.report(traced(2))
        session.report(dropped(2))
    with pytest.raises(FrozenError), session.frozen():
        session.report(traced(3))
    return session


LEDGER = Ledger((BufferRecord(17, (16, 8), "float32", 512, "live", (Owner("variable", "<i>w</i>"),), 1),), True)


@pytest.fixture
def exported(tmp_path: Path) -> Path:
    path = tmp_path / "session.json"
    write(path, Export.of(busy_session().snapshot(), LEDGER, 10**18))
    return path


def test_file_is_read_back_as_it_was(exported: Path) -> None:
    snapshot = busy_session().snapshot()
    found = read(exported)
    assert found.snapshot == snapshot
    assert found.ledger == LEDGER
    assert (found.exported_ns, found.versions.keys()) == (10**18, {"xla_notebook", "torch", "torch_xla"})


def test_every_kind_of_event_is_in_the_test() -> None:
    kinds = {event.kind for event in busy_session().events()}
    assert kinds == set(EventKind.__args__)  # type: ignore[attr-defined]


def test_session_writes_itself(tmp_path: Path) -> None:
    session = busy_session()
    session.export(tmp_path / "session.json", {"n": 1})
    assert read(tmp_path / "session.json").snapshot == session.snapshot()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda plain: plain.update({"xla_notebook session": 99}), "has format 99; this version reads format 1"),
        (lambda plain: plain.pop("xla_notebook session"), "is not an exported session"),
        (lambda plain: plain["export"].pop("ledger"), "export lacks ledger"),
        (lambda plain: plain["export"]["snapshot"].update(seq="1"), "export.snapshot.seq cannot be '1'"),
        (
            lambda plain: plain["export"]["snapshot"]["graphs"][0].update(state="hot"),
            r"export.snapshot.graphs\[0\].state cannot be 'hot'",
        ),
        (
            lambda plain: plain["export"]["snapshot"]["events"][1].update(kind="boom"),
            r"export.snapshot.events\[1\] is not an event",
        ),
    ],
)
def test_other_files_are_told_what_is_wrong(exported: Path, change: object, says: str) -> None:
    plain = json.loads(exported.read_text())
    change(plain)  # type: ignore[operator]
    exported.write_text(json.dumps(plain))
    with pytest.raises(ExportError, match=says):
        read(exported)


def test_pairs_have_two_items() -> None:
    with pytest.raises(ExportError, match="value has 3 items, not 2"):
        decode(tuple[int, int], [1, 2, 3])


def test_show_prints_text_without_torch(exported: Path) -> None:
    code = "import sys; from xla_notebook.__main__ import main; main(sys.argv[1:]); assert 'torch' not in sys.modules"
    wide = {**os.environ, "COLUMNS": "300"}
    done = subprocess.run(
        [sys.executable, "-c", code, "show", str(exported)], capture_output=True, text=True, check=True, env=wide
    )
    for part in ("step", "<i>w</i>", "step was refused, because compiles are frozen", "XLA's cache had dropped"):
        assert part in done.stdout


def test_show_writes_a_page_in_which_names_are_text(exported: Path, tmp_path: Path) -> None:
    assert main(["show", str(exported), "--html", str(tmp_path / "page.html")]) == 0
    page = (tmp_path / "page.html").read_text()
    assert "&lt;i&gt;w&lt;/i&gt;" in page
    assert "<i>" not in page
    assert page.count("<table>") == 3


def test_show_prints_the_last_events_only(exported: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", str(exported), "--events", "1"]) == 0
    out = capsys.readouterr().out
    assert "freeze is now off (was error)" in out
    assert "freeze is now error (was off)" not in out
    assert "older events are not shown" in out


def test_show_says_what_is_wrong_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", str(tmp_path / "none.json")]) == 1
    (tmp_path / "other.json").write_text("{")
    assert main(["show", str(tmp_path / "other.json")]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 2
