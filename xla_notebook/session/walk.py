"""Finds the XLA tensors that a namespace reaches, without running any code of the user's.

Attributes are read from instance dictionaries and slots, containers through their base class's methods, and
nothing is compared, hashed or printed, so no property, `__getattr__`, `__eq__` or `__repr__` is ever called.
Nothing found is kept after the walk.
"""

from __future__ import annotations

import collections
import dataclasses
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal

import torch

from xla_notebook.session.buffers import OwnerKind

OBJECT_LIMIT = 200_000
NAME_LIMIT = 8

_Kind = Literal["atom", "tensor", "module", "optimizer", "mapping", "items", "instance"]

# Large, and without tensors of the user's: walking through a figure or a data frame only costs time. Ours would
# lead back to the user's own names.
_OPAQUE = frozenset(
    "IPython builtins ipykernel ipywidgets jax jaxlib matplotlib numpy pandas PIL sklearn torch_xla traitlets"
    " xla_notebook".split()
)
_ATOMS = (type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType, types.MethodType, types.CodeType)
_ITERATORS: tuple[tuple[type, Callable[[Any], Iterable[Any]]], ...] = (
    (list, list.__iter__),
    (tuple, tuple.__iter__),
    (set, set.__iter__),
    (frozenset, frozenset.__iter__),
    (collections.deque, collections.deque.__iter__),
)
# The history of results, which `notebook_roots` visits as what it is.
_IPYTHON_NAMES = frozenset({"In", "Out", "_", "__", "___", "_dh", "_ih", "_oh"})

_DESCRIPTORS = (types.GetSetDescriptorType, types.MemberDescriptorType)

_MODULE_PARTS = frozenset({"_parameters", "_buffers", "_modules"})

# The real ones: a metaclass may shadow the attributes of the same names.
_mro_of: Callable[[type], tuple[type, ...]] = type.__dict__["__mro__"].__get__
_dict_of: Callable[[type], Mapping[str, Any]] = type.__dict__["__dict__"].__get__
_module_of: Callable[[type], object] = type.__dict__["__module__"].__get__


@dataclasses.dataclass(slots=True)
class _Class:
    """How to read the instances of `cls` without running its code.

    `cls` is kept because the walk knows classes by their id, which could be used again.
    """

    cls: type
    kind: _Kind
    iterate: Callable[[Any], Iterable[Any]] | None
    dictionary: Any
    slots: list[tuple[str, Any]]


_Waiting = tuple[_Class, Any, str, OwnerKind]


@dataclasses.dataclass(slots=True)
class Found:
    """An XLA tensor and who reaches it."""

    tensor: torch.Tensor
    owners: list[tuple[OwnerKind, str]]


def notebook_roots(namespace: Mapping[str, object]) -> Iterator[tuple[object, str, OwnerKind]]:
    """The user's variables, and the results that IPython keeps in ``Out``."""
    for name, value in list(namespace.items()):
        if name not in _IPYTHON_NAMES and not (name[:1] == "_" and name[1:].isdigit()):
            yield value, str(name), "variable"
    outputs = namespace.get("Out")
    if isinstance(outputs, dict):
        for count, value in list(outputs.items()):
            yield value, f"Out[{count}]", "output"
    for name in ("_", "__", "___"):
        if name in namespace:
            yield namespace[name], name, "output"


