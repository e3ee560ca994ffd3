"""A node that listens to statistics: what it tells neighbours follows what it has heard."""

from __future__ import annotations

from typing import Any

import pytest

from tidings.events import Filter, Notification
from tidings.node import Node, Settings
from tidings.protocol.host import Append, Deliver, Effect, Reply, Request, Span, Store
from tidings.protocol.requests import Attach, Publish
from tidings.routing import Statistics
from tidings.routing.learning import SESSION
from tidings.routing.statistics import WANTED, Attribute, Distribution
from tidings.simulation import Simulation
from tidings.simulation.topology import line

RARE = Attribute(present=1.0, number=Distribution(1.0, (0.0, 1.0, 2.0, 100.0)))
KNOWN = Statistics(1000, {"price": RARE})
"""A third of all prices are above 2, up to 100."""
APART = [Filter.parse("price BETWEEN 10 AND 11"), Filter.parse("price BETWEEN 13 AND 14")]
TOGETHER = Filter.parse("price BETWEEN 10 AND 14")
LEARNT = Settings(subscriptions="learnt:0.01", at_most_once=True)

both = pytest.mark.parametrize("at_most_once", [True, False], ids=["at most once", "from logs"])


def network(at_most_once: bool = False, strategy: str = "learnt:0.01") -> Simulation:
    """Three brokers in a line, somebody at one end who wants two intervals."""
    sim = Simulation(line(3), Settings(subscriptions=strategy, at_most_once=at_most_once))
    reader = sim.client("reader", at="b0")
    for wanted in APART:
        reader.subscribe(wanted)
    sim.client("writer", at="b2")
    sim.run(5.0)
    return sim


def held(sim: Simulation, node: str, neighbour: str) -> list[str]:
    """What a node holds for a neighbour, without what brokers want for themselves."""
    there = sim.nodes[node]
    table = there.exchange.subscriptions.wanted[there.neighbours[neighbour]]
    return sorted(str(f) for f in table if f != WANTED)


@both
def test_what_is_learnt_changes_what_neighbours_hold(at_most_once: bool) -> None:
    sim = network(at_most_once)
    assert held(sim, "b2", "b1") == ["price BETWEEN 10 AND 11 OR price BETWEEN 13 AND 14"]
    sim.clients["writer"].publish(KNOWN.notification())
    sim.run(10.0)
    assert held(sim, "b2", "b1") == held(sim, "b1", "b0") == [str(TOGETHER)]
    assert all(node.learning and node.learning.known == KNOWN for node in sim.nodes.values())
    for node in sim.nodes.values() if not at_most_once else ():
        cursor = node.from_log.subscriptions.saved[SESSION].cursor
        assert cursor["b2"] == 1, "it will not be read again"
    sim.clients["writer"].publish(Statistics(2).notification())
    sim.run(15.0)
    assert held(sim, "b2", "b1") == ["price BETWEEN 10 AND 11 OR price BETWEEN 13 AND 14"]


@both
def test_nobody_hears_what_it_does_not_want_though_brokers_carry_it(at_most_once: bool) -> None:
    sim = network(at_most_once)
    writer, reader = sim.clients["writer"], sim.clients["reader"]
    writer.publish(KNOWN.notification())
    sim.run(10.0)
    sim.traffic.reset()
    for price in (10, 12, 13, 15):
        writer.publish({"price": price})
    sim.run(20.0)
    assert [event.notification["price"] for event in reader.heard] == [10, 13]
    assert sim.traffic.events == 2 * 3, "12 lies in the gap, and came along"


@both
def test_what_was_learnt_is_known_after_a_crash(at_most_once: bool) -> None:
    sim = network(at_most_once)
    sim.clients["writer"].publish(KNOWN.notification())
    sim.run(10.0)
    for name in ("b0", "b1"):
        sim.crash(name)
    for name in ("b0", "b1"):
        sim.restart(name)
        assert sim.nodes[name].learning.known == KNOWN
    sim.run(30.0)
    assert held(sim, "b2", "b1") == held(sim, "b1", "b0") == [str(TOGETHER)]


def test_with_a_log_what_was_published_while_a_broker_was_down_is_learnt_later() -> None:
    sim = network()
    sim.run(120.0)
    sim.crash("b0")
    sim.clients["writer"].publish(KNOWN.notification())
    sim.run(125.0)
    sim.restart("b0")
    sim.run(160.0)
    assert held(sim, "b2", "b1") == held(sim, "b1", "b0") == [str(TOGETHER)]


def test_with_a_log_it_goes_on_though_some_is_no_longer_kept() -> None:
    sim = network()
    sim.clients["writer"].publish(Statistics(1).notification())
    sim.run(10.0)
    sim.crash("b0")
    for price in range(20):
        sim.clients["writer"].publish({"price": price})
    sim.run(15.0)
    sim.trim("b2", "b2", 15)
    sim.restart("b0")
    sim.run(40.0)
    sim.clients["writer"].publish(KNOWN.notification())
    sim.run(60.0)
    assert sim.nodes["b0"].learning.known == KNOWN


@pytest.mark.parametrize("content", [None, 7, "", "{", '{"events": []}', "x" * (2 << 20)])
def test_what_are_no_statistics_is_passed_over_and_counted(content: Any) -> None:
    node = Node("b1", LEARNT)
    node.start(now=0.0)
    node.handle(Request("bob", Attach()), now=1.0)
    bad = Notification({"tidings.statistics": "distribution", "content": content})
    assert node.handle(Request("bob", Publish(1, (bad,))), now=2.0) == []
    assert node.learning is not None
    assert (node.learning.known, node.learning.ignored) == (None, 1)


def test_other_strategies_do_not_listen() -> None:
    for strategy in ("merging", "imperfect:1.5", "bounded:10"):
        node = Node("b1", Settings(subscriptions=strategy))
        node.start(now=0.0)
        assert node.learning is None
        assert not node.sessions


@both
def test_it_is_stored_before_anybody_is_told_and_the_host_hears_nothing_of_it(
    at_most_once: bool,
) -> None:
    settings = Settings(subscriptions="learnt:0.01", at_most_once=at_most_once)
    node = Node("b1", settings)
    effects: list[Effect] = node.start(0.0)
    effects += node.handle(Request("bob", Attach()), 1.0)
    effects += node.handle(Request("bob", Publish(1, (KNOWN.notification(),))), 2.0)
    assert not [e for e in effects if isinstance(e, Deliver | Reply) and e.session == SESSION]
    assert Store("statistics", KNOWN.text()) in effects
    assert at_most_once is not any(isinstance(e, Append) for e in effects)
    stored = {e.key: e.value for e in effects if isinstance(e, Store) and e.value is not None}
    again = Node("b1", settings, stored=stored, logs={"b1": Span(1, int(not at_most_once))})
    again.start(0.0)
    assert again.learning is not None
    assert again.learning.known == KNOWN


def test_a_damaged_table_of_its_own_is_mended() -> None:
    sim = Simulation(line(2), Settings(subscriptions="learnt:0.01", check=1.0))
    sim.may_fail = True
    sim.run(5.0)
    node = sim.nodes["b0"]
    table = node.exchange.subscriptions.wanted[node.sessions[SESSION]]
    table.clear()
    table[Filter.parse("junk = 1")] = 2
    sim.run(20.0)
    node = sim.nodes["b0"]  # another one has taken its place
    assert node.exchange.subscriptions.wanted[node.sessions[SESSION]] == {WANTED: 1}
    writer = sim.client("writer", at="b1")
    writer.publish(KNOWN.notification())
    sim.run(25.0)
    assert node.learning is not None
    assert node.learning.known == KNOWN
