"""Makes the steps of a trace, a warm-up or a run fail one after the other."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch_xla
import torch_xla.core.xla_model as xm

from xla_notebook.backend import runtime


class Injected(Exception):
    """The exception that a step is made to raise."""


STEPS = (
    "wrapper",
    "uploaded",
    "pending",
    "handles",
    "handle",
    "tensor_id",
    "materialize",
    "graph_inputs",
    "graph_hash",
    "warm_up",
    "step_barrier_on",
    "host_reads",
    "compilations",
    "rng_seed",
    "set_rng_seed",
    "seed_tensor",
    "get_donation",
    "set_donation",
    "run_cached_graph",
)


class Saboteur:
    """Counts the steps of a trace, and makes the `target`-th raise `error`.

    `after`: the step does its work before it raises, as a signal that arrives a moment later would have it.
    """

    def __init__(self, error: type[BaseException], after: bool):
        self.error = error
        self.after = after
        self.target = 0
        self.count = 0
        self.tracing = False
        self.armed = False
        self.name = "no step"

    def step(self, work: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **kwargs: Any) -> Any:
            if not self.armed:
                return work(*args, **kwargs)
            self.count += 1
            if self.count != self.target:
                return work(*args, **kwargs)
            self.name = getattr(work, "__name__", str(work))
            if self.after:
                work(*args, **kwargs)
            raise self.error("injected")

        return run

    @contextlib.contextmanager
    def at(self, target: int) -> Iterator[None]:
        self.target, self.count, self.armed = target, 0, True
        try:
            yield
        finally:
            self.armed = False

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in STEPS:
            monkeypatch.setattr(runtime, name, self.step(getattr(runtime, name)))

    def install_in_operators(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Each operator called while a trace is under way is a step."""
        lazy_mode, call = runtime.lazy_mode, torch._ops.OpOverload.__call__

        @contextlib.contextmanager
        def tracing() -> Iterator[None]:
            with lazy_mode():
                self.tracing = True
                try:
                    yield
                finally:
                    self.tracing = False

        sabotaged = self.step(call)

        def operator(overload: Any, /, *args: Any, **kwargs: Any) -> Any:
            return (sabotaged if self.tracing else call)(overload, *args, **kwargs)

        monkeypatch.setattr(runtime, "lazy_mode", tracing)
        monkeypatch.setattr(torch._ops.OpOverload, "__call__", operator)


def modes() -> dict[str, Any]:
    """The state of torch and torch_xla that a failed step must put back."""
    return {
        "random state": xm.get_rng_state(),
        "eager mode": torch_xla.experimental.is_eager_mode(),
        "donor config": torch_xla._XLAC._xla_get_enable_alias_with_buffer_donor_config(),
        "grad mode": torch.is_grad_enabled(),
        "inference mode": torch.is_inference_mode_enabled(),
    }
