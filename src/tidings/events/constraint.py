"""Constraints: what one attribute may be.

Values come from disjoint domains, and absence is one more value. A constraint is therefore a
sum: for each domain a set of its values, whether values of all other domains are admitted, and
whether the attribute may be absent::

    change < 0                      number: (-∞, 0)
    EXISTS tags                     every domain, all of it
    NOT EXISTS a OR a LIKE 'b%'     absent, or string: ['b', 'c')

Each domain's sets are a class that obeys `ValueSet`; `register` adds another one, and neither
the language nor routing nor matching has to know.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import zip_longest
from typing import Any, Final, NamedTuple, Protocol, Self

from tidings.events.intervals import (
    BOOLEANS,
    BYTE_STRINGS,
    NUMBERS,
    STRINGS,
    TIMES,
    Intervals,
    Order,
)
from tidings.events.phrases import Phrase, all_of, any_of, name_text
from tidings.events.sets import Elements, Sets
from tidings.events.strings import NO_TYPES, IsA, Strings, Types
from tidings.events.values import SET, STRING, domain_of, register_domain
from tidings.events.work import spend


class ValueSet(Protocol):
    """A set of values of one domain: immutable, hashable, equal when canonically equal.

    `matches`, `intersect` and `complement` are exact. `covers` never claims too much and
    `overlaps` never too little; a class states where they are incomplete.
    """

    @property
    def domain(self) -> str: ...
    @property
    def is_empty(self) -> bool: ...
    @property
    def is_full(self) -> bool: ...
    def matches(self, value: Any) -> bool: ...
    def covers(self, other: Self) -> bool: ...
    def overlaps(self, other: Self) -> bool: ...
    def intersect(self, other: Self) -> Self: ...
    def union(self, other: Self) -> Self | None:
        """The union where it is again one such set, else None."""

    def complement(self) -> tuple[Self, ...]:
        """Sets that together are the rest of the domain."""

    def phrase(self, name: str) -> Phrase:
        """Filter text that parses to this set."""

    def example(self) -> Any:
        """Some member, or None if none was found."""

    def to_plain(self) -> Any:
        """In JSON's terms."""


class Domain(NamedTuple):
    """What a domain brings along."""

    everything: ValueSet
    nothing: ValueSet
    from_plain: Callable[[Any, Types], ValueSet]
    operators: Mapping[str, Callable[..., ValueSet]] = {}


def _ordered(order: Order) -> Domain:
    return Domain(
        Intervals.everything(order),
        Intervals.nothing(order),
        lambda plain, types: Intervals.from_plain(order, plain),
    )


DOMAINS: Final[dict[str, Domain]] = {
    **{order.domain: _ordered(order) for order in (BOOLEANS, NUMBERS, TIMES, BYTE_STRINGS)},
    STRING: Domain(
        Strings(Intervals.everything(STRINGS)),
        Strings(Intervals.nothing(STRINGS)),
        Strings.from_plain,
    ),
    SET: Domain(
        Sets(),
        Sets(upper=Elements(()), hits=[Elements(())]),
        lambda plain, types: Sets.from_plain(plain),
    ),
}


def register(name: str, value_type: type, domain: Domain) -> None:
    """Add a domain: values of `value_type`, sets as `domain` makes them.

    Its `operators` join the language: `place WITHIN (1, 2)` calls `operators["WITHIN"](1, 2)`.
    """
    register_domain(name, value_type)
    DOMAINS[name] = domain


class Absent:
    """The value of an attribute that is not there."""

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT: Final = Absent()


