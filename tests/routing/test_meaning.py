"""What the outputs mean: everything that is wanted, and how much more."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.matching.strategies import PROBES
from tests.oracles.filters import admitted
from tests.routing.strategies import (
    PERFECT,
    STRATEGIES,
    anything,
    few_examples,
    intervals,
    of_universe,
    quotes,
    some_examples,
)
from tidings.events import Filter, Notification
from tidings.routing import reduce

_ABSENT = object()
_VALUES = {
    "symbol": ["A", "B", "C", "D"],
    "price": [_ABSENT, "a", *(n / 2 for n in range(-1, 15))],
    "tag": [_ABSENT, "a", "ba", "ab", "b"],
    "tags": [_ABSENT, [1], [2]],
}
MARKET = [
    Notification({n: v for n, v in zip(_VALUES, values, strict=True) if v is not _ABSENT})
    for values in product(*_VALUES.values())
]
"""Every notification that the filters of `quotes` can tell apart."""

some = st.lists(anything, max_size=8)
some_quotes = st.lists(quotes, max_size=12)


def matched(filters: Iterable[Filter], notifications: list[Notification]) -> list[bool]:
    filters = list(filters)
    return [any(f.matches(n) for f in filters) for n in notifications]


@pytest.mark.parametrize("strategy", PERFECT)
@some_examples
@given(some, some_quotes)
def test_perfect_strategies_ask_for_exactly_what_is_wanted(
    strategy: str, wanted: list[Filter], more: list[Filter]
) -> None:
    told = reduce(strategy, dict.fromkeys(wanted, 1))
    assert matched(told, PROBES) == matched(wanted, PROBES)
    told = reduce(strategy, dict.fromkeys(more, 1))
    assert matched(told, MARKET) == matched(more, MARKET)


@pytest.mark.slow
@pytest.mark.parametrize("strategy", PERFECT)
@few_examples
@given(st.lists(of_universe, max_size=4))
def test_perfect_strategies_are_exact_on_all_that_can_be_told_apart(
    strategy: str, wanted: list[Filter]
) -> None:
    told, asked = 0, 0
    for filter_ in reduce(strategy, dict.fromkeys(wanted, 1)):
        told |= admitted(filter_)
    for filter_ in wanted:
        asked |= admitted(filter_)
    assert told == asked


@pytest.mark.parametrize("strategy", STRATEGIES)
@some_examples
@given(some, some_quotes)
def test_no_strategy_asks_for_less_than_is_wanted(
    strategy: str, wanted: list[Filter], more: list[Filter]
) -> None:
    wanted = wanted + more
    told = reduce(strategy, dict.fromkeys(wanted, 1))
    for events in (PROBES, MARKET):
        for asked, heard in zip(matched(wanted, events), matched(told, events), strict=True):
            assert heard >= asked


@pytest.mark.parametrize("strategy", ["covering", "merging", "imperfect:1.5", "bounded:5"])
@some_examples
@given(some, some_quotes)
def test_nothing_told_covers_anything_else_told(
    strategy: str, wanted: list[Filter], more: list[Filter]
) -> None:
    told = list(reduce(strategy, dict.fromkeys(wanted + more, 1)))
    assert not [(a, b) for a in told for b in told if a is not b and a.covers(b)]
    assert all(len(f.conjunctions) == 1 for f in told)


@pytest.mark.parametrize("most", [2, 3, 5, 16])
@given(some, some_quotes)
@some_examples
def test_bounded_never_tells_more_than_it_may(
    most: int, wanted: list[Filter], more: list[Filter]
) -> None:
    assert len(reduce(f"bounded:{most}", dict.fromkeys(wanted + more, 1))) <= most


@pytest.mark.parametrize("strategy", ["merging", "imperfect:1.5"])
@some_examples
@given(some, some_quotes)
def test_merging_never_tells_more_than_covering(
    strategy: str, wanted: list[Filter], more: list[Filter]
) -> None:
    asked = dict.fromkeys(wanted + more, 1)
    assert len(reduce(strategy, asked)) <= len(reduce("covering", asked))


@given(st.lists(intervals, max_size=10), st.sampled_from([1, 1.5, 4]))
def test_imperfect_merging_tells_single_intervals_that_do_not_touch(
    wanted: list[Filter], factor: float
) -> None:
    wanted = [f for f in wanted if f != Filter.none()]
    told = reduce(f"imperfect:{factor}", dict.fromkeys(wanted, 1))
    spans = []
    for filter_ in told:
        (constraint,) = filter_.conjunctions[0].constraints.values()
        (part,) = constraint.parts.values()
        (span,) = part.spans()
        spans.append(span)
    spans.sort()
    assert all(high < following for (_, high), (following, _) in pairwise(spans))
