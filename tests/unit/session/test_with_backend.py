"""The session tells the truth about what the real backend does."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import warnings
from unittest import mock

import pytest
import torch
import torch_xla
import torch_xla.debug.metrics as met

from xla_notebook.backend import cache
from xla_notebook.session import FrozenError, FrozenWarning, Session
from xla_notebook.session.describe import histories
from xla_notebook.session.events import BarrierRan, Dropped, Frozen, Recompiled, Traced, Warmed
from xla_notebook.session.hlo import op_histogram
from xla_notebook.session.links import clear_graphs
from xla_notebook.session.walk import Walk

from .real_backend import compiled, on_device, only


def compile_count() -> int:
    data = met.metric_data("CompileTime")
    return data[0] if data else 0


def scale(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return (x * 3.5 + y).sum(0)


def test_record_of_an_inference_graph(session: Session) -> None:
    x, y = on_device(4, 5), on_device(5)
    step = compiled(scale)
    with session.cell(3, "id", __file__) as cell:
        for _ in range(4):
            step(x, y)
    graph = only(session)
    (cached,) = (g for g in cache.graphs() if g.graph_id == graph.graph_id)
    assert (graph.function, graph.kind, graph.state, graph.warm_up) == ("scale", "inference", "warm", "compile")
    assert (graph.cell, graph.runs, graph.traces) == (cell, 4, 1)
    assert graph.hash == cached.hash.hex()
    assert graph.source is not None
    assert (graph.source.filename, graph.source.cell) == (__file__, cell)
    arguments = {binding.name: binding.spec.shape for binding in graph.inputs if binding.kind == "argument"}
    assert arguments == {"x": (4, 5), "y": (5,)}
    assert [spec.shape for spec in graph.outputs] == [(5,)]
    assert graph.trace_ns > 0
    assert graph.op_count > 0


def test_kinds_of_a_training_step(session: Session) -> None:
    model = torch.nn.Linear(4, 2).to(torch_xla.device())
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    loss = compiled(lambda x: model(x).sum())
    step = compiled(opt.step)
    loss(on_device(3, 4)).backward()
    step()
    assert {graph.kind for graph in session.graphs()} == {"forward", "backward", "optimizer"}


def test_compiles_are_counted_as_torch_xla_counts_them(session: Session) -> None:
    before = compile_count()
    step = compiled(scale)
    session.begin_cell(1)
    step(on_device(2, 3), on_device(3))
    step(on_device(6, 3), on_device(3))
    summary = session.end_cell()
    assert summary is not None
    warmed = [event for event in session.events() if isinstance(event, Warmed)]
    assert compile_count() - before == sum(event.compiled for event in warmed) == summary.compiled
    assert summary.traced == 2


def test_cell_run_again_only_reuses(session: Session) -> None:
    x, y = on_device(2, 3), on_device(3)
    step = compiled(scale)
    step(x, y)
    session.begin_cell(2)
    step(x, y)
    summary = session.end_cell()
    assert summary is not None
    assert summary.line() == "1 graph reused"


def test_causes_with_the_real_backend(session: Session) -> None:
    step = compiled(scale)
    step(on_device(2, 3), on_device(3))
    step(on_device(7, 3), on_device(3))
    (event,) = (event for event in session.events() if isinstance(event, Recompiled))
    assert event.causes[0].what == "`x` is 7x3, was 2x3"
    (history,) = histories(session.graphs(), session.events())
    assert [len(made.causes) for made in history.compiles] == [0, 1]


def test_another_way_after_a_graph_break_is_not_taken_for_a_new_function(session: Session) -> None:
    doubled_or_halved = compiled(lambda x: x * 2 if x.sum() > 0 else x / 2)
    for x in (torch.ones(3), -torch.ones(3), torch.ones(3)):
        doubled_or_halved(x.to(torch_xla.device()))
    recompiled = [event for event in session.events() if isinstance(event, Recompiled)]
    assert [[cause.what for cause in event.causes] for event in recompiled] == [
        ["the function went another way after its graph break, or was defined anew"]
    ]


def test_backward_graph_of_a_recompiled_function_is_no_recompile_of_its_own(session: Session) -> None:
    weight = on_device(3, 3).requires_grad_()
    step = compiled(lambda x: (x @ weight).sum())
    for rows in (2, 5):
        step(on_device(rows, 3)).backward()
    events = [event for event in session.events() if isinstance(event, Recompiled)]
    assert [event.causes[0].what for event in events] == ["`x` is 5x3, was 2x3"]
    assert len(session.graphs()) == 4


def test_step_barrier_is_told_with_its_line(session: Session) -> None:
    with session.cell(9, filename=__file__) as cell:
        torch_xla.sync()
    (event,) = (event for event in session.events() if isinstance(event, BarrierRan))
    assert event.source is not None
    assert (event.source.filename, event.source.cell) == (__file__, cell)
    code = test_step_barrier_is_told_with_its_line.__code__
    assert event.source.line == code.co_firstlineno + 2


def test_dropped_function_is_told(session: Session) -> None:
    step = compiled(lambda x: x + 1)
    step(on_device(2))
    del step
    torch._dynamo.reset()
    gc.collect()
    assert only(session).state == "dropped"


def test_warm_up_off_compiles_at_the_first_run(session: Session) -> None:
    session.set(warm_up="off")
    step = compiled(lambda x: x * 7)
    step(on_device(2))
    assert (only(session).runs, only(session).state, only(session).reason) == (1, "warm", "first")
    assert {event.kind for event in session.events()}.isdisjoint({"evicted", "recompiled"})


def test_runs_take_time_on_the_host(session: Session) -> None:
    step = compiled(scale)
    step(on_device(4, 5), on_device(5))
    (cached,) = (g for g in cache.graphs() if g.graph_id == only(session).graph_id)
    for _ in range(3):
        step(on_device(4, 5), on_device(5))
    assert only(session).mean_run_ns == cached.run_ns // 4 > 0


def test_frozen_compile_raises_the_cause_and_leaves_no_trace(session: Session) -> None:
    """Given a function compiled for one shape, when frozen, then another shape fails each time and nothing runs."""
    x, wrong, y = on_device(38, 3), on_device(39, 3), on_device(3)
    step = compiled(scale)
    with session.cell(3, filename=__file__):
        step(x, y)
    before = compile_count()
    with session.frozen():
        for _ in range(2):
            with pytest.raises(FrozenError) as caught:
                step(wrong, y)
        assert torch.allclose(step(x, y).cpu(), (x.cpu() * 3.5 + y.cpu()).sum(0))
    text = str(caught.value)
    assert text.startswith("Compiles are frozen, and scale (cell 3, line ")
    assert "`x` is 39x3, was 38x3. To avoid it: pad x to one size" in text
    assert "To allow it: %xla_warmup --freeze off" in text
    assert compile_count() == before
    assert (only(session).runs, session.settings.freeze) == (2, "off")
    frozen = [event for event in session.events() if isinstance(event, Frozen)]
    assert [(event.allowed, event.causes[0].what) for event in frozen] == [(False, "`x` is 39x3, was 38x3")] * 2
    step(wrong, y)
    assert [g.runs for g in session.graphs()] == [2, 1]
    (again,) = (event for event in session.events() if isinstance(event, Recompiled))
    assert again.causes[0].what == "`x` is 39x3, was 38x3"


def test_frozen_backward_and_first_calls_say_what_they_are(session: Session) -> None:
    weight = on_device(3, 3).requires_grad_()
    loss = compiled(lambda x: (x @ weight).sum())
    made = loss(on_device(33, 3))
    with session.frozen():
        with pytest.raises(
            FrozenError, match=r"the backward pass of <lambda> .* needs one: it was never called before"
        ):
            made.backward()
        with pytest.raises(FrozenError, match=r"and scale .* it was never called before\. To avoid it: call it once"):
            compiled(scale)(on_device(31, 3), on_device(3))
    assert weight.grad is None


def test_frozen_allows_a_trace_whose_executable_xla_has(session: Session) -> None:
    """Given a graph in XLA's cache, when it is traced anew while frozen, then it runs and nothing is compiled."""
    x, y = on_device(32, 3), on_device(3)
    expected = compiled(scale)(x, y)
    torch._dynamo.reset()
    before = compile_count()
    with session.frozen():
        assert torch.equal(compiled(scale)(x, y).cpu(), expected.cpu())
    assert compile_count() == before
    assert [graph.compiled for graph in session.graphs()] == [True, False]
    # An executing warm-up is a step barrier, whose graph XLA does not have.
    torch._dynamo.reset()
    with session.frozen(), session.using(warm_up="execute"), pytest.raises(FrozenError):
        compiled(scale)(x, y)


