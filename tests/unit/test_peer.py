"""The list of torch_xla's tests that do not pass is in order, and nothing but the list excuses a failure."""

import re

import pytest
from peer.exceptions import ELSEWHERE, EXCEPTIONS, INTERNALS
from peer.run import Result, judge
from peer.suite import SUITE


@pytest.mark.parametrize("test", EXCEPTIONS)
def test_exceptions_name_a_test_of_the_suite_and_a_reason(test: str) -> None:
    run, _, rest = test.partition("::")
    assert run in {r.name for r in SUITE}
    assert re.fullmatch(r"\w+::test_\w+|script", rest)
    assert len(EXCEPTIONS[test].split()) > 5


def test_no_exception_is_listed_twice() -> None:
    assert not INTERNALS.keys() & ELSEWHERE.keys()


def test_runs_have_names_of_their_own() -> None:
    assert len({run.name for run in SUITE}) == len(SUITE)


def test_only_listed_tests_may_fail() -> None:
    results = [
        Result("a::A::test_passes", "passed"),
        Result("a::A::test_skips", "skipped"),
        Result("a::A::test_listed", "failed"),
        Result("a::A::test_mended", "passed"),
        Result("a::A::test_new", "failed"),
        Result("a::A::test_dies", "crashed"),
    ]
    reasons = {"a::A::test_listed": "why", "a::A::test_mended": "why"}
    unexcused, excused, stale = judge(results, reasons)
    assert [r.test for r in unexcused] == ["a::A::test_new", "a::A::test_dies"]
    assert [r.test for r in excused] == ["a::A::test_listed"]
    assert stale == ["a::A::test_mended"]
