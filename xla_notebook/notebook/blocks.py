"""Splits a cell into blocks: runs of straight-line statements that one compiled function can hold.

Loops, ``with``, ``try``, ``if`` and ``match`` stay Python, because a graph break inside a loop makes
Dynamo give up the whole frame; the blocks inside their bodies are what is compiled. Nothing here looks
at a value: what a name holds is only known when the block is reached (`judge.py`).

The tree is changed in place of the cell's own nodes and positions are kept, so that source text is never
printed back and every traceback points at the cell's own lines.
"""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

RUNTIME = "__xla_notebook__"
"""The name under which a transformed cell finds its blocks. It lives among the builtins, so that the
user's namespace holds nothing of ours."""

_FRAME_FUNCTIONS = frozenset({"locals", "globals", "vars", "dir", "exec", "eval", "super", "get_ipython", "breakpoint"})
"""Functions that look at the frame that calls them: they must be called by the cell itself."""

_MOST_LEVELS = 100
"""How deep an expression may be nested to be looked into; each level costs a handful of Python's 1,000 frames."""

Node = TypeVar("Node", bound=ast.AST)


@dataclasses.dataclass(slots=True)
class Source:
    """Straight-line statements of a cell; with `value`, one expression whose value the cell needs."""

    statements: list[ast.stmt]
    value: bool


Register = Callable[[Source], int]
"""Keeps a `Source` for the time when the cell reaches it, and returns its number."""


def split(body: Sequence[ast.stmt], register: Register, shown: ast.Expr | None = None) -> list[ast.stmt]:
    """The statements of a cell (or of a loop's body) with their blocks replaced by calls.

    `shown` is the cell's last expression if its value is to be displayed: its block then is the
    last statement of the result, an `ast.Expr` with that value.
    """
    return _Splitter(register, shown).body(body)


def call(source: Source, register: Register, holes: Iterable[ast.expr] = ()) -> ast.expr:
    """An expression that runs `source` in place, at the position of its first statement."""
    first = source.statements[0]
    at = first.value if source.value and isinstance(first, ast.Expr) else first
    function = ast.Name(RUNTIME, ast.Load())
    made = ast.Call(function, [ast.Constant(register(source)), *holes], [])
    ast.copy_location(function, at)
    ast.copy_location(made.args[0], at)
    return ast.copy_location(made, at)


def expression_source(node: ast.expr) -> Source:
    """A block of one expression."""
    return Source([ast.copy_location(ast.Expr(node), node)], value=True)


def assigned(nodes: Iterable[ast.AST]) -> list[str]:
    """The names that `nodes` bind in the scope that they stand in, in order of appearance."""
    names: dict[str, None] = {}
    for node in nodes:
        _collect(node, names)
    return list(names)


