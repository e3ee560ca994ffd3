"""Filters that meet: they cover, merge with and overlap one another far more often than not.

`anything` draws from all domains and shapes; `quotes` draws what brokers really hold, in a world
so small that everything happens; `intervals` draws single intervals of one attribute, open,
closed and degenerate.
"""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st

from tests.matching.strategies import filters as of_all_domains
from tests.oracles import filters as oracle
from tidings.events import Filter
from tidings.routing.statistics import Attribute, Distribution, Statistics

STRATEGIES = [
    "flooding",
    "simple",
    "identity",
    "covering",
    "merging",
    "imperfect:1",
    "imperfect:1.5",
    "imperfect:4",
    "learnt:0.1",
    "bounded:2",
    "bounded:5",
    "bounded:16",
]
STAGED = STRATEGIES[3:]
PERFECT = ["covering", "merging", "imperfect:1", "learnt:1"]
"""What has learnt nothing is perfect."""

# Tests that run for every strategy share the examples of the profile among them.
some_examples = settings(max_examples=max(10, settings().max_examples // 5))
few_examples = settings(max_examples=max(5, settings().max_examples // 15))


def _parsed(texts: st.SearchStrategy[str]) -> st.SearchStrategy[Filter]:
    return texts.map(Filter.parse)


_symbols = st.sampled_from(["symbol = 'A'", "symbol = 'B'", "symbol IN ('A', 'C')", "TRUE"])
_small = st.integers(0, 6)
_prices = st.one_of(
    st.builds("price BETWEEN {} AND {}".format, _small, _small),
    st.builds("price {} {}".format, st.sampled_from(["<", "<=", ">", ">=", "=", "!="]), _small),
    st.just("EXISTS price"),
    st.just("NOT EXISTS price"),
)
_tags = st.sampled_from(
    [
        "tag LIKE '%a'",
        "tag LIKE '%a%'",
        "tag = 'a'",
        "tag = 'ba'",
        "tags CONTAINS 1",
        "TRUE",
        "TRUE",
    ]
)
quotes = _parsed(st.builds("{} AND {} AND {}".format, _symbols, _prices, _tags))

_ends = st.sampled_from([0, 1, 2, 2.5, 3, 5, 8, 13, -1, 10**30])
_signs = st.tuples(st.sampled_from([">", ">="]), st.sampled_from(["<", "<="]))


def _interval(ends: list[float], signs: tuple[str, str]) -> str:
    low, high = sorted(ends)
    return f"x {signs[0]} {low} AND x {signs[1]} {high}"


intervals = _parsed(st.builds(_interval, st.lists(_ends, min_size=2, max_size=2), _signs))
_times = st.sampled_from([f"TIMESTAMP '2026-11-15T12:00:0{s}Z'" for s in range(8)])
stretches = st.one_of(intervals, _parsed(st.builds("x BETWEEN {} AND {}".format, _times, _times)))

of_universe = oracle.anything.map(lambda node: Filter.parse(oracle.text(node)))
"""Filters whose meaning can be tried out on every notification of the oracle's universe."""

anything = st.one_of(
    of_all_domains,
    of_universe,
    quotes,
    quotes,
    stretches,
    st.builds(Filter.union, quotes, quotes),
    st.sampled_from([Filter.all(), Filter.none()]),
)

# -- what was learnt ---------------------------------------------------------------------------

_shares = st.sampled_from([0.0, 0.01, 0.2, 0.5, 1.0])
_NOON = 1_794_744_000.0  # where the times of `stretches` are


def _distributions(values: st.SearchStrategy[float]) -> st.SearchStrategy[Distribution]:
    quantiles = st.lists(values, min_size=2, max_size=6).map(lambda q: tuple(sorted(q)))
    return st.builds(Distribution, _shares, quantiles)


_numbers = _distributions(st.integers(-2, 14).map(float))
_times_learnt = _distributions(st.integers(0, 8).map(lambda s: _NOON + s))
_attributes = st.builds(
    Attribute,
    present=_shares,
    number=st.none() | _numbers,
    time=st.none() | _times_learnt,
    strings=st.dictionaries(st.sampled_from(["A", "B", "a", "ba"]), _shares, max_size=3),
    unlisted=_shares,
)
_some_attributes = st.dictionaries(
    st.sampled_from(["price", "symbol", "tag", "x", "a"]), _attributes, min_size=2, max_size=5
)
statistics = st.builds(
    Statistics,
    events=st.integers(0, 9),
    attributes=_some_attributes,
    given=st.dictionaries(
        st.sampled_from(["symbol", "tag"]),
        st.dictionaries(st.sampled_from(["A", "B", "a"]), _some_attributes, max_size=2),
        max_size=2,
    ),
)
"""Of attributes that the filters above name, and not always such as can be."""
