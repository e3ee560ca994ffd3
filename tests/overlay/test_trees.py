"""The laws of `Trees`, for each of its implementations; and that breaking one is noticed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.overlay.world import EXPIRY, LATENCY, PERIOD, Make, World
from tidings.overlay import Fixed, Move, Quit, Tree
from tidings.protocol.messages import Offer
from tidings.simulation.topology import Topology, line, random_graph

LATE = 2.0
"""Seconds that a packet may be late."""


def fixed(topology: Topology, name: str, starts: int) -> Fixed:
    return Fixed(dict.fromkeys(topology.neighbours(name), "peer"))


def tree(topology: Topology, name: str, starts: int) -> Tree:
    return Tree(
        name,
        incarnation=starts,
        period=PERIOD,
        expiry=EXPIRY,
        peers=topology.neighbours(name),
        instance=f"{name} started as number {starts}",
    )


def network(make: Make, nodes: int, extra: int, seed: int) -> Topology:
    """Any graph, or a tree if the overlay makes none itself."""
    room = (nodes - 1) * (nodes - 2) // 2
    return random_graph(nodes, seed=seed, extra=0 if make is fixed else min(extra, room))


def bound(topology: Topology) -> float:
    """Until conversations have begun anew, too. Time goes in steps as long as the latency."""
    rest = Tree.bound(period=PERIOD, expiry=EXPIRY, latency=2 * LATENCY, diameter=topology.diameter)
    return rest + 2 * PERIOD


EACH = pytest.mark.parametrize("make", [fixed, tree])
SIZES = {"nodes": st.integers(2, 9), "extra": st.integers(0, 6), "seed": st.integers(0, 10**6)}


def trouble(world: World, number: int) -> None:
    """Something happens to a network, and it goes on for a while."""
    random = world.random
    world.loss, world.doubling = random.choice((0.0, 0.3)), random.choice((0.0, 0.5))
    world.lateness = random.choice((0.0, LATE))
    for _ in range(number):
        link = random.choice(world.topology.links)
        name = random.choice(world.topology.nodes)
        match random.choice(("cut", "cut silently", "mend", "crash", "start")):
            case "mend":
                world.cut.discard(frozenset((link.a, link.b)))
            case "crash" if name in world.nodes:
                world.crash(name)
            case "start" if name not in world.nodes:
                world.start(name)
            case how:
                world.break_link(link.a, link.b, silently=how != "cut")
        world.run(random.uniform(0.0, 3.0))


def hold_after_any_faults(make: Make, nodes: int, extra: int, seed: int) -> None:
    world = World(make, network(make, nodes, extra, seed), seed)
    trouble(world, 5)
    world.mend()
    world.run(LATE + bound(world.topology))
    world.check_at_rest()


def hold_in_what_is_left(make: Make, nodes: int, extra: int, seed: int) -> None:
    """Nodes stay down, and links cut: each component has a tree of its own."""
    world = World(make, network(make, nodes, extra, seed), seed)
    trouble(world, 5)
    world.loss = world.doubling = world.lateness = 0.0
    world.run(LATE + bound(world.topology))
    world.check_at_rest()


def hold_after_any_damage(make: Make, nodes: int, extra: int, seed: int) -> None:
    world = World(make, network(make, nodes, extra, seed), seed)
    world.run(world.random.uniform(0.0, 2 * EXPIRY))
    for _ in range(world.random.randint(1, 12)):
        world.damage(world.random.choice(world.topology.nodes))
    world.run(bound(world.topology))
    world.check_at_rest()


LAWS = (hold_after_any_faults, hold_in_what_is_left, hold_after_any_damage)


@EACH
@pytest.mark.parametrize("law", LAWS)
@given(**SIZES)
@settings(max_examples=60, deadline=None)
def test_the_used_links_form_one_tree_that_both_ends_agree_on(
    make: Make, law: Callable[..., None], nodes: int, extra: int, seed: int
) -> None:
    law(make, nodes, extra, seed)


@EACH
def test_nothing_is_decided_any_more_where_nothing_happens(make: Make) -> None:
    world = World(make, network(make, 6, 3, seed=1))
    world.run(bound(world.topology))
    before = {name: dict(node.links()) for name, node in world.nodes.items()}
    for _ in range(50):
        world.run(PERIOD / 5)
        assert {name: dict(node.links()) for name, node in world.nodes.items()} == before


@EACH
def test_what_another_overlay_says_is_passed_over(make: Make) -> None:
    node = make(line(3), "b1", 1)
    before = dict(node.links())
    node.hear("b0", object(), 1.0)
    assert (node.moves(), dict(node.links())) == ([], before)


# -- mutations ---------------------------------------------------------------------------------


def without_quitting(moves: Callable[[Tree], list[Move]]) -> Callable[[Tree], list[Move]]:
    return lambda self: [move for move in moves(self) if not isinstance(move, Quit)]


def handed_out_twice(_: Callable[[Tree], list[Move]]) -> Callable[[Tree], list[Move]]:
    return lambda self: list(self._told)


def taken_when_overtaken(take: Callable[..., bool]) -> Callable[..., bool]:
    def anyhow(self: Tree, neighbour: str, offer: Offer, now: float) -> bool:
        self._latest.pop(neighbour, None)
        return take(self, neighbour, offer, now)

    return anyhow


MUTATIONS: dict[str, tuple[type, str, Callable[[Any], Any]]] = {
    "a parent is left without a word": (Tree, "moves", without_quitting),
    "moves are handed out twice": (Tree, "moves", handed_out_twice),
    "what was overtaken is taken": (Tree, "take", taken_when_overtaken),
    "nobody is silent": (Tree, "silent", lambda _: lambda self, now: []),
    "times in the future stand": (Tree, "_mend", lambda _: lambda self, now: None),
    "peers are forgotten": (Tree, "links", lambda _: lambda self, lane=0: {}),
    "who is down is no peer": (
        Fixed,
        "down",
        lambda _: lambda self, peer, now: self._roles.pop(peer, None),
    ),
    "who comes up is no peer": (Fixed, "links", lambda _: lambda self, lane=0: {}),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_law_that_is_broken_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kind, method, mutated = MUTATIONS[name]
    monkeypatch.setattr(kind, method, mutated(getattr(kind, method)))
    make: Make = fixed if kind is Fixed else tree
    with pytest.raises(AssertionError):
        hold_for_many(make)


def hold_for_many(make: Make) -> None:
    for seed in range(60):
        for law in LAWS:
            law(make, 3 + seed % 6, seed % 4, seed)
