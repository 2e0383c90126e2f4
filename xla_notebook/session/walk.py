"""Finds the XLA tensors that a namespace reaches, and what they are called.

Walks are repeated, and mostly find what they found before. So each variable has a tree, which is compared with
what is there now, and only trees that changed are walked and named again.
"""

from __future__ import annotations

import operator
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, compress, repeat
from typing import Any, NamedTuple, TypeVar

import torch

from xla_notebook.session.buffers import OwnerKind
from xla_notebook.session.readers import TENSOR, Reader, Readers
from xla_notebook.session.trees import Grown, Name, Root, Tree, key_text, on_device

OBJECT_LIMIT = 200_000
NAME_LIMIT = 8
PART = 256

_T = TypeVar("_T")

_Key = tuple[str, OwnerKind, int]
_Direct = tuple[torch.Tensor, Name]

# The history of results, which `notebook_roots` visits as what it is.
_IPYTHON_NAMES = frozenset({"In", "Out", "_", "__", "___", "_dh", "_ih", "_oh"})

_is_leaf: Any = vars(torch._C.TensorBase)["is_leaf"].__get__
_gradient: Any = vars(torch._C.TensorBase)["grad"].__get__


def notebook_roots(namespace: Mapping[str, object]) -> Iterator[Root]:
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


def traceback_roots(error: BaseException | None) -> Iterator[Root]:
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


def parts(things: Sequence[_T], begin: int = 0) -> Iterator[Sequence[_T]]:
    """`things` from number `begin` on, so few at a time that what is read of one is still in the processor's cache."""
    return (things[at : at + PART] for at in range(begin, len(things), PART))


def _key(root: Root) -> _Key:
    return root[1], root[2], id(root[0])


def _named(grown: Grown) -> Iterator[tuple[int, Name]]:
    """The tensors of a tree by number, and what they are called, the nearest last."""
    names = grown.tree.names[: grown.tree.optimizers_from]
    return zip(map(id, reversed(grown.tensors[: len(names)])), reversed(names), strict=True)


class Reached(NamedTuple):
    """The XLA tensors found by a walk, each with the names by which it is reached, the nearest first.

    `complete` is false if there were more objects than the limit, or a container changed while it was read.
    Where nothing changed since the walk before, `names` are the same tuples.
    """

    tensors: list[torch.Tensor]
    names: list[tuple[Name, ...]]
    complete: bool


