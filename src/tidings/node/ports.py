"""Ports: those that a node talks to. Here, a neighbour on a lane, at the end of a link."""

from __future__ import annotations

from math import inf

from tidings.overlay import Link, Role
from tidings.protocol.messages import View
from tidings.protocol.parts import Version


class Neighbour:
    """Another node on one lane of the overlay, at the end of a link.

    All that is kept for a neighbour is kept in this object, or under it: a node that is met on two
    lanes is two neighbours, of which each has its own tables, view, ways and checks.

    An overlay may let a link be used by the decision of its ends: each of them counts how often
    it has *joined* and left in this conversation, so that an odd number says that it has joined.
    Both numbers are the link's *view*, and every change of it begins with empty tables.
    """

    __slots__ = (
        "check_at",
        "checks",
        "is_linked",
        "is_up",
        "joined",
        "joined_by",
        "kept",
        "lane",
        "link",
        "lost_at",
        "name",
        "order",
        "role",
        "told",
    )

    def __init__(self, name: str, order: int, role: Role, link: Link, *, lane: int = 0) -> None:
        self.name = name
        self.lane = lane
        self.order = order
        self.role: str = role
        """`peer`, or `parent` or `child` in a hierarchy."""
        self.link = link
        self.is_up = True
        self.is_linked = False
        """Whether tables are open: the overlay uses the link."""
        self.joined = 0
        self.joined_by = 0
        self.lost_at = inf
        """When it is given up unless it comes back."""
        self.kept = 0
        """Events kept for it since it cannot be reached."""
        self.checks = 0
        """Checks sent since the last that failed."""
        self.check_at = inf
        self.told = Version(0)
        """How often it was told what is wanted."""

    @property
    def is_open(self) -> bool:
        """Whether it hears what it is sent, from the beginning of a conversation on."""
        return bool(self.link.peer)

    @property
    def has_joined(self) -> bool:
        """Whether this end uses the link by its own decision."""
        return self.joined % 2 == 1

    @property
    def is_in_use(self) -> bool:
        """Whether one of the ends uses the link by its own decision."""
        return (self.joined | self.joined_by) % 2 == 1

    @property
    def view(self) -> View:
        """As this end writes it."""
        return (self.joined, self.joined_by)

    def sees(self, view: View) -> bool:
        """Whether the other end wrote this in the same view."""
        return view == (self.joined_by, self.joined)