def traceback_roots(error: BaseException | None) -> Iterator[tuple[object, str, OwnerKind]]:
    """The local variables of all frames that `error` and the errors behind it keep alive."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        step = error.__traceback__
        while step is not None:
            frame = step.tb_frame
            # A frame of the notebook's own namespace keeps nothing that the namespace does not.
            if frame.f_locals is not frame.f_globals:
                place = f"traceback: {frame.f_code.co_name}, line {step.tb_lineno}: "
                for name, value in list(frame.f_locals.items()):
                    yield value, place + str(name), "traceback"
            step = step.tb_next
        error = error.__cause__ or error.__context__


class Walk:
    """One walk: `add` roots, then read `found` and `complete`. Runs under ``DisableTorchFunctionSubclass``.

    At most `limit` objects are visited; `complete` is false if there were more, or if a container changed
    while it was read.
    """

    def __init__(self, limit: int = OBJECT_LIMIT) -> None:
        self.found: dict[int, Found] = {}
        self.complete = True
        self._left = limit
        self._seen: set[int] = set()
        self._classes: dict[int, _Class] = {}
        self._waiting: collections.deque[_Waiting] = collections.deque()

    def add(self, roots: Iterable[tuple[object, str, OwnerKind]]) -> None:
        """Visit everything that `roots` reach, breadth first: the shortest name of a tensor comes first."""
        for value, name, owner in roots:
            self._visit(value, name, owner)
        optimizers: list[_Waiting] = []
        deferring = True
        waiting, seen = self._waiting, self._seen
        while waiting or optimizers:
            if not waiting:
                # Last, because their state is named by the names of the parameters.
                waiting.extend(optimizers)
                optimizers = []
                deferring = False
            known, value, name, owner = item = waiting.popleft()
            if known.kind == "optimizer" and deferring:
                optimizers.append(item)
            elif known.kind == "tensor":
                self._tensor(value, name, owner)
            elif id(value) not in seen:
                if self._left <= 0:
                    self.complete = False
                    waiting.clear()
                    return
                self._left -= 1
                seen.add(id(value))
                self._children(known, value, name, owner)

    def _visit(self, value: object, name: str, owner: OwnerKind) -> None:
        known = self._classes.get(id(type(value))) or self._learn(type(value))
        if known.kind != "atom":
            self._waiting.append((known, value, name, owner))

    def _is_atom(self, value: object) -> bool:
        """Asked before a name is made, because most values are atoms and making names is what costs."""
        return (self._classes.get(id(type(value))) or self._learn(type(value))).kind == "atom"

    def _tensor(self, tensor: torch.Tensor, name: str, owner: OwnerKind) -> None:
        known = self.found.get(id(tensor))
        if known is not None:
            if len(known.owners) < NAME_LIMIT:
                known.owners.append((owner, name))
            return
        if not tensor.is_xla:  # type: ignore[attr-defined]  # torch's stubs lack it
            return
        self.found[id(tensor)] = Found(tensor, [(owner, name)])
        # Reading the gradient of a tensor that is no leaf would print a warning.
        if tensor.is_leaf and tensor.grad is not None:
            self._visit(tensor.grad, f"{name}.grad", "gradient")

    def _children(self, known: _Class, value: Any, name: str, owner: OwnerKind) -> None:
        if known.kind == "mapping":
            for key, item in self._read(dict.items, value):
                if not self._is_atom(item):
                    self._visit(item, f"{name}[{self._key(key)}]", owner)
        elif known.iterate is not None:
            unordered = issubclass(known.cls, set | frozenset)
            for index, item in enumerate(self._read(known.iterate, value)):
                if not self._is_atom(item):
                    self._visit(item, f"{name}{{...}}" if unordered else f"{name}[{index}]", owner)
        elif known.kind == "module":
            self._module(known, value, name)
        else:
            kept: OwnerKind = "optimizer" if known.kind == "optimizer" else owner
            for attribute, item in self._attributes(known, value):
                if not self._is_atom(item):
                    self._visit(item, f"{name}.{attribute}", kept)

    def _module(self, known: _Class, module: Any, name: str) -> None:
        for attribute, item in self._attributes(known, module):
            if attribute in _MODULE_PARTS and issubclass(type(item), dict):
                for key, part in self._read(dict.items, item):
                    child = key if type(key) is str else self._key(key)
                    self._visit(part, f"{name}[{child}]" if child.isdigit() else f"{name}.{child}", "module")
            elif not attribute.startswith("_") and not self._is_atom(item):
                self._visit(item, f"{name}.{attribute}", "module")

    def _attributes(self, known: _Class, value: object) -> list[tuple[str, object]]:
        found: list[tuple[str, object]] = []
        if known.dictionary is not None:
            found = self._read(dict.items, known.dictionary.__get__(value))
            if any(type(attribute) is not str for attribute, _ in found):
                found = [(str(attribute), item) for attribute, item in found]
        for attribute, slot in known.slots:
            try:
                found.append((attribute, slot.__get__(value)))
            except AttributeError:
                continue  # a slot that was never assigned
        return found

    def _key(self, key: object) -> str:
        """A dictionary's key as text, if that takes no code of the user's."""
        if type(key) in (str, int, bool, float):
            return repr(key)
        found = self.found.get(id(key))
        return found.owners[0][1] if found is not None else f"<{type(key).__name__}>"

    def _read(self, getter: Callable[[Any], Iterable[Any]], value: object) -> list[Any]:
        """All items of a container; none if another thread changes it meanwhile."""
        try:
            return list(getter(value))
        except RuntimeError:
            self.complete = False
            return []

    def _learn(self, cls: type) -> _Class:
        iterate = next((iterate for base, iterate in _ITERATORS if issubclass(cls, base)), None)
        dictionary, slots = None, []
        for base in _mro_of(cls):
            for name, member in _dict_of(base).items():
                if name == "__dict__":
                    if dictionary is None and type(member) in _DESCRIPTORS:
                        dictionary = member
                elif type(member) is types.MemberDescriptorType:
                    slots.append((name, member))
        known = self._classes[id(cls)] = _Class(cls, _kind_of(cls, iterate is not None), iterate, dictionary, slots)
        return known


def _kind_of(cls: type, iterable: bool) -> _Kind:
    if issubclass(cls, torch.Tensor):
        # A wrapper subclass may answer for its size with its own code; its parts are found as attributes.
        plain = cls.__torch_dispatch__ is torch._C._disabled_torch_dispatch_impl
        return "tensor" if plain else "instance"
    if issubclass(cls, torch.nn.Module):
        return "module"
    if issubclass(cls, torch.optim.Optimizer):
        return "optimizer"
    if issubclass(cls, dict):
        return "mapping"
    if iterable:
        return "items"
    module = _module_of(cls)
    if issubclass(cls, _ATOMS) or not isinstance(module, str) or module.partition(".")[0] in _OPAQUE:
        return "atom"
    return "instance"
