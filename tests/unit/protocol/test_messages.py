"""The messages: what is generated from them is fresh, and nothing else than a right message gets through."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import typing
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from xla_notebook.notebook.between import BetweenCells
from xla_notebook.notebook.desk import Desk
from xla_notebook.notebook.feed import Channel, Feed
from xla_notebook.protocol import messages
from xla_notebook.protocol.schema import schema
from xla_notebook.session import Session, Settings

ROOT = Path(__file__).parents[3]
GENERATED = ROOT / "labextension" / "src" / "protocol"
WAY_OUT = "run: make protocol"


def test_the_schema_in_the_repository_is_that_of_the_messages() -> None:
    assert json.loads((GENERATED / "schema.json").read_text()) == schema(), WAY_OUT


def test_the_types_in_the_repository_are_those_of_the_schema() -> None:
    command = json.loads((ROOT / "package.json").read_text())["scripts"]["protocol"]
    generate = command.partition("&&")[2].replace("-o labextension/src/protocol/messages.ts", "")
    assert "json2ts" in generate
    shell = f'PATH="$PWD/node_modules/.bin:$PATH"; {generate}'
    made = subprocess.run(shell, shell=True, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert made.strip() == (GENERATED / "messages.ts").read_text().strip(), WAY_OUT


def test_a_page_gets_every_setting() -> None:
    assert messages.Settings.__struct_fields__ == tuple(field.name for field in dataclasses.fields(Settings))


def test_every_request_with_an_id_has_an_answer_of_its_own() -> None:
    kinds = typing.get_args(messages.Request)
    asked = [kind for kind in kinds if "id" in kind.__struct_fields__]
    assert len(asked) == len(typing.get_args(messages.Answer)) - 1, "one for each, and Failed"


# ---- hostile messages

REQUESTS = {kind.__struct_config__.tag: kind for kind in typing.get_args(messages.Request)}
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=8,
)
FIELDS = ["id", "name", "value", "graph_id", "first", "second", "before", "count", "at", "protocol", "visible", "page"]
NEARLY = st.fixed_dictionaries(
    {"type": st.sampled_from(sorted(map(str, REQUESTS)))},
    optional={
        field: st.integers(-2, 9) | st.sampled_from(["guard", "warm_up", "off", True]) | PLAIN for field in FIELDS
    },
)


class Outbox:
    """A channel, and what was sent over it."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []
        self.channel = Channel(lambda data: self.sent.append(json.loads(data)))


@settings(max_examples=10_000, deadline=None)
@given(PLAIN | NEARLY)
def test_a_hostile_message_is_refused_and_a_right_one_is_answered_once(data: Any) -> None:
    session = Session(live_graphs=list)
    feed = Feed(session, "device", lambda: None)
    desk = Desk(session, feed, BetweenCells(), lambda: None)
    before = session.settings
    # Without a visible page the feed runs no thread, so all that is sent is an answer.
    if isinstance(data, dict):
        data.pop("visible", None)
        data |= {"visible": False} if data.get("type") in ("open", "show") else {}
    outbox = Outbox()
    desk.receive(data, outbox.channel)
    try:
        request = msgspec.convert(data, messages.Request)
    except msgspec.ValidationError:
        (answer,) = outbox.sent
        assert (answer["type"], answer["code"]) == ("failed", "malformed")
        assert session.settings == before
        return
    if isinstance(request, messages.Open):
        assert [answer["code"] for answer in outbox.sent] == ["protocol"] * (request.protocol != messages.VERSION)
    elif isinstance(request, messages.Ack | messages.Show):
        assert outbox.sent == []
    else:
        (answer,) = outbox.sent
        assert answer["id"] == request.id
        assert isinstance(request, messages.SetSetting) or session.settings == before
        assert answer["type"] != "failed" or answer["code"] in ("gone", "setting")
