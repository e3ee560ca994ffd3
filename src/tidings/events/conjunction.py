"""Conjunctions: products of constraints, at most one for each attribute."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidings.events.constraint import ABSENT, EVERYTHING, Constraint
from tidings.events.notification import Notification
from tidings.events.phrases import Phrase, all_of
from tidings.events.strings import NO_TYPES, Types


class Conjunction:
    """The notifications whose every named attribute is admitted by its constraint. Immutable.

    An attribute that is not named may be anything. All operations are as exact as those of the
    constraints: two products overlap where all their factors do, and one covers another where
    each factor does.
    """

    __slots__ = ("_hash", "constraints")

    def __init__(self, constraints: Mapping[str, Constraint]) -> None:
        """The constraints must not be empty ones; those that admit everything are dropped."""
        if len(constraints) == 1:
            self.constraints = {n: c for n, c in constraints.items() if not c.is_full}
        else:
            self.constraints = {n: constraints[n] for n in sorted(constraints)}
            for name in [n for n, c in self.constraints.items() if c.is_full]:
                del self.constraints[name]
        self._hash = hash(tuple(self.constraints.items()))

    def matches(self, notification: Notification) -> bool:
        attributes = notification.attributes
        for name, constraint in self.constraints.items():
            if not constraint.matches(attributes.get(name, ABSENT)):
                return False
        return True

    def covers(self, other: Conjunction) -> bool:
        theirs = other.constraints
        return all(
            name in theirs and mine.covers(theirs[name]) for name, mine in self.constraints.items()
        )

    def overlaps(self, other: Conjunction) -> bool:
        few, many = self.constraints, other.constraints
        if len(many) < len(few):
            few, many = many, few
        return all(c.overlaps(many[name]) for name, c in few.items() if name in many)

    def intersect(self, other: Conjunction) -> Conjunction | None:
        """The conjunction of both; None if no notification satisfies it."""
        constraints = dict(self.constraints)
        for name, theirs in other.constraints.items():
            mine = constraints.get(name)
            constraints[name] = both = theirs if mine is None else mine.intersect(theirs)
            if both.is_empty:
                return None
        return Conjunction(constraints)

    def without(self, name: str) -> Conjunction:
        """This conjunction without its constraint on one attribute."""
        return Conjunction({n: c for n, c in self.constraints.items() if n != name})

    def with_(self, name: str, constraint: Constraint) -> Conjunction:
        """This conjunction with another constraint on one attribute."""
        return Conjunction({**self.constraints, name: constraint})

    def __getitem__(self, name: str) -> Constraint:
        """What the attribute may be."""
        return self.constraints.get(name, EVERYTHING)

    def phrase(self) -> Phrase:
        """Filter text that parses to this conjunction."""
        if not self.constraints:
            return Phrase("TRUE")
        return all_of(c.phrase(name) for name, c in self.constraints.items())

    def example(self) -> Notification | None:
        """A notification that satisfies it, or None if none was found."""
        found = {name: c.example() for name, c in self.constraints.items()}
        if any(value is None for value in found.values()):
            return None
        notification = Notification({})
        notification.attributes.update({n: v for n, v in found.items() if v is not ABSENT})
        return notification if self.matches(notification) else None

    def to_plain(self) -> dict[str, object]:
        """In JSON's terms."""
        return {name: c.to_plain() for name, c in self.constraints.items()}

    @classmethod
    def from_plain(cls, plain: Any, types: Types = NO_TYPES) -> Conjunction | None:
        if "" in plain:
            raise ValueError("an attribute's name is not empty")
        constraints = {n: Constraint.from_plain(c, types) for n, c in plain.items()}
        return None if any(c.is_empty for c in constraints.values()) else cls(constraints)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Conjunction):
            return NotImplemented
        return self._hash == other._hash and self.constraints == other.constraints

    def __hash__(self) -> int:
        return self._hash

    def __str__(self) -> str:
        return self.phrase().text

    def __repr__(self) -> str:
        return f"<Conjunction {self}>"

    def __reduce__(self) -> tuple[object, ...]:
        return (Conjunction, (self.constraints,))
