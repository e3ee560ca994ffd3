"""The simulator itself: one seed is one run, and what it breaks is broken."""

from __future__ import annotations

import pytest

from tests.simulation.runs import scenario
from tests.simulation.shrinking import play
from tidings.events import TidingsError
from tidings.node import Settings
from tidings.simulation import Conditions, Simulation
from tidings.simulation.checking import PROBES
from tidings.simulation.topology import line, ring, single, star


def test_events_wait_for_a_link_that_comes_back_in_time() -> None:
    sim = Simulation(line(2), Settings(grace="static:5"))
    reader, writer = sim.client("reader", at="b0"), sim.client("writer", at="b1")
    reader.subscribe("TRUE")
    sim.settle()
    sim.fail_link("b0", "b1")
    writer.publish({"n": 1})
    sim.run(sim.now + 4)
    assert reader.heard == []
    sim.restore_link("b0", "b1")
    sim.settle()
    assert [event.notification["n"] for event in reader.heard] == [1]


def test_a_link_that_stays_down_is_given_up() -> None:
    sim = Simulation(line(3), Settings(grace="static:5"))
    sim.client("reader", at="b0").subscribe("TRUE")
    sim.settle()
    assert sim.table_sizes() == {"b0": 0, "b1": 1, "b2": 1}
    sim.fail_link("b0", "b1")
    sim.run(sim.now + 6)
    assert sim.table_sizes() == {"b0": 0, "b1": 0, "b2": 0}


def test_an_adaptive_grace_ends_with_too_many_events() -> None:
    sim = Simulation(line(3), Settings(grace="adaptive:3"))
    sim.client("reader", at="b0").subscribe("TRUE")
    writer = sim.client("writer", at="b2")
    sim.settle()
    sim.fail_link("b0", "b1")
    for expected in (1, 1, 0):
        writer.publish({"n": expected})
        sim.run(sim.now + 60)
        assert sim.table_sizes()["b2"] == expected


def test_a_subscription_survives_a_crash_of_its_broker() -> None:
    sim = Simulation(line(2), Settings(at_most_once=True))
    reader, writer = sim.client("reader", at="b0"), sim.client("writer", at="b1")
    reader.subscribe("TRUE")
    sim.settle()
    reader.crash()  # so that it cannot say again what it wants
    sim.crash("b0")
    sim.restart("b0")
    sim.settle()
    node = sim.nodes["b0"]
    assert [len(node.exchange.wanted(s)) for s in node.sessions.values()] == [1]
    writer.publish({"n": 1})
    sim.settle()
    assert sim.traffic.by_link["b1", "b0"] >= 1


def test_a_client_that_vanishes_is_forgotten_when_its_lease_ends() -> None:
    sim = Simulation(line(2), Settings(lease=3.0, at_most_once=True))
    stays, vanishes = sim.client("stays", at="b0"), sim.client("vanishes", at="b0")
    stays.subscribe("x = 1")
    vanishes.subscribe("x = 2")
    sim.settle()
    vanishes.crash()
    sim.run(sim.now + 2)
    assert sim.table_sizes()["b1"] == 2
    sim.run(sim.now + 2)
    assert sim.table_sizes()["b1"] == 1
    sim.run(sim.now + 100)
    assert sim.table_sizes()["b1"] == 1


def test_bandwidth_makes_packets_wait_for_each_other() -> None:
    sim = Simulation(line(2), Settings(), conditions=Conditions(bandwidth=10.0))
    reader, writer = sim.client("reader", at="b0"), sim.client("writer", at="b1")
    reader.subscribe("TRUE")
    sim.settle()
    start = sim.now
    for number in range(50):
        writer.publish({"n": number})
    while reader.count < 50:
        sim.step()
    assert sim.now - start >= 5.0