def _collect(node: ast.AST, names: dict[str, None]) -> None:
    if isinstance(node, ast.Lambda):
        return
    if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
        names[node.id] = None
    if isinstance(node, (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
        # A comprehension keeps its loop variables to itself, but a walrus inside it binds outside.
        for inner in ast.walk(node):
            if isinstance(inner, ast.NamedExpr):
                names[inner.target.id] = None
        return
    for child in ast.iter_child_nodes(node):
        _collect(child, names)


def plain_names(target: ast.expr) -> bool:
    """Whether an assignment target is made of names only (``a``, ``a, (b, c)``).

    Not of starred ones: Dynamo (torch 2.9) binds a tuple where Python binds a list.
    """
    if isinstance(target, (ast.Tuple, ast.List)):
        return all(plain_names(element) for element in target.elts)
    return isinstance(target, ast.Name)


def must_stay(node: ast.AST) -> bool:
    """Whether `node` holds something that only the cell's own frame can do: ``await``, ``locals()``, ...

    So does what is nested too deep (a sum of a thousand terms): plain Python takes it as it is.
    """
    if _deeper_than(_MOST_LEVELS, node):
        return True
    for inner in ast.walk(node):
        if isinstance(inner, (ast.Await, ast.Yield, ast.YieldFrom)):
            return True
        if isinstance(inner, ast.comprehension) and inner.is_async:
            return True
        if isinstance(inner, ast.Name) and inner.id in _FRAME_FUNCTIONS:
            return True
    return False


def awaits(node: ast.AST) -> bool:
    """Whether `node` awaits at its own level, outside of the functions that it defines."""
    rest = [node]
    while rest:
        inner = rest.pop()
        if isinstance(inner, (ast.Await, ast.AsyncFor, ast.AsyncWith)):
            return True
        if isinstance(inner, ast.comprehension) and inner.is_async:
            return True
        if not isinstance(inner, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            rest += ast.iter_child_nodes(inner)
    return False


def _deeper_than(levels: int, node: ast.AST) -> bool:
    nodes = [node]
    for _ in range(levels):
        nodes = [child for inner in nodes for child in ast.iter_child_nodes(inner)]
        if not nodes:
            return False
    return True


def _may_work(node: ast.expr) -> bool:
    """Whether evaluating `node` could be tensor work at all: a name or a constant is not."""
    return any(isinstance(n, (ast.Call, ast.BinOp, ast.UnaryOp, ast.Compare, ast.Subscript)) for n in ast.walk(node))


class _Splitter:
    def __init__(self, register: Register, shown: ast.Expr | None) -> None:
        self._register = register
        self._shown = shown

    def body(self, statements: Sequence[ast.stmt]) -> list[ast.stmt]:
        done: list[ast.stmt] = []
        run: list[ast.stmt] = []

        def flush() -> None:
            if run:
                made = call(Source(list(run), value=run[-1] is self._shown), self._register)
                done.append(ast.copy_location(ast.Expr(made), run[0]))
                run.clear()

        for statement in statements:
            if self._straight(statement):
                run.append(statement)
            else:
                flush()
                done.append(self._compound(statement))
        flush()
        return done

    def _straight(self, statement: ast.stmt) -> bool:
        if must_stay(statement):
            return False
        if isinstance(statement, ast.Assign):
            return all(plain_names(target) for target in statement.targets)
        if isinstance(statement, ast.AugAssign):
            return isinstance(statement.target, ast.Name)
        return isinstance(statement, ast.Expr) and _may_work(statement.value)

    def _compound(self, statement: ast.stmt) -> ast.stmt:
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            return self._definition(statement)
        if isinstance(statement, (ast.Import, ast.ImportFrom, ast.Delete, ast.Global, ast.Return)):
            return statement
        for field, value in ast.iter_fields(statement):
            if isinstance(value, list) and value:
                setattr(statement, field, self._list(value))
            elif isinstance(value, ast.expr) and field in ("value", "test", "iter", "subject", "msg"):
                setattr(statement, field, self._expression(value))
        return statement

    def _list(self, values: list[ast.AST]) -> list[ast.AST]:
        first = values[0]
        if isinstance(first, ast.stmt):
            return [*self.body([v for v in values if isinstance(v, ast.stmt)])]
        for value in values:
            if isinstance(value, ast.withitem):
                value.context_expr = self._expression(value.context_expr)
            elif isinstance(value, (ast.ExceptHandler, ast.match_case)):
                value.body = self.body(value.body)
        return values

    def _expression(self, node: ast.expr) -> ast.expr:
        if must_stay(node) or not _may_work(node):
            return node
        return call(expression_source(node), self._register)

    def _definition(self, statement: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> ast.stmt:
        """Makes our decorator the innermost one; the definition keeps its first line, for `inspect`."""
        if isinstance(statement, ast.AsyncFunctionDef):
            return statement
        runtime = ast.copy_location(ast.Name(RUNTIME, ast.Load()), statement)
        attribute = ast.copy_location(ast.Attribute(runtime, "define", ast.Load()), statement)
        number = ast.copy_location(ast.Constant(self._register(Source([], value=False))), statement)
        statement.decorator_list.append(ast.copy_location(ast.Call(attribute, [number], []), statement))
        return statement
