"""What the session reads of torch and the backend, without ever being the one that loads them."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

from .records import LiveGraph

if TYPE_CHECKING:
    from ..backend.guards import GuardReader


class DynamoGuards:
    """Dynamo's words on why it compiles again. Where Dynamo was never loaded, it is not loaded for this."""

    def __init__(self) -> None:
        self._reader: GuardReader | None = None

    def __call__(self, function: str, filename: str | None) -> tuple[str, ...]:
        """The guards of `function` that failed since the last call."""
        if self._reader is None:
            if "torch._dynamo" not in sys.modules:
                return ()
            from ..backend.guards import GuardReader

            self._reader = GuardReader()
        return self._reader.read(function, filename)


def backend_graphs() -> Iterable[LiveGraph]:
    """The backend's cached graphs. A backend that was never used has none, and is not imported to say so."""
    cache = sys.modules.get("xla_notebook.backend.cache")
    if cache is None:
        return ()
    graphs: Iterable[LiveGraph] = cache.graphs()
    return graphs
