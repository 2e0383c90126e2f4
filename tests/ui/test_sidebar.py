"""The sidebar in a real JupyterLab: it follows the notebook in front, tells of its kernel, and leads to its cells."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, expect

from .conftest import SHOTS
from .lab import Lab, server
from .test_widget import BUSY, DOUBLE, HAZARD, LOAD, STEP, View

OTHER_STEP = STEP.replace("relu_sum", "other_graph")
# Where only the button loads the extension.
TORCH_STEP = STEP.replace("\n", "\nimport time, torch\n", 1)
# A graph that keeps a constant; then a twin of it, as another extension could make one, is updated in place.
SAVED = """keeps = torch.compile(lambda x: x * torch.tensor([1.0, 2.0], device=x.device), backend="xla_notebook")
x = torch.ones(2, device="xla")
y = keeps(x)"""
DONATED = """import xla_notebook
from xla_notebook.backend import cache, runtime
twin = runtime.wrapper(cache.graphs()[0].saved[0]).add_(1)
torch_xla.sync(wait=True)
xla_notebook.current_session().set(on_donated="raise")
keeps(x)"""
# Its first line is short: JupyterLab hides the toolbar of a cell whose text would lie below it.
TWO_GRAPHS = """sizes = 2, 3
double = torch.compile(lambda t: t * 2, backend="xla_notebook", dynamic=False)
for size in sizes:
    double(torch.ones(size, device="xla"))"""
LOAD_BUTTON = re.compile("Run %load_ext")


class Sidebar(View):
    """The panel on the right."""

    def __init__(self, lab: Lab) -> None:
        super().__init__(lab.page.locator("#xla-notebook-inspector"))
        self.heading = self.root.get_by_role("heading", level=2)
        self.connection = self.root.locator(".xla-notebook").get_by_role("status").first
        self.load_button = self.root.get_by_role("button", name=LOAD_BUTTON)

    def choose(self, setting: str, value: str) -> None:
        # Not `check`: the radio shows what the kernel has confirmed.
        self.choice(setting, value).click(force=True)


@pytest.fixture
def sidebar(lab: Lab) -> Sidebar:
    return Sidebar(lab)


@pytest.fixture
def notebook(lab: Lab, sidebar: Sidebar, request: pytest.FixtureRequest) -> Callable[..., str]:
    """Opens a notebook with the sidebar beside it, and runs its first cell, which loads the extension."""

    def open_with(*cells: str) -> str:
        name = lab.write_notebook(f"{request.node.name.partition('[')[0]}.ipynb", [LOAD, *cells])
        lab.open_notebook(name)
        lab.command("xla-notebook:open")
        lab.run_cell(0)
        expect(sidebar.connection).to_have_text("live")
        return name

    return open_with


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
    lab: Lab, sidebar: Sidebar, notebook: Callable[..., str]
) -> None:
    notebook(STEP, BUSY.format(go="clicked", after=DOUBLE), "2 + 2")
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
    lab: Lab, sidebar: Sidebar, notebook: Callable[..., str]
) -> None:
    notebook(STEP, BUSY.format(go="acted", after=DOUBLE))
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


def test_notebooks_on_different_kernels_never_mix(lab: Lab, sidebar: Sidebar, notebook: Callable[..., str]) -> None:
    first = notebook(STEP)
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
    lab: Lab, sidebar: Sidebar, notebook: Callable[..., str]
) -> None:
    notebook(STEP)
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
    lab: Lab, sidebar: Sidebar, notebook: Callable[..., str]
) -> None:
    notebook("import os; os._exit(1)")
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
    lab: Lab, sidebar: Sidebar, notebook: Callable[..., str]
) -> None:
    notebook(BUSY.format(go="missed", after="x = torch.ones(3, device='xla')\n" + DOUBLE))
    lab.start_cell(1)
    expect(sidebar.connection).to_contain_text("busy")
    lab.page.context.set_offline(True)
    lab.page.evaluate("() => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel._ws.close()")
    expect(sidebar.connection).to_contain_text("stale")
    lab.screenshot("sidebar-stale")
    lab.write_file("missed")
    lab.page.context.set_offline(False)
    expect(sidebar.connection).to_have_text("live")
    expect(sidebar.row("lambda")).to_be_visible()


def test_it_follows_a_rename_and_an_interrupt_and_a_closed_and_reopened_notebook(
    lab: Lab, sidebar: Sidebar, notebook: Callable[..., str]
) -> None:
    name = notebook(STEP, BUSY.format(go="never", after=""))
    lab.run_cell(1)
    lab.start_cell(2)
    expect(sidebar.connection).to_contain_text("busy")
    lab.command("notebook:interrupt-kernel")
    expect(sidebar.connection).to_have_text("live")
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


def test_a_link_goes_to_the_line_of_the_cell_also_after_it_moved_and_says_when_it_is_gone(
    lab: Lab, sidebar: Sidebar, notebook: Callable[..., str]
) -> None:
    notebook(STEP, "'last'")
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
    lab: Lab, sidebar: Sidebar, notebook: Callable[..., str]
) -> None:
    notebook(SAVED, DONATED)
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


def test_a_cell_leads_to_its_graphs(lab: Lab, sidebar: Sidebar, notebook: Callable[..., str]) -> None:
    notebook(STEP, TWO_GRAPHS, "'no graphs'")
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


def test_a_hazard_is_told_once_with_a_way_to_it(lab: Lab, sidebar: Sidebar, notebook: Callable[..., str]) -> None:
    notebook(HAZARD, "3 + 3")
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


def test_commands_act_on_the_kernel_in_front(lab: Lab, sidebar: Sidebar, notebook: Callable[..., str]) -> None:
    notebook(STEP)
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
    lab: Lab, sidebar: Sidebar, notebook: Callable[..., str]
) -> None:
    notebook(STEP, OTHER_STEP)
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
def test_axe_finds_nothing_in_the_sidebar(lab: Lab, sidebar: Sidebar, notebook: Callable[..., str], theme: str) -> None:
    notebook(STEP, HAZARD)
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
