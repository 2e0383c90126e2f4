"""Each tutorial runs from a clean kernel and shows what its text says."""

from __future__ import annotations

import functools
import re
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

pytestmark = [pytest.mark.kernel, pytest.mark.slow]

EXAMPLES = Path(__file__).parents[2] / "examples"
# The quickstart has tests of its own.
NAMES = sorted(path.stem for path in EXAMPLES.glob("*.ipynb") if path.stem != "01_quickstart")


@functools.cache
def executed(name: str) -> nbformat.NotebookNode:
    """A tutorial, run once. Raises `CellExecutionError` where one of its cells fails."""
    notebook = nbformat.read(EXAMPLES / f"{name}.ipynb", as_version=4)
    place = {"metadata": {"path": str(EXAMPLES)}}
    return NotebookClient(notebook, timeout=240, resources=place).execute()


def shown(name: str, source: str) -> str:
    """What the only cell whose source has `source` in it showed, as text."""
    (cell,) = (c for c in executed(name).cells if c.cell_type == "code" and source in c.source)
    texts = [output.text if "text" in output else output.data["text/plain"] for output in cell.outputs]
    return "".join(texts)


def all_shown(name: str, source: str) -> list[str]:
    """The same for several such cells, in their order."""
    cells = [c for c in executed(name).cells if c.cell_type == "code" and source in c.source]
    return ["".join(o.text if "text" in o else o.data["text/plain"] for o in cell.outputs) for cell in cells]


@pytest.mark.parametrize("name", NAMES)
def test_it_is_kept_without_outputs_and_has_its_parts(name: str) -> None:
    cells = nbformat.read(EXAMPLES / f"{name}.ipynb", as_version=4).cells
    code = [cell for cell in cells if cell.cell_type == "code"]
    assert [(cell.outputs, cell.execution_count) for cell in code] == [([], None)] * len(code)
    text = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    for part in ("**Goal.**", "## Exercises", "**1", "## On a TPU"):
        assert part in text


@pytest.mark.parametrize("name", NAMES)
def test_pictures_and_other_tutorials_that_it_names_are_there(name: str) -> None:
    text = (EXAMPLES / f"{name}.ipynb").read_text(encoding="utf-8")
    named = re.findall(r"\]\((?!http)([^)]+)\)|`(\w+\.ipynb)`", text)
    assert [path for pair in named for path in pair if path and not (EXAMPLES / path).exists()] == []


@pytest.mark.parametrize("name", NAMES)
def test_it_runs_and_writes_nothing_to_stderr(name: str) -> None:
    outputs = [output for cell in executed(name).cells for output in cell.get("outputs", ())]
    assert [output.text for output in outputs if output.get("name") == "stderr"] == []


# --- 02: the aliasing crash


def test_a_plain_step_barrier_donates_to_the_new_value() -> None:
    told = shown("02_the_aliasing_crash", "%xla_events -n 4")
    assert re.search(r"cell \d+, line 4 +donation +w \(float32 1000\) was donated by a step barrier, to its own", told)


def test_the_crash_names_buffers_and_way_out() -> None:
    name = "02_the_aliasing_crash"
    error = shown(name, "crash = error")
    assert error.startswith("SavedBufferDonatedError")
    assert "donated the buffer of centre.n, centre.mean" in error
    before, after = all_shown(name, "%xla_buffers")
    for tensor in ("n", "mean"):
        assert re.search(rf"centre\.{tensor} +float32 +8x8 +256 B +live", before)
        assert re.search(rf"centre\.{tensor} +float32 +8x8 +256 B +donated", after)
    hazards, prevented = all_shown(name, "%xla_events --hazards")
    assert "centre.mean (float32 8x8) was donated by the warm-up of centred" in hazards
    assert "centre.mean, which centred needs, was donated: the run failed" in hazards
    assert "centre.mean (float32 8x8) would have been donated by the warm-up of centred" in prevented
    assert "HasValue()" in shown(name, "print(centre.mean)")


def test_compiling_only_donates_nothing_and_offered_memory_is_reused() -> None:
    name = "02_the_aliasing_crash"
    assert "7 batches counted, 0 buffers donated" in shown(name, "the mean image is right")
    assert "the new value of centre.mean\n" in shown(name, "%xla_graphs centred #2")
    assert "the new value of centre.mean, in its memory\n" in shown(name, "def centred_in_place")
    assert "no crash" in shown(name, "def without_updates")


# --- 03: warm-up without running


def test_rehearsing_compiles_everything_and_changes_nothing() -> None:
    name = "03_warm_up_without_running"
    first, unreached, again = all_shown(name, "%%xla_compile --no-run")
    assert re.match(r"3 graphs compiled in .* without running", first)
    assert again.startswith("0 graphs compiled without running")
    assert shown(name, "after = state()") == "everything is as it was: True\nFalse False\n"
    assert shown(name, "graphs compiled while it ran") == "0 graphs compiled while it ran\n"
    assert "`if score > 0.5:` depends on a value" in unreached
    assert "`torch.save(" in unreached


