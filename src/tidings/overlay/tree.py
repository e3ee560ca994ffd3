"""Trees: how brokers in any connected network agree on one tree, and mend it.

The broker with the smallest name is the root. It sends a *beat*, a number that only it can raise;
whoever hears a new one from its parent passes it on, one hop further away. A broker's parent is
the neighbour that offers the smallest root, and of those the nearest. An offer counts only if its
beat is newer than any that the broker has offered itself, or as new and strictly nearer to the
root: what hangs on the broker cannot offer that, so there is no loop among brokers that believe
in the same root, and nothing to count to infinity. (One that has just restarted has forgotten what
it offered, and may be part of a loop for a moment; not to be would mean to wait for newer beats at
every start.) A root that no longer beats is forgotten everywhere within `expiry`, however long its
last beat is passed around, because only a beat not heard before counts. Whatever state it starts
from, the network agrees on the tree of the root that is alive, within `bound`.

One tree is shared by all publishers, so a broker keeps one table for each neighbour and not one
for each neighbour and source; what that costs is the detour of an event whose shortest path is
not in the tree.
"""

from __future__ import annotations

from math import inf
from typing import Final

from tidings.protocol.messages import Offer

_LAG: Final = 2
"""An offer may be so many beats behind the newest: further behind, it hangs on a dead branch."""
_FARTHEST: Final = 256
"""No offer from farther away counts: only damage could have brought it about."""


class Tree:
    """One broker's view of the tree. `parent` and `root` say where it is."""

    def __init__(self, name: str, *, incarnation: int, period: float, expiry: float) -> None:
        self.name = name
        self.root, self.distance = name, 0
        self.parent: str | None = None
        self.beat = incarnation << 32  # a root that comes back beats where it has never beaten
        self._own = self._number = self.beat
        self._period, self._expiry = period, expiry
        self._offers: dict[str, Offer] = {}
        self._heard_at: dict[str, float] = {}
        self._latest: dict[str, tuple[int, float]] = {}
        """For each neighbour the number of its latest offer, and when it was heard."""
        self._newest: dict[str, tuple[int, float]] = {}
        """For each root the newest beat, and when it was first heard."""
        self._offered: dict[str, tuple[int, int]] = {}
        """For each root the newest beat offered, and negative, the least distance with it."""
        self.due = 0.0

    @staticmethod
    def bound(*, period: float, expiry: float, latency: float, diameter: int) -> float:
        """After the last fault all brokers agree within so many seconds."""
        return expiry + (2 * _LAG + 3) * period + 4 * (diameter + 1) * latency

    def offer(self) -> Offer:
        """What to tell the neighbours."""
        self._number += 1
        return Offer(self._number, self.root, self.beat, self.distance, self.parent)

    def hear(self, neighbour: str, offer: Offer, now: float) -> bool:
        """Take a neighbour's offer; whether there is something new to tell."""
        number, at = self._latest.get(neighbour, (-1, now))
        if offer.number <= number and now - at < self._expiry:
            return False
        self._latest[neighbour] = (offer.number, now)
        self._offers[neighbour] = offer
        if offer.root == self.name:  # what it does not remember to have beaten, it goes beyond
            self._own = max(self._own, offer.beat)
        self._heard_at[neighbour] = now
        newest = self._newest.get(offer.root)
        if newest is None or offer.beat > newest[0]:
            self._newest[offer.root] = (offer.beat, now)
        return self._choose(now)

    def notice(self, neighbour: str, now: float) -> None:
        """A neighbour has said something, if no offer: it is alive."""
        if neighbour in self._heard_at:
            self._heard_at[neighbour] = now

    def lose(self, neighbour: str, now: float) -> bool:
        """A neighbour is gone; whether there is something new to tell."""
        self._offers.pop(neighbour, None)
        self._heard_at.pop(neighbour, None)
        return self._choose(now)

    def wake(self, now: float) -> bool:
        """Time has passed; whether there is something to tell."""
        self.due = now + self._period
        self._own += 1
        for root in [r for r, (_, at) in self._newest.items() if now - at > 8 * self._expiry]:
            del self._newest[root]
            self._offered.pop(root, None)
        self._mend(now)
        self._choose(now)
        return True

    def _mend(self, now: float) -> None:
        """Nothing was heard in the future, and nothing offered that was not heard."""
        self._heard_at = {n: min(self._heard_at.get(n, now), now) for n in self._offers}
        self._latest = {n: (number, min(at, now)) for n, (number, at) in self._latest.items()}
        self._newest = {root: (beat, min(at, now)) for root, (beat, at) in self._newest.items()}
        for root, (beat, _) in list(self._offered.items()):
            if beat > self._newest.get(root, (-1, 0.0))[0]:
                del self._offered[root]

    def silent(self, now: float) -> list[str]:
        """The neighbours that have said nothing for too long."""
        return [n for n, at in self._heard_at.items() if now - at >= self._expiry]

    def _choose(self, now: float) -> bool:
        before = (self.root, self.beat, self.distance, self.parent)
        best: tuple[str, int, bool, str] = (self.name, 0, False, "")
        for neighbour, offer in self._offers.items():
            if self._is_valid(offer, now):
                mine = (offer.root, offer.distance + 1, neighbour != self.parent, neighbour)
                best = min(best, mine)
        self.root, self.distance, _, parent = best
        self.parent = parent or None
        self.beat = self._offers[parent].beat if parent else self._own
        if parent:
            mine_now = (self.beat, -self.distance)
            self._offered[self.root] = max(mine_now, self._offered.get(self.root, mine_now))
        return before != (self.root, self.beat, self.distance, self.parent)

    def _is_valid(self, offer: Offer, now: float) -> bool:
        if offer.root >= self.name or offer.parent == self.name or offer.distance >= _FARTHEST:
            return False
        beat, since = self._newest.get(offer.root, (0, -inf))
        if offer.beat < beat - _LAG or now - since >= self._expiry:
            return False
        return (offer.beat, -offer.distance) > self._offered.get(offer.root, (-1, 0))
