"""Messages: what nodes say to each other, inside the frames of a link.

All but events carry a *view*, the numbers under which sender and receiver have joined the link
to the tree (see `ports`), so that what was said before a change of the tree is not taken for
what is said after it.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import msgspec

from tidings.events import Filter, Notification

SUBSCRIPTIONS: Final = 0
ADVERTISEMENTS: Final = 1

View: TypeAlias = tuple[int, int]


class Event(msgspec.Struct, frozen=True, gc=False):
    """A notification and its place in its publisher's stream."""

    stream: str
    tick: int
    notification: Notification
    flood: bool = False
    """It goes to everybody, since its publisher has not advertised it."""


class Update(msgspec.Struct, frozen=True):
    """What the receiver is to add to and remove from its table for the sender, as one change."""

    table: int
    view: View
    added: dict[Filter, int]
    removed: dict[Filter, int]
    whole: bool = False
    """`added` is the whole table."""


class Member(msgspec.Struct, frozen=True):
    """The sender has made the receiver its parent (if odd) or has ceased to (if even)."""

    number: int


class Check(msgspec.Struct, frozen=True):
    """The digest of what the receiver should hold for the sender."""

    table: int
    view: View
    digest: int


class Differ(msgspec.Struct, frozen=True):
    """The receiver of a check holds something else: the digests of its buckets."""

    table: int
    view: View
    buckets: tuple[int, ...]


class Repair(msgspec.Struct, frozen=True):
    """What the buckets that differ should hold."""

    table: int
    view: View
    buckets: int
    which: tuple[int, ...]
    content: dict[Filter, int]


Body: TypeAlias = Event | Update | Member | Check | Differ | Repair
