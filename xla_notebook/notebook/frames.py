"""Tracebacks that begin at the user's line.

A compiled block adds frames of its own between the cell and the user's code, and what the backend says comes
from deep below. They are left out when IPython renders the error; the exception itself stays the user's own object.
"""

from __future__ import annotations

import os
import types
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

_OURS = os.path.dirname(os.path.abspath(__file__)) + os.sep
_PACKAGE = os.path.dirname(os.path.dirname(_OURS)) + os.sep
_TORCH = os.path.dirname(torch.__file__) + os.sep
_DYNAMO = (os.path.join("torch", "_dynamo", ""), os.path.join("torch", "_compile.py"))
_IPYTHON = (os.path.join("IPython", "core", ""), os.path.join("ipykernel", ""))

CALL_SITES = frozenset({"run_cell_magic", "run_block"})
"""Functions that a cell's own frame calls on our behalf: that frame then repeats the user's line, or
hides it behind the first line of the block."""


def shorten(error: BaseException, ip: InteractiveShell) -> None:
    """Make IPython render `error` from the user's line on.

    Uses IPython's protocol for exceptions that render themselves; one that already does is left alone.
    """
    if hasattr(error, "_render_traceback_"):
        return

    def render() -> list[str]:
        whole = [(link, link.__traceback__) for link in _chained(error)]
        try:
            for link, traceback in whole:
                link.__traceback__ = user_frames(traceback, isinstance(link, RuntimeError))
            lines: list[str] = ip.InteractiveTB.structured_traceback(
                type(error), error, error.__traceback__, tb_offset=0
            )
        finally:
            for link, traceback in whole:
                link.__traceback__ = traceback
        return lines

    error._render_traceback_ = render  # type: ignore[attr-defined]


def _chained(error: BaseException) -> list[BaseException]:
    """`error` and the exceptions that it was raised from or during."""
    found: list[BaseException] = []
    rest: list[BaseException | None] = [error]
    while rest:
        link = rest.pop()
        if link is not None and not any(link is other for other in found):
            found.append(link)
            rest += [link.__cause__, link.__context__]
    return found


def user_frames(traceback: types.TracebackType | None, meant: bool = False) -> types.TracebackType | None:
    """A copy of `traceback` without the frames of IPython, Dynamo's wrappers and ours.

    `meant`: what the backend raised is meant for the user, who need not see how it came there.
    """
    kept: list[types.TracebackType] = []
    site: types.TracebackType | None = None
    hidden = False
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if _is_machinery(code, hidden):
            hidden = True
            if code.co_name in CALL_SITES and kept:
                site = kept.pop()
        else:
            hidden = False
            kept.append(traceback)
        traceback = traceback.tb_next
    if meant and kept and kept[-1].tb_frame.f_code.co_filename.startswith(_PACKAGE):
        while kept and kept[-1].tb_frame.f_code.co_filename.startswith((_PACKAGE, _TORCH)):
            kept.pop()
    if site is not None and not kept:
        # Raised before the user's code ran at all: the calling line is the best there is.
        kept = [site]
    return _chain(kept)


def _is_machinery(code: types.CodeType, hidden: bool) -> bool:
    name = code.co_filename
    if name.startswith(_OURS) or any(part in name for part in _IPYTHON):
        return True
    return hidden and any(part in name for part in _DYNAMO)


def _chain(entries: list[types.TracebackType]) -> types.TracebackType | None:
    chain: types.TracebackType | None = None
    for entry in reversed(entries):
        chain = types.TracebackType(chain, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return chain
