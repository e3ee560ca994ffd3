"""Constraints as numbers: they relate wherever the constraints do."""

from __future__ import annotations

from itertools import product

from hypothesis import given

from tests.routing.strategies import anything
from tidings.events import Constraint, Filter
from tidings.routing.joins import cover_of
from tidings.routing.reaches import is_single, mark, reach


def constraint(text: str) -> Constraint:
    (conjunction,) = Filter.parse(text).conjunctions
    return conjunction["x"]


@given(anything, anything)
def test_reaches_lie_within_each_other_where_constraints_do(one: Filter, other: Filter) -> None:
    for a in one.conjunctions:
        for b in other.conjunctions:
            for name in a.constraints.keys() & b.constraints.keys():
                (low, high), (first, last) = reach(a[name]), reach(b[name])
                assert not a[name].covers(b[name]) or (low <= first and last <= high)
                assert not is_single(a[name]) or a[name] == b[name] or not a[name].covers(b[name])


_CONSTRAINTS = [
    *(
        "x = 1",
        "x IN (1, 2)",
        "x IN (1, 2, 65)",
        "x IN (0, 1) OR x = 'a'",
        "x BETWEEN 1 AND 2",
        "x < 3",
    ),
    *("x = 'a'", "x = ''", "x IN ('a', '')", "x IN ('a', 'b')", "x IN ('a', 'b', 'c')", "x < 'c'"),
    *("x LIKE 'a%'", "x LIKE '%a'", "x = 'a long text' OR x = 'a long tale'", "x LIKE 'a long%'"),
    *("NOT EXISTS x", "NOT EXISTS x OR x BETWEEN 0 AND 5", "NOT EXISTS x OR x = 'a'", "EXISTS x"),
    *("x IS NUMBER", "x IS NOT NUMBER", "x IS STRING", "x IS BOOLEAN", "x = true", "x CONTAINS 1"),
    *(f"x < {10**400}", f"x > {-(10**400)} AND x < 0", "x < 9007199254740993", "x OVERLAPS (1, 2)"),
    *("x < x'ff'", "x = x'00'", "x IN (x'00', x'01')", "x > TIMESTAMP '2026-11-15T12:00:00Z'"),
    *("x = TIMESTAMP '2026-11-15T12:00:00.000001Z'", "x IS TIME", "x IS BYTES", "x NOT IN (1, 2)"),
]


def test_reaches_and_marks_lie_within_each_other_where_constraints_do() -> None:
    all_of_them = [constraint(text) for text in _CONSTRAINTS]
    for one in all_of_them:
        for other in all_of_them:
            if one.covers(other):
                assert reach(one)[0] <= reach(other)[0]
                assert reach(one)[1] >= reach(other)[1]
                assert mark(other) & ~mark(one) == 0


def test_reaches_and_marks_meet_where_constraints_do() -> None:
    for one, other in product([constraint(text) for text in _CONSTRAINTS], repeat=2):
        if one.overlaps(other):
            assert reach(one)[0] <= reach(other)[1]
            assert mark(one) & mark(other)


def test_the_cover_of_several_constraints_covers_each_and_depends_on_no_order() -> None:
    all_of_them = [constraint(text) for text in _CONSTRAINTS]
    for one, other in product(all_of_them, repeat=2):
        cover = cover_of(one, other)
        assert cover.covers(one)
        assert cover.covers(other)
        assert cover == cover_of(other, one)
        third = all_of_them[(len(repr(one)) + len(repr(other))) % len(all_of_them)]
        assert cover_of(cover, third) == cover_of(one, cover_of(other, third))


def test_single_values_are_recognised_in_every_domain() -> None:
    for text in ("= 1", "= ''", "= 'a'", "= false", "= true", "= x'00'", "= x''"):
        assert is_single(constraint(f"x {text}")), text
    assert is_single(constraint("x = TIMESTAMP '2026-11-15T12:00:00Z'"))
    assert is_single(constraint("NOT EXISTS x"))
    for text in ("< 1", "IN (1, 2)", "!= 1", "LIKE 'a%'", "LIKE '%a'", "IS BOOLEAN", "CONTAINS 1"):
        assert not is_single(constraint(f"x {text}")), text
    for text in ("x = 1 OR x = 'a'", "x = 1 OR NOT EXISTS x", "EXISTS x", "x >= 1 AND x <= 2"):
        assert not is_single(constraint(text)), text
