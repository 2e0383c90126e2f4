"""Answers the requests of a page. Every message is checked first; a bad one is told so and changes nothing."""

from __future__ import annotations

import datetime
import threading
from collections.abc import Callable

import msgspec

from xla_notebook.notebook import show
from xla_notebook.notebook.between import BetweenCells
from xla_notebook.notebook.feed import Channel, Feed
from xla_notebook.notebook.report import title, titles
from xla_notebook.protocol import encode, messages
from xla_notebook.session.hlo import hlo_diff, op_histogram
from xla_notebook.session.records import GraphRecord
from xla_notebook.session.settings import SettingError
from xla_notebook.session.store import Session

_REPORT_EVENTS = 50


class Desk:
    """Where the requests of all pages come in, on whatever thread.

    Settings are changed at once. What touches the user's objects or traces waits for the end of the cell.
    """

    def __init__(
        self, current: Session, feed: Feed, between: BetweenCells, error: Callable[[], BaseException | None]
    ) -> None:
        self._session = current
        self._feed = feed
        self._between = between
        self._error = error

    def receive(self, data: object, channel: Channel) -> None:
        """Serve the message `data` that came over `channel`."""
        # A kernel with subshells gives messages a thread of their own, if the front end asks for it.
        channel.prompt = threading.current_thread() is not threading.main_thread()
        try:
            request = msgspec.convert(data, messages.Request)
        except msgspec.ValidationError as error:
            channel.send(messages.Failed(_id_of(data), "malformed", f"The message was not understood: {error}."))
            return
        match request:
            case messages.Open():
                self._open(request, channel)
            case messages.Ack():
                self._feed.acknowledge(channel, request.at)
            case messages.Show():
                self._feed.show(channel, request.page, request.visible)
                if request.visible:
                    self._between.do(self._feed.look_if_watched)
            case messages.SetSetting() | messages.GetDetails() | messages.GetEvents():
                self._answer(request, channel)
            case _:
                self._between.do(lambda: self._answer(request, channel))

    def _open(self, request: messages.Open, channel: Channel) -> None:
        if request.protocol != messages.VERSION:
            text = (
                f"The page speaks version {request.protocol} of the protocol and this kernel version"
                f" {messages.VERSION}: use the same version of xla_notebook for both, and load the page anew."
            )
            channel.send(messages.Failed(None, "protocol", text))
            return
        self._feed.open(channel, request.page, request.visible)
        self._between.do(self._feed.look_if_watched)

    def _answer(self, request: Question, channel: Channel) -> None:
        answer: messages.Answer
        try:
            answer = self._answer_to(request)
        except LookupError as error:
            answer = messages.Failed(request.id, "gone", f"{str(error).capitalize()}.")
        except SettingError as error:
            answer = messages.Failed(request.id, "setting", f"{error}.")
        except Exception as error:
            # The page is told, as a person would be by a traceback. The session is as it was.
            answer = messages.Failed(request.id, "failed", f"{type(error).__name__}: {error}")
        channel.send(answer)
        self._feed.wake()

    def _answer_to(self, request: Question) -> messages.Answer:
        match request:
            case messages.SetSetting():
                settings = self._session.set(**{request.name: request.value})
                return messages.Changed(request.id, encode.settings(settings.to_dict()))
            case messages.GetDetails():
                return encode.details(request.id, self._graph(request.graph_id), title)
            case messages.GetHlo():
                text = self._session.hlo_text(request.graph_id)
                return messages.Hlo(request.id, request.graph_id, text, op_histogram(text))
            case messages.GetDiff():
                first, second = (self._session.hlo_text(graph_id) for graph_id in (request.first, request.second))
                names = title(self._graph(request.first)), title(self._graph(request.second))
                return messages.Diff(request.id, tuple(hlo_diff(first, second, *names)))
            case messages.GetEvents():
                return self._rows(request)
            case messages.Clear():
                cleared = self._session.clear(self._session.namespace, self._error())
                self._feed.look_if_watched()
                return messages.Cleared(request.id, cleared.graphs, cleared.freed_nbytes)
            case messages.GetExport():
                exported = self._session.exported(self._session.namespace, self._error())
                time = datetime.datetime.fromtimestamp(exported.exported_ns / 1e9).strftime("%Y-%m-%d-%H%M%S")
                return messages.Exported(request.id, f"xla-session-{time}.json", exported.to_json())
            case messages.GetReport():
                exported = self._session.exported(self._session.namespace, self._error())
                return messages.ReportText(request.id, show.text(exported, shown=_REPORT_EVENTS))

    def _graph(self, graph_id: int) -> GraphRecord:
        for record in self._session.graphs():
            if record.graph_id == graph_id:
                return record
        raise LookupError(f"graph {graph_id} is gone")

    def _rows(self, request: messages.GetEvents) -> messages.Rows:
        older = [event for event in self._session.events() if event.seq < request.before]
        names = titles(self._session.graphs())
        return messages.Rows(request.id, tuple(encode.event(event, names) for event in older[-request.count :]))


Question = (
    messages.SetSetting
    | messages.GetDetails
    | messages.GetHlo
    | messages.GetDiff
    | messages.GetEvents
    | messages.Clear
    | messages.GetExport
    | messages.GetReport
)
"""The requests that are answered."""


def _id_of(data: object) -> int | None:
    """The id of a message that is wrong otherwise, so that the page knows which request failed."""
    request_id = data.get("id") if isinstance(data, dict) else None
    return request_id if type(request_id) is int and 0 <= request_id < 2**53 else None
