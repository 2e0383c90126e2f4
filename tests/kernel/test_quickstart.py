"""The quickstart notebook does what it says, from a clean kernel."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

pytestmark = [pytest.mark.kernel, pytest.mark.slow]

NOTEBOOK = Path(__file__).parents[2] / "examples" / "01_quickstart.ipynb"


@pytest.fixture(scope="module")
def executed(tmp_path_factory: pytest.TempPathFactory) -> nbformat.NotebookNode:
    made = nbformat.read(NOTEBOOK, as_version=4)
    place = {"metadata": {"path": str(tmp_path_factory.mktemp("quickstart"))}}
    return NotebookClient(made, timeout=240, resources=place).execute()


def texts(notebook: nbformat.NotebookNode) -> list[str]:
    """What is printed, and the text of what is displayed: a live line ends as displayed text."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    return [output.text if "text" in output else output.get("data", {}).get("text/plain", "") for output in outputs]


def test_it_is_kept_without_outputs() -> None:
    kept = nbformat.read(NOTEBOOK, as_version=4)
    code = [cell for cell in kept.cells if cell.cell_type == "code"]
    assert [(cell.outputs, cell.execution_count) for cell in code] == [([], None)] * len(code)


def test_the_model_reads_unseen_digits(executed: nbformat.NotebookNode) -> None:
    (found,) = re.findall(r"([\d.]+)% of 450 unseen digits", "".join(texts(executed)))
    assert float(found) > 95


def test_training_compiles_forward_backward_and_the_step_with_and_without_momentum(
    executed: nbformat.NotebookNode,
) -> None:
    assert any(re.search(r"^4 graphs compiled in", text, re.M) for text in texts(executed))


def test_it_shows_two_plots_and_the_graphs_and_writes_nothing_to_stderr(executed: nbformat.NotebookNode) -> None:
    outputs: list[Any] = [output for cell in executed.cells for output in cell.get("outputs", ())]
    assert [output for output in outputs if output.get("name") == "stderr"] == []
    shown = [output.data for output in outputs if output.output_type == "display_data"]
    assert sum("image/png" in data for data in shown) == 2
    table = shown[-1]["text/html"]
    for kind in ("forward", "backward", "optimizer", "inference"):
        assert kind in table
