"""Keeps log lines of Dynamo from cells where they tell the user nothing to act on."""

from __future__ import annotations

import logging

# A filter on a logger sees what is logged on that very logger only.
_LOGGERS = ("torch._dynamo.variables.torch",)
_NOISE = ("Profiler function %s will be ignored",)


class _Filter(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        return not any(str(record.msg).startswith(noise) for noise in _NOISE)


_filter = _Filter()


def install() -> None:
    """Start filtering."""
    for name in _LOGGERS:
        logging.getLogger(name).addFilter(_filter)


def remove() -> None:
    """Stop filtering."""
    for name in _LOGGERS:
        logging.getLogger(name).removeFilter(_filter)
