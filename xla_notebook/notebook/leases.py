"""Lets go of what Dynamo compiled for a code object once nobody can call it any more.

Dynamo keeps its results on the code object and a strong reference from the result back to it
(`torch._dynamo.utils.orig_code_map`), so that neither is ever freed by itself; seen in torch 2.9. A
notebook in which cells are edited all day would keep every graph and its saved buffers.
"""

from __future__ import annotations

import contextlib
import types
import weakref

import torch._dynamo
from torch._C._dynamo.eval_frame import _debug_get_cache_entry_list, reset_code
from torch._dynamo.convert_frame import input_codes
from torch._dynamo.guards import DeletedGuardManagerWrapper
from torch._dynamo.resume_execution import ContinueExecutionCache
from torch._dynamo.utils import CleanupManager, orig_code_map


class Lease:
    """Held by everything that may call `code`: its cell, and each function that has it.

    When the last holder is gone, Dynamo's results for `code` are dropped, and with them their graphs.
    """

    def __init__(self, code: types.CodeType) -> None:
        self.code = code
        # Not at exit: the process frees everything anyway, in an order that Dynamo does not expect.
        weakref.finalize(self, _drop, code).atexit = False


def forget(code: types.CodeType) -> None:
    """Drop Dynamo's results for `code` and for the code that it made to resume it after graph breaks."""
    for each in _with_resumed(code):
        reset_code(each)


def forget_everything() -> None:
    """Drop all that Dynamo has compiled in this process, its names in the notebook's namespace among it."""
    torch._dynamo.reset()
    for identity in list(CleanupManager.instance.values):
        _clean_up(identity)


def forget_dead() -> set[str]:
    """Drop Dynamo's results for code most of whose results are for objects that are gone.

    Dynamo lets no such result serve again, and counts it nevertheless among the 8 for which it compiles the code
    of an optimizer's step, say (torch 2.9). Returns the names of the code, as Dynamo's log has them.
    """
    freed = set()
    for reference in list(input_codes.seen):
        code = reference()
        if code is None:
            continue
        results = _debug_get_cache_entry_list(code)
        dead = sum(isinstance(result.guard_manager, DeletedGuardManagerWrapper) for result in results)
        if dead > len(results) - dead:
            forget(code)
            freed.add(f"'{code.co_name}' ({code.co_filename}:{code.co_firstlineno})")
    return freed


def _drop(code: types.CodeType) -> None:
    """`forget` for good: nobody runs `code` any more."""
    ours = _with_resumed(code)
    forget(code)
    for identity, original in list(orig_code_map.values.items()):
        if any(original is each for each in ours):
            orig_code_map._remove_id(identity)
            _clean_up(identity)


def _with_resumed(code: types.CodeType) -> list[types.CodeType]:
    found = [code]
    for each in found:
        found += dict(ContinueExecutionCache.cache.get(each, {})).values()
    return found


def _clean_up(identity: int) -> None:
    """Take out of the namespace what Dynamo has put there for the code that it made, its graphs among it.

    It does so itself when that code is freed. But code during which something else was compiled never is: a
    traceback of each compile is kept for good (`MetricsContext._edits`, torch 2.9). And the gradient of a loss
    keeps code until the namespace has been emptied, when it is too late.
    """
    CleanupManager.instance.refs.pop(identity, None)
    for hook in CleanupManager.instance.values.pop(identity, ()):
        with contextlib.suppress(KeyError):  # the user deleted it
            hook()
