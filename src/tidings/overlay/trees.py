"""Trees: which links of a node carry tables and events. What a node knows of its overlay.

An overlay is pure. It is told who can be reached and what others say outside conversations, and
what follows from that it says as `moves`, which the node carries out in order::

    node                                overlay
      │ up, down, hear, notice, wake      │
      ├──────────────────────────────────▶│
      │ moves()                           │
      │◀──────────────────────────────────┤   Say, Join, Quit, Meet, Leave
      │ links()                           │
      │◀──────────────────────────────────┤   tables are open exactly there

Packets may be lost, doubled or late, so each of them is idempotent.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

Role: TypeAlias = Literal["peer", "parent", "child"]
"""What a neighbour is to this node; a parent tells its children only "everything"."""


class Say(NamedTuple):
    """Send a packet outside any conversation."""

    peer: str
    packet: Any


class Meet(NamedTuple):
    """Connect to a node that is to be a neighbour; it may dial, if it has no address."""

    peer: str
    address: str


class Leave(NamedTuple):
    """Disconnect from a neighbour, and forget all of it until it is met again."""

    peer: str


class Join(NamedTuple):
    """Use the link to a peer, by this node's decision."""

    peer: str
    lane: int = 0


class Quit(NamedTuple):
    """Use it no longer. If the peer is dead, its conversation begins anew when it is heard."""

    peer: str
    lane: int = 0
    is_dead: bool = False


Move: TypeAlias = Say | Meet | Leave | Join | Quit


class Trees(Protocol):
    """An overlay whose links form a tree on each lane; there is one lane, 0, so far."""

    is_fixed: bool
    """Both ends know which links are used, and keep tables for a while when one is cut. Else a
    link is used as soon as one end decides so, and says it: see `Member`."""
    due: float
    """When to wake it next."""

    def up(self, peer: str, cost: float, now: float) -> None:
        """A conversation with a peer has begun. `cost` is its round trip, in seconds, or 0."""

    def down(self, peer: str, now: float) -> None:
        """A peer cannot be reached."""

    def hear(self, peer: str, packet: Any, now: float) -> None:
        """A peer says something outside any conversation."""

    def notice(self, peer: str, now: float) -> None:
        """A peer has said something in a conversation: it is alive."""

    def wake(self, now: float) -> None:
        """Time has passed."""

    def moves(self) -> list[Move]:
        """What follows, each told once; to be carried out after every call."""

    def links(self, lane: int = 0) -> Mapping[str, Role]:
        """The peers whose links are used by this node's own decision."""


class Fixed:
    """Links that were configured and form a tree by themselves: lines, stars, hierarchies.

    >>> overlay = Fixed({"paris": "peer"})
    >>> overlay.up("rome", 0.0, now=1.0)
    >>> overlay.links(), overlay.moves()
    ({'paris': 'peer', 'rome': 'peer'}, [])
    """

    is_fixed = True

    def __init__(self, roles: Mapping[str, Role]) -> None:
        self.due = inf
        self._roles: dict[str, Role] = dict(roles)

    def up(self, peer: str, cost: float, now: float) -> None:
        self._roles.setdefault(peer, "peer")

    def down(self, peer: str, now: float) -> None:
        """It may come back."""

    def hear(self, peer: str, packet: Any, now: float) -> None:
        """Nobody has anything to say."""

    def notice(self, peer: str, now: float) -> None:
        """It does not matter who is alive."""

    def wake(self, now: float) -> None:
        """Time does not matter."""

    def moves(self) -> list[Move]:
        return []

    def links(self, lane: int = 0) -> Mapping[str, Role]:
        return self._roles
