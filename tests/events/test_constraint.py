"""Constraints as sums over domains, and a new class of constraints that nobody else knows of."""

from __future__ import annotations

import math
import pickle
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest

from tidings import Filter, FilterError, Notification, Schema
from tidings.events import ABSENT, Constraint, Domain, constraint, register, values
from tidings.events.constraint import ABSENCE, EVERYTHING, EXISTS
from tidings.events.intervals import NUMBERS, Intervals
from tidings.events.phrases import Phrase, all_of, name_text

parse = Filter.parse


# -- a domain of one's own: points in the plane, and rectangles over them ----------------------


class Point(NamedTuple):
    x: float
    y: float


Ends = tuple[float, float, float, float]
"""Left, bottom, right, top; all of them belong to the rectangle."""

PLANE: Ends = (-math.inf, -math.inf, math.inf, math.inf)
NOWHERE: Ends = (0, 0, -1, -1)


def common(one: Ends, other: Ends) -> Ends:
    return (*map(max, one[:2], other[:2]), *map(min, one[2:], other[2:]))


@dataclass(frozen=True)
class Region:
    """A rectangle without the holes in it, which are rectangles too."""

    ends: Ends = PLANE
    holes: frozenset[Ends] = frozenset()

    domain = "point"

    @property
    def is_empty(self) -> bool:
        left, bottom, right, top = self.ends
        return (
            left > right
            or bottom > top
            or any(common(h, self.ends) == self.ends for h in self.holes)
        )

    @property
    def is_full(self) -> bool:
        return self == Region()

    def matches(self, value: Point) -> bool:
        here = (*value, *value)
        return common(here, self.ends) == here and not any(
            common(here, h) == here for h in self.holes
        )

    def covers(self, other: Region) -> bool:
        """Safe: it asks that one hole of the other explains each of ours."""
        return other.is_empty or (
            common(self.ends, other.ends) == other.ends
            and all(Region(common(mine, other.ends), other.holes).is_empty for mine in self.holes)
        )

    def overlaps(self, other: Region) -> bool:
        return not self.intersect(other).is_empty

    def intersect(self, other: Region) -> Region:
        return Region(common(self.ends, other.ends), self.holes | other.holes)

    def union(self, other: Region) -> Region | None:
        if self.covers(other) or other.covers(self):
            return self if self.covers(other) else other
        (left, bottom, right, top), (a, b, c, d) = sorted((self.ends, other.ends))
        if not self.holes and not other.holes and (bottom, top) == (b, d) and a <= right:
            return Region((left, bottom, max(right, c), top))
        return None

    def complement(self) -> tuple[Region, ...]:
        outside = () if self.ends == PLANE else (Region(holes=frozenset({self.ends})),)
        return (*outside, *map(Region, sorted(self.holes)))

    def phrase(self, name: str) -> Phrase:
        ends = () if self.ends == PLANE else self.ends
        said = [("WITHIN", ends)] if ends or not self.holes else []
        said += [("NOT WITHIN", hole) for hole in sorted(self.holes)]
        return all_of(
            Phrase(f"{name_text(name)} {word} ({', '.join(map(str, ends))})") for word, ends in said
        )

    def example(self) -> Point | None:
        corner = Point(*self.ends[:2])
        return corner if self.ends != PLANE and self.matches(corner) else None

    def to_plain(self) -> Any:
        return {"ends": [] if self.ends == PLANE else self.ends, "holes": sorted(self.holes)}

    @classmethod
    def from_plain(cls, plain: Any) -> Region:
        return cls(tuple(plain["ends"]) or PLANE, frozenset(map(tuple, plain["holes"])))

    @classmethod
    def within(cls, *ends: float) -> Region:
        if len(ends) not in (0, 4):
            raise ValueError("needs the left, lower, right and upper end, or none of them")
        if not all(isinstance(end, int | float) for end in ends):
            raise TypeError("takes numbers")
        return cls(ends or PLANE)


@pytest.fixture
def points(monkeypatch):
    """Points are a domain while the test runs."""
    monkeypatch.setattr(values, "_DOMAIN_OF", dict(values._DOMAIN_OF))
    for name in list(constraint.DOMAINS):
        monkeypatch.setitem(constraint.DOMAINS, name, constraint.DOMAINS[name])
    domain = Domain(
        everything=Region(),
        nothing=Region(NOWHERE),
        from_plain=lambda plain, types: Region.from_plain(plain),
        operators={"WITHIN": Region.within},
    )
    monkeypatch.setitem(constraint.DOMAINS, "point", domain)
    register("point", Point, domain)


