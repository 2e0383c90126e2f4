"""``%%xla_compile --no-run``: compiles every graph that a cell would need, and changes nothing else.

The cell's own code runs over copies of what it reaches (`sandbox.py`), with its graphs compiled and not
executed (`backend/rehearsal.py`) and the world outside kept from it (`outside.py`). A statement that depends
on a value or does more than compute is not reached: it is told with its line, and so is what needs it.
"""

from __future__ import annotations

import ast
import collections
import contextlib
import copy
import enum
import inspect
import itertools
import re
import sys
import types
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, MutableMapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from xla_notebook.backend import rehearsal
from xla_notebook.backend.rehearsal import NotReached
from xla_notebook.notebook import blocks, outside
from xla_notebook.notebook.blocks import RUNTIME
from xla_notebook.notebook.effects import Effects, is_users_module, may_copy
from xla_notebook.notebook.sandbox import Copier, Unavailable, reached

if TYPE_CHECKING:
    from xla_notebook.notebook.cell import Cell, Runtime

_MOST_TURNS = 64
"""How often the body of a loop that keeps needing new graphs is rehearsed."""

_MOST_ROUNDS = 1000
"""How often a ``while`` loop goes round in which no graph runs."""

_SHOWN = 3
"""How many of the places that were not reached the summary names."""


Heads = dict[int, list[ast.expr]]
"""The expressions of statements that are not made of blocks, by line."""


