"""Results of a run that is only being sent to the device: they have no buffers yet.

Their handles are those of placeholders and change when the buffers come, in the middle of whatever looks at
them; sharded results have no handles at all.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence

import pytest
import torch
from hazards.harness import XLA, assert_same, compiled, values
from torch import Tensor

from xla_notebook.backend import runtime

# So many that a run takes some milliseconds to be sent.
RESULTS = 3000


@pytest.mark.parametrize("look", [1, 2], ids=["first", "second"])
def test_buffers_that_come_in_the_middle_of_a_trace(look: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Given buffers that come after a look at the handles unless somebody waits, each call uses its own values."""
    real_handles, real_wait = runtime.handles, runtime.wait_until_sent
    looks = 0

    def handles(tensors: Sequence[Tensor]) -> list[int]:
        nonlocal looks
        looks += 1
        return [-h if looks <= look else h for h in real_handles(tensors)]

    def wait(device: torch.device) -> None:
        nonlocal looks
        looks = look
        real_wait(device)

    monkeypatch.setattr(runtime, "handles", handles)
    monkeypatch.setattr(runtime, "wait_until_sent", wait)
    function = compiled(lambda x, y: x * 2 - y, dynamic=False)
    for call in range(3):
        x, y = values(2, 3, seed=call), values(2, 3, seed=call + 9)
        assert_same(x * 2 - y, function(x.to(XLA), y.to(XLA)), f"call {call}")


def test_handles_do_not_change_after_waiting() -> None:
    """Given a run with very many results, their handles are the final ones once the run was sent."""
    (x,) = runtime.uploaded([values(2, 3)], XLA)
    lazy = [x + float(i) for i in range(RESULTS)]
    runtime.warm_up(lazy)
    graph, inputs = runtime.graph_hash(lazy), runtime.graph_inputs(lazy)[1]
    for _ in range(5):
        results = runtime.run_cached_graph(graph, inputs)
        runtime.wait_until_sent(XLA)
        handles = runtime.handles(results)
        assert len(set(handles)) == RESULTS
        runtime.wait_for_device()
        assert runtime.handles(results) == handles


SHARDED = """
import torch, torch_xla, torch_xla.runtime
torch_xla.runtime.use_spmd()
from xla_notebook.backend import runtime
device = torch_xla.device()
x = torch.ones(300, 300).to(device)
y = x @ x @ x @ x
runtime.warm_up([y])
graph, inputs = runtime.graph_hash([y]), runtime.graph_inputs([y])[1]
for _ in range(20):
    (result,) = runtime.run_cached_graph(graph, inputs)
    runtime.wait_until_sent(device)
    handle = runtime.handle(result)
    runtime.wait_for_device()
    assert handle == runtime.handle(result) != None
print("done")
"""


def test_sharded_results_have_handles_after_waiting() -> None:
    """Given sharded results, asking for their handles does not crash the process once the run was sent."""
    environment = {**os.environ, "PJRT_DEVICE": "CPU", "CPU_NUM_DEVICES": "2"}
    process = subprocess.run(
        [sys.executable, "-c", SHARDED], env=environment, capture_output=True, text=True, check=False
    )
    assert process.returncode == 0, process.stderr
    assert process.stdout == "done\n"