# --- 04: hunting recompilations


def test_causes_of_recompiles_are_named() -> None:
    name = "04_hunting_recompilations"
    by_shape, by_number = all_shown(name, "%xla_explain score")
    assert "compiled 2 times" in by_shape
    assert "`x` is 5x64, was 256x64" in by_shape
    assert "`scale` changed (was 0.25)" in by_number
    assert "`x` is of dtype float64, was float32" in shown(name, "%xla_explain brightness")
    assert "f64[256,64]" in shown(name, "%xla_graphs --diff")


def test_cures_compile_as_often_as_said() -> None:
    name = "04_hunting_recompilations"
    assert "compiled 1 time\n" in shown(name, "%xla_explain padded_score")
    assert shown(name, "graph for four values") == "1 graph for four values\n"
    assert shown(name, "Dynamo read the function") == "Dynamo read the function 1 time for 4 sizes\n"
    assert "compiled 4 times" in shown(name, "%xla_explain dynamic_score")
    assert shown(name, "print(name, len(") == "pick 5\npick_by_tensor 1\n"
    assert re.match(r"FrozenError: .*`x` is 100x64, was 256x64", shown(name, "refused = error"))


# --- 05: a KV cache


def test_the_cache_is_reused_in_every_step_and_the_text_is_the_same() -> None:
    name = "05_kv_cache"
    assert shown(name, 'donating = continued(write_in_place, "The ", 100)').endswith("True\n")
    plain, donating = all_shown(name, "%xla_graphs write")
    assert "the new value of cache\n" in plain
    assert "the new value of cache, in its memory\n" in donating
    assert shown(name, "gave the cache to its own") == "99 runs gave the cache to its own next value\n"
    assert "write overwrites cache in each run: --donate cache reuses the memory (128 KiB)" in shown(
        name, "%xla_explain"
    )
    (loss,) = re.findall(r"step 200: loss ([\d.]+)", shown(name, "losses.append"))
    assert float(loss) < 3.2


def test_use_after_donation_is_diagnosed_and_harmful_donation_refused() -> None:
    name = "05_kv_cache"
    assert "is deleted" in shown(name, "longer = shifted(cache)\ntry")
    assert "was donated by a run of shifted: output 0 has its" in shown(name, "%xla_events --hazards -n 1")
    before, after = all_shown(name, "%xla_buffers")
    assert re.search(r"cache +float32 +2x2x4x128x16 +128 KiB +live", before)
    assert re.search(r"cache +float32 +2x2x4x128x16 +128 KiB +donated", after)
    refused = shown(name, "keys = cache.detach()")
    assert "a view or a detached copy of it is alive" in refused
    assert "cache is alive: True" in refused


# --- 06: what forced an execution


def test_reads_are_told_and_a_step_barrier_ends_them() -> None:
    name = "06_what_forced_an_execution"
    events = shown(name, "%xla_events -n 20")
    told = re.findall(r"forced +(.+?) of a \w+ scalar .*executed (\d+) pending ops", events)
    assert [by for by, _ in told] == ["the truth value", ".item()", ".item()"] * 3
    assert [int(ops) for _, ops in told][::3] == sorted({int(ops) for _, ops in told[::3]})
    assert shown(name, "executions were forced").startswith(
        "9 executions were forced by the first loop, 0 by the second"
    )
    answers = shown(name, '"t.shape"')
    assert re.findall(r"(\S.*?) +forced an execution", answers) == ["repr(t)", "t.cpu()", "bool(t.sum())"]


def test_graph_breaks_and_fallback_operators_are_seen_and_cured() -> None:
    name = "06_what_forced_an_execution"
    assert "torch_dynamo_resume" in all_shown(name, "%xla_graphs")[0]
    assert "they differ by 0e+00" in shown(name, "they differ by")
    assert "ran on the host, for want of an XLA kernel: aten::histc (5 times)" in shown(name, "%xla_events -n 1")
    with_host, without = all_shown(name, "%xla_graphs histogram")
    assert "aten.histc.default: no XLA lowering" in with_host
    assert "run on the host" not in without
    assert "torch_dynamo_resume_in_kinds" in shown(name, "found = kinds(labels)")


# --- 07: a training loop


def test_each_step_runs_three_graphs_and_all_ways_learn() -> None:
    name = "07_training_loop"
    assert shown(name, "print(runs)") == "{'forward': 63, 'backward': 63, 'optimizer': 63}\n"
    plain, accumulated, mixed = (
        float(re.findall(r"([\d.]+)% of 450 unseen", text)[0])
        for text in all_shown(name, "unseen digits are read right")
    )
    assert min(plain, accumulated, mixed) > 90
    products = shown(name, "hlo.splitlines()")
    assert re.search(r"= bf16\[64,10\]\S* dot\(", products)
    first, again = all_shown(name, 'torch.autocast("xla"')
    assert re.search(r"\d graphs compiled", first)
    assert "2 reused" in again
