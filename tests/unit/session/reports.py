"""Reports as the backend makes them, with defaults for what a test does not care about."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from xla_notebook.backend.observer import (
    Barrier,
    Binding,
    Donated,
    GraphDropped,
    GraphTraced,
    GraphWarmed,
    TensorSpec,
)

SPEC = TensorSpec((16, 8), "float32", 512)
CELL_FILE = "<cell 3>"


@dataclasses.dataclass
class FakeGraph:
    """A cached graph of the backend, as far as the session reads it."""

    graph_id: int
    runs: int = 0
    run_ns: int = 0
    saved: Sequence[Any] = ()
    saved_nbytes: int = 0
    state: str = "warm"
    hlo: str = ""

    def hlo_text(self) -> str:
        return self.hlo


class FakeClock:
    """A clock that moves when told to."""

    def __init__(self) -> None:
        self.time_ns = 1_000

    def __call__(self) -> int:
        return self.time_ns


def argument(name: str, index: int = 0, spec: TensorSpec = SPEC) -> Binding:
    return Binding("argument", index, name, spec)


def traced(graph_id: int, **fields: Any) -> GraphTraced:
    defaults: dict[str, Any] = {
        "graph_id": graph_id,
        "hash": f"{graph_id:032x}",
        "function": "step",
        "filename": CELL_FILE,
        "line": 4,
        "kind": "inference",
        "segment": 0,
        "reason": "first",
        "inputs": (argument("x"),),
        "outputs": (SPEC,),
        "mutations": (),
        "donated_inputs": (),
        "saved_nbytes": 0,
        "op_count": 3,
        "cached": False,
        "host_ops": (),
        "trace_ns": 400_000_000,
        "started_ns": 10,
    }
    return GraphTraced(**(defaults | fields))


def warmed(graph_id: int, *, compiled: bool = True, compile_ns: int = 1_500_000_000) -> GraphWarmed:
    return GraphWarmed(graph_id, "compile", compiled, compile_ns, 20)


def dropped(graph_id: int) -> GraphDropped:
    return GraphDropped(graph_id, 64, 30)


def barrier(started_ns: int = 40, ended_ns: int = 50, **fields: Any) -> Barrier:
    defaults: dict[str, Any] = {
        "cause": "step barrier",
        "filename": CELL_FILE,
        "line": 7,
        "graph_id": None,
        "tensors": 2,
    }
    return Barrier(started_ns=started_ns, ended_ns=ended_ns, **(defaults | fields))


def donated(**fields: Any) -> Donated:
    defaults: dict[str, Any] = {
        "cause": "step barrier",
        "graph_id": None,
        "name": "w",
        "spec": SPEC,
        "handle": 17,
        "address": 4096,
        "saved": False,
        "would_be": False,
        "time_ns": 45,
    }
    return Donated(**(defaults | fields))
