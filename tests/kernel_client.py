"""Runs cells in a real kernel and keeps what a front end would have shown."""

from __future__ import annotations

import dataclasses
import re
import time
from pathlib import Path
from queue import Empty
from types import TracebackType
from typing import Any

from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import start_new_kernel
from page_client import Page

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_ARROW = re.compile(r"^-+> *(\d+) ?(.*)$")


@dataclasses.dataclass
class Shown:
    """What a cell left on the page, in order."""

    execution_count: int
    outputs: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    error: tuple[str, str] | None = None
    traceback: str = ""

    def stream(self, name: str) -> str:
        return "".join(o["text"] for o in self.outputs if o.get("name") == name)

    @property
    def stdout(self) -> str:
        return self.stream("stdout")

    @property
    def stderr(self) -> str:
        return self.stream("stderr")

    @property
    def result(self) -> str | None:
        """The text of ``Out[n]``, or None if there is none."""
        found = [o["data"]["text/plain"] for o in self.outputs if o["type"] == "execute_result"]
        return found[-1] if found else None

    @property
    def arrows(self) -> list[tuple[int, str]]:
        """The lines that the traceback points at."""
        found = [_ARROW.match(line) for line in self.traceback.splitlines()]
        return [(int(match[1]), match[2].strip()) for match in found if match]


class Kernel:
    """A running kernel; use it as a context manager."""

    def __init__(self, directory: Path) -> None:
        self._manager, self._client = start_new_kernel(startup_timeout=120, cwd=str(directory))

    def __enter__(self) -> Kernel:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._client.stop_channels()
        self._manager.shutdown_kernel(now=True)

    def page(self, subshell: bool = True) -> Page:
        """A page of the live inspector."""
        # Not the manager's own client: replies to two of one session would find the wrong one.
        client = BlockingKernelClient()
        info = self._manager.get_connection_info()
        client.load_connection_info({name: value for name, value in info.items() if name != "session"})
        return Page(client, subshell)

    def interrupt(self) -> None:
        self._manager.interrupt_kernel()

    def start(self, code: str, cell_id: str | None = None) -> str:
        """Send a cell without waiting for it; returns its message id."""
        content = {
            "code": code,
            "silent": False,
            "store_history": True,
            "user_expressions": {},
            "allow_stdin": False,
            "stop_on_error": True,
        }
        message = self._client.session.msg("execute_request", content)
        if cell_id is not None:
            message["metadata"]["cellId"] = cell_id
        self._client.shell_channel.send(message)
        return str(message["header"]["msg_id"])

    def is_running(self, message_id: str) -> bool:
        """Whether a cell has not been answered yet. Looks at no output."""
        return not self._client.shell_channel.msg_ready()

    def next_output(self, message_id: str, timeout: float = 240) -> dict[str, Any]:
        """The next iopub message that belongs to `message_id`."""
        waited_until = time.monotonic() + timeout
        while True:
            try:
                message = self._client.get_iopub_msg(timeout=1)
            except Empty:
                # A dead kernel says nothing, ever: told at once, its last words are still in the captured stderr.
                if not self._manager.is_alive():
                    raise RuntimeError(f"the kernel died: exit status {self._exit_status()}") from None
                if time.monotonic() > waited_until:
                    raise TimeoutError(f"no output of {message_id} in {timeout} s") from None
                continue
            if message["parent_header"].get("msg_id") == message_id:
                return message

    def _exit_status(self) -> int | None:
        """What the dead kernel returned; the negative of a signal's number if that ended it."""
        process = getattr(self._manager.provisioner, "process", None)
        return None if process is None else process.poll()

    def finish(self, message_id: str, timeout: float = 240) -> Shown:
        """Wait for a cell and return what it showed."""
        shown = Shown(0)
        while True:
            message = self.next_output(message_id, timeout)
            kind, content = message["msg_type"], message["content"]
            if kind == "stream":
                shown.outputs.append({"type": kind, **content})
            elif kind in ("execute_result", "display_data", "update_display_data"):
                shown.outputs.append({"type": kind, "data": content["data"]})
            elif kind == "error":
                shown.outputs.append({"type": kind, "name": None})
                shown.error = (content["ename"], content["evalue"])
                shown.traceback = _COLOUR.sub("", "\n".join(content["traceback"]))
            elif kind == "status" and content["execution_state"] == "idle":
                break
        while True:
            try:
                reply = self._client.get_shell_msg(timeout=timeout)
            except Empty:
                raise TimeoutError(f"no reply to {message_id}") from None
            if reply["parent_header"].get("msg_id") == message_id:
                shown.execution_count = reply["content"]["execution_count"]
                return shown

    def run(self, code: str, cell_id: str | None = None) -> Shown:
        """Run a cell and return what it showed."""
        return self.finish(self.start(code, cell_id))

    def check(self, code: str) -> Shown:
        """Run a cell that must not fail."""
        shown = self.run(code)
        assert shown.error is None, shown.traceback
        return shown

    def value(self, expression: str) -> Any:
        """The value of a Python literal computed in the kernel."""
        import ast

        return ast.literal_eval(self.check(f"print(repr(({expression})))").stdout)
