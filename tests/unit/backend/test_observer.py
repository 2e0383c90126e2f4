"""Attaching and detaching observers, and what happens when one fails."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator

import pytest

from xla_notebook.backend import observer
from xla_notebook.backend.observer import GraphEvicted, Observer, Report


class Collector(Observer):
    def __init__(self) -> None:
        self.reports: list[Report] = []

    def report(self, report: Report) -> None:
        self.reports.append(report)


class Broken(Collector):
    def report(self, report: Report) -> None:
        super().report(report)
        raise KeyError("a mistake in a view")


@pytest.fixture(autouse=True)
def nobody_else() -> Iterator[None]:
    others = observer._observers
    for other in others:
        observer.detach(other)
    yield
    for left in observer._observers:
        observer.detach(left)
    for other in others:
        observer.attach(other)


REPORT = GraphEvicted(1, "abc", 0)


def test_reports_reach_every_observer_in_order() -> None:
    first, second = Collector(), Collector()
    observer.attach(first)
    observer.attach(second)
    later = GraphEvicted(2, "def", 1)
    observer.send(REPORT)
    observer.send(later)
    assert first.reports == second.reports == [REPORT, later]


def test_attaching_twice_is_once() -> None:
    collector = Collector()
    observer.attach(collector)
    observer.attach(collector)
    observer.send(REPORT)
    assert collector.reports == [REPORT]


def test_detached_observers_hear_nothing() -> None:
    collector = Collector()
    observer.attach(collector)
    assert observer.watching()
    observer.detach(collector)
    observer.detach(collector)
    assert not observer.watching()
    observer.send(REPORT)
    assert collector.reports == []


def test_a_failing_observer_is_detached_with_one_warning() -> None:
    """Given an observer that raises, others hear the report, and the failing one is not asked again."""
    broken, collector = Broken(), Collector()
    observer.attach(broken)
    observer.attach(collector)
    with pytest.warns(RuntimeWarning, match=r"Broken failed on GraphEvicted and gets no more.*a mistake in a view"):
        observer.send(REPORT)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        observer.send(REPORT)
    assert broken.reports == [REPORT]
    assert collector.reports == [REPORT, REPORT]


def test_an_interrupt_in_an_observer_is_passed_on() -> None:
    class Interrupted(Observer):
        def report(self, report: Report) -> None:
            raise KeyboardInterrupt

    observer.attach(Interrupted())
    with pytest.raises(KeyboardInterrupt):
        observer.send(REPORT)


def test_graph_ids_are_unique_among_threads() -> None:
    found: list[list[int]] = [[] for _ in range(4)]

    def take(ids: list[int]) -> None:
        ids.extend(observer.next_graph_id() for _ in range(500))

    threads = [threading.Thread(target=take, args=(ids,)) for ids in found]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({n for ids in found for n in ids}) == 2000


def test_reports_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        REPORT.graph_id = 2  # type: ignore[misc]
