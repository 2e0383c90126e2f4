"""What tells two graphs apart that torch_xla's hash takes for one.

The hash forgets which parameter feeds which operator: ``a*b + c`` and ``a*c + b`` can hash alike (pytorch/xla
issue 8353), and so can the entries of a persistent cache. The wiring of the segment is therefore hashed here and
put into the graph as the size of an empty constant, in a select that XLA removes. Two graphs of ours get one
executable only if both hashes agree. Numbers that torch_xla turns into inputs (scalars) stay out of the
fingerprint, so that graphs that differ only in a learning rate still share an executable.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable
from typing import Any

import torch
from torch.fx import Node

from xla_notebook.backend import runtime
from xla_notebook.backend.program import Segment


def fingerprint(segment: Segment, bindings: Iterable[tuple[str, int]], donated: Iterable[int]) -> int:
    """The wiring of the graph as a positive number of 60 bits. `bindings`: kind and index of each parameter."""
    wiring = _Wiring(segment)
    digest = hashlib.blake2b(digest_size=8)
    for node in segment.nodes:
        digest.update(wiring.describe(node).encode())
    digest.update(repr([(wiring.name(o.node), bool(o.target)) for o in segment.outputs]).encode())
    digest.update(repr(list(bindings)).encode())
    digest.update(repr(sorted(donated)).encode())
    return int.from_bytes(digest.digest(), "big") >> 4


def salted(root: torch.Tensor, salt: int) -> torch.Tensor:
    """`root`, as the result of a select between `root` and itself whose predicate is made from `salt`.

    XLA folds the predicate (no element of an empty tensor is true) and drops the select.
    """
    return torch.where(runtime.marker(salt, root.device), root, root)


@functools.cache
def _scalar_arguments(target: Any) -> frozenset[int | str]:
    """Positions and names of an operator's scalar arguments, which torch_xla feeds as graph inputs."""
    if not isinstance(target, torch._ops.OpOverload):
        return frozenset()
    # A number may stand where the schema says Tensor.
    kinds = ("number", "Tensor", "Optional[number]", "Optional[Tensor]")
    scalars = [(i, a.name) for i, a in enumerate(target._schema.arguments) if str(a.type) in kinds]
    return frozenset(key for pair in scalars for key in pair)


class _Wiring:
    """Names the values of a segment by their place, and scalars and literals by their first appearance."""

    def __init__(self, segment: Segment):
        self.names: dict[Node, str] = {node: f"i{i}" for i, node in enumerate(segment.inputs)}
        self.scalars: dict[str, str] = {}

    def describe(self, node: Node) -> str:
        scalars = _scalar_arguments(node.target)
        args = [self._argument(a, i in scalars) for i, a in enumerate(node.args)]
        kwargs = [f"{key}={self._argument(a, key in scalars)}" for key, a in node.kwargs.items()]
        self.names[node] = f"n{len(self.names)}"
        return f"{node.target}({','.join(args + kwargs)})"

    def name(self, node: Node) -> str:
        return self.names.setdefault(node, f"l{len(self.names)}")

    def _argument(self, value: Any, scalar: bool) -> str:
        if isinstance(value, Node):
            return self.name(value)
        if isinstance(value, (list, tuple)):
            return f"[{','.join(self._argument(item, scalar) for item in value)}]"
        if scalar:
            return self.scalars.setdefault(repr(value), f"#{len(self.scalars)}")
        return repr(value)
