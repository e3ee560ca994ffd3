"""The protocol of matching engines."""

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
