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


class LinkUp(msgspec.Struct, frozen=True):
    """The neighbour can be reached (again)."""

    neighbour: str


class LinkDown(msgspec.Struct, frozen=True):
    """The neighbour cannot be reached."""

    neighbour: str


class Woken(msgspec.Struct, frozen=True):
    """The time that the node asked to be woken at has come."""


Input: TypeAlias = Received | Request | LinkUp | LinkDown | Woken


class Send(msgspec.Struct, frozen=True, gc=False):
    """Send this to a neighbour; it may be lost."""

    neighbour: str
    packet: Frame | Offer


class Deliver(msgspec.Struct, frozen=True, gc=False):
    """Notify a client."""

    session: str
    event: Event


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


Effect: TypeAlias = Send | Deliver | Reply | Store | Sync | Wake
