"""Filters: unions of conjunctions, in one canonical form."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from tidings.events.conjunction import Conjunction
from tidings.events.constraint import unions, weight
from tidings.events.encoding import as_list, decode_json, encode_json
from tidings.events.errors import TidingsError
from tidings.events.notification import Notification
from tidings.events.phrases import any_of
from tidings.events.strings import NO_TYPES
from tidings.events.work import spend

if TYPE_CHECKING:
    from tidings.events.schema import Schema
    from tidings.events.syntax_tree import Limits


class Filter:
    """A set of notifications: those that satisfy one of its conjunctions. Immutable.

    No conjunction of a filter covers another, and no two differ in one attribute only where
    their union is again a conjunction. `matches` and `intersect` are exact. `covers` asks that
    *one* conjunction covers each of the other's, so it is exact for single conjunctions and may
    miss a covering by several together; `overlaps` is as exact as the constraints. Equality is
    equality of the canonical forms: filters with several conjunctions may admit the same
    notifications and still differ.

    >>> falling = Filter.parse("symbol = 'DIS' AND change < 0")
    >>> falling.matches(Notification({"symbol": "DIS", "change": -4.0}))
    True
    >>> Filter.parse("change <= 0").covers(falling)
    True
    >>> print(falling.merge(Filter.parse("symbol = 'DIS' AND change >= 0")))
    change IS NUMBER AND symbol = 'DIS'
    """

    __slots__ = ("_hash", "_key", "conjunctions", "reasons")

    def __init__(
        self, conjunctions: Iterable[Conjunction] = (), *, reasons: tuple[str, ...] = ()
    ) -> None:
        self.conjunctions = canonical(list(conjunctions))
        self.reasons = reasons
        """Why it can never match, if it was parsed and can't."""
        self._hash = hash(self.conjunctions)
        self._key: str | None = None

    @classmethod
    def of_canonical(cls, conjunctions: tuple[Conjunction, ...]) -> Filter:
        """The filter of what `canonical` has returned."""
        found = cls(conjunctions[:1])
        found.conjunctions = conjunctions
        found._hash = hash(conjunctions)
        return found

    @classmethod
    def parse(
        cls, text: str, *, schema: Schema | None = None, limits: Limits | None = None
    ) -> Filter:
        """Read a filter from text; `FilterError` says where it is wrong and what was expected."""
        from tidings.events.language import parse

        return parse(text, schema=schema, limits=limits)

    @classmethod
    def of(cls, said: Filter | str) -> Filter:
        """A filter as it is, or what a text says; see `parse`."""
        return cls.parse(said) if isinstance(said, str) else said

    @classmethod
    def all(cls) -> Filter:
        """The filter that admits every notification."""
        return _ALL

    @classmethod
    def none(cls) -> Filter:
        """The filter that admits no notification."""
        return _NONE

    def matches(self, notification: Notification) -> bool:
        """Whether the notification is admitted."""
        return any(c.matches(notification) for c in self.conjunctions)

    def covers(self, other: Filter) -> bool:
        """Whether everything that `other` admits is surely admitted."""
        return all(
            any(c.covers(theirs) for c in self.conjunctions) for theirs in other.conjunctions
        )

    def overlaps(self, other: Filter) -> bool:
        """Whether some notification may be admitted by both."""
        return any(c.overlaps(theirs) for c in self.conjunctions for theirs in other.conjunctions)

    def intersect(self, other: Filter) -> Filter:
        """The filter that admits exactly what both admit."""
        both = (c.intersect(theirs) for c in self.conjunctions for theirs in other.conjunctions)
        return Filter(c for c in both if c is not None)

    def merge(self, other: Filter) -> Filter | None:
        """The union where it is a single conjunction, else None."""
        union = self.union(other)
        return union if len(union.conjunctions) <= 1 else None

    def union(self, other: Filter) -> Filter:
        """The filter that admits exactly what either admits."""
        return Filter(self.conjunctions + other.conjunctions)

    def example(self) -> Notification | None:
        """A notification that is admitted, or None if none was found."""
        return next((e for c in self.conjunctions if (e := c.example()) is not None), None)

    @property
    def key(self) -> str:
        """A digest of the canonical form: the same in every process, for ever."""
        if self._key is None:
            self._key = blake2b(str(self).encode(), digest_size=16).hexdigest()
        return self._key

    def to_json(self) -> str:
        """One line of JSON that `from_json` reads back to an equal filter."""
        return encode_json({"any": [c.to_plain() for c in self.conjunctions]})

    @classmethod
    def from_json(cls, text: str | bytes, *, schema: Schema | None = None) -> Filter:
        """Read what `to_json` wrote; `TidingsError` if it is damaged."""
        types = NO_TYPES if schema is None else schema.types
        try:
            plain = decode_json(text)
            conjunctions = [Conjunction.from_plain(c, types) for c in as_list(plain["any"])]
        except TidingsError:
            raise
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as problem:
            raise TidingsError(f"not a filter in JSON: {problem}") from None
        return cls(c for c in conjunctions if c is not None)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Filter):
            return NotImplemented
        return self._hash == other._hash and self.conjunctions == other.conjunctions

    def __hash__(self) -> int:
        return self._hash

    def __str__(self) -> str:
        """The canonical text, which parses to an equal filter."""
        if not self.conjunctions:
            return "FALSE"
        return any_of(c.phrase() for c in self.conjunctions).text

    def __repr__(self) -> str:
        return f"Filter.parse({str(self)!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return (Filter, (self.conjunctions,))


