"""Reads what objects hold, without running any code of the user's, and many objects at once.

Attributes are read from instance dictionaries and slots, containers through their base class's methods, and
nothing is compared, hashed or printed, so no property, `__getattr__`, `__eq__` or `__repr__` is ever called.
Loops run inside of `map` and `chain`: a loop in Python would cost several times as much.
"""

from __future__ import annotations

import collections
import itertools
import types
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain, islice, repeat
from typing import Any, Literal, NamedTuple

import torch

Form = Literal["entry", "item", "element", "attribute", "part"]
"""How what a shelf holds is written: ``x['key']``, ``x[0]``, ``x{...}``, ``x.name``, ``x[0]`` or ``x.name``."""

# Large, and without tensors of the user's: walking through a figure or a data frame only costs time. Ours would
# lead back to the user's own names.
_OPAQUE = frozenset(
    "IPython builtins ipykernel ipywidgets jax jaxlib matplotlib numpy pandas PIL sklearn torch_xla traitlets"
    " xla_notebook".split()
)
_ATOMS = (type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType, types.MethodType, types.CodeType)
_DESCRIPTORS = (types.GetSetDescriptorType, types.MemberDescriptorType)

# The real ones: a metaclass may shadow the attributes of the same names.
_mro_of: Callable[[type], tuple[type, ...]] = type.__dict__["__mro__"].__get__
_dict_of: Callable[[type], Mapping[str, Any]] = type.__dict__["__dict__"].__get__
_module_of: Callable[[type], object] = type.__dict__["__module__"].__get__

_dict_of_module: Callable[[Any], dict[str, Any]] = torch.nn.Module.__dict__["__dict__"].__get__
_PARTS = ("_parameters", "_buffers", "_modules")
# What `torch.nn.Module.__init__` puts into each module, ahead of the user's own attributes.
_MODULE_KEYS = tuple(_dict_of_module(torch.nn.Module()))

# What a read raises if an object is no longer of the kind that it was, or changes in another thread meanwhile.
CHANGED = (RuntimeError, TypeError, LookupError, AttributeError)


class Reading(NamedTuple):
    """What some objects hold, flat: their shelves one after the other, and what is on each.

    `keys` is empty where things have a number instead.
    """

    keys: list[Any]
    sizes: list[int]
    values: list[Any]


class Reader:
    """Reads objects of one kind. Each has as many shelves (dictionaries or sequences) as there are `forms`.

    A reading goes through the first shelf of all objects, then through the second, and so on.
    """

    forms: tuple[Form, ...]
    numbered = False
    """Whether things on the shelves have no keys."""
    private = True
    """Whether attributes whose name begins with an underscore are the user's."""
    kind: Literal["module", "optimizer"] | None = None
    """What kind of owner its objects are; None if it is who owns them."""

    def read(self, objects: Sequence[Any]) -> Reading:
        """What `objects` hold. Raises one of `CHANGED`."""
        raise NotImplementedError


def _of_dicts(dicts: list[dict[Any, Any]]) -> Reading:
    return Reading(
        list(chain.from_iterable(map(dict.__iter__, dicts))),
        list(map(dict.__len__, dicts)),
        list(chain.from_iterable(map(dict.values, dicts))),
    )


class _Mappings(Reader):
    forms = ("entry",)

    def read(self, objects: Sequence[Any]) -> Reading:
        return _of_dicts(list(objects))


class _Items(Reader):
    numbered = True

    def __init__(self, base: Any, form: Form) -> None:
        self.forms = (form,)
        self._iterate: Callable[[Any], Iterable[Any]] = base.__iter__
        self._length: Callable[[Any], int] = base.__len__

    def read(self, objects: Sequence[Any]) -> Reading:
        sizes = list(map(self._length, objects))
        return Reading([], sizes, list(chain.from_iterable(map(self._iterate, objects))))


class _Modules(Reader):
    """Modules whose dictionary begins as torch makes it: of that, only the three parts are read."""

    forms = ("part", "part", "part", "attribute")
    private = False
    kind = "module"

    def read(self, objects: Sequence[Any]) -> Reading:
        dicts = list(map(_dict_of_module, objects))
        parts = chain.from_iterable(map(dict.__getitem__, dicts, repeat(part)) for part in _PARTS)
        keys, sizes, values = _of_dicts(list(parts))
        # Only the user's attributes, from the end: before them stand torch's, most of them hooks, which to pass over
        # takes longer than all else.
        attributes = [size - len(_MODULE_KEYS) for size in map(dict.__len__, dicts)]
        keys += chain.from_iterable(map(islice, map(dict.__reversed__, dicts), attributes))
        values += chain.from_iterable(map(islice, map(reversed, map(dict.values, dicts)), attributes))
        return Reading(keys, sizes + attributes, values)


