"""Which reads of pending tensors force XLA to execute is told truly, and telling changes nothing."""

from __future__ import annotations

import sys
import traceback
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch_xla

from xla_notebook.backend import observer, runtime
from xla_notebook.session import Session
from xla_notebook.session.describe import event_text
from xla_notebook.session.events import ExecutionForced
from xla_notebook.session.reads import READS


def on_device(*shape: int) -> torch.Tensor:
    (tensor,) = runtime.uploaded([torch.rand(*shape)], torch_xla.device())
    return tensor


@pytest.fixture
def session() -> Iterator[Session]:
    made = Session()
    made.attach()
    made.set(watch_reads=True)
    yield made
    made.detach()


def told(session: Session) -> list[ExecutionForced]:
    return [event for event in session.events() if isinstance(event, ExecutionForced)]


def methods() -> dict[str, object]:
    """What stands at the watched names in `torch.Tensor` itself."""
    return {name: vars(torch.Tensor).get(name) for name in READS}


def in_a_test(tensor: torch.Tensor) -> str:
    return "positive" if tensor > 0 else "negative"


READERS: list[tuple[Callable[[torch.Tensor], Any], str, int]] = [
    (lambda x: (x * 2).sum().item(), ".item()", 2),
    (lambda x: float((x * 2).sum()), "float()", 2),
    (lambda x: int((x * 2).sum()), "int()", 2),
    (lambda x: complex((x * 2).sum()), "complex()", 2),
    (lambda x: in_a_test((x * 2).sum()), "the truth value", 3),
    (lambda x: [7, 8, 9][(x > 5).sum()], "use as an index", 2),
    (lambda x: str(x * 2), "the printed text", 1),
    (lambda x: f"{(x * 2).sum():.2f}", ".item()", 2),
    (lambda x: (x * 2 + 1).cpu(), ".cpu()", 2),
    (lambda x: (x * 2 + 1).to("cpu"), ".to()", 2),
    (lambda x: (x * 2 + 1).numpy(force=True), ".numpy()", 2),
    (lambda x: (x * 2 + 1).tolist(), ".tolist()", 2),
    (lambda x: 3.0 in (x * 2), ".item()", 3),
    (lambda x: (x * 2 + 1).equal(x), ".equal()", 2),
    (lambda x: (x * 2 + 1).allclose(x), ".allclose()", 2),
    (lambda x: (x * 2).sum().is_nonzero(), ".is_nonzero()", 2),
    (lambda x: (x * 2 - 1).nonzero().shape, ".nonzero()", 2),
    (lambda x: (x * 2 - 1).masked_select(x > 2).shape, ".masked_select()", 2),
    (lambda x: (x * 2 + 1).type(torch.FloatTensor), ".type()", 2),
]


@pytest.mark.parametrize(("read", "by", "op_count"), READERS)
def test_read_of_a_pending_tensor_is_told_once(
    session: Session, read: Callable[[torch.Tensor], Any], by: str, op_count: int
) -> None:
    read(on_device(3))
    (event,) = told(session)
    assert (event.by, event.op_count) == (by, op_count)
    assert event.source is not None
    assert event.source.filename == __file__


@pytest.mark.parametrize("read", [read for read, _, _ in READERS])
def test_watching_changes_no_result(session: Session, read: Callable[[torch.Tensor], Any]) -> None:
    x = on_device(3)
    seen = read(x)
    session.set(watch_reads=False)
    alone = read(x)
    assert str(seen) == str(alone)
    assert type(seen) is type(alone)


def test_line_shape_and_compile_are_told(session: Session) -> None:
    x = on_device(3, 4)
    with session.cell(5, filename=__file__) as cell:
        for _ in range(2):
            (x * 17.5).sum(0).tolist()
    first, second = told(session)
    assert (first.compiled, second.compiled) == (True, False)
    assert first.spec == observer.TensorSpec((4,), "float32", 16)
    assert first.source is not None
    line = test_line_shape_and_compile_are_told.__code__.co_firstlineno + 4
    assert (first.source.line, first.source.cell, first.cell) == (line, cell, cell)
    assert event_text(second, {}).startswith(".tolist() of a float32 4 executed 2 pending ops in ")
    assert event_text(first, {}).startswith(".tolist() of a float32 4 compiled and executed 2 pending ops in ")


def test_what_executes_nothing_is_not_told(session: Session) -> None:
    x = on_device(3)
    x.tolist()
    pending = x * 3
    assert hasattr(pending, "item")
    pending.to(torch.int32)
    with pytest.raises(RuntimeError, match="cannot be converted to Scalar"):
        pending.item()
    with pytest.raises(TypeError, match="to numpy"):
        pending.numpy()
    torch.rand(3).tolist()
    assert runtime.pending([pending]) == [True]
    assert told(session) == []


def test_method_that_is_kept_is_told_once_it_is_let_go(session: Session) -> None:
    pending = on_device(3) * 3
    read = pending.tolist
    assert read() == read()
    del read
    assert [event.by for event in told(session)] == [".tolist()"]


def test_failed_read_has_the_same_traceback(session: Session) -> None:
    def frames() -> list[str]:
        try:
            (on_device(3) * 2).item()
        except RuntimeError as error:
            return [frame.name for frame in traceback.extract_tb(error.__traceback__)]
        raise AssertionError("three elements are no scalar")

    watched = frames()
    session.set(watch_reads=False)
    assert watched == frames() == ["frames"]


def test_watching_keeps_no_tensor_alive(session: Session) -> None:
    pending = on_device(3) * 3
    alive, before = weakref.ref(pending), sys.getrefcount(pending)
    pending.tolist()
    assert sys.getrefcount(pending) == before
    del pending
    assert alive() is None


def test_everything_is_put_back() -> None:
    before = methods()
    first, second = Session(), Session()
    for made in (first, second):
        made.set(watch_reads=True)
        made.attach()
    assert torch.Tensor.__dict__["item"] is not before["item"]
    assert torch.Tensor.item is torch._C.TensorBase.item
    first.set(watch_reads=False)
    assert methods() != before
    second.detach()
    assert methods() == before
    second.attach()
    assert methods() != before
    second.detach()
    assert methods() == before


def test_session_that_is_not_attached_does_not_watch() -> None:
    before = methods()
    Session().set(watch_reads=True)
    assert methods() == before


def test_compiled_functions_are_compiled_alike_and_their_reads_are_told(session: Session) -> None:
    """Given a function with reads between its graphs, when watched, then its graphs and results are the same."""

    def function(x: torch.Tensor, lazy: torch.Tensor) -> torch.Tensor:
        y = x * 2
        if y.sum() > 100:
            return y
        return y * float(lazy.sum()) + x.mean().item()

    x = on_device(3)

    def run() -> tuple[list[float], int]:
        torch._dynamo.reset()
        before = len(session.graphs())
        compiled = torch.compile(function, backend="xla_notebook")
        for _ in range(3):
            result = compiled(x, on_device(3) * 0 + 1).cpu()
        return result.tolist(), len(session.graphs()) - before

    watched = run()
    session.set(watch_reads=False)
    assert watched == run()
    assert watched[1] > 1


def test_switching_it_on_recompiles_nothing(session: Session) -> None:
    session.set(watch_reads=False)
    torch._dynamo.reset()

    def function(x: torch.Tensor) -> float:
        return float((x * 2).sum()) + (x + 1).mean().item()

    compiled = torch.compile(function, backend="xla_notebook")
    x = on_device(3)
    expected = compiled(x)
    graphs = len(session.graphs())
    session.set(watch_reads=True)
    assert compiled(x) == expected
    assert len(session.graphs()) == graphs