class Walk:
    """Walks again and again from roots. Runs under ``DisableTorchFunctionSubclass``.

    At most `limit` objects are visited.
    """

    def __init__(self, limit: int = OBJECT_LIMIT) -> None:
        self._lock = threading.Lock()
        self._limit = limit
        self._readers = Readers()
        self._trees: dict[_Key, Tree] = {}
        # How the trees' tensors were joined at the last look: which are there for the first time, each one's names.
        self._joined_trees: list[Tree] = []
        self._first: list[bool] = []
        self._names: list[tuple[Name, ...]] = []
        self._places: dict[int, int] = {}
        self._gradients: list[tuple[list[tuple[Name, ...]], list[tuple[Name, ...]]]] = []

    def look(self, roots: Iterable[Root]) -> Reached:
        """What `roots` reach. A container that several of them reach is its own root's, or else the first one's."""
        with self._lock:
            return self._look(roots)

    def _look(self, roots: Iterable[Root]) -> Reached:
        direct: list[_Direct] = []
        containers: dict[int, tuple[Reader, Root]] = {}
        for root in roots:
            value, name, owner = root
            reader = self._readers.of(value)
            if reader is TENSOR:
                if on_device(value):
                    direct.append((value, (owner, name)))  # type: ignore[arg-type]  # as its reader says
            elif reader is not None:
                containers.setdefault(id(value), (reader, root))
        trees = self._grown(containers, direct)
        self._readers.forget_dead()
        self._trees = {key: grown.tree for key, grown in trees.items() if grown.tree.complete}
        tensors, names = self._joined(list(trees.values()), direct)
        self._add_gradients(tensors, names)
        here = [found for part in parts(tensors) for found in map(on_device, part)]
        if not all(here):
            tensors, names = list(compress(tensors, here)), list(compress(names, here))
        return Reached(tensors, names, all(grown.tree.complete for grown in trees.values()))

    def _grown(self, containers: dict[int, tuple[Reader, Root]], direct: list[_Direct]) -> dict[_Key, Grown]:
        """The trees of `containers`, those of before where nothing has changed."""
        claimed = set(containers)
        trees: dict[_Key, Grown] = {}
        optimizers = []
        for reader, root in containers.values():
            if reader.kind == "optimizer":
                optimizers.append((reader, root))
            else:
                key = _key(root)
                trees[key] = self._read(root, claimed) or self._grow(reader, root, claimed, {})
        # Tensors that are keys, as in optimizers, are called by their names, which are known only now.
        named = dict(chain.from_iterable(map(_named, reversed(trees.values()))))
        named.update((id(tensor), name) for tensor, name in reversed(direct))
        for reader, root in [containers[key[2]] for key, grown in trees.items() if grown.odd_keys] + optimizers:
            key = _key(root)
            grown = trees.get(key) or self._read(root, claimed)
            if grown is None or [key_text(odd, named) for odd in grown.odd_keys] != grown.tree.odd_names:
                if grown is not None:
                    claimed -= grown.tree.claims
                grown = self._grow(reader, root, claimed, named)
            trees[key] = grown
        return trees

    def _read(self, root: Root, claimed: set[int]) -> Grown | None:
        """The tree of `root` if it is as it was, also in what it shares with the trees that `claimed` theirs."""
        known = self._trees.get(_key(root))
        if known is None or not known.borrowed <= claimed or not known.claims.isdisjoint(claimed):
            return None
        grown = known.read(root[0])
        if grown is not None:
            claimed |= known.claims
        return grown

    def _grow(self, reader: Reader, root: Root, claimed: set[int], named: Mapping[int, Name]) -> Grown:
        left = self._limit - len(claimed)
        grown = Tree.grow(reader, root, readers=self._readers, claimed=claimed, named=named, limit=left)
        claimed |= grown.tree.claims
        return grown

    def _joined(self, trees: list[Grown], direct: list[_Direct]) -> tuple[list[torch.Tensor], list[tuple[Name, ...]]]:
        """Each tensor once, with all its names: variables, then what they reach, then what optimizers hold."""
        reached = [
            *chain.from_iterable(grown.tensors[: grown.tree.optimizers_from] for grown in trees),
            *chain.from_iterable(grown.tensors[grown.tree.optimizers_from :] for grown in trees),
        ]
        if [grown.tree for grown in trees] != self._joined_trees:
            self._join(trees, reached)
        tensors, names = list(compress(reached, self._first)), list(self._names)
        alone: dict[int, tuple[torch.Tensor, list[Name]]] = {}
        for tensor, name in direct:
            alone.setdefault(id(tensor), (tensor, []))[1].append(name)
        for number in [number for number in alone if number in self._places]:
            _, also = alone.pop(number)
            names[self._places[number]] = (*also, *names[self._places[number]])[:NAME_LIMIT]
        firsts = alone.values()
        return (
            [*(tensor for tensor, _ in firsts), *tensors],
            [*(tuple(also[:NAME_LIMIT]) for _, also in firsts), *names],
        )

    def _join(self, trees: list[Grown], reached: list[torch.Tensor]) -> None:
        called = [
            *chain.from_iterable(grown.tree.names[: grown.tree.optimizers_from] for grown in trees),
            *chain.from_iterable(grown.tree.names[grown.tree.optimizers_from :] for grown in trees),
        ]
        names: dict[int, list[Name]] = {}
        self._first = []
        for number, name in zip(map(id, reached), called, strict=True):
            known = names.get(number)
            self._first.append(known is None)
            if known is None:
                names[number] = [name]
            elif len(known) < NAME_LIMIT:
                known.append(name)
        self._names = [tuple(of_one) for of_one in names.values()]
        self._places = {number: place for place, number in enumerate(names)}
        self._joined_trees = [grown.tree for grown in trees]

    def _add_gradients(self, tensors: list[torch.Tensor], names: list[tuple[Name, ...]]) -> None:
        """Add the gradients of `tensors`, and theirs, if there are any."""
        begin, generation = 0, 0
        while begin < len(tensors):
            owners: list[tuple[Name, ...]] = []
            found: list[torch.Tensor] = []
            for part, owned in zip(parts(tensors, begin), parts(names, begin), strict=True):
                # Reading the gradient of a tensor that is no leaf would print a warning.
                leaves = list(map(_is_leaf, part))
                gradients = list(map(_gradient, compress(part, leaves)))
                there = list(map(operator.is_not, gradients, repeat(None)))
                found += compress(gradients, there)
                owners += compress(compress(owned, leaves), there)
            called = self._names_of_gradients(owners, generation)
            known = set(map(id, tensors))
            numbers = set(map(id, found))
            begin = len(tensors)
            generation += 1
            if len(numbers) == len(found) and numbers.isdisjoint(known):
                tensors += found
                names += called
            else:
                _add_known(found, called, tensors, names)

    def _names_of_gradients(self, owners: list[tuple[Name, ...]], generation: int) -> list[tuple[Name, ...]]:
        if generation == len(self._gradients):
            self._gradients.append(([], []))
        if self._gradients[generation][0] != owners:
            self._gradients[generation] = owners, [(("gradient", f"{owned[0][1]}.grad"),) for owned in owners]
        return self._gradients[generation][1]


def _add_known(
    found: list[torch.Tensor],
    called: list[tuple[Name, ...]],
    tensors: list[torch.Tensor],
    names: list[tuple[Name, ...]],
) -> None:
    """Add tensors of which some have other names already, or one another's."""
    places = {number: place for place, number in enumerate(map(id, tensors))}
    for tensor, name in zip(found, called, strict=True):
        place = places.setdefault(id(tensor), len(tensors))
        if place < len(tensors):
            names[place] = (*names[place], *name)[:NAME_LIMIT]
        else:
            tensors.append(tensor)
            names.append(name)
