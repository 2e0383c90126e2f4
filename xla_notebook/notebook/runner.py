"""Runs the blocks of a cell: tensor work as compiled functions, everything else as plain Python.

When a block is reached, its statements are judged by what the names hold at that moment. A group of
statements of tensor work becomes one function over the user's namespace, whose assigned names are
declared ``global``; the judgement is kept for as long as the names hold the same kinds of value, so that
running a cell again reuses the same code objects and with them Dynamo's cache.
"""

from __future__ import annotations

import ast
import dataclasses
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from xla_notebook.backend.rehearsal import NotReached
from xla_notebook.notebook import blocks
from xla_notebook.notebook.blocks import Source
from xla_notebook.notebook.carve import Carver
from xla_notebook.notebook.judge import Host, Judge
from xla_notebook.notebook.kinds import Kind, Names

Namespace = dict[str, Any]
Step = Callable[[Namespace], Any]


class Compiling(Protocol):
    """What a block needs of its cell."""

    name: str
    """What the frames of compiled blocks are called in tracebacks and reports."""

    def compile(self, tree: ast.mod, mode: str) -> types.CodeType:
        """Compile under the cell's filename and ``__future__`` flags."""

    def accelerate(self, function: types.FunctionType) -> Callable[..., Any]:
        """The compiled form of `function`."""

    def define(self, thing: Any) -> Any:
        """What a definition at the cell's top level binds."""

    def register(self, source: Source) -> int:
        """Keep a block and return its number."""


class Rehearsing(Protocol):
    """What a block asks of a rehearsal."""

    def available(self, statements: Sequence[ast.stmt]) -> None:
        """Raise `NotReached` if the statements read a name that is not there."""

    def statements(self, statements: Sequence[ast.stmt]) -> None:
        """The statements raised `NotReached`."""


@dataclasses.dataclass(slots=True)
class _Plan:
    run: Step
    next: int


class Block:
    """A run of straight-line statements of a cell."""

    def __init__(self, source: Source, cell: Compiling) -> None:
        self.source = source
        self.cell = cell
        self._plans: dict[tuple[int, tuple[Kind, ...]], _Plan] = {}
        self._names: dict[int, Names] = {}
        self._groups: dict[tuple[int, int, int], Step] = {}

    def run(self, namespace: Namespace, rehearsing: Rehearsing | None = None) -> Any:
        """Run the statements; the value is that of the last expression if the cell needs it.

        `rehearsing` is told of those that cannot be rehearsed, and the others go on.
        """
        position, count, value = 0, len(self.source.statements), None
        while position < count:
            names = self._names.get(position)
            if names is None:
                names = self._names[position] = Names(_loads(self.source.statements[position:]))
            kinds = names.kinds(namespace)
            plan = self._plans.get((position, kinds))
            if plan is None:
                known = dict(zip(names.names, kinds, strict=True))
                plan = self._plan(position, Judge(namespace, known))
                self._plans[position, kinds] = plan
            value = plan.run(namespace) if rehearsing is None else self._rehearse(plan, position, namespace, rehearsing)
            position = plan.next
        return value

    def _rehearse(self, plan: _Plan, position: int, namespace: Namespace, rehearsing: Rehearsing) -> Any:
        statements = self.source.statements[position : plan.next]
        try:
            rehearsing.available(statements)
            return plan.run(namespace)
        except NotReached:
            if self.source.value and len(self.source.statements) == 1:
                raise  # a larger statement needs the value
            rehearsing.statements(statements)
            return None

    def _plan(self, start: int, judge: Judge) -> _Plan:
        """The longest group of tensor work that starts here, or else one plain statement."""
        statements = self.source.statements
        seen: list[ast.Call] = []
        holes: list[ast.Call] = []
        end = start
        for index, statement in enumerate(statements[start:], start):
            try:
                on_device = judge.look(_value(statement))
            except Host:
                break
            if any(_reads(hole, judge.made) for hole in judge.holes) or (index == start and not judge.work):
                break
            seen += judge.holes
            for name in _targets(statement):
                judge.made[name] = on_device
            if judge.work:
                # Statements without tensor work may stand inside a group, but do not end one.
                end, holes = index + 1, list(seen)
        if end == start:
            return _Plan(self._plain(start, judge.known), start + 1)
        # The same statements are the same function, whatever else the judgement depended on.
        key = (start, end, len(holes))
        group = self._groups.get(key)
        if group is None:
            returns = self.source.value and end == len(statements)
            group = self._groups[key] = _compiled(statements[start:end], holes, returns, self.cell)
        return _Plan(group, end)

    def _plain(self, index: int, known: Mapping[str, Kind]) -> Step:
        """One statement as plain Python, with the tensor work inside it as blocks of its own."""
        statement = self.source.statements[index]
        last = index == len(self.source.statements) - 1
        carver = Carver(self.cell.register, known)
        cell = self.cell
        if self.source.value and last and isinstance(statement, ast.Expr):
            wanted = statement.value
            return _lazily(lambda namespace: cell.compile(ast.Expression(carver.below(wanted, namespace)), "eval"))

        def build(namespace: Namespace) -> types.CodeType:
            return cell.compile(ast.Module([carver.statement(statement, namespace)], []), "exec")

        return _lazily(build)


