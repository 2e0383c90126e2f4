"""A cell of ``%%xla_compile``: the same meaning as the plain cell, with its tensor work in graphs.

The cell is parsed after IPython's own transformation of magics, ``!`` and ``?`` lines, split into
blocks, and run statement by statement in the user's namespace, as IPython runs a plain cell. Cells are
kept by their text, so that running one again finds the same code objects and recompiles nothing.
"""

from __future__ import annotations

import ast
import builtins
import collections
import contextlib
import inspect
import itertools
import sys
import types
import weakref
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from IPython.core.displayhook import DisplayHook

from xla_notebook.notebook import blocks, compiled, frames, leases
from xla_notebook.notebook.blocks import Source
from xla_notebook.notebook.compiled import Options
from xla_notebook.notebook.leases import Lease
from xla_notebook.notebook.runner import Block

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from xla_notebook.notebook.rehearse import Rehearsing

KEPT_CELLS = 256
"""Cells of a session kept for being run again; the least recently run one goes first."""

_MARK = "__xla_notebook_namespace__"

_numbers = itertools.count(1)


class Runtime:
    """What transformed cells call, under a name among the builtins."""

    def __init__(self) -> None:
        self._blocks: weakref.WeakValueDictionary[int, Block] = weakref.WeakValueDictionary()
        self.rehearsing: Rehearsing | None = None
        self.after_block: Callable[[], None] | None = None  # who looks at the buffers while a cell runs
        self.turn = 0  # what the rounds of a rehearsed loop are counted in

    def add(self, number: int, block: Block) -> None:
        """Let the cell's code find `block`, for as long as the cell keeps it."""
        self._blocks[number] = block

    def run_block(self, number: int) -> Any:
        """Run block `number` over the globals of the calling cell."""
        value = self._blocks[number].run(sys._getframe(1).f_globals, self.rehearsing)
        if self.after_block is not None and self.rehearsing is None:
            self.after_block()
        return value

    def block(self, number: int) -> Block:
        """Block `number` of a cell that is kept."""
        return self._blocks[number]

    @contextlib.contextmanager
    def rehearsed_by(self, rehearsing: Rehearsing) -> Iterator[None]:
        """Within this, blocks are rehearsed, and cells instrumented for it find `rehearsing`."""
        before, self.rehearsing = self.rehearsing, rehearsing
        try:
            yield
        finally:
            self.rehearsing = before

    __call__ = run_block

    def define(self, number: int) -> Callable[[Any], Any]:
        """The decorator of a definition at the top level of a cell."""
        return self._blocks[number].cell.define


