"""`torch.compile` with plain Python as the safety net. Uses small backends of its own on the CPU."""

from __future__ import annotations

import functools
import gc
import linecache
import logging
import weakref
from typing import Any

import pytest
import torch
import torch._dynamo.config as dynamo_config

from xla_notebook.notebook import compiled, quiet
from xla_notebook.notebook.compiled import Options
from xla_notebook.notebook.leases import Lease


@pytest.fixture(autouse=True)
def _logs() -> Any:
    torch._dynamo.reset()
    quiet.install()
    yield
    quiet.remove()
    quiet.take()


def broken(graph: Any, inputs: Any) -> Any:
    raise LookupError("no such thing")


def test_a_block_that_the_backend_refuses_runs_once_as_plain_python(capfd: pytest.CaptureFixture[str]) -> None:
    calls: list[int] = []

    def block(x: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        return x + len(calls)

    run = Options(backend=broken).compile(block, Lease(block.__code__))  # type: ignore[arg-type]
    assert run(torch.zeros(2)).tolist() == [1.0, 1.0]
    assert calls == [1]
    (notice,) = quiet.take()
    assert "plain Python" in notice
    assert "no such thing" in notice
    assert capfd.readouterr().err == ""
    assert dynamo_config.suppress_errors is False


def test_with_fullgraph_the_refusal_is_an_error() -> None:
    def block(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    run = Options(backend=broken, fullgraph=True).compile(block, Lease(block.__code__))  # type: ignore[arg-type]
    with pytest.raises(Exception, match="no such thing"):
        run(torch.zeros(2))


def test_what_was_compiled_goes_when_nobody_can_call_it_any_more(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "torch.__trace")  # its records, which pytest keeps, hold the graph
    kept: list[weakref.ref[Any]] = []

    def backend(graph: torch.fx.GraphModule, inputs: Any) -> Any:
        def made(*values: Any) -> Any:
            return graph.forward(*values)

        kept.append(weakref.ref(made))
        return made

    space: dict[str, Any] = {}
    # Known to linecache, as cells are: Dynamo wraps functions without a source in one of its own.
    text = "def block(x):\n    return x * 2 + 1\n"
    linecache.cache["<a cell>"] = (len(text), None, text.splitlines(keepends=True), "<a cell>")
    exec(compile(text, "<a cell>", "exec"), space)
    run = Options(backend=backend).compile(space["block"], Lease(space["block"].__code__))  # type: ignore[arg-type]
    run(torch.ones(2))
    assert kept[0]() is not None
    del run
    space.clear()
    gc.collect()
    gc.collect()
    assert kept[0]() is None


def test_generators_and_coroutines_are_left_alone() -> None:
    def generator() -> Any:
        yield 1

    async def coroutine() -> None:
        return None

    for function in (generator, coroutine):
        assert compiled.define(function, Options()) is function


def test_a_module_class_stays_the_same_class() -> None:
    class Net(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            """The forward."""
            return x + 1

    forward = Net.forward
    assert compiled.define(Net, Options()) is Net
    assert Net.forward is not forward
    assert Net.forward.__wrapped__ is forward  # type: ignore[attr-defined]
    assert Net.forward.__doc__ == "The forward."


def test_a_call_without_device_tensors_goes_straight_to_the_function() -> None:
    def backend(graph: Any, inputs: Any) -> Any:
        raise AssertionError("compiled")

    @functools.partial(compiled.define, options=Options(backend=backend, fullgraph=True))  # type: ignore[arg-type]
    def double(value: Any) -> Any:
        return value * 2

    assert double(3) == 6
    assert double(torch.ones(2)).tolist() == [2.0, 2.0]
