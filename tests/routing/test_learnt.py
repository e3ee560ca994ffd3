"""Merging by what was learnt of the events: examples, and that it always equals the plain one."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.matching.strategies import PROBES
from tests.routing.strategies import anything, quotes, some_examples, statistics, stretches
from tests.routing.test_contract import Step, Told, run
from tests.routing.test_meaning import MARKET, matched
from tidings.events import Filter, Notification, TidingsError
from tidings.routing import Change, Statistics, reduce, reduction
from tidings.routing.statistics import LONGEST, Attribute, Distribution
from tidings.routing.tables import Tables

PRICES = Attribute(present=1.0, number=Distribution(1.0, (0.0, 9.0, 10.0, 11.0, 100.0)))
"""Half of all prices are from 9 to 11, a quarter below, a quarter above."""
SYMBOLS = Attribute(present=1.0, strings={"DIS": 0.5, "SAP": 0.1}, unlisted=0.4)
KNOWN = Statistics(1000, {"price": PRICES, "symbol": SYMBOLS})


def told(strategy: str, learnt: Statistics | None, *texts: str) -> list[str]:
    """The output as texts, from the incremental version and the plain one alike."""
    mine = reduction(strategy)
    wanted = {Filter.parse(text): 1 for text in texts}
    for filter_ in wanted:
        mine.add(filter_)
    if learnt is not None:
        mine.learn(learnt)
    assert mine.output == reduce(strategy, wanted, learnt)
    return sorted(map(str, mine.output))


# -- examples ----------------------------------------------------------------------------------


def test_a_gap_is_closed_if_few_events_fall_into_it_however_long_it_is() -> None:
    far = ("price BETWEEN 11 AND 12", "price BETWEEN 20 AND 21")  # 8 of 89 of a quarter
    near = ("price BETWEEN 8 AND 9.4", "price BETWEEN 9.8 AND 11")  # 4 of 10 of a quarter
    assert told("learnt:0.03", KNOWN, *far) == ["price BETWEEN 11 AND 21"]
    assert told("learnt:0.02", KNOWN, *far) == [
        "price BETWEEN 11 AND 12 OR price BETWEEN 20 AND 21"
    ]
    assert told("learnt:0.03", KNOWN, *near) == [
        "price BETWEEN 8 AND 9.4 OR price BETWEEN 9.8 AND 11"
    ]
    assert told("learnt:0.11", KNOWN, *near) == ["price BETWEEN 8 AND 11"]


def test_where_no_event_is_every_gap_is_closed() -> None:
    assert told("learnt:0", KNOWN, "price = 200", "price > 1000") == ["price >= 200"]
    assert told("learnt:0", KNOWN, "price = 2", "price = 3") == ["price IN (2, 3)"]


def test_a_value_that_is_frequent_is_not_passed_over() -> None:
    often_five = Attribute(present=1.0, number=Distribution(1.0, (0.0, 5.0, 5.0, 5.0, 6.0)))
    apart = ("x < 5", "x > 5")
    assert told("learnt:0.4", Statistics(1, {"x": often_five}), *apart) == ["x != 5"]
    assert told("learnt:0.5", Statistics(1, {"x": often_five}), *apart) == ["x IS NUMBER"]


def test_the_rest_of_the_conjunction_counts() -> None:
    """A gap of a tenth, in events of which a tenth are of that symbol: a hundredth."""
    rare = ("symbol = 'SAP' AND price < 9", "symbol = 'SAP' AND price > 9.4")
    often = [text.replace("SAP", "DIS") for text in rare]
    assert told("learnt:0.011", KNOWN, *rare) == ["price IS NUMBER AND symbol = 'SAP'"]
    assert len(told("learnt:0.011", KNOWN, *often)) == 1
    assert told("learnt:0.011", KNOWN, *often) != ["price IS NUMBER AND symbol = 'DIS'"]
    assert told("learnt:0.051", KNOWN, *often) == ["price IS NUMBER AND symbol = 'DIS'"]


def test_what_is_known_given_a_value_goes_before_what_is_known_of_all() -> None:
    dear = Attribute(present=0.1, number=Distribution(0.1, (50.0, 60.0)))
    learnt = Statistics(1000, dict(KNOWN.attributes), {"symbol": {"SAP": {"price": dear}}})
    halves = ("symbol = 'SAP' AND price < 8", "symbol = 'SAP' AND price > 49")
    assert told("learnt:0", KNOWN, *halves) == ["price NOT BETWEEN 8 AND 49 AND symbol = 'SAP'"]
    assert told("learnt:0", learnt, *halves) == ["price IS NUMBER AND symbol = 'SAP'"]


def test_closed_gaps_let_more_be_merged() -> None:
    """After the gaps are closed, both symbols want the same prices."""
    texts = [
        f"symbol = '{symbol}' AND price BETWEEN {low} AND {low + 10}"
        for symbol in ("DIS", "SAP")
        for low in (30, 50)
    ] + ["symbol = 'SAP' AND price BETWEEN 45 AND 46"]
    assert len(told("merging", None, *texts)) == 2
    assert told("learnt:0.03", KNOWN, *texts) == [
        "price BETWEEN 30 AND 60 AND symbol IN ('DIS', 'SAP')"
    ]


def test_times_have_gaps_too_and_so_has_a_single_filter() -> None:
    noon = datetime(2026, 11, 15, 12, tzinfo=UTC)
    seconds = tuple((noon + timedelta(seconds=n)).timestamp() for n in (0, 10, 20))
    learnt = Statistics(1, {"at": Attribute(present=1.0, time=Distribution(1.0, seconds))})
    text = "at < TIMESTAMP '2026-11-15T12:00:01Z' OR at > TIMESTAMP '2026-11-15T12:00:02Z'"
    assert told("learnt:0.04", learnt, text) == [str(Filter.parse(text))]
    assert told("learnt:0.06", learnt, text) == ["at IS TIME"]


def test_nothing_is_closed_where_nothing_is_known() -> None:
    apart = ("y = 1", "y = 2")
    assert told("learnt:1", None, *apart) == told("merging", None, *apart) == ["y IN (1, 2)"]
    assert told("learnt:1", KNOWN, *apart) == ["y IN (1, 2)"]
    assert told("learnt:1", KNOWN, "price = 1", "price = 2") == ["price BETWEEN 1 AND 2"]


def test_values_of_which_nothing_more_is_known_may_be_in_any_gap() -> None:
    unknown = Attribute(present=0.2, strings={"a": 0.1})
    apart = ("x = 1", "x = 2")
    assert told("learnt:0.09", Statistics(1, {"x": unknown}), *apart) == ["x IN (1, 2)"]
    assert told("learnt:0.1", Statistics(1, {"x": unknown}), *apart) == ["x BETWEEN 1 AND 2"]


def test_what_is_learnt_is_told_as_a_difference_and_once() -> None:
    mine = reduction("learnt:0.03")
    for text in ("price = 20", "price = 21", "symbol = 'DIS'"):
        mine.add(Filter.parse(text))
    mine.drain()
    mine.learn(KNOWN)
    apart, joined = Filter.parse("price IN (20, 21)"), Filter.parse("price BETWEEN 20 AND 21")
    assert mine.drain() == Change({joined: 1}, {apart: 1})
    mine.learn(KNOWN)
    assert not mine.drain()
    mine.learn(Statistics())
    assert mine.drain() == Change({apart: 1}, {joined: 1})


def test_tables_that_are_computed_anew_remember_what_was_learnt() -> None:
    tables = Tables[str]()
    tables.open("north", "learnt:0.03")
    tables.change("client", {Filter.parse("price = 20"): 1, Filter.parse("price = 21"): 1})
    tables.drain("north")
    tables.learn(KNOWN)
    assert [str(f) for f in tables.drain("north").added] == ["price BETWEEN 20 AND 21"]
    tables.open("south", "learnt:0.03")
    assert [str(f) for f in tables.told("south")] == ["price BETWEEN 20 AND 21"]
    assert tables.audit()


# -- always ------------------------------------------------------------------------------------

pools = st.one_of(
    st.lists(anything, min_size=1, max_size=12),
    st.lists(quotes, min_size=5, max_size=25),
    st.lists(stretches, min_size=3, max_size=12),
)
steps = st.lists(
    st.tuples(st.sampled_from(["add", "add", "remove", "look", "learn"]), st.integers(0, 99)),
    min_size=10,
    max_size=50,
)
shares = st.sampled_from([0.0, 0.01, 0.1, 0.3])


@settings(max_examples=max(15, settings().max_examples // 2))
@given(shares, pools, st.lists(statistics, min_size=2, max_size=3), steps)
def test_its_output_is_the_plain_reduction_whatever_comes_goes_and_is_learnt(
    share: float, pool: list[Filter], lessons: list[Statistics], steps: list[Step]
) -> None:
    strategy = f"learnt:{share}"
    wanted: Counter[Filter] = Counter()
    mine, neighbour = reduction(strategy), Told()
    learnt: list[Statistics | None] = [None]

    def add(filter_: Filter) -> None:
        wanted[filter_] += 1
        mine.add(filter_)

    def remove(filter_: Filter) -> None:
        wanted[filter_] -= 1
        mine.remove(filter_)

    def learn(number: int) -> None:
        learnt.append(lessons[number % len(lessons)])
        mine.learn(learnt[-1])

    def look() -> None:
        expected = reduce(strategy, +wanted, learnt[-1])
        assert mine.output == expected
        neighbour.hear(mine.drain())
        assert neighbour.table == expected
        assert not mine.drain()

    learn(0)
    for filter_ in pool:  # so that there is something to be judged anew
        add(filter_)
    learn(1)
    look()
    run(pool, steps, look, add, remove, learn)


@some_examples
@given(shares, st.lists(anything, max_size=8), st.lists(quotes, max_size=12), statistics)
def test_it_never_asks_for_less_than_is_wanted_whatever_was_learnt(
    share: float, wanted: list[Filter], more: list[Filter], learnt: Statistics
) -> None:
    wanted = wanted + more
    heard = reduce(f"learnt:{share}", dict.fromkeys(wanted, 1), learnt)
    for events in (PROBES, MARKET):
        for asked, hears in zip(matched(wanted, events), matched(heard, events), strict=True):
            assert hears >= asked


@some_examples
@given(st.lists(anything, max_size=10))
def test_without_statistics_it_is_merging(wanted: list[Filter]) -> None:
    asked = dict.fromkeys(wanted, 1)
    assert reduce("learnt:1", asked) == reduce("merging", asked)


@given(statistics)
def test_statistics_are_read_as_they_were_written(learnt: Statistics) -> None:
    again = Statistics.parse(learnt.text())
    assert again == learnt
    assert hash(again) == hash(learnt)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"events": "many"}',
        '{"attributes": {"x": {}}}',
        '{"attributes": {"x": {"present": 1.5}}}',
        '{"attributes": {"x": {"present": 1, "number": {"share": 1, "quantiles": [1]}}}}',
        '{"attributes": {"x": {"present": 1, "number": {"share": 1, "quantiles": [2, 1]}}}}',
        '{"attributes": {"x": {"present": 1, "number": {"share": 1, "quantiles": [1, 1e301]}}}}',
        '{"attributes": {"x": {"present": 1, "strings": {"a": -1}}}}',
        "[" * 10_000,
        " " * (LONGEST + 1),
    ],
)
def test_what_are_no_statistics_is_refused(text: str) -> None:
    with pytest.raises(TidingsError, match="statistics"):
        Statistics.parse(text)


# -- estimates ---------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("shape", ["uniform", "steep", "few values"])
def test_estimates_are_near_what_is_counted(shape: str) -> None:
    chance = Random(shape)
    draw = {
        "uniform": lambda: chance.uniform(0, 100),
        "steep": lambda: chance.expovariate(1 / 20),
        "few values": lambda: chance.choice([1, 5, 5, 5, 7, 90]),
    }[shape]
    values = sorted(draw() for _ in range(5_000))
    quantiles = tuple(float(values[n * (len(values) - 1) // 64]) for n in range(65))
    learnt = Statistics(1, {"x": Attribute(present=1.0, number=Distribution(1.0, quantiles))})
    for _ in range(200):
        low = chance.choice([chance.uniform(-5, 100), chance.choice(values)])
        high = low + chance.expovariate(1 / 20)
        filter_ = Filter.parse(f"x BETWEEN {low} AND {high} OR x > {high + 10}")
        counted = sum(filter_.matches(Notification({"x": v})) for v in values) / len(values)
        estimate = learnt.admitted("x", filter_.conjunctions[0]["x"])
        assert abs(estimate - counted) < 3 / 64


def test_shares_of_strings_are_rather_too_high() -> None:
    def share(text: str) -> float:
        return KNOWN.admitted("symbol", Filter.parse(text).conjunctions[0]["symbol"])

    assert share("symbol = 'DIS'") == 0.5
    assert share("symbol = 'IBM'") == 0.1  # no more than the least frequent that is known
    assert share("symbol IN ('DIS', 'IBM')") == pytest.approx(0.6)
    assert share("symbol LIKE 'D%'") == pytest.approx(0.9)
    assert share("symbol LIKE '%S'") == pytest.approx(0.9)
    assert share("EXISTS symbol") == 1.0
    assert share("NOT EXISTS symbol") == 0.0
    assert share("symbol = 7") == 0.0
