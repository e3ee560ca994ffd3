"""Brokers agree on the tree of shortest ways from the smallest name, and without lasting loops.

What holds for any overlay is in `test_trees`.
"""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tidings.overlay import Join, Say, Tree
from tidings.protocol.messages import Offer
from tidings.simulation.topology import Topology, line, random_graph

PERIOD, EXPIRY, LATENCY = 1.0, 4.5, 0.05


class Forest:
    """Trees in virtual time, with offers that take a while and may be lost."""

    def __init__(self, topology: Topology, seed: int) -> None:
        self.random = Random(seed)
        self.topology = topology
        self.now = 0.0
        self.loss = 0.0
        self.is_honest = True
        self.trees = {name: self._tree(name, 1) for name in topology.nodes}
        self.restarted: dict[str, float] = {}
        self.cut: set[frozenset[str]] = set()
        self.under_way: list[tuple[float, str, str, Offer]] = []

    def restart(self, name: str, incarnation: int) -> None:
        self.trees[name] = self._tree(name, incarnation)
        self.restarted[name] = self.now

    def _tree(self, name: str, incarnation: int) -> Tree:
        peers = self.topology.neighbours(name)
        return Tree(name, incarnation=incarnation, period=PERIOD, expiry=EXPIRY, peers=peers)

    def run(self, until: float) -> None:
        while self.now < until:
            self.now += LATENCY
            for name, tree in self.trees.items():
                if self.now >= tree.due:
                    tree.wake(self.now)
                    self._tell(name)
            arrived = [each for each in self.under_way if each[0] <= self.now]
            self.under_way = [each for each in self.under_way if each[0] > self.now]
            for _, source, target, offer in arrived:
                if target in self.trees:
                    self.trees[target].hear(source, offer, self.now)
                    self._tell(target)
            if self.is_honest:
                self.check_no_loop()

    def _tell(self, name: str) -> None:
        for move in self.trees[name].moves():
            is_cut = frozenset((name, move.peer)) in self.cut
            if isinstance(move, Say) and not is_cut and self.random.random() >= self.loss:
                delay = self.random.random() * LATENCY
                self.under_way.append((self.now + delay, name, move.peer, move.packet))

    def check_no_loop(self) -> None:
        for name in self.trees:
            seen: list[str] = []
            at: str | None = name
            while at is not None and at in self.trees:
                if at in seen:
                    assert self._is_excused(seen[seen.index(at) :]), f"a loop: {[*seen, at]}"
                    break
                seen.append(at)
                at = self.trees[at].parent

    def _is_excused(self, loop: list[str]) -> bool:
        """Whether they are about to find out: they believe in different roots, since an offer was
        lost, or one has just restarted and has forgotten what it offered."""
        roots = {self.trees[name].root for name in loop}
        since = max(self.restarted.get(name, -EXPIRY) for name in loop)
        return len(roots) > 1 or self.now - since < EXPIRY

    def check_agreed(self) -> None:
        hops = self.topology.hops_from(min(self.trees))
        for name, tree in self.trees.items():
            assert tree.root == min(self.trees)
            assert tree.distance == hops[name]
            if tree.parent is not None:
                assert hops[tree.parent] == hops[name] - 1


@given(st.integers(2, 9), st.integers(0, 6), st.integers(0, 10**6))
@example(nodes=8, extra=5, seed=0)  # a loop of a broker that has just restarted
def test_a_tree_without_loops_after_any_faults(nodes: int, extra: int, seed: int) -> None:
    room = (nodes - 1) * (nodes - 2) // 2
    topology = random_graph(nodes, seed=seed, extra=min(extra, room))
    forest = Forest(topology, seed)
    random = forest.random
    for number in range(4):
        forest.loss = random.choice((0.0, 0.3))
        link = random.choice(topology.links)
        forest.cut ^= {frozenset((link.a, link.b))}
        name = random.choice(topology.nodes)
        if name in forest.trees:
            del forest.trees[name]
        else:
            forest.restart(name, number + 2)
        forest.run(forest.now + random.uniform(0.0, 3.0))
    forest.loss = 0.0
    forest.cut.clear()
    for name in topology.nodes:
        if name not in forest.trees:
            forest.restart(name, 9)
    bound = Tree.bound(
        period=PERIOD, expiry=EXPIRY, latency=2 * LATENCY, diameter=topology.diameter
    )
    forest.run(forest.now + bound)
    forest.check_agreed()


def test_a_root_that_never_was_is_forgotten() -> None:
    topology = random_graph(5, seed=1, extra=3)
    forest = Forest(topology, 1)
    forest.is_honest = False
    for name, tree in forest.trees.items():
        neighbour = topology.neighbours(name)[0]
        tree.hear(neighbour, Offer(0, "a ghost", 1 << 60, 0, None), 0.0)
    forest.run(Tree.bound(period=PERIOD, expiry=EXPIRY, latency=LATENCY, diameter=4))
    forest.check_agreed()


def test_a_root_that_never_was_stays_if_any_offer_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the distance alone nobody finds out: it may rise for ever."""
    monkeypatch.setattr(Tree, "_is_valid", lambda self, offer, now: offer.root < self.name)
    with pytest.raises(AssertionError):
        test_a_root_that_never_was_is_forgotten()


def test_a_root_that_has_forgotten_its_beats_is_followed_again_at_once() -> None:
    forest = Forest(line(6), 1)
    forest.run(5 * PERIOD)
    forest.is_honest = False
    forest.trees["b0"] = forest._tree("b0", 0)
    forest.run(forest.now + 3 * PERIOD)
    forest.check_agreed()


def test_a_beat_that_never_was_is_gone_beyond_by_the_root_at_once() -> None:
    forest = Forest(line(6), 1)
    forest.run(5 * PERIOD)
    forest.is_honest = False
    forest.trees["b5"]._newest["b0"] = (1 << 50, forest.now)
    forest.run(forest.now + 3 * PERIOD)
    forest.check_agreed()


def test_an_offer_that_was_overtaken_changes_nothing() -> None:
    tree = Tree("b1", incarnation=1, period=PERIOD, expiry=EXPIRY)
    tree.hear("b0", Offer(2, "b0", 11, 0, None), 0.0)
    assert tree.parent == "b0"
    assert Join("b0") in tree.moves()
    tree.hear("b0", Offer(1, "b0", 10, 0, None), 0.1)
    assert tree.moves() == []
    assert tree.parent == "b0"
