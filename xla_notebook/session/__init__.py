"""What happened: graphs, events and settings as plain typed values. No device access, no I/O."""

from __future__ import annotations

import sys
from types import ModuleType

from xla_notebook.session.cost import Cost, CostUnavailable
from xla_notebook.session.events import CellRef, Event, SettingValue, Source, to_dict
from xla_notebook.session.freeze import FrozenError, FrozenWarning
from xla_notebook.session.records import CellSummary, Changes, GraphRecord, Snapshot
from xla_notebook.session.settings import SettingError, Settings, to_backend
from xla_notebook.session.store import Session

__all__ = [
    "CellRef",
    "CellSummary",
    "Changes",
    "Cost",
    "CostUnavailable",
    "Event",
    "FrozenError",
    "FrozenWarning",
    "GraphRecord",
    "Session",
    "SettingError",
    "SettingValue",
    "Settings",
    "Snapshot",
    "Source",
    "current",
    "to_dict",
]

_current = Session(apply=to_backend)


def current() -> Session:
    """The process's session, which the magics and the inspector show. It records once `attach` was called."""
    return _current


class _Callable(ModuleType):
    """Lets ``xla_notebook.session()`` be the session, though the package has that name."""

    def __call__(self) -> Session:
        return _current


sys.modules[__name__].__class__ = _Callable
