"""The sidebar in a real JupyterLab: it follows the notebook in front, and tells of its kernel."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Locator, expect

from .cells import BUSY, DOUBLE, HAZARD, LOAD, OTHER_STEP, STEP
from .lab import Lab
from .views import Sidebar


def front_kernel_statuses(lab: Lab) -> Callable[[], list[str]]:
    """Begin to note the statuses of the kernel in front; the result gives them."""
    lab.page.evaluate(
        "() => { const { kernel } = window.jupyterapp.shell.currentWidget.sessionContext.session;"
        " window.statuses = [kernel.status];"
        " kernel.statusChanged.connect((_, status) => window.statuses.push(status)); }"
    )
    return lambda: list(lab.page.evaluate("window.statuses"))


def prompt(lab: Lab, index: int) -> Locator:
    return lab.cell(index).locator(".jp-InputPrompt")


def activate(lab: Lab, name: str) -> None:
    lab.page.locator(".lm-DockPanel-tabBar").get_by_role("tab", name=name).click()


def test_a_kernel_without_the_extension_is_offered_a_visible_cell(lab: Lab, sidebar: Sidebar) -> None:
    lab.open_notebook(lab.write_notebook("offered.ipynb", ["1 + 1"]))
    lab.command("xla-notebook:open")
    expect(sidebar.root.get_by_text("is not loaded in this kernel")).to_be_visible()
    lab.screenshot("sidebar-not-loaded")
    assert lab.accessibility_violations("#xla-notebook-inspector") == []
    sidebar.load_button.click()
    expect(sidebar.connection).to_have_text("live")
    expect(sidebar.load_button).to_have_count(0)
    expect(lab.cell(0)).to_contain_text("%load_ext xla_notebook")
    expect(prompt(lab, 0)).to_have_text("[1]:")
    lab.run_cell(1)
    # Nothing but these two cells was executed.
    expect(prompt(lab, 1)).to_have_text("[2]:")


def test_a_click_acts_in_the_middle_of_a_cell_and_the_busy_indicator_tells_of_the_cell_alone(
    lab: Lab, sidebar: Sidebar, open_beside: Callable[..., str]
) -> None:
    open_beside(STEP, BUSY.format(go="clicked", after=DOUBLE), "2 + 2")
    lab.run_cell(1)
    expect(sidebar.row("relu_sum")).to_be_visible()
    lab.wait_for_kernel()
    statuses = front_kernel_statuses(lab)
    sidebar.choose("Freeze", "warn")
    sidebar.panel("Events")
    expect(sidebar.row("freeze is now warn")).to_be_visible()
    lab.start_cell(2)
    expect(sidebar.connection).to_contain_text("busy")
    sidebar.choose("Warm-up", "execute")
    expect(sidebar.row("warm_up is now execute")).to_be_visible()
    assert lab.is_running(2), "the click acted while the cell was running"
    lab.screenshot("sidebar-busy")
    lab.write_file("clicked")
    lab.wait_for_cell(2)
    expect(sidebar.row(re.compile(r"warming up \(execute\)"))).to_be_visible()
    lab.wait_for_kernel()
    assert statuses() == ["idle", "busy", "idle"]
    lab.run_cell(3)
    expect(prompt(lab, 3)).to_have_text("[4]:")


def test_it_connects_and_acts_after_a_reload_in_the_middle_of_a_cell(
    lab: Lab, sidebar: Sidebar, open_beside: Callable[..., str]
) -> None:
    open_beside(STEP, BUSY.format(go="acted", after=DOUBLE))
    lab.run_cell(1)
    lab.save()
    lab.start_cell(2)
    expect(sidebar.connection).to_contain_text("busy")
    lab.page.reload()
    # The panel is where it was, and the view is there although JupyterLab itself waits for the kernel.
    expect(sidebar.connection).to_contain_text("busy")
    sidebar.choose("Warm-up", "execute")
    sidebar.panel("Events")
    expect(sidebar.row("warm_up is now execute")).to_be_visible()
    expect(sidebar.connection).to_contain_text("busy")
    lab.write_file("acted")
    expect(sidebar.row(re.compile(r"warming up \(execute\)"))).to_be_visible()


def test_notebooks_on_different_kernels_never_mix(lab: Lab, sidebar: Sidebar, open_beside: Callable[..., str]) -> None:
    first = open_beside(STEP)
    lab.run_cell(1)
    expect(sidebar.row("relu_sum")).to_be_visible()
    second = lab.write_notebook("second.ipynb", [LOAD, OTHER_STEP])
    lab.command("docmanager:open", path=second)
    expect(sidebar.heading).to_have_text(second)
    expect(sidebar.load_button).to_be_visible()
    expect(sidebar.row("relu_sum")).to_have_count(0)
    lab.wait_for_kernel()
    lab.run_cell(0)
    lab.run_cell(1)
    expect(sidebar.row("other_graph")).to_be_visible()
    expect(sidebar.row("relu_sum")).to_have_count(0)
    activate(lab, first)
    expect(sidebar.heading).to_have_text(first)
    expect(sidebar.row("relu_sum")).to_be_visible()
    expect(sidebar.row("other_graph")).to_have_count(0)
    activate(lab, second)
    expect(sidebar.row("other_graph")).to_be_visible()
    expect(sidebar.row("relu_sum")).to_have_count(0)


def test_a_restart_is_told_and_healed_by_loading_again(
    lab: Lab, sidebar: Sidebar, open_beside: Callable[..., str]
) -> None:
    open_beside(STEP)
    lab.run_cell(1)
    expect(sidebar.row("relu_sum")).to_be_visible()
    lab.restart_kernel()
    expect(sidebar.load_button).to_be_visible()
    expect(sidebar.connection).to_have_text("disconnected")
    lab.screenshot("sidebar-restarted")
    lab.run_cell(0)
    expect(sidebar.connection).to_have_text("live")
    expect(sidebar.root.get_by_text("No graphs yet")).to_be_visible()
    lab.run_cell(1)
    expect(sidebar.row("relu_sum")).to_be_visible()


def test_a_dead_kernel_is_told_and_healed_by_loading_again(
    lab: Lab, sidebar: Sidebar, open_beside: Callable[..., str]
) -> None:
    open_beside("import os; os._exit(1)")
    lab.start_cell(1)
    expect(sidebar.connection).to_have_text("disconnected")
    # The server starts it anew.
    dialog = lab.page.locator(".jp-Dialog").get_by_role("button", name="Ok")
    dialog.click()
    expect(sidebar.load_button).to_be_visible()
    lab.wait_for_kernel()
    lab.run_cell(0)
    expect(sidebar.connection).to_have_text("live")


def test_a_lost_connection_is_told_and_comes_back_with_what_was_missed(
    lab: Lab, sidebar: Sidebar, open_beside: Callable[..., str]
) -> None:
    open_beside(BUSY.format(go="missed", after="x = torch.ones(3, device='xla')\n" + DOUBLE))
    lab.start_cell(1)
    expect(sidebar.connection).to_contain_text("busy")
    lab.page.context.set_offline(True)
    # It takes a moment, in which a new socket would be opened, and after which closing the old one would take minutes.
    lab.page.wait_for_function("() => fetch('/api').then(() => false, () => true)")
    lab.page.evaluate(
        """() => {
            const { kernel } = window.jupyterapp.shell.currentWidget.sessionContext.session;
            kernel._ws.onclose(new CloseEvent('close', { code: 1006 }));
        }"""
    )
    expect(sidebar.connection).to_contain_text("stale")
    lab.screenshot("sidebar-stale")
    lab.write_file("missed")
    lab.page.context.set_offline(False)
    expect(sidebar.connection).to_have_text("live")
    expect(sidebar.row("lambda")).to_be_visible()


def test_it_follows_a_rename_and_an_interrupt_and_a_closed_and_reopened_notebook(
    lab: Lab, sidebar: Sidebar, open_beside: Callable[..., str]
) -> None:
    name = open_beside(STEP, BUSY.format(go="never", after=""))
    lab.run_cell(1)
    lab.start_cell(2)
    expect(sidebar.connection).to_contain_text("busy")
    lab.command("notebook:interrupt-kernel")
    expect(sidebar.connection).to_have_text("live")
    # What comes after the save would make the notebook ask before it closes.
    expect(lab.page.locator(".jp-OutputArea").get_by_text("KeyboardInterrupt").first).to_be_visible()
    lab.save()
    lab.page.evaluate(
        "names => window.jupyterapp.serviceManager.contents.rename(names[0], names[1])", [name, "renamed.ipynb"]
    )
    expect(sidebar.heading).to_have_text("renamed.ipynb")
    expect(sidebar.row("relu_sum")).to_be_visible()
    lab.command("application:close")
    expect(sidebar.heading).to_have_text("No notebook is open")
    lab.screenshot("sidebar-empty")
    lab.command("docmanager:open", path="renamed.ipynb")
    expect(sidebar.row("relu_sum")).to_be_visible()
    expect(sidebar.connection).to_have_text("live")


def test_a_console_is_followed_too(lab: Lab, sidebar: Sidebar) -> None:
    lab.open_notebook(lab.write_notebook("beside.ipynb", ["1"]))
    lab.command("xla-notebook:open")
    lab.command("console:create", kernelPreference={"name": "python3"}, activate=True)
    expect(sidebar.heading).to_have_text(re.compile("Console"))
    expect(sidebar.load_button).to_be_visible()
    sidebar.load_button.click()
    expect(lab.page.locator(".jp-CodeConsole-content")).to_contain_text("%load_ext xla_notebook")
    expect(sidebar.connection).to_have_text("live")
    lab.screenshot("sidebar-console")


@pytest.mark.parametrize("theme", ["JupyterLab Light", "JupyterLab Dark"])
def test_axe_finds_nothing_in_the_sidebar(
    lab: Lab, sidebar: Sidebar, open_beside: Callable[..., str], theme: str
) -> None:
    open_beside(STEP, HAZARD)
    lab.run_cell(1)
    lab.run_cell(2)
    lab.use_theme(theme)
    violations = []
    for panel in ("Graphs", "Buffers", "Events", "Settings"):
        sidebar.panel(panel)
        lab.screenshot(f"sidebar-{panel.lower()}-{theme.rpartition(' ')[2].lower()}")
        violations += lab.accessibility_violations("#xla-notebook-inspector")
    violations += lab.accessibility_violations(".jp-xla-Status")
    assert violations == []
