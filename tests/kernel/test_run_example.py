"""``examples/run.py``, which ``make demo`` calls, on notebooks made for the purpose."""

import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

RUN = Path(__file__).parents[2] / "examples" / "run.py"

# The report's magic, standing in for the real one, so that these tests are about the runner alone.
DEFINE_MAGIC = """
from IPython.core.magic import register_line_magic
from IPython.display import display

@register_line_magic
def xla_graphs(line):
    display({"text/plain": f"report {line}", "text/html": "<b>report</b>"}, raw=True)
"""

pytestmark = pytest.mark.kernel


def run(directory: Path, *sources: str) -> subprocess.CompletedProcess[str]:
    notebook = directory / "a notebook.ipynb"
    nbformat.write(new_notebook(cells=[new_code_cell(source) for source in sources]), notebook)
    return subprocess.run(
        [sys.executable, str(RUN), str(notebook), str(directory / "out")], capture_output=True, text=True
    )


def test_the_last_report_and_the_path_of_the_copy_are_printed(tmp_path: Path) -> None:
    done = run(tmp_path, DEFINE_MAGIC, "%xla_graphs one", "%xla_graphs two", "print('after')")
    copy = tmp_path / "out" / "a notebook.html"
    assert done.returncode == 0, done.stderr
    assert "report two" in done.stdout
    assert "report one" not in done.stdout
    assert done.stdout.rstrip().endswith(f"HTML copy: {copy}")
    assert "after" in copy.read_text()


def test_a_cell_that_raises_fails_the_run_and_is_shown(tmp_path: Path) -> None:
    done = run(tmp_path, "1 / 0", DEFINE_MAGIC, "%xla_graphs")
    assert done.returncode == 1
    assert "ZeroDivisionError" in done.stderr
    assert (tmp_path / "out" / "a notebook.html").exists()


def test_a_notebook_without_a_report_fails_the_run(tmp_path: Path) -> None:
    done = run(tmp_path, "print('no report')")
    assert done.returncode == 1
    assert "shows a report" in done.stderr
