"""Sets: exact against all subsets of a few elements and one stranger."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings import Filter, Notification
from tidings.events.sets import Elements, Sets
from tidings.events.values import element

KNOWN = ["a", "b", 1, True]
ALL = [
    frozenset(map(element, group))
    for n in range(6)
    for group in combinations([*KNOWN, "stranger"], n)
]
EACH = [element(e) for e in [*KNOWN, "stranger"]]

groups = st.lists(st.sampled_from(KNOWN), max_size=4)
simple = st.one_of(
    st.builds(Sets.superset, groups),
    st.builds(Sets.subset, groups),
    st.builds(Sets.disjoint, groups),
    st.builds(Sets.overlapping, groups),
    st.builds(
        lambda g: Sets(hits=[Elements(map(element, g), others=True)]), groups
    ),  # NOT SUBSET OF
)
sets = st.recursive(simple, lambda inner: st.builds(Sets.intersect, inner, inner), max_leaves=5)
elements = st.builds(
    lambda g, others: Elements(map(element, g), others=others), groups, st.booleans()
)


def members(found):
    return {s for s in ALL if found.matches(s)}


@given(sets, sets)
def test_the_algebra_is_exact(one, other):
    a, b = members(one), members(other)
    assert members(one.intersect(other)) == a & b
    assert one.covers(other) == (a >= b)
    assert one.overlaps(other) == bool(a & b)
    assert (one == other) == (a == b)
    assert one.is_empty == (not a)
    assert one.is_full == (a == set(ALL))
    if one == other:
        assert hash(one) == hash(other)


@given(sets, sets)
def test_a_union_is_exact_where_there_is_one(one, other):
    union = one.union(other)
    assert union == other.union(one)
    if union is not None:
        assert members(union) == members(one) | members(other)


@given(sets)
def test_the_complement_is_the_rest(one):
    assert {s for part in one.complement() for s in members(part)} == set(ALL) - members(one)
    if not one.is_empty:
        assert one.matches(one.example())
        assert Sets.from_plain(one.to_plain()) == one


@given(elements, elements)
def test_elements_are_exact(one, other):
    a, b = ({e for e in EACH if e in found} for found in (one, other))
    assert {e for e in EACH if e in one & other} == a & b
    assert {e for e in EACH if e in one | other} == a | b
    assert {e for e in EACH if e in one.inverse()} == set(EACH) - a
    assert (one <= other) == (a <= b)
    assert bool(one) == bool(a)
    assert (one == other) == (a == b)
    for subset in ALL:
        assert one.touches(subset) == bool(a & subset)


def test_one_and_true_are_two_elements():
    both = Filter.parse("x SUPERSET OF (1, TRUE)")
    assert both.matches(Notification({"x": [1, True]}))
    assert not both.matches(Notification({"x": [1]}))
    assert not both.matches(Notification({"x": [True]}))
    assert Filter.parse("x CONTAINS 1").matches(Notification({"x": [1.0]}))


@pytest.mark.parametrize(
    ("one", "other", "merger"),
    [
        ("x OVERLAPS (1, 2)", "x OVERLAPS (2, 3)", "x OVERLAPS (1, 2, 3)"),
        ("x CONTAINS 1", "x CONTAINS 2", "x OVERLAPS (1, 2)"),
        ("x CONTAINS 1", "x NOT CONTAINS 1", "x IS SET"),
        ("x SUBSET OF (1)", "x NOT SUBSET OF (1)", "x IS SET"),
        ("x OVERLAPS (1, 2)", "x DISJOINT FROM (1, 2)", "x IS SET"),
        ("x SUPERSET OF (1, 2)", "x CONTAINS 1 AND x NOT CONTAINS 2", "x CONTAINS 1"),
        ("x SUBSET OF (1)", "x SUBSET OF (1, 2)", "x SUBSET OF (1, 2)"),
        ("x SUBSET OF (1)", "x SUBSET OF (2)", None),
        ("x SUPERSET OF (1, 2)", "x SUPERSET OF (3, 4)", None),
        ("x DISJOINT FROM (1)", "x DISJOINT FROM (2)", None),
    ],
)
def test_mergers_of_sets(one, other, merger):
    expected = None if merger is None else Filter.parse(merger)
    assert Filter.parse(one).merge(Filter.parse(other)) == expected


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("x OVERLAPS ()", "FALSE"),
        ("x SUPERSET OF ()", "x IS SET"),
        ("x DISJOINT FROM ()", "x IS SET"),
        ("x SUBSET OF ()", "x SUBSET OF ()"),
        ("x SUBSET OF (1, 2) AND x DISJOINT FROM (2)", "x SUBSET OF (1)"),
        ("x OVERLAPS (1, 2) AND x NOT CONTAINS 1", "x CONTAINS 2 AND x NOT CONTAINS 1"),
        ("x OVERLAPS (1, 2) AND x OVERLAPS (1, 2, 3)", "x OVERLAPS (1, 2)"),
        ("x CONTAINS 'b' AND x CONTAINS 1 AND x CONTAINS TRUE", "x SUPERSET OF (TRUE, 1, 'b')"),
        ("x NOT SUBSET OF (1)", "x NOT SUBSET OF (1)"),
        ("x NOT SUPERSET OF (1, 2)", "x NOT CONTAINS 1 OR x NOT CONTAINS 2"),
    ],
)
def test_sets_have_one_canonical_text(text, canonical):
    assert str(Filter.parse(text)) == canonical


def test_a_set_of_sets_or_of_infinities_is_refused():
    for items in ([["a"]], [float("inf")]):
        with pytest.raises(ValueError, match=r"scalars|infinity"):
            Sets.superset(items)
