"""Fresh: the filters that came last and are in no segment yet.

Appended to and never otherwise changed, so that a reader who knows how many entries belong to
its version can read without a lock while others append.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

from tidings.events import Filter, Notification
from tidings.events.constraint import Constraint
from tidings.events.intervals import Intervals
from tidings.events.strings import Strings
from tidings.matching.source import NEVER

_FEW = 16


class Fresh:
    """Entries by number: key, filter, and the version at which the entry died."""

    __slots__ = ("_by_value", "_indexed", "_others", "dead", "died", "filters", "keys")

    def __init__(self) -> None:
        self.keys: list[Hashable] = []
        self.filters: list[Filter] = []
        self.died: list[int] = []
        self.dead = 0
        self._by_value: dict[tuple[str, Any], list[int]] = {}
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
        candidates = self._candidates(notification.attributes, count)
        died, filters = self.died, self.filters
        matching = [n for n in candidates if died[n] > version and filters[n].matches(notification)]
        return matching, len(candidates)

    def _candidates(self, attributes: Mapping[str, Any], count: int) -> list[int]:
        """Entries that may match: those found by one of the event's values, and all others."""
        indexed = min(self._indexed, count)  # read first: others may be indexing meanwhile
        found = [n for n in self._others if n < indexed]
        if self._by_value:
            by_value: set[int] = set()
            for name, value in attributes.items():
                if value.__class__ is not list:
                    by_value.update(self._by_value.get((name, value), ()))
            found += [n for n in by_value if n < indexed]
        found += range(indexed, count)
        return found

    def index(self, count: int) -> None:
        """Sort entries by the values they ask for. One caller at a time."""
        for number in range(self._indexed, count):
            places = [p for c in self.filters[number].conjunctions for p in _values(c.constraints)]
            by_one_each = all(_values(c.constraints) for c in self.filters[number].conjunctions)
            if by_one_each:
                for place in places:
                    self._by_value.setdefault(place, []).append(number)
            else:
                self._others.append(number)
            self._indexed = number + 1


def _values(constraints: Mapping[str, Constraint]) -> list[tuple[str, Any]]:
    """An attribute with a few values, one of which an event must have; nothing if there is none."""
    for name, constraint in constraints.items():
        if constraint.absent or constraint.others or len(constraint.parts) != 1:
            continue
        part: Any = next(iter(constraint.parts.values()))
        intervals = part.intervals if isinstance(part, Strings) else part
        if isinstance(intervals, Intervals) and 0 < len(intervals.cuts) <= 2 * _FEW:
            values = intervals.values()
            if values:
                return [(name, value) for value in values]
    return []
