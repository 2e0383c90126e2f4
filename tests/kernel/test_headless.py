"""Without a front end, on an interrupt, and in a plain shell."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import nbformat
import papermill
import pytest
from kernel_client import Kernel
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbconvert import HTMLExporter
from nbformat.v4 import new_code_cell, new_notebook

pytestmark = pytest.mark.kernel

SETUP = "%load_ext xla_notebook\nimport torch, torch_xla\nx = torch.ones(2, 3).to('xla')"
# Its one graph takes seconds to compile, and is shown to do so at once.
SLOW = """%%xla_compile
from xla_notebook.notebook import progress
progress.DELAY_S = 0.02
t = torch.ones(9, 9).to('xla')
def chain(t):
    for _ in range(60):
        t = (t @ t).softmax(-1).tan().log1p().expm1().atan().erf()
    return t
out = chain(t)"""
FAILS = "%%xla_compile\nprint('before')\na = x + 1\nb = x @ x\nprint('after')"


def notebook(*sources: str) -> nbformat.NotebookNode:
    made = new_notebook(cells=[new_code_cell(source) for source in sources])
    made.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return made


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> tuple[nbformat.NotebookNode, CellExecutionError]:
    """A notebook as nbclient leaves it: one cell compiled for long, a later one raised."""
    made = notebook(SETUP, SLOW, FAILS, "print('never')")
    place = {"metadata": {"path": str(tmp_path_factory.mktemp("headless"))}}
    with pytest.raises(CellExecutionError) as caught:
        NotebookClient(made, timeout=240, resources=place).execute()
    return made, caught.value


def test_nbclient_fails_at_the_cell_that_raises_and_keeps_what_was_printed(
    stopped: tuple[nbformat.NotebookNode, CellExecutionError],
) -> None:
    made, error = stopped
    assert "cannot matrix-multiply" in str(error)
    printed = [output.text for output in made.cells[2].outputs if output.output_type == "stream"]
    assert printed == ["before\n"]
    assert made.cells[3].outputs == []


def test_a_headless_run_keeps_the_summary_of_a_long_compile_and_no_live_line(
    stopped: tuple[nbformat.NotebookNode, CellExecutionError],
) -> None:
    made, _ = stopped
    (output,) = made.cells[1].outputs
    assert output.output_type == "display_data"
    assert output.data["text/plain"].startswith("1 graph compiled in ")
    assert "compiling graph" not in nbformat.writes(made)


def test_the_inspector_leaves_the_last_state_in_the_notebook_and_in_its_html(tmp_path: Path) -> None:
    made = notebook(SETUP, "%xla_inspect", "%%xla_compile --name <b>twice</b>\ny = x * 2")
    NotebookClient(made, timeout=240, resources={"metadata": {"path": str(tmp_path)}}).execute()
    _, saved = made.cells[1].outputs
    assert "<b>twice</b>" in saved.data["text/plain"]
    page, _ = HTMLExporter().from_notebook_node(made)
    assert "&lt;b&gt;twice&lt;/b&gt;" in page.partition("xla-notebook-saved")[2]
    assert "<b>twice</b></td>" not in page


def test_the_inspector_is_text_in_a_plain_shell(tmp_path: Path) -> None:
    script = """
from IPython.core.interactiveshell import InteractiveShell
ip = InteractiveShell.instance()
for cell in ("%load_ext xla_notebook", "import torch, torch_xla; x = torch.ones(2).to('xla')",
             "%%xla_compile --name twice\\ny = x * 2", "%xla_inspect"):
    ip.run_cell(cell).raise_error()
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "twice" in done.stdout.partition("Graphs")[2]
    assert "Device buffers" in done.stdout


def test_papermill_fails_at_the_cell_that_raises(tmp_path: Path) -> None:
    nbformat.write(notebook(SETUP, FAILS), tmp_path / "in.ipynb")
    with pytest.raises(papermill.PapermillExecutionError, match="cannot matrix-multiply"):
        papermill.execute_notebook(str(tmp_path / "in.ipynb"), str(tmp_path / "out.ipynb"), progress_bar=False)


