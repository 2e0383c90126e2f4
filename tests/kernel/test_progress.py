"""What a long compile shows, and how an interrupt ends it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from kernel_client import Kernel

pytestmark = pytest.mark.kernel

SOON = "from xla_notebook.notebook import progress\nprogress.DELAY_S = 0.02\n"


def slow(name: str, size: int, call: bool = True) -> str:
    """A cell whose one graph takes seconds to compile; `size` makes it a graph of its own."""
    return (
        f"def {name}(t):\n    for _ in range(60):\n"
        "        t = (t @ t).softmax(-1).tan().log1p().expm1().atan().erf()\n    return t\n"
        f"{name}_in = torch.ones({size}, {size}).to(dev)\n" + (f"{name}_out = {name}({name}_in)" if call else "")
    )


@pytest.fixture(autouse=True, scope="module")
def _soon(kernel: Kernel) -> Iterator[None]:
    kernel.check(SOON)
    yield
    kernel.check("progress.DELAY_S = 1.0")


def live(outputs: list[dict[str, Any]]) -> list[str]:
    """What stood in the cell's updatable output, one after the other."""
    shown = [output for output in outputs if output["type"] in ("display_data", "update_display_data")]
    assert [output["type"] for output in shown[1:]] == ["update_display_data"] * (len(shown) - 1)
    return [output["data"]["text/plain"] for output in shown]


def test_a_long_compile_shows_a_live_line_that_ends_as_the_summary(kernel: Kernel) -> None:
    kernel.check("small = torch.ones(3).to(dev)")
    cell = f"%%xla_compile\nfirst = small + 1\nprint('between')\n{slow('chain', 5)}"
    shown = kernel.check(cell)
    texts = live(shown.outputs)
    assert len(texts) > 2
    assert re.fullmatch(r"compiling graph 2, \d+ ops, \d+ s", texts[-2])
    assert texts[-1].startswith("2 graphs compiled in ")
    assert shown.stdout == "between\n"
    assert shown.stderr == ""
    again = kernel.check(cell)
    assert live(again.outputs) == []
    assert again.stdout == "between\n2 graphs reused\n"


def test_a_plain_cell_that_compiles_shows_it_too_and_a_quiet_one_nothing(kernel: Kernel) -> None:
    kernel.check(f"%%xla_compile\n{slow('later', 6, call=False)}")
    texts = live(kernel.check("y = later(later_in)").outputs)
    assert texts[0].startswith("compiling graph 1, ")
    assert texts[-1].startswith("1 graph compiled in ")
    assert kernel.check(f"%%xla_compile --quiet\n{slow('quiet', 7)}").outputs == []


def test_an_interrupt_while_compiling_is_one_keyboard_interrupt_and_leaves_all_clean(kernel: Kernel) -> None:
    cell = f"%%xla_compile --name stopped\n{slow('stopped', 8)}\nafter = 1"
    running = kernel.start(cell)
    while True:
        message = kernel.next_output(running, timeout=60)
        assert message["content"].get("execution_state") != "idle", "the cell ended before it was interrupted"
        if message["msg_type"] == "display_data":
            assert "compiling graph 1" in message["content"]["data"]["text/plain"]
            break
    kernel.interrupt()
    shown = kernel.finish(running)
    assert shown.error is not None
    assert shown.error[0] == "KeyboardInterrupt"
    texts = [output["data"]["text/plain"] for output in shown.outputs if output["type"] == "update_display_data"]
    assert texts[-1] == ""
    assert [output["type"] for output in shown.outputs].count("error") == 1
    assert kernel.value("[n for n in ('stopped_out', 'after') if n in globals()]") == []
    assert "stopped_out" not in kernel.value("pending()")
    assert kernel.check(cell).stderr == ""
    assert kernel.value("torch.isfinite(stopped_out.cpu()).all().item(), after") == (True, 1)
    assert "1 graph reused" in kernel.check(cell).stdout
