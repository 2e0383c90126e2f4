"""The inspector as a widget: a page of the live feed, above a copy of the last state for when nothing is live."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anywidget
from IPython.display import DisplayHandle, display

import xla_notebook.session as session
from xla_notebook.notebook import extension, show
from xla_notebook.notebook.comms import make_live
from xla_notebook.notebook.feed import Channel
from xla_notebook.notebook.hooks import last_error
from xla_notebook.notebook.live import Live
from xla_notebook.protocol.messages import Closed
from xla_notebook.session.export import Export

STATIC = Path(__file__).parents[1] / "static" / "widget.js"
_SAVED_EVENTS = 30
_SAVED_BUFFERS = 30
# A live view hides this by a rule of its own style sheet.
_SAVED_CLASS = "xla-notebook-saved"


if not STATIC.is_file():
    raise ImportError(
        f"{STATIC} is missing, so there is no inspector. Reinstall it: pip install --force-reinstall --no-deps"
        " xla_notebook; in a clone: make setup"
    )


class Inspector(anywidget.AnyWidget):
    """Graphs, buffers and events of this kernel, live, with the settings.

    Show it as a cell's last expression. Without a live kernel the notebook shows the last state instead,
    and in a terminal that is all there is. Raises `RuntimeError` where the extension is not loaded.
    """

    _esm = STATIC

    def __init__(self) -> None:
        self._live = _loaded()
        self._saved: DisplayHandle | None = None
        self._told: object = None
        super().__init__()
        self._channel = Channel(lambda data: self.send({}, buffers=[data]))
        make_live(self.comm)
        self.on_msg(self._receive)

    def save(self) -> None:
        """Renew the copy of the state in the notebook, if it is not the same. Called at the end of each cell."""
        if self._saved is None:
            return
        exported = _exported()
        told = exported.snapshot.seq, exported.ledger
        if told != self._told:
            self._told = told
            self._saved.update(_bundle(exported), raw=True)

    def close(self) -> None:
        """End the widget. Its views go away; the copy of the last state stays."""
        self._live.feed.remove(self._channel)
        super().close()

    def _receive(self, _: Any, content: object, buffers: object) -> None:
        live = extension.live()
        if live is None:
            self._channel.send(Closed())
            return
        # After %reload_ext the kernel has a new feed, and this widget goes on with it.
        self._live = live
        live.desk.receive(content, self._channel)

    def _ipython_display_(self) -> None:
        if hasattr(self._live.shell, "kernel"):
            view = self._repr_mimebundle_() or ({}, {})
            display(*view[:1], metadata=view[1], raw=True)
        exported = _exported()
        self._told = exported.snapshot.seq, exported.ledger
        self._saved = DisplayHandle()
        self._saved.display(_bundle(exported), raw=True)
        self._live.inspectors.add(self)


def _exported() -> Export:
    current = session.current()
    return current.exported(current.namespace, last_error())


def _bundle(exported: Export) -> dict[str, str]:
    """The session as text and as HTML."""
    return {
        "text/plain": show.text(exported, shown=_SAVED_EVENTS, buffers=_SAVED_BUFFERS),
        "text/html": f'<div class="{_SAVED_CLASS}">{show.fragment(exported, _SAVED_EVENTS, _SAVED_BUFFERS)}</div>',
    }


def _loaded() -> Live:
    live = extension.live()
    if live is None:
        raise RuntimeError("xla_notebook is not loaded: run %load_ext xla_notebook first")
    return live
