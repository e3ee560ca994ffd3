"""Promises: below which time of day a node's own streams are complete.

Whoever puts the events of several streams in order has to know when nothing earlier can come. So a
node promises, with its silence, a time below which it will say nothing more, and says later events
at that time or after, whatever its clock shows. A promise must survive the node: a time is
*reserved* on the disk before anything below it is promised, and the next node begins where the
reservation ends.

    ────────●──────────────●┄┄┄┄┄┄┄┄┄┄┄┄┄●──────────────▶  time of day
            │ last event   │ promised    │ reserved: a node that starts anew
                           └─ events are said at this time, or later

A clock that goes back moves nothing; one that was ahead holds the promise where it is until the
time has come. Pure: who calls `move` stores what it returns, and syncs it, before the promise is
told.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tidings.protocol.host import Store
from tidings.protocol.parts import Single

RESERVED: Final = Single[float]("reserved")
_AHEAD: Final = 1.0
"""Seconds that are reserved at a time: so much later than needed a node may start anew."""
FOREVER: Final = 1e300
"""Below this time a stream is complete that is closed."""


class Promises:
    """What a node promises of the times of its own streams.

    >>> promises = Promises(reserved=0.0)
    >>> promises.move(100.0), promises.below
    (Store(key='reserved', value=101.0), 100.0)
    >>> promises.move(100.5), promises.move(40.0), promises.below
    (None, None, 100.5)
    >>> Promises(reserved=101.0).below
    101.0
    """

    __slots__ = ("below", "reserved")

    def __init__(self, reserved: float) -> None:
        """What the node before this one has reserved; 0 if it has not."""
        self.reserved = reserved
        self.below = reserved
        """Nothing more will be said that is earlier."""

    def move(self, time: float) -> Store | None:
        """Promise all that is earlier than now; what is to be synced before that is told."""
        if time <= self.below:
            return None
        self.below = time
        if time <= self.reserved:
            return None
        self.reserved = time + _AHEAD
        return RESERVED.put(self.reserved)

    def audit(self) -> Iterator[str]:
        """Whatever cannot be true of it."""
        if not 0.0 <= self.below <= self.reserved:
            yield f"times below {self.below} are promised, and {self.reserved} is reserved"
