"""The list of graphs and the traceback of the user's frames."""

from __future__ import annotations

import sys
import types
from pathlib import Path

import pytest

from xla_notebook.notebook import frames, report


@pytest.mark.parametrize(
    ("ns", "text"),
    [(0, "0 us"), (850_000, "850 us"), (12_300_000, "12.3 ms"), (1_900_000_000, "1.90 s"), (65_000_000_000, "65.00 s")],
)
def test_durations(ns: int, text: str) -> None:
    assert report.duration(ns) == text


@pytest.mark.parametrize(("nbytes", "text"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (3 << 30, "3.0 GiB")])
def test_sizes(nbytes: int, text: str) -> None:
    assert report.size(nbytes) == text


def test_an_empty_list_says_what_to_do() -> None:
    table = report.GraphTable([])
    assert "%%xla_compile" in table.text()
    assert "%%xla_compile" in table._repr_html_()


def raised(path: Path, *files: str) -> types.TracebackType:
    """The traceback of calls from one file to the next; the last one raises."""
    space: dict[str, object] = {}
    names = [f"f{number}" for number in range(len(files))]
    for number, name in reversed(list(enumerate(files))):
        body = f"f{number + 1}()" if number + 1 < len(files) else "raise ValueError"
        call = "run_block" if name == "ours" else names[number]
        real = str(Path(frames.__file__).with_name("x.py")) if name == "ours" else str(path / name)
        exec(compile(f"def {call}():\n    {body}", real, "exec"), space)
        space[names[number]] = space[call]
    with pytest.raises(ValueError) as caught:  # noqa: PT011  (it is what the files raise)
        space["f0"]()  # type: ignore[operator]
    below = caught.tb.tb_next
    assert below is not None
    return below


def files(traceback: types.TracebackType | None) -> list[str]:
    found: list[str] = []
    while traceback is not None:
        found.append(Path(traceback.tb_frame.f_code.co_filename).name)
        traceback = traceback.tb_next
    return found


def test_our_frames_and_the_cells_call_of_us_are_left_out(tmp_path: Path) -> None:
    whole = raised(tmp_path, "cell.py", "ours", "cell.py", "user.py")
    assert files(frames.user_frames(whole)) == ["cell.py", "user.py"]


def test_dynamo_is_left_out_below_us_and_stays_where_the_user_called_it(tmp_path: Path) -> None:
    dynamo = "torch/_dynamo/eval_frame.py"
    assert files(frames.user_frames(raised(tmp_path, "cell.py", "ours", dynamo, "cell.py"))) == ["cell.py"]
    assert files(frames.user_frames(raised(tmp_path, "user.py", dynamo))) == ["user.py", "eval_frame.py"]


def test_an_error_before_any_user_code_shows_the_call(tmp_path: Path) -> None:
    assert files(frames.user_frames(raised(tmp_path, "cell.py", "ours"))) == ["cell.py"]


def test_there_is_no_traceback_of_nothing() -> None:
    assert frames.user_frames(None) is None
    assert sys.exc_info() == (None, None, None)
