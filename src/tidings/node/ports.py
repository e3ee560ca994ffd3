"""Ports: those that a node talks to. Here, a neighbour on a lane, at the end of a link."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Final

from tidings.overlay import Link
from tidings.protocol.messages import View
from tidings.protocol.parts import Version

_NOT_YET: Final = Version(0)


@dataclass(slots=True, eq=False)
class Neighbour:
    """Another node on one lane of the overlay, at the end of a link.

    All that is kept for a neighbour is kept in this object, or under it: a node that is met on two
    lanes is two neighbours, of which each has its own tables, view, ways and checks.

    An overlay may let a link be used by the decision of its ends: each of them counts how often
    it has *joined* and left in this conversation, so that an odd number says that it has joined.
    Both numbers are the link's *view*, and every change of it begins with empty tables.
    """

    name: str
    order: int
    role: str
    """`peer`, or `parent` or `child` in a hierarchy."""
    link: Link
    lane: int = 0
    is_up: bool = True
    is_linked: bool = False
    """Whether tables are open: the overlay uses the link."""
    joined: int = 0
    joined_by: int = 0
    lost_at: float = inf
    """When it is given up unless it comes back."""
    kept: int = 0
    """Events kept for it since it cannot be reached."""
    checks: int = 0
    """Checks sent since the last that failed."""
    check_at: float = inf
    told: Version = _NOT_YET
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