def test_frozen_with_a_warning_compiles(session: Session) -> None:
    step = compiled(scale)
    step(on_device(34, 3), on_device(3))
    with session.frozen("warn"), pytest.warns(FrozenWarning, match="`x` is 35x3, was 34x3") as caught:
        step(on_device(35, 3), on_device(3))
    assert caught[0].filename == __file__
    assert [graph.state for graph in session.graphs()] == ["warm", "warm"]
    assert [event.allowed for event in session.events() if isinstance(event, Frozen)] == [True]


def test_frozen_warning_that_is_an_error_forbids(session: Session) -> None:
    step = compiled(scale)
    with session.frozen("warn"), warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(FrozenError, match="never called before"):
            step(on_device(36, 3), on_device(3))
    assert session.graphs() == []
    assert step(on_device(36, 3), on_device(3)).shape == (3,)


def test_frozen_acts_without_attach_and_only_within_the_block() -> None:
    session = Session()
    step = compiled(scale)
    with session.frozen(), pytest.raises(FrozenError):
        step(on_device(37, 3), on_device(3))
    step(on_device(37, 3), on_device(3))
    assert session.graphs() == []
    torch._dynamo.reset()


def test_cleared_graphs_are_dropped_and_come_back_under_their_id(session: Session) -> None:
    ramp = [float(i) for i in range(100)]
    step = compiled(lambda x: x + torch.tensor(ramp, device=x.device))
    x = on_device(100)
    step(x)
    saved = only(session).saved_nbytes
    assert saved >= 400
    # Graphs that other tests left behind may be dropped along with it.
    dropped, freed = clear_graphs()
    assert dropped >= 1
    assert freed >= saved
    assert (only(session).state, only(session).saved_nbytes, session.buffers({}).buffers) == ("dropped", 0, ())
    assert torch.allclose(step(x).cpu(), x.cpu() + torch.tensor(ramp))
    assert (only(session).state, only(session).reason, only(session).runs) == ("warm", "cleared", 2)
    assert only(session).saved_nbytes == saved
    graph_id = only(session).graph_id
    told = [
        event.kind for event in session.events() if isinstance(event, Traced | Dropped) and event.graph_id == graph_id
    ]
    assert told == ["traced", "dropped", "traced"]
    (event,) = (event for event in session.events() if isinstance(event, Recompiled))
    assert event.causes[0].what == "all graphs had been dropped"


