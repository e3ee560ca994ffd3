"""An overlay for tests of `Meet` and `Leave`: a node moves from one parent to another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tidings.overlay import Join, Leave, Meet, Move, Quit, Role


class Moving:
    """Uses the link to one parent. A new one is met first, and the old one left when it is there.

    `parent` and `address` say where it is to be from the next wake on; `guests` are let in.
    """

    is_fixed = False
    due = 0.0

    def __init__(self, parent: str | None = None, guests: Sequence[str] = ()) -> None:
        self.parent, self.address = parent, ""
        self.at: str | None = None
        self.reached: set[str] = set()
        self._guests = list(guests)
        self._told: list[Move] = []

    def move(self, parent: str | None, address: str = "") -> None:
        self.parent, self.address = parent, address

    def up(self, peer: str, cost: float, now: float) -> None:
        self.reached.add(peer)
        self._go()

    def part(self, peer: str) -> None:
        """With the next wake, be reached by it no longer."""
        self.reached.discard(peer)
        self._told.append(Leave(peer))

    def down(self, peer: str, now: float) -> None:
        self.reached.discard(peer)
        self._told.append(Quit(peer, is_dead=True))

    def hear(self, peer: str, packet: Any, now: float) -> None:
        """Nobody says anything."""

    def notice(self, peer: str, now: float) -> None:
        """It does not matter."""

    def wake(self, now: float) -> None:
        guests, self._guests = self._guests, []
        self._told += [Meet(guest, "") for guest in guests]
        if self.parent is not None and self.parent != self.at and self.address:
            self._told.append(Meet(self.parent, self.address))
        self._go()

    def _go(self) -> None:
        if self.parent == self.at or self.parent not in {*self.reached, None}:
            return
        before, self.at = self.at, self.parent
        if before is not None:
            self.reached.discard(before)
            self._told += [Quit(before), Leave(before)]
        if self.parent is not None:
            self._told.append(Join(self.parent))

    def moves(self) -> list[Move]:
        told, self._told = self._told, []
        return told

    def links(self, lane: int = 0) -> Mapping[str, Role]:
        return {} if self.at is None else {self.at: "peer"}
