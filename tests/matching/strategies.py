"""Filters of all classes and events of all domains, over a few attributes, so that they meet.

`filters` and `notifications` draw from pools in which neighbours stand side by side: 2**53 and
2**53 + 1, a string and the one after it, the float before 1 and the one after. The filters of
`tests.oracles.filters` are among them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import cache, reduce
from itertools import combinations
from random import Random
from typing import Any

from hypothesis import strategies as st

from tests.oracles import filters as oracle
from tidings.events import Filter, Notification, Schema

SCHEMA = Schema(
    types={
        "stock": [],
        "priced": [],
        "stock.quote": ["stock", "priced"],
        "stock.quote.late": ["stock.quote"],
        "bond": ["priced"],
    }
)
NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
TICK = timedelta(microseconds=1)

NUMBERS: list[Any] = [
    *(0, 1, 2, 3, -1, 0.5, -0.5, 1e-310, 5e-324, -5e-324, 1e308),
    *(math.nextafter(1, 0), math.nextafter(1, 2)),
    *(2**53 - 1, 2**53, 2**53 + 1, 2**53 + 2, 1 - 2**53, -(2**53), -(2**53) - 1),
    *(2**63 - 1, 2**63, 2**63 + 1, -(2**63), 2**64, 10**30, 10**30 + 1, -(10**30)),
]
STRINGS = [
    *("", "\0", "a", "a\0", "a\0\0", "a.b", "a.b.c", "a/", "ab", "b", "ba", "%", "é", "\uffff"),
    *("\U0010ffff", "stock", "stock.quote", "stock.quote.late", "bond", "priced"),
]
TIMES = [
    *(NOON - TICK, NOON, NOON + TICK, NOON + 2 * TICK),
    *(datetime(1, 1, 1, tzinfo=UTC), datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)),
    datetime.max.replace(tzinfo=UTC),
]
BYTES = [b"", b"\0", b"a", b"a\0", b"b", b"\xff"]
ELEMENTS: list[Any] = [1, True, False, 0, "a", "b", 0.5, 2**53 + 1, NOON, b"a"]
PRESENT: list[Any] = [[{"a": 1}], [[]], {"a": 1}, {}]
"""What is there, and has no value to compare."""
POOLS: dict[str, list[Any]] = {
    "number": NUMBERS,
    "string": STRINGS,
    "time": TIMES,
    "bytes": BYTES,
    "boolean": [False, True],
}
PATTERNS = ["a%", "%a", "%a%", "a%b", "_", "a_%", "%.%", r"\%%", "stock%quote%", "%"]

NAMES = ["x", "y", "o.z"]
"""Few enough that filters and events meet, and those of the oracle."""


@cache
def parsed(text: str) -> Filter:
    return Filter.parse(text, schema=SCHEMA)


# -- filters ---------------------------------------------------------------------------------


def _lists(pool: list[Any]) -> Iterator[str]:
    """Some lists of constants, the same ones every time."""
    chance = Random(len(pool))
    for size in (1, 2, 2, 3, 4, 4) * 4:
        yield ", ".join(oracle.constant(chance.choice(pool)) for _ in range(size))


def _comparisons(pool: list[Any]) -> Iterator[str]:
    constants = [oracle.constant(value) for value in pool]
    yield from (f"{{0}} = {c}" for c in constants for _ in range(3))
    yield from (f"{{0}} {sign} {c}" for c in constants for sign in ("!=", "<", "<=", ">", ">="))
    for listed in _lists(pool):
        yield f"{{0}} IN ({listed})"
        yield f"{{0}} NOT IN ({listed})"
    for low, high in zip(constants, constants[1:] + constants[:1], strict=True):
        yield f"{{0}} BETWEEN {low} AND {high}"
        yield f"{{0}} NOT BETWEEN {low} AND {high}"


def _sets() -> Iterator[str]:
    for no in ("", "", "NOT "):
        yield from (f"{{0}} {no}CONTAINS {oracle.constant(item)}" for item in ELEMENTS)
        for relation in ("SUBSET OF", "SUPERSET OF", "OVERLAPS", "DISJOINT FROM"):
            yield from (f"{{0}} {no}{relation} ({listed})" for listed in list(_lists(ELEMENTS))[:8])


def _about_strings() -> Iterator[str]:
    for no in ("", "", "NOT "):
        yield from (f"{{0}} {no}LIKE {oracle.constant(pattern)}" for pattern in PATTERNS)
        yield from (f"{{0}} {no}UNDER '{subject}'" for subject in ("a", "a.b", "stock"))
        yield from (f"{{0}} IS {no}A '{t}'" for t in ("stock", "priced", "stock.quote", "bond"))


_DOMAINS = ("NUMBER", "STRING", "BOOLEAN", "TIME", "BYTES", "SET")
_KINDS: list[list[str]] = [
    *(list(_comparisons(pool)) for pool in (*POOLS.values(), NUMBERS, STRINGS)),
    list(_about_strings()),
    list(_sets()),
    list(_sets()),
    [
        "EXISTS {0}",
        "NOT EXISTS {0}",
        *(f"{{0}} IS {no}{d}" for d in _DOMAINS for no in ("", "NOT ")),
    ],
]
_conditions = st.one_of([st.sampled_from(kind) for kind in _KINDS])
_names = st.sampled_from(NAMES)


def _union(parts: list[Filter]) -> Filter:
    return reduce(Filter.union, parts)


_constraints = st.builds(
    lambda name, texts: _union([parsed(text.format(name)) for text in texts]),
    _names,
    st.one_of(_conditions.map(lambda text: [text]), st.lists(_conditions, min_size=1, max_size=3)),
)
"""On one attribute: one condition, or several, which may be of different domains."""

_products = st.lists(_constraints, min_size=1, max_size=3).map(
    lambda parts: reduce(Filter.intersect, parts)
)

filters: st.SearchStrategy[Filter] = st.one_of(
    _products,
    _products,
    st.lists(_products, min_size=2, max_size=3).map(_union),
    oracle.anything.map(lambda node: parsed(oracle.text(node))),
    st.sampled_from([Filter.all(), Filter.none()]),
)
"""Any filter: all classes of constraints, several conjunctions, everything and nothing."""

# -- events ----------------------------------------------------------------------------------

scalars: st.SearchStrategy[Any] = st.one_of(
    *[st.sampled_from(pool) for pool in [*POOLS.values(), NUMBERS, STRINGS]],
    st.sampled_from([-0.0, 1.0, 2.0**53, 2.0**63, 1e30, math.inf, -math.inf]),
    st.floats(allow_nan=False),
    st.integers(),
    st.text(max_size=3),
)
values: st.SearchStrategy[Any] = st.one_of(
    *[scalars] * 4,
    st.lists(st.sampled_from(ELEMENTS), max_size=4),
    st.sampled_from(PRESENT),
)
notifications: st.SearchStrategy[Notification] = st.builds(
    Notification,
    st.dictionaries(st.sampled_from([*NAMES, "nobody names this"]), values, max_size=4),
)
"""Any event; attributes may be absent, or ones that nobody names."""


def _probes() -> Iterator[dict[str, Any]]:
    sets = [list(s) for size in (0, 1, 2) for s in combinations(ELEMENTS, size)]
    more = [1.0, -0.0, 2.0**53, 1e30, math.inf, -math.inf, "zz", "a.c", True, *PRESENT]
    pool = [v for pool in POOLS.values() for v in pool] + sets + more
    yield {}
    yield from ({"x": value} for value in pool)
    chance = Random(0)
    for _ in range(300):
        yield {name: chance.choice(pool) for name in NAMES if chance.random() < 0.8}


PROBES = [Notification(event) for event in _probes()]
"""Events with every value of the pools, alone and together with others."""
