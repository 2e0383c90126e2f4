"""The toggles: what they are called, what they may be, and what a wrong value is told."""

from __future__ import annotations

import dataclasses
import difflib
import types
from collections.abc import Mapping
from typing import Literal, get_args

from xla_notebook.backend import config as backend
from xla_notebook.backend.observer import WarmUpMode
from xla_notebook.session.events import SettingValue

SavedBuffers = Literal["share", "copy"]
OnDonated = Literal["recover", "raise"]
Freeze = Literal["off", "warn", "error"]

CHOICES: Mapping[str, tuple[SettingValue, ...]] = types.MappingProxyType(
    {
        "warm_up": get_args(WarmUpMode),
        "guard": (True, False),
        "saved_buffers": get_args(SavedBuffers),
        "on_donated": get_args(OnDonated),
        "freeze": get_args(Freeze),
        "watch_donations": (True, False),
        "watch_reads": (True, False),
    }
)


class SettingError(ValueError):
    """A setting's name or value is not one of those allowed; the message names the nearest right one."""


@dataclasses.dataclass(frozen=True, slots=True)
class Settings:
    """The values of all settings at one moment.

    - `warm_up`: how a graph gets its executable: ``compile`` only, ``execute`` (compile, then run once
      through a step barrier) or ``off`` (compile at the first run).
    - `guard`: protect saved buffers from donations.
    - `saved_buffers`: ``share`` the user's buffer or keep a private ``copy``.
    - `on_donated`: what a run does that finds its saved buffer dead: ``recover`` (trace anew) or ``raise``.
    - `freeze`: what a compile is from now on: nothing special (``off``), a warning (``warn``) or an ``error``.
    - `watch_donations`: at each step barrier, wait for the device and tell which buffers were donated to
      which tensors. Slow, because steps no longer overlap; for finding out, not for training.
    - `watch_reads`: tell which reads of pending tensors (``.item()``, ``print``, ``if``) force XLA to execute.
    """

    warm_up: WarmUpMode = "compile"
    guard: bool = True
    saved_buffers: SavedBuffers = "share"
    on_donated: OnDonated = "recover"
    freeze: Freeze = "off"
    watch_donations: bool = False
    watch_reads: bool = False

    def replace(self, **values: SettingValue) -> Settings:
        """These settings with `values` in their place. Raises `SettingError` if any of them is wrong."""
        for name, value in values.items():
            check(name, value)
        return dataclasses.replace(self, **values)  # type: ignore[arg-type]  # checked one by one above

    def to_dict(self) -> dict[str, SettingValue]:
        """Names and values."""
        return {name: getattr(self, name) for name in CHOICES}


def check(name: str, value: object) -> None:
    """Raise `SettingError` unless `value` is allowed for the setting `name`."""
    if name not in CHOICES:
        raise SettingError(f"there is no setting {name!r}; {_nearest(name, tuple(CHOICES))}")
    allowed = CHOICES[name]
    # 1 == True, so the type counts too.
    if not any(value == choice and type(value) is type(choice) for choice in allowed):
        raise SettingError(f"{name} cannot be {value!r}; {_nearest(str(value), allowed)}")


def parse(name: str, text: str) -> SettingValue:
    """The value that `text` (as typed after a magic) means for the setting `name`. Raises `SettingError`."""
    words = {"true": True, "on": True, "yes": True, "false": False, "off": False, "no": False}
    boolean = name in CHOICES and isinstance(CHOICES[name][0], bool)
    value = words.get(text.lower(), text) if boolean else text
    check(name, value)
    return value


def to_backend(settings: Settings) -> None:
    """Give the backend those settings that it has; it reads them at the next trace or warm-up."""
    for name in CHOICES.keys() & backend.CHOICES.keys():
        setattr(backend.config, name, getattr(settings, name))


def _nearest(given: str, allowed: tuple[SettingValue, ...]) -> str:
    texts = [str(choice) for choice in allowed]
    close = difflib.get_close_matches(given.lower(), [text.lower() for text in texts], n=1, cutoff=0.5)
    choices = ", ".join(texts)
    if not close:
        return f"it is one of {choices}"
    nearest = next(text for text in texts if text.lower() == close[0])
    return f"did you mean {nearest}? (one of {choices})"