def _lazily(build: Callable[[Namespace], types.CodeType]) -> Step:
    code: list[types.CodeType] = []

    def run(namespace: Namespace) -> Any:
        if not code:
            code.append(build(namespace))
        return eval(code[0], namespace)

    return run


def _compiled(statements: Sequence[ast.stmt], holes: Sequence[ast.Call], returns: bool, cell: Compiling) -> Step:
    """One compiled function of `statements`; what `holes` compute is handed to it as arguments."""
    names = [f"_host_{index}" for index in range(len(holes))]
    filler = _Filler({id(hole): name for hole, name in zip(holes, names, strict=True)})
    body = [filler.visit(statement) if holes else statement for statement in statements]
    code = _function_code(body, names, returns, cell)
    values = [cell.compile(ast.Expression(hole), "eval") for hole in holes]
    binds = blocks.assigned(statements)
    functions: dict[int, tuple[Namespace, Callable[..., Any]]] = {}

    def run(namespace: Namespace) -> Any:
        known = functions.get(id(namespace))
        if known is None or known[0] is not namespace:
            made = types.FunctionType(code, namespace)
            known = functions[id(namespace)] = (namespace, cell.accelerate(made))
        arguments = [eval(value, namespace) for value in values]
        new = [name for name in binds if name not in namespace]
        if not new:
            return known[1](*arguments)
        # Dynamo gives up a frame that reads a global which did not exist when it began, even if the
        # frame itself has bound it by then.
        namespace.update(dict.fromkeys(new, _UNBOUND))
        try:
            return known[1](*arguments)
        finally:
            for name in new:
                if namespace.get(name) is _UNBOUND:
                    del namespace[name]

    return run


class _Unbound:
    """Stands for a name that a block is about to bind."""


_UNBOUND = _Unbound()


def _function_code(body: list[ast.stmt], arguments: list[str], returns: bool, cell: Compiling) -> types.CodeType:
    first, last = body[0], body[-1]
    names = [name for name in blocks.assigned(body) if name not in arguments]
    inner: list[ast.stmt] = [ast.copy_location(ast.Global(names), first)] if names else []
    inner += body
    if returns and isinstance(last, ast.Expr):
        inner[-1] = ast.copy_location(ast.Return(last.value), last)
    parameters = ast.arguments(
        posonlyargs=[],
        args=[ast.copy_location(ast.arg(name), first) for name in arguments],
        kwonlyargs=[],
        kw_defaults=[],
        defaults=[],
    )
    function = ast.FunctionDef("block", parameters, inner, [])
    if sys.version_info >= (3, 12):
        function.type_params = []
    ast.copy_location(function, first)
    # As for the frame of a plain cell, whose code starts at line 1; IPython counts from there.
    function.lineno = 1
    module = ast.Module([function], [])
    made = cell.compile(module, "exec")
    code = next(constant for constant in made.co_consts if isinstance(constant, types.CodeType))
    if sys.version_info >= (3, 11):
        return code.replace(co_name=cell.name, co_qualname=cell.name)
    return code.replace(co_name=cell.name)


class _Filler(ast.NodeTransformer):
    def __init__(self, names: dict[int, str]) -> None:
        self._names = names

    def generic_visit(self, node: ast.AST) -> ast.AST:
        changed = {field: self._field(value) for field, value in ast.iter_fields(node)}
        # A copy: the same statement may be planned again for other kinds of value.
        return ast.copy_location(type(node)(**changed), node)

    def _field(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self.visit(item) if isinstance(item, ast.AST) else item for item in value]
        return self.visit(value) if isinstance(value, ast.AST) else value

    def visit_Call(self, node: ast.Call) -> ast.AST:
        name = self._names.get(id(node))
        if name is not None:
            return ast.copy_location(ast.Name(name, ast.Load()), node)
        return self.generic_visit(node)


def _value(statement: ast.stmt) -> ast.expr:
    """What a straight statement computes; ``a += b`` computes ``a + b`` as far as the judge is concerned."""
    if isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Name):
        return ast.BinOp(ast.Name(statement.target.id, ast.Load()), statement.op, statement.value)
    if isinstance(statement, (ast.Assign, ast.Expr)):
        return statement.value
    raise Host


def _targets(statement: ast.stmt) -> list[str]:
    if isinstance(statement, ast.Assign):
        return blocks.assigned(statement.targets)
    return blocks.assigned([statement.target]) if isinstance(statement, ast.AugAssign) else []


def _reads(hole: ast.Call, made: dict[str, bool]) -> bool:
    return any(isinstance(node, ast.Name) and node.id in made for node in ast.walk(hole))


def _loads(statements: Sequence[ast.stmt]) -> tuple[str, ...]:
    """The names that `statements` read, in order; the ones that they bind first count too."""
    names: dict[str, None] = {}
    for statement in statements:
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and (isinstance(node.ctx, ast.Load) or isinstance(statement, ast.AugAssign)):
                names[node.id] = None
    return tuple(names)
