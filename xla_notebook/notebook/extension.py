"""Loading and unloading: everything that is registered with IPython is registered here, and taken back here."""

from __future__ import annotations

import ast
import weakref
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from IPython.core.getipython import get_ipython

import xla_notebook.session as session
from xla_notebook.backend import device
from xla_notebook.notebook import blocks, quiet
from xla_notebook.notebook.cell import Cells, dropped_lines
from xla_notebook.notebook.hooks import Hooks
from xla_notebook.notebook.inspect_magics import InspectMagics
from xla_notebook.notebook.live import Live
from xla_notebook.notebook.magics import Magics

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

_PACKAGE = "xla_notebook."
_CALL = "get_ipython().run_cell_magic('xla_compile',"


class Extension:
    """What one shell has of us."""

    def __init__(self, ip: InteractiveShell, device: str) -> None:
        self._ip = ip
        self._hooks = Hooks(ip)
        self.live = Live(ip, device)
        self._cells = Cells(ip)

    def load(self) -> None:
        """Register everything."""
        session.current().namespace = self._ip.user_ns
        session.current().attach()
        self._cells.install()
        self._hooks.install()
        self.live.install()
        self._cells.runtime.after_block = self.live.feed.look_if_due
        quiet.install()
        self._ip.input_transformers_post.append(self.hand_over)
        magics = Magics(self._ip, self._cells, self._hooks)
        register: Any = self._ip.register_magic_function  # a traitlets delegate, whose declared type is wrong
        register(magics.compile_cell, "cell", "xla_compile")
        register(magics.compile_line, "line", "xla_compile")
        # What IPython looks for where %%xla_compile stands below another line.
        register(magics.misplaced, "line", "%xla_compile")
        InspectMagics(self._ip).register()

    def unload(self) -> None:
        """Take back everything. Functions that cells have compiled go on working."""
        for magics in self._ip.magics_manager.magics.values():
            # Magics that IPython loads lazily are not functions yet, and have no module.
            ours = [name for name, made in magics.items() if getattr(made, "__module__", "").startswith(_PACKAGE)]
            for name in ours:
                del magics[name]
        if self.hand_over in self._ip.input_transformers_post:
            self._ip.input_transformers_post.remove(self.hand_over)
        quiet.remove()
        self.live.remove()
        self._hooks.remove()
        self._cells.remove()
        session.current().detach()
        session.current().namespace = {}

    def hand_over(self, lines: list[str]) -> list[str]:
        """Let IPython itself deal with a compiled cell that has no body, does not compile, or awaits.

        An input transformer, applied after IPython's own: it sees the call that the cell has become. A
        body that is empty or does not compile is given to IPython as it stands, below an empty line in the
        magic's place, so that nothing or the plain cell's `SyntaxError` comes out. One with a top-level
        ``await`` gets the call awaited, because a magic cannot.
        """
        if not lines or not lines[0].startswith(_CALL):
            return lines
        magic = _magic("".join(lines))
        if magic is None:
            return lines
        options, body = magic
        plain = ["\n", *body.splitlines(keepends=True)]
        transformed: str = self._ip.transform_cell(body)
        try:
            tree = ast.parse(transformed)
        except SyntaxError:
            return plain
        for statement in tree.body:
            try:
                compile(ast.Module([statement], []), "<cell>", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, True)
            except SyntaxError:
                if "--no-run" not in options.split():
                    return plain
                # IPython would run the statements above, so that it gets empty lines in their place.
                rest = transformed.splitlines(keepends=True)[statement.lineno - 1 :]
                return ["\n"] * (dropped_lines(body) + statement.lineno) + rest
        if not tree.body:
            return ["\n"]
        if any(blocks.awaits(statement) for statement in tree.body):
            return [f"await {lines[0]}", *lines[1:]]
        return lines


def _magic(source: str) -> tuple[str, str] | None:
    """The options and the body of a cell that has become the call `source`; None if the user wrote the call."""
    try:
        call = ast.parse(source, mode="eval").body
    except SyntaxError:
        return None
    match call:
        case ast.Call(args=[ast.Constant(), ast.Constant(value=str() as options), ast.Constant(value=str() as body)]):
            return options, body
    return None


_loaded: weakref.WeakKeyDictionary[InteractiveShell, Extension] = weakref.WeakKeyDictionary()


def load(ip: InteractiveShell) -> None:
    """Register the magics and hooks, and say so in one line. Loading twice is the same as once.

    Does not create the XLA client.
    """
    if ip in _loaded:
        return
    chosen = device.choose_device()
    extension = Extension(ip, chosen)
    extension.load()
    _loaded[ip] = extension
    versions = f"torch {version('torch')}, torch_xla {version('torch_xla')}"
    print(f"xla_notebook {version('xla_notebook')}: {chosen}; {versions}. %xla_inspect opens the inspector.")


def unload(ip: InteractiveShell) -> None:
    """Undo `load`; harmless when nothing is loaded."""
    extension = _loaded.pop(ip, None)
    if extension is not None:
        extension.unload()


def live() -> Live | None:
    """What serves the pages of this process's shell; None where the extension is not loaded."""
    shell = get_ipython()
    extension = _loaded.get(shell) if shell is not None else None
    return None if extension is None else extension.live