class Constraint:
    """A set of values of one attribute. Immutable; equal sets are equal objects."""

    __slots__ = ("_hash", "absent", "others", "parts")

    def __init__(
        self, parts: Mapping[str, ValueSet], *, others: bool = False, absent: bool = False
    ) -> None:
        # A domain is listed only where it differs from `others`.
        self.parts = {
            domain: part
            for domain, part in sorted(parts.items())
            if not (part.is_full if others else part.is_empty)
        }
        self.others = others
        self.absent = absent
        self._hash = hash((tuple(self.parts.values()), others, absent))

    @classmethod
    def of(cls, part: ValueSet) -> Constraint:
        """Present, and in this set."""
        constraint = cls.__new__(cls)
        constraint.parts = {} if part.is_empty else {part.domain: part}
        constraint.others = constraint.absent = False
        constraint._hash = hash((tuple(constraint.parts.values()), False, False))
        return constraint

    @property
    def is_empty(self) -> bool:
        return not self.others and not self.absent and not self.parts

    @property
    def is_full(self) -> bool:
        return self.others and self.absent and not self.parts

    def matches(self, value: object) -> bool:
        """Whether a canonical value, or `ABSENT`, is admitted."""
        if value is ABSENT:
            return self.absent
        part = self.parts.get(domain_of(value))
        return self.others if part is None else part.matches(value)

    def covers(self, other: Constraint) -> bool:
        if (other.absent and not self.absent) or (other.others and not self.others):
            return False
        for domain in self.parts.keys() | other.parts.keys():
            if not self.part(domain).covers(other.part(domain)):
                return False
        return True

    def overlaps(self, other: Constraint) -> bool:
        if (self.absent and other.absent) or (self.others and other.others):
            return True
        return any(
            self.part(domain).overlaps(other.part(domain))
            for domain in self.parts.keys() | other.parts.keys()
        )

    def intersect(self, other: Constraint) -> Constraint:
        return Constraint(
            {
                domain: self.part(domain).intersect(other.part(domain))
                for domain in self.parts.keys() | other.parts.keys()
            },
            others=self.others and other.others,
            absent=self.absent and other.absent,
        )

    def union(self, other: Constraint) -> Constraint | None:
        """The union where every domain's part is again one set, else None."""
        parts: dict[str, ValueSet] = {}
        for domain in self.parts.keys() | other.parts.keys():
            part = self.part(domain).union(other.part(domain))
            if part is None:
                return None
            parts[domain] = part
        return Constraint(
            parts, others=self.others or other.others, absent=self.absent or other.absent
        )

    def values(self, most: int) -> list[Any] | None:
        """The only values that it may admit, if it is about no more than `most` of each domain."""
        if self.absent or self.others:
            return None
        found: list[Any] = []
        for part in self.parts.values():
            intervals = part.intervals if isinstance(part, Strings) else part
            if not isinstance(intervals, Intervals) or len(intervals.cuts) > 2 * most:
                return None
            values = intervals.values()
            if values is None:
                return None
            found += values
        return found

    def part(self, domain: str) -> Any:
        """What it says of one domain."""
        part = self.parts.get(domain)
        if part is None:
            return DOMAINS[domain].everything if self.others else DOMAINS[domain].nothing
        return part

    def phrase(self, name: str) -> Phrase:
        """Filter text that parses to this constraint; it must not be full or empty."""
        spoken = name_text(name)
        choices = [Phrase(f"NOT EXISTS {spoken}")] if self.absent else []
        if self.others:
            except_for = [Phrase(f"{spoken} IS NOT {domain.upper()}") for domain in self.parts]
            choices.append(all_of(except_for or [Phrase(f"EXISTS {spoken}")]))
        choices += [part.phrase(name) for part in self.parts.values() if not part.is_empty]
        return any_of(choices)

    def example(self) -> object:
        """Some admitted value (`ABSENT` if only that is), or None if none was found."""
        for part in self.parts.values():
            value = None if part.is_empty else part.example()
            if value is not None:
                return value
        if self.others:
            free = next((d for d in (STRING, *DOMAINS) if d not in self.parts), None)
            return "anything" if free == STRING else free and DOMAINS[free].everything.example()
        return ABSENT if self.absent else None

    @property
    def types(self) -> Types:
        """The hierarchy that its `IS A` refers to; an empty one if it has none."""
        for part in self.parts.values():
            if isinstance(part, Strings):
                for test in part.passing | part.failing:
                    if isinstance(test, IsA) and len(test.types):
                        return test.types
        return NO_TYPES

    def to_plain(self) -> dict[str, object]:
        """In JSON's terms."""
        plain: dict[str, object] = {d: part.to_plain() for d, part in self.parts.items()}
        if self.others:
            plain["others"] = True
        if self.absent:
            plain["absent"] = True
        return plain

    @classmethod
    def from_plain(cls, plain: Any, types: Types = NO_TYPES) -> Constraint:
        parts = {
            domain: DOMAINS[domain].from_plain(part, types)
            for domain, part in plain.items()
            if domain not in ("others", "absent")
        }
        return cls(
            parts,
            others=plain.get("others", False) is True,
            absent=plain.get("absent", False) is True,
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Constraint):
            return NotImplemented
        return (
            self._hash == other._hash
            and self.others == other.others
            and self.absent == other.absent
            and self.parts == other.parts
        )

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        if self.is_empty or self.is_full:
            return f"<Constraint {'anything' if self.is_full else 'nothing'}>"
        return f"<Constraint {self.phrase('x').text}>"

    def __reduce__(self) -> tuple[object, ...]:
        return (_restored, (self.parts, self.others, self.absent))


