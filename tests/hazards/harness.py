"""Eager mode on the CPU against compiled functions on the XLA device.

`same_as_eager` is what most of the hazard tests call: it runs a function both ways several times and
compares what the user can see after each call: outputs, arguments, the state it keeps, and which of these
alias each other.
"""

from __future__ import annotations

import contextlib
import dataclasses
import gc
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
import torch_xla
import torch_xla.debug.metrics as metrics
from torch.utils import _pytree as pytree

from xla_notebook.backend import observer, runtime
from xla_notebook.backend.observer import Report

CPU = torch.device("cpu")
XLA = torch_xla.device()


def compiled(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """`function`, compiled by the backend under test."""
    return torch.compile(function, backend="xla_notebook", **options)  # type: ignore[no-any-return]


def values(*shape: int, seed: int = 0, device: torch.device = CPU, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Normal random values that depend on nothing but the shape and the seed."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator).to(dtype).to(device)


def two(call: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """The arguments of a call: two matrices."""
    return values(3, 4, seed=call, device=device), values(3, 4, seed=call + 50, device=device)


# Comparing -------------------------------------------------------------------------------------------


def assert_same(want: Any, got: Any, where: str = "value", rtol: float = 1e-4, atol: float = 1e-4) -> None:
    """Both have one structure, and their leaves the same types, dtypes, shapes and values."""
    want_leaves, want_structure = pytree.tree_flatten(want)
    got_leaves, got_structure = pytree.tree_flatten(got)
    assert want_structure == got_structure, f"{where}: {got_structure}, want {want_structure}"
    for number, (first, second) in enumerate(zip(want_leaves, got_leaves, strict=True)):
        place = where if len(want_leaves) == 1 else f"{where}[{number}]"
        assert type(first) is type(second) or isinstance(first, torch.nn.Parameter), f"{place}: {second!r}"
        if not isinstance(first, torch.Tensor):
            assert first == second, f"{place}: {second!r}, want {first!r}"
            continue
        assert first.requires_grad == second.requires_grad, f"{place}: requires_grad is {second.requires_grad}"
        torch.testing.assert_close(
            second.detach().cpu(),
            first.detach(),
            rtol=rtol,
            atol=atol,
            equal_nan=True,
            msg=lambda text, place=place: f"{place}: {text}",
        )


def tensors_in(value: Any) -> list[torch.Tensor]:
    """The tensors among the leaves of `value`."""
    return [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def state_of(state: Any) -> Any:
    """Parameters, buffers and gradients of a module; any other state is its own description."""
    if not isinstance(state, torch.nn.Module):
        return state
    gradients = {f"{name}.grad": p.grad for name, p in state.named_parameters() if p.grad is not None}
    return {**{name: t.detach() for name, t in state.state_dict().items()}, **gradients}


def same_as_eager(
    function: Callable[..., Any],
    arguments: Callable[[int, torch.device], Sequence[Any]],
    state: Callable[[torch.device], Any] | None = None,
    between: Callable[[int, Any], None] | None = None,
    calls: int = 3,
    probe: bool = True,
    rtol: float = 1e-4,
    atol: float = 1e-4,
    **options: Any,
) -> None:
    """Call `function(*arguments(call, device))`, or `function(state, *arguments)`, `calls` times both ways.

    After each call outputs, arguments and state must agree. `probe` then adds one to each output in turn and
    compares again, so that an alias that was lost shows, and one that was made up. `between` works on the
    state between two calls. `options` go to ``torch.compile``.
    """
    states = {device: [state(device)] if state else [] for device in (CPU, XLA)}
    run = {CPU: function, XLA: compiled(function, **options)}
    for call in range(calls):
        given = {device: arguments(call, device) for device in (CPU, XLA)}
        output = {device: run[device](*states[device], *given[device]) for device in (CPU, XLA)}

        def world(device: torch.device, output: Any = output, given: Any = given) -> dict[str, Any]:
            return {
                "output": output[device],
                "argument": list(given[device]),
                "state": [state_of(s) for s in states[device]],
            }

        def compare(when: str, call: int = call) -> None:
            want, got = world(CPU), world(XLA)
            for name in want:
                assert_same(want[name], got[name], f"call {call}, {when}: {name}", rtol, atol)

        compare("afterwards")
        pairs = zip(tensors_in(output[CPU]), tensors_in(output[XLA]), strict=True)
        for number, pair in enumerate(pairs if probe else ()):
            if 0 in pair[0].stride() and pair[0].numel() > 1:
                continue  # expanded: eager mode itself refuses to write
            with torch.no_grad():
                for tensor in pair:
                    tensor.logical_not_() if tensor.dtype == torch.bool else tensor.add_(1)
            compare(f"after writing into output {number}")
        if between:
            for device in (CPU, XLA):
                between(call, *states[device])


# Looking at the device -------------------------------------------------------------------------------


def pending(*tensors: torch.Tensor) -> list[bool]:
    """Which of the tensors are still lazy work."""
    return runtime.pending(tensors)


def executions() -> int:
    """How many graphs the device has run so far."""
    torch_xla._XLAC._xla_wait_device_ops([])
    data = metrics.metric_data("ExecuteTime")
    return int(data[0]) if data else 0


def counter(name: str) -> int:
    """A torch_xla counter; 0 if it was never raised."""
    return int(metrics.counter_value(name) or 0)


def settle() -> None:
    """Run everything that is pending and wait for it."""
    gc.collect()
    torch_xla.sync(wait=True)


class Reports(observer.Observer):
    """Keeps what the backend reports."""

    def __init__(self) -> None:
        self.all: list[Report] = []

    def report(self, report: Report) -> None:
        self.all.append(report)

    def of(self, kind: type) -> list[Any]:
        """The reports of one kind, in order."""
        return [report for report in self.all if isinstance(report, kind)]


@contextlib.contextmanager
def reports() -> Iterator[Reports]:
    """Watch the backend for a while."""
    watcher = Reports()
    observer.attach(watcher)
    try:
        yield watcher
    finally:
        observer.detach(watcher)


@dataclasses.dataclass(frozen=True)
class Tensor:
    """What a user could notice about a tensor without reading it, and its value."""

    pending: bool
    handle: int | None
    version: int
    donation: bool
    value: list[Any]
    gradient: list[Any] | None

    @classmethod
    def of(cls, tensor: torch.Tensor) -> Tensor:
        (waits,) = runtime.pending([tensor])
        return cls(
            pending=waits,
            handle=None if waits else runtime.handle(tensor),
            version=-1 if tensor.is_inference() else tensor._version,
            donation=runtime.get_donation(tensor),
            # Reading a pending tensor would execute it.
            value=[] if waits else tensor.detach().cpu().flatten().tolist(),
            gradient=None if tensor.grad is None else tensor.grad.cpu().flatten().tolist(),
        )
