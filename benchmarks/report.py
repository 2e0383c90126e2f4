"""The machine, the table and the JSON file."""

from __future__ import annotations

import dataclasses
import json
import os
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import torch_xla
import torch_xla.runtime as xr

from benchmarks.calls import FLOOR
from benchmarks.inspector import CLOSED
from benchmarks.session import BARE
from benchmarks.steps import EAGER, LAZY
from benchmarks.timing import OURS, THEIRS, Row

_COLUMNS = (THEIRS, OURS, FLOOR, LAZY, EAGER, BARE, CLOSED)


def machine() -> dict[str, Any]:
    """What a reader needs to judge the figures."""
    return {
        "cpu": _cpu_model(),
        "cores": len(os.sched_getaffinity(0)),
        # Above the number of cores: other work was running, and the figures wait for it.
        "load": round(os.getloadavg()[0], 1),
        "device": xr.device_type(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "torch_xla": torch_xla.__version__,
    }


def _cpu_model() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def header(facts: dict[str, Any]) -> str:
    """The machine in one line."""
    return (
        f"{facts['cpu']}, {facts['cores']} cores, load {facts['load']}; {facts['device']} device;"
        f" Python {facts['python']}, torch {facts['torch']}, torch_xla {facts['torch_xla']}"
    )


def titles() -> str:
    """The table's head."""
    return _line("", "", [*_COLUMNS, "ratio", "goal", ""]) + "\n" + "-" * 145


def line(row: Row) -> str:
    """A row as a line of the table."""
    figures = [_number(row.figures.get(column), row.unit) for column in _COLUMNS]
    ratio = "" if row.ratio is None else f"{row.ratio:.3f}"
    goal = "" if row.goal is None else f"{row.goal:g}"
    verdict = "over" if row.ratio is not None and row.goal is not None and row.ratio > row.goal else ""
    question = f"{row.question} ({row.unit})" if row.unit else row.question
    return _line(question, row.case, [*figures, ratio, goal, verdict])


def _line(question: str, case: str, cells: Sequence[str]) -> str:
    return f"{question:<28}{case:<38}" + "".join(f"{cell:>{max(8, len(cell) + 1)}}" for cell in cells)


def _number(value: float | None, unit: str) -> str:
    if value is None:
        return ""
    if not unit:
        return str(int(value))
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def write_json(path: Path, facts: dict[str, Any], rows: Sequence[Row]) -> None:
    """Everything that was measured."""
    path.write_text(json.dumps({"machine": facts, "rows": [dataclasses.asdict(row) for row in rows]}, indent=1) + "\n")
