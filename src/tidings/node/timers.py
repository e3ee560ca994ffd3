"""Timers: what a node does at a time, and what it does again and again."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from math import inf


class Timers:
    """A timer may be lost with a damaged memory; a duty is looked up, and never is."""

    def __init__(self) -> None:
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._number = 0
        self._duties: dict[str, tuple[float, Callable[[], None]]] = {}
        self._due: dict[str, float] = {}
        """When each duty is done next."""
        self.next = inf
        """When there is something to do."""

    def at(self, when: float, what: Callable[[], None]) -> None:
        """Do something at a time."""
        self._number += 1
        heappush(self._queue, (when, self._number, what))
        self.next = self._queue[0][0]

    def every(
        self, period: float, what: Callable[[], None], now: float, *, first: float = inf
    ) -> None:
        """Do something regularly, from a time or from the end of the first period on."""
        name = what.__qualname__
        assert name not in self._duties, f"{name} is a duty already"
        self._duties[name] = (period, what)
        self._due[name] = min(first, now + period)
        self.at(self._due[name], _nothing)

    def run(self, now: float) -> None:
        """Do what is due."""
        while self._queue and self._queue[0][0] <= now:
            heappop(self._queue)[2]()
        self.next = self._queue[0][0] if self._queue else inf
        for name, (period, what) in self._duties.items():
            if not now < self._due.get(name, now) <= now + period:
                self._due[name] = now + period
                self.at(self._due[name], _nothing)
                what()


def _nothing() -> None:
    """What a timer does that is only to wake the node."""
