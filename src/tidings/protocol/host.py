"""The border between a node and its host: what the host tells it, and what it has the host do.

Effects are carried out in order. Those after a `Sync` wait until everything stored before it
would survive a crash.

A node that raises an exception, `Damaged` or any other, is not to be trusted any more: its host
throws it away, with the effects of that input, hangs up on its clients, and makes another node
from the store, as after a crash. And it wakes a node that checks at least once every `check`.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

from tidings.events import Filter, TidingsError
from tidings.protocol.messages import Event, Frame, Heard, Offer
from tidings.protocol.requests import Answer, RequestBody


class Damaged(TidingsError):  # noqa: N818
    """What a node remembers cannot be true, or is not what it has stored."""


class Received(msgspec.Struct, frozen=True, gc=False):
    """A neighbour has sent this."""

    neighbour: str
    packet: Frame | Offer


class Request(msgspec.Struct, frozen=True, gc=False):
    """A client asks for something."""

    session: str
    body: RequestBody
    time: float = 0.0
    """Seconds since 1970, for what is published; may jump, unlike the time given to `handle`."""


class Declined(msgspec.Struct, frozen=True):
    """The host does not pass on what a client has published, and tells it so."""

    session: str
    number: int
    reason: str


class LinkUp(msgspec.Struct, frozen=True):
    """The neighbour can be reached (again), perhaps one that nobody has configured."""

    neighbour: str
    cost: float = 0.0
    """Seconds of a round trip; 0 if that is not known."""


class LinkDown(msgspec.Struct, frozen=True):
    """The neighbour cannot be reached."""

    neighbour: str


class Woken(msgspec.Struct, frozen=True):
    """The time that the node asked to be woken at has come."""

    time: float = 0.0
    """Seconds since 1970, for what is promised of the streams; may jump. 0 if that is not known."""


class Full(msgspec.Struct, frozen=True):
    """A client does not read what it is sent: send it no more events until it has."""

    session: str


class Drained(msgspec.Struct, frozen=True):
    """A client has read what it was sent."""

    session: str


class Records(msgspec.Struct, frozen=True):
    """What the node wanted to read of a log: all of (since, upto], in order."""

    number: int
    since: int
    upto: int
    events: tuple[Event, ...]


class Unreadable(msgspec.Struct, frozen=True):
    """What the node wanted to read of its log is damaged: nothing of (since, upto] can be read."""

    number: int
    since: int
    upto: int


class Trimmed(msgspec.Struct, frozen=True):
    """One of the node's logs now begins with this tick; what came before is no longer kept."""

    stream: str
    first: int


class LogErased(msgspec.Struct, frozen=True):
    """What was to be erased in a log is gone from the disk."""

    number: int
    erased: int
    """The events that are erased under this id, now or before; or that would be."""
    last: int = 0
    """The last tick where something is erased, by whatever erasure."""
    problem: str = ""
    """Why something may be left, if so."""


class Span(msgspec.Struct, frozen=True):
    """What is kept of one of the node's own streams."""

    first: int = 1
    last: int = 0
    time: float = 0.0
    """When the last event was published."""


class Recalled(msgspec.Struct, frozen=True):
    """What the host knows, whatever the node remembers; the answer to `Recall`."""

    number: int
    stored: dict[str, Any]
    """What is kept of all that the node wanted stored before it asked, and perhaps later."""
    logs: dict[str, Span]
    sessions: dict[str, bool]
    """The clients that are connected now, and whether each is full."""
    neighbours: frozenset[str]
    """The neighbours that can be reached now."""


Input: TypeAlias = (
    Received
    | Request
    | Declined
    | LinkUp
    | LinkDown
    | Woken
    | Full
    | Drained
    | Records
    | Unreadable
    | Trimmed
    | LogErased
    | Heard
    | Recalled
)
"""`Heard` says how far somebody whom the host trusts has the node's own streams, such as a lake."""


class Send(msgspec.Struct, frozen=True, gc=False):
    """Send this to a neighbour; it may be lost."""

    neighbour: str
    packet: Frame | Offer


class Connect(msgspec.Struct, frozen=True):
    """Connect to a node, and say `LinkUp` whenever that is done; try until `Disconnect`."""

    neighbour: str
    address: str
    """Where to reach it; empty if it is the one that dials."""


class Disconnect(msgspec.Struct, frozen=True):
    """Be connected to this node no longer, whichever of the two has dialled."""

    neighbour: str


class Deliver(msgspec.Struct, frozen=True, gc=False):
    """Notify a client."""

    session: str
    event: Event
    ids: tuple[str, ...] = ()
    """The subscriptions that want it, where the node has a log."""


class Reply(msgspec.Struct, frozen=True):
    """Answer a client."""

    session: str
    answer: Answer


class Store(msgspec.Struct, frozen=True):
    """Keep a value under a key across a restart; None forgets it."""

    key: str
    value: Any


class Sync(msgspec.Struct, frozen=True):
    """Let what was stored survive a crash before the following effects are carried out."""


class Wake(msgspec.Struct, frozen=True):
    """Wake the node at this time; a later call replaces an earlier one."""

    at: float


class Append(msgspec.Struct, frozen=True):
    """Write these events, which follow on the last of their stream; kept once synced."""

    events: tuple[Event, ...]
    publisher: str = ""
    """The name under which they were published, which goes into the log and to nobody else."""


class Raise(msgspec.Struct, frozen=True):
    """Close its stream of the epoch before where it ends, and begin this one."""

    stream: str
    reason: str
    """A sentence for the people who run the broker."""


class Read(msgspec.Struct, frozen=True):
    """Read a log, and answer with `Records` of the same number, or `Unreadable`.

    Begin behind `since`, or with the first event of time `after` or later if that is above 0;
    `Records.since` says where that was. Read about `limit` events, or as many as there are up to
    the first that cannot be read. Reads may overtake each other.
    """

    number: int
    stream: str
    since: int
    after: float
    limit: int


class EraseLog(msgspec.Struct, frozen=True):
    """Erase what a filter matches in a log, and answer with `LogErased` of the same number.

    In the place of each event up to a tick that is erased stands one that says only that it was:
    see `delivery.erased`. The answer comes when that would survive a crash, and nothing of what was
    erased is left in the store. It may take long: whatever else is to be done goes on meanwhile.
    """

    number: int
    stream: str
    upto: int
    filter: Filter
    id: str
    """Of the erasure."""
    is_dry: bool = False
    """Only count."""


class Recall(msgspec.Struct, frozen=True):
    """Answer with `Recalled` of the same number, once all that came before is stored."""

    number: int


Effect: TypeAlias = (
    Send
    | Connect
    | Disconnect
    | Deliver
    | Reply
    | Store
    | Sync
    | Wake
    | Append
    | Raise
    | Read
    | EraseLog
    | Recall
)
