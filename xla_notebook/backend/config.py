"""The backend's process-wide settings, read when a graph is traced or warmed, never on the hot path.

``torch.compile(..., options={...})`` overrides ``warm_up`` for one function. Assigning an unknown value
raises `ValueError` and changes nothing.
"""

from __future__ import annotations

import dataclasses
import difflib
from typing import Any, get_args

from xla_notebook.backend.observer import WarmUpMode

CHOICES: dict[str, tuple[object, ...]] = {
    "warm_up": get_args(WarmUpMode),
    "guard": (True, False),
    "saved_buffers": ("share", "copy"),
    "on_donated": ("recover", "raise"),
}


def validate(name: str, value: object) -> None:
    """Raise `ValueError`, naming the nearest right choice, if `value` is not one of the setting's."""
    if name not in CHOICES:
        near = difflib.get_close_matches(name, CHOICES, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else f"; there are {', '.join(CHOICES)}"
        raise ValueError(f"xla_notebook has no setting {name!r}{hint}")
    choices = CHOICES[name]
    # `in` alone would take 1 for True.
    if not any(value == choice and type(value) is type(choice) for choice in choices):
        near = difflib.get_close_matches(str(value), [str(c) for c in choices], n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"{name}={value!r} is not one of {', '.join(repr(c) for c in choices)}{hint}")


@dataclasses.dataclass
class Config:
    """`warm_up`: how a graph gets into XLA's cache before its first run.

    `guard`: in mode ``execute``, protect saved buffers and arguments with private copies.
    `saved_buffers`: ``share`` the constants' buffers with torch_xla's cache of scalars, or ``copy``.
    `on_donated`: when a saved buffer was donated behind the graph's back, ``recover`` by tracing again
    or ``raise`` `SavedBufferDonatedError`.
    """

    warm_up: WarmUpMode = "compile"
    guard: bool = True
    saved_buffers: str = "share"
    on_donated: str = "recover"

    def __setattr__(self, name: str, value: Any) -> None:
        validate(name, value)
        object.__setattr__(self, name, value)


config = Config()