def _restored(parts: dict[str, ValueSet], others: bool, absent: bool) -> Constraint:
    return Constraint(parts, others=others, absent=absent)


def unions(constraints: list[Constraint], *, most: int | None = None) -> list[Constraint]:
    """As few constraints with the same union as pairwise unions give, in canonical form.

    Each domain is joined by itself, so that it does not matter which parts came together.
    `OverflowError` if more than `most` of one domain would have to be compared with each other.
    """
    if len(constraints) == 1:
        return constraints
    others = any(c.others for c in constraints)
    absent = any(c.absent for c in constraints)
    domains = sorted({domain for c in constraints for domain in c.parts})
    joined = {
        d: _joined([c.part(d) for c in constraints], most) or [DOMAINS[d].nothing] for d in domains
    }
    count = max([1, *map(len, joined.values())])
    return [
        Constraint(
            {d: parts[at] for d, parts in joined.items() if at < len(parts)},
            others=others and at == 0,
            absent=absent and at == 0,
        )
        for at in range(count)
    ]


def _joined(parts: list[ValueSet], most: int | None) -> list[ValueSet]:
    """The union of sets of one domain as few sets. Those that always have a union come first:
    their text may be an OR, and has to lead back to the same outcome."""
    ordered = [p for p in parts if is_ordered(p) and not p.is_empty]
    while len(ordered) > 1:  # in rounds, so that ten thousand points are no trouble
        pairs = zip_longest(ordered[::2], ordered[1::2], fillvalue=ordered[-1])
        ordered = [union for one, other in pairs if (union := one.union(other)) is not None]
    spelt = {p: p.phrase("x").text for p in parts if not is_ordered(p) and not p.is_empty}
    if most is not None and len(spelt) > most:
        raise OverflowError(len(spelt))
    left = ordered + sorted(spelt, key=spelt.__getitem__)
    while True:
        found = _union_of_any_two(left)
        if len(found) == len(left):
            return left
        left = found


def weight(constraint: Constraint) -> int:
    """About how much there is to look at when it is compared with another one."""
    return 1 + sum(map(_weight, constraint.parts.values()))


def _weight(part: ValueSet) -> int:
    match part:
        case Intervals():
            return len(part.cuts)
        case Strings():
            return len(part.intervals.cuts) + len(part.passing) + len(part.failing)
        case Sets():
            return len(part.lower) + len(part.upper.listed) + sum(len(h.listed) for h in part.hits)
    return 1


def is_ordered(part: ValueSet) -> bool:
    """Whether it is made of intervals only: such sets always have a union, and it is exact."""
    return isinstance(part, Intervals) or (
        isinstance(part, Strings) and not part.passing and not part.failing
    )


def _union_of_any_two(parts: list[ValueSet]) -> list[ValueSet]:
    done: list[ValueSet] = []
    for part in parts:
        spend(len(done) * (4 + _weight(part) // 2))
        for at, other in enumerate(done):
            union = other.union(part)
            if union is not None:
                done[at] = union
                break
        else:
            done.append(part)
    return done


EVERYTHING: Final = Constraint({}, others=True, absent=True)
EXISTS: Final = Constraint({}, others=True)
ABSENCE: Final = Constraint({}, absent=True)