class Cell:
    """One cell text under one set of options."""

    def __init__(
        self, text: str, magic_line: str, options: Options, count: int, ip: InteractiveShell, runtime: Runtime
    ) -> None:
        """Parse `text`. Raises `SyntaxError` with the cell's own line numbers."""
        self.name = options.name or "<module>"
        self._options = options
        self._ip = ip
        self._runtime = runtime
        self._magic_line = magic_line
        self._text = text
        self._first_count = count
        self._numbers: dict[int, int] = {}
        self._blocks: list[Block] = []
        self._codes: dict[int, types.CodeType] = {}
        self._leases: dict[int, Lease] = {}
        self.filename = self.register_source(count)
        transformed = ip.transform_cell(text)
        tree = ip.compile.ast_parse("\n" * (1 + dropped_lines(text)) + transformed, filename=self.filename)
        assert isinstance(tree, ast.Module)  # what "exec" mode gives; the declared type is wider
        self.awaits = any(blocks.awaits(statement) for statement in tree.body)
        self._nodes: list[tuple[ast.Module | ast.Interactive, str]] = self._split(
            tree, DisplayHook.semicolon_at_end_of_expression(text)
        )

    def register_source(self, count: int) -> str:
        """Tell IPython the cell's text under its filename, so that tracebacks show the cell's lines.

        `count` is the execution count that they name.
        """
        text = f"{self._magic_line}\n{self._text}"
        name: str = self._ip.compile.cache(text, self._first_count, raw_code=text)
        shown = getattr(self._ip.compile, "_filename_map", None)
        if shown is not None:
            shown[name] = count
        return name

    def _split(self, tree: ast.Module, silent: bool) -> list[tuple[ast.Module | ast.Interactive, str]]:
        body = list(tree.body)
        interactivity = self._ip.ast_node_interactivity
        if interactivity == "last_expr_or_assign":
            body, interactivity = _with_last_target(body), "last_expr"
        shown: ast.Expr | None = None
        if interactivity in ("last_expr", "last") and body and isinstance(body[-1], ast.Expr) and not silent:
            shown = body[-1]
        everything = interactivity == "all"
        nodes: list[ast.stmt] = []
        if everything:
            for statement in body:
                own = statement if isinstance(statement, ast.Expr) else None
                nodes += blocks.split([statement], self.register, own)
        else:
            nodes = blocks.split(body, self.register, shown)
        result: list[tuple[ast.Module | ast.Interactive, str]] = []
        for node in nodes:
            displayed = isinstance(node, ast.Expr) and (everything or (shown is not None and node is nodes[-1]))
            result.append((ast.Interactive([node]), "single") if displayed else (ast.Module([node], []), "exec"))
        return result

    # ---- what blocks need of their cell (runner.Compiling)

    def compile(self, tree: ast.mod, mode: str) -> types.CodeType:
        """Compile `tree` under the cell's filename and IPython's ``__future__`` flags."""
        flag = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT if self._ip.autoawait else 0
        with self._ip.compile.extra_flags(flag):
            compiler: Any = self._ip.compile  # declared for source text only, but compiles trees too
            code: types.CodeType = compiler(tree, self.filename, mode)
        return code

    def accelerate(self, function: types.FunctionType) -> Callable[..., Any]:
        """The compiled form of a block's function."""
        return self._options.compile(function, self._lease(function.__code__))

    def register(self, source: Source) -> int:
        """Keep a block and return its number; the same statement is the same block."""
        first = source.statements[0] if source.statements else source
        key = id(first.value) if source.value and isinstance(first, ast.Expr) else id(first)
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = next(_numbers)
            block = Block(source, self)
            self._blocks.append(block)
            self._runtime.add(number, block)
        return number

    def define(self, thing: Any) -> Any:
        """What a definition at the cell's top level binds."""
        return compiled.define(thing, self._options, self._lease)

    def _lease(self, code: types.CodeType) -> Lease:
        # By identity: equal code objects of two definitions are two to Dynamo.
        lease = self._leases.get(id(code))
        if lease is None:
            lease = self._leases[id(code)] = Lease(code)
        return lease

    # ---- running

    @property
    def trees(self) -> list[ast.Module | ast.Interactive]:
        """The statements in order, with their blocks replaced by calls."""
        return [tree for tree, _ in self._nodes]

    @property
    def lines(self) -> list[str]:
        """The lines as tracebacks count them."""
        return f"{self._magic_line}\n{self._text}".splitlines()

    def run(self, namespace: dict[str, Any]) -> None:
        """Run the cell in `namespace`; its exceptions are its own."""
        try:
            for index in range(len(self._nodes)):
                exec(self._code(index), namespace)
        except BaseException as error:
            frames.shorten(error, self._ip)
            raise

    @property
    def is_expression(self) -> bool:
        """Whether the cell is one expression and nothing else."""
        return len(self._nodes) == 1 and isinstance(self._nodes[0][0], ast.Interactive)

    def evaluate(self, namespace: dict[str, Any]) -> Any:
        """The value of a cell that is one expression (`is_expression`)."""
        tree = self._nodes[0][0]
        assert isinstance(tree, ast.Interactive)
        statement = tree.body[0]
        assert isinstance(statement, ast.Expr)
        try:
            if 0 not in self._codes:
                self._codes[0] = self.compile(ast.Expression(statement.value), "eval")
            return eval(self._codes[0], namespace)
        except BaseException as error:
            frames.shorten(error, self._ip)
            raise

    async def run_async(self, namespace: dict[str, Any]) -> None:
        """`run` for a cell with a top-level ``await``."""
        try:
            for index in range(len(self._nodes)):
                result = eval(self._code(index), namespace)
                if inspect.iscoroutine(result):
                    await result
        except BaseException as error:
            frames.shorten(error, self._ip)
            raise

    def _code(self, index: int) -> types.CodeType:
        # One at a time and when it is its turn, as IPython does: what precedes a late SyntaxError has run.
        code = self._codes.get(index)
        if code is None:
            code = self._codes[index] = self.compile(*self._nodes[index])
        return code


