"""Lines: constraints and values as 64-bit keys.

Every attribute has a line for each domain its constraints speak about, and every ordered
constraint is a list of cuts on its line. A value has passed a cut iff the cut's key is not
greater than the value's. Keys of numbers are the bits of their floats in numeric order, so that
"after v" is simply the next key; times count microseconds; truths are 0 and 1.

Strings and byte strings are interned, and so are numbers that a float may not hold exactly (from
2**53 on). Until a segment is built, their *codes* only tell which value it is; the segment then
ranks the values that occur in it, and the r-th has the key `2 * r + 1`: the keys around it are
for all that lies between it and its neighbours.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from datetime import datetime
from operator import eq
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from tidings.events.conjunction import Conjunction
from tidings.events.constraint import Constraint
from tidings.events.intervals import AFTER, BEFORE, ORDERS, Intervals
from tidings.events.sets import Sets
from tidings.events.strings import IsA, Strings
from tidings.events.values import (
    BOOLEAN,
    BYTES,
    EPOCH,
    MICROSECOND,
    NUMBER,
    STRING,
    TIME,
    microseconds,
)

BIG: Final = 2**53
"""Numbers from this one on are interned: a float can't tell them apart from their neighbours."""
BIG_KEY: Final[int] = struct.unpack("<q", struct.pack("<d", float(BIG)))[0]

_ZERO: Final[dict[str, Any]] = {STRING: "\0", BYTES: b"\0"}
_INTERNED: Final = frozenset(_ZERO)
_ELEMENT: Final = "element"
_AROUND: Final = (BEFORE, AFTER)
_FEW: Final = 64
"""A list of points longer than this is no way to find a filter."""

_bits = struct.Struct("<q").unpack
_float = struct.Struct("<d").pack


def number_key(value: float) -> int:
    """The key of a number below BIG; see `kernels._number_key`."""
    bits: int = _bits(_float(value))[0]
    return bits if bits >= 0 else -(bits & 0x7FFFFFFFFFFFFFFF)


