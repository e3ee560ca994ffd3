"""Overlays in virtual time: what kernels and links do for them, in the plainest way.

A world carries out moves as `node.conversations` does: packets of `Say` may be lost, doubled or
late; that somebody joins or quits is said in conversations, which lose nothing and keep order, and
begin anew when one end has given the other up.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, Final

from tidings.overlay import Join, Quit, Say, Trees
from tidings.simulation.damage import damage_part
from tidings.simulation.topology import Topology

PERIOD: Final = 1.0
EXPIRY: Final = 4.5
LATENCY: Final = 0.05
"""Seconds that a packet takes at most, unless packets are late; and between two looks."""

Make = Callable[[Topology, str, int], Trees]
"""Makes the overlay of a node, given how often it was started."""
Way = tuple[str, str]


class World:
    """Nodes that consist of nothing but an overlay."""

    def __init__(self, make: Make, topology: Topology, seed: int = 0) -> None:
        self.random = Random(seed)
        self.topology = topology
        self.now = 0.0
        self.loss = self.doubling = self.lateness = 0.0
        self.cut: set[frozenset[str]] = set()
        """The links that carry nothing."""
        self.nodes: dict[str, Trees] = {}
        self._make = make
        self._starts = 0
        self._is_damaged = False
        self._wake_at: dict[str, float] = {}
        self._packets: list[tuple[float, Way, Any]] = []
        self._heard: dict[Way, list[Any]] = {}
        """What was heard on each way, to be heard again."""
        self._open: set[Way] = set()
        """The ends of conversations that have begun."""
        self._joined: dict[Way, bool] = {}
        """Whether each end has joined, by what it has said."""
        self._joined_by: dict[Way, bool] = {}
        self._said: list[tuple[Way, bool]] = []
        """What is under way in conversations."""
        for name in topology.nodes:
            self.start(name)

    # -- faults --------------------------------------------------------------------------------

    def start(self, name: str) -> None:
        """A node comes up, and has forgotten everything."""
        self._starts += 1
        self.nodes[name] = self._make(self.topology, name, self._starts)
        self._wake_at[name] = self.now
        for peer in self.topology.neighbours(name):
            self._forget((name, peer))

    def crash(self, name: str) -> None:
        del self.nodes[name]
        for peer in self.topology.neighbours(name):
            self._forget((name, peer))

    def break_link(self, a: str, b: str, *, silently: bool = False) -> None:
        self.cut.add(frozenset((a, b)))
        for name, peer in ((a, b), (b, a)):
            if name in self.nodes and not silently:
                self.nodes[name].down(peer, self.now)
                self._follow(name)

    def mend(self) -> None:
        """From now on links work, and packets arrive once and in time; all nodes are up."""
        self.loss = self.doubling = self.lateness = 0.0
        self.cut.clear()
        for name in self.topology.nodes:
            if name not in self.nodes:
                self.start(name)

    def damage(self, name: str) -> str:
        """Put another value into a field of an overlay."""
        self._is_damaged = True
        names = [*self.topology.nodes, "a ghost", "zoe"]
        return damage_part(self.nodes[name], self.random, names)

    # -- time ----------------------------------------------------------------------------------

    def run(self, seconds: float) -> None:
        end = self.now + seconds
        while self.now < end:
            self.now += LATENCY
            for name in [n for n, at in self._wake_at.items() if at <= self.now]:
                self._wake(name)
            self._deliver()
            self._converse()

    def _wake(self, name: str) -> None:
        """Kernels wake an overlay in each period, whatever it says about that."""
        self._wake_at[name] = self.now + PERIOD
        if name in self.nodes:
            self.nodes[name].wake(self.now)
            self._follow(name)
            for peer in self.topology.neighbours(name):
                self._heed((name, peer))

    def _deliver(self) -> None:
        arrived = [each for each in self._packets if each[0] <= self.now]
        self._packets = [each for each in self._packets if each[0] > self.now]
        for _, (source, target), packet in arrived:
            if self._carries(source, target):
                self._hear((source, target), packet)

    def _hear(self, way: Way, packet: Any) -> None:
        source, target = way
        node = self.nodes[target]
        node.hear(source, packet, self.now)
        self._follow(target)
        heard = self._heard.setdefault(way, [])
        heard.append(packet)
        if self._is_damaged:  # its sender may have forgotten which one is later
            return
        before = dict(node.links())
        for again in {id(p): p for p in (packet, self.random.choice(heard))}.values():
            node.hear(source, again, self.now)
            assert node.moves() == [], f"{target} does more when it hears {again} again"
            assert dict(node.links()) == before

    # -- what kernels do -----------------------------------------------------------------------

    def _follow(self, name: str) -> None:
        node = self.nodes[name]
        moves = node.moves()
        assert node.moves() == [], "each move is handed out once"
        for move in moves:
            way = (name, move.peer)
            match move:
                case Say(peer, packet):
                    self._send((name, peer), packet)
                case Quit(is_dead=True):
                    self._forget(way)
                case Join() | Quit():
                    self._heed(way)

    def _heed(self, way: Way) -> None:
        name, peer = way
        is_wanted = peer in self.nodes[name].links()
        if way in self._open and self._joined[way] != is_wanted:
            self._joined[way] = is_wanted
            self._said.append((way, is_wanted))

    def _send(self, way: Way, packet: Any) -> None:
        if way[1] not in self.topology.neighbours(way[0]):
            return
        for _ in range(1 + (self.random.random() < self.doubling)):
            if self.random.random() >= self.loss:
                late = self.random.random() * (LATENCY + self.lateness)
                self._packets.append((self.now + late, way, packet))

    # -- conversations -------------------------------------------------------------------------

    def _forget(self, way: Way) -> None:
        """One end begins anew."""
        self._open.discard(way)
        self._joined[way] = self._joined_by[way] = False
        self._said = [(w, said) for w, said in self._said if set(w) != set(way)]

    def _converse(self) -> None:
        said, self._said = self._said, []
        for (source, target), is_joined in said:
            if self._carries(source, target):
                self._joined_by[target, source] = is_joined
            else:
                self._said.append(((source, target), is_joined))
        for link in self.topology.links:
            ends = ((link.a, link.b), (link.b, link.a))
            if self._carries(*ends[0]) and not self._open.issuperset(ends):
                for way in ends:
                    self._forget(way)
                self._open.update(ends)
                for name, peer in ends:
                    self.nodes[name].up(peer, 0.0, self.now)
                    self._heed((name, peer))
                    self._follow(name)

    def _carries(self, a: str, b: str) -> bool:
        return a in self.nodes and b in self.nodes and frozenset((a, b)) not in self.cut

    # -- the laws ------------------------------------------------------------------------------

    def is_used(self, name: str, peer: str) -> bool:
        """Whether the one of these nodes uses the link to the other, as it sees it."""
        node = self.nodes[name]
        if node.is_fixed:
            return peer in node.links()
        return self._joined[name, peer] or self._joined_by[name, peer]

    def check_at_rest(self) -> None:
        """Both ends agree, and what is used is one tree in each component."""
        links = [link for link in self.topology.links if self._carries(link.a, link.b)]
        for link in links:
            ends = ((link.a, link.b), (link.b, link.a))
            uses = [self.is_used(*way) for way in ends]
            assert uses[0] == uses[1], f"{link.a} – {link.b} is used by one end"
            for name, peer in ends:
                node = self.nodes[name]
                is_told = node.is_fixed or self._joined[name, peer] == (peer in node.links())
                assert is_told, f"{name} has decided about {peer}, and said nothing"
        used = [link for link in links if self.is_used(link.a, link.b)]
        reached = _components(self.nodes, [(link.a, link.b) for link in links])
        joined = _components(self.nodes, [(link.a, link.b) for link in used])
        assert joined == reached, "the used links do not reach all that could be reached"
        assert len(used) == len(self.nodes) - len(set(reached.values())), "there is a loop"


def _components(nodes: Any, links: list[Way]) -> dict[str, str]:
    """For each node the smallest name that it reaches."""
    found = {name: name for name in nodes}
    for _ in nodes:
        for a, b in links:
            found[a] = found[b] = min(found[a], found[b])
    return found
