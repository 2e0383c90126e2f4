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


def test_one_graph_its_hlo_and_the_diff_of_two(used: Kernel) -> None:
    details = shown(used, "%xla_graphs predict #2")
    assert details.startswith("predict #2 (cell ")
    assert "\n  batch: argument, float32 2x8, 64 B\n" in details
    assert "\noutputs:\n  0: float32 2x4, 32 B" in details
    digest = details.splitlines()[0].rpartition(" ")[2]
    assert digest[:8] in shown(used, "%xla_graphs")
    hlo = shown(used, f"%xla_graphs {digest[:8]} --hlo")
    assert re.match(r"// predict #2: .*dot 1", hlo)
    assert "f32[2,8]" in hlo
    assert "source_line" in hlo
    diff = shown(used, "%xla_graphs --diff predict predict #2")
    assert diff.startswith("--- predict\n+++ predict #2\n")
    assert "f32[5,8]" in diff
    assert "f32[2,8]" in diff
    assert shown(used, "%xla_graphs --diff predict predict") == "predict and predict have the same HLO.\n"


def test_frozen_compiles_fail_with_the_cause_and_other_cells_run(used: Kernel) -> None:
    assert shown(used, "%xla_warmup --freeze") == "warm-up: compile; compiles are frozen (error)\n"
    used.check("again = predict(x[:5])")
    failed = used.run("third = predict(x[:3])")
    assert failed.error is not None
    assert failed.error[0] == "FrozenError"
    assert "Compiles are frozen, and predict (cell " in failed.error[1]
    assert "`batch` is 3x8, was " in failed.error[1]
    assert used.value("'third' in globals()") is False
    assert "predict was refused, because compiles are frozen: `batch` is 3x8" in shown(used, "%xla_events -n 2")
    assert shown(used, "%xla_warmup --freeze warn") == "warm-up: compile; compiles are frozen (warn)\n"
    warned = used.check("third = predict(x[:3])")
    assert "FrozenWarning: Compiles are frozen" in warned.stderr
    assert shown(used, "%xla_warmup --freeze off") == "warm-up: compile\n"


def test_watched_step_barrier_tells_its_donations_with_line_and_name(used: Kernel) -> None:
    used.check("w = torch.rand(5).to(device)\ntorch_xla.sync(wait=True)")
    assert shown(used, "%xla_events --watch on") == "step barriers and reads are watched\n"
    cell = used.check("w.add_(1)\ntorch_xla.sync()").execution_count
    told = r" +donation +w \(float32 5\) was donated by a step barrier, to its own new value"
    assert re.search(rf"cell {cell}, line 2{told}", shown(used, "%xla_events -n 5"))
    assert shown(used, "%xla_events --watch off") == "not watched\n"
    used.check("w.add_(1)\ntorch_xla.sync()")
    assert "donation" not in shown(used, "%xla_events -n 1")


def test_watched_reads_are_told_with_line_and_what_they_executed(used: Kernel) -> None:
    used.check("w = torch.rand(5).to(device)\ntorch_xla.sync(wait=True)")
    assert shown(used, "%xla_events --watch reads") == "reads are watched\n"
    cell = used.check("mean = (w * 2).mean()\nif mean > 5:\n    pass\nmean").execution_count
    text = shown(used, "%xla_events -n 5")
    told = r"executed \d pending ops in"
    assert re.search(rf"cell {cell}, line 2 +forced +the truth value of a bool scalar (compiled and )?{told}", text)
    assert re.search(rf"cell {cell}, line 4 +forced +the printed text of a float32 scalar (compiled and )?{told}", text)
    failed = used.run("(w * 3).item()")
    assert failed.error is not None
    assert "cannot be converted to Scalar" in failed.error[1]
    assert shown(used, "%xla_events --watch off") == "not watched\n"
    used.check("print(w + 3)")
    assert "forced" not in shown(used, "%xla_events -n 1")


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("%xla_buffers --al", "no option '--al'; there are --all"),
        ("%xla_events -n many", "-n takes a number from 1, and got 'many'"),
        ("%xla_events -n", "-n takes a number from 1, and got ''"),
        ("%xla_explain nobody", "'nobody' was not compiled; compiled were: "),
        ("%xla_warmup exec", "warm_up cannot be 'exec'; did you mean execute?"),
        ("%xla_events --watch maybe", "--watch takes on, reads, off, and got 'maybe'"),
        ("%xla_warmup --freeze eror", "freeze cannot be 'eror'; did you mean error?"),
        ("%xla_clear all", "no option 'all'"),
        ("%xla_graphs nobody", "there is no graph 'nobody'; there are predict ("),
        ("%xla_graphs --hlo", "takes GRAPH [--hlo|--cost], or --diff GRAPH GRAPH"),
        ("%xla_graphs --cost", "takes GRAPH [--hlo|--cost], or --diff GRAPH GRAPH"),
        ("%xla_graphs predict --all", "takes GRAPH [--hlo|--cost], or --diff GRAPH GRAPH"),
        ("%xla_graphs --diff predict", "takes two graphs, by name or hash"),
    ],
)
def test_wrong_arguments_get_one_line(used: Kernel, line: str, says: str) -> None:
    output = used.run(line)
    assert output.stderr.startswith("UsageError: %xla_")
    assert output.stderr.count("\n") == 1
    assert says in output.stderr


def test_cleared_graphs_say_what_came_free_and_come_back(used: Kernel) -> None:
    used.check("ramp = [float(i) for i in range(100)]\nt = torch.rand(100).to(device)")
    used.check("%%xla_compile\ndef climb(t):\n    return t + torch.tensor(ramp, device=t.device)")
    used.check("climbed = climb(t)")
    live = len(shown(used, "%xla_graphs").splitlines()) - 1
    said = shown(used, "%xla_clear")
    assert said == f"{live} graphs dropped, 400 B came free\n"
    assert shown(used, "%xla_graphs").startswith("No graphs are cached")
    used.check("again = climb(t)")
    assert used.value("torch.equal(climbed.cpu(), again.cpu())") is True
    assert len(shown(used, "%xla_graphs").splitlines()) == 2
    assert "all graphs had been dropped" in shown(used, "%xla_explain climb")
