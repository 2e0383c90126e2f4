"""The warm-up: compile mode neither executes nor donates, execute mode does both, off does nothing."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch_xla
from hazards.harness import (
    XLA,
    Reports,
    Tensor,
    assert_same,
    compiled,
    counter,
    executions,
    pending,
    reports,
    settle,
    values,
)
from torch import nn

from xla_notebook.backend import cache, observer, runtime
from xla_notebook.backend.config import config
from xla_notebook.backend.observer import Barrier, Donated, GraphDropped, GraphTraced, GraphWarmed, GraphWarming

MODES = ("compile", "execute", "off")


class Counts(nn.Module):
    """Updates its buffer in place, as in pytorch/xla pull request 4612."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("n", torch.zeros(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.n.add_(1)
        return x * 2 + self.n


class Watcher(observer.Observer):
    """Notes what `look` says when a warm-up starts and when it has ended."""

    def __init__(self, look: Callable[[], Any]):
        self.look = look
        self.seen: list[Any] = []

    def report(self, report: observer.Report) -> None:
        if isinstance(report, (GraphWarming, GraphWarmed)):
            self.seen.append(self.look())


@pytest.fixture
def watch() -> Iterator[Callable[[Callable[[], Any]], Watcher]]:
    attached: list[Watcher] = []

    def start(look: Callable[[], Any]) -> Watcher:
        attached.append(Watcher(look))
        observer.attach(attached[-1])
        return attached[-1]

    yield start
    for watcher in attached:
        observer.detach(watcher)


def test_compile_mode_neither_executes_nor_donates(watch: Callable[[Callable[[], Any]], Watcher]) -> None:
    """Given a module that updates a buffer in place, nothing runs and no handle changes while it warms up; the
    compiling call then runs the device program once."""
    module = Counts().to(XLA)
    x = values(4, device=XLA)
    constant = torch.arange(4.0).to(XLA)
    unrelated = constant * 5
    settled = [module.n, x, constant]
    torch_xla.sync()
    unrelated = constant * 5

    def look() -> Any:
        assert runtime.get_donation(x) is False
        return executions(), runtime.handles(settled), [runtime.address(t) for t in settled], pending(unrelated)

    settle_count = look()
    watcher = watch(look)
    with torch.no_grad():
        result = compiled(lambda x: module(x) * constant)(x)
    assert watcher.seen == [settle_count, settle_count]
    assert executions() == settle_count[0] + 1
    assert pending(unrelated) == [True]
    assert_same((values(4) * 2 + 1) * torch.arange(4.0), result)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("where", ["the whole process", "one function"])
def test_modes_give_the_same_results(mode: str, where: str) -> None:
    if where == "the whole process":
        config.warm_up = mode  # type: ignore[assignment]
    options = {"warm_up": mode} if where == "one function" else {}
    module = Counts().to(XLA)
    run = compiled(module, options=options)
    with reports() as watched, torch.no_grad():
        for call in range(3):
            x = values(4, seed=call)
            assert_same(x * 2 + call + 1, run(x.to(XLA)), f"call {call}")
            assert_same(torch.full((4,), call + 1.0), module.n, f"buffer after call {call}")
    (traced, *_) = watched.of(GraphTraced)
    assert traced.reason == "first"
    warmed = watched.of(GraphWarmed)
    assert [w.mode for w in warmed] == ([mode] if mode != "off" else [])
    assert [w.graph_id for w in watched.of(GraphWarming)] == [w.graph_id for w in warmed]


def test_the_functions_own_mode_goes_before_the_processs() -> None:
    config.warm_up = "execute"
    with reports() as watched:
        compiled(lambda x: x + 1, options={"warm_up": "compile"})(values(3, device=XLA))
    assert [w.mode for w in watched.of(GraphWarmed)] == ["compile"]


def test_execute_mode_executes_once_more() -> None:
    x = values(4, device=XLA)
    settle()
    counts = []
    for mode in ("compile", "execute"):
        run = compiled(lambda x, mode=mode: x * len(mode) + 1.5, options={"warm_up": mode})
        before = executions()
        run(x)
        counts.append(executions() - before)
    assert counts == [1, 2]


def test_execute_mode_donates_an_argument_when_unguarded() -> None:
    """Given a buffer that the graph updates in place, an executing warm-up gives it away, and the run that should
    follow is refused with the buffer's name and what took it. That is what the compile mode is for."""
    config.guard = False
    module = Counts().to(XLA)
    x = values(4, device=XLA)
    settle()
    assert runtime.handle(module.n) is not None
    run = compiled(module, options={"warm_up": "execute"})
    with torch.no_grad(), reports() as watched, pytest.raises(RuntimeError, match=r"donated the buffer of self\.n"):
        run(x)
    assert runtime.handle(module.n) is None
    (donated,) = watched.of(Donated)
    assert (donated.name, donated.cause, donated.would_be) == ("self.n", "warm-up", False)
    assert donated.spec.shape == (4,)


def test_execute_mode_tells_what_the_guard_prevented() -> None:
    config.guard = True
    module = Counts().to(XLA)
    with torch.no_grad(), reports() as watched:
        compiled(module, options={"warm_up": "execute"})(values(4, device=XLA))
    (donated,) = watched.of(Donated)
    assert (donated.name, donated.cause, donated.would_be) == ("self.n", "warm-up", True)


def test_execute_mode_of_a_copy_that_is_read_and_written_back() -> None:
    """Given an argument that is copied to and whose new value an operator on the host reads."""

    def function(x: Tensor, y: Tensor) -> Tensor:
        y.zero_()
        x.copy_(y)
        return x.median()

    arguments = [values(2, 3, seed=seed, device=XLA) for seed in range(2)]
    result = compiled(function, fullgraph=True, dynamic=False, options={"warm_up": "execute"})(*arguments)
    assert_same([torch.zeros(()), torch.zeros(2, 3), torch.zeros(2, 3)], [result, *arguments])