def test_a_ring_heals_when_a_broker_dies_and_when_it_comes_back() -> None:
    sim = Simulation(ring(5), Settings(tree=True))
    reader, writer = sim.client("reader", at="b4"), sim.client("writer", at="b2")
    reader.subscribe("TRUE")
    sim.run(10)
    for number, dies in enumerate(("b3", "b0", "b1")):
        sim.crash(dies)
        sim.run(sim.now + 15)
        writer.publish({"n": number, "while": "dead"})
        sim.run(sim.now + 2)
        sim.restart(dies)
        sim.run(sim.now + 15)
        writer.publish({"n": number, "while": "back"})
        sim.run(sim.now + 2)
    heard = [(e.notification["n"], e.notification["while"]) for e in reader.heard]
    assert heard == [(n, w) for n in range(3) for w in ("dead", "back")]
    assert len(sim.tree()) == 4


def test_a_hierarchy_sends_subscriptions_up_and_events_down_where_they_are_wanted() -> None:
    from tidings.simulation.topology import balanced, hierarchical

    sim = Simulation(hierarchical(balanced(2, 2), "b0"), Settings())
    leaf, writer = "b3", sim.client("writer", at="b6")
    reader = sim.client("reader", at=leaf)
    reader.subscribe("x = 1")
    sim.settle()
    wants = {name: _wanted_by_children(sim, name) for name in sim.nodes}
    assert wants == {"b0": 1, "b1": 1, "b2": 0, "b3": 0, "b4": 0, "b5": 0, "b6": 0}
    sim.traffic.reset()
    writer.publish({"x": 2})
    sim.settle()
    assert sim.traffic.events == 2  # up to the root, and nowhere down
    writer.publish({"x": 1})
    sim.settle()
    assert reader.count == 1
    assert sim.traffic.events == 2 + 4


def _wanted_by_children(sim: Simulation, name: str) -> int:
    node = sim.nodes[name]
    return sum(
        len(node.exchange.subscriptions.wanted.get(n, {}))
        for n in node.neighbours.values()
        if n.role == "child"
    )


def test_an_event_that_was_not_advertised_is_refused_and_the_publisher_is_told() -> None:
    sim = Simulation(single(), Settings(advertisements="covering"))
    writer, reader = sim.client("writer", at="b0"), sim.client("reader", at="b0")
    reader.subscribe("TRUE")
    writer.advertise("x < 5")
    writer.publish({"x": 9})
    writer.publish({"x": 1})
    sim.settle()
    sim.run(1.0)
    assert [e.notification["x"] for e in reader.heard] == [1]
    assert "advertise it first" in writer.refused[0].reason


def test_what_is_not_advertised_floods_where_advertisements_only_optimise() -> None:
    sim = Simulation(star(4), Settings(advertisements="covering", enforce=False))
    writer, reader = sim.client("writer", at="b1"), sim.client("reader", at="b2")
    reader.subscribe("x < 5")
    writer.advertise("x = 1")
    sim.settle()
    writer.publish({"x": 1})
    sim.settle()
    assert (reader.count, sim.traffic.events) == (1, 2)
    writer.publish({"x": 2})
    sim.settle()
    assert (reader.count, sim.traffic.events) == (2, 2 + 3)


def test_mistakes_are_told() -> None:
    sim = Simulation(single())
    sim.client("c", at="b0")
    with pytest.raises(TidingsError, match="already"):
        sim.client("c", at="b0")
    with pytest.raises(TidingsError, match="no node 'b9'"):
        sim.client("d", at="b9")
    with pytest.raises(TidingsError, match="no strategy"):
        Settings(subscriptions="guessing")
    with pytest.raises(TidingsError, match="grace"):
        Settings(grace="static:soon")


def test_probes_find_a_subscription_that_nobody_routes() -> None:
    run = play(scenario(3, "line", "covering", "subscriptions", "none", steps=10))
    node = run.simulation.nodes["b1"]
    for neighbour in node.neighbours.values():
        node.exchange.subscriptions.wanted[neighbour].clear()
    node.exchange.subscriptions.audit()
    next(iter(run.living())).subscribe("TRUE")
    with pytest.raises(TidingsError):
        run.probe(PROBES)