def dropped_lines(text: str) -> int:
    """How many empty lines at the top IPython's transformation drops. They count in a traceback."""
    return len(text) - len(text.lstrip("\n"))


def _with_last_target(body: list[ast.stmt]) -> list[ast.stmt]:
    """IPython's ``last_expr_or_assign``: an assignment at the end shows what it bound."""
    last = body[-1] if body else None
    target = last.targets[0] if isinstance(last, ast.Assign) else getattr(last, "target", None)
    if isinstance(last, (ast.Assign, ast.AugAssign, ast.AnnAssign)) and isinstance(target, ast.Name):
        name = ast.copy_location(ast.Name(target.id, ast.Load()), last)
        return [*body, ast.copy_location(ast.Expr(name), last)]
    return body


class Cells:
    """The cells of one shell, kept by text and options."""

    def __init__(self, ip: InteractiveShell) -> None:
        self._ip = ip
        self.runtime = Runtime()
        self._kept: collections.OrderedDict[tuple[str, Options, str], Cell] = collections.OrderedDict()
        self._by_cell_id: dict[str, tuple[str, Options, str]] = {}

    def install(self) -> None:
        """Make the runtime reachable for transformed cells, and follow the namespace's end."""
        setattr(builtins, blocks.RUNTIME, self.runtime)
        vars(self._ip)["reset"] = self._reset

    def remove(self) -> None:
        """Undo `install` and forget all cells."""
        if getattr(builtins, blocks.RUNTIME, None) is self.runtime:
            delattr(builtins, blocks.RUNTIME)
        if vars(self._ip).get("reset") == self._reset:
            del vars(self._ip)["reset"]
        self._ip.user_ns.pop(_MARK, None)
        self._ip.user_ns_hidden.pop(_MARK, None)
        self._kept.clear()
        self._by_cell_id.clear()

    def _reset(self, *args: Any, **kwargs: Any) -> None:
        """IPython's `reset`, which empties the namespace for ``%reset`` and at exit.

        Dynamo keeps names there, and prints an error for each that is gone when it wants to delete it.
        """
        self._kept.clear()
        self._by_cell_id.clear()
        leases.forget_everything()
        type(self._ip).reset(self._ip, *args, **kwargs)

    def get(self, text: str, magic_line: str, options: Options, cell_id: str | None, count: int) -> Cell:
        """The cell with this text and options; made anew unless it ran before. Raises `SyntaxError`.

        `count` is the execution count of this run.
        When the notebook cell `cell_id` has been edited, what its former text compiled is let go.
        """
        if self._ip.user_ns.get(_MARK) is not self.runtime:
            # A new namespace, or one emptied by %reset. Dynamo keeps what it compiled for a function in that
            # function's globals, so code objects that have lost theirs cannot run any more.
            self._kept.clear()
            self._ip.user_ns[_MARK] = self._ip.user_ns_hidden[_MARK] = self.runtime
        leases.forget_dead()
        key = (text, options, f"{magic_line}:{self._ip.ast_node_interactivity}")
        if cell_id is not None:
            former = self._by_cell_id.get(cell_id)
            self._by_cell_id[cell_id] = key
            if former is not None and former != key and former not in self._by_cell_id.values():
                self._kept.pop(former, None)
        cell = self._kept.get(key)
        if cell is None:
            cell = self._kept[key] = Cell(text, magic_line, options, count, self._ip, self.runtime)
        else:
            cell.register_source(count)
        self._kept.move_to_end(key)
        while len(self._kept) > KEPT_CELLS:
            self._kept.popitem(last=False)
        return cell
