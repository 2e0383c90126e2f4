"""The inspector widget in a real JupyterLab: what people see, and what their clicks do."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from .cells import BUSY, DOUBLE, HAZARD, LOAD, ON_HOST, SHOW, STEP
from .lab import SLOW_MS, Lab
from .views import View


@pytest.fixture
def notebook(lab: Lab, request: pytest.FixtureRequest) -> Callable[..., View]:
    """Opens a notebook with the inspector and further cells, and runs the first two."""

    def open_with(*cells: str) -> View:
        name = lab.write_notebook(f"{request.node.name.partition('[')[0]}.ipynb", [LOAD, SHOW, *cells])
        lab.open_notebook(name)
        lab.run_cell(0)
        lab.run_cell(1)
        return view(lab)

    return open_with


def view(lab: Lab, index: int = 0) -> View:
    found = View(lab.page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .xla-notebook").nth(index))
    expect(found.root).to_be_visible()
    return found


def test_it_shows_the_graphs_buffers_and_events_of_a_cell(lab: Lab, notebook: Callable[..., View]) -> None:
    shown = notebook(STEP)
    expect(shown.root.get_by_text("No graphs yet")).to_be_visible()
    lab.run_cell(2)
    shown.see()
    expect(shown.row("relu_sum")).to_be_visible()
    lab.screenshot("widget-graphs")
    shown.row("relu_sum").click()
    expect(shown.root.get_by_text(re.compile("float32 ?\\[?64"))).not_to_have_count(0)
    lab.screenshot("widget-graph-details")
    # JupyterLab's side of the extension goes to the line for the widget.
    shown.root.get_by_role("button", name=re.compile(r"^cell 3, line \d")).last.click()
    expect(lab.cell(2)).to_have_class(re.compile("jp-mod-active"))
    lab.page.wait_for_function("() => /^[xy] =/.test(window.getSelection().toString())")
    shown.see()
    shown.panel("Buffers")
    expect(shown.root.get_by_role("row").filter(has=lab.page.get_by_text("x", exact=True))).to_be_visible()
    lab.screenshot("widget-buffers")
    shown.panel("Events")
    expect(shown.row("compiled in")).to_be_visible()
    expect(shown.root.get_by_role("img", name=re.compile(r"warm-ups 2, runs 1\b"))).to_be_visible()
    lab.screenshot("widget-events")


def test_a_click_acts_in_the_middle_of_a_cell(lab: Lab, notebook: Callable[..., View]) -> None:
    shown = notebook(STEP, BUSY.format(go="click", after=DOUBLE))
    lab.run_cell(2)
    lab.start_cell(3)
    shown.see()
    expect(shown.root.get_by_role("status").filter(has_text="busy")).to_be_visible()
    shown.choose("Warm-up", "execute")
    # The radio alone is no proof, because the browser checks it; the kernel's own event is.
    shown.panel("Events")
    expect(shown.row("warm_up is now execute")).to_be_visible()
    assert lab.is_running(3), "the click acted while the cell was running"
    lab.write_file("click")
    lab.wait_for_cell(3)
    shown.see()
    expect(shown.row(re.compile(r"warming up \(execute\)"))).to_be_visible()
    shown.choose("Warm-up", "compile")
    expect(shown.row("warm_up is now compile")).to_be_visible()


def test_a_hazard_stands_out(lab: Lab, notebook: Callable[..., View]) -> None:
    shown = notebook(HAZARD)
    expect(shown.root.get_by_text("no hazards")).to_be_visible()
    lab.run_cell(2)
    shown.see()
    button = shown.root.get_by_role("button", name=re.compile("hazard"))
    expect(button).to_be_visible()
    button.click()
    expect(shown.row(re.compile("donated"))).to_be_visible()
    lab.screenshot("widget-hazard")


def test_operators_that_ran_on_the_host_are_told_after_the_cell(lab: Lab, notebook: Callable[..., View]) -> None:
    shown = notebook(ON_HOST)
    lab.run_cell(2)
    shown.see()
    shown.panel("Events")
    told = shown.row("ran on the host")
    expect(told).to_contain_text("aten::nonzero (3 times)")
    told.get_by_role("button", name=re.compile("^cell 3")).click()
    expect(lab.cell(2)).to_have_class(re.compile("jp-mod-active"))
    shown.see()
    lab.screenshot("widget-host-operators")


def test_it_is_back_after_the_page_was_loaded_anew(lab: Lab, notebook: Callable[..., View]) -> None:
    notebook(STEP)
    lab.run_cell(2)
    lab.save()
    lab.page.reload()
    lab.wait_for_kernel()
    shown = view(lab)
    shown.see()
    expect(shown.row("relu_sum")).to_be_visible()
    shown.choose("Freeze", "warn")
    shown.panel("Events")
    expect(shown.row("freeze is now warn")).to_be_visible()


def test_it_is_back_and_acts_after_the_page_was_loaded_anew_in_a_long_cell(
    lab: Lab, notebook: Callable[..., View]
) -> None:
    notebook(STEP, BUSY.format(go="reloaded", after=""))
    lab.run_cell(2)
    lab.save()
    lab.start_cell(3)
    lab.page.reload()
    expect(lab.cell(3)).to_be_visible()
    # JupyterLab restores widgets from the kernel's main thread, so that this one is back when the cell has ended.
    lab.write_file("reloaded")
    lab.wait_for_kernel()
    shown = view(lab)
    shown.see()
    expect(shown.row("relu_sum")).to_be_visible(timeout=SLOW_MS)
    shown.choose("Freeze", "warn")
    shown.panel("Events")
    expect(shown.row("freeze is now warn")).to_be_visible()


def test_after_a_restart_it_says_so_and_the_last_state_stays(lab: Lab, notebook: Callable[..., View]) -> None:
    shown = notebook(STEP)
    lab.run_cell(2)
    lab.restart_kernel()
    shown.see()
    expect(shown.root.get_by_role("status").first).to_have_text(re.compile("disconnected|not connected", re.I))
    expect(shown.choice("Warm-up", "execute")).to_be_disabled()
    expect(lab.cell(1).locator(".xla-notebook-saved")).to_contain_text("relu_sum")
    lab.run_cell(0)
    lab.run_cell(1)
    again = view(lab)
    expect(again.root.get_by_role("status").first).not_to_have_text(re.compile("disconnected", re.I))


def test_a_saved_notebook_shows_the_last_state_without_a_kernel(lab: Lab, notebook: Callable[..., View]) -> None:
    notebook(STEP)
    lab.run_cell(2)
    lab.save()
    name = "test_a_saved_notebook_shows_the_last_state_without_a_kernel.ipynb"
    lab.page.wait_for_timeout(1000)
    bundles = [output["data"] for output in lab.read_notebook(name).cells[1].outputs]
    (saved,) = [data for data in bundles if "application/vnd.jupyter.widget-view+json" not in data]
    assert "relu_sum" in saved["text/plain"]
    assert "relu_sum" in saved["text/html"]


def test_two_views_agree(lab: Lab, notebook: Callable[..., View]) -> None:
    notebook(SHOW, STEP)
    lab.run_cell(2)
    lab.run_cell(3)
    first, second = view(lab, 0), view(lab, 1)
    for shown in (first, second):
        shown.see()
        expect(shown.row("relu_sum")).to_be_visible()
    first.see()
    first.choose("Freeze", "warn")
    second.see()
    expect(second.choice("Freeze", "warn")).to_be_checked()


@pytest.mark.parametrize("theme", ["JupyterLab Light", "JupyterLab Dark"])
def test_axe_finds_nothing(lab: Lab, notebook: Callable[..., View], theme: str) -> None:
    shown = notebook(STEP, HAZARD)
    lab.run_cell(2)
    lab.run_cell(3)
    lab.use_theme(theme)
    shown.see()
    expect(shown.row("relu_sum")).to_be_visible()
    violations = []
    for panel in ("Graphs", "Buffers", "Events", "Settings"):
        shown.panel(panel)
        lab.screenshot(f"widget-{panel.lower()}-{theme.rpartition(' ')[2].lower()}")
        violations += lab.accessibility_violations(".jp-OutputArea .xla-notebook")
    assert violations == []
