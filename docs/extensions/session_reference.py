"""Sphinx directives that write the reference from the code: magics, settings and events.

Each takes its text from the docstrings that users see with ``?`` and ``help``, so the two cannot differ.
"""

from __future__ import annotations

import dataclasses
import inspect
import typing
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from docutils import nodes
from IPython.core.interactiveshell import InteractiveShell
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from xla_notebook.session import events
from xla_notebook.session.settings import CHOICES, Settings


class _Reference(SphinxDirective):
    """A directive whose content is Markdown made from the code."""

    def blocks(self) -> Iterator[str]:
        """The content in blocks, with headings in all of them or in none: MyST puts those without below the others."""
        raise NotImplementedError

    def run(self) -> list[nodes.Node]:
        self.env.note_dependency(__file__)
        parse = self.parse_text_to_nodes
        return [node for block in self.blocks() for node in parse(block, offset=0, allow_section_headings=True)]


class Magics(_Reference):
    """All magics that ``%load_ext xla_notebook`` registers, each with its help."""

    def blocks(self) -> Iterator[str]:
        for name, function in sorted(_magics().items(), key=lambda item: item[0].lstrip("%")):
            summary, _, rest = inspect.cleandoc(function.__doc__ or "").partition("\n\n")
            yield f"## `{name}`\n\n{summary}\n" + (f"\n```text\n{rest.rstrip()}\n```\n" if rest else "")


class SettingsTable(_Reference):
    """All settings with their choices, the default first."""

    def blocks(self) -> Iterator[str]:
        yield inspect.cleandoc(Settings.__doc__ or "")
        rows = []
        for field in dataclasses.fields(Settings):
            choices = ", ".join(f"`{choice!r}`" for choice in CHOICES[field.name])
            rows.append((f"`{field.name}`", f"`{field.default!r}`", choices))
        yield _table(("setting", "default", "choices"), rows)


_EVENTS = typing.get_args(events.Event)
_SHARED = set.intersection(*({field.name for field in dataclasses.fields(kind)} for kind in _EVENTS))


class EventFields(_Reference):
    """The fields that all events have."""

    def blocks(self) -> Iterator[str]:
        names = [f"`{field.name}`" for field in dataclasses.fields(_EVENTS[0]) if field.name in _SHARED]
        yield f"All of them have {', '.join(names)}."


class Events(_Reference):
    """All kinds of events, each with its own fields."""

    def blocks(self) -> Iterator[str]:
        for kind in _EVENTS:
            own = [(f"`{f.name}`", f"`{f.type}`") for f in dataclasses.fields(kind) if f.name not in _SHARED]
            text = f"## `{kind.kind}`: {kind.__name__}\n\n{inspect.cleandoc(kind.__doc__ or '')}\n\n"
            yield text + (_table(("field", "type"), own) if own else "")


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _magics() -> dict[str, Callable[..., Any]]:
    """The package's magics by name, with their percent signs, as a shell has them."""
    shell = InteractiveShell()
    shell.extension_manager.load_extension("xla_notebook")
    found = {
        f"{sign}{name}": function
        for kind, sign in (("line", "%"), ("cell", "%%"))
        for name, function in shell.magics_manager.magics[kind].items()
        # Names with a sign of their own only catch misplaced magics.
        if name.startswith("xla_")
    }
    shell.extension_manager.unload_extension("xla_notebook")
    return found


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directives."""
    app.add_directive("xla-magics", Magics)
    app.add_directive("xla-settings", SettingsTable)
    app.add_directive("xla-event-fields", EventFields)
    app.add_directive("xla-events", Events)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