def canonical(
    conjunctions: list[Conjunction], *, most: int | None = None
) -> tuple[Conjunction, ...]:
    """The canonical form of a union; `OverflowError` if it has more than `most` conjunctions."""
    if len(conjunctions) <= 1:
        return tuple(conjunctions)
    kept = list(dict.fromkeys(conjunctions))
    for _ in conjunctions:  # nearly always two rounds: one that joins, one that finds nothing
        before = kept
        kept = _merged(kept, most)
        if most is not None and len(kept) > most:
            raise OverflowError(len(kept))
        kept = _maximal(kept)
        if len(kept) == 1 or set(kept) == set(before):
            break
    return tuple(kept if len(kept) == 1 else sorted(kept, key=str))


def _merged(conjunctions: list[Conjunction], most: int | None) -> list[Conjunction]:
    """Join those that differ in one attribute only, attribute by attribute."""
    kept = dict.fromkeys(conjunctions)
    holders: dict[str, dict[Conjunction, None]] = {}
    for c in conjunctions:
        for name in c.constraints:
            holders.setdefault(name, {})[c] = None
    for name in sorted(holders):
        # One that says nothing of the attribute can only cover, and that is found elsewhere.
        groups: dict[Conjunction, list[Conjunction]] = {}
        for c in holders[name]:
            if c in kept:
                spend(1 + len(c.constraints) // 2)
                groups.setdefault(c.without(name), []).append(c)
        for rest, members in groups.items():
            if len(members) == 1:
                continue
            for c in members:
                del kept[c]
            for joint in unions([c[name] for c in members], most=most):
                merger = rest.with_(name, joint)
                kept[merger] = None
                for attribute in merger.constraints:
                    holders[attribute][merger] = None
    return list(kept)


def _maximal(conjunctions: list[Conjunction]) -> list[Conjunction]:
    """Drop what another one covers. A cover names no more attributes than what it covers."""
    kept: list[Conjunction] = []
    for c in sorted(conjunctions, key=lambda c: len(c.constraints)):
        spend(len(kept) * (2 + sum(map(weight, c.constraints.values())) // 2))
        if not any(k.covers(c) for k in kept):
            kept = [k for k in kept if not c.covers(k)]
            kept.append(c)
    return kept


_ALL = Filter([Conjunction({})])
_NONE = Filter()
