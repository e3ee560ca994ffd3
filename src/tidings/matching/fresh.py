"""Fresh: the filters that came last and are in no segment yet.

Appended to and never otherwise changed, so that a reader who knows how many entries belong to
its version can read without a lock while others append.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

from tidings.events import Filter, Notification
from tidings.events.constraint import Constraint
from tidings.matching.source import NEVER

_FEW = 16


class Fresh:
    """Entries by number: key, filter, and the version at which the entry died."""

    def __init__(self) -> None:
        self.keys: list[Hashable] = []
        self.filters: list[Filter] = []
        self.died: list[int] = []
        self.dead = 0
        self._by_value: dict[tuple[str, Any], list[int]] = {}
        self._sure: dict[tuple[str, Any], list[int]] = {}
        self._names: tuple[str, ...] = ()
        self._others: list[int] = []
        self._indexed = 0

    def append(self, key: Hashable, filter: Filter) -> int:
        """The number of the new entry."""
        self.keys.append(key)
        self.filters.append(filter)
        self.died.append(NEVER)
        return len(self.keys) - 1

    def bury(self, number: int, version: int) -> None:
        """The entry is gone from this version on."""
        self.dead += 1
        self.died[number] = version

    def living(self, version: int) -> Fresh:
        """Only the entries that have not died."""
        found = Fresh()
        for key, filter_, died in zip(self.keys, self.filters, self.died, strict=True):
            if died > version:
                found.append(key, filter_)
        return found

    def match(self, notification: Notification, version: int, count: int) -> tuple[list[int], int]:
        """Which of the first `count` entries match at `version`, and how many were tried."""
        indexed = min(self._indexed, count)  # read first: others may be indexing meanwhile
        candidates = [n for n in self._others if n < indexed]
        matching: list[int] = []
        attributes, died, filters = notification.attributes, self.died, self.filters
        for name in self._names:
            value = attributes.get(name)
            if value is None:
                continue
            candidates += [n for n in self._by_value.get((name, value), ()) if n < indexed]
            if value.__class__ is str:
                sure = self._sure.get((name, value), ())
                matching += [n for n in sure if n < indexed and died[n] > version]
        if len(self._names) > 1:
            candidates = list(dict.fromkeys(candidates))  # filed under several attributes
        candidates += range(indexed, count)
        matching += [
            n for n in candidates if died[n] > version and filters[n].matches(notification)
        ]
        return matching, len(candidates) + len(matching)

    @property
    def indexed(self) -> int:
        """How many entries are sorted by the values they ask for."""
        return self._indexed

    def index(self, count: int) -> None:
        """Sort entries by the values they ask for. One caller at a time."""
        for number in range(self._indexed, count):
            conjunctions = self.filters[number].conjunctions
            places = [_values(c.constraints) for c in conjunctions]
            if all(places):
                # A string that is all that a filter asks for needs no second look. (A number
                # does: to a dictionary it is the same as a truth value.)
                is_all = len(conjunctions) == 1 and len(conjunctions[0].constraints) == 1
                for name, value in dict.fromkeys(place for each in places for place in each):
                    if name not in self._names:
                        self._names += (name,)
                    sure = (
                        is_all and value.__class__ is str and conjunctions[0][name].matches(value)
                    )
                    filed = self._sure if sure else self._by_value
                    filed.setdefault((name, value), []).append(number)
            else:
                self._others.append(number)
            self._indexed = number + 1


def _values(constraints: Mapping[str, Constraint]) -> list[tuple[str, Any]]:
    """An attribute with a few values, one of which an event must have; nothing if there is none."""
    for name, constraint in constraints.items():
        if values := constraint.values(_FEW):
            return [(name, value) for value in values]
    return []
