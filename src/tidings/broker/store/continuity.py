"""Continuity: whether a store goes on where it has ended, as far as that can be proved.

A store that was damaged at its end, or restored from a copy, would use ticks again that readers
have heard with another content. So a store that cannot be proved to go on begins an epoch.
"""

from __future__ import annotations

import msgspec

from tidings.broker.store.about import End
from tidings.broker.store.identity import Identity
from tidings.broker.store.mark import Head
from tidings.protocol.epochs import stream_name


class Found(msgspec.Struct, frozen=True):
    """What there is in a store's folder when it is opened."""

    head: Head
    """What the database says of its last commit."""
    recorded: Identity | None
    """The identity that the database remembers."""
    mark: Head | None
    """What the mark says; None if there is none that can be read."""
    identities: tuple[Identity, ...]
    """What is beside the database; a crash may leave another one with the one it remembers."""


def doubt(found: Found, broker: str) -> str | None:
    """Why it cannot be proved that the store goes on where it has ended; None if it is proved.

    >>> mine = Identity("3f9a", inode=7, changed=1763460000)
    >>> doubt(Found(Head(12, 1, 40), mine, Head(11, 1, 38), (mine,)), "paris")
    >>> doubt(Found(Head(9, 1, 31), mine, Head(11, 1, 38), (mine,)), "paris")
    'the mark tells of commit 11, up to paris:38, but the database ends with commit 9, at paris:31'
    >>> copy = Identity("3f9a", inode=9, changed=1763470000)
    >>> doubt(Found(Head(12, 1, 40), mine, Head(12, 1, 40), (copy,)), "paris")
    'it was copied or restored: the file `identity` is not the one that was written here'
    """
    head, mark = found.head, found.mark
    if not found.identities:
        return "it was restored from a backup, or has lost its file `identity`"
    if mark is None:
        return "the file `mark` beside the database is missing or cannot be read"
    if mark.is_ahead_of(head):
        return (
            f"the mark tells of commit {mark.number}, up to {_place(mark, broker)}, "
            f"but the database ends with commit {head.number}, at {_place(head, broker)}"
        )
    if found.recorded not in found.identities:
        return "it was copied or restored: the file `identity` is not the one that was written here"
    return None


def all_closed(ends: list[End], mark: Head | None) -> list[End]:
    """Where all streams have ended once the last one is closed, and a new one begins behind them.

    Its epoch is higher than any that was used, as far as the mark knows. A stream that is not in
    this store has ended where the mark says, or else counts as empty.

    >>> all_closed([End(31, 5.0)], Head(11, 1, 38))
    [End(last=31, time=5.0)]
    >>> all_closed([End(31, 5.0)], Head(11, 3, 38))
    [End(last=31, time=5.0), End(last=0, time=5.0), End(last=38, time=5.0)]
    """
    highest = mark.epoch if mark else 0
    known = {mark.epoch: mark.last} if mark else {}
    others = range(len(ends) + 1, highest + 1)
    return ends + [End(known.get(epoch, 0), ends[-1].time) for epoch in others]


def warning(why: str, closed: Head, begun: str, broker: str) -> str:
    """What to tell the people who run the broker."""
    return (
        f"It cannot be proved that the log goes on where it ended: {why}. So {begun} begins, and "
        f"{stream_name(broker, closed.epoch)} is closed at tick {closed.last}. Events behind that, "
        "if there were any, are lost; readers who heard them are told so, all others go on."
    )


def _place(head: Head, broker: str) -> str:
    return f"{stream_name(broker, head.epoch)}:{head.last}"