def test_cleared_graph_that_is_collected_is_dropped_once(session: Session) -> None:
    step = compiled(scale)
    step(on_device(2, 3), on_device(3))
    clear_graphs()
    del step
    torch._dynamo.reset()
    gc.collect()
    assert [event.kind for event in session.events()].count("dropped") == 1


def test_hlo_of_a_graph_has_the_users_lines_and_costs_nothing(session: Session) -> None:
    step = compiled(scale)
    step(on_device(2, 3), on_device(3))
    before = compile_count(), only(session)
    text = session.hlo_text(only(session).graph_id)
    assert "multiply" in op_histogram(text)
    assert __file__ in text
    assert (compile_count(), only(session)) == before
    with pytest.raises(LookupError, match="graph 0 is gone"):
        session.hlo_text(0)


def test_nobody_looking_costs_no_look_and_runs_are_not_reported(session: Session) -> None:
    x, y = on_device(2, 3), on_device(3)
    step = compiled(scale)
    step(x, y)
    never = AssertionError("nobody looks")
    with mock.patch.object(Walk, "look", side_effect=never), mock.patch.object(gc, "get_objects", side_effect=never):
        before = session.snapshot().seq
        with mock.patch.object(session, "report", side_effect=never):
            for _ in range(10):
                step(x, y)
        assert session._recorder.timeline.seq == before
        with session.cell(1):
            x.add_(1)
            torch_xla.sync()
    assert [event.kind for event in session.changes(before).events] == ["barrier"]
    assert only(session).runs == 11


DOOR = """
import torch, torch_xla, xla_notebook
from torch_xla import _XLAC
original = _XLAC._xla_step_marker
session = xla_notebook.session()
session.attach()
assert _XLAC._xla_step_marker is not original
x = torch.ones(3, device=torch_xla.device()) + 1
torch_xla.sync()
session.detach()
assert _XLAC._xla_step_marker is original, "the hook stayed, with no graph that counts on it"
session.attach()
weight = torch.ones(3, device=torch_xla.device())
torch_xla.sync()
function = torch.compile(lambda x: x * weight, backend="xla_notebook")
function(x)
session.detach()
assert _XLAC._xla_step_marker is not original, "the graph's saved buffers are no longer watched"
weight.add_(1)  # donates the saved buffer
torch_xla.sync()
assert function(x).tolist() == [4.0] * 3
print(len([event for event in session.events() if event.kind == "barrier"]))
"""


def test_the_hook_at_step_barriers_goes_with_the_session_unless_graphs_count_on_it() -> None:
    environment = {**os.environ, "PJRT_DEVICE": "CPU"}
    done = subprocess.run([sys.executable, "-c", DOOR], env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "2\n"
