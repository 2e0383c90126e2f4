"""``python -m benchmarks``: measure everything in one process and print a table."""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

from xla_notebook.backend.device import choose_device

choose_device()

import torch  # noqa: E402

from benchmarks import calls, first_call, inspector, memory, report, session, steps  # noqa: E402
from benchmarks.timing import Row  # noqa: E402

_QUESTIONS = ("calls", "steps", "memory", "first", "session", "inspector")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "questions", nargs="*", default=[], metavar="QUESTION", help=f"of {', '.join(_QUESTIONS)}; default: all"
    )
    parser.add_argument("--quick", action="store_true", help="a fifth of the repetitions")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures to a file")
    options = parser.parse_args()
    unknown = set(options.questions) - set(_QUESTIONS)
    if unknown:
        parser.error(f"no such question: {', '.join(sorted(unknown))}; there are {', '.join(_QUESTIONS)}")
    share = 5 if options.quick else 1
    measurements: dict[str, Callable[[], Iterator[Row]]] = {
        "calls": lambda: calls.measure(400 // share),
        "steps": lambda: steps.measure(50 // share),
        "memory": memory.measure,
        "first": lambda: first_call.measure(5 // share),
        "session": lambda: session.measure(1000 // share),
        "inspector": lambda: inspector.measure(50 // share),
    }
    warnings.filterwarnings("ignore", category=UserWarning, module="torch")
    # A function that quietly ran uncompiled would be timed as if it were compiled.
    torch._dynamo.config.fail_on_recompile_limit_hit = True
    facts = report.machine()
    print(report.header(facts), report.titles(), sep="\n", flush=True)
    rows: list[Row] = []
    for question in options.questions or _QUESTIONS:
        for row in measurements[question]():
            rows.append(row)
            print(report.line(row), flush=True)
    if options.json:
        report.write_json(options.json, facts, rows)


if __name__ == "__main__":
    main()
