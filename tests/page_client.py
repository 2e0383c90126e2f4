"""A page without a browser: opens a comm to a real kernel and applies what the kernel pushes."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable
from typing import Any

from jupyter_client.blocking.client import BlockingKernelClient

from xla_notebook.notebook.comms import TARGET
from xla_notebook.protocol.messages import VERSION

Message = dict[str, Any]


class Page:
    """One page. `subshell`: its messages are served while a cell runs, as JupyterLab asks for where it can."""

    def __init__(self, client: BlockingKernelClient, subshell: bool = True) -> None:
        self._client = client
        client.start_channels()
        client.wait_for_ready(timeout=60)
        self.prompt = subshell and self._has_subshells()
        self._subshell = self._make_subshell() if self.prompt else None
        self._comm_id = uuid.uuid4().hex
        self._next = 1
        self.closed = False
        self.answers: dict[int | None, list[Message]] = {}
        self.pushes: list[Message] = []
        self.graphs: dict[int, Message] = {}
        self.buffers: dict[str, Message] = {}
        self.events: list[Message] = []
        self.status: Message = {}
        self.settings: Message = {}
        self.at: Message | None = None
        self.acknowledging = True
        self._send("comm_open", {"comm_id": self._comm_id, "target_name": TARGET, "data": {}})

    def open(self, **fields: Any) -> Message:
        """Begin, and wait for the snapshot."""
        self.tell({"type": "open", "protocol": VERSION, "visible": True, "page": 1, **fields})
        seen = len(self.pushes)
        return self.wait(lambda: next((push for push in self.pushes[seen:] if push["type"] == "snapshot"), None))

    def tell(self, data: object) -> None:
        """Send a message that is not answered."""
        self._send("comm_msg", {"comm_id": self._comm_id, "data": data})

    def ask(self, kind: str, timeout: float = 60, **fields: Any) -> Message:
        """Send a request and wait for its answer."""
        number = self.start(kind, **fields)
        return self.wait(lambda: (self.answers.get(number) or [None])[0], timeout)

    def start(self, kind: str, **fields: Any) -> int:
        """Send a request, and return its number."""
        number, self._next = self._next, self._next + 1
        self.tell({"type": kind, "id": number, **fields})
        return number

    def wait(self, found: Callable[[], Any], timeout: float = 60) -> Any:
        """Take messages until `found` gives something."""
        deadline = time.monotonic() + timeout
        while not (value := found()):
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError(f"not seen within {timeout} s; status {self.status}, answers {self.answers}")
            self.take(min(left, 0.5))
        return value

    def take(self, seconds: float) -> None:
        """Take messages for so long."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            if not self._client.iopub_channel.msg_ready():
                time.sleep(min(left, 0.01))
                continue
            self._received(self._client.get_iopub_msg(timeout=1))

    def end(self) -> None:
        """Close the comm, as a page that goes away."""
        self._send("comm_close", {"comm_id": self._comm_id, "data": {}})

    def _received(self, message: Message) -> None:
        if message["content"].get("comm_id") != self._comm_id:
            return
        if message["msg_type"] == "comm_close":
            self.closed = True
        if message["msg_type"] != "comm_msg":
            return
        data = json.loads(bytes(message["buffers"][0]))
        if data["type"] not in ("snapshot", "delta", "closed"):
            self.answers.setdefault(data["id"], []).append(data)
            return
        self.pushes.append(data)
        if data["type"] == "closed":
            return
        if data["type"] == "snapshot":
            self.graphs, self.buffers, self.events = {}, {}, []
        else:
            assert data["since"] == self.at, "a delta must join what the page has"
        self.at = data["at"]
        self.graphs.update({graph["graph_id"]: graph for graph in data["graphs"]})
        self.buffers.update({buffer["key"]: buffer for buffer in data["buffers"]})
        for gone in data.get("graphs_gone", ()):
            self.graphs.pop(gone, None)
        for gone in data.get("buffers_gone", ()):
            self.buffers.pop(gone, None)
        self.events += data["events"]
        self.status, self.settings = data["status"], data["settings"]
        if data["ack"] and self.acknowledging:
            self.tell({"type": "ack", "at": self.at})

    def _send(self, kind: str, content: Message) -> None:
        message = self._client.session.msg(kind, content)
        message["header"]["subshell_id"] = self._subshell
        self._client.shell_channel.send(message)

    def _has_subshells(self) -> bool:
        reply = self._client.kernel_info(reply=True, timeout=60)
        return "kernel subshells" in reply["content"].get("supported_features", [])

    def _make_subshell(self) -> str:
        request = self._client.session.msg("create_subshell_request", {})
        self._client.control_channel.send(request)
        while True:
            reply = self._client.get_control_msg(timeout=30)
            if reply["parent_header"].get("msg_id") == request["header"]["msg_id"]:
                return str(reply["content"]["subshell_id"])
