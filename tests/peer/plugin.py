"""A pytest plugin that runs one of torch_xla's test files as its authors meant it, and notes each result.

A note is a line of JSON in the file PEER_NOTES, so that a crash of the process loses one test only.
"""

from __future__ import annotations

import inspect
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

_NOTES = Path(os.environ["PEER_NOTES"])
# Noted before a crash of the process that this one replaces.
_DONE = {json.loads(line)["test"] for line in _NOTES.read_text().splitlines()}
_why: dict[str, str] = {}


def _name(node_id: str) -> str:
    """Without the file: ``Class::test``."""
    return node_id.partition("::")[2]


def _note(node_id: str, outcome: str, why: str = "") -> None:
    with _NOTES.open("a") as notes:
        notes.write(json.dumps({"test": _name(node_id), "outcome": outcome, "why": why}) + "\n")


def pytest_configure() -> None:
    # Some files find their helper modules by it.
    sys.argv[:] = [os.environ["PEER_FILE"]]


def pytest_pycollect_makeitem(collector: Any, name: str, obj: Any) -> list[Any] | None:
    """Put a test that has a `self` but stands outside of the class into the class."""
    stray = (
        isinstance(collector, pytest.Module)
        and name.startswith("test")
        and inspect.isfunction(obj)
        and next(iter(inspect.signature(obj).parameters), None) == "self"
    )
    if not stray:
        return None
    (case,) = (c for _, c in inspect.getmembers(collector.obj, inspect.isclass) if c.__module__ == obj.__module__)
    setattr(case, name, obj)
    return []


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if "PEER_INLINE" in os.environ:
        # Its body goes to another process, and what becomes of it there is never looked at.
        for module in {item.module for item in items if isinstance(item, pytest.Function)}:
            setattr(module, os.environ["PEER_INLINE"], lambda function, arguments: function(*arguments))
    done = [item for item in items if _name(item.nodeid) in _DONE]
    config.hook.pytest_deselected(items=done)
    items[:] = [item for item in items if item not in done]


def pytest_collectreport(report: pytest.CollectReport) -> None:
    if report.failed:
        _note("::(collection)", "failed", str(report.longrepr)[-1000:])


def pytest_runtest_logstart(nodeid: str) -> None:
    _note(nodeid, "started")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "call" or report.outcome != "passed":
        crash = getattr(report.longrepr, "reprcrash", None)
        _note(report.nodeid, report.outcome, crash.message if crash else str(report.longrepr or "")[-1000:])
