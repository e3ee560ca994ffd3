"""Requests: what clients ask of a node, and what it answers."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from tidings.events import Filter, Notification


class Attach(msgspec.Struct, frozen=True):
    """Open a session, or resume it: all that it wants and advertises, and what it has heard.

    The cursor is the last tick heard of each stream: nothing up to it is delivered again.
    """

    subscriptions: dict[str, Filter] = {}
    advertisements: dict[str, Filter] = {}
    cursor: dict[str, int] = {}


class Subscribe(msgspec.Struct, frozen=True):
    """Hear what the filter matches, until `Unsubscribe` with the same id."""

    id: str
    filter: Filter


class Unsubscribe(msgspec.Struct, frozen=True):
    """Hear it no longer; an unknown id is no error."""

    id: str


class Advertise(msgspec.Struct, frozen=True):
    """Say what will be published, until `Unadvertise` with the same id."""

    id: str
    filter: Filter


class Unadvertise(msgspec.Struct, frozen=True):
    """Take an advertisement back; an unknown id is no error."""

    id: str


class Publish(msgspec.Struct, frozen=True, gc=False):
    """Say what happened. Ticks rise; one that is not above the last is taken for a repetition."""

    tick: int
    notification: Notification


class Renew(msgspec.Struct, frozen=True):
    """The client is still there, and this is the digest of what it wants and advertises."""

    digest: int


class Detach(msgspec.Struct, frozen=True):
    """Close the session, with all that it wanted."""


RequestBody: TypeAlias = (
    Attach | Subscribe | Unsubscribe | Advertise | Unadvertise | Publish | Renew | Detach
)


class Accepted(msgspec.Struct, frozen=True):
    """The request is stored and will survive a crash."""

    id: str


class Refused(msgspec.Struct, frozen=True):
    """The request was not carried out."""

    id: str
    reason: str


class Resend(msgspec.Struct, frozen=True):
    """The session is unknown or differs from what the client says: attach again."""


Answer: TypeAlias = Accepted | Refused | Resend
