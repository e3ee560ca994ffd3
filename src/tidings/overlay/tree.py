"""Trees: how brokers in any connected network agree on one tree, and mend it.

The broker with the smallest name is the root. It sends a *beat*, a number that only it can raise; a
broker that hears a new one from its parent passes it on, one hop further away. A broker's parent is
the neighbour that offers the smallest root, and of those the nearest. An offer counts only if its
beat is newer than any that the broker has offered itself, or as new and strictly nearer to the
root: what hangs on the broker cannot offer that, so there is no loop among brokers that believe in
the same root, and nothing to count to infinity. (One that has just restarted has forgotten what it
offered, and may be part of a loop for a moment; not to be would mean to wait for newer beats at
every start.) A root that no longer beats is forgotten everywhere within `expiry`, however long its
last beat is passed around, because only a beat not heard before counts. A beat that is long over is
denied: the broker that offers it is told the newest, and passes that on, so that a root which has
forgotten how far it was goes beyond it. Whatever state it starts from, the network agrees on the
tree of the root that is alive, within `bound`.

One tree is shared by all publishers, so a broker keeps one table for each neighbour and not one
for each neighbour and source; what that costs is the detour of an event whose shortest path is
not in the tree.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import inf
from typing import Any, Final, NamedTuple

from tidings.overlay.trees import Join, Move, Quit, Role, Say
from tidings.protocol.messages import Offer

_LAG: Final = 2
"""Beats that an offer may be behind the newest: further behind, it hangs on a dead branch."""
_FARTHEST: Final = 256
"""An offer from as far away does not count: it only tells how far the beats of its root are."""
_TURNS: Final = 4
"""Turns after which a process counts as one of several of its name. One that has been restarted or
moved takes one turn, and the one before it, whose last beats may come late, two at most."""


class Process(NamedTuple):
    """What is heard of a process that is a root."""

    beat: int
    turns: int
    """Times that it was heard after another one of its name."""
    at: float
    way: tuple[str, ...]
    """From it to this one; "…" stands for those before the last one between them."""


class Tree:
    """One broker's view of the tree, as an overlay. `parent` and `root` say where it is."""

    is_fixed = False

    def __init__(
        self,
        name: str,
        *,
        incarnation: int,
        period: float,
        expiry: float,
        peers: Iterable[str] = (),
        instance: str = "",
    ) -> None:
        """`peers` are all whom it can hear. `instance` is drawn anew for each node."""
        self.name = name
        self._instance = instance
        self._peers = dict.fromkeys(peers)
        self._told: list[Move] = []
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
        self._roots: dict[str, dict[str, Process]] = {}
        """For each root, by instance, the processes of that name, the one heard last at the end."""
        self.due = 0.0

    @staticmethod
    def bound(*, period: float, expiry: float, latency: float, diameter: int) -> float:
        """Seconds after the last fault within which all brokers agree."""
        return expiry + (2 * _LAG + 3) * period + 4 * (diameter + 1) * latency

    def offer(self) -> Offer:
        """What to tell the neighbours."""
        self._number += 1
        parent = self._offers.get(self.parent or "")
        instance = self._instance if parent is None else parent.instance
        return Offer(self._number, self.root, self.beat, self.distance, self.parent, instance)

    # -- as an overlay: see `Trees` ------------------------------------------------------------

    def up(self, peer: str, cost: float, now: float) -> None:
        self._peers[peer] = None

    def down(self, peer: str, now: float) -> None:
        before = None if peer == self.parent else self.parent
        self._told.append(Quit(peer, is_dead=True))
        self._follow(self.lose(peer, now), before)

    def hear(self, peer: str, packet: Any, now: float) -> None:
        if isinstance(packet, Offer):
            before = self.parent
            self._follow(self.take(peer, packet, now), before)

    def wake(self, now: float) -> None:
        for peer in self.silent(now):
            self.down(peer, now)
        before = self.parent
        self.beat_on(now)
        self._follow(True, before)

    def _follow(self, is_new: bool, before: str | None) -> None:
        """Join the parent, leave the one before it, and tell all peers."""
        if self.parent != before:
            if before is not None:
                self._told.append(Quit(before))
            if self.parent is not None:
                self._told.append(Join(self.parent))
        if is_new:
            offer = self.offer()
            self._told += [Say(peer, offer) for peer in self._peers]

    def moves(self) -> list[Move]:
        told, self._told = self._told, []
        return told

    def links(self, lane: int = 0) -> Mapping[str, Role]:
        return {} if self.parent is None else {self.parent: "peer"}

    # -- two of one name -----------------------------------------------------------------------

    def doubles(self) -> dict[str, list[tuple[str, ...]]]:
        """The names under which several processes beat, and the ways by which they are heard."""
        lasting = {
            root: sorted(each.way for each in some.values() if each.turns >= _TURNS)
            for root, some in self._roots.items()
        }
        return {root: ways for root, ways in lasting.items() if len(ways) > 1}

    def _note_root(self, peer: str, offer: Offer, now: float) -> None:
        between = ("…",) * (offer.distance > 1) + (peer,) * (offer.distance > 0)
        way = (offer.root, *between, self.name)
        self._beaten(offer.root, offer.instance, offer.beat, way, now)

    def _beaten(
        self, root: str, instance: str, beat: int, way: tuple[str, ...], now: float
    ) -> None:
        """A beat that was not heard before comes from a process that is alive."""
        some = self._roots.setdefault(root, {})
        latest = next(reversed(some), instance)
        known = some.get(instance, Process(-1, 0, now, way))
        if beat > known.beat:
            some.pop(instance, None)
            some[instance] = Process(beat, known.turns + (instance != latest), now, known.way)

    def _forget_roots(self, now: float) -> None:
        for root, some in list(self._roots.items()):
            for instance in [i for i, p in some.items() if not 0 <= now - p.at < self._expiry]:
                del some[instance]
            if not some:
                del self._roots[root]

    # -- which tree ----------------------------------------------------------------------------

    def take(self, neighbour: str, offer: Offer, now: float) -> bool:
        """Take a neighbour's offer; whether there is something new to tell."""
        number, at = self._latest.get(neighbour, (-1, now))
        if offer.number <= number and now - at < self._expiry:
            return False
        self._latest[neighbour] = (offer.number, now)
        self._heard_at[neighbour] = now
        self._peers[neighbour] = None
        if offer.root == self.name:  # what it does not remember to have beaten, it goes beyond
            self._own = max(self._own, offer.beat)
        newest = self._newest.get(offer.root)
        is_denial = offer.distance >= _FARTHEST
        if not is_denial:
            self._offers[neighbour] = offer
            self._note_root(neighbour, offer, now)
        if newest is None or offer.beat > newest[0]:
            self._newest[offer.root] = (offer.beat, now)
            if is_denial:
                for other, each in self._offers.items():
                    self._deny(other, each)
        elif not is_denial:
            self._deny(neighbour, offer)
        return self._choose(now)

    def _deny(self, neighbour: str, offer: Offer) -> None:
        """Tell a broker that offers a beat that is long over which one is the newest.

        If the root itself is told, it goes beyond that: it has forgotten how far it was, or what
        is remembered here of it is wrong.
        """
        newest, _ = self._newest.get(offer.root, (0, 0.0))
        if offer.beat < newest - _LAG:
            self._number += 1
            denial = Offer(self._number, offer.root, newest, _FARTHEST, None)
            self._told.append(Say(neighbour, denial))

    def notice(self, neighbour: str, now: float) -> None:
        """A neighbour has said something, if no offer: it is alive."""
        if neighbour in self._heard_at:
            self._heard_at[neighbour] = now

    def lose(self, neighbour: str, now: float) -> bool:
        """A neighbour is gone; whether there is something new to tell."""
        self._offers.pop(neighbour, None)
        self._heard_at.pop(neighbour, None)
        return self._choose(now)

    def beat_on(self, now: float) -> None:
        """A period is over."""
        self.due = now + self._period
        self._own += 1
        for root in [r for r, (_, at) in self._newest.items() if now - at > 8 * self._expiry]:
            del self._newest[root]
            self._offered.pop(root, None)
        self._mend(now)
        self._beaten(self.name, self._instance, self._own, (self.name,), now)
        self._forget_roots(now)
        self._choose(now)

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
