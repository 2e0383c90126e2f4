"""The feed and what it is made of: changes between looks, channels, and work that waits for a cell."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from xla_notebook.notebook.between import BetweenCells
from xla_notebook.notebook.board import GONE_CAPACITY, Board
from xla_notebook.notebook.desk import Desk
from xla_notebook.notebook.feed import AHEAD, SNAPSHOT_EVENTS, Channel, Feed
from xla_notebook.protocol import encode, messages
from xla_notebook.session import Session
from xla_notebook.session.buffers import BufferRecord, Owner


def rows(*names: str, state: Any = "live", first: int = 1) -> dict[str, messages.Buffer]:
    return encode.buffers(
        [
            BufferRecord(number, (2,), "float32", 8, state, (Owner("variable", name),), 1)
            for number, name in enumerate(names, first)
        ]
    )


class TestBoard:
    def test_a_look_that_finds_the_same_is_no_change(self) -> None:
        board = Board()
        board.take(rows("a"), True, 1.0)
        look = board.look
        board.take(rows("a"), True, 2.0)
        assert (board.look, board.looked_ms) == (look, 2.0)
        assert board.since(look) == ((), ())

    def test_what_changed_and_what_is_gone_is_told_from_any_look_on(self) -> None:
        board = Board()
        board.take(rows("a", "b", "c"), True, 0)
        first = board.look
        board.take(rows("a", "x"), True, 0)
        second = board.look
        board.take(rows("a", "x", "z"), True, 0)
        changed, gone = board.since(first) or ((), ())
        assert [row.owners[0].name for row in changed] == ["x", "z"]
        assert gone == ()  # the key of c is that of z now
        changed, gone = board.since(second) or ((), ())
        assert ([row.owners[0].name for row in changed], gone) == (["z"], ())

    def test_who_is_too_far_behind_or_ahead_is_told_to_begin_anew(self) -> None:
        board = Board()
        board.take(rows("old"), True, 0)
        first = board.look
        many = [f"t{number}" for number in range(GONE_CAPACITY + 1)]
        board.take(rows(*many, first=10), True, 0)
        board.take({}, True, 0)
        assert board.since(first) is None
        assert board.since(board.look + 1) is None


def test_keys_are_unique_also_for_what_has_no_handle() -> None:
    pending = [BufferRecord(None, (2,), "float32", 8, "pending", (Owner("traceback", "x"),), 1)] * 3
    nameless = [BufferRecord(None, (2,), "float32", 8, "pending", (), 1)] * 2
    assert len(encode.buffers([*pending, *nameless])) == 5


class TestBetweenCells:
    def test_work_is_done_at_once_or_at_the_end_of_the_outermost_cell(self) -> None:
        done: list[str] = []
        between = BetweenCells()
        between.do(lambda: done.append("idle"))
        between.begin()
        between.begin()
        between.do(lambda: done.append("later"))
        between.end()
        assert done == ["idle"]
        between.end()
        assert done == ["idle", "later"]

    def test_a_cell_waits_for_work_under_way(self) -> None:
        between = BetweenCells()
        started, go_on, order = threading.Event(), threading.Event(), []

        def work() -> None:
            started.set()
            go_on.wait(10)
            order.append("work")

        thread = threading.Thread(target=between.do, args=(work,))
        thread.start()
        started.wait(10)
        cell = threading.Thread(target=lambda: (between.begin(), order.append("cell")))
        cell.start()
        go_on.set()
        thread.join()
        cell.join()
        assert order == ["work", "cell"]


class FakePage:
    """A channel whose page acknowledges when told to."""

    def __init__(self) -> None:
        self.got: list[dict[str, Any]] = []
        self.channel = Channel(lambda data: self.got.append(json.loads(data)))
        self.channel.prompt = True

    @property
    def at(self) -> messages.Position:
        return messages.Position(**self.got[-1]["at"])

    def wait(self, found: Callable[[], Any]) -> Any:
        deadline = time.monotonic() + 20
        while not (value := found()):
            assert time.monotonic() < deadline, self.got
            time.sleep(0.01)
        return value


@pytest.fixture
def session() -> Session:
    return Session(live_graphs=list)


@pytest.fixture
def feed(session: Session) -> Iterator[Feed]:
    feed = Feed(session, "device", lambda: None)
    yield feed
    feed.close()
    while feeding():
        time.sleep(0.01)


def feeding() -> bool:
    return any(thread.name == "xla_notebook feed" for thread in threading.enumerate())


def test_a_page_gets_a_snapshot_and_then_deltas_that_join(session: Session, feed: Feed) -> None:
    page = FakePage()
    feed.open(page.channel, 1, True)
    page.wait(lambda: page.got)
    assert page.got[0]["type"] == "snapshot"
    feed.acknowledge(page.channel, page.at)
    session.set(guard=False)
    page.wait(lambda: len(page.got) > 1)
    assert page.got[1]["type"] == "delta"
    assert page.got[1]["since"] == page.got[0]["at"]
    assert page.got[1]["settings"]["guard"] is False
    assert [event["kind"] for event in page.got[1]["events"]] == ["setting"]


def test_a_page_that_does_not_answer_gets_no_queue_but_all_changes_at_once(session: Session, feed: Feed) -> None:
    page = FakePage()
    feed.open(page.channel, 1, True)
    for number in range(40):
        session.set(guard=bool(number % 2))
        feed.wake()
        time.sleep(0.03)
    page.wait(lambda: len(page.got) == AHEAD)
    assert [push["ack"] for push in page.got] == [False] * (AHEAD - 1) + [True]
    feed.acknowledge(page.channel, page.at)
    page.wait(lambda: len(page.got) == AHEAD + 1)
    assert page.got[-1]["since"] == page.got[-2]["at"]
    assert sum(len(push["events"]) for push in page.got) == sum(session.snapshot().counts.values())


def test_too_many_events_become_a_snapshot(session: Session, feed: Feed) -> None:
    page = FakePage()
    feed.open(page.channel, 1, True)
    page.wait(lambda: page.got)
    feed.show(page.channel, 1, False)
    page.wait(lambda: not feeding())
    for number in range(SNAPSHOT_EVENTS + 10):
        session.set(guard=bool(number % 2))
    feed.show(page.channel, 1, True)
    page.wait(lambda: len(page.got) > 1)
    assert (page.got[1]["type"], len(page.got[1]["events"])) == ("snapshot", SNAPSHOT_EVENTS)
    assert page.got[1]["event_total"] > SNAPSHOT_EVENTS


def test_nothing_runs_while_no_page_is_seen(feed: Feed) -> None:
    page = FakePage()
    assert not feeding()
    feed.open(page.channel, 1, False)
    assert not feeding()
    feed.show(page.channel, 1, True)
    assert feeding()
    feed.show(page.channel, 2, True)
    feed.show(page.channel, 1, False)
    time.sleep(0.3)
    assert feeding(), "another page of the same widget is seen"
    feed.remove(page.channel)
    page.wait(lambda: not feeding())


def test_a_broken_connection_does_not_end_the_others(session: Session, feed: Feed) -> None:
    def broken(_: bytes) -> None:
        raise ConnectionError("gone")

    page = FakePage()
    feed.open(Channel(broken), 1, True)
    feed.open(page.channel, 1, True)
    page.wait(lambda: page.got)
    session.set(guard=False)
    page.wait(lambda: any(push["type"] == "delta" for push in page.got))


def test_a_state_that_cannot_be_told_is_told_to_the_page(
    session: Session, feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = FakePage()
    feed.open(page.channel, 1, True)
    page.wait(lambda: page.got)
    with monkeypatch.context() as broken:
        broken.setattr(session, "changes", lambda since: 1 / 0)
        page.wait(lambda: page.got[-1]["type"] == "failed")
    assert "ZeroDivisionError" in page.got[-1]["text"]
    feed.open(page.channel, 1, True)
    page.wait(lambda: page.got[-1]["type"] == "snapshot")


def test_closing_tells_every_page(feed: Feed) -> None:
    page = FakePage()
    feed.open(page.channel, 1, True)
    page.wait(lambda: page.got)
    feed.close()
    assert page.got[-1] == {"type": "closed"}
    page.wait(lambda: not feeding())


def test_older_events_are_given_in_pages(session: Session, feed: Feed) -> None:
    for number in range(20):
        session.set(guard=bool(number % 2))
    desk = Desk(session, feed, BetweenCells(), lambda: None)
    page = FakePage()
    events = session.events()
    desk.receive({"type": "get_events", "id": 7, "before": events[-5].seq, "count": 3}, page.channel)
    (answer,) = page.got
    assert (answer["id"], [row["seq"] for row in answer["events"]]) == (7, [event.seq for event in events[-8:-5]])
