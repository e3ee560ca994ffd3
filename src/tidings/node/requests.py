"""Requests: what clients ask of a node, and what it answers."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from tidings.events import Filter, Notification

Cursor: TypeAlias = dict[str, int]
"""A position: of each stream, the last tick that lies behind it."""
Since: TypeAlias = Cursor | float | Literal["begin"] | None
"""Where to begin: behind a cursor, at a time, with the first event kept, or now."""


class Attach(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """Open a session, or resume it: all that it wants and advertises, and what it has heard.

    The cursor is the last tick heard of each stream: nothing up to it is delivered again.
    """

    subscriptions: dict[str, Filter] = {}
    advertisements: dict[str, Filter] = {}
    cursor: dict[str, int] = {}


class Subscribe(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """Hear what the filter matches, until `Unsubscribe` with the same id.

    A node with a log accepts it once the subscription has started in every stream that can be
    reached. A durable subscription that is known goes on behind what was acknowledged, unless
    `since` says otherwise.
    """

    id: str
    filter: Filter
    durable: str | None = None
    """The name under which the node keeps its cursor."""
    since: Since = None
    begun: float = 0.0
    """When it was first made, if it is made again: nothing older of what the cursor lacks."""


class Unsubscribe(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """Hear it no longer; an unknown id is no error. Also ends a `Watch`."""

    id: str
    forget: bool = False
    """Forget the cursor of a durable subscription, too."""


class Acknowledge(msgspec.Struct, frozen=True, array_like=True, tag=4):
    """A durable subscription need never again be told of what lies up to this cursor."""

    id: str
    cursor: Cursor
    durable: str | None = None
    """Its name, if nobody reads it now: then what it is told comes from elsewhere."""


class Watch(msgspec.Struct, frozen=True, array_like=True, tag=5):
    """Say whether somebody wants something that this filter matches, now and when it changes."""

    id: str
    filter: Filter


class Advertise(msgspec.Struct, frozen=True, array_like=True, tag=6):
    """Say what will be published, until `Unadvertise` with the same id."""

    id: str
    filter: Filter


class Unadvertise(msgspec.Struct, frozen=True, array_like=True, tag=7):
    """Take an advertisement back; an unknown id is no error."""

    id: str


class Publish(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=8):
    """Say what happened.

    A client numbers its notifications; `number` is that of the first, and the others follow on
    it. One that is not above the last is taken for a repetition. Without any notifications, it
    says that the number is left out, since it was refused before the session was attached again.
    """

    number: int
    notifications: tuple[Notification, ...]


class Renew(msgspec.Struct, frozen=True, array_like=True, tag=9):
    """The client is still there, and this is the digest of what it wants and advertises."""

    digest: int


class Detach(msgspec.Struct, frozen=True, array_like=True, tag=10):
    """Close the session, with all that it wanted."""

    forget: bool = False
    """It will not come back to send something again."""


RequestBody: TypeAlias = (
    Attach
    | Subscribe
    | Unsubscribe
    | Acknowledge
    | Watch
    | Advertise
    | Unadvertise
    | Publish
    | Renew
    | Detach
)


class Accepted(msgspec.Struct, frozen=True, array_like=True, tag=16):
    """The request is stored and will survive a crash."""

    id: str
    number: int = 0
    """Up to this number the session's publications are kept."""


class Refused(msgspec.Struct, frozen=True, array_like=True, tag=17):
    """The request was not carried out, or what it began has ended."""

    id: str
    reason: str
    cursor: Cursor | None = None
    """Where to go on, if it was that events are no longer kept,"""
    stream: str = ""
    """which stream's they were,"""
    position: int = 0
    """and where in it the subscription is."""
    is_passing: bool = False
    """It may be carried out when it is asked for again later."""


class Resend(msgspec.Struct, frozen=True, array_like=True, tag=18):
    """The session is unknown or differs from what the client says: attach again."""


class Progress(msgspec.Struct, frozen=True, array_like=True, tag=19):
    """A subscription has been told of everything up to this cursor: the rest was silence."""

    id: str
    """Empty: all subscriptions of the session that were last said to be live."""
    cursor: Cursor
    is_live: bool
    """It has caught up in every stream that can be reached."""


class Missed(msgspec.Struct, frozen=True, array_like=True, tag=20):
    """So many events of a live subscription were not sent, since the client did not read."""

    id: str
    count: int


class Interest(msgspec.Struct, frozen=True, array_like=True, tag=21):
    """The answer to `Watch`."""

    id: str
    is_wanted: bool


Answer: TypeAlias = Accepted | Refused | Resend | Progress | Missed | Interest
