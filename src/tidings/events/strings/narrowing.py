"""Narrowing: what a test on strings promises, and the canonical form of intervals under tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, Protocol

from tidings.events.intervals import STRINGS, Intervals, Span, after_prefix
from tidings.events.work import spend


class StringTest(Protocol):
    """A condition on a string that is not an interval. Immutable, hashable, ordered by `text`."""

    @property
    def text(self) -> str:
        """The test as it is written after an attribute's name."""

    @property
    def hull(self) -> Intervals:
        """Intervals that hold every string that passes."""

    def matches(self, value: str) -> bool: ...

    def covers(self, other: StringTest) -> bool:
        """Whether every string that passes `other` surely passes this."""

    def covers_prefix(self, prefix: str) -> bool:
        """Whether every string that begins with `prefix` surely passes this."""

    def examples(self) -> Iterator[str]:
        """Some strings that pass."""

    def to_plain(self) -> dict[str, object]: ...


NO_TESTS: Final[frozenset[Any]] = frozenset()


def reduced(
    intervals: Intervals, passing: frozenset[StringTest], failing: frozenset[StringTest]
) -> tuple[Intervals, frozenset[StringTest], frozenset[StringTest]]:
    """The canonical form of intervals, tests to pass and tests to fail.

    It has no test that follows from the rest, and it is nothing if no string can satisfy it all.
    """
    for test in passing:
        intervals = intervals.intersect(test.hull)
    tests = len(passing) + len(failing)
    spend((tests + len(intervals.cuts)) * tests)
    members = intervals.values()
    if members is not None:
        members = [
            m
            for m in members
            if all(t.matches(m) for t in passing) and not any(t.matches(m) for t in failing)
        ]
        return Intervals.points(STRINGS, members), NO_TESTS, NO_TESTS
    passing = frozenset(
        t
        for t in passing
        if not all_pass(intervals, t) and not any(_follows(o, t) for o in passing)
    )
    failing = frozenset(
        t
        for t in failing
        if t.hull.overlaps(intervals) and not any(_follows(t, o) for o in failing)
    )
    if any(all_pass(intervals, t) or any(t.covers(p) for p in passing) for t in failing):
        return Intervals.nothing(STRINGS), NO_TESTS, NO_TESTS
    return intervals, passing, failing


def _follows(special: StringTest, general: StringTest) -> bool:
    """Whether `general` is another test and says nothing that `special` does not."""
    if special == general or not general.covers(special):
        return False
    return not special.covers(general) or special.text < general.text


def all_pass(intervals: Intervals, test: StringTest) -> bool:
    """Whether every string of the intervals surely passes the test."""
    if intervals.is_full:
        return False  # no test is passed by every string
    for span in intervals.spans():
        value = STRINGS.value(span)
        if not (test.covers_prefix(_common_prefix(span)) if value is None else test.matches(value)):
            return False
    return True


def _common_prefix(span: Span) -> str:
    """The longest text that every string of the span begins with."""
    low, high = span
    if low is None or high is None:
        return ""
    first, beyond = str(low[0]), str(high[0])
    shared = 0
    while shared < min(len(first), len(beyond)) and first[shared] == beyond[shared]:
        shared += 1
    longer = first[: shared + 1]
    return longer if len(longer) > shared and after_prefix(longer) == beyond else first[:shared]
