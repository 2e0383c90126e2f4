"""The session tells the truth about the buffers that graphs of the real backend donate or save."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch_xla

from xla_notebook.backend import runtime
from xla_notebook.session import Session
from xla_notebook.session.analysis import aliases
from xla_notebook.session.events import Donation, Hazard

from .real_backend import compiled, on_device, only


class Counter(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("n", torch.zeros(3))

    def forward(self, x: torch.Tensor) -> Any:
        self.n.add_(1)  # type: ignore[operator]
        return x + self.n


def test_executing_warm_up_with_the_guard_is_a_hazard_averted(session: Session) -> None:
    session.set(warm_up="execute", guard=True)
    model = Counter().to(torch_xla.device())
    torch_xla.sync()
    x = on_device(3)
    with torch.no_grad():
        out = compiled(model)(x)
    hazards = [event for event in session.events() if isinstance(event, Hazard)]
    assert [hazard.outcome for hazard in hazards] == ["copied"]
    assert torch.allclose(out.cpu(), x.cpu() + 1)


def update(state: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    state.add_(x.sum())
    return state.mean()


def refill(old: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return x.mean(), old * 2 + x


def shrink(old: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return (old * 2 + x).sum()


def offered_by_operator(old: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    torch.ops.xla.dynamo_set_buffer_donor_(old, True)
    return old * 2 + x


@pytest.mark.parametrize(
    ("function", "name", "taker"),
    [(update, "state", "state"), (refill, "old", "output 1"), (offered_by_operator, "old", "output 0")],
)
def test_donated_input_is_told_at_each_run_with_its_taker(
    session: Session, function: Callable[..., Any], name: str, taker: str
) -> None:
    step = torch.compile(function, backend="xla_notebook", options={"donate": [name]})
    truth = []
    with session.cell(7) as cell:
        for _ in range(3):
            given, x = on_device(6, 5), on_device(6, 5)
            was = runtime.handle(given), runtime.wrapper(given)
            assert was[1] is not None
            results = step(given, x)
            takes = given if taker == "state" else results[1] if taker == "output 1" else results
            runtime.wait_for_device()
            truth.append((was[0], runtime.handle(takes)))
            assert runtime.handle(was[1]) is None
    told = [event for event in session.events() if isinstance(event, Donation)]
    assert [event.handle for event in told] == [handle for handle, _ in truth]
    assert {(event.cause, event.name, event.taker, event.cell) for event in told} == {
        ("graph input", name, taker, cell)
    }
    # Only the first run, which learns what XLA has paired, waits for the device.
    assert [event.taker_handle for event in told] == [truth[0][1], None, None]
    assert [event.address is None for event in told] == [False, True, True]
    (graph,) = session.graphs()
    assert {event.graph_id for event in told} == {graph.graph_id}
    assert [(source, reused) for source, _, reused in aliases(graph)] == [(name, True)]


def test_offer_that_xla_has_no_use_for_is_no_donation(session: Session) -> None:
    step = torch.compile(shrink, backend="xla_notebook", options={"donate": ["old"]})
    old = on_device(4)
    for _ in range(2):
        step(old, on_device(4))
    assert runtime.handle(old) is not None
    assert [event for event in session.events() if isinstance(event, Donation)] == []


def test_watched_runs_tell_addresses_each_time(session: Session) -> None:
    session.set(watch_donations=True)
    step = torch.compile(refill, backend="xla_notebook", options={"donate": ["old"]})
    truth = []
    for _ in range(3):
        given = on_device(5)
        truth.append(runtime.address(given))
        made = step(given, on_device(5))[1]
        assert runtime.address(made) == truth[-1]
    assert [event.address for event in session.events() if isinstance(event, Donation)] == truth


def test_saved_buffers_of_real_graphs_are_in_the_ledger(session: Session) -> None:
    mask = torch.rand(3, 3)
    step = compiled(lambda x: x * mask.to(x.device))
    step(on_device(3, 3))
    graph = only(session)
    saved = [record for record in session.buffers({}).buffers if graph.graph_id in record.graph_ids]
    assert len(saved) == graph.saved_count
    assert sum(record.nbytes for record in saved) == graph.saved_nbytes
    assert {record.state for record in saved} <= {"live"}
