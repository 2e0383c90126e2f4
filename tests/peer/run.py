"""Run torch_xla's own Dynamo tests with xla_notebook in the place of ``openxla``.

    git -C pytorch-xla archive v2.9.0 test examples | tar -x -C UPSTREAM
    python tests/peer/run.py UPSTREAM

Each file runs in a process of its own. Exit status 1 if a test fails that `exceptions.py` does not list.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import fnmatch
import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from peer.exceptions import EXCEPTIONS  # noqa: E402
from peer.suite import CLEARED, ENVIRONMENT, IMPORTS, LONG, SUITE, VERSION, Run  # noqa: E402

# A hang is the only other way to end; ResNet-18 takes minutes on a slow machine.
_LIMIT_S = 3600


@dataclasses.dataclass(frozen=True)
class Result:
    """`outcome` is ``passed``, ``failed``, ``skipped`` or ``crashed`` (the process died or hung)."""

    test: str
    outcome: str
    why: str = ""


def judge(results: Sequence[Result], exceptions: Mapping[str, str]) -> tuple[list[Result], list[Result], list[str]]:
    """The failures that are not excused, those that are, and the exceptions that passed after all."""
    failed = [r for r in results if r.outcome not in ("passed", "skipped")]
    passed = {r.test for r in results if r.outcome == "passed"}
    return (
        [r for r in failed if r.test not in exceptions],
        [r for r in failed if r.test in exceptions],
        [test for test in exceptions if test in passed],
    )


def run(suite_run: Run, options: argparse.Namespace) -> list[Result]:
    """Run one file; a test that kills its process costs only itself."""
    with tempfile.TemporaryDirectory() as folder:
        environment = _environment(suite_run, options, folder)
        command = [sys.executable, environment["PEER_FILE"]]
        if suite_run.script:
            code, output = _process(command, environment, folder)
            return [Result(f"{suite_run.name}::script", "passed" if code == 0 else "failed", output)]
        select = " and ".join(f"({s})" for s in (suite_run.select, f"not ({LONG})" if options.quick else "") if s)
        command[1:1] = [
            *("-m", "pytest", "-q", "--noconftest", "--import-mode=importlib", "-c", os.devnull, "-k", select),
            *("--rootdir", str(options.upstream / "test"), "-p", "peer.plugin", "-p", "no:cacheprovider"),
        ]
        notes = Path(environment["PEER_NOTES"])
        notes.touch()
        while True:
            code, output = _process(command, environment, folder)
            found = _read(notes)
            died = [result.test for result in found if result.outcome == "started"]
            if not died:
                break
            with notes.open("a") as file:
                file.write(json.dumps({"test": died[0], "outcome": "crashed", "why": output}) + "\n")
        # 5: every test of the file was left out.
        if not found and code != 5:
            found = [Result("(collection)", "crashed", output)]
        return [dataclasses.replace(r, test=f"{suite_run.name}::{r.test}") for r in found]


def _read(notes: Path) -> list[Result]:
    """The last note on each test."""
    last = {note["test"]: note for note in map(json.loads, notes.read_text().splitlines())}
    return [Result(**note) for note in last.values()]


def _environment(suite_run: Run, options: argparse.Namespace, folder: str) -> dict[str, str]:
    environment = {name: value for name, value in os.environ.items() if name not in CLEARED}
    environment.update(ENVIRONMENT)
    environment.update((name, value.format(tmp=folder)) for name, value in suite_run.environment.items())
    file = options.upstream / "test" / suite_run.file
    # The file's own folder, because the tests import helpers that lie beside them.
    paths = [file.parent, options.upstream / "test", HERE.parent, HERE.parents[1], *options.extras]
    if options.backend != "openxla":
        paths.insert(0, HERE / "swap")
    environment["PYTHONPATH"] = os.pathsep.join([*map(str, paths), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment["PYTHONDONTWRITEBYTECODE"] = "1"
    environment.update(PEER_FILE=str(file), PEER_NOTES=f"{folder}/notes")
    if suite_run.inline:
        environment["PEER_INLINE"] = suite_run.inline
    return environment


def _process(command: Sequence[str], environment: Mapping[str, str], folder: str) -> tuple[int, str]:
    """Exit code and the end of the output; whatever the process started dies with it."""
    log = Path(folder, "log")
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, env=environment, cwd=folder, stdout=output, stderr=output, start_new_session=True
        )
        try:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_LIMIT_S)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return process.returncode, log.read_bytes()[-1500:].decode(errors="replace")


def _missing(extras: Sequence[Path]) -> list[str]:
    """What the tests need and is neither installed nor in one of the folders."""
    sys.path.extend(map(str, extras))
    return [package for module, package in IMPORTS.items() if importlib.util.find_spec(module) is None]


def main() -> int:
    summary, usage = (__doc__ or "").split("\n\n", 1)
    parser = argparse.ArgumentParser(
        description=summary, epilog=usage, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("upstream", type=Path, help=f"folder with test/ and examples/ of pytorch/xla at {VERSION}")
    parser.add_argument("--extras", type=Path, action="append", default=[], help="a folder with packages for the tests")
    parser.add_argument("--only", metavar="GLOB", default="*", help="files to run, such as 'dynamo/*'")
    parser.add_argument("--quick", action="store_true", help=f"leave out the long tests ({LONG})")
    parser.add_argument("--backend", choices=("xla_notebook", "openxla"), default="xla_notebook")
    options = parser.parse_args()
    options.upstream = options.upstream.resolve()
    options.extras = [folder.resolve() for folder in options.extras]
    if not (options.upstream / "test" / "dynamo").is_dir():
        parser.error(f"{options.upstream} has no test/dynamo; export it with: git archive {VERSION} test examples")
    missing = _missing(options.extras)
    if missing:
        parser.error(f"the tests need {', '.join(missing)}: pip install --target DIR --no-deps ..., then --extras DIR")

    results: list[Result] = []
    for suite_run in SUITE:
        if fnmatch.fnmatch(suite_run.file, options.only):
            started = time.monotonic()
            found = run(suite_run, options)
            results += found
            counts = [f"{sum(r.outcome == o for r in found)} {o}" for o in sorted({r.outcome for r in found})]
            print(f"{suite_run.name:<50}{time.monotonic() - started:5.0f} s  {', '.join(counts)}", flush=True)
    unexcused, excused, stale = judge(results, EXCEPTIONS)
    for result in excused:
        print(f"\nexpected: {result.test}\n  {EXCEPTIONS[result.test]}")
    for test in stale:
        print(f"\npassed this time, though listed: {test}")
    for result in unexcused:
        print(f"\n{result.outcome.upper()}: {result.test}\n  {result.why}")
    passed = sum(r.outcome == "passed" for r in results)
    print(f"\n{passed} passed, {len(excused)} failed as expected, {len(unexcused)} failed otherwise")
    return 1 if unexcused else 0


if __name__ == "__main__":
    sys.exit(main())
