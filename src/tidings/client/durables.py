"""Durables: what a principal's durable subscriptions are, wherever in the network they live."""

from __future__ import annotations

from typing import NamedTuple

from tidings.events import Filter
from tidings.protocol.cursors import cursor_text
from tidings.protocol.requests import Held


class Durable(NamedTuple):
    """A durable subscription, as the broker has it where it lives."""

    name: str
    owner: str
    """The principal who has it."""
    home: str
    """The broker where it lives."""
    filter: Filter
    cursor: str
    """What was acknowledged."""
    behind: dict[str, int]
    """Ticks of each stream that lie behind the cursor, as far as its home has heard. How many of
    them hold an event for it is not known before it is told."""
    is_read: bool
    is_paused: bool
    idle: int
    """Days on which nobody has used it, of those that its home has run."""

    @property
    def lag(self) -> int:
        """Ticks of all streams that lie behind the cursor."""
        return sum(self.behind.values())


class DurablesFound(NamedTuple):
    """The durable subscriptions of a principal, by name."""

    found: tuple[Durable, ...]
    unasked: tuple[str, ...]
    """Brokers that may have more, and cannot be asked now."""


def described(held: Held, owner: str) -> Durable:
    """What a broker has told of one of this principal."""
    behind = {s: end - held.cursor.get(s, 0) for s, end in sorted(held.ends.items())}
    return Durable(
        held.name,
        owner,
        held.home,
        held.filter,
        cursor_text(held.cursor),
        {stream: ticks for stream, ticks in behind.items() if ticks > 0},
        held.is_read,
        held.is_paused,
        held.idle,
    )
