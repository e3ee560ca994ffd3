"""How the filters of an engine relate to another filter: exactly what the algebra says of each."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.matching.engines import ENGINES, TUNINGS, folded, in_segments, tuned
from tests.matching.strategies import filters, parsed
from tidings.events import Filter
from tidings.matching import Matcher

RELATIONS: dict[str, Callable[[Filter, Filter], bool]] = {
    "covering": lambda asked, mine: mine.covers(asked),
    "covered": lambda asked, mine: asked.covers(mine),
    "overlapping": lambda asked, mine: asked.overlaps(mine),
    "equal": lambda asked, mine: asked == mine,
    "mergeable": lambda asked, mine: asked.merge(mine) is not None,
}
FEWER = settings(max_examples=max(5, settings().max_examples // 4))


def assert_agrees(engine: Matcher, chosen: list[Filter], asked: Filter) -> None:
    for name, holds in RELATIONS.items():
        expected = [n for n, mine in enumerate(chosen) if holds(asked, mine)]
        assert sorted(getattr(engine, name)(asked)) == expected, (name, asked)


@st.composite
def questions(draw: st.DrawFn) -> tuple[list[Filter], list[Filter]]:
    """Some filters, and others to compare them with: strangers, relatives and themselves."""
    chosen = draw(st.lists(filters, min_size=1, max_size=8))
    mine = st.sampled_from(chosen)
    related = st.one_of(
        mine,
        filters,
        st.builds(Filter.union, mine, mine),
        st.builds(Filter.intersect, mine, mine),
        st.builds(Filter.intersect, mine, filters),
    )
    return chosen, draw(st.lists(related, min_size=1, max_size=4))


@pytest.mark.parametrize("engine", ENGINES)
@FEWER
@given(asked=questions())
def test_any_filter_relates_to_any_others_as_the_algebra_says(
    engine: str, asked: tuple[list[Filter], list[Filter]]
) -> None:
    chosen, questions = asked
    found = ENGINES[engine](enumerate(chosen))
    for question in questions:
        assert_agrees(found, chosen, question)


_ENDS = ["<", "<=", ">", ">=", "=", "!="]
_NEIGHBOURS = [math.nextafter(1, 0), 1.0, math.nextafter(1, 2), 2.0**53 - 1, 2.0**53]
AROUND = [f"x {sign} {value!r}" for value in _NEIGHBOURS for sign in _ENDS]
AROUND += [
    f"x {after} {low!r} AND x {before} {high!r}"
    for low in _NEIGHBOURS
    for high in _NEIGHBOURS
    for after in (">", ">=")
    for before in ("<", "<=")
    if low <= high
]


@pytest.mark.parametrize("make", [folded, in_segments])
def test_ends_at_neighbouring_floats_are_told_apart(make: Callable[..., Matcher]) -> None:
    chosen = [Filter.parse(text) for text in AROUND]
    engine = make(enumerate(chosen))
    for question in chosen[:: 1 if make is folded else 7]:
        assert_agrees(engine, chosen, question)


@pytest.mark.parametrize(
    ("chosen", "asked"),
    [
        pytest.param(
            ["x = 'a'", "x = 'a\0' AND y = 1"],
            ["x = 'a\0' AND y = 2", "x > 'a' AND y = 1", "x >= 'a\0'"],
            id="the string after another",
        ),
        pytest.param(
            ["x > 9007199254740992", "x = 9007199254740993", "x >= 1e30 AND y = 1"],
            ["x >= 9007199254740992", "x > 9007199254740993", "x >= 1e30 AND y = 2", "x > 0"],
            id="numbers that floats can't tell apart",
        ),
        pytest.param(
            ["x < 1 OR x > 2", "x < 1", "x > 2 AND y = 1", "x < 1 OR y < 1", "TRUE", "FALSE"],
            ["x < 1 OR x > 2", "x != 1.5", "x < 1 OR y < 1", "TRUE", "FALSE", "y < 1", "x > 3"],
            id="unions",
        ),
        pytest.param(
            ["x = 1", "x = 'a'", "x = true", "x = 1 OR x = 'a'", "EXISTS x", "x IS NUMBER"],
            ["x = 1", "x = 1 OR x = 'a'", "EXISTS x", "NOT EXISTS x", "x IS NOT NUMBER", "x < 5"],
            id="several domains",
        ),
        pytest.param(
            ["x LIKE 'a%'", "x LIKE 'ab%'", "x LIKE '%b'", "x UNDER 'a'", "x = 'a.b'", "x >= 'a'"],
            [
                "x LIKE 'a%'",
                "x LIKE 'a%b'",
                "x UNDER 'a.b'",
                "x = 'ab'",
                "x < 'b'",
                "x NOT LIKE '%b'",
            ],
            id="strings",
        ),
        pytest.param(
            ["x CONTAINS 'a'", "x OVERLAPS ('a', 'b')", "x SUBSET OF ('a')", "x IS SET"],
            ["x CONTAINS 'a'", "x SUPERSET OF ('a', 'b')", "x DISJOINT FROM ('a')", "x IS SET"],
            id="sets",
        ),
        pytest.param(
            ["x IS A 'stock'", "x IS A 'stock.quote'", "x = 'bond'", "x IS NOT A 'priced'"],
            ["x IS A 'stock'", "x = 'stock.quote'", "x IS A 'priced'", "x >= 'a'"],
            id="types",
        ),
    ],
)
@pytest.mark.parametrize("make", ENGINES)
def test_relations_that_are_easy_to_get_wrong(
    make: str, chosen: list[str], asked: list[str]
) -> None:
    mine = [parsed(text) for text in chosen]
    engine = ENGINES[make](enumerate(mine))
    for text in [*asked, *chosen]:
        assert_agrees(engine, mine, parsed(text))


@FEWER
@given(
    tuning=st.sampled_from(list(TUNINGS)),
    chosen=st.lists(filters, min_size=1, max_size=8),
    gone=st.sets(st.integers(0, 7)),
    asked=filters,
)
@example(tuning="bits", chosen=[Filter.none(), Filter.all()], gone={0}, asked=Filter.none())
def test_filters_that_are_gone_relate_to_nothing(
    tuning: str, chosen: list[Filter], gone: set[int], asked: Filter
) -> None:
    with tuned(tuning):
        engine = in_segments(enumerate(chosen))
    for n in gone & set(range(len(chosen))):
        engine.remove(n)
    for name, holds in RELATIONS.items():
        expected = [n for n, f in enumerate(chosen) if n not in gone and holds(asked, f)]
        assert sorted(getattr(engine, name)(asked)) == expected, name
