"""What one variable reaches, remembered so that the next look need only compare.

Note [identities]. Of objects only numbers and names are remembered, so that nothing is kept alive. The number
of an object that is gone comes again. That is harmless for a container, because what has the number now is
read, and for a tensor, because its name says where it is held. What must not go unnoticed is another kind of
thing under the same number: so types are compared, too, and classes are known by weak references. Keys that
are plain values are kept themselves.
"""

from __future__ import annotations

import dataclasses
import weakref
from collections.abc import Mapping
from itertools import compress, islice
from typing import Any, NamedTuple

import torch

from xla_notebook.session.buffers import OwnerKind
from xla_notebook.session.readers import CHANGED, TENSOR, Form, Reader, Readers, Reading

Root = tuple[object, str, OwnerKind]
Name = tuple[OwnerKind, str]

_PLAIN_KEYS = (str, int, bool, float)

on_device: Any = vars(torch._C.TensorBase)["is_xla"].__get__


@dataclasses.dataclass(slots=True)
class _Step:
    """The objects of one kind on one level, as they were read."""

    key_numbers: list[int]
    kept_keys: list[Any]
    odd_keys: list[bool]
    """Which keys are no plain values."""
    sizes: list[int]
    types: list[int]
    held: list[bool]
    """Which values are no atoms."""
    numbers: list[int]
    """Those of the values that are held."""
    children: list[tuple[Reader, list[bool]]]
    """What is on the next level: which of the values that are held, by how they are read."""

    def same(self, reading: Reading) -> list[Any] | None:
        """The values that are held, if `reading` is what was read before."""
        keys, sizes, values = reading
        if (
            sizes != self.sizes
            or list(map(id, keys)) != self.key_numbers
            or list(map(id, map(type, values))) != self.types
        ):
            return None
        held = list(compress(values, self.held))
        return held if list(map(id, held)) == self.numbers else None


class Grown(NamedTuple):
    """A tree at this moment: its XLA tensors, one for each name, and its keys that are no plain values.

    A tree that is as it was before may hold, in the place and under the number of an XLA tensor, one that is none.
    """

    tree: Tree
    tensors: list[torch.Tensor]
    odd_keys: list[Any]


class Tree:
    """The objects below one root, level by level, without those that belong to other roots.

    Optimizers come last, because their state is called by the names of the parameters.
    """

    def __init__(self, reader: Reader, root: Root) -> None:
        self.complete = True
        self.claims: set[int] = set()
        """The numbers of the containers below the root."""
        self.borrowed: set[int] = set()
        """The numbers of containers that other trees had claimed before."""
        self.names: list[Name] = []
        """The name of each XLA tensor; what optimizers hold comes last, from `optimizers_from`."""
        self.optimizers_from = 0
        self.odd_names: list[str] = []
        """What the keys that are no plain values are called."""
        self._reader = reader
        self._type = id(type(root[0]))
        self.classes: dict[int, weakref.ref[type]] = {self._type: weakref.ref(type(root[0]))}
        self._levels: list[list[_Step]] = []
        self.on_device: list[bool] = []
        self.elsewhere: list[bool] = []

    def read(self, root: object) -> Grown | None:
        """The tree as it is now; None if anything of it has changed."""
        if id(type(root)) != self._type or any(cls() is None for cls in self.classes.values()):
            return None
        tensors: list[torch.Tensor] = []
        odd_keys: list[Any] = []
        level: dict[Reader, list[Any]] = {}
        optimizers: dict[Reader, list[Any]] = {}
        (optimizers if self._reader.kind == "optimizer" else level)[self._reader] = [root]
        for steps in self._levels:
            if not level:
                level, optimizers = optimizers, {}
            below: dict[Reader, list[Any]] = {}
            for (reader, objects), step in zip(level.items(), steps, strict=True):
                try:
                    reading = reader.read(objects)
                except CHANGED:
                    return None
                held = step.same(reading)
                if held is None:
                    return None
                odd_keys += compress(reading.keys, step.odd_keys)
                for child, chosen in step.children:
                    group = optimizers if child.kind == "optimizer" else below
                    group.setdefault(child, []).extend(compress(held, chosen))
            tensors += below.pop(TENSOR, ())
            level = below
        if any(map(on_device, compress(tensors, self.elsewhere))):
            return None
        return Grown(self, list(compress(tensors, self.on_device)), odd_keys)

    @classmethod
    def grow(
        cls,
        reader: Reader,
        root: Root,
        *,
        readers: Readers,
        claimed: set[int],
        named: Mapping[int, Name],
        limit: int,
    ) -> Grown:
        """A new tree; `claimed` are the containers of other trees, `named` the names of tensors that are keys."""
        tree = cls(reader, root)
        growth = _Growth(tree, readers, claimed, named, limit)
        level: dict[Reader, list[Root]] = {}
        optimizers: dict[Reader, list[Root]] = {}
        (optimizers if reader.kind == "optimizer" else level)[reader] = [root]
        optimizers_from = None
        while level or optimizers:
            if not level:
                level, optimizers = optimizers, {}
                optimizers_from = len(tree.names) if optimizers_from is None else optimizers_from
            below: dict[Reader, list[Root]] = {}
            steps = []
            for kind, objects in level.items():
                for part, reading in growth.readings(kind, objects):
                    step, children = growth.step(kind, part, reading)
                    steps.append(step)
                    for child, found in children.items():
                        (optimizers if child.kind == "optimizer" else below).setdefault(child, []).extend(found)
            tree._levels.append(steps)
            level = below
        tree.optimizers_from = len(tree.names) if optimizers_from is None else optimizers_from
        return Grown(tree, growth.tensors, growth.odd_keys)


