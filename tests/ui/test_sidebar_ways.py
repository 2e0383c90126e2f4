"""The ways between the sidebar and the rest of JupyterLab: to and from cells, notifications, commands, settings."""

from __future__ import annotations

import re
from collections.abc import Callable

from playwright.sync_api import expect

from .cells import DONATED, HAZARD, LOAD, OTHER_STEP, SAVED, STEP, TWO_GRAPHS
from .lab import Lab
from .views import Sidebar


def test_a_link_goes_to_the_line_of_the_cell_also_after_it_moved_and_says_when_it_is_gone(
    lab: Lab, sidebar: Sidebar, open_beside: Callable[..., str]
) -> None:
    open_beside(STEP, "'last'")
    lab.run_cell(1)
    lab.cell(2).click()
    lab.command("notebook:move-cell-up")
    expect(lab.cell(2)).to_contain_text("relu_sum")
    sidebar.row("relu_sum").click()
    link = sidebar.root.get_by_role("button", name=re.compile(r"^cell 2"))
    link.first.click()
    expect(lab.cell(2)).to_have_class(re.compile("jp-mod-active"))
    # The line of the graph is selected.
    lab.page.wait_for_function("() => /^[xy] =/.test(window.getSelection().toString())")
    lab.screenshot("sidebar-jump")
    lab.command("notebook:delete-cell")
    expect(lab.page.get_by_text("'last'")).to_be_visible()
    link.first.click()
    expect(lab.page.locator(".jp-toast-message, .Toastify__toast").get_by_text("is gone")).to_be_visible()


def test_a_buffer_leads_to_where_it_was_saved_and_to_where_it_was_donated(
    lab: Lab, sidebar: Sidebar, open_beside: Callable[..., str]
) -> None:
    open_beside(SAVED, DONATED)
    lab.run_cell(1)
    lab.run_cell(2)
    sidebar.panel("Buffers")
    sidebar.root.get_by_role("button", name="1 used after donation").click()
    sidebar.row("constant 0").click()
    details = sidebar.root.get_by_role("region", name=re.compile("constant 0"))
    expect(details).to_contain_text("was donated by a step barrier")
    details.get_by_text("a graph still counts on it").get_by_role("button").click()
    lab.page.wait_for_function("() => /sync/.test(window.getSelection().toString())")
    expect(lab.cell(2)).to_have_class(re.compile("jp-mod-active"))
    lab.screenshot("sidebar-buffer-jump")
    details.get_by_role("listitem").filter(has_text="read by").get_by_role("button", name=re.compile("^cell")).click()
    expect(lab.cell(1)).to_have_class(re.compile("jp-mod-active"))


def test_a_cell_leads_to_its_graphs(lab: Lab, sidebar: Sidebar, open_beside: Callable[..., str]) -> None:
    open_beside(STEP, TWO_GRAPHS, "'no graphs'")
    lab.run_cell(1)
    lab.run_cell(2)
    expect(sidebar.row("relu_sum")).to_be_visible()
    sidebar.panel("Settings")
    lab.cell(3).click()
    button = lab.page.locator(".jp-cell-toolbar:visible [data-command='xla-notebook:show-cell-graphs']")
    expect(button).to_be_hidden()
    lab.cell(1).click()
    expect(button).to_be_visible()
    lab.screenshot("sidebar-cell-toolbar")
    button.click()
    expect(sidebar.root.get_by_role("region", name=re.compile("relu_sum"))).to_be_visible()
    lab.cell(2).click()
    expect(button).to_have_attribute("title", re.compile("Show the 2 XLA graphs"))
    button.click()
    expect(sidebar.root.get_by_text("2 graphs")).to_be_visible()
    expect(sidebar.row("relu_sum")).to_have_count(0)
    lab.screenshot("sidebar-cell-graphs")
    sidebar.root.get_by_role("button", name="only cell 3").click()
    expect(sidebar.row("relu_sum")).to_be_visible()


