"""Ports: whoever a node talks to. A client's session, or a neighbour at the end of a link."""

from __future__ import annotations

from math import inf
from typing import TypeAlias

from tidings.delivery import Reader
from tidings.events import Filter
from tidings.overlay import Link
from tidings.protocol.messages import View
from tidings.routing.digest import digest


class Session:
    """A client: what it wants and advertises, each under the client's own id."""

    __slots__ = (
        "advertisements",
        "attempt",
        "expires",
        "instance",
        "is_connected",
        "is_full",
        "name",
        "order",
        "progress",
        "publisher",
        "readers",
        "subscriptions",
    )

    def __init__(self, name: str, order: int) -> None:
        self.name = name
        self.order = order
        self.subscriptions: dict[str, Filter] = {}
        self.advertisements: dict[str, Filter] = {}
        self.expires = inf
        self.is_connected = False
        # Where the node has a log:
        self.publisher = name
        """The name under which it publishes, which no other session has,"""
        self.instance, self.attempt = "", 0
        """and which process it is, at its how manyth attempt."""
        self.readers: dict[str, Reader] = {}
        self.is_full = False
        """The client does not read."""
        self.progress: dict[str, int] = {}
        """What it was told last of how far the flows are."""

    @property
    def digest(self) -> int:
        """Of what it wants and advertises: see `summary`."""
        return summary(self.subscriptions, self.advertisements)


class Neighbour:
    """Another node, at the end of a link.

    In a network that agrees on a tree, a link belongs to it if one end has *joined* the other,
    that is, has made it its parent. Each end counts how often it has joined and left in this
    session of the link, so that an odd number says that it has joined; both numbers are the
    link's *view*, and every change of it begins with empty tables.
    """

    __slots__ = (
        "check_at",
        "checks",
        "is_up",
        "joined",
        "joined_by",
        "kept",
        "link",
        "lost_at",
        "name",
        "order",
        "role",
        "told",
    )

    def __init__(self, name: str, order: int, role: str, link: Link) -> None:
        self.name = name
        self.order = order
        self.role = role
        """`peer`, or `parent` or `child` in a hierarchy."""
        self.link = link
        self.is_up = True
        self.joined = 0
        self.joined_by = 0
        self.lost_at = inf
        self.kept = 0
        """Events kept for it since it cannot be reached."""
        self.checks = 0
        """Checks sent since the last that failed."""
        self.check_at = inf
        self.told = 0
        """How often it was told what is wanted."""

    @property
    def has_joined(self) -> bool:
        """Whether it is this node's parent."""
        return self.joined % 2 == 1

    @property
    def is_in_tree(self) -> bool:
        """Whether the link belongs to the tree."""
        return (self.joined | self.joined_by) % 2 == 1

    @property
    def view(self) -> View:
        """As this end writes it."""
        return (self.joined, self.joined_by)

    def sees(self, view: View) -> bool:
        """Whether the other end wrote this in the same view."""
        return view == (self.joined_by, self.joined)


Port: TypeAlias = Session | Neighbour


def count(filters: dict[str, Filter]) -> dict[Filter, int]:
    """A table of what is there under several ids."""
    table: dict[Filter, int] = {}
    for each in filters.values():
        table[each] = table.get(each, 0) + 1
    return table


def summary(subscriptions: dict[str, Filter], advertisements: dict[str, Filter]) -> int:
    """A digest by which client and node find out whether they mean the same session."""
    return digest(count(subscriptions)) ^ (digest(count(advertisements)) * 3 & (1 << 64) - 1)
