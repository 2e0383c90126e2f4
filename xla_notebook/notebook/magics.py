"""The magics: argument parsing and hand-over, nothing else."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from IPython.core.error import UsageError
from IPython.core.magic import MAGIC_NO_VAR_EXPAND_ATTR

from xla_notebook.notebook import options
from xla_notebook.notebook.cell import Cells
from xla_notebook.notebook.compiled import Options
from xla_notebook.notebook.hooks import Hooks
from xla_notebook.notebook.rehearse import rehearse

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

_FIRST_LINE = (
    "%%xla_compile must be the first line of the cell. Elsewhere, %xla_compile takes one expression on its line:"
    " %xla_compile model(x)"
)

_AROUND = ("time", "timeit", "capture", "prun")
"""Cell magics that run what is below them as Python: above ``%%xla_compile`` they mean the same as below it."""


class Magics:
    """The functions behind the magics of one shell."""

    def __init__(self, ip: InteractiveShell, cells: Cells, hooks: Hooks) -> None:
        self._ip = ip
        self._cells = cells
        self._hooks = hooks

    def compile_cell(self, line: str, cell: str) -> Coroutine[Any, Any, None] | None:
        chosen = options.parse(line)
        outer, _, rest = cell.lstrip("\n").partition("\n")
        name, _, arguments = outer.removeprefix("%%").partition(" ")
        if outer.startswith("%%") and name in _AROUND:
            self._ip.run_cell_magic(name, arguments, f"%%xla_compile {line}\n{rest}")
            return None
        # A rehearsal is of the cell that runs afterwards.
        words = [word for word in line.split(" ") if word != "--no-run"]
        first = f"%%xla_compile {' '.join(words)}".rstrip()
        made = self._cells.get(cell, first, chosen, self._hooks.cell_id, self._hooks.count)
        self._hooks.compiling(made.filename, chosen.quiet)
        if chosen.no_run:
            self._hooks.remark = rehearse(made, self._cells.runtime, self._ip.user_ns)
            return _nothing() if made.awaits else None
        if made.awaits:
            return made.run_async(self._ip.user_ns)
        made.run(self._ip.user_ns)
        return None

    compile_cell.__doc__ = f"""Run this cell with its tensor work as cached XLA graphs.

The cell means exactly what it means without the magic: it binds the same names, shows its last expression,
prints in the same order and fails on the same lines. Loops, with, try and if stay Python; the statements
inside them are compiled. Functions and nn.Module classes that the cell defines are compiled too. Running the
cell again recompiles nothing. Names bind in the notebook's namespace.

%%xla_compile [options]

{options.HELP}"""

    def compile_line(self, line: str, local_ns: dict[str, Any] | None = None) -> Any:
        """Evaluate one expression with its tensor work as a cached XLA graph, and return its value.

        %xla_compile model(x)

        Sees the names of the notebook and, within a function, the function's own.
        """
        if not line.strip() or line.lstrip().startswith(("%", "--")):
            raise UsageError(_FIRST_LINE)
        namespace = self._ip.user_ns
        if local_ns is not None and local_ns is not namespace:
            namespace = {**namespace, **local_ns}
        made = self._cells.get(line.strip(), "%xla_compile", Options(), None, self._hooks.count)
        self._hooks.compiling(made.filename, quiet=True)
        if not made.is_expression:
            raise UsageError(f"%xla_compile takes one expression, and got {line.strip()!r}")
        return made.evaluate(namespace)

    def misplaced(self, line: str) -> None:
        """Say where ``%%xla_compile`` belongs."""
        raise UsageError(_FIRST_LINE)


async def _nothing() -> None:
    """What is left of a rehearsed cell with a top-level ``await``, whose call IPython awaits."""


# Braces and dollars in these lines are Python's, not IPython's to expand.
setattr(Magics.compile_cell, MAGIC_NO_VAR_EXPAND_ATTR, True)
setattr(Magics.compile_line, MAGIC_NO_VAR_EXPAND_ATTR, True)
Magics.compile_line.needs_local_scope = True  # type: ignore[attr-defined]  # IPython's way to ask for it
