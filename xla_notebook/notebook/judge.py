"""Decides which statements of a block are tensor work that a graph can hold.

Works on the syntax tree and on the kinds of the names (`kinds.py`) at the moment the block is reached.
When in doubt a statement stays plain Python: its meaning is the same, only its tensor work is then done
by torch_xla's own lazy evaluation.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import inspect
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from xla_notebook.notebook import kinds
from xla_notebook.notebook.kinds import ON_DEVICE, SAFE_BUILTINS, Kind

# Methods that read values, move data, or change what Dynamo guards on.
_HOST_METHODS = frozenset(
    "add_module add_param_group append apply backward buffers children clear copy cpu cuda eval"
    " extend get_extra_state insert item keys items load_state_dict modules named_buffers named_modules"
    " named_parameters numpy parameters pop popitem print register_backward_hook register_buffer"
    " register_forward_hook register_forward_pre_hook register_full_backward_hook register_hook register_module"
    " register_parameter remove requires_grad_ setdefault share_memory sort_values state_dict to to_empty tolist"
    " train update values xla zero_grad".split()
)
_METADATA = frozenset(
    "device dtype grad_fn is_leaf itemsize layout names nbytes ndim requires_grad shape training".split()
)
_METADATA_CALLS = frozenset(
    "dim element_size is_contiguous is_floating_point ndimension nelement numel size stride".split()
)
_ALIASES = frozenset({"detach"})  # another name for the same buffer: nothing to compute
_MOVES = frozenset({"to", "cuda", "xla"})


class Host(Exception):
    """The statement must stay plain Python."""


class Judge:
    """Judges the statements of one block, in order.

    `made` holds the names that earlier statements of the same compiled group bind to tensors.
    """

    def __init__(self, namespace: Mapping[str, Any], known: Mapping[str, Kind]) -> None:
        self._namespace = namespace
        self.known = known
        self._bound: list[set[str]] = []
        self.made: dict[str, bool] = {}
        self.work = False
        self.holes: list[ast.Call] = []

    def look(self, node: ast.expr) -> bool:
        """Whether `node` has a device tensor as value, as far as one can tell; sets `work` and `holes`.

        Raises `Host` where the expression must stay plain Python.
        """
        self.work = False
        self.holes = []
        return self._look(node)

    def _look(self, node: ast.expr) -> bool:
        method = getattr(self, "_" + type(node).__name__.lower(), None)
        if method is None:
            raise Host
        return bool(method(node))

    def _any(self, nodes: list[ast.expr]) -> bool:
        # No short cut: every part must be looked at.
        found = [self._look(node) for node in nodes]
        return any(found)

    def _did(self, on_device: bool) -> bool:
        self.work = self.work or on_device
        return on_device

    def _constant(self, node: ast.Constant) -> bool:
        return False

    def _name(self, node: ast.Name) -> bool:
        if any(node.id in names for names in self._bound):
            return True
        if node.id in self.made:
            return self.made[node.id]
        kind = self._kind(node.id)
        if kind in (Kind.MISSING, Kind.HOST, Kind.HOST_TENSOR, Kind.VARYING):
            raise Host
        return kind in ON_DEVICE

    def _kind(self, name: str) -> Kind:
        kind = self.known.get(name)
        if kind is None:
            value = self._namespace.get(name, getattr(builtins, name, self))
            kind = Kind.MISSING if value is self else kinds.kind_of(value)
        return kind

    def _attribute(self, node: ast.Attribute) -> bool:
        found, value = self._resolve(node)
        if found:
            kind = kinds.kind_of(value)
            if kind in (Kind.HOST, Kind.HOST_TENSOR):
                raise Host
            return kind in ON_DEVICE
        on_device = self._look(node.value)
        self._must_have(node)
        return on_device and node.attr not in _METADATA

    def _must_have(self, node: ast.Attribute) -> None:
        """Leave an attribute that is not there to plain Python.

        Dynamo (torch 2.9) reads it before it has bound the names of the statements above, which would
        then be lost with the error.
        """
        name = node.value.id if isinstance(node.value, ast.Name) else None
        if name is None or any(name in names for names in self._bound):
            return
        if name in self.made and not self.made[name]:
            return
        owner = torch.Tensor if name in self.made else self._namespace.get(name)
        if isinstance(owner, torch.nn.Module) and node.attr in (*owner._parameters, *owner._buffers, *owner._modules):
            return
        if inspect.getattr_static(owner, node.attr, self) is self:
            raise Host

    def _resolve(self, node: ast.expr) -> tuple[bool, Any]:
        """The value of a dotted name that starts at a Python module: reading it runs no user's code."""
        path: list[str] = []
        while isinstance(node, ast.Attribute):
            path.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name) or self._kind(node.id) is not Kind.PACKAGE:
            return False, None
        value = self._namespace.get(node.id)
        for attribute in reversed(path):
            value = vars(value).get(attribute) if hasattr(value, "__dict__") else None
        if value is None:
            raise Host
        return True, value

    def _call(self, node: ast.Call) -> bool:
        if self._is_hole(node):
            self.holes.append(node)
            return True
        callee = self._callee(node.func)
        arguments = self._any([*node.args, *(keyword.value for keyword in node.keywords)])
        if isinstance(node.func, ast.Attribute) and node.func.attr in _METADATA_CALLS:
            return False
        if isinstance(node.func, ast.Attribute) and node.func.attr in _ALIASES:
            return callee
        return self._did(callee or arguments)

    def _callee(self, function: ast.expr) -> bool:
        if isinstance(function, ast.Name) and function.id not in self.made:
            value = self._namespace.get(function.id, getattr(builtins, function.id, None))
            if any(value is safe for safe in SAFE_BUILTINS):
                return False
            return self._look(function)
        found, value = self._resolve(function)
        if found:
            if not kinds.traceable(value) and kinds.kind_of(value) is not Kind.NEUTRAL:
                raise Host
            return False
        if isinstance(function, ast.Attribute):
            on_device = self._look(function.value)
            if function.attr in _HOST_METHODS:
                raise Host
            self._must_have(function)
            return on_device
        return self._look(function)

    def _is_hole(self, node: ast.Call) -> bool:
        """Whether `node` moves a host tensor to a device (``batch.to(device)``).

        Such a copy is made by plain Python and handed to the compiled block. It only reads the named
        tensor, so making it just before the block is the same as making it in the middle.
        """
        function = node.func
        if not isinstance(function, ast.Attribute) or function.attr not in _MOVES:
            return False
        receiver = function.value
        if not isinstance(receiver, ast.Name) or receiver.id in self.made:
            return False
        if self._kind(receiver.id) is not Kind.HOST_TENSOR:
            return False
        arguments = [*node.args, *(keyword.value for keyword in node.keywords)]
        return all(
            isinstance(inner, (ast.Name, ast.Constant, ast.Attribute, ast.expr_context))
            and not (isinstance(inner, ast.Name) and inner.id in self.made)
            for argument in arguments
            for inner in ast.walk(argument)
        )

    def _binop(self, node: ast.BinOp) -> bool:
        if isinstance(node.left, ast.Constant) and isinstance(node.left.value, str):
            raise Host
        return self._did(self._any([node.left, node.right]))

    def _unaryop(self, node: ast.UnaryOp) -> bool:
        on_device = self._look(node.operand)
        if on_device and isinstance(node.op, ast.Not):
            raise Host
        return self._did(on_device)

    def _compare(self, node: ast.Compare) -> bool:
        on_device = self._any([node.left, *node.comparators])
        if on_device and (len(node.ops) > 1 or isinstance(node.ops[0], (ast.Is, ast.IsNot, ast.In, ast.NotIn))):
            raise Host
        return self._did(on_device)

    def _boolop(self, node: ast.BoolOp) -> bool:
        if self._any(node.values):
            raise Host  # which operand it yields depends on a value
        return False

    def _ifexp(self, node: ast.IfExp) -> bool:
        if self._look(node.test):
            raise Host
        return self._any([node.body, node.orelse])

    def _subscript(self, node: ast.Subscript) -> bool:
        on_device = self._look(node.value)
        for inner in ast.walk(node.slice):
            if isinstance(inner, ast.Name) and inner.id not in self.made and self._kind(inner.id) is Kind.SCALAR:
                raise Host  # x[i]: a graph would be compiled for each i
        return self._did(self._look(node.slice) or on_device) and on_device

    def _slice(self, node: ast.Slice) -> bool:
        return self._any([part for part in (node.lower, node.upper, node.step) if part is not None])

    def _tuple(self, node: ast.Tuple | ast.List) -> bool:
        return self._any(node.elts)

    _list = _tuple

    def _dict(self, node: ast.Dict) -> bool:
        return self._any([*(key for key in node.keys if key is not None), *node.values])

    def _starred(self, node: ast.Starred) -> bool:
        return self._look(node.value)

    def _namedexpr(self, node: ast.NamedExpr) -> bool:
        on_device = self._look(node.value)
        self.made[node.target.id] = on_device
        return on_device

    def _lambda(self, node: ast.Lambda) -> bool:
        arguments = node.args
        names = {a.arg for a in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]}
        names |= {a.arg for a in (arguments.vararg, arguments.kwarg) if a is not None}
        worked, made = self.work, dict(self.made)
        with self._binding(names):
            self._look(node.body)
        self.work, self.made = worked, made
        return False

    def _listcomp(self, node: ast.ListComp) -> bool:
        on_device = False
        with contextlib.ExitStack() as scopes:
            for generator in node.generators:
                on_device |= self._look(generator.iter)
                scopes.enter_context(self._binding(_names(generator.target)))
                if self._any(generator.ifs):
                    raise Host
            return self._look(node.elt) and on_device

    @contextlib.contextmanager
    def _binding(self, names: set[str]) -> Iterator[None]:
        self._bound.append(names)
        try:
            yield
        finally:
            self._bound.pop()


def _names(target: ast.expr) -> set[str]:
    return {inner.id for inner in ast.walk(target) if isinstance(inner, ast.Name)}
