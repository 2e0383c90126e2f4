"""What an open inspector costs a training loop: a real kernel, and a page that shows all that it is sent.

A step takes one time and then another, by more than the inspector costs. So what the inspector works is also measured
by itself: the processor time of the kernel's threads that serve it, and the time that its looks at the buffers take
from the thread that runs the cell.
"""

from __future__ import annotations

import dataclasses
import json
import statistics
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import torch_xla

from benchmarks.models import Training, transformer
from benchmarks.timing import OURS, Row, finished_s, in_turns, medians, paired_ratio, seconds_in
from xla_notebook.notebook.feed import Feed

CLOSED = "closed"
_ROOT = Path(__file__).parents[1]
_BATCH = 4
_STEPS = 100  # long enough for several pushes
_GOAL = 1.02
_CASE = f"transformer, {_STEPS} training steps, barriers"
_SETTLE_S = 0.5  # until the page's change of view has been served
_SETUP = f"""
import sys
sys.path.insert(0, {str(_ROOT)!r})
%load_ext xla_notebook
import json
from benchmarks import inspector
task = inspector.warm_task()
model = task.model
"""


@dataclasses.dataclass(frozen=True)
class _Block:
    """Steps in a kernel: how long they took, and how long the inspector worked meanwhile."""

    seconds: float
    work_s: float


def warm_task() -> Training:
    """In the kernel: a training whose graphs are compiled."""
    task = Training(transformer, _BATCH, torch_xla.device(), OURS)
    for _ in range(5):
        _step(task)
    return task


def run_block(task: Training) -> str:
    """In the kernel: run the steps, and return a `_Block` as JSON."""
    with seconds_in(Feed, "look") as looks:
        before = _other_threads_s()
        seconds = finished_s(lambda: [_step(task) for _ in range(_STEPS)])
        served_s = _other_threads_s() - before
    return json.dumps(dataclasses.asdict(_Block(seconds, sum(looks) + served_s)))


def _step(task: Training) -> None:
    task.step()
    torch_xla.sync()


def _other_threads_s() -> float:
    """Processor time of all Python threads but the main one, whether or not they serve the inspector."""
    spent_ns = 0
    for thread in threading.enumerate():
        if thread is not threading.main_thread():
            spent_ns += int(Path(f"/proc/self/task/{thread.native_id}/schedstat").read_text().split()[0])
    return spent_ns / 1e9


def measure(rounds: int) -> Iterator[Row]:
    """Rows: steps with a page open and with none in sight; what the inspector itself works in that time."""
    sys.path.insert(0, str(_ROOT / "tests"))
    from kernel_client import Kernel

    with Kernel(_ROOT) as kernel:
        kernel.check(_SETUP)
        page = kernel.page()
        page.open()
        ended = threading.Event()
        browser = threading.Thread(target=lambda: [page.take(0.2) for _ in iter(ended.is_set, True)])
        browser.start()

        def block(visible: bool) -> _Block:
            page.tell({"type": "show", "page": 1, "visible": visible})
            time.sleep(_SETTLE_S)
            return _Block(**json.loads(kernel.check("print(inspector.run_block(task))").stdout))

        work: dict[bool, list[float]] = {False: [], True: []}

        def seconds(visible: bool) -> float:
            ran = block(visible)
            work[visible].append(ran.work_s)
            return ran.seconds

        try:
            samples = in_turns(rounds, {OURS: lambda: seconds(True), CLOSED: lambda: seconds(False)})
        finally:
            ended.set()
            browser.join()
    yield Row("inspector open", _CASE, "ms", medians(samples, 1e3), paired_ratio(samples, CLOSED), _GOAL)
    own_s = {OURS: work[True], CLOSED: work[False]}
    added_s = statistics.mean(work[True]) - statistics.mean(work[False])
    share = 1 + added_s / statistics.mean(samples[CLOSED])
    yield Row(
        "inspector's own work", _CASE, "ms", {n: statistics.mean(w) * 1e3 for n, w in own_s.items()}, share, _GOAL
    )
