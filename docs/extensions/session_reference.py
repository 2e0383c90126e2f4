"""Sphinx directives that write the reference from the code: magics, settings and events.

Each takes its text from the docstrings that users see with ``?`` and ``help``, so the two cannot differ.
"""

from __future__ import annotations

import dataclasses
import inspect
import typing
from collections.abc import Callable, Iterator
from typing import Any

from docutils import nodes
from IPython.core.interactiveshell import InteractiveShell
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from xla_notebook.session import events
from xla_notebook.session.settings import CHOICES, Settings


class _Reference(SphinxDirective):
    """A directive whose content is Markdown made from the code."""

    def markdown(self) -> Iterator[str]:
        raise NotImplementedError

    def run(self) -> list[nodes.Node]:
        self.env.note_dependency(__file__)
        text = "\n".join(self.markdown())
        return self.parse_text_to_nodes(text, offset=0, allow_section_headings=True)


class Magics(_Reference):
    """All magics that ``%load_ext xla_notebook`` registers, each with its help."""

    def markdown(self) -> Iterator[str]:
        for name, function in sorted(_magics().items(), key=lambda item: item[0].lstrip("%")):
            summary, _, rest = inspect.cleandoc(function.__doc__ or "").partition("\n\n")
            yield f"## `{name}`\n\n{summary}\n"
            if rest:
                yield f"```text\n{rest.rstrip()}\n```\n"


class SettingsTable(_Reference):
    """All settings with their choices, the default first."""

    def markdown(self) -> Iterator[str]:
        yield inspect.cleandoc(Settings.__doc__ or "")
        yield "\n| setting | default | choices |\n| --- | --- | --- |"
        for field in dataclasses.fields(Settings):
            choices = ", ".join(f"`{choice!r}`" for choice in CHOICES[field.name])
            yield f"| `{field.name}` | `{field.default!r}` | {choices} |"


class Events(_Reference):
    """All kinds of events, each with its fields."""

    def markdown(self) -> Iterator[str]:
        kinds = typing.get_args(events.Event)
        shared = set.intersection(*({field.name for field in dataclasses.fields(kind)} for kind in kinds))
        yield f"All of them have {', '.join(f'`{name}`' for name in _ordered(kinds[0], shared))}.\n"
        for kind in kinds:
            yield f"## `{kind.kind}`: {kind.__name__}\n\n{inspect.cleandoc(kind.__doc__ or '')}\n"
            own = [field for field in dataclasses.fields(kind) if field.name not in shared]
            if own:
                yield "| field | type |\n| --- | --- |"
                yield from (f"| `{field.name}` | `{str(field.type).replace('|', chr(92) + '|')}` |" for field in own)
                yield ""


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


def _ordered(kind: type[Any], names: set[str]) -> list[str]:
    return [field.name for field in dataclasses.fields(kind) if field.name in names]


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directives."""
    app.add_directive("xla-magics", Magics)
    app.add_directive("xla-settings", SettingsTable)
    app.add_directive("xla-events", Events)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