def test_a_hazard_is_told_once_with_a_way_to_it(lab: Lab, sidebar: Sidebar, open_beside: Callable[..., str]) -> None:
    open_beside(HAZARD, "3 + 3")
    expect(sidebar.root.get_by_text("no hazards")).to_be_visible()
    # Told also while the panel is closed.
    lab.command("application:toggle-right-area")
    lab.run_cell(1)
    toast = lab.page.locator(".Toastify__toast").filter(has_text="azard")
    expect(toast).to_have_count(1)
    expect(lab.page.locator(".jp-xla-Status")).to_contain_text("hazard")
    lab.screenshot("sidebar-hazard")
    toast.get_by_role("button", name="Show").click()
    expect(sidebar.row(re.compile("donated"))).to_be_visible()
    expect(toast).to_have_count(0)
    lab.run_cell(2)
    lab.page.reload()
    expect(lab.page.locator(".jp-xla-Status")).to_contain_text("hazard")
    expect(toast).to_have_count(0)


def test_commands_act_on_the_kernel_in_front(lab: Lab, sidebar: Sidebar, open_beside: Callable[..., str]) -> None:
    open_beside(STEP)
    lab.run_cell(1)
    expect(sidebar.row("relu_sum")).to_be_visible()
    lab.page.keyboard.press("Control+Alt+w")
    expect(sidebar.choice("Warm-up", "off")).to_be_checked()
    lab.command("apputils:activate-command-palette")
    palette = lab.page.locator("#command-palette, .lm-CommandPalette").first
    palette.get_by_role("searchbox").or_(palette.locator("input")).first.fill("XLA")
    for label in ("Show XLA Inspector", "Freeze", "Drop All Cached Graphs", "Export XLA Session", "Copy XLA Report"):
        expect(palette.get_by_text(label).first).to_be_visible()
    lab.screenshot("sidebar-palette")
    lab.page.keyboard.press("Escape")
    with lab.page.expect_download() as download:
        lab.command("xla-notebook:export")
    assert re.fullmatch(r"xla-session-.*\.json", download.value.suggested_filename)
    lab.command("xla-notebook:copy-report")
    expect(lab.page.get_by_text("The report is in the clipboard")).to_be_visible()
    lab.command("xla-notebook:clear")
    lab.page.locator(".jp-Dialog").get_by_role("button", name="Drop Them").click()
    expect(sidebar.row("relu_sum")).to_have_count(0)


def test_settings_choose_the_panels_and_the_thresholds(
    lab: Lab, sidebar: Sidebar, open_beside: Callable[..., str]
) -> None:
    open_beside(STEP, OTHER_STEP)
    lab.run_cell(1)
    lab.run_cell(2)
    status = lab.page.locator(".jp-xla-Status")
    expect(status).to_contain_text("2 graphs")
    expect(sidebar.root.get_by_role("tab")).to_have_count(4)
    lab.command("settingeditor:open", query="XLA Inspector")
    limit = lab.page.locator("input[id$='_graphsWarning']")
    expect(limit).to_be_visible()
    lab.screenshot("sidebar-settings")
    limit.fill("1")
    expect(status).to_have_class(re.compile("jp-mod-warn"))
    limit.fill("2")
    expect(status).not_to_have_class(re.compile("jp-mod-warn"))
    lab.page.locator("select[id$='_panels']").select_option(["graphs", "events"])
    expect(sidebar.root.get_by_role("tab")).to_have_text(["Graphs", "Events"])


def test_settings_say_whether_a_closed_panel_watches_and_what_it_does_at_a_hazard(lab: Lab, sidebar: Sidebar) -> None:
    lab.write_settings(openOnHazard=True, notifyHazards=False, savedMiBWarning=1e-6, watch=False)
    lab.open_notebook(lab.write_notebook("settings.ipynb", [LOAD, SAVED, HAZARD]))
    status = lab.page.locator(".jp-xla-Status")
    lab.run_cell(0)
    lab.run_cell(1)
    # Nobody looks, so that there is nothing to say.
    expect(status).to_be_hidden()
    lab.write_settings(openOnHazard=True, notifyHazards=False, savedMiBWarning=1e-6)
    lab.page.reload()
    lab.wait_for_kernel()
    expect(status).to_contain_text("1 graph, 8 B saved")
    expect(status).to_have_class(re.compile("jp-mod-warn"))
    expect(sidebar.root).to_be_hidden()
    lab.run_cell(2)
    expect(sidebar.root.get_by_role("region", name="hazard")).to_be_visible()
    expect(sidebar.row("self.n, which forward needs")).to_be_in_viewport()
    lab.screenshot("sidebar-open-on-hazard")
    expect(lab.page.locator(".Toastify__toast")).to_have_count(0)
