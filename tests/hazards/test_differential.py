"""Generated programs do on XLA, compiled, what they do in eager mode on the CPU."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch_xla
from hazards.drawn_programs import programs
from hazards.programs import Outcome, Program, difference, run
from hypothesis import HealthCheck, given, settings

CPU = torch.device("cpu")
ASKED = os.environ.get("XLA_NOTEBOOK_FUZZ")  # how many programs `make fuzz` wants
LONG = ASKED is not None
COUNT = int(ASKED or 10_000) if LONG else 200
# The program that a crash of the process would otherwise take along.
LAST = Path(".hypothesis/last_program.py")


@pytest.fixture(scope="module", autouse=True)
def no_records_of_compiling() -> Iterator[None]:
    """Dynamo writes much for tools that trace it, and pytest would keep it all to show it with a failure."""
    logger = logging.getLogger("torch.__trace")
    propagate, logger.propagate = logger.propagate, False
    yield
    logger.propagate = propagate


def on_xla(program: Program, backend: str | None) -> Outcome:
    """Run the program on the XLA device: compiled with a backend, or lazily with None."""
    torch._dynamo.reset()

    def compiled(function: Any, **options: Any) -> Any:
        if backend is None:
            return function
        if backend != "xla_notebook":
            options.pop("options", None)
        return torch.compile(function, backend=backend, **options)

    try:
        return run(program, torch_xla.device(), compiled, torch_xla.sync)
    finally:
        torch._dynamo.reset()


def explain(program: Program, want: Outcome) -> str:
    """Where else the program goes wrong: the layer at fault is the first of these that does."""
    layers = {"XLA without compile": None, "aot_eager on XLA": "aot_eager", "openxla": "openxla"}
    found = {layer: difference(want, on_xla(program, backend)) for layer, backend in layers.items()}
    return "\n".join(f"{layer}: {(what or 'as eager mode').splitlines()[0]}" for layer, what in found.items())


@pytest.mark.slow
@pytest.mark.timeout(0)
@settings(
    max_examples=COUNT,
    deadline=None,
    derandomize=not LONG,
    print_blob=LONG,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)
@given(programs())
def test_same_as_eager(program: Program) -> None:
    if LONG:
        LAST.parent.mkdir(exist_ok=True)
        LAST.write_text(program.standalone())
    want = run(program, CPU)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        got = on_xla(program, "xla_notebook")
    found = difference(want, got)
    if found and any("runs uncompiled (lazily)" in str(warning.message).replace("\n", " ") for warning in said):
        # Some functions of views run uncompiled, so with the faults of torch_xla's operators.
        found = difference(on_xla(program, None), got)
    assert found is None, f"{found}\n{explain(program, want)}\n\n{program.standalone()}"