def test_an_interrupt_ends_the_cell_and_the_next_run_works(kernel: Kernel) -> None:
    kernel.check("x = torch.ones(2, 3).to(dev)\ndone = []")
    cell = (
        "%%xla_compile\nimport time\nfor i in range({count}):\n"
        "    y = x * 2 + 1\n    print('step', i)\n    time.sleep({pause})"
    )
    running = kernel.start(cell.format(count=1000, pause=30))
    while True:
        message = kernel.next_output(running)
        if message["msg_type"] == "stream" and "step" in message["content"]["text"]:
            break
    time.sleep(1)  # until it has left the `print`, also on a busy machine
    kernel.interrupt()
    shown = kernel.finish(running)
    assert shown.error is not None
    assert shown.error[0] == "KeyboardInterrupt"
    assert shown.arrows[0][1] == "time.sleep(30)"
    assert "xla_notebook" not in shown.traceback
    again = kernel.check(cell.format(count=2, pause=0))
    assert "step 1" in again.stdout
    assert kernel.value("y.sum().item()") == 18.0


def test_run_cell_magic_from_a_function_binds_in_the_notebook(kernel: Kernel) -> None:
    kernel.check("x = torch.ones(2, 3).to(dev)")
    kernel.check(
        "def helper():\n    get_ipython().run_cell_magic('xla_compile', '--quiet', 'bound = x + 1\\nbound.sum()')"
    )
    shown = kernel.check("helper()")
    assert kernel.value("bound.sum().item()") == 12.0
    kernel.check("body = 'bound = x + 2'")
    kernel.check("get_ipython().run_cell_magic('xla_compile', '--quiet', body)")
    assert kernel.value("bound.sum().item()") == 18.0
    kernel.check("get_ipython().run_cell_magic('xla_compile', '--quiet', 'bound = x + 3')\nafter = bound.sum().item()")
    assert kernel.value("after") == 24.0
    assert shown.stderr == ""


def test_the_magic_under_time_and_capture(kernel: Kernel) -> None:
    kernel.check("x = torch.ones(2, 3).to(dev)")
    shown = kernel.check("%%time\n%%xla_compile\nt = (x * 4).sum()\nprint('inside')")
    assert "inside" in shown.stdout
    assert "Wall time" in shown.stdout
    kernel.check("%%capture kept\n%%xla_compile\nprint('captured')\nt = (x * 4).sum()")
    assert "captured" in kernel.value("kept.stdout")
    assert kernel.value("t.item()") == 24.0
    below = kernel.check("%%xla_compile\n%%time\nu = (x * 6).sum()\nprint('inside')")
    assert "inside" in below.stdout
    assert "Wall time" in below.stdout
    assert below.stdout.splitlines()[-1].startswith("1 graph ")
    assert kernel.value("u.item()") == 36.0


SCRIPT = """
from IPython.core.interactiveshell import InteractiveShell

TRAINS = '''%%xla_compile
model = torch.nn.Linear(3, 2).to("xla")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(2):
    loss = model(x).sum()
    loss.backward()
    optimizer.step()'''

shell = InteractiveShell.instance()
for source in (
    "%load_ext xla_notebook",
    "import torch, torch_xla",
    "x = torch.ones(2, 3).to('xla')",
    "%%xla_compile\\nfor i in range(2):\\n    y = x * 2 + 1\\ny.sum().item()",
    "%xla_graphs",
    TRAINS,
    "%reset -f",
    "import gc, torch, torch_xla; gc.collect(); x = torch.ones(2, 3).to('xla')",
    TRAINS,
    "@torch.compile(backend='xla_notebook')\\ndef f(t):\\n    print('break')\\n    return loss + t.sum()\\nkept = f(x)",
):
    result = shell.run_cell(source, store_history=True)
    result.raise_error()
failed = shell.run_cell("%%xla_compile\\na = x + 1\\nb = x @ x", store_history=True)
assert isinstance(failed.error_in_exec, RuntimeError), failed
assert shell.user_ns["a"].sum().item() == 12.0
"""


def test_a_plain_shell_in_a_script(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=240, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "18.0" in done.stdout
    assert "float32[2,3]" in done.stdout
    # Neither when the namespace is emptied, nor at the end.
    assert done.stderr == ""
