"""What Dynamo logs while a block is compiled, turned into what a notebook's reader can use.

A frame that Dynamo cannot compile runs as plain Python with the same result, and Dynamo logs its whole
stack about it. Here that becomes one notice, shown after the cell if the cell went well; if it failed,
its own traceback says more. Logs of other uses of Dynamo are left alone.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import logging
import re
import threading
from collections.abc import Iterator

from torch._dynamo.exc import TorchRuntimeError

# A filter on a logger sees only what is logged on that very logger.
_LOGGERS = (
    "torch._dynamo.convert_frame",
    "torch._dynamo.output_graph",
    "torch._dynamo.symbolic_convert",
    "torch._dynamo.variables.tensor",
    "torch._dynamo.variables.torch",
    "torch._subclasses.fake_tensor",
)
_GIVEN_UP = re.compile(r"recompile_limit .*\n +function: (.+)")
_MANY = 20

_here = threading.local()
_notices: collections.deque[str] = collections.deque(maxlen=_MANY)


@dataclasses.dataclass(slots=True)
class Heard:
    """What Dynamo logged: the errors for which it could not compile, and the functions that it compiles no more."""

    errors: list[BaseException] = dataclasses.field(default_factory=list)
    given_up: set[str] = dataclasses.field(default_factory=set)


@contextlib.contextmanager
def listening() -> Iterator[Heard]:
    """Take what Dynamo logs on this thread meanwhile as notices."""
    outer = getattr(_here, "heard", None)
    _here.heard = Heard()
    try:
        yield _here.heard
    finally:
        _here.heard = outer


def tell_given_up() -> None:
    """Add the notice that Dynamo has given up a function."""
    _notices.append(
        "one part of the cell was compiled for 8 different values or shapes and runs as plain Python from now on"
    )


def take() -> list[str]:
    """The notices since the last call, each once."""
    notices = list(dict.fromkeys(_notices))
    _notices.clear()
    return notices


class _Filter(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        heard: Heard | None = getattr(_here, "heard", None)
        if heard is None:
            return True
        if record.exc_info and record.exc_info[1] is not None:
            heard.errors.append(record.exc_info[1])
        given_up = _GIVEN_UP.search(record.getMessage())
        if given_up is not None:
            heard.given_up.add(given_up[1])
        notice = _notice(record)
        if notice is not None:
            _notices.append(notice)
        return False


def _notice(record: logging.LogRecord) -> str | None:
    message = record.getMessage()
    if message.startswith("WON'T CONVERT") and record.exc_info and record.exc_info[1] is not None:
        error = record.exc_info[1]
        if isinstance(error, TorchRuntimeError):
            return None  # the user's own operation fails, and plain Python is about to say so
        error = getattr(error, "inner_exception", error)  # what the backend itself said
        lines = str(error).strip().splitlines()
        return f"one part of the cell runs as plain Python ({type(error).__name__}: {lines[0] if lines else ''})"
    return None


_filter = _Filter()


def install() -> None:
    """Start filtering."""
    for name in _LOGGERS:
        logging.getLogger(name).addFilter(_filter)


def remove() -> None:
    """Stop filtering."""
    for name in _LOGGERS:
        logging.getLogger(name).removeFilter(_filter)
