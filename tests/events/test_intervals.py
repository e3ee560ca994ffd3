"""Intervals: set arithmetic on a line, against plain sets of sample values."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.events.intervals import (
    BOOLEANS,
    BYTE_STRINGS,
    NUMBERS,
    STRINGS,
    TIMES,
    Intervals,
    after_prefix,
)

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
TICK = timedelta(microseconds=1)

# For each order, constants, and values with at least one in every gap that has one.
SAMPLES = {
    NUMBERS: ([0, 1, 2.5], [-1, 0, 0.5, 1, 2, 2.5, 3]),
    STRINGS: (
        ["", "\0", "a", "a\0", "b"],
        ["", "\0", "\0\0", "!", "a", "a\0", "a\0\0", "ab", "b", "c"],
    ),
    BYTE_STRINGS: ([b"", b"a", b"a\0"], [b"", b"\0", b"a", b"a\0", b"a\0\0", b"b"]),
    TIMES: (
        [TIMES.lowest, NOON, NOON + TICK, TIMES.highest],
        [TIMES.lowest, NOON - TICK, NOON, NOON + TICK, NOON + 2 * TICK, TIMES.highest],
    ),
    BOOLEANS: ([False, True], [False, True]),
}


def simple(order):
    constant = st.sampled_from(SAMPLES[order][0])
    flag = st.booleans()
    return st.one_of(
        st.builds(lambda c: Intervals.point(order, c), constant),
        st.builds(lambda c, closed: Intervals.below(order, c, closed=closed), constant, flag),
        st.builds(lambda c, closed: Intervals.above(order, c, closed=closed), constant, flag),
        st.builds(lambda a, b: Intervals.between(order, a, b), constant, constant),
        st.builds(lambda cs: Intervals.points(order, cs), st.lists(constant)),
        st.sampled_from([Intervals.everything(order), Intervals.nothing(order)]),
    )


def composed(order):
    return st.recursive(
        simple(order),
        lambda inner: st.one_of(
            st.builds(Intervals.union, inner, inner),
            st.builds(Intervals.intersect, inner, inner),
            st.builds(Intervals.inverse, inner),
        ),
        max_leaves=6,
    )


LINES = {order: composed(order) for order in SAMPLES}


def members(intervals):
    return {v for v in SAMPLES[intervals.order][1] if intervals.matches(v)}


ORDERS = pytest.mark.parametrize("order", SAMPLES, ids=lambda order: order.domain)


@ORDERS
@given(data=st.data())
def test_the_algebra_agrees_with_set_arithmetic(order, data):
    one, other = data.draw(LINES[order]), data.draw(LINES[order])
    a, b = members(one), members(other)
    assert members(one.union(other)) == a | b
    assert members(one.intersect(other)) == a & b
    assert members(one.inverse()) == set(SAMPLES[order][1]) - a
    assert one.covers(other) == (a >= b)
    assert one.overlaps(other) == bool(a & b)
    assert (one == other) == (a == b)
    assert one.is_empty == (not a)
    assert one.is_full == (a == set(SAMPLES[order][1]))
    if one == other:
        assert hash(one) == hash(other)


@ORDERS
@given(data=st.data())
def test_cuts_stay_sorted_and_json_and_spans_lead_back(order, data):
    found = data.draw(LINES[order])
    assert list(found.cuts) == sorted(set(found.cuts))
    assert Intervals.from_plain(order, found.to_plain()) == found
    whole = Intervals.nothing(order)
    for low, high in found.spans():
        span = Intervals(order, low is None, tuple(c for c in (low, high) if c is not None))
        assert not whole.overlaps(span)
        whole = whole.union(span)
    assert whole == found
    if found.values() is not None:
        assert Intervals.points(order, found.values()) == found
    sample = found.example()
    assert sample is None if found.is_empty else found.matches(sample)


@ORDERS
@given(data=st.data())
def test_any_number_of_sets_is_joined_as_one_by_one(order, data):
    parts = data.draw(st.lists(LINES[order], max_size=6))
    one_by_one = Intervals.nothing(order)
    for part in parts:
        one_by_one = one_by_one.union(part)
    assert Intervals.joined(order, parts) == one_by_one
    assert Intervals.from_plain(order, [e for part in parts for e in part.to_plain()]) == one_by_one


@ORDERS
def test_an_open_end_and_a_closed_end_differ_in_just_that_value(order):
    for c in SAMPLES[order][0]:
        closed = members(Intervals.below(order, c, closed=True))
        assert closed - members(Intervals.below(order, c)) == {c}
        closed = members(Intervals.above(order, c, closed=True))
        assert closed - members(Intervals.above(order, c)) == {c}


@given(
    st.text("ab\U0010ffff\ud7ff\ue000", max_size=3), st.text("ab\U0010ffff\ud7ff\ue000", max_size=5)
)
def test_a_prefix_is_an_interval(prefix, value):
    assert Intervals.prefix(prefix).matches(value) == value.startswith(prefix)


def test_after_a_prefix_no_surrogate_comes_and_after_the_last_nothing():
    assert after_prefix("a\ud7ff") == "a\ue000"
    assert after_prefix("a\U0010ffff") == "b"
    assert after_prefix("\U0010ffff") is None
    assert after_prefix("") is None


def test_numbers_compare_by_exact_value():
    big = Intervals.point(NUMBERS, 2**53 + 1)
    assert big.matches(2**53 + 1)
    assert not big.matches(2.0**53)
    assert Intervals.point(NUMBERS, 2.0**53) == Intervals.point(NUMBERS, 2**53)
    assert Intervals.point(NUMBERS, -0.0) == Intervals.point(NUMBERS, 0)
    assert Intervals.above(NUMBERS, 10**400).matches(float("inf"))


def test_there_is_nothing_between_neighbours_of_a_discrete_order():
    assert Intervals.above(TIMES, NOON) == Intervals.above(TIMES, NOON + TICK, closed=True)
    assert Intervals.above(STRINGS, "a") == Intervals.above(STRINGS, "a\0", closed=True)
    assert Intervals.above(BOOLEANS, False) == Intervals.point(BOOLEANS, True)
    assert Intervals.above(TIMES, TIMES.highest).is_empty
    assert Intervals.below(STRINGS, "").is_empty
    assert Intervals.above(STRINGS, "", closed=True).is_full


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (Intervals.point(NUMBERS, 5), "x = 5"),
        (Intervals.point(NUMBERS, 5).inverse(), "x != 5"),
        (Intervals.points(NUMBERS, [3, 1, 2.5]), "x IN (1, 2.5, 3)"),
        (Intervals.points(NUMBERS, [1, 3]).inverse(), "x NOT IN (1, 3)"),
        (Intervals.between(NUMBERS, 1, 3), "x BETWEEN 1 AND 3"),
        (Intervals.between(NUMBERS, 1, 3).inverse(), "x NOT BETWEEN 1 AND 3"),
        (Intervals.above(NUMBERS, 1).intersect(Intervals.below(NUMBERS, 3)), "x > 1 AND x < 3"),
        (Intervals.everything(NUMBERS), "x IS NUMBER"),
        (Intervals.prefix("a%"), r"x LIKE 'a\\%%'"),
        (Intervals.prefix("a.").union(Intervals.point(STRINGS, "a")), "x UNDER 'a'"),
        (Intervals.below(STRINGS, "a", closed=True), "x <= 'a'"),
        (
            Intervals.between(NUMBERS, 1, 9).intersect(Intervals.point(NUMBERS, 5).inverse()),
            "x BETWEEN 1 AND 9 AND x != 5",
        ),
    ],
)
def test_a_set_is_written_in_the_shortest_way(found, text):
    assert found.phrase("x").text == text


def test_an_example_between_huge_neighbours_is_not_invented():
    gap = Intervals.above(NUMBERS, 10**400).intersect(Intervals.below(NUMBERS, 10**400 + 1))
    assert gap.example() is None
