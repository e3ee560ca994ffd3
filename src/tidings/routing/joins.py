"""Joins: the rules by which constraints on one attribute become fewer.

Four ways to join, each a function of the *set* of constraints, whatever their order:

=========  ======================================================================
perfect    `unions` of the algebra; what it joins is exactly the union
span       near intervals become their hull, if that is not much longer than they
closing    what lies between intervals of the union is added, where that is admissible
hull       one constraint that covers all of them
=========  ======================================================================
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from fractions import Fraction
from typing import Any, Final, NamedTuple, TypeAlias

from tidings.events import Conjunction, Constraint, Filter, ValueSet
from tidings.events.constraint import DOMAINS, is_ordered
from tidings.events.intervals import NUMBERS, TIMES, Cut, Intervals
from tidings.events.values import MICROSECOND
from tidings.routing.reaches import is_single, reach
from tidings.routing.statistics import Statistics

MOST_COMPARED: Final = 64
"""A group with more patterns and sets than this leaves them as they are: to find what joins, they
have to be compared pair by pair."""


def is_tame(constraint: Constraint) -> bool:
    """Whether pairwise unions of such constraints always exist, whatever the order."""
    return all(map(is_ordered, constraint.parts.values()))


# -- spans -------------------------------------------------------------------------------------

Stretch = tuple[Cut, Cut]
"""Where a bounded interval begins and ends."""

SPANNED: Final = (NUMBERS, TIMES)
"""The orders in which a length can be computed."""


def stretch_of(constraint: Constraint) -> tuple[str, Stretch] | None:
    """Domain and ends if the constraint is just one bounded interval of numbers or times."""
    if constraint.others or constraint.absent or len(constraint.parts) != 1:
        return None
    ((domain, part),) = constraint.parts.items()
    if not isinstance(part, Intervals) or part.order not in SPANNED:
        return None
    if part.inside or len(part.cuts) != 2:
        return None
    return domain, (part.cuts[0], part.cuts[1])


def constraint_of(domain: str, stretch: Stretch) -> Constraint:
    """The inverse of `stretch_of`."""
    order = NUMBERS if domain == NUMBERS.domain else TIMES
    return Constraint.of(Intervals(order, False, stretch))


def swallows(hull: Stretch, following: Stretch, factor: float) -> bool:
    """Whether `hull` takes in an interval that begins no earlier.

    It does if nothing lies between them, and otherwise if the two together are at most `factor`
    times as long as both lengths added. Lengths are exact, and a missing point has none; so a
    factor of 1 asks that nothing at all lies between.
    """
    if following[0] <= hull[1]:
        return True
    if factor == 1:
        return False
    lengths = _length(*hull) + _length(*following)
    return _length(hull[0], following[1]) <= Fraction(factor) * lengths


def _length(low: Cut, high: Cut) -> Fraction:
    if isinstance(low[0], datetime):
        return Fraction((high[0] - low[0]) // MICROSECOND)
    return Fraction(high[0]) - Fraction(low[0])


# -- gaps --------------------------------------------------------------------------------------


def gaps(part: ValueSet) -> list[Stretch]:
    """What lies between the intervals of numbers or times; nothing does in any other set."""
    if not isinstance(part, Intervals) or part.order not in SPANNED:
        return []
    ends = part.cuts[0 if part.inside else 1 :]
    return list(zip(ends[::2], ends[1::2], strict=False))


def closed(constraint: Constraint, is_small: Callable[[str, Stretch], bool]) -> Constraint:
    """The constraint without those gaps of which `is_small` (domain, gap) says so."""
    parts: dict[str, ValueSet] = {}
    for domain, part in constraint.parts.items():
        gone = {cut for gap in gaps(part) if is_small(domain, gap) for cut in gap}
        if gone:
            assert isinstance(part, Intervals)
            left = tuple(cut for cut in part.cuts if cut not in gone)
            parts[domain] = Intervals(part.order, part.inside, left)
    if not parts:
        return constraint
    return Constraint(
        {**constraint.parts, **parts}, others=constraint.others, absent=constraint.absent
    )


# -- hulls -------------------------------------------------------------------------------------


def cover_of(one: Constraint, other: Constraint) -> Constraint:
    """A constraint that covers both. The order in which several are joined makes no difference:
    sets that are not made of intervals have nothing above them but their whole domain."""
    if one == other:
        return one
    domains = one.parts.keys() | other.parts.keys()
    parts = {d: _cover_of_parts(one.part(d), other.part(d), d) for d in domains}
    return Constraint(parts, others=one.others or other.others, absent=one.absent or other.absent)


def _cover_of_parts(one: Any, other: Any, domain: str) -> ValueSet:
    if one == other or other.is_empty:
        return one  # type: ignore[no-any-return]
    if one.is_empty:
        return other  # type: ignore[no-any-return]
    if is_ordered(one) and is_ordered(other):
        return one.union(other)  # type: ignore[no-any-return]
    return DOMAINS[domain].everything


def union_of(one: Constraint, other: Constraint) -> Constraint:
    """The union of two tame constraints."""
    union = one.union(other)
    assert union is not None
    return union


# -- places ------------------------------------------------------------------------------------

Place: TypeAlias = tuple[Any, ...]


def digest(conjunction: Conjunction) -> str:
    """The key of the filter that is this conjunction: as good as random, the same for ever."""
    return Filter([conjunction]).key


def place(conjunction: Conjunction) -> Place:
    """Where it stands in an order that is the same everywhere and puts like by like: by the
    attributes, then the single values, then where the ranges are."""
    constraints = conjunction.constraints
    values = [c.phrase(name).text for name, c in constraints.items() if is_single(c)]
    reaches = [reach(c) for c in constraints.values() if not is_single(c)]
    return tuple(constraints), tuple(values), tuple(reaches), digest(conjunction)


# -- kept up to date ---------------------------------------------------------------------------

Join = Callable[[Constraint, Constraint], Constraint]


class JoinTree:
    """The join of a multiset of constraints, for a join that depends on no order.

    A balanced binary tree in an array: node k is the join of nodes 2k and 2k + 1, and the leaves
    stand at the end, in whatever order they came. A change renews the nodes above one leaf, and
    stops at the first of them that stays as it was.
    """

    __slots__ = ("_counts", "_free", "_join", "_leaves", "_nodes")

    def __init__(self, join: Join) -> None:
        self._join = join
        self._nodes: list[Constraint | None] = [None, None]
        self._leaves: dict[Constraint, int] = {}
        self._counts: dict[Constraint, int] = {}
        """The number of copies of each constraint that is there more than once."""
        self._free: list[int] = [1]

    def __len__(self) -> int:
        """How many different ones there are."""
        return len(self._leaves)

    @property
    def root(self) -> Constraint | None:
        """The join of all; None if there are none."""
        return self._nodes[1]

    def add(self, constraint: Constraint) -> None:
        if constraint in self._leaves:
            self._counts[constraint] = self._counts.get(constraint, 1) + 1
            return
        if not self._free:
            self._grow()
        leaf = self._leaves[constraint] = self._free.pop()
        self._nodes[leaf] = constraint
        self._renew(leaf)

    def remove(self, constraint: Constraint) -> None:
        count = self._counts.get(constraint, 1)
        if count > 1:
            self._counts[constraint] = count - 1
            return
        self._counts.pop(constraint, None)
        leaf = self._leaves.pop(constraint)
        self._free.append(leaf)
        self._nodes[leaf] = None
        self._renew(leaf)

    def _renew(self, node: int) -> None:
        nodes = self._nodes
        while node > 1:
            node //= 2
            joint = self._joint(node)
            if joint == nodes[node]:
                return
            nodes[node] = joint

    def _joint(self, node: int) -> Constraint | None:
        one, other = self._nodes[2 * node], self._nodes[2 * node + 1]
        if one is None or other is None:
            return one or other
        return self._join(one, other)

    def _grow(self) -> None:
        """Twice the leaves: the old tree becomes the left half of the new one."""
        old, size = self._nodes, len(self._nodes) // 2
        self._nodes = [None] * (4 * size)
        width = 1
        while width <= size:  # level by level: nodes width … 2·width-1 go below node 2
            self._nodes[2 * width : 3 * width] = old[width : 2 * width]
            width *= 2
        self._nodes[1] = old[1]
        self._leaves = {c: leaf + size for c, leaf in self._leaves.items()}
        self._free = list(range(4 * size - 1, 3 * size - 1, -1))


# -- what is learnt ----------------------------------------------------------------------------


class Learnt(NamedTuple):
    """A rule: gaps that at most the `share` of all events falls into, as far as is known.

    Whether `price < 10 OR price > 12` may become `price IS NUMBER` depends on how many events have
    a price from 10 to 12, not on how long that is. Each gap is judged by itself, so the outcome
    depends on nothing but the conjunction; what is already joined is never taken apart.

    >>> from tidings.events import Filter
    >>> from tidings.routing.statistics import Attribute, Distribution
    >>> prices = Attribute(present=1.0, number=Distribution(1.0, (0.0, 1.0, 100.0)))
    >>> rule = Learnt(0.1, Statistics(1000, {"price": prices}))
    >>> apart = Filter.parse("price BETWEEN 1 AND 20 OR price BETWEEN 30 AND 40")
    >>> print(rule.closed(apart.conjunctions[0], "price"))
    price BETWEEN 1 AND 40
    """

    share: float
    statistics: Statistics | None
    """What is known of the events; if it is None, no gap is closed."""

    def closed(self, conjunction: Conjunction, name: str) -> Conjunction:
        """The conjunction, with the small gaps of this attribute closed."""
        constraint = conjunction[name]
        if self.statistics is None or not any(map(gaps, constraint.parts.values())):
            return conjunction
        found = self.statistics.among(name, conjunction.constraints)
        if found is None:
            return conjunction
        known, factor = found

        def is_small(domain: str, gap: Stretch) -> bool:
            return known.between(domain, *gap) * factor <= self.share

        widened = closed(constraint, is_small)
        return conjunction if widened is constraint else conjunction.with_(name, widened)