class _Growth:
    """One tree while it grows."""

    def __init__(self, tree: Tree, readers: Readers, claimed: set[int], named: Mapping[int, Name], limit: int) -> None:
        self.tensors: list[torch.Tensor] = []
        self.odd_keys: list[Any] = []
        self._tree = tree
        self._reader_of = readers.of
        self._claimed = claimed
        self._named = named
        self._left = limit

    def readings(self, reader: Reader, objects: list[Root]) -> list[tuple[list[Root], Reading]]:
        """What `objects` hold: all at once, or else one by one without those that another thread changes."""
        try:
            return [(objects, reader.read([thing for thing, _, _ in objects]))]
        except CHANGED:
            self._tree.complete = False
        found = []
        for thing in objects:
            try:
                found.append(([thing], reader.read([thing[0]])))
            except CHANGED:
                continue
        return found

    def step(self, reader: Reader, objects: list[Root], reading: Reading) -> tuple[_Step, dict[Reader, list[Root]]]:
        """Name what `objects` hold, and take what is to be read next."""
        tree = self._tree
        keys, sizes, values = iter(reading.keys), iter(reading.sizes), iter(reading.values)
        held: list[bool] = []
        kinds: list[Reader | None] = []
        numbers: list[int] = []
        children: dict[Reader, list[Root]] = {}
        for form in reader.forms:
            public = form == "attribute" and not reader.private
            for _, name, owner in objects:
                size = next(sizes)
                labels = range(size) if reader.numbered else islice(keys, size)
                for label, value in zip(labels, islice(values, size), strict=False):
                    kind = self._reader_of(value)
                    if kind is None or (public and type(label) is str and label.startswith("_")):
                        held.append(False)
                        continue
                    held.append(True)
                    numbers.append(id(value))
                    child = value, self._written(form, name, label), reader.kind or owner
                    kinds.append(kind if self._takes(kind, child) else None)
                    if kinds[-1] not in (None, TENSOR):
                        children.setdefault(kind, []).append(child)
        odd = [type(key) not in _PLAIN_KEYS for key in reading.keys]
        self.odd_keys += compress(reading.keys, odd)
        tree.odd_names += map(self._key_text, compress(reading.keys, odd))
        for cls in map(type, reading.values):
            if id(cls) not in tree.classes:
                tree.classes[id(cls)] = weakref.ref(cls)
        followed = {id(kind): kind for kind in kinds if kind is not None}.values()
        step = _Step(
            key_numbers=list(map(id, reading.keys)),
            kept_keys=[key for key in reading.keys if type(key) in _PLAIN_KEYS],
            odd_keys=odd,
            sizes=reading.sizes,
            types=list(map(id, map(type, reading.values))),
            held=held,
            numbers=numbers,
            children=[(kind, [other is kind for other in kinds]) for kind in followed],
        )
        return step, children

    def _takes(self, kind: Reader, child: Root) -> bool:
        """Whether `child` becomes a part of this tree."""
        tree, number = self._tree, id(child[0])
        if kind is TENSOR:
            here = on_device(child[0])
            tree.on_device.append(here)
            tree.elsewhere.append(not here)
            if here:
                self.tensors.append(child[0])  # type: ignore[arg-type]  # as its kind says
                tree.names.append((child[2], child[1]))
            return True
        if number in self._claimed:
            tree.borrowed.add(number)
            return False
        if number in tree.claims:
            return False
        if self._left <= 0:
            tree.complete = False
            return False
        self._left -= 1
        tree.claims.add(number)
        return True

    def _written(self, form: Form, name: str, label: Any) -> str:
        if form == "item":
            return f"{name}[{label}]"
        if form == "element":
            return f"{name}{{...}}"
        if form == "entry":
            return f"{name}[{self._key_text(label)}]"
        text = label if type(label) is str else self._key_text(label)
        return f"{name}[{text}]" if form == "part" and text.isdigit() else f"{name}.{text}"

    def _key_text(self, key: object) -> str:
        return key_text(key, self._named)


def key_text(key: object, named: Mapping[int, Name]) -> str:
    """A dictionary's key as text, if that takes no code of the user's; tensors are called as in `named`."""
    if type(key) in _PLAIN_KEYS:
        return repr(key)
    known = named.get(id(key))
    return f"<{type(key).__name__}>" if known is None else known[1]
