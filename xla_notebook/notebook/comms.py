"""Comms of a kernel: the target that a sidebar opens, and what makes clicks act while a cell runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from xla_notebook.notebook.desk import Desk
from xla_notebook.notebook.feed import Channel, Feed
from xla_notebook.protocol.messages import VERSION

if TYPE_CHECKING:
    from comm.base_comm import BaseComm, CommManager

TARGET = "xla_notebook"
"""What a page opens to look at this kernel."""
HELLO = "xla_notebook.hello"
"""What a front end with our sidebar listens to: opened and closed when the extension is loaded."""


def make_live(comm: BaseComm) -> None:
    """Let messages from the page be handled on the thread that the front end chose for them.

    ipykernel 7.4 sends them where the kernel's last message on the comm came from instead: to the main
    thread, where they wait for the end of the cell. Other versions have no such routing, and need nothing.
    """
    if hasattr(comm, "_reply_subshell_for"):
        comm._reply_subshell_for = lambda data, default: default


class Target:
    """The comm target of one kernel."""

    def __init__(self, manager: CommManager, feed: Feed, desk: Desk) -> None:
        self._manager = manager
        self._feed = feed
        self._desk = desk
        self._comms: set[BaseComm] = set()

    def register(self) -> None:
        """Accept comms from now on, and say so to the front end."""
        import comm

        self._manager.register_target(TARGET, self._opened)
        hello = comm.create_comm(target_name=HELLO, data={"protocol": VERSION})
        hello.close()

    def unregister(self) -> None:
        """Accept no more comms, and close those there are."""
        self._manager.unregister_target(TARGET, self._opened)
        while self._comms:
            self._comms.pop().close()

    def _opened(self, comm: BaseComm, message: dict[str, Any]) -> None:
        make_live(comm)
        self._comms.add(comm)
        channel = Channel(lambda data: comm.send({}, buffers=[data]))
        comm.on_msg(lambda got: self._desk.receive(got["content"]["data"], channel))
        comm.on_close(lambda _: self._closed(comm, channel))

    def _closed(self, comm: BaseComm, channel: Channel) -> None:
        self._comms.discard(comm)
        self._feed.remove(channel)
