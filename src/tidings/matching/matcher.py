"""The protocol of matching engines, and the plain one, which is the oracle for all others."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any, Protocol

from tidings.events import Filter, Notification


class Matcher(Protocol):
    """A changing set of filters under keys, and the questions it answers.

    A list of keys holds each once, in no particular order.
    """

    def __len__(self) -> int: ...
    def __contains__(self, key: object) -> bool: ...
    def __getitem__(self, key: Hashable) -> Filter: ...

    def add(self, key: Hashable, filter: Filter) -> None:
        """Add a filter; `KeyError` if the key is in use."""

    def add_many(self, pairs: Iterable[tuple[Hashable, Filter]]) -> None:
        """Add many at once."""

    def remove(self, key: Hashable) -> None:
        """Remove a filter; `KeyError` if there is none under the key."""

    def replace(self, key: Hashable, filter: Filter) -> None:
        """Put another filter under a key in use."""

    def match(self, notification: Notification) -> list[Any]:
        """The keys whose filter matches."""

    def match_some(self, notifications: Sequence[Notification]) -> list[list[Any]]:
        """For each of several events the keys whose filter matches."""

    def match_batch(self, events: Any) -> tuple[Any, Any]:
        """The numbers of the events and the keys of all matches."""


class Scan:
    """Filters under keys, each tried for each question. Slow, obvious and right.

    >>> scan = Scan()
    >>> scan.add("low", Filter.parse("price < 10"))
    >>> scan.match(Notification({"price": 5}))
    ['low']
    """

    def __init__(self) -> None:
        self._filters: dict[Hashable, Filter] = {}

    def __len__(self) -> int:
        return len(self._filters)

    def __contains__(self, key: object) -> bool:
        return key in self._filters

    def __getitem__(self, key: Hashable) -> Filter:
        return self._filters[key]

    def add(self, key: Hashable, filter: Filter) -> None:
        if key in self._filters:
            raise KeyError(f"{key!r} is there already; replace it")
        self._filters[key] = filter

    def add_many(self, pairs: Iterable[tuple[Hashable, Filter]]) -> None:
        pairs = list(pairs)
        if len({key for key, _ in pairs} - self._filters.keys()) < len(pairs):
            raise KeyError("a key is there already, or twice among the new ones")
        self._filters.update(pairs)

    def remove(self, key: Hashable) -> None:
        del self._filters[key]

    def replace(self, key: Hashable, filter: Filter) -> None:
        if key not in self._filters:
            raise KeyError(key)
        self._filters[key] = filter

    def match(self, notification: Notification) -> list[Any]:
        return [key for key, filter_ in self._filters.items() if filter_.matches(notification)]

    def match_some(self, notifications: Sequence[Notification]) -> list[list[Any]]:
        return [self.match(notification) for notification in notifications]

    def match_batch(self, events: Iterable[Notification]) -> tuple[list[int], list[Any]]:
        pairs = [(row, key) for row, event in enumerate(events) for key in self.match(event)]
        return [row for row, _ in pairs], [key for _, key in pairs]
