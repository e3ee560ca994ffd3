"""Known: how far each stream was when this node last heard of it.

A subscription that begins now begins there in a stream that cannot be reached: what is published
later has a higher tick, whatever the clocks of the brokers say.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, TypeAlias

REMEMBERED: Final = 90 * 24 * 3600.0
"""Seconds without a way to a stream after which it is forgotten, while this node is up."""
_COUNTED: Final = 3600.0
"""Seconds without a way to a stream that are stored together."""

Stored: TypeAlias = tuple[int, float]
"""The last tick of a stream, and for how many seconds there has been no way to it."""


class Known(dict[str, int]):
    """The highest tick heard of each stream but this node's own.

    >>> known = Known()
    >>> known.hear("paris", 7), known.hear("paris", 9), known.hear("paris", 8), known
    (True, False, False, {'paris': 9})
    >>> known.changes()
    {'paris': (9, 0.0)}
    >>> known.passed(REMEMBERED, reachable=[])
    >>> known.changes(), known
    ({'paris': None}, {})
    """

    def __init__(self) -> None:
        super().__init__()
        self._away: dict[str, float] = {}
        self._stored: dict[str, Stored] = {}

    def restore(self, stream: str, stored: Stored) -> None:
        self._stored[stream] = (tick, away) = stored
        self[stream], self._away[stream] = tick, away

    def hear(self, stream: str, tick: int) -> bool:
        """A stream has got at least so far; whether that is the first that is heard of it."""
        before = self.get(stream)
        if before is None or tick > before:
            self[stream] = tick
        return before is None

    def passed(self, seconds: float, *, reachable: Collection[str]) -> None:
        """Time has passed, in seconds; a stream that was out of reach for too long is forgotten."""
        for stream in list(self):
            if stream in reachable:
                self._away[stream] = 0.0
                continue
            self._away[stream] = self._away.get(stream, 0.0) + seconds
            if self._away[stream] >= REMEMBERED:
                del self[stream], self._away[stream]

    def changes(self) -> dict[str, Stored | None]:
        """What is to be stored of each stream for which something else was; None forgets it."""
        changed: dict[str, Stored | None] = {s: None for s in self._stored if s not in self}
        for stream, tick in self.items():
            now = (tick, self._away.get(stream, 0.0) // _COUNTED * _COUNTED)
            if self._stored.get(stream) != now:
                changed[stream] = now
        self._stored = {s: t for s, t in {**self._stored, **changed}.items() if t is not None}
        return changed
