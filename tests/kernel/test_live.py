"""Pages that look at a real kernel: what they see, and what their clicks do, also while a cell runs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kernel_client import Kernel
from page_client import Page

pytestmark = pytest.mark.kernel

STEP = """
%%xla_compile --name shown
x = torch.ones(8, device="xla")
y = x * 3 + 1
"""
# Goes on for `n` tenths of a second, in Python that lets other threads run.
LONG = """
import time
for _ in range({n}):
    time.sleep(0.1)
{after}
"""


@pytest.fixture
def page(own_kernel: Kernel) -> Iterator[Page]:
    page = own_kernel.page()
    page.open()
    yield page
    page.end()


@pytest.fixture
def prompt_page(page: Page) -> Page:
    if not page.prompt:
        pytest.skip("this ipykernel has no subshells: requests wait for the end of the cell")
    return page


def graph_names(page: Page) -> set[str]:
    return {graph["name"] for graph in page.graphs.values() if graph["state"] != "dropped"}


def test_a_page_sees_the_graph_of_a_cell_and_its_buffers(own_kernel: Kernel, page: Page) -> None:
    count = own_kernel.check("1").execution_count
    own_kernel.check(STEP)
    page.wait(lambda: any(graph["runs"] == 1 and graph["state"] == "warm" for graph in page.graphs.values()))
    page.wait(lambda: any("y" in [owner["name"] for owner in row["owners"]] for row in page.buffers.values()))
    page.wait(lambda: {"traced", "warmed", "cell"} <= {event["kind"] for event in page.events})
    page.wait(lambda: page.status["busy"] is None)
    assert own_kernel.check("1").execution_count == count + 2, "looking runs nothing"


def test_a_click_acts_while_a_cell_runs_and_the_next_compile_obeys(own_kernel: Kernel, prompt_page: Page) -> None:
    after = "f = torch.compile(lambda t: t - 5, backend='xla_notebook'); f(torch.ones(3, device='xla'))"
    cell = own_kernel.start(LONG.format(n=40, after=after))
    prompt_page.wait(lambda: prompt_page.status["busy"])
    assert prompt_page.ask("set_setting", name="warm_up", value="execute")["settings"]["warm_up"] == "execute"
    assert own_kernel.is_running(cell), "the answer came from within the cell"
    assert own_kernel.finish(cell).error is None
    prompt_page.wait(lambda: any(graph["warm_up"] == "execute" for graph in prompt_page.graphs.values()))
    assert prompt_page.ask("set_setting", name="warm_up", value="compile")["settings"]["warm_up"] == "compile"


def test_pushes_come_while_a_cell_runs(own_kernel: Kernel, page: Page) -> None:
    loop = "f = torch.compile(lambda t: t * 7, backend='xla_notebook')\nfor _ in range(30):\n"
    loop += "    f(torch.ones(5, device='xla')); time.sleep(0.1)"
    cell = own_kernel.start("import time\n" + loop)
    page.wait(lambda: any(0 < graph["runs"] < 20 for graph in page.graphs.values()) and page.status["busy"])
    assert own_kernel.finish(cell).error is None
    page.wait(lambda: any(graph["runs"] == 30 for graph in page.graphs.values()))


def test_buffers_are_looked_at_while_a_compiled_cell_runs(own_kernel: Kernel, page: Page) -> None:
    cell = own_kernel.start(
        "%%xla_compile\nimport time\nfresh = torch.zeros(3, device='xla')\nfor _ in range(60):\n"
        "    fresh = fresh + 1\n    time.sleep(0.05)"
    )
    page.wait(lambda: any(owner["name"] == "fresh" for row in page.buffers.values() for owner in row["owners"]))
    assert page.status["busy"], "seen while the cell runs"
    assert own_kernel.finish(cell).error is None


def test_without_a_subshell_a_click_waits_for_the_cell_and_pushes_still_come(own_kernel: Kernel) -> None:
    page = own_kernel.page(subshell=False)
    page.open()
    assert page.status["prompt"] is False
    cell = own_kernel.start(LONG.format(n=20, after="done = True"))
    page.wait(lambda: page.status["busy"])
    number = page.start("set_setting", name="guard", value=False)
    page.take(0.5)
    assert number not in page.answers
    assert own_kernel.finish(cell).error is None
    assert page.wait(lambda: page.answers.get(number))[0]["settings"]["guard"] is False
    page.ask("set_setting", name="guard", value=True)
    page.end()


def test_what_needs_the_cells_thread_waits_for_the_end_of_the_cell(own_kernel: Kernel, prompt_page: Page) -> None:
    own_kernel.check(STEP)
    graph = prompt_page.wait(lambda: next((g for g in prompt_page.graphs.values() if g["state"] == "warm"), None))
    cell = own_kernel.start(LONG.format(n=15, after=""))
    prompt_page.wait(lambda: prompt_page.status["busy"])
    number = prompt_page.start("get_hlo", graph_id=graph["graph_id"])
    details = prompt_page.ask("get_details", graph_id=graph["graph_id"])
    assert details["graph"]["name"] == graph["name"]
    assert number not in prompt_page.answers
    assert own_kernel.finish(cell).error is None
    (answer,) = prompt_page.wait(lambda: prompt_page.answers.get(number))
    assert answer["type"] == "hlo"
    assert "multiply" in answer["ops"] or "multiply" in answer["text"]


def test_hlo_diff_report_and_export_are_answered_between_cells(own_kernel: Kernel, page: Page) -> None:
    own_kernel.check(STEP)
    own_kernel.check(STEP.replace("* 3", "/ 3"))
    warm = page.wait(lambda: len(w := [g["graph_id"] for g in page.graphs.values() if g["runs"]]) > 1 and w)
    lines = page.ask("get_diff", first=warm[0], second=warm[-1])["lines"]
    assert any(line.startswith("+") for line in lines)
    assert "Device buffers" in page.ask("get_report")["text"]
    exported = page.ask("get_export")
    assert exported["filename"].endswith(".json")
    assert own_kernel.value(f"__import__('json').loads({exported['text']!r})['export']['snapshot']['seq'] > 0")


def test_clear_drops_the_graphs_and_the_page_sees_it(own_kernel: Kernel, page: Page) -> None:
    own_kernel.check(STEP)
    page.wait(lambda: graph_names(page))
    assert page.ask("clear")["graphs"] >= 1
    page.wait(lambda: not graph_names(page))


@pytest.mark.parametrize(
    ("request_kind", "fields", "code", "words"),
    [
        ("set_setting", {"name": "warm_up", "value": "exceute"}, "setting", "did you mean execute"),
        ("set_setting", {"name": "warm_upp", "value": "off"}, "setting", "did you mean warm_up"),
        ("set_setting", {"name": "guard", "value": 1}, "malformed", "value"),
        ("get_hlo", {"graph_id": 123456789}, "gone", "123456789"),
        ("get_details", {"graph_id": -1}, "malformed", "graph_id"),
        ("get_events", {"before": 5, "count": 10**9}, "malformed", "count"),
        ("run_code", {"code": "1/0"}, "malformed", "run_code"),
        ("clear", {"all": True}, "malformed", "all"),
    ],
)
def test_a_wrong_request_is_told_what_is_wrong(
    page: Page, request_kind: str, fields: dict[str, object], code: str, words: str
) -> None:
    before = dict(page.settings)
    answer = page.ask(request_kind, **fields)
    assert (answer["type"], answer["code"]) == ("failed", code)
    assert words in answer["text"]
    page.take(0.3)
    assert page.settings == before


def test_a_page_of_another_version_is_told(own_kernel: Kernel) -> None:
    page = own_kernel.page()
    page.tell({"type": "open", "protocol": 999})
    (answer,) = page.wait(lambda: page.answers.get(None))
    assert answer["code"] == "protocol"
    assert "999" in answer["text"]
    page.end()


def test_two_pages_see_the_same_truth_and_a_slow_one_gets_no_queue(own_kernel: Kernel, prompt_page: Page) -> None:
    page = prompt_page
    slow = own_kernel.page()
    slow.acknowledging = False
    slow.open()
    for number in range(12):
        own_kernel.check(f"z{number} = torch.zeros({number + 1}, device='xla') + 1; torch_xla.sync()")
        slow.take(0.1)
    assert len(slow.pushes) <= 4
    slow.acknowledging = True
    slow.tell({"type": "ack", "at": slow.at})
    names = {f"z{number}" for number in range(12)}

    def seen(page: Page) -> bool:
        return names <= {owner["name"] for row in page.buffers.values() for owner in row["owners"]}

    slow.wait(lambda: seen(slow))
    page.wait(lambda: seen(page))
    page.wait(lambda: page.at == slow.at or (slow.take(0.2), page.at == slow.at)[1])
    assert (page.graphs, page.buffers, page.settings) == (slow.graphs, slow.buffers, slow.settings)
    slow.end()


def test_nothing_runs_while_nobody_looks(own_kernel: Kernel, page: Page) -> None:
    threads = "[t.name for t in __import__('threading').enumerate() if t.name == 'xla_notebook feed']"
    assert own_kernel.value(threads)
    page.tell({"type": "show", "visible": False, "page": 1})
    page.wait(lambda: not own_kernel.value(threads))
    seen = len(page.pushes)
    own_kernel.check(STEP)
    page.take(0.5)
    assert len(page.pushes) == seen
    page.tell({"type": "show", "visible": True, "page": 1})
    page.wait(lambda: own_kernel.value(threads))


def test_reloading_the_extension_tells_the_page(own_kernel: Kernel) -> None:
    page = own_kernel.page()
    page.open()
    own_kernel.check("%reload_ext xla_notebook")
    page.wait(lambda: page.pushes[-1]["type"] == "closed")
    page.wait(lambda: page.closed)
    again = own_kernel.page()
    again.open()
    again.end()


def test_threads_of_the_users_print_into_their_cell_while_a_page_clicks(own_kernel: Kernel, prompt_page: Page) -> None:
    cell = own_kernel.start(LONG.format(n=10, after="print('the end')"))
    prompt_page.wait(lambda: prompt_page.status["busy"])
    prompt_page.ask("set_setting", name="guard", value=False)
    prompt_page.ask("set_setting", name="guard", value=True)
    assert own_kernel.finish(cell).stdout.endswith("the end\n")
