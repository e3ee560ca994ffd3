"""Whatever a node remembers may be wrong: after a while events are delivered exactly again."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest

from tests.simulation.random_runs import DAMAGE
from tests.simulation.runs import SEMANTICS, run, scenario
from tests.simulation.shrinking import play
from tidings.delivery import FromLog
from tidings.delivery.stages import Stage
from tidings.events import Filter, Notification
from tidings.node import Node, Settings
from tidings.overlay import Link, Tree
from tidings.routing.tables import Tables
from tidings.simulation import Simulation
from tidings.simulation.damage import places
from tidings.simulation.guarantees import Violation
from tidings.simulation.play import bound, recovery_bound
from tidings.simulation.topology import line

# -- links -------------------------------------------------------------------------------------

LINK_DAMAGE: dict[str, Callable[[Link], Any]] = {
    "received is too high": lambda link: setattr(link, "received", link.received + 7),
    "received is too low": lambda link: setattr(link, "received", link.received - 1),
    "received is huge": lambda link: setattr(link, "received", 1 << 50),
    "received is negative": lambda link: setattr(link, "received", -3),
    "sent is too high": lambda link: setattr(link, "sent", link.sent + 1),
    "sent is too low": lambda link: setattr(link, "sent", link.sent - 1),
    "the peer is somebody later": lambda link: setattr(link, "peer", link.peer + 1),
    "the peer is somebody from far away": lambda link: setattr(link, "peer", 1 << 50),
    "the peer is somebody earlier": lambda link: setattr(link, "peer", link.peer - 1),
    "the peer is unknown": lambda link: setattr(link, "peer", 0),
    "it is somebody later": lambda link: setattr(link, "identity", link.identity + 5),
    "it is somebody earlier": lambda link: setattr(link, "identity", link.identity - 1),
    "it has just opened": lambda link: setattr(link, "opened", True),
    "it is not known": lambda link: setattr(link, "_is_known", False),
    "it tries for ever": lambda link: setattr(link, "_tries", 1 << 50),
    "it never repeats": lambda link: setattr(link, "repeat_at", 1e12),
    "it never acknowledges": lambda link: setattr(link, "acknowledge_at", 1e12),
    "its queue is lost": lambda link: link.queue.clear(),
    "its counts are wrong": lambda link: setattr(link, "said", link.said + 1),
}


@pytest.mark.slow
@pytest.mark.parametrize("at_most_once", [False, True], ids=["from logs", "at most once"])
@pytest.mark.parametrize("tree", [False, True], ids=["as it is", "agreed on"])
@pytest.mark.parametrize("what", LINK_DAMAGE)
def test_a_damaged_link_begins_anew(what: str, at_most_once: bool, tree: bool) -> None:
    sim = Simulation(line(3), Settings(at_most_once=at_most_once, tree=tree, check=2.0))
    reader, writer = sim.client("reader", at="b0"), sim.client("writer", at="b2")
    reader.subscribe("TRUE")
    sim.run(30.0)
    writer.publish({"x": 1})
    sim.run(35.0)
    for name, neighbour in (("b1", "b0"), ("b1", "b2"), ("b0", "b1")):
        LINK_DAMAGE[what](sim.nodes[name].neighbours[neighbour].link)
        writer.publish({"x": 2})
        sim.run(sim.now + bound(sim))
        before = reader.count
        for x in range(5):
            writer.publish({"x": x})
        sim.run(sim.now + 5.0)
        heard = [event.notification["x"] for event in reader.heard]
        assert reader.count - before == 5
        assert heard[-5:] == [0, 1, 2, 3, 4]


# -- nodes -------------------------------------------------------------------------------------


def tree(node: Node) -> Tree:
    assert isinstance(node.trees, Tree)
    return node.trees


def of_readers(node: Node, name: str, value: Any) -> None:
    for reader in node.from_log.reading.readers:
        setattr(reader, name, value)


def of_sessions(node: Node, name: str, value: Any) -> None:
    for client in node.from_log.clients.values():
        setattr(client, name, value)


def of_flows(node: Node, name: str, value: Any) -> None:
    for stream, flow in node.from_log.reading.flows.items():
        if stream != node.name:
            setattr(flow, name, value)


def deafen(node: Node) -> None:
    tree(node)._latest = dict.fromkeys(node.neighbours, (1 << 50, 1e12))


def forget_tree(node: Node) -> None:
    tree(node)._offered["b0"] = (1 << 50, 0)


NODE_DAMAGE: dict[str, Callable[[Node], Any]] = {
    "all flows are far ahead": lambda node: of_flows(node, "upto", 1 << 40),
    "all flows are broken off": lambda node: of_flows(node, "is_live", False),
    "a fetch was never sent": lambda node: of_flows(node, "fetch", 7),
    "all readers are far ahead": lambda node: of_readers(
        node, "positions", dict.fromkeys(("b0", "b1", "b2"), 1 << 40)
    ),
    "nobody follows": lambda node: of_readers(node, "stages", {}),
    "everybody follows": lambda node: of_readers(
        node, "stages", dict.fromkeys(("b0", "b1", "b2"), Stage.FOLLOWING)
    ),
    "everybody waits": lambda node: of_readers(
        node, "stages", dict.fromkeys(("b0", "b1", "b2"), Stage.PROBING)
    ),
    "readers have another filter": lambda node: of_readers(node, "filter", Filter.parse("y = 1")),
    "readers are not found": lambda node: node.from_log.reading._by_filter.clear(),
    "nobody is there": lambda node: node.sessions.clear(),
    "nobody reads": lambda node: of_sessions(node, "is_full", True),
    "nobody has a name": lambda node: node.from_log._owners.clear(),
    "all has been told": lambda node: of_sessions(node, "progress", {"b2": 1 << 40}),
    "no way leads anywhere": lambda node: node.from_log.reached.ways._offers.clear(),
    "all ways lead back": lambda node: node.from_log.reached.ways._via.update(
        b2=node.neighbours.get("b0"), b0=node.neighbours.get("b2")
    ),
    "publications were kept": lambda node: node.from_log.publishers.keep("writer", 1 << 40, day=0),
    "the log is longer": lambda node: setattr(node.from_log.logs.log, "last", 1 << 40),
    "it was born later": lambda node: setattr(node, "incarnation", 77),
    "no timer is set": lambda node: node._timers._queue.clear(),
    "it will never wake": lambda node: setattr(node, "_wake_at", -1.0),
    "links never wake": lambda node: setattr(node.conversations, "_links_at", -1.0),
    "nothing is due": lambda node: node._timers._due.update(dict.fromkeys(node._timers._due, 1e12)),
    "neighbours are down": lambda node: [
        setattr(neighbour, "is_up", False) for neighbour in node.neighbours.values()
    ],
    "the tree has another view": lambda node: [
        setattr(neighbour, "joined_by", 6) for neighbour in node.neighbours.values()
    ],
    "offers are taken for old": deafen,
    "it has offered what is yet to come": forget_tree,
}


@pytest.mark.slow
@pytest.mark.parametrize("what", NODE_DAMAGE)
def test_a_damaged_node_delivers_exactly_again(what: str) -> None:
    sim = Simulation(line(3), Settings(tree=True, check=2.0))
    sim.may_fail = True
    reader, writer = sim.client("reader", at="b0"), sim.client("writer", at="b2")
    reader.subscribe("TRUE")
    sim.run(30.0)
    writer.publish({"x": 1})
    for name in ("b0", "b1", "b2"):
        NODE_DAMAGE[what](sim.nodes[name])
        sim.run(sim.now + recovery_bound(sim))
        for ended in reader.refused:  # others took a wrong length of a stream for true
            assert ended.cursor is not None, "it is told where to go on"
        reader.refused.clear()
        sim.run(sim.now + 5.0)
        before = reader.count
        for x in range(5):
            writer.publish({"x": x})
        sim.run(sim.now + 5.0)
        heard = [event.notification["x"] for event in reader.heard]
        assert reader.count - before == 5, (name, sim.replaced)
        assert heard[-5:] == [0, 1, 2, 3, 4]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "what"), [("_check_all", "readers are not found"), ("_compare", "nobody reads")]
)
def test_each_comparison_is_needed(kind: str, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Node, kind, lambda self: None)
    with pytest.raises(AssertionError):
        test_a_damaged_node_delivers_exactly_again(what)


# -- anything that a node remembers ------------------------------------------------------------

SEEDS = int(os.environ.get("TIDINGS_SEEDS", "3"))
WHOLE = ["single", "line", "star", "ring", "graph", "acyclic", "hierarchical"]


@pytest.mark.parametrize("network", ["single", "line", "ring", "acyclic"])
def test_whatever_is_damaged_events_are_delivered_exactly_again(network: str) -> None:
    done = run(1, network, "covering", "subscriptions", DAMAGE)
    assert done.damages


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["merging", "learnt:0.2"])
@pytest.mark.parametrize("network", WHOLE)
def test_however_much_is_damaged_events_are_delivered_exactly_again(
    network: str, strategy: str
) -> None:
    for seed in range(2 * SEEDS):
        semantics = list(SEMANTICS)[seed % len(SEMANTICS)]
        run(100 + seed, network, strategy, semantics, DAMAGE, steps=20 + 40 * (seed % 3))


@pytest.mark.slow
@pytest.mark.parametrize("network", ["single", "line", "ring", "acyclic"])
def test_without_a_log_events_are_delivered_exactly_again(network: str) -> None:
    for seed in range(2 * SEEDS):
        semantics = list(SEMANTICS)[seed % len(SEMANTICS)]
        run(seed, network, "covering", semantics, DAMAGE, at_most_once=True)


@pytest.mark.slow
def test_a_doubt_that_nobody_is_told_of_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FromLog, "_tell_doubts", lambda self: None)
    what = ("acyclic", "covering", "subscriptions", DAMAGE)
    runs = (scenario(seed, *what, steps=100) for seed in range(12))
    with pytest.raises(Violation, match="nobody has told it that this may be so"):
        all(play(each) for each in runs)


def test_a_doubt_where_nothing_is_damaged_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    beat = FromLog._beat
    monkeypatch.setattr(FromLog, "_beat", lambda self: (beat(self), self.doubts.add()))
    with pytest.raises(Violation, match="told of a doubt"):
        play(scenario(3, "line", "covering", "subscriptions", "links"))


def test_a_node_finds_out_that_it_publishes_for_other_clients_than_are_there() -> None:
    sim = Simulation(line(1), Settings())
    sim.client("writer", at="b0")
    sim.settle()
    delivery = sim.nodes["b0"].from_log
    delivery.publishing._clients = dict(delivery.clients)
    assert list(delivery.audit([])) == ["what is published is of other clients"]


def test_every_part_of_a_node_can_be_damaged() -> None:
    simulation = run(0, "ring", "learnt:0.2", "subscriptions", "none").simulation
    labels = {place.label for node in simulation.nodes.values() for place in places(node)}
    parts = {label.partition(".")[0] for label in labels}
    assert parts == {
        *("Node", "Conversations", "Timers", "Tree", "Neighbour", "Link", "Session", "Client"),
        *("Exchange", "Tables", "Watches", "Learning", "FromLog", "Doubts", "Fetching"),
        *("Log", "Logs", "Publishers", "Reached", "Reading", "Subscriptions", "Telling"),
        *("Ways", "Flow", "Reader", "Publishing", "OwnStream", "Names"),
    }
    assert labels >= {
        *("Link.received", "Link.sent", "Link.peer", "Link.queue", "Timers._queue", "Flow.upto"),
        *("Reader.positions", "Client.is_full", "Names.saved", "Tables.wanted"),
    }


def test_what_was_remembered_of_who_wants_an_event_is_computed_anew() -> None:
    tables = Tables[str]()
    tables.change("client", {Filter.parse("x < 5"): 1})
    tables._names.clear()
    assert tables.match(Notification({"x": 3})) == {"client"}
    assert tables.match(Notification({"x": 7})) == {"client"}  # as it is remembered
    assert not tables.audit()
    assert tables.match(Notification({"x": 7})) == set()
