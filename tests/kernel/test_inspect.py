"""What the inspecting magics print, in a kernel that compiles for real."""

from __future__ import annotations

import re

import pytest
from kernel_client import Kernel, Shown

pytestmark = pytest.mark.kernel

MODEL = """
import torch, torch_xla
device = torch_xla.device()
model = torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.ReLU()).to(device)
x = torch.rand(6, 8).to(device)
torch_xla.sync(wait=True)
"""
BODY = "%%xla_compile\ndef predict(batch):\n    return model(batch)\n"


@pytest.fixture(scope="module")
def used(bare_kernel: Kernel) -> Kernel:
    """A kernel in which one function has run with two batch sizes."""
    bare_kernel.check("%load_ext xla_notebook")
    bare_kernel.check(MODEL)
    bare_kernel.check(BODY)
    bare_kernel.check("first = predict(x[:5])")
    bare_kernel.check("second = predict(x[:2])")
    return bare_kernel


def shown(kernel: Kernel, line: str) -> str:
    """The text that a magic shows, printed or as a table."""
    output: Shown = kernel.check(line)
    tables = [made["data"]["text/plain"] for made in output.outputs if made["type"] == "display_data"]
    return output.stdout + "".join(tables)


def page(kernel: Kernel, line: str) -> str:
    (output,) = (made for made in kernel.check(line).outputs if made["type"] == "display_data")
    html: str = output["data"]["text/html"]
    return html


def test_buffers_are_named_and_looking_computes_nothing(used: Kernel) -> None:
    used.check("pending = x + 1")
    text = shown(used, "%xla_buffers --all")
    assert re.search(r"model\[0\]\.weight +float32 +4x8 +128 B +live", text)
    assert re.search(r"\n +pending +float32 +6x8 +192 B +pending", text)
    assert re.search(r"\d+ buffers, .* live \(.*module 144 B", text)
    assert used.value("torch_xla._XLAC._check_tensor_need_materialization([pending])") == [True]


def test_names_are_text_and_never_markup(used: Kernel) -> None:
    used.check("styles = {'<b>': torch.rand(3).to(device)}\ntorch_xla.sync(wait=True)")
    html = page(used, "%xla_buffers --all")
    assert "styles[&#x27;&lt;b&gt;&#x27;]" in html
    assert "<b>" not in html


def test_buffers_of_a_failed_cell_are_named(used: Kernel) -> None:
    failed = used.run("def fail(kept):\n    raise ValueError('no')\nfail(torch.rand(7, 7).to(device))")
    assert failed.error is not None
    used.check("torch_xla.sync(wait=True)")
    assert "traceback: fail, line 2: kept" in shown(used, "%xla_buffers --all")


def test_explain_names_the_cause_and_the_way_out(used: Kernel) -> None:
    text = shown(used, "%xla_explain")
    assert re.search(r"predict.*: compiled 2 times", text)
    assert "`batch` is 2x8, was 5x8" in text
    assert "pad batch to one size" in text
    assert shown(used, "%xla_explain predict").startswith("predict")


def test_events_name_the_cell_and_line(used: Kernel) -> None:
    cell = used.check("torch_xla.sync()").execution_count
    text = shown(used, "%xla_events -n 1")
    assert re.search(rf"cell {cell}, line 1 +barrier +step barrier took", text)
    assert "older events are not shown" in text
    assert shown(used, "%xla_events --hazards").startswith("No buffer was donated")


def test_warm_up_mode_is_shown_and_set(used: Kernel) -> None:
    assert shown(used, "%xla_warmup") == "warm-up: compile\n"
    assert shown(used, "%xla_warmup off") == "warm-up: off\n"
    assert "warm_up is now off (was compile)" in shown(used, "%xla_events -n 1")
    assert shown(used, "%xla_warmup compile") == "warm-up: compile\n"


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("%xla_buffers --al", "no option '--al'; there are --all"),
        ("%xla_events -n many", "-n takes a number from 1, and got 'many'"),
        ("%xla_events -n", "-n takes a number from 1, and got ''"),
        ("%xla_explain nobody", "'nobody' was not compiled; compiled were: "),
        ("%xla_warmup exec", "warm_up cannot be 'exec'; did you mean execute?"),
    ],
)
def test_wrong_arguments_get_one_line(used: Kernel, line: str, says: str) -> None:
    output = used.run(line)
    assert output.stderr.startswith("UsageError: %xla_")
    assert output.stderr.count("\n") == 1
    assert says in output.stderr
