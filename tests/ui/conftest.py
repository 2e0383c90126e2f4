"""One JupyterLab server and one browser for all tests of this directory."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect, sync_playwright

from .cells import LOAD
from .lab import Lab, launch, server, settings_of
from .views import Sidebar

SHOTS = Path(__file__).parents[2] / "build" / "screenshots"


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        started = launch(playwright)
        yield started
        started.close()


@pytest.fixture(scope="session")
def lab_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    directory = tmp_path_factory.mktemp("lab")
    with server(directory) as address:
        yield address, directory / "files"


@pytest.fixture
def lab(browser: Browser, lab_server: tuple[str, Path], request: pytest.FixtureRequest) -> Iterator[Lab]:
    """JupyterLab in a page of its own. Pictures of it, its end among them, are kept in ``build/screenshots``."""
    SHOTS.mkdir(parents=True, exist_ok=True)
    # What another test chose in the Settings Editor.
    shutil.rmtree(settings_of(lab_server[1]), ignore_errors=True)
    page = browser.new_page(viewport={"width": 1400, "height": 900})
    opened = Lab(page, *lab_server, SHOTS)
    yield opened
    opened.screenshot(f"end-of-{request.node.name}")
    page.close()
    opened.shut_down_kernels()
    assert opened.problems == []


@pytest.fixture
def sidebar(lab: Lab) -> Sidebar:
    return Sidebar(lab)


@pytest.fixture
def open_beside(lab: Lab, sidebar: Sidebar, request: pytest.FixtureRequest) -> Callable[..., str]:
    """Opens a notebook with the sidebar beside it, and runs its first cell, which loads the extension."""

    def open_with(*cells: str) -> str:
        name = lab.write_notebook(f"{request.node.name.partition('[')[0]}.ipynb", [LOAD, *cells])
        lab.open_notebook(name)
        lab.command("xla-notebook:open")
        lab.run_cell(0)
        expect(sidebar.connection).to_have_text("live")
        return name

    return open_with
