"""The market's workloads are reproducible, parse, and match as often as they say."""

from collections import Counter, defaultdict
from hashlib import blake2b
from itertools import islice

import pytest

from tidings import Filter
from tidings.workloads import (
    WORKLOADS,
    Among,
    Equal,
    Prefix,
    Range,
    dense_eq,
    dense_range,
    interval,
    sparse,
)

each_workload = pytest.mark.parametrize("make", WORKLOADS.values(), ids=WORKLOADS)


def digest(lines):
    return blake2b("\n".join(lines).encode(), digest_size=8).hexdigest()


def holds(conditions, event):
    """The oracle: whether an event satisfies all conditions."""
    return all(_holds(condition, event[condition.name]) for condition in conditions)


def _holds(condition, value):
    match condition:
        case Equal(_, wanted):
            return value == wanted
        case Among(_, wanted):
            return value in wanted
        case Prefix(_, text):
            return value.startswith(text)
        case Range(_, low, high):
            return (low is None or low <= value) and (high is None or value <= high)


def share_that_matches(workload, *, filters, events):
    """By brute force, but a filter that names a symbol is only held against that symbol."""
    by_symbol = defaultdict(list)
    for conditions in workload.conditions(filters):
        symbols = [c.value for c in conditions if isinstance(c, Equal) and c.name == "symbol"]
        by_symbol[symbols[0] if symbols else None].append(conditions)
    matches = sum(
        holds(conditions, event)
        for event in workload.events(events)
        for conditions in by_symbol[None] + by_symbol[event["symbol"]]
    )
    return matches / filters / events


@pytest.mark.parametrize(
    ("name", "texts", "events"),
    [
        ("dense-eq", "954974ae52034152", "77b80719b92a3877"),
        ("dense-range", "2fc25b2e614caf9a", "be02dc24dde7fcca"),
        ("sparse", "e4a61a8bd0261ff3", "4728845749610fe7"),
        ("quote", "dd6d20d9726cb5c2", "73716a92537ddc96"),
        ("interval", "86b8de81eceba6ce", "6dde75cbf2c05ab8"),
    ],
)
def test_the_default_seed_gives_the_same_workload_everywhere_for_ever(name, texts, events):
    workload = WORKLOADS[name]()
    assert digest(workload.texts(5000)) == texts
    assert blake2b(repr([*workload.events(5000)]).encode(), digest_size=8).hexdigest() == events


@each_workload
def test_another_seed_gives_another_workload(make):
    assert [*make(seed=1).texts(20)] != [*make(seed=2).texts(20)]
    assert [*make(seed=1).events(20)] != [*make(seed=2).events(20)]


@each_workload
def test_a_longer_run_begins_with_a_shorter_one(make):
    workload = make()
    assert [*islice(workload.texts(10_000), 5000)] == [*workload.texts(5000)]
    assert [*islice(workload.events(10_000), 5000)] == [*workload.events(5000)]


@each_workload
def test_a_filter_is_what_its_text_parses_to(make):
    workload = make()
    assert [*workload.filters(2000)] == [*map(Filter.parse, workload.texts(2000))]


@each_workload
def test_a_filter_matches_what_satisfies_its_conditions(make):
    workload = make()
    filters = [*zip(workload.filters(200), workload.conditions(200), strict=True)]
    for event, notification in zip(workload.events(50), workload.notifications(50), strict=True):
        for made, conditions in filters:
            assert made.matches(notification) == holds(conditions, event)


@pytest.mark.slow
@each_workload
def test_as_many_filters_match_as_the_workload_says(make):
    workload = make()
    size = {"filters": 2000, "events": 400} if workload.name.startswith("dense") else {}
    share = share_that_matches(workload, **size or {"filters": 50_000, "events": 2000})
    assert share == pytest.approx(workload.selectivity, rel=0.06)


@pytest.mark.slow
def test_with_skew_as_many_filters_match_as_the_workload_says():
    workload = sparse(skew=1.0)
    assert workload.selectivity > 50 * sparse().selectivity
    share = share_that_matches(workload, filters=5000, events=2000)
    assert share == pytest.approx(workload.selectivity, rel=0.1)


def test_with_skew_the_first_stock_is_the_most_popular_in_filters_and_events():
    workload = sparse(skew=1.0)
    wanted = Counter(conditions[0].value for conditions in workload.conditions(5000))
    heard = Counter(event["symbol"] for event in workload.events(5000))
    assert wanted.most_common(1)[0][0] == heard.most_common(1)[0][0] == "AAA"


def test_the_table_and_the_events_hold_the_same():
    workload = dense_range()
    assert workload.table(5000).to_pylist() == [*workload.events(5000)]


def test_an_event_has_eight_attributes():
    (event,) = dense_eq().events(1)
    assert len(event) == 8


def test_dense_eq_asks_for_names_only_and_in_all_three_ways():
    kinds = {type(c) for conditions in dense_eq().conditions(100) for c in conditions}
    assert kinds == {Equal, Among, Prefix}


def test_dense_range_asks_for_two_to_five_ranges():
    filters = [*dense_range().conditions(500)]
    assert {len(conditions) for conditions in filters} == {2, 3, 4, 5}
    assert {type(c) for conditions in filters for c in conditions} == {Range}


def test_sparse_asks_for_one_symbol_and_one_to_three_ranges():
    filters = [*sparse().conditions(500)]
    assert {len(conditions) for conditions in filters} == {2, 3, 4}
    assert {tuple(map(type, conditions[:2])) for conditions in filters} == {(Equal, Range)}


def test_of_two_intervals_one_covers_the_other_half_of_the_time_and_they_merge():
    prices = [conditions[1] for conditions in interval().conditions(2000)]
    pairs = [*zip(prices[::2], prices[1::2], strict=True)]
    nested = sum((a.low - b.low) * (a.high - b.high) <= 0 for a, b in pairs)
    assert nested / len(pairs) == pytest.approx(0.5, abs=0.05)
    assert all(a.low <= 50 <= a.high for a in prices)
