"""Why Dynamo compiles a function again: the guards that failed.

Dynamo notes them at the start of each further compile of a code object, whether or not its logging is on
(torch 2.9: ``torch._dynamo.guards.get_guard_fail_reason`` fills ``torch._dynamo.utils.guard_failures``).
"""

from __future__ import annotations

import threading
import types

from torch._dynamo.utils import guard_failures


class GuardReader:
    """Reads Dynamo's notes of failed guards, each once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._read: dict[types.CodeType, int] = {code: len(notes) for code, notes in guard_failures.items()}

    def read(self, function: str, filename: str | None) -> tuple[str, ...]:
        """The guards that failed for `function` since the last call, in Dynamo's own words.

        One for each version compiled before, the version used last first; empty if there was no recompile.
        A continuation of `function` after a graph break counts as `function`.
        """
        guards: dict[str, str] = {}
        with self._lock:
            # Another thread may compile meanwhile, hence the copies. A reset of Dynamo empties its notes.
            for code, notes in list(guard_failures.items()):
                if not _is(code, function, filename):
                    continue
                read = self._read.get(code, 0)
                for note in notes[read if read <= len(notes) else 0 :]:
                    version, _, guard = str(note).partition(": ")
                    guards[version] = guard
                self._read[code] = len(notes)
            for code in self._read.keys() - guard_failures.keys():
                del self._read[code]
        return tuple(guards.values())


def _is(code: types.CodeType, function: str, filename: str | None) -> bool:
    if filename is not None and code.co_filename != filename:
        return False
    return code.co_name == function or f"_in_{function}_at_" in code.co_name