def test_execute_mode_donates_nothing_when_guarded() -> None:
    config.guard = True
    module = Counts().to(XLA)
    run = compiled(module, options={"warm_up": "execute"})
    constant = torch.arange(4.0).to(XLA)
    with torch.no_grad():
        for call in range(3):
            x = values(4, seed=call)
            assert_same(x * 2 + call + 1, run(x.to(XLA)), f"call {call}")
    assert_same(torch.arange(4.0), constant)


def test_training_in_every_mode() -> None:
    for mode in MODES:
        torch._dynamo.reset()
        torch.manual_seed(0)
        eager = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 1))
        module = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 1))
        module.load_state_dict(eager.state_dict())
        module.to(XLA)
        optimizers = [torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9) for m in (eager, module)]
        run = compiled(module, options={"warm_up": mode})
        update = compiled(optimizers[1].step, options={"warm_up": mode})
        for call in range(3):
            x = values(8, 4, seed=call)
            for m, function, step, given in (
                (eager, eager, optimizers[0].step, x),
                (module, run, update, x.to(XLA)),
            ):
                m.zero_grad()
                function(given).pow(2).mean().backward()
                step()
            for (name, first), second in zip(eager.named_parameters(), module.parameters(), strict=True):
                assert_same(first, second, f"{mode}, step {call}: {name}", 1e-3, 1e-3)


# Saved buffers ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("saved", ["share", "copy"])
def test_saved_buffers_survive_step_barriers(saved: str) -> None:
    config.saved_buffers = saved
    function = compiled(lambda x: x * torch.tensor([1.0, 2.0, 3.0], device=x.device) + 0.125)
    scalar = torch.tensor(0.125).to(XLA)
    for call in range(3):
        x = values(3, seed=call)
        assert_same(x * torch.tensor([1.0, 2.0, 3.0]) + 0.125, function(x.to(XLA)), f"call {call}")
        scalar.add_(1)
        torch_xla.sync()


def test_saved_bytes_are_counted_and_given_back() -> None:
    """Given a graph that keeps a constant, its bytes are reported when it goes."""
    ramp = [float(i) for i in range(100)]
    with reports() as watched:
        function = compiled(lambda x: x + torch.tensor(ramp, device=x.device))
        function(values(100, device=XLA))
        (traced,) = watched.of(GraphTraced)
        (graph,) = [g for g in cache.graphs() if g.graph_id == traced.graph_id]
        assert graph.saved_nbytes == traced.saved_nbytes
        assert traced.saved_nbytes >= 400
        assert graph.runs == 1
        del graph, function
        torch._dynamo.reset()
        gc.collect()
    dropped = {r.graph_id: r.saved_nbytes for r in watched.of(GraphDropped)}
    assert dropped[traced.graph_id] == traced.saved_nbytes
    assert traced.graph_id not in {g.graph_id for g in cache.graphs()}


def test_reports_name_arguments_constants_and_updates() -> None:
    module = Counts().to(XLA)
    with reports() as watched, torch.no_grad():
        compiled(lambda image, scale: module(image) * scale)(values(4, device=XLA), values(4, device=XLA))
    (traced,) = watched.of(GraphTraced)
    names = [binding.name for binding in traced.inputs if binding.kind == "argument"]
    assert {"image", "scale"} <= set(names)
    assert any(name.endswith("n") for name in names)
    assert traced.filename == __file__
    ((argument, _output),) = traced.mutations
    assert {b.index: b.name for b in traced.inputs if b.kind == "argument"}[argument].endswith("n")


def test_step_barriers_are_reported_with_their_line() -> None:
    compiled(lambda x: x + 1)(values(3, device=XLA))
    with reports() as watched:
        torch_xla.sync()
    (barrier,) = watched.of(Barrier)
    assert barrier.filename == __file__
    assert barrier.line == test_step_barriers_are_reported_with_their_line.__code__.co_firstlineno + 3
    assert barrier.ended_ns >= barrier.started_ns


# The user's world -------------------------------------------------------------------------------------


def test_metrics_of_the_users_are_kept() -> None:
    torch_xla._XLAC._xla_increment_counter("CountedBeforeACompile", 5)
    before = counter("CountedBeforeACompile")
    assert before >= 5
    run = compiled(lambda x: x.sin() + 1)
    for _ in range(3):
        run(values(3, device=XLA))
    assert counter("CountedBeforeACompile") == before


def test_a_compile_leaves_every_tensor_as_it_was() -> None:
    torch.manual_seed(0)
    module = nn.Linear(3, 3).to(XLA)
    module(values(2, 3, device=XLA)).sum().backward()
    x = values(2, 3, seed=1, device=XLA)
    marked = values(4, seed=2, device=XLA)
    settle()
    runtime.set_donation(marked, True)
    waiting = x * 3
    tensors = [*module.parameters(), x, marked, waiting]
    before = [Tensor.of(t) for t in tensors]
    compiled(module)(x)
    assert [Tensor.of(t) for t in tensors] == before
    runtime.set_donation(marked, False)


def test_reports_do_not_change_results() -> None:
    watched = Reports()
    observer.attach(watched)
    observer.attach(watched)
    try:
        assert_same(values(3) + 1, compiled(lambda x: x + 1)(values(3, device=XLA)))
    finally:
        observer.detach(watched)
    assert len(watched.of(GraphTraced)) == 1
