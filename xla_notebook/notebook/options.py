"""The options of ``%%xla_compile`` and their one-line errors."""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Sequence

from IPython.core.error import UsageError

from xla_notebook.notebook.compiled import Options

HELP = """\
  --name NAME         what reports and tracebacks call the cell's graphs
  --warm-up MODE      how a graph gets into XLA's cache: compile (default: nothing executes), execute (compile,
                      then run once through a step barrier) or off (compile at the first run)
  --no-run            compile every graph that the cell would need, and change nothing: no value is computed,
                      no name bound, no file written. The line after the cell says what was not reached.
  --dynamic           one graph program for changing sizes, as in torch.compile(dynamic=True)
  --fullgraph         an error instead of plain Python where a statement cannot be compiled whole
  --donate A,B        give the buffers of these inputs to the outputs: the names must not be used afterwards
  --quiet             no line about the graphs after the cell
"""
_FLAGS = ("--no-run", "--dynamic", "--fullgraph", "--quiet")
_VALUES = ("--name", "--warm-up", "--donate")
_WARM_UPS = ("compile", "execute", "off")


def parse(line: str) -> Options:
    """The options on a magic's line. Raises `UsageError` with one line that names the nearest right one."""
    try:
        words = shlex.split(line, comments=True)
    except ValueError as error:
        raise UsageError(f"%%xla_compile: {error} in {line.strip()!r}") from None
    values: dict[str, str] = {}
    flags: set[str] = set()
    rest = iter(words)
    for word in rest:
        option, has_value, value = word.partition("=")
        if option in _FLAGS and not has_value:
            flags.add(option)
        elif option in _VALUES:
            values[option] = value if has_value else next(rest, "")
            if not values[option] or values[option].startswith("--"):
                raise UsageError(f"%%xla_compile: {option} needs a value{_example(option)}")
        else:
            raise UsageError(f"%%xla_compile: no option {word!r}{_nearest(option, (*_FLAGS, *_VALUES))}")
    warm_up = values.get("--warm-up")
    if warm_up is not None and warm_up not in _WARM_UPS:
        raise UsageError(f"%%xla_compile: --warm-up {warm_up!r} is unknown{_nearest(warm_up, _WARM_UPS)}")
    donate = tuple(name.strip() for name in values.get("--donate", "").split(",") if name.strip())
    for name in donate:
        if not name.isidentifier():
            raise UsageError(f"%%xla_compile: --donate takes names of variables, and {name!r} is not one")
    return Options(
        name=values.get("--name"),
        warm_up=warm_up,
        dynamic=True if "--dynamic" in flags else None,
        fullgraph="--fullgraph" in flags,
        donate=donate,
        quiet="--quiet" in flags,
        no_run="--no-run" in flags,
    )


def _example(option: str) -> str:
    examples = {"--name": "train", "--warm-up": "compile", "--donate": "a,b"}
    return f", as in {option} {examples[option]}"


def _nearest(given: str, known: Sequence[str]) -> str:
    # Without the dashes, which all options share and which would make everything look near.
    plain = {name.lstrip("-"): name for name in known}
    close = difflib.get_close_matches(given.lstrip("-").replace("_", "-"), plain, n=1, cutoff=0.4)
    return f"; did you mean {plain[close[0]]}?" if close else f"; there are {', '.join(known)}"
