"""The index of conjunctions finds what the algebra says of each."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from tests.routing.strategies import anything
from tidings.events import Conjunction, Filter
from tidings.routing.conjunction_index import ConjunctionIndex

conjunctions = st.lists(anything, max_size=30).map(
    lambda filters: list(dict.fromkeys(c for f in filters for c in f.conjunctions))
)


@given(conjunctions, anything)
def test_it_finds_what_covers_what_is_covered_and_what_overlaps(
    some: list[Conjunction], asked: Filter
) -> None:
    index = ConjunctionIndex()
    for each in some:
        index.add(each)
    for each in [*asked.conjunctions, *some[:3]]:
        assert set(index.covering(each)) == {c for c in some if c.covers(each)}
        assert set(index.covered(each)) == {c for c in some if each.covers(c)}
        assert set(index.overlapping(each)) == {c for c in some if c.overlaps(each)}
    for each in some:
        index.remove(each)
    assert not list(index.covering(Conjunction({})))
    assert not index.covered(Conjunction({}))
    assert not list(index.overlapping(Conjunction({})))


def test_large_forms_find_the_same_after_many_removals() -> None:
    chance = Random(0)

    def drawn() -> Conjunction:
        low, high = sorted(chance.sample(range(60), 2))
        first, last = sorted(chance.sample(range(60), 2))
        text = f"a BETWEEN {low} AND {high} AND b BETWEEN {first} AND {last}"
        if chance.random() < 0.7:
            text += f" AND s = '{chance.choice('XY')}'"
        if chance.random() < 0.4:
            text += f" AND t = '{chance.choice('XY')}'"
        return Filter.parse(text).conjunctions[0]

    some = list(dict.fromkeys(drawn() for _ in range(600)))
    index = ConjunctionIndex()
    for each in some:
        index.add(each)
    chance.shuffle(some)
    for each in some[200:]:
        index.remove(each)
    some = some[:200]
    for _ in range(60):
        each = drawn()
        assert set(index.covering(each)) == {c for c in some if c.covers(each)}
        assert set(index.covered(each)) == {c for c in some if each.covers(c)}
        assert set(index.overlapping(each)) == {c for c in some if c.overlaps(each)}
    for text in ("a > 10", "s = 'X'", "s = 'X' AND t = 'Y'", "b = 1", "s LIKE 'X%'"):
        (each,) = Filter.parse(text).conjunctions
        assert set(index.covered(each)) == {c for c in some if each.covers(c)}
        assert set(index.overlapping(each)) == {c for c in some if c.overlaps(each)}


def test_large_forms_of_lists_find_the_same() -> None:
    chance = Random(1)

    def drawn() -> Conjunction:
        values = ", ".join(map(str, chance.sample(range(12), chance.randrange(1, 9))))
        return Filter.parse(f"a IN ({values}) AND b < {chance.randrange(5)}").conjunctions[0]

    some = list(dict.fromkeys(drawn() for _ in range(150)))
    index = ConjunctionIndex()
    for each in some:
        index.add(each)
    for each in [drawn() for _ in range(60)]:
        assert set(index.covering(each)) == {c for c in some if c.covers(each)}
        assert set(index.covered(each)) == {c for c in some if each.covers(c)}
        assert set(index.overlapping(each)) == {c for c in some if c.overlaps(each)}
