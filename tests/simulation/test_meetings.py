"""Nodes that meet others and part from them while they run."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.overlay.moving import Moving
from tidings.node import Node, Settings
from tidings.simulation import Simulation
from tidings.simulation.clients import Client
from tidings.simulation.topology import line

ROW = {"b0": "b1", "b1": None, "b2": "b1"}
"""For each node where it is to be first."""
SETTINGS = Settings(check=3.0, beat=1.0)


@pytest.fixture
def overlays(monkeypatch: pytest.MonkeyPatch) -> dict[str, Moving]:
    """The latest overlay of each node."""
    found: dict[str, Moving] = {}

    def overlay(node: Node) -> Moving:
        return found.setdefault(node.name, Moving(ROW[node.name]))

    monkeypatch.setattr(Node, "_overlay", overlay)
    return found


Start = Callable[[], Simulation]


@pytest.fixture
def sim(overlays: dict[str, Moving]) -> Simulation:
    simulation = Simulation(line(3, latency=0.02), SETTINGS)
    simulation.run(3.0)
    assert simulation.tree() == {("b0", "b1"), ("b1", "b2")}
    return simulation


def check_heard(sim: Simulation, reader: Client, writer: Client, number: int) -> None:
    writer.publish({"n": number})
    sim.settle()
    assert [event.notification["n"] for event in reader.heard][-1:] == [number]


def check_sound(sim: Simulation) -> None:
    for name, node in sim.nodes.items():
        assert list(node._problems()) == [], name
        known = {*node.neighbours.values(), *node.sessions.values()}
        assert node.exchange.subscriptions.wanted.keys() <= known


def test_a_node_meets_another_and_parts_from_the_one_before(
    sim: Simulation, overlays: dict[str, Moving]
) -> None:
    reader, writer = sim.client("reader", at="b0"), sim.client("writer", at="b2")
    reader.subscribe("n > 0")
    sim.settle()
    check_heard(sim, reader, writer, 1)
    for number, (to, before) in enumerate((("b2", "b1"), ("b1", "b2"), ("b2", "b1")), 2):
        overlays["b0"].move(to, "somewhere")
        sim.run(sim.now + 12.0)
        assert list(sim.nodes["b0"].neighbours) == [to]
        assert sim.tree() == {tuple(sorted(("b0", to))), ("b1", "b2")}
        assert not sim.nodes[before].neighbours["b0"].is_up
        check_heard(sim, reader, writer, number)
        check_sound(sim)
    assert sim.channels["b0", "b2"].latency == pytest.approx(0.02)


def test_nothing_is_kept_for_a_node_that_was_parted_from(
    sim: Simulation, overlays: dict[str, Moving]
) -> None:
    reader = sim.client("reader", at="b1")
    reader.subscribe("n > 0")
    sim.settle()
    node = sim.nodes["b0"]
    told: list[str] = []
    for part in node.parts.all:
        part.unlinked = lambda _, before=part.unlinked: (told.append("unlinked"), before(_))
        part.closed = lambda _, before=part.closed: (told.append("closed"), before(_))
    gone = node.neighbours["b1"]
    overlays["b0"].move("b2", "somewhere")
    sim.run(sim.now + 5.0)
    assert {"unlinked", "closed"} <= set(told)
    assert gone not in node.exchange.subscriptions.wanted
    assert not gone.is_linked
    assert not gone.is_open


def test_a_node_that_starts_again_is_where_its_configuration_says(
    sim: Simulation, overlays: dict[str, Moving]
) -> None:
    overlays["b0"].move("b2", "somewhere")
    sim.run(sim.now + 5.0)
    del overlays["b0"]
    sim.crash("b0")
    sim.run(sim.now + 2.0)
    assert not sim.nodes["b2"].neighbours["b0"].is_up
    assert ("b0", "b2") not in sim.channels
    sim.restart("b0")
    sim.run(sim.now + 5.0)
    assert list(sim.nodes["b0"].neighbours) == ["b1"]
    assert sim.tree() == {("b0", "b1"), ("b1", "b2")}
    check_sound(sim)


def test_a_node_that_starts_again_is_found_by_those_who_have_met_it(
    sim: Simulation, overlays: dict[str, Moving]
) -> None:
    overlays["b0"].move("b2", "somewhere")
    sim.run(sim.now + 5.0)
    del overlays["b2"]
    sim.crash("b2")
    sim.run(sim.now + 1.0)
    sim.restart("b2")
    sim.run(sim.now + 5.0)
    assert set(sim.nodes["b2"].neighbours) == {"b0", "b1"}
    assert sim.tree() == {("b0", "b2"), ("b1", "b2")}
    check_sound(sim)


def test_whoever_was_parted_from_stays_away_until_it_is_met(
    sim: Simulation, overlays: dict[str, Moving]
) -> None:
    overlays["b0"].move("b2", "somewhere")
    sim.run(sim.now + 5.0)
    overlays["b1"].move("b0", "somewhere")
    sim.run(sim.now + 5.0)
    assert "b1" not in sim.nodes["b0"].neighbours
    assert overlays["b1"].at is None