def number_keys(values: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """The keys of many numbers, which are all below BIG."""
    bits = values.view(np.int64)
    return np.where(bits >= 0, bits, -(bits & 0x7FFFFFFFFFFFFFFF))


Condition: TypeAlias = tuple[int, bool, Sequence[int] | None, Sequence[float], Sequence[int]]
"""One ordered constraint: its line; whether it holds at the low end; the codes of its cuts, or None
and the numbers whose keys are the codes; their sides. (A bare tuple of what is quickest to make: a
million are made when a million filters are added.)"""


class Line(NamedTuple):
    """One domain of one attribute."""

    number: int
    attribute: str
    domain: str
    elements: bool
    """Whether the keys are elements of a set-valued attribute, of which an event has several."""

    @property
    def is_interned(self) -> bool:
        """Whether codes are numbers of interned values."""
        return self.elements or self.domain in _INTERNED


class Lines:
    """All lines of an index, and the values interned for them. Both only ever grow."""

    def __init__(self) -> None:
        self.lines: list[Line] = []
        self.by_attribute: dict[str, dict[type, Line]] = {}
        """For an attribute's name and a value's type, the line."""
        self._numbers: dict[tuple[str, str, bool], int] = {}
        self.interned: list[Any] = []
        self._ids: dict[Any, int] = {}

    def new_line(self, attribute: str, domain: str, *, elements: bool) -> int:
        """Add a line that is not there yet; its number."""
        line = Line(len(self.lines), attribute, domain, elements)
        self.lines.append(line)
        self._numbers[attribute, domain, elements] = line.number
        types = self.by_attribute.setdefault(attribute, {})
        for kind in (frozenset,) if elements else _TYPES[domain]:
            types[kind] = line
        return line.number

    def intern(self, value: Any) -> int:
        """The number of an interned value."""
        number = self._ids.get(value)
        if number is None:
            number = self._ids[value] = len(self.interned)
            self.interned.append(value)
        return number

    def with_interned(self, numbers: list[int]) -> Lines:
        """These lines with only some of the interned values, renumbered in the given order."""
        fewer = Lines()
        fewer.lines, fewer.by_attribute, fewer._numbers = (
            self.lines,
            self.by_attribute,
            self._numbers,
        )
        for number in numbers:
            fewer.intern(self.interned[number])
        return fewer

    # -- constraints ---------------------------------------------------------------------------

    def conditions(
        self, conjunction: Conjunction
    ) -> tuple[list[Condition], list[tuple[str, Constraint]]]:
        """A conjunction as conditions on lines, and the constraints they don't fully express.

        The conditions admit at least what the conjunction admits.
        """
        found: list[Condition] = []
        rest: list[tuple[str, Constraint]] = []
        for name, constraint in conjunction.constraints.items():
            parts = constraint.parts
            if len(parts) != 1 or constraint.absent or constraint.others:
                rest.append((name, constraint))
                continue
            ((domain, part),) = parts.items()
            if part.__class__ is Strings:
                if part.passing or part.failing:
                    rest.append((name, constraint))
                    part = _without_tests(part)
                part = part.intervals
            if part.__class__ is Intervals:
                line = self._numbers.get((name, domain, False))
                if line is None:
                    line = self.new_line(name, domain, elements=False)
                found.append(self._condition(line, domain, part))
            else:
                rest.append((name, constraint))
                if isinstance(part, Sets):
                    found.extend(self._element_condition(name, part))
        return found, rest

    def _condition(self, line: int, domain: str, intervals: Intervals) -> Condition:
        inside, cuts = intervals.inside, intervals.cuts
        if not cuts:
            return line, inside, (), (), ()
        if domain == STRING and len(cuts) == 2 and cuts[1][0] == cuts[0][0] + "\0":
            code = self.intern(cuts[0][0])
            return line, inside, (code, code), (), _AROUND
        values, sides = zip(*cuts, strict=True)
        if domain == NUMBER:
            if values[0] > -BIG and values[-1] < BIG:
                return line, inside, None, values, sides
            codes = [number_key(v) if -BIG < v < BIG else self._big(v) for v in values]
            return line, inside, codes, (), sides
        if domain in _INTERNED:
            return line, inside, *self._interned_cuts(values, _ZERO[domain])
        if domain == TIME:
            return line, inside, [microseconds(v) for v in values], (), sides
        truth = int(not inside)  # just one of FALSE and TRUE, as a point
        return line, False, (truth, truth), (), _AROUND

    def _interned_cuts(
        self, values: Sequence[Any], zero: Any
    ) -> tuple[Sequence[int], Sequence[float], Sequence[int]]:
        """Codes and sides; the order spells "after v" as "before v and a zero"."""
        if len(values) % 2 == 0:
            firsts = values[::2]
            if all(map(eq, [v + zero for v in firsts], values[1::2])):
                numbers = [self.intern(v) for v in firsts]
                return [n for n in numbers for _ in _AROUND], (), _AROUND * len(firsts)
        places = [(v[:-1], AFTER) if v.endswith(zero) else (v, BEFORE) for v in values]
        return [self.intern(v) for v, _ in places], (), [side for _, side in places]

    def _big(self, value: Any) -> int:
        code: int = BIG_KEY + 1 + self.intern(value)
        return code if value > 0 else -code

    def _element_condition(self, name: str, sets: Sets) -> Iterable[Condition]:
        """A set that must hold one of a few elements can be found by each of them."""
        groups = [frozenset({e}) for e in sets.lower]
        groups += [h.listed for h in sets.hits if not h.others and len(h.listed) <= _FEW]
        if groups:
            number = self._numbers.get((name, _ELEMENT, True))
            line = self.new_line(name, _ELEMENT, elements=True) if number is None else number
            codes = sorted(self.intern(e) for e in min(groups, key=len) for _ in (BEFORE, AFTER))
            yield line, False, codes, (), _AROUND * (len(codes) // 2)

    # -- and back ------------------------------------------------------------------------------

    def constraint(
        self, line: int, inside: bool, codes: Sequence[int], sides: Sequence[int]
    ) -> Constraint:
        """The constraint that a condition expresses."""
        domain = self.lines[line].domain
        order = ORDERS[domain]
        if domain == BOOLEAN:
            points = [bool(code) for code in codes[::2]]
            whole = Intervals.everything(order)
            return Constraint.of(Intervals.points(order, points) if points else whole)
        values = [self._value(domain, code) for code in codes]
        cuts = [order.cut(v, side) for v, side in zip(values, sides, strict=True)]
        intervals = Intervals(order, inside, tuple(cuts))  # type: ignore[arg-type]  # none is an end
        return Constraint.of(Strings(intervals) if domain == STRING else intervals)

    def _value(self, domain: str, code: int) -> Any:
        if domain in _INTERNED:
            return self.interned[code]
        if domain == TIME:
            return EPOCH + code * MICROSECOND
        if abs(code) > BIG_KEY:
            return self.interned[abs(code) - BIG_KEY - 1]
        bits = code if code >= 0 else -code | -(2**63)
        return _unfloat(_unbits(bits))[0]


_unfloat = struct.Struct("<d").unpack
_unbits = struct.Struct("<q").pack

_TYPES: Final[dict[str, tuple[type, ...]]] = {
    BOOLEAN: (bool,),
    NUMBER: (int, float),
    STRING: (str,),
    TIME: (datetime,),
    BYTES: (bytes,),
}


def _without_tests(part: Strings) -> Strings:
    """The intervals alone; a type's own names where the test is membership in a type."""
    for test in part.passing:
        if isinstance(test, IsA):
            names = [name for name in {test.name, *test.types.parents} if test.matches(name)]
            if len(names) <= _FEW:
                points = Intervals.points(ORDERS[STRING], names)
                return Strings(part.intervals.intersect(points))
    return Strings(part.intervals)
