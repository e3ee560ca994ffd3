"""Erased: events whose content is gone, and what stands in their places.

In the place of an erased event stands a *tombstone*: an event at its tick and of its time, which
says only by which erasure it went::

    paris:17  {"customer": "c-17", …}    becomes    paris:17  {"tidings.erased": "erase-5f3a…"}

So no tick has gone and no cursor is wrong, but nobody hears it: whoever reads a log, a lake or a
stream passes over it as over silence. An erasure itself is told by its *record*, an event that its
broker publishes. Records stay, and so do registrations of bulk subscriptions: their owners
cancel them.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Final

import msgspec

from tidings.delivery.copies import BULK
from tidings.events import Filter, Notification
from tidings.protocol.messages import Event

ERASED: Final = "tidings.erased"
"""The attribute of a tombstone that has the id of the erasure."""
ERASURE: Final = "tidings.erasure"
"""The attribute of a record that has the id of the erasure."""
RESERVED: Final = (ERASED, ERASURE)
"""Attributes that nobody may publish."""
STANDING: Final = Filter.parse(f"NOT EXISTS {ERASED}")
"""All events but tombstones."""
_ERASABLE: Final = Filter.parse(
    f"NOT EXISTS {ERASED} AND NOT EXISTS {ERASURE} AND NOT EXISTS {BULK}"
)


def is_erased(event: Event) -> bool:
    """Whether an event is a tombstone."""
    return ERASED in event.notification.attributes


class Eraser:
    """What one erasure makes of events.

    >>> eraser = Eraser(Filter.parse("customer = 'c-17'"), "erase-1")
    >>> order = Event("paris", 17, Notification({"customer": "c-17", "total": 5}), time=9.0)
    >>> eraser.matches(order), eraser.matches(eraser.tombstone(order))
    (True, False)
    >>> eraser.tombstone(order)
    Event(stream='paris', tick=17, notification=Notification({'tidings.erased': 'erase-1'}), \
flood=False, time=9.0, more=None)
    """

    def __init__(self, filter: Filter, id: str) -> None:
        self.filter: Final = filter.intersect(_ERASABLE)
        """What is erased: all that the filter matches, but what cannot be."""
        self._id = id
        self._nothing = Notification({ERASED: id})

    def matches(self, event: Event) -> bool:
        """Whether an event is to be erased."""
        return self.filter.matches(event.notification)

    def is_erased(self, event: Event) -> bool:
        """Whether an event was erased, by whatever erasure."""
        return is_erased(event)

    def has_erased(self, event: Event) -> bool:
        """Whether an event was erased by this very erasure."""
        return event.notification.attributes.get(ERASED) == self._id

    def tombstone(self, event: Event) -> Event:
        """What stands in the place of an event."""
        return msgspec.structs.replace(event, notification=self._nothing)


def record(
    id: str, filter: Filter, *, erased: int, by: str, unreached: tuple[str, ...], reason: str
) -> Notification:
    """The event that tells of an erasure.

    Of the filter it has a digest only: a filter like `customer = 'c-17'` says whose events went,
    and what tells of an erasure stays for ever. Who knows the filter can compute the digest from
    it and the id, and so prove what was erased; since the id is in it, no two digests are equal.
    """
    said: dict[str, object] = {
        ERASURE: id,
        "filter": digest(id, filter),
        "erased": erased,
        "by": by,
    }
    if unreached:
        said["unreached"] = frozenset(unreached)
    if reason:
        said["reason"] = reason
    return Notification(said)


def digest(id: str, filter: Filter) -> str:
    """What the record of an erasure says of its filter: SHA-256 of the id and the filter's text.

    >>> digest("erase-1", Filter.parse("b = 2 AND a = 1"))
    'sha256:23487985791516dbeac7f1f8059c886e676b05fccc270b84a3a545a830fa5aa6'
    """
    return "sha256:" + sha256(f"{id} {filter}".encode()).hexdigest()
