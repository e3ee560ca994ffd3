"""The border between a node and its host: what the host tells it, and what it has the host do.

Effects are carried out in order. Those after a `Sync` wait until everything stored before it
would survive a crash.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

from tidings.node.messages import Event
from tidings.node.requests import Answer, RequestBody
from tidings.overlay import Frame, Offer


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


class LinkUp(msgspec.Struct, frozen=True):
    """The neighbour can be reached (again)."""

    neighbour: str


class LinkDown(msgspec.Struct, frozen=True):
    """The neighbour cannot be reached."""

    neighbour: str


class Woken(msgspec.Struct, frozen=True):
    """The time that the node asked to be woken at has come."""


class Full(msgspec.Struct, frozen=True):
    """A client does not read what it is sent: send it no more events until it has."""

    session: str


class Drained(msgspec.Struct, frozen=True):
    """A client has read what it was sent."""

    session: str


class Records(msgspec.Struct, frozen=True):
    """What the node wanted to read of its log: all of (since, upto], in order."""

    number: int
    since: int
    upto: int
    events: tuple[Event, ...]


class Trimmed(msgspec.Struct, frozen=True):
    """The log now begins with this tick; what came before it is no longer kept."""

    first: int


Input: TypeAlias = (
    Received | Request | LinkUp | LinkDown | Woken | Full | Drained | Records | Trimmed
)


class Send(msgspec.Struct, frozen=True, gc=False):
    """Send this to a neighbour; it may be lost."""

    neighbour: str
    packet: Frame | Offer


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
    """Write these events, whose ticks follow on the last, to the log; kept once synced."""

    events: tuple[Event, ...]


class Read(msgspec.Struct, frozen=True):
    """Read the log, and answer with `Records` of the same number. Reads may overtake each other.

    Begin behind `since`, or with the first event of time `after` or later if that is above 0;
    `Records.since` says where that was. Read about `limit` events, or as many as there are.
    """

    number: int
    since: int
    after: float
    limit: int


class Span(msgspec.Struct, frozen=True):
    """What of the node's own stream is kept in its log."""

    first: int = 1
    last: int = 0
    time: float = 0.0
    """Of the last event."""


Effect: TypeAlias = Send | Deliver | Reply | Store | Sync | Wake | Append | Read
