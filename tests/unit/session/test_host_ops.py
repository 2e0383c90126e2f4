"""Operators that XLA has no kernel for are told of each cell, whoever ran them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch_xla.debug.metrics as metrics

from xla_notebook.session import Session
from xla_notebook.session.describe import event_text
from xla_notebook.session.events import CellRef, HostOpsRan

from .real_backend import compiled, on_device


@pytest.fixture
def session() -> Iterator[Session]:
    made = Session()
    made.attach()
    yield made
    made.detach()


def told(session: Session) -> list[tuple[int, dict[str, int]]]:
    """Execution counts of cells, and the operators told of each."""
    events = [event for event in session.events() if isinstance(event, HostOpsRan)]
    return [(event.cell.execution_count if event.cell else 0, dict(event.ops)) for event in events]


OPERATORS: list[tuple[Callable[[torch.Tensor], Any], dict[str, int]]] = [
    (lambda x: torch.nonzero(x), {"aten::nonzero": 1}),
    (lambda x: (x * 2)[x > 0.5], {"aten::nonzero": 1}),
    (lambda x: [torch.equal(x, x + 1) for _ in range(3)], {"aten::equal": 3}),
    (lambda x: (torch.median(x), torch.lgamma(x), x.lgamma()), {"aten::median": 1, "aten::lgamma": 2}),
    (lambda x: (x * 2).sum().item(), {}),
    (lambda x: (x * 2 + 1, print(x)), {}),
]


@pytest.mark.parametrize(("run", "ops"), OPERATORS)
def test_each_operator_is_told_of_the_cell_that_ran_it(
    session: Session, run: Callable[[torch.Tensor], Any], ops: dict[str, int]
) -> None:
    x = on_device(6)
    torch.unique(x)  # before the cell
    with session.cell(7):
        run(x)
    torch.unique(x)  # after it
    with session.cell(8):
        pass
    assert told(session) == ([(7, ops)] if ops else [])


def test_a_cell_that_fails_and_one_within_another(session: Session) -> None:
    x = on_device(6)

    def outer() -> None:
        with session.cell(1):
            torch.nonzero(x)
            with session.cell(2):
                torch.median(x)
            torch.nonzero(x)
            raise ValueError("over")

    with pytest.raises(ValueError, match="over"):
        outer()
    assert told(session) == [(2, {"aten::median": 1}), (1, {"aten::nonzero": 2})]


def test_compiled_ones_are_told_once_a_call(session: Session) -> None:
    @compiled
    def split(x: torch.Tensor) -> torch.Tensor:
        return torch.lgamma(x * 2) + 1

    x = on_device(6)
    with session.cell(1):
        for _ in range(4):
            split(x)
    assert told(session) == [(1, {"aten::lgamma": 4})]


def test_counters_that_the_user_clears(session: Session) -> None:
    x = on_device(6)
    with session.cell(1):
        for _ in range(5):
            torch.nonzero(x)
    with session.cell(2):
        metrics.clear_counters()
        torch.nonzero(x)
    assert told(session) == [(1, {"aten::nonzero": 5}), (2, {"aten::nonzero": 1})]


def test_as_a_sentence() -> None:
    ops = (("aten::nonzero", 3), ("aten::equal", 1), ("aten::median", 1), ("aten::lgamma", 1), ("aten::i0", 1))
    event = HostOpsRan(seq=1, time_ns=0, cell=CellRef(2), source=None, ops=ops)
    assert event_text(event, {}) == (
        "ran on the host, for want of an XLA kernel: "
        "aten::nonzero (3 times), aten::equal, aten::median, aten::lgamma and 1 other"
    )