@pytest.mark.usefixtures("points")
class TestANewDomain:
    def test_its_operator_matches_its_values_only(self):
        found = parse("place WITHIN (0, 0, 2, 2)")
        assert found.matches(Notification({"place": Point(1, 2)}))
        assert not found.matches(Notification({"place": Point(1, 3)}))
        assert not found.matches(Notification({"place": 1}))
        assert not found.matches(Notification({}))

    def test_it_is_written_and_read(self):
        found = parse("place within (0, 0, 2, 2) AND price < 5 OR NOT EXISTS place")
        assert str(found) == "NOT EXISTS place OR place WITHIN (0, 0, 2, 2) AND price < 5"
        assert parse(str(found)) == found
        assert Filter.from_json(found.to_json()) == found
        assert pickle.loads(pickle.dumps(found)) == found

    def test_it_has_the_whole_algebra(self):
        large, small = parse("place WITHIN (0, 0, 9, 9)"), parse("place WITHIN (1, 1, 2, 2)")
        apart = parse("place WITHIN (5, 5, 6, 6)")
        assert large.covers(small)
        assert not small.covers(large)
        assert not small.overlaps(apart)
        assert small.intersect(apart) == Filter.none()
        assert large.intersect(small) == small
        assert large.merge(small) == large
        assert small.merge(apart) is None
        assert parse("EXISTS place").covers(large)
        assert not parse("place IS NUMBER").overlaps(large)
        halves = parse("place WITHIN (0, 0, 1, 2) OR place WITHIN (1, 0, 2, 2)")
        assert halves == parse("place WITHIN (0, 0, 2, 2)")
        mixed = parse("place WITHIN (0, 0, 1, 1) OR place = 'here' OR NOT EXISTS place")
        assert len(mixed.conjunctions) == 1
        assert parse("place WITHIN () AND place WITHIN (0, 0, 1, 1)").matches(
            Notification({"place": Point(0, 0)})
        )

    def test_a_wrong_use_of_its_operator_is_an_error_at_its_place(self):
        with pytest.raises(FilterError) as caught:
            parse("a = 1 AND place WITHIN (1, 2)")
        assert (caught.value.line, caught.value.column) == (1, 24)
        assert caught.value.reason.startswith("WITHIN: needs the left")
        with pytest.raises(FilterError, match="WITHIN: takes numbers"):
            parse("place WITHIN (1, 'a', 2, 3)")

    def test_it_can_be_negated(self):
        outside = parse("NOT place WITHIN (0, 0, 2, 2)")
        assert outside == parse("place NOT WITHIN (0, 0, 2, 2)")
        assert not outside.matches(Notification({"place": Point(1, 1)}))
        assert outside.matches(Notification({"place": Point(3, 1)}))
        assert not outside.matches(Notification({"place": 5}))
        assert not outside.matches(Notification({}))
        assert outside.covers(parse("place WITHIN (3, 3, 4, 4)"))
        assert not outside.overlaps(parse("place WITHIN (1, 1, 2, 2)"))
        ring = parse("place WITHIN (0, 0, 9, 9) AND place NOT WITHIN (1, 1, 2, 2)")
        for found in (outside, ring, parse("NOT (place WITHIN (0, 0, 9, 9) AND price < 5)")):
            assert parse(str(found)) == found
            assert Filter.from_json(found.to_json()) == found

    def test_it_may_be_declared(self):
        schema = Schema({"place": "point"})
        schema.check(Notification({"place": Point(0, 0)}))
        with pytest.raises(FilterError, match="place is declared point, this is a number"):
            Filter.parse("place = 5", schema=schema)

    def test_one_type_of_values_is_one_domain(self):
        with pytest.raises(ValueError, match="already are the domain point"):
            register("spot", Point, constraint.DOMAINS["point"])


def test_without_its_registration_the_operator_is_unknown():
    with pytest.raises(FilterError, match="'WITHIN' is no operator"):
        parse("place WITHIN (0, 0, 2, 2)")


# -- sums over domains -----------------------------------------------------------------------


def test_everything_existence_and_absence():
    assert EVERYTHING.is_full
    assert EXISTS.union(ABSENCE) == EVERYTHING
    assert EXISTS.intersect(ABSENCE).is_empty
    assert not EXISTS.overlaps(ABSENCE)
    assert EVERYTHING.covers(EXISTS)
    assert not EXISTS.covers(ABSENCE)
    assert EXISTS.matches([{"carried": 1}])
    assert ABSENCE.matches(ABSENT)
    assert repr(ABSENT) == "ABSENT"


def test_a_full_part_of_every_domain_is_still_less_than_existence():
    """Values that are merely carried belong to no domain, but they exist."""
    domains = " OR ".join(f"x IS {d.upper()}" for d in constraint.DOMAINS)
    assert parse("EXISTS x").covers(parse(domains))
    assert parse(domains) != parse("EXISTS x")
    assert not parse(domains).matches(Notification({"x": [{"a": 1}]}))


def test_domains_are_listed_only_where_they_differ():
    five = Intervals.point(NUMBERS, 5)
    assert Constraint({"number": Intervals.nothing(NUMBERS)}).is_empty
    assert Constraint({"number": Intervals.everything(NUMBERS)}, others=True) == EXISTS
    assert Constraint.of(five) == Constraint({"number": five})
    assert Constraint.of(Intervals.nothing(NUMBERS)).is_empty


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("NOT EXISTS x OR x = 1", "NOT EXISTS x OR x = 1"),
        ("x IS NOT NUMBER OR x = 1", "x IS NOT NUMBER OR x = 1"),
        ("x IS NOT NUMBER AND x IS NOT STRING", "x IS NOT NUMBER AND x IS NOT STRING"),
        ("x = 'a' OR x = 1 OR x", "x = TRUE OR x = 1 OR x = 'a'"),
        ("x IS NOT SET OR x = 1 OR x IS NULL", "NOT EXISTS x OR x IS NOT SET"),
    ],
)  # fmt: skip
def test_a_constraint_over_several_domains_has_one_text(text, canonical):
    assert str(parse(text)) == canonical
    assert len(parse(text).conjunctions) == 1


@pytest.mark.parametrize(
    "text",
    [
        *("x = 1 OR x = 'a'", "x IS NOT STRING", "NOT EXISTS x"),
        "x IS NOT STRING AND x IS NOT NUMBER",
    ],
)
def test_a_constraint_gives_an_example_of_itself(text):
    found = parse(text).conjunctions[0]["x"]
    assert found.matches(found.example())


def test_repr_says_what_it_is():
    assert repr(EVERYTHING) == "<Constraint anything>"
    assert repr(Constraint({})) == "<Constraint nothing>"
    assert repr(parse("y > 1").conjunctions[0]["y"]) == "<Constraint x > 1>"
