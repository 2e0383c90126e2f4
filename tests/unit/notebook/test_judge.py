"""What may stand in a graph. Modules and tensors are on the meta device, told apart by a patched test."""

from __future__ import annotations

import ast
from typing import Any

import matplotlib
import numpy
import pytest
import torch

from xla_notebook.notebook import kinds
from xla_notebook.notebook.judge import Host, Judge
from xla_notebook.notebook.kinds import Kind, Names


def helper(value: Any) -> Any:
    return value + 1


def plotter(value: Any) -> Any:
    return matplotlib.get_backend()


class Device(torch.Tensor):
    """A tensor that says it is on XLA; no XLA client is made for this."""

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        return torch.device("xla", 0)


@pytest.fixture
def namespace() -> dict[str, Any]:
    x = torch.ones(2, 2).as_subclass(Device)
    return {
        "torch": torch,
        "F": torch.nn.functional,
        "np": numpy,
        "x": x,
        "xs": [x, x],
        "host": torch.ones(2),
        "n": 3,
        "loss_fn": torch.nn.CrossEntropyLoss(),
        "helper": helper,
        "plotter": plotter,
        "array": numpy.ones(2),
        "cls": torch.nn.Linear,
    }


def judged(text: str, namespace: dict[str, Any]) -> tuple[bool, bool] | None:
    judge = Judge(namespace, {})
    try:
        on_device = judge.look(ast.parse(text, mode="eval").body)
    except Host:
        return None
    return on_device, judge.work


@pytest.mark.parametrize(
    "text",
    [
        "x + 1",
        "x @ x.T",
        "F.relu(x)",
        "torch.stack(xs)",
        "helper(x)",
        "loss_fn(x, x)",
        "x.sum() * n",
        "-x",
        "x > 0",
        "x[0]",
        "[t * 2 for t in xs]",
        "sum(xs)",
        "(x + 1, n)",
        "torch.where(x > 0, x, x)",
        "helper(x) if n else x",
        "host.to(x.device) + x",
        "(y := x + 1) * 2",
    ],
)
def test_tensor_work(text: str, namespace: dict[str, Any]) -> None:
    assert judged(text, namespace) == (True, True)


@pytest.mark.parametrize("text", ["x", "x.shape", "x.detach()", "n + 1", "x.size(0)", "helper(n)", "3"])
def test_no_tensor_work(text: str, namespace: dict[str, Any]) -> None:
    result = judged(text, namespace)
    assert result is not None
    assert not (result[0] and result[1])


@pytest.mark.parametrize(
    "text",
    [
        "missing + x",
        "x + host",
        "x.item()",
        "x.sum().item() + 1",
        "xs.append(x)",
        "print(x)",
        "f'{x}'",
        "plotter(x)",
        "x + array",
        "np.asarray(x)",
        "cls(2, 2)",
        "torch.save(x, 'f')",
        "torch.manual_seed(0)",
        "x[n]",
        "x[:, n:]",
        "x.not_there",
        "x.not_there()",
        "not x",
        "0 < x < 1",
        "x and 1",
        "1 if x else 2",
        "x is None",
        "'%s' % x",
        "{t for t in xs}",
    ],
)
def test_plain_python(text: str, namespace: dict[str, Any]) -> None:
    assert judged(text, namespace) is None


def test_a_name_that_keeps_changing_counts_as_varying() -> None:
    names = Names(("n", "values"))
    seen = [names.kinds({"n": number, "values": (1,)})[0] for number in (1, 2, 3, 4, 4, 5, 6, 1)]
    assert seen == [Kind.SCALAR] * 5 + [Kind.VARYING] * 3


def test_kinds_of_values(namespace: dict[str, Any]) -> None:
    expected = {
        "x": Kind.TENSOR,
        "xs": Kind.CONTAINER,
        "host": Kind.HOST_TENSOR,
        "n": Kind.SCALAR,
        "torch": Kind.PACKAGE,
        "loss_fn": Kind.NEUTRAL,
        "helper": Kind.NEUTRAL,
        "plotter": Kind.HOST,
        "array": Kind.HOST,
        "cls": Kind.HOST,
    }
    assert {name: kinds.kind_of(namespace[name]) for name in expected} == expected


def test_the_kind_of_a_container_is_found_without_looking_at_all_of_it() -> None:
    class Long(list[Any]):
        def __iter__(self) -> Any:
            yield 1
            raise AssertionError("looked further than the first element")

    assert kinds.kind_of(Long([1, 2])) is Kind.SCALAR
