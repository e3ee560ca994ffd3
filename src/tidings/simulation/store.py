"""A store in memory that forgets in a crash what was not synced."""

from __future__ import annotations

from bisect import bisect_left
from random import Random
from typing import Any

from tidings.node import Event, Span


class MemoryStore:
    """What a node stores and logs. It survives a crash once synced; later writes may, in order."""

    def __init__(self) -> None:
        self.content: dict[str, Any] = {}
        self.log: list[Event] = []
        self.first = 1
        """The log is kept from this tick on."""
        self._unsynced: list[tuple[str, Any]] = []

    def write(self, key: str, value: Any) -> None:
        """Remember to keep a value; None forgets the key."""
        self._unsynced.append((key, value))

    def append(self, events: tuple[Event, ...]) -> None:
        """Remember to keep events in the log."""
        self._unsynced.extend(("", event) for event in events)

    def sync(self) -> None:
        """Keep all that was written so far."""
        self._keep(len(self._unsynced))

    def crash(self, random: Random) -> None:
        """Some of what was not synced is kept, the rest is gone."""
        self._keep(random.randint(0, len(self._unsynced)))

    def span(self) -> Span:
        """What of the log is kept."""
        last = self.log[-1] if self.log else None
        return Span(self.first, len(self.log), last.time if last is not None else 0.0)

    def read(self, since: int, after: float, limit: int) -> tuple[int, int, tuple[Event, ...]]:
        """What a node asked to read: see `Read`."""
        if after > 0.0:
            since = bisect_left(self.log, after, key=lambda event: event.time)
        since = max(since, self.first - 1)
        events = tuple(self.log[since : since + limit])
        return since, since + len(events), events

    def trim(self, first: int) -> None:
        """Keep the log from this tick on only."""
        self.first = max(self.first, min(first, len(self.log) + 1))

    def _keep(self, number: int) -> None:
        for key, value in self._unsynced[:number]:
            if not key:
                self.log.append(value)
            elif value is None:
                self.content.pop(key, None)
            else:
                self.content[key] = value
        self._unsynced.clear()
