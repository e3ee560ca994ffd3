"""Estimates from a small lake of odd events: what is there is never taken for impossible."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.oracles.filters import constant
from tidings.events import Filter, Notification
from tidings.events.phrases import name_text
from tidings.lakes.filling import to_table
from tidings.lakes.layout import FIXED, Archived
from tidings.routing import Statistics, reduce
from tidings.spark.statistics.selectivity import mergers
from tidings.spark.statistics.sketch import Sketch

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
NAMES = ["n", "N", "a b", "symbol"]
"""Of `n` and `N` only one has a column, and `a b` has none."""
NUMBERS: list[Any] = [0, 1, 2.5, -3, 1 / 3, 2**53, 2**53 + 1, 2**70, -(10**30), 1e305]
STRINGS: list[Any] = ["a", "b", "a\nb", "c" * 300]
TIMES: list[Any] = [
    *(NOON, NOON + timedelta(microseconds=1), datetime(1, 1, 1, tzinfo=UTC)),
    *(datetime(9999, 12, 31, tzinfo=UTC), datetime.max.replace(tzinfo=UTC)),
    datetime(9000, 1, 1, microsecond=1, tzinfo=UTC),
]
OTHERS: list[Any] = [float("inf"), True, b"a", frozenset({"a"}), frozenset({1, "a"})]

_values = st.sampled_from(NUMBERS + STRINGS + TIMES + OTHERS)
lakes = st.builds(
    lambda events, times: [Notification(event) for event in events] * times,
    st.lists(st.dictionaries(st.sampled_from(NAMES), _values, max_size=3), min_size=1, max_size=8),
    st.sampled_from([1, 60]),  # of sixty it is also said what goes with what
)
_names = st.sampled_from(NAMES).map(name_text)
_operators = st.sampled_from(["=", "!=", "<", "<=", ">", ">="])
_conditions = st.one_of(
    st.one_of(
        st.builds("{} {} {}".format, _names, _operators, constants)
        | st.builds("{} NOT BETWEEN {} AND {}".format, _names, constants, constants)
        for constants in (st.sampled_from(pool).map(constant) for pool in (NUMBERS, STRINGS, TIMES))
    ),
    st.builds("{} = {}".format, _names, st.sampled_from(["true", "x'61'"])),
    st.builds("{}{} {}".format, st.sampled_from(["", "NOT "]), st.just("EXISTS"), _names),
    st.builds("{} CONTAINS 'a'".format, _names),
    st.builds("symbol = '{}'".format, st.sampled_from("ab")),
)
filters = st.lists(st.lists(_conditions, min_size=1, max_size=3), min_size=1, max_size=2).map(
    lambda rows: Filter.parse(" OR ".join(" AND ".join(row) for row in rows))
)


def learn(events: list[Notification]) -> Statistics:
    """What a lake of these events says."""
    rows = [Archived("b", n, NOON, event) for n, event in enumerate(events, start=1)]
    sketch = Sketch()
    for batch in to_table(rows, FIXED).to_batches():
        sketch.add(batch)
    return sketch.statistics()


def of(*values: object) -> list[Notification]:
    """An event for each value."""
    return [Notification({"n": value}) for value in values]


@example(of(2**70), Filter.parse("n != 0"))
@example(of(0, 1e305), Filter.parse("n != 0"))
@example(of(2**53 + 1), Filter.parse("n > 9007199254740992"))
@example(of(1 / 3), Filter.parse("n = 0.3333333333333333"))
@example(of(TIMES[-1]), Filter.parse(f"n = {constant(TIMES[-1])}"))
@example(of("a", *["c" * 300] * 7), Filter.parse(f"n = '{'c' * 300}'"))
@given(lakes, filters)
def test_what_some_event_has_is_never_said_to_be_admitted_of_none(
    events: list[Notification], wanted: Filter
) -> None:
    learnt = learn(events)
    for conjunction in wanted.conjunctions:
        for name, constraint in conjunction.constraints.items():
            alone = Filter([type(conjunction)({name: constraint})])
            counted = sum(map(alone.matches, events)) / len(events)
            estimate = learnt.admitted(name, constraint)
            assert estimate > 0 or not counted, name
            assert estimate > counted - 0.1, name


_ranges = st.one_of(
    st.builds("n NOT BETWEEN {} AND {}".format, constants, constants)
    for constants in (st.sampled_from(pool).map(constant) for pool in (NUMBERS, TIMES))
)


@example(of(0, 2**70), Filter.parse("n NOT BETWEEN 1 AND 1e305"))
@example(of(0, float("inf"), 1e303), Filter.parse("n NOT BETWEEN 1 AND 1e305"))
@given(lakes, st.builds("{} AND {}".format, _ranges, _conditions).map(Filter.parse))
def test_no_gap_that_events_fall_into_is_said_to_be_empty(
    events: list[Notification], wanted: Filter
) -> None:
    learnt = learn(events)
    for merger in mergers({"paris/1": wanted}):
        if any(map(merger.filter.matches, events)):
            assert merger.estimate(learnt) != 0, merger.filter


@pytest.mark.parametrize(
    ("price", "rest"), [(2.0, "price > 0"), ("x", "price = 'x'"), ("x", "price LIKE 'x%'")]
)
def test_an_attribute_that_has_no_column_counts_with_all_its_events(price: Any, rest: str) -> None:
    """All events fall into the gap, and beside `Price` there is no column for a `price`."""
    learnt = learn([Notification({"Price": 1.0, "price": price})] * 100)
    wanted = Filter.parse(f"Price NOT BETWEEN 0.5 AND 3 AND {rest}")
    assert reduce("learnt:0.001", {wanted: 1}, learnt) == {wanted: 1}
