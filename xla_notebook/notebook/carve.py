"""Tensor work inside plain statements, and the gradient that ``loss.backward()`` starts from."""

from __future__ import annotations

import ast
from typing import Any

import torch

from xla_notebook.notebook import blocks
from xla_notebook.notebook.blocks import RUNTIME, Register
from xla_notebook.notebook.judge import Host, Judge

Namespace = dict[str, Any]


class Carver:
    """Replaces the tensor work inside a plain statement by blocks, each at its own place.

    ``print(loss_fn(model(x), y).item())`` keeps its `print` and its `item`, and the loss is one graph.
    What is not evaluated there and then, exactly once (lambdas, comprehensions, branches), is left alone.
    """

    def __init__(self, register: Register) -> None:
        self._register = register

    def statement(self, node: ast.stmt, namespace: Namespace) -> ast.stmt:
        copy: ast.stmt = self._copy(node, namespace)
        return copy

    def carve(self, node: ast.expr, namespace: Namespace) -> ast.expr:
        if isinstance(node, (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
            return node
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and _is_backward(node):
            return _seeded(node, node.func, self.carve(node.func.value, namespace))
        judge = Judge(namespace, {})
        try:
            on_device = judge.look(node)
        except Host:
            on_device = False
        if on_device and judge.work and not isinstance(node, (ast.Starred, ast.Slice)):
            return blocks.call(blocks.expression_source(node), self._register)
        copy: ast.expr = self._copy(node, namespace)
        return copy

    def _copy(self, node: Any, namespace: Namespace) -> Any:
        changed = {field: self._field(value, namespace) for field, value in ast.iter_fields(node)}
        return ast.copy_location(type(node)(**changed), node)

    def _field(self, value: Any, namespace: Namespace) -> Any:
        if isinstance(value, list):
            return [self._field(item, namespace) for item in value]
        if isinstance(value, ast.expr):
            stored = isinstance(getattr(value, "ctx", None), (ast.Store, ast.Del))
            return value if stored else self.carve(value, namespace)
        return self._copy(value, namespace) if isinstance(value, ast.keyword) else value


def _is_backward(node: ast.Call) -> bool:
    return isinstance(node.func, ast.Attribute) and node.func.attr == "backward" and not node.args and not node.keywords


def _seeded(node: ast.Call, method: ast.Attribute, receiver: ast.expr) -> ast.expr:
    """``loss.backward()`` with its implicit gradient of one as a ready buffer.

    Autograd would make it as pending work on the device, which costs a graph and an execution a step.
    """
    if not isinstance(receiver, ast.Name):
        function = ast.copy_location(ast.Attribute(receiver, method.attr, ast.Load()), method)
        return ast.copy_location(ast.Call(function, [], []), node)
    runtime = ast.copy_location(ast.Name(RUNTIME, ast.Load()), node)
    seed = ast.copy_location(ast.Attribute(runtime, "seed", ast.Load()), node)
    made = ast.copy_location(ast.Call(seed, [receiver], []), node)
    keyword = ast.copy_location(ast.keyword("gradient", made), node)
    return ast.copy_location(ast.Call(method, [], [keyword]), node)


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