class Rehearsing:
    """One rehearsal of one cell: what its instrumented code calls, and what was not reached."""

    NotReached = NotReached

    def __init__(
        self, cell: Cell, namespace: MutableMapping[str, Any], under: rehearsal.Rehearsal, heads: Heads
    ) -> None:
        self.heads = heads
        self._lines = cell.lines
        self._filename = cell.filename
        self._namespace = namespace
        self._under = under
        self._missed: dict[int, str] = {}
        self._effects = Effects()

    def summary(self) -> str:
        """What the summary line says after the number of graphs."""
        for _filename, line in self._under.barriers:
            if line is not None:
                self._missed.setdefault(line, "compiles pending work of its own, as a step barrier")
        places = [f"line {line} ({self._text(line)} {why})" for line, why in sorted(self._missed.items())]
        more = len(places) - _SHOWN
        shown = "; ".join(places[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
        return f"without running; not reached: {shown}" if places else "without running"

    def _text(self, line: int) -> str:
        text = self._lines[line - 1].strip() if 0 < line <= len(self._lines) else ""
        return f"`{text}`" if len(text) <= 60 else f"`{text[:57]}...`"

    def note(self, line: int, why: str, names: Iterable[str] = ()) -> None:
        """Line `line` is not reached; what it would have bound to `names` is not there."""
        self._missed.setdefault(line, why)
        for name in names:
            self._namespace[name] = Unavailable(f"needs {name} of line {line}")

    # ---- what the instrumented cell calls

    def missed(self, line: int, names: Sequence[str]) -> None:
        """A statement raised `NotReached`."""
        error = sys.exc_info()[1]
        assert error is not None
        # The line itself, where the statement is one of several of a graph, or calls a function of the cell.
        self.note(_line(error, self._filename) or line, str(error), names)

    def statements(self, statements: Sequence[ast.stmt]) -> None:
        """The same, for statements of a block."""
        self.missed(statements[0].lineno, blocks.assigned(statements))

    def available(self, statements: Sequence[ast.stmt]) -> None:
        """Raise `NotReached` if the statements read a name that is not there, or do more than compute."""
        for statement in statements:
            for node in ast.walk(statement):
                if not isinstance(node, ast.Name) or not isinstance(self._namespace.get(node.id), Unavailable):
                    continue
                if isinstance(node.ctx, ast.Load) or isinstance(statement, ast.AugAssign):
                    self._namespace[node.id]()

        for statement in statements:
            self._effects.check(statement, self._namespace)

    def known(self, line: int) -> None:
        """Raise `NotReached` if the heads of the statement at `line` do more than compute."""
        for head in self.heads[line]:
            self._effects.check(head, self._namespace)

    def few(self, items: Iterable[Any], line: int) -> Iterator[Any]:
        """`items`, up to the first turn of the loop that needs no new graph."""
        for turns, item in enumerate(items, 1):
            runs, new, sizes = self._under.runs, self._under.new, self._sizes()
            yield item
            enough = turns == _MOST_TURNS or (turns > 1 and self._under.new == new)
            if enough and self._under.runs != runs:
                self._cut(line, sizes)
                return

    async def few_awaited(self, items: Any, line: int) -> AsyncIterator[Any]:
        """The same for an ``async for`` loop."""
        iterator = aiter(items)
        for _ in self.few(itertools.count(), line):
            try:
                item = await anext(iterator)
            except StopAsyncIteration:
                return
            yield item

    def turns(self, line: int) -> Iterator[int]:
        """The same for a ``while`` loop, whose condition may be one that nothing here can change."""
        yield from self.few(range(_MOST_ROUNDS), line)
        self.note(line, f"may go round more than {_MOST_ROUNDS} times")

    def _sizes(self) -> dict[str, int]:
        kinds = (list, dict, set, collections.deque)
        return {name: len(value) for name, value in self._namespace.items() if isinstance(value, kinds)}

    def _cut(self, line: int, sizes: dict[str, int]) -> None:
        """A loop ends early: what it fills is not full."""
        for name, size in self._sizes().items():
            if sizes.get(name, size) != size:
                self._namespace[name] = Unavailable(f"needs all of {name}, which the loop of line {line} fills")

    def imported(self, *names: str) -> None:
        """Raise `NotReached` for an import that would run a module's code."""
        for name in names:
            if name not in sys.modules:
                raise NotReached(f"imports {name} for the first time")


def rehearse(cell: Cell, runtime: Runtime, namespace: dict[str, Any]) -> str:
    """Compile every graph that `cell` needs to run in `namespace`; what the summary says of it.

    `namespace` holds copies meanwhile, and is as before afterwards. An exception that the cell raises on the
    copies ends the rehearsal and is told like a statement that is not reached.
    """
    code = _Instrumenting(runtime)
    trees = [ast.Module(code.body(tree.body), []) for tree in cell.trees]
    names = reached(iter({name for tree in cell.trees for name in code.names(tree)}), namespace)
    with rehearsal.rehearsing() as under, _copied(namespace, names):
        play = Rehearsing(cell, namespace, under, code.heads)
        with runtime.rehearsed_by(play), outside.nothing_outside():
            try:
                for tree in trees:
                    _to_the_end(eval(cell.compile(_located(tree), "exec"), namespace))
            except Exception as error:
                play.note(_line(error, cell.filename) or 1, f"raises {type(error).__name__}: {error}"[:200])
    return play.summary()


def _to_the_end(result: Any) -> None:
    """Run what is left of a statement that awaits. The event loop does not run meanwhile, nor the user's tasks."""
    if not inspect.iscoroutine(result):
        return
    try:
        result.send(None)
        while True:
            result.throw(NotReached("waits for something outside of the cell"))
    except StopIteration:
        pass


def _line(error: BaseException, filename: str) -> int | None:
    """The innermost line of `filename` where `error` was raised."""
    found, traceback = None, error.__traceback__
    while traceback is not None:
        if traceback.tb_frame.f_code.co_filename == filename:
            found = traceback.tb_lineno
        traceback = traceback.tb_next
    return found


@contextlib.contextmanager
def _copied(namespace: dict[str, Any], names: set[str]) -> Iterator[None]:
    """Within this, `names` of the namespace are copies, and other values are hidden."""
    before = dict(namespace)
    copier = Copier(may_copy)
    made: dict[str, Any] = {}
    for name, value in before.items():
        if name in names and name != "get_ipython":
            made[name] = copier.copy(value)
        elif name.startswith("_") or isinstance(value, _KEPT):
            made[name] = value
    made.update(print=Printer(), get_ipython=Shell())
    try:
        _become(namespace, made)
        with _copied_classes(copier):
            yield
    finally:
        # What Dynamo has put there belongs to the code that it compiled.
        before.update({name: value for name, value in namespace.items() if _is_dynamos(name)})
        _surely(lambda: _become(namespace, before))


@contextlib.contextmanager
def _copied_classes(copier: Copier) -> Iterator[None]:
    """Within this, what the user's classes hold are copies, too. What is bound to them meanwhile is gone afterwards."""
    before: dict[type, dict[str, Any]] = {}

    def put_back() -> None:
        for kind, members in before.items():
            for name in [name for name in vars(kind) if name not in members]:
                type.__delattr__(kind, name)
            for name, value in members.items():
                if vars(kind).get(name) is not value:
                    type.__setattr__(kind, name, value)

    try:
        # Copies may be of further classes.
        while kinds := [kind for kind in copier.classes if kind not in before and _is_users(kind)]:
            for kind in kinds:
                before[kind] = dict(vars(kind))
                for name, value in before[kind].items():
                    if not _is_python(name) and not hasattr(type(value), "__get__"):
                        type.__setattr__(kind, name, copier.copy(value))
        yield
    finally:
        _surely(put_back)


def _surely(put_back: Callable[[], None]) -> None:
    """Put things back, also if that is interrupted: once more then, before the interrupt is passed on."""
    try:
        put_back()
    except BaseException:
        put_back()
        raise


def _is_users(kind: type) -> bool:
    # The members of an enumeration are known by what they are.
    return is_users_module(kind.__module__) and not issubclass(kind, enum.Enum)


def _is_python(name: str) -> bool:
    return name == "_abc_impl" or (name.startswith("__") and name.endswith("__"))


def _is_dynamos(name: str) -> bool:
    return re.search(r"^__(compiled_fn|resume_at|builtins_dict|import|nested_fn)_|_\d+_c\d+$", name) is not None


_KEPT = (type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType)


def _become(namespace: dict[str, Any], other: dict[str, Any]) -> None:
    for name in [name for name in namespace if name not in other]:
        del namespace[name]
    namespace.update(other)


class Printer:
    """Stands for `print`: what it is given was computed, and nothing is written."""

    def __call__(self, *values: Any, **_options: Any) -> None:
        for value in values:
            if isinstance(value, (torch.Tensor, Unavailable)):
                str(value)


class Shell:
    """Stands for `get_ipython`."""

    def __call__(self) -> Any:
        raise NotReached("is a magic or a command")


class _Instrumenting:
    """Rewrites a cell so that each statement that is not reached ends by itself, and loops end early."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self.heads: Heads = {}

    def body(self, statements: Iterable[ast.stmt]) -> list[ast.stmt]:
        """`statements`, rewritten. They stay as they are themselves."""
        return [self._guarded(statement) for statement in statements]

    def names(self, tree: ast.AST) -> Iterator[str]:
        """All names in `tree` and in its blocks."""
        for node in self._walk(tree):
            if isinstance(node, ast.Name):
                yield node.id

    def _walk(self, tree: ast.AST) -> Iterator[ast.AST]:
        for node in ast.walk(tree):
            yield node
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == RUNTIME:
                for statement in self._runtime.block(ast.literal_eval(node.args[0])).source.statements:
                    yield from self._walk(statement)

    def _guarded(self, statement: ast.stmt) -> ast.stmt:
        if isinstance(statement, (ast.Pass, ast.Break, ast.Continue, ast.Global, ast.Nonlocal)):
            return statement
        bound = {n.id for n in self._walk(statement) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)}
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            bound = {statement.name}
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            bound = {(alias.asname or alias.name).partition(".")[0] for alias in statement.names}
        names = ast.Tuple([ast.Constant(name) for name in sorted(bound)], ast.Load())
        missed = _call("missed", ast.Constant(statement.lineno), names)
        handler = ast.ExceptHandler(_runtime("NotReached"), None, [ast.Expr(missed)])
        guarded = ast.Try([*self._checks(statement), self._inside(statement)], [handler], [], [])
        return ast.copy_location(guarded, statement)

    def _checks(self, statement: ast.stmt) -> list[ast.stmt]:
        if isinstance(statement, ast.Import):
            return [ast.Expr(_call("imported", *[ast.Constant(alias.name) for alias in statement.names]))]
        if isinstance(statement, ast.ImportFrom):
            return [ast.Expr(_call("imported", ast.Constant(statement.module or "")))]
        heads = [child for child in ast.iter_child_nodes(statement) if isinstance(child, ast.expr)]
        if isinstance(statement, (ast.With, ast.AsyncWith)):
            heads = [item.context_expr for item in statement.items]
        if not heads:
            return []
        self.heads.setdefault(statement.lineno, []).extend(heads)
        return [ast.Expr(_call("known", ast.Constant(statement.lineno)))]

    def _inside(self, statement: ast.stmt) -> ast.stmt:
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            return statement
        line = ast.Constant(statement.lineno)
        made = copy.copy(statement)
        for field, value in ast.iter_fields(statement):
            if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
                setattr(made, field, self.body(value))
            elif isinstance(value, list) and value and isinstance(value[0], (ast.ExceptHandler, ast.match_case)):
                parts = [copy.copy(part) for part in value]
                for part in parts:
                    part.body = self.body(part.body)
                setattr(made, field, parts)
        if isinstance(made, ast.For):
            made.iter = _call("few", made.iter, line)
        elif isinstance(made, ast.AsyncFor):
            made.iter = _call("few_awaited", made.iter, line)
        elif isinstance(made, ast.While) and not made.orelse:
            stop = ast.If(ast.UnaryOp(ast.Not(), made.test), [ast.Break()], [])
            target = ast.Attribute(_runtime_name(), "turn", ast.Store())
            return ast.copy_location(ast.For(target, _call("turns", line), [stop, *made.body], []), statement)
        return made


def _located(tree: ast.Module) -> ast.Module:
    """`tree`, with new nodes at the place of what they stand in. Not recursive, as expressions may be deep."""
    for node in ast.walk(tree):
        for child in ast.iter_child_nodes(node):
            if "lineno" in child._attributes and not hasattr(child, "lineno"):
                ast.copy_location(child, node)
    return tree


def _runtime_name() -> ast.Name:
    return ast.Name(RUNTIME, ast.Load())


def _runtime(attribute: str) -> ast.Attribute:
    return ast.Attribute(ast.Attribute(_runtime_name(), "rehearsing", ast.Load()), attribute, ast.Load())


def _call(attribute: str, *arguments: ast.expr) -> ast.Call:
    return ast.Call(_runtime(attribute), list(arguments), [])
