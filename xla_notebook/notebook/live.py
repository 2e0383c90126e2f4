"""The live inspector of one shell: feed, desk and comm target, joined to its cells."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

import xla_notebook.session as session
from xla_notebook.notebook.between import BetweenCells
from xla_notebook.notebook.comms import Target
from xla_notebook.notebook.desk import Desk
from xla_notebook.notebook.feed import Feed
from xla_notebook.notebook.hooks import CellCallbacks, last_error

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from xla_notebook.notebook.widget import Inspector


class Live:
    """What pages that look at one shell are served by."""

    def __init__(self, ip: InteractiveShell, device: str) -> None:
        self.shell = ip
        self._between = BetweenCells()
        self._begun = 0
        self._loading = False
        self._callbacks = CellCallbacks(ip)
        self.feed = Feed(session.current(), device, last_error)
        self.feed.between = self._between.do
        self.desk = Desk(session.current(), self.feed, self._between, last_error)
        self.inspectors: weakref.WeakSet[Inspector] = weakref.WeakSet()
        """The widgets that were shown; each keeps a copy of the last state in the notebook."""
        # A shell in a terminal or a script has no kernel, and no pages.
        kernel = getattr(ip, "kernel", None)
        self._target = None if kernel is None else Target(kernel.comm_manager, self.feed, self.desk)

    def install(self) -> None:
        """Follow the cells, and accept pages."""
        # Most likely a cell is what loads us, and it goes on: its end is the first that is heard of it.
        self._loading = True
        self._between.begin()
        self._callbacks.register(self._before, self._after)
        if self._target is not None:
            self._target.register()

    def remove(self) -> None:
        """Undo `install`; pages are told."""
        self._callbacks.remove()
        self.feed.close()
        if self._target is not None:
            self._target.unregister()

    def _loaded(self) -> None:
        if self._loading:
            self._loading = False
            self._between.end()

    def _before(self, *_: Any) -> None:
        self._loaded()  # not by a cell
        self._between.begin()
        self._begun += 1
        self.feed.wake()

    def _after(self, *_: Any) -> None:
        self._loaded()
        if self._begun:
            self._begun -= 1
            self._between.end()
        if self._begun:
            return
        self.feed.look_if_watched()
        for inspector in self.inspectors:
            inspector.save()
