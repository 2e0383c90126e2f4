"""The sidebar in Jupyter Notebook 7."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from .cells import BUSY, TORCH_STEP
from .conftest import SHOTS
from .lab import Lab, server
from .views import Sidebar


@pytest.fixture
def notebook_7(browser: Browser, tmp_path: Path) -> Iterator[Lab]:
    """Jupyter Notebook 7 with a notebook open."""
    with server(tmp_path, "notebook") as address:
        page = browser.new_page(viewport={"width": 1400, "height": 900})
        opened = Lab(page, address, tmp_path / "files", SHOTS)
        name = opened.write_notebook("seven.ipynb", [TORCH_STEP, BUSY.format(go="seven", after="")])
        page.goto(address.format(f"notebooks/{name}"))
        page.wait_for_function(
            "() => window.jupyterapp?.shell.currentWidget?.sessionContext?.session?.kernel?.status === 'idle'"
        )
        yield opened
        opened.screenshot("end-of-notebook-7")
        page.close()
        assert [problem for problem in opened.problems if "xla" in problem.lower()] == []


def test_it_works_in_notebook_7(notebook_7: Lab) -> None:
    lab, sidebar = notebook_7, Sidebar(notebook_7)
    lab.command("xla-notebook:open")
    sidebar.load_button.click()
    expect(sidebar.connection).to_have_text("live")
    lab.run_cell(1)
    expect(sidebar.row("relu_sum")).to_be_visible()
    lab.start_cell(2)
    expect(sidebar.connection).to_contain_text("busy")
    sidebar.choose("Warm-up", "execute")
    sidebar.panel("Events")
    expect(sidebar.row("warm_up is now execute")).to_be_visible()
    assert lab.is_running(2), "the click acted while the cell was running"
    lab.write_file("seven")
    lab.wait_for_cell(2)
    assert lab.accessibility_violations("#xla-notebook-inspector") == []
