"""Which code may be called in a rehearsal: what is known to change nothing but its arguments.

Judged by names, as far as the code itself shows them: a dotted name that starts at a variable of the
notebook, and the same in the functions and classes that the user defined. What hides behind an attribute of
an object is not seen here; files and processes are kept from it all the same (`outside.py`).
"""

from __future__ import annotations

import ast
import builtins
import dis
import sys
import types
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch

from xla_notebook.backend.rehearsal import NotReached
from xla_notebook.notebook.outside import is_users, is_users_file
from xla_notebook.notebook.sandbox import Unavailable, functions_of

_KNOWN = frozenset(
    "torch torch_xla torchvision torchaudio torchmetrics numpy einops timm transformers safetensors PIL builtins"
    " math cmath random itertools functools collections operator contextlib dataclasses typing abc enum copy time"
    " datetime re string statistics bisect heapq warnings types fractions decimal json xla_notebook posixpath"
    " weakref _weakref _operator _collections _functools _abc _random _struct struct _io _contextvars inspect".split()
)
"""Libraries whose functions may be called: they compute, and work on what they are given."""

_UNKNOWN = frozenset(
    "builtins.exec builtins.eval builtins.compile builtins.input builtins.__import__ time.sleep"
    " torch.save torch.jit.save torch.export.save torch.onnx.export json.dump numpy.save numpy.savez"
    " numpy.savetxt numpy.savez_compressed safetensors.save_file safetensors.torch.save_file".split()
)
"""What these libraries have that does more."""

_UNKNOWN_MODULES = ("torch.distributed", "torch.hub", "torch.utils.tensorboard", "torch.profiler", "torch.package")

_OPEN = ("open", "_modified_open")
"""Python's and IPython's `open`: what it is for is seen when it opens."""

_ANYWHERE = (torch.nn.Module, torch.optim.Optimizer, torch.optim.lr_scheduler.LRScheduler, torch.utils.data.Dataset)
"""Kinds of object that compute, whichever library they are of."""

Path = tuple[str, ...]


def may_copy(kind: type) -> bool:
    """Whether the objects of a class hold nothing of the world outside, as far as is known."""
    return _is_known(kind.__module__) or issubclass(kind, _ANYWHERE) or is_users_module(kind.__module__)


class Effects:
    """Judges code by what it names. Looks at each function and class once."""

    def __init__(self) -> None:
        # By id, with what the ids stand for, and why it is refused if it is.
        self._looked_at: dict[int, tuple[Any, str | None]] = {}

    def check(self, node: ast.AST, namespace: Mapping[str, Any]) -> None:
        """Raise `NotReached` if `node` names something whose effects are not known."""
        for path in _paths(node):
            self._check_path(path, namespace)

    def _check_path(self, path: Path, namespace: Mapping[str, Any]) -> None:
        value = namespace.get(path[0], vars(builtins).get(path[0]))
        if isinstance(value, Unavailable):
            return
        for attribute in path[1:]:
            if not isinstance(value, types.ModuleType):
                break
            value = vars(value).get(attribute)
        if value is None or isinstance(value, types.ModuleType):
            return
        if isinstance(value, types.MethodType):
            value = value.__func__
        if isinstance(value, type) or callable(value):
            self._check_callable(value, ".".join(path))
        elif not isinstance(value, _ANYWHERE):
            _refuse_unknown(type(value).__module__, type(value).__qualname__, ".".join(path))

    def _check_callable(self, value: Any, shown: str) -> None:
        if id(value) in self._looked_at:
            _, refusal = self._looked_at[id(value)]
            if refusal is not None:
                raise NotReached(refusal)
            return
        before = dict(self._looked_at)
        self._looked_at[id(value)] = value, None
        try:
            self._look_into(value, shown)
        except NotReached as error:
            # What it calls may call it in turn, and was accepted while it was.
            self._looked_at = {**before, id(value): (value, str(error))}
            raise

    def _look_into(self, value: Any, shown: str) -> None:
        own = getattr(value, "__wrapped__", value)
        module = getattr(own, "__module__", None) or "builtins"
        if isinstance(own, types.FunctionType) and is_users(own.__code__):
            self._check_code(own.__code__, own.__globals__)
        elif isinstance(own, type) and is_users_module(module):
            for function in functions_of(own):
                self._check_callable(function, shown)
        elif isinstance(own, (type, types.FunctionType, types.BuiltinFunctionType)):
            if not (isinstance(own, type) and issubclass(own, _ANYWHERE)):
                _refuse_unknown(module, own.__qualname__, shown)
        elif not isinstance(own, _ANYWHERE):
            kind = type(own)
            if is_users_module(kind.__module__):
                self._check_callable(kind, shown)
            else:
                _refuse_unknown(kind.__module__, kind.__qualname__, shown)

    def _check_code(self, code: types.CodeType, namespace: Mapping[str, Any]) -> None:
        for path in _paths_of_code(code):
            self._check_path(path, namespace)


def _refuse_unknown(module: str, name: str, shown: str) -> None:
    if is_users_module(module) or name in _OPEN:
        return
    full = f"{module}.{name}"
    if not _is_known(module) or full in _UNKNOWN or full.replace(".serialization.", ".") in _UNKNOWN:
        raise NotReached(f"uses {shown}, whose effects are not known")


def _is_known(module: str) -> bool:
    return module.partition(".")[0] in _KNOWN and not module.startswith(_UNKNOWN_MODULES)


def is_users_module(name: str) -> bool:
    """Whether a module is the notebook itself or a file of the user's."""
    if name == "__main__":
        return True
    filename = getattr(sys.modules.get(name), "__file__", None)
    return filename is not None and is_users_file(filename)


def _paths(node: ast.AST) -> Iterator[Path]:
    inner: set[int] = set()
    for part in ast.walk(node):
        path: list[str] = []
        at = part
        while isinstance(at, ast.Attribute):
            path.append(at.attr)
            inner.add(id(at.value))
            at = at.value
        if isinstance(at, ast.Name) and isinstance(at.ctx, ast.Load) and id(part) not in inner:
            yield (at.id, *reversed(path))


def _paths_of_code(code: types.CodeType) -> Iterable[Path]:
    path: Path = ()
    for step in dis.get_instructions(code):
        if path and step.opname in ("LOAD_ATTR", "LOAD_METHOD"):
            path = (*path, str(step.argval))
            continue
        if path:
            yield path
        path = (str(step.argval),) if step.opname in ("LOAD_GLOBAL", "LOAD_NAME") else ()
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _paths_of_code(constant)
