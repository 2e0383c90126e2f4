"""Lets go of what Dynamo compiled for a code object once nobody can call it any more.

Dynamo keeps its results on the code object and a strong reference from the result back to it
(`torch._dynamo.utils.orig_code_map`), so that neither is ever freed by itself; seen in torch 2.9. A
notebook in which cells are edited all day would keep every graph and its saved buffers.
"""

from __future__ import annotations

import types
import weakref

from torch._C._dynamo.eval_frame import reset_code
from torch._dynamo.resume_execution import ContinueExecutionCache


class Lease:
    """Held by everything that may call `code`: its cell, and each function that has it.

    When the last holder is gone, Dynamo's results for `code` are dropped, and with them their graphs.
    """

    def __init__(self, code: types.CodeType) -> None:
        self.code = code
        # Not at exit: the process frees everything anyway, in an order that Dynamo does not expect.
        weakref.finalize(self, forget, code).atexit = False


def forget(code: types.CodeType) -> None:
    """Drop Dynamo's results for `code` and for the code that it made to resume it after graph breaks."""
    for resumed in dict(ContinueExecutionCache.cache.get(code, {})).values():
        forget(resumed)
    reset_code(code)
