"""A session as a JSON file, and back. Reading one needs neither torch nor a device."""

from __future__ import annotations

import dataclasses
import json
import os
import types
import typing
from collections.abc import Callable, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal, TypeVar, cast

from xla_notebook.session.buffers import Ledger
from xla_notebook.session.events import Event, to_plain
from xla_notebook.session.records import Snapshot

FORMAT = 1
_KEY = "xla_notebook session"
_EVENTS = {made.kind: made for made in typing.get_args(Event)}
_T = TypeVar("_T")


class ExportError(ValueError):
    """The file is not an exported session, or one of another version; the message says what is wrong."""


@dataclasses.dataclass(frozen=True, slots=True)
class Export:
    """What an exported file holds: everything that the session held, and the versions it ran with."""

    exported_ns: int
    versions: dict[str, str]
    snapshot: Snapshot
    ledger: Ledger

    @classmethod
    def of(cls, snapshot: Snapshot, ledger: Ledger, now_ns: int) -> Export:
        """An export made now, by the versions installed."""
        return cls(now_ns, _versions(), snapshot, ledger)

    def to_json(self) -> str:
        """The text of a file for `read`."""
        return json.dumps({_KEY: FORMAT, "export": to_plain(self)})


def write(path: str | os.PathLike[str], exported: Export) -> None:
    """Write a file for `read`. Raises `OSError` if that fails."""
    Path(path).write_text(exported.to_json(), encoding="utf-8")


def read(path: str | os.PathLike[str]) -> Export:
    """Read a file that `write` made. Raises `OSError`, or `ExportError` for any other file."""
    try:
        plain = json.loads(Path(path).read_text(encoding="utf-8"))
    except ValueError as error:
        raise ExportError(f"{os.fspath(path)} is not JSON: {error}") from None
    if not isinstance(plain, dict) or _KEY not in plain:
        raise ExportError(f"{os.fspath(path)} is not an exported session of xla_notebook")
    if plain[_KEY] != FORMAT:
        raise ExportError(f"{os.fspath(path)} has format {plain[_KEY]!r}; this version reads format {FORMAT}")
    return decode(Export, plain.get("export"), "export")


def decode(kind: type[_T], plain: object, where: str = "value") -> _T:
    """The record of type `kind` that `to_plain` made `plain` of. Raises `ExportError`, naming the wrong field."""
    made: _T = _decode(kind, plain, where)
    return made


def _decode(hint: Any, plain: object, where: str) -> Any:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint == Event:
        made = _EVENTS.get(plain.get("kind")) if isinstance(plain, dict) else None
        if made is None:
            raise ExportError(f"{where} is not an event")
        return _decode(made, plain, where)
    if origin in (typing.Union, types.UnionType):
        if plain is None and types.NoneType in arguments:
            return None
        exact = [argument for argument in arguments if type(plain) is argument]
        (chosen,) = exact or [argument for argument in arguments if argument is not types.NoneType][:1]
        return _decode(chosen, plain, where)
    if origin is tuple and isinstance(plain, list):
        if arguments[-1] is not Ellipsis and len(arguments) != len(plain):
            raise ExportError(f"{where} has {len(plain)} items, not {len(arguments)}")
        kinds = [arguments[0]] * len(plain) if arguments[-1] is Ellipsis else arguments
        return tuple(_decode(kinds[i], item, f"{where}[{i}]") for i, item in enumerate(plain))
    if origin in (dict, Mapping) and isinstance(plain, dict):
        return {key: _decode(arguments[1], item, f"{where}.{key}") for key, item in plain.items()}
    if origin is Literal:
        if plain in arguments:
            return plain
    elif (dataclasses.is_dataclass(hint) or hasattr(hint, "_fields")) and isinstance(plain, dict):
        hints = typing.get_type_hints(hint)
        names = hint._fields if hasattr(hint, "_fields") else [field.name for field in dataclasses.fields(hint)]
        missing = [name for name in names if name not in plain]
        if missing:
            raise ExportError(f"{where} lacks {', '.join(missing)}")
        make = cast(Callable[..., Any], hint)
        return make(**{name: _decode(hints[name], plain[name], f"{where}.{name}") for name in names})
    elif hint in (int, str, bool, float) and type(plain) is hint:
        return plain
    raise ExportError(f"{where} cannot be {plain!r:.60}")


def _versions() -> dict[str, str]:
    found = {}
    for name in ("xla_notebook", "torch", "torch_xla"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found
