"""Tensor work inside plain statements."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from xla_notebook.notebook import blocks
from xla_notebook.notebook.blocks import Register
from xla_notebook.notebook.judge import Host, Judge
from xla_notebook.notebook.kinds import Kind

Namespace = dict[str, Any]

_ELSEWHERE = (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
"""Expressions whose parts are evaluated in a scope of their own."""


class Carver:
    """Replaces the tensor work inside a plain statement by blocks, each at its own place.

    ``print(loss_fn(model(x), y).item())`` keeps its `print` and its `item`, and the loss is one graph.
    `known` are the kinds of the names that the statement reads.
    """

    def __init__(self, register: Register, known: Mapping[str, Kind]) -> None:
        self._register = register
        self._known = known

    def statement(self, node: ast.stmt, namespace: Namespace) -> ast.stmt:
        """A copy of `node` with blocks in it."""
        copy: ast.stmt = self._copy(node, namespace)
        return copy

    def below(self, node: ast.expr, namespace: Namespace) -> ast.expr:
        """A copy of `node`, which itself must stay plain, with blocks in it."""
        if isinstance(node, _ELSEWHERE):
            return node
        copy: ast.expr = self._copy(node, namespace)
        return copy

    def _carve(self, node: ast.expr, namespace: Namespace) -> ast.expr:
        judge = Judge(namespace, self._known)
        try:
            on_device = judge.look(node)
        except Host:
            return self.below(node, namespace)
        if on_device and judge.work and not isinstance(node, (ast.Starred, ast.Slice)):
            return blocks.call(blocks.expression_source(node), self._register)
        return self.below(node, namespace)

    def _copy(self, node: Any, namespace: Namespace) -> Any:
        changed = {field: self._field(value, namespace) for field, value in ast.iter_fields(node)}
        return ast.copy_location(type(node)(**changed), node)

    def _field(self, value: Any, namespace: Namespace) -> Any:
        if isinstance(value, list):
            return [self._field(item, namespace) for item in value]
        if isinstance(value, ast.expr):
            stored = isinstance(getattr(value, "ctx", None), (ast.Store, ast.Del))
            return value if stored else self._carve(value, namespace)
        return self._copy(value, namespace) if isinstance(value, ast.keyword) else value
