"""The steps of a compiled function as plain values: what `fallback` makes and `function` runs."""

from __future__ import annotations

import dataclasses
import functools
import os
import re
from collections.abc import Iterator
from typing import Any

import torch
from torch.fx import Node

from xla_notebook.backend.observer import TensorSpec


@dataclasses.dataclass(frozen=True)
class Output:
    """A value that a segment hands out.

    `target`: the argument of which this is the new value. It then needs a buffer of its own (see
    `fallback._Splitter._update`); without a target it is the value as such.
    """

    node: Node
    target: Node | None = None

    @property
    def key(self) -> Node | Output:
        """Under which a program's environment holds the value."""
        return self.node if self.target is None else self


@dataclasses.dataclass(frozen=True)
class Segment:
    """Consecutive lazy work: becomes one XLA graph for each set of input sizes.

    `inputs` are the values it takes from outside (tensors and numbers), `outputs` those that it gives.
    """

    index: int
    nodes: tuple[Node, ...]
    inputs: tuple[Node, ...]
    outputs: tuple[Output, ...]
    dynamic: bool


@dataclasses.dataclass(frozen=True)
class HostStep:
    """One node that runs on the host, on the real tensors, once a call."""

    node: Node
    why: str


@dataclasses.dataclass(frozen=True)
class Program:
    """An FX graph as steps in order, then in-place updates, then what it returns.

    `updates`: (placeholder, output that holds its new value). `views`: outputs that must alias another
    output are made anew from it, by these nodes. `results`: the FX graph's outputs; a placeholder means
    the argument itself. `donated`: placeholders whose buffers the user offers.
    """

    placeholders: tuple[Node, ...]
    attributes: tuple[Node, ...]
    steps: tuple[Segment | HostStep, ...]
    updates: tuple[tuple[Node, Output], ...]
    views: tuple[Node, ...]
    results: tuple[Any, ...]
    donated: frozenset[Node]

    @functools.cached_property
    def host_steps(self) -> tuple[HostStep, ...]:
        return tuple(step for step in self.steps if isinstance(step, HostStep))

    @functools.cached_property
    def used_up(self) -> tuple[tuple[Node, ...], ...]:
        """For each step, the values that nothing after it needs."""
        needed = {node for target, value in self.updates for node in (target, value.node)}
        torch.fx.node.map_arg(self.results, needed.add)
        for view in self.views:
            needed.update(view.all_input_nodes)
        used_up: list[tuple[Node, ...]] = []
        for step in reversed(self.steps):
            inputs = step.node.all_input_nodes if isinstance(step, HostStep) else step.inputs
            last = [node for node in inputs if node not in needed]
            needed.update(last)
            used_up.append(tuple(last))
        return tuple(reversed(used_up))


def tensors_of(value: Any) -> Iterator[torch.Tensor]:
    """The tensors in a node's value or in its ``meta["val"]``."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors_of(item)


def is_on_xla(value: Any) -> bool:
    """Whether `value` is a tensor on the XLA device."""
    return isinstance(value, torch.Tensor) and value.device.type == "xla"


def spec_of(tensor: torch.Tensor) -> TensorSpec:
    """What observers are told of a tensor."""
    dtype = str(tensor.dtype).removeprefix("torch.")
    return TensorSpec(tuple(int(n) for n in tensor.shape), dtype, tensor.numel() * tensor.element_size())


_PLACE = re.compile(r'File "(.+?)", line (\d+), in (\S+)\n\s*(.*)')
_TORCH = os.path.dirname(torch.__file__) + os.sep


def _users_place(node: Node) -> tuple[str, str, str, str] | None:
    """The innermost frame that is not torch's own: file, line, function, code."""
    places: list[tuple[str, str, str, str]] = _PLACE.findall(str(node.meta.get("stack_trace", "")))
    return next((place for place in reversed(places) if not place[0].startswith(_TORCH)), None)


def source_place(node: Node) -> tuple[str, int] | None:
    """File and line of the user's code that made the node, as Dynamo recorded it."""
    place = _users_place(node)
    return None if place is None else (place[0], int(place[1]))


def source_line(node: Node) -> str | None:
    """The user's line that made the node: ``file:line: code``."""
    place = _users_place(node)
    return None if place is None else f"{place[0]}:{place[1]}: {place[3]}"
