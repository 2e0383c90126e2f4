"""Tensor work inside plain statements, and the gradient that ``loss.backward()`` starts from."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

import torch

from xla_notebook.notebook import blocks
from xla_notebook.notebook.blocks import RUNTIME, Register
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
        method = _backward(node)
        if method is not None:
            return _seeded(node, method, self._carve(method.value, namespace))
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


def _backward(node: ast.expr) -> ast.Attribute | None:
    """The method of ``loss.backward()``, if `node` is such a call."""
    if not isinstance(node, ast.Call) or node.args or node.keywords:
        return None
    return node.func if isinstance(node.func, ast.Attribute) and node.func.attr == "backward" else None


def _seeded(node: ast.expr, method: ast.Attribute, receiver: ast.expr) -> ast.expr:
    """``loss.backward()`` with its implicit gradient of one as a ready buffer.

    Autograd would make it as pending work on the device, which costs a graph and an execution a step.
    """
    keywords: list[ast.keyword] = []
    if isinstance(receiver, ast.Name):
        runtime = ast.copy_location(ast.Name(RUNTIME, ast.Load()), node)
        seed = ast.copy_location(ast.Attribute(runtime, "seed", ast.Load()), node)
        made = ast.copy_location(ast.Call(seed, [receiver], []), node)
        keywords.append(ast.copy_location(ast.keyword("gradient", made), node))
    function = ast.copy_location(ast.Attribute(receiver, method.attr, ast.Load()), method)
    return ast.copy_location(ast.Call(function, [], keywords), node)


_seeds: dict[tuple[torch.dtype, torch.Size, torch.device], torch.Tensor] = {}


def seed(tensor: Any) -> torch.Tensor | None:
    """A one for ``tensor.backward(gradient=...)``, or None where plain `backward` must speak for itself."""
    if not isinstance(tensor, torch.Tensor) or tensor.device.type != "xla" or tensor.numel() != 1:
        return None
    if not tensor.requires_grad or not tensor.is_floating_point():
        return None
    key = (tensor.dtype, tensor.shape, tensor.device)
    made = _seeds.get(key)
    if made is None:
        made = _seeds[key] = torch.ones(tensor.shape, dtype=tensor.dtype).to(tensor.device)
    return made