class _OtherModules(Reader):
    """Modules with attributes of the user's before torch's, or without some part."""

    forms = _Modules.forms
    private = False
    kind = "module"

    def read(self, objects: Sequence[Any]) -> Reading:
        dicts = list(map(_dict_of_module, objects))
        parts: list[Any] = [dict.get(d, part) for part in _PARTS for d in dicts]
        return _of_dicts([part if issubclass(type(part), dict) else {} for part in parts] + dicts)


class _Instances(Reader):
    """Instances of one class. Known by name and weak reference, because descriptors keep their class alive."""

    def __init__(self, cls: type) -> None:
        self.kind = "optimizer" if issubclass(cls, torch.optim.Optimizer) else None
        self._dictionary: weakref.ref[type] | None = None
        self._slots: list[tuple[weakref.ref[type], str]] = []
        for base in _mro_of(cls):
            for name, member in _dict_of(base).items():
                if name == "__dict__":
                    if self._dictionary is None and type(member) in _DESCRIPTORS:
                        self._dictionary = weakref.ref(base)
                elif type(member) is types.MemberDescriptorType:
                    self._slots.append((weakref.ref(base), name))
        self.forms = ("attribute", "attribute") if self._slots else ("attribute",)

    def read(self, objects: Sequence[Any]) -> Reading:
        get = _descriptor(self._dictionary, "__dict__")
        dicts = [{} for _ in objects] if get is None else list(map(get, objects))
        if self._slots:
            dicts += [self._slots_of(thing) for thing in objects]
        return _of_dicts(dicts)

    def _slots_of(self, thing: Any) -> dict[str, Any]:
        found = {}
        for base, name in self._slots:
            try:
                found[name] = _descriptor(base, name)(thing)
            except AttributeError:
                continue  # a slot that was never assigned
        return found


def _descriptor(base: weakref.ref[type] | None, name: str) -> Any:
    cls = None if base is None else base()
    return None if cls is None else _dict_of(cls)[name].__get__


class _Tensors(Reader):
    """Tensors: what a walk looks for. Their gradients are read by the walk."""


TENSOR = _Tensors()
_MAPPING, _MODULE, _OTHER_MODULE = _Mappings(), _Modules(), _OtherModules()
_ITEMS: tuple[tuple[type, Reader], ...] = (
    (list, _Items(list, "item")),
    (tuple, _Items(tuple, "item")),
    (set, _Items(set, "element")),
    (frozenset, _Items(frozenset, "element")),
    (collections.deque, _Items(collections.deque, "item")),
)


class Readers:
    """Which reader reads an object. Keeps no class alive."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[weakref.ref[type], Reader | None]] = {}

    def of(self, value: object) -> Reader | None:
        """The reader of `value`; None for an atom, which holds nothing."""
        cls = type(value)
        known = self._known.get(id(cls))
        if known is None or known[0]() is not cls:
            known = self._known[id(cls)] = weakref.ref(cls), _reader_of(cls)
        reader = known[1]
        return _OTHER_MODULE if reader is _MODULE and not _is_usual(value) else reader

    def forget_dead(self) -> None:
        """Let go of what is known of classes that are gone."""
        self._known = {key: known for key, known in self._known.items() if known[0]() is not None}


def _is_usual(module: Any) -> bool:
    attributes = _dict_of_module(module)
    begins = all(itertools.starmap(_is, zip(_MODULE_KEYS, dict.__iter__(attributes), strict=False)))
    return (
        len(attributes) >= len(_MODULE_KEYS)
        and begins
        and all(issubclass(type(attributes[part]), dict) for part in _PARTS)
    )


def _is(first: object, second: object) -> bool:
    return first is second


def _reader_of(cls: type) -> Reader | None:
    # A wrapper subclass may answer for its size with its own code; its parts are found as attributes.
    if issubclass(cls, torch.Tensor) and cls.__torch_dispatch__ is torch._C._disabled_torch_dispatch_impl:
        return TENSOR
    if issubclass(cls, torch.nn.Module):
        return _MODULE
    if issubclass(cls, dict):
        return _MAPPING
    for base, reader in _ITEMS:
        if issubclass(cls, base):
            return reader
    if not issubclass(cls, torch.Tensor | torch.optim.Optimizer):
        module = _module_of(cls)
        if issubclass(cls, _ATOMS) or not isinstance(module, str) or module.partition(".")[0] in _OPAQUE:
            return None
    return _Instances(cls)
