"""The parts beneath: forms, reaches, trees."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from tests.routing.strategies import anything
from tidings.events import Conjunction, Constraint, Filter
from tidings.events.intervals import NUMBERS, Intervals
from tidings.routing.forms import Forms, is_single, reach
from tidings.routing.joins import union_of
from tidings.routing.tree import JoinTree

conjunctions = st.lists(anything, max_size=30).map(
    lambda filters: list(dict.fromkeys(c for f in filters for c in f.conjunctions))
)


def constraint(text: str) -> Constraint:
    (conjunction,) = Filter.parse(text).conjunctions
    return conjunction["x"]


@given(conjunctions, anything)
def test_forms_find_what_covers_and_what_is_covered(some: list[Conjunction], asked: Filter) -> None:
    forms = Forms()
    for each in some:
        forms.add(each)
    for each in [*asked.conjunctions, *some[:3]]:
        assert set(forms.covering(each)) == {c for c in some if c.covers(each)}
        assert set(forms.covered(each)) == {c for c in some if each.covers(c)}
    for each in some:
        forms.remove(each)
    assert not list(forms.covering(Conjunction({})))
    assert not forms.covered(Conjunction({}))


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
    for text in ("a > 10", "s = 'X'", "s = 'X' AND t = 'Y'", "b = 1", "s LIKE 'X%'"):
        (each,) = Filter.parse(text).conjunctions
        assert set(forms.covered(each)) == {c for c in some if each.covers(c)}


@given(anything, anything)
def test_reaches_lie_within_each_other_where_constraints_do(one: Filter, other: Filter) -> None:
    for a in one.conjunctions:
        for b in other.conjunctions:
            for name in a.constraints.keys() & b.constraints.keys():
                (low, high), (first, last) = reach(a[name]), reach(b[name])
                assert not a[name].covers(b[name]) or (low <= first and last <= high)
                assert not is_single(a[name]) or a[name] == b[name] or not a[name].covers(b[name])


def test_single_values_are_recognised_in_every_domain() -> None:
    for text in ("= 1", "= ''", "= 'a'", "= false", "= true", "= x'00'", "= x''"):
        assert is_single(constraint(f"x {text}")), text
    assert is_single(constraint("x = TIMESTAMP '2026-11-15T12:00:00Z'"))
    assert is_single(constraint("NOT EXISTS x"))
    for text in ("< 1", "IN (1, 2)", "!= 1", "LIKE 'a%'", "LIKE '%a'", "IS BOOLEAN", "CONTAINS 1"):
        assert not is_single(constraint(f"x {text}")), text
    for text in ("x = 1 OR x = 'a'", "x = 1 OR NOT EXISTS x", "EXISTS x", "x >= 1 AND x <= 2"):
        assert not is_single(constraint(text)), text


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 15), st.integers(0, 15)), max_size=80))
def test_a_tree_holds_the_union_of_its_leaves(steps: list[tuple[bool, int, int]]) -> None:
    tree, held = JoinTree(union_of), list[Constraint]()
    for adds, low, high in steps:
        if adds or not held:
            each = Constraint.of(Intervals.between(NUMBERS, min(low, high), max(low, high)))
            held.append(each)
            tree.add(each)
        else:
            tree.remove(held.pop(low % len(held)))
        union = None
        for each in held:
            union = each if union is None else union_of(union, each)
        assert tree.root == union
        assert len(tree) == len(set(held))
