"""The parts beneath: forms, reaches, trees."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from tests.routing.strategies import anything
from tidings.events import Conjunction, Filter
from tidings.routing.forms import Forms

conjunctions = st.lists(anything, max_size=30).map(
    lambda filters: list(dict.fromkeys(c for f in filters for c in f.conjunctions))
)


@given(conjunctions, anything)
def test_forms_find_what_covers_what_is_covered_and_what_overlaps(
    some: list[Conjunction], asked: Filter
) -> None:
    forms = Forms()
    for each in some:
        forms.add(each)
    for each in [*asked.conjunctions, *some[:3]]:
        assert set(forms.covering(each)) == {c for c in some if c.covers(each)}
        assert set(forms.covered(each)) == {c for c in some if each.covers(c)}
        assert set(forms.overlapping(each)) == {c for c in some if c.overlaps(each)}
    for each in some:
        forms.remove(each)
    assert not list(forms.covering(Conjunction({})))
    assert not forms.covered(Conjunction({}))
    assert not list(forms.overlapping(Conjunction({})))


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
    forms = Forms()
    for each in some:
        forms.add(each)
    chance.shuffle(some)
    for each in some[200:]:
        forms.remove(each)
    some = some[:200]
    for _ in range(60):
        each = drawn()
        assert set(forms.covering(each)) == {c for c in some if c.covers(each)}
        assert set(forms.covered(each)) == {c for c in some if each.covers(c)}
        assert set(forms.overlapping(each)) == {c for c in some if c.overlaps(each)}
    for text in ("a > 10", "s = 'X'", "s = 'X' AND t = 'Y'", "b = 1", "s LIKE 'X%'"):
        (each,) = Filter.parse(text).conjunctions
        assert set(forms.covered(each)) == {c for c in some if each.covers(c)}
        assert set(forms.overlapping(each)) == {c for c in some if c.overlaps(each)}


def test_large_forms_of_lists_find_the_same() -> None:
    chance = Random(1)

    def drawn() -> Conjunction:
        values = ", ".join(map(str, chance.sample(range(12), chance.randrange(1, 9))))
        return Filter.parse(f"a IN ({values}) AND b < {chance.randrange(5)}").conjunctions[0]

    some = list(dict.fromkeys(drawn() for _ in range(150)))
    forms = Forms()
    for each in some:
        forms.add(each)
    for each in [drawn() for _ in range(60)]:
        assert set(forms.covering(each)) == {c for c in some if c.covers(each)}
        assert set(forms.covered(each)) == {c for c in some if each.covers(c)}
        assert set(forms.overlapping(each)) == {c for c in some if c.overlaps(each)}
