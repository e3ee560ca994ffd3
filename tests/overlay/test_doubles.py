"""Two roots of one name: whoever hears both in turns says so, and nobody who hears only one."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import pytest

from tidings.overlay import Say, Tree
from tidings.protocol.messages import Offer

PERIOD = 1.0


class Row:
    """Trees in a row, whose offers arrive in the same moment. Each place is a process."""

    def __init__(self, *names: str, expiry: float = 4.5) -> None:
        self.now = 0.0
        self.names = names
        self.expiry = expiry
        self.trees: dict[int, Tree] = {}
        self._starts = 0
        for at in range(len(names)):
            self.start(at)

    def start(self, at: int, *, incarnation: int = 1) -> None:
        self._starts += 1
        self.trees[at] = Tree(
            self.names[at],
            incarnation=incarnation,
            period=PERIOD,
            expiry=self.expiry,
            peers=[self.names[b] for b in self._beside(at)],
            instance=f"process {self._starts}",
        )
        self.trees[at].wake(self.now)
        self._carry(at)

    def _beside(self, at: int) -> list[int]:
        return [b for b in (at - 1, at + 1) if 0 <= b < len(self.names)]

    def run(self, seconds: float) -> None:
        end = self.now + seconds
        while self.now < end:
            self.now += PERIOD / 10
            for at, tree in list(self.trees.items()):
                if tree.due <= self.now + at * PERIOD / 30:
                    tree.wake(self.now)
                    self._carry(at)

    def _carry(self, source: int) -> None:
        waiting = [source]
        while waiting:
            at = waiting.pop(0)
            for move in self.trees[at].moves():
                beside = [b for b in self._beside(at) if self.names[b] == move.peer]
                for other in beside:
                    if isinstance(move, Say) and other in self.trees:
                        self.trees[other].hear(self.names[at], move.packet, self.now)
                        waiting.append(other)

    @property
    def told(self) -> dict[int, Mapping[str, list[tuple[str, ...]]]]:
        """What each process says that has something to say."""
        return {at: tree.doubles() for at, tree in self.trees.items() if tree.doubles()}


@pytest.mark.parametrize("expiry", [2.5, 4.5, 10.0])
@pytest.mark.parametrize("between", [("bert", "cora"), ("bert", "cora", "dora")])
def test_two_roots_of_one_name_are_told_of_between_them(
    between: tuple[str, ...], expiry: float
) -> None:
    row = Row("anna", *between, "anna", expiry=expiry)
    row.run(20.0)
    assert row.told
    for at, found in row.told.items():
        assert found.keys() == {"anna"}
        own = row.names[at]
        assert all((way[0], way[-1]) == ("anna", own) for way in found["anna"] if len(way) > 1)


def test_the_ways_to_both_are_named() -> None:
    row = Row("anna", "bert", "cora", "anna")
    row.run(20.0)
    assert row.told[1] == {"anna": [("anna", "bert"), ("anna", "cora", "bert")]}
    row = Row("anna", "bert", "cora", "dora", "anna")
    row.run(20.0)
    ways = [way for found in row.told.values() for way in found["anna"]]
    assert any(len(way) == 3 for way in ways)


def test_the_twin_of_a_root_that_is_older_is_told_of_as_well() -> None:
    row = Row("anna", "bert", "cora", "dora")
    row.names = ("anna", "bert", "cora", "anna")
    row.run(5.0)
    row.start(3, incarnation=9)
    row.run(20.0)
    assert 1 in row.told or 2 in row.told


def test_nobody_is_taken_for_two_where_names_differ() -> None:
    row = Row("anna", "bert", "cora", "dora")
    for _ in range(100):
        row.run(0.3)
        assert not row.told


@pytest.mark.parametrize("expiry", [2.5, 4.5, 10.0, 60.0])
@pytest.mark.parametrize("away", [0.0, 0.5, 3.0])
def test_a_root_that_is_started_again_is_not_two(expiry: float, away: float) -> None:
    row = Row("anna", "bert", "cora", expiry=expiry)
    row.run(20.0)
    for incarnation in range(2, 9):
        del row.trees[0]
        row.run(away)
        row.start(0, incarnation=incarnation)
        for _ in range(int(10 * expiry) if incarnation == 8 else 10):
            row.run(0.1)
            assert not row.told, incarnation


@pytest.mark.parametrize("expiry", [2.5, 4.5, 10.0, 60.0])
def test_a_root_that_moves_to_another_place_is_not_two(expiry: float) -> None:
    row = Row("anna", "bert", "cora", "anna", expiry=expiry)
    del row.trees[3]
    row.run(20.0)
    del row.trees[0]
    row.start(3, incarnation=2)
    for _ in range(300):
        row.run(0.1)
        assert not row.told
    assert row.trees[1].parent == "cora"


def test_two_of_one_name_are_told_of_no_longer_when_one_has_gone() -> None:
    row = Row("anna", "bert", "cora", "anna")
    row.run(20.0)
    assert row.told
    del row.trees[3]
    row.trees[2].down("anna", row.now)
    row.run(row.expiry + PERIOD)
    assert not row.told


def test_beats_that_come_late_or_twice_are_no_turns() -> None:
    tree = Tree("bert", incarnation=1, period=PERIOD, expiry=100.0, peers=["anna"])
    old, new = (
        Tree("anna", incarnation=n, period=PERIOD, expiry=4.5, instance=f"{n}") for n in (1, 2)
    )
    early, late = ([_next_offer(root) for _ in range(4)] for root in (old, new))
    assert all(a.beat < b.beat for a, b in pairwise([*early, *late]))
    for number in range(40):
        for offer in (early[number % 4], late[number % 4]):
            tree.hear("anna", offer, 1.0)
    assert not tree.doubles()


def _next_offer(root: Tree) -> Offer:
    root.beat_on(0.0)
    return root.offer()
