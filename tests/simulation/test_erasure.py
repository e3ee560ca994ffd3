"""Erasure: afterwards nobody hears what was erased, and everybody hears all else exactly once.

In the random runs the usual checks hold: they know of each erasure what may be gone from when on,
and that whoever subscribes after its answer hears nothing of it, from the very beginning on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.simulation.runs import NETWORKS, Patch, run
from tidings.delivery.erased import ERASED, ERASURE, digest
from tidings.delivery.erasing import Erasing
from tidings.delivery.log import Log
from tidings.delivery.logs import Logs
from tidings.events import Filter, Notification
from tidings.node import Settings
from tidings.protocol.requests import Erasure
from tidings.simulation.clients import Client
from tidings.simulation.guarantees import Violation
from tidings.simulation.scenario import Scenario
from tidings.simulation.simulation import Simulation
from tidings.simulation.store import MemoryStore
from tidings.simulation.topology import line

MATCHING = Filter.parse("c = 7")
FAULTS = ("none", "packets", "links", "crashes", "all")


@pytest.mark.parametrize("faults", FAULTS)
@pytest.mark.parametrize("network", NETWORKS)
def test_all_holds_while_somebody_erases_whatever_breaks(network: str, faults: str) -> None:
    for seed in range(2):
        run(seed, network, "covering", "subscriptions", faults, erases=True)


@pytest.mark.slow
@pytest.mark.parametrize("semantics", ["advertisements", "other advertisements", "not enforced"])
@pytest.mark.parametrize("network", NETWORKS)
def test_all_holds_while_somebody_erases_where_clients_advertise(
    network: str, semantics: str
) -> None:
    for seed, faults in enumerate(FAULTS, 100):
        run(seed, network, "merging", semantics, faults, erases=True)


def network(*, slow: bool = False) -> Simulation:
    """Three brokers in a line, each with a client that has published twenty events of its own."""
    sim = Simulation(line(3), Settings(progress=0.2), seed=1)
    sim.guarantees.watch()
    if slow:
        sim.reading = sim.committing = 1.0
    for node in sim.topology.nodes:
        client = sim.client(f"at {node}", at=node)
        client.publish(*({"c": n % 10, "n": n, "by": node} for n in range(20)))
    later(sim, 10.0)
    return sim


def later(sim: Simulation, seconds: float = 20.0) -> None:
    sim.run(sim.now + seconds)


def client(sim: Simulation, node: str) -> Client:
    return sim.clients[f"at {node}"]


def erased(sim: Simulation, node: str, *, within: float = 20.0) -> Erasure:
    """What a client is told of an erasure that it has asked for."""
    id = client(sim, node).erase(MATCHING)
    later(sim, within)
    return client(sim, node).erasures[id]


def heard_from_the_beginning(sim: Simulation, node: str) -> list[Notification]:
    """What somebody hears who comes now, and wants to hear everything."""
    reader = sim.client(f"reader {len(sim.clients)}", at=node)
    reader.subscribe("TRUE", since="begin")
    later(sim)
    return [event.notification for event in reader.heard]


def others(sim: Simulation) -> int:
    """How many events there are that do not match."""
    logs = (log for store in sim.stores.values() for log in store.ever.values())
    return sum(not MATCHING.matches(event.notification) for log in logs for event in log)


def check(sim: Simulation) -> None:
    """Nobody hears what was erased, and everybody all else, once."""
    for node in sim.topology.nodes:
        heard = heard_from_the_beginning(sim, node)
        assert not any(map(MATCHING.matches, heard))
        assert not any(ERASED in notification.attributes for notification in heard)
        assert len(heard) == others(sim)


def test_whoever_comes_later_hears_nothing_of_it_at_any_broker() -> None:
    sim = network()
    answer = erased(sim, "b1")
    assert answer.is_complete
    assert answer.erased == {"b0": 2, "b1": 2, "b2": 2}
    check(sim)


def from_the_disk() -> None:
    """All brokers have begun anew since, and remember nothing."""
    sim = network()
    erased(sim, "b1")
    sim.guarantees.unsettled()
    for node in sim.topology.nodes:
        sim.crash(node)
        sim.restart(node)
    later(sim)
    check(sim)


def test_nor_does_anybody_hear_it_when_all_brokers_have_begun_anew() -> None:
    from_the_disk()


def test_what_is_published_later_is_heard_though_it_matches() -> None:
    sim = network()
    erased(sim, "b1")
    client(sim, "b2").publish({"c": 7, "n": 99})
    later(sim)
    heard = heard_from_the_beginning(sim, "b0")
    assert [said["n"] for said in heard if MATCHING.matches(said)] == [99]


def test_to_count_erases_nothing() -> None:
    sim = network()
    id = client(sim, "b1").erase(MATCHING, is_dry=True)
    later(sim)
    answer = client(sim, "b1").erasures[id]
    assert (answer.is_done, answer.count, answer.record) == (True, 6, "")
    assert sum(map(MATCHING.matches, heard_from_the_beginning(sim, "b0"))) == 6


def test_the_erasure_is_an_event_that_does_not_tell_whose_events_went() -> None:
    sim = network()
    answer = erased(sim, "b1")
    (record,) = [said for said in heard_from_the_beginning(sim, "b2") if ERASURE in said]
    assert (record[ERASURE], record["erased"], record["by"]) == (answer.id, 6, "at b1")
    assert record["filter"] == digest(answer.id, MATCHING)
    assert "c = 7" not in str(record)
    assert answer.record == "b1:21"


def test_the_record_of_an_erasure_is_never_erased() -> None:
    sim = network()
    client(sim, "b1").erase("TRUE")
    later(sim)
    client(sim, "b1").erase("TRUE")
    later(sim)
    heard = heard_from_the_beginning(sim, "b0")
    assert [said["erased"] for said in heard] == [60, 0]


def test_erased_again_there_is_nothing_left() -> None:
    sim = network()
    assert erased(sim, "b0").count == 6
    assert erased(sim, "b2").count == 0
    check(sim)


def test_a_broker_that_cannot_be_reached_is_named_and_erases_when_it_is_asked_again() -> None:
    sim = network()
    sim.guarantees.unsettled()
    sim.fail_link("b1", "b2")
    later(sim, 5.0)
    answer = erased(sim, "b0")
    assert (answer.is_done, answer.is_complete, answer.unreached) == (True, False, ("b2",))
    assert answer.erased == {"b0": 2, "b1": 2}
    sim.restore_link("b1", "b2")
    later(sim)
    assert erased(sim, "b0").erased == {"b0": 0, "b1": 0, "b2": 2}
    check(sim)


FAR = {
    "nodes": ["b0", "b1", "b2", "b3"],
    "links": [["b0", "b1", 0.01, 1.0], ["b0", "b2", 3.0, 1.0], ["b0", "b3", 2.0, 1.0]],
}
"""b0 in the middle; b2 and b3 are far."""


def on_its_way() -> None:
    """An event is published far away at the last moment, for a reader who is far from there."""
    sim = Simulation(Scenario(network=FAR).topology(), Settings(pause=20.0), seed=1)
    sim.guarantees.watch()
    asker, author, reader = (sim.client(f"at {node}", at=node) for node in ("b1", "b2", "b3"))
    reader.subscribe("TRUE")
    later(sim, 60.0)
    id = asker.erase(MATCHING)
    later(sim, 2.8)
    author.publish({"c": 7})
    while not asker.erasures[id].is_done:
        later(sim, 0.1)
    assert asker.erasures[id].erased["b2"] == 1
    heard = len(reader.heard)
    later(sim, 60.0)
    assert not any(MATCHING.matches(event.notification) for event in reader.heard[heard:])


def test_what_was_on_its_way_has_come_before_the_answer() -> None:
    on_its_way()


@pytest.mark.parametrize("victim", ["b0", "b1", "b2"])
@pytest.mark.parametrize("after", [0.05, 0.3, 0.8, 1.5, 2.5])
def test_after_a_crash_in_the_middle_it_goes_on_until_all_is_gone(
    victim: str, after: float
) -> None:
    sim = network(slow=True)
    id = client(sim, "b1").erase(MATCHING)
    later(sim, after)
    sim.guarantees.unsettled()
    sim.crash(victim)
    later(sim, 1.0)
    sim.restart(victim)
    later(sim, 40.0)
    answer = client(sim, "b1").erasures[id]
    assert answer.is_done
    if not answer.is_complete:  # it was answered while the broker was down
        assert answer.unreached == (victim,)
        assert erased(sim, "b1", within=40.0).is_complete
    check(sim)


def reads_while_erasing(sim: Simulation) -> None:
    """Somebody begins to read from the disk just before it is erased there."""
    for log in (log for node in sim.nodes.values() for log in node.from_log.logs.logs.values()):
        log._tail.clear()
        log._parts.clear()
        log._size = 0
    sim.reading = 3.0
    reader = sim.client("reader", at="b0")
    reader.subscribe("TRUE", since="begin")
    later(sim, 1.0)
    sim.reading = 0.0
    id = client(sim, "b0").erase(MATCHING)
    while not client(sim, "b0").erasures[id].is_done:
        later(sim, 0.01)
    heard = len(reader.heard)
    later(sim)
    rest = [event.notification for event in reader.heard[heard:]]
    assert not any(map(MATCHING.matches, rest))
    assert len(reader.heard) >= others(sim)


def test_what_was_being_read_from_the_disk_meanwhile_is_read_again() -> None:
    reads_while_erasing(network())


# -- each way to get it wrong is caught --------------------------------------------------------


def nothing(*_: Any) -> None:
    """Do not do it."""


def everywhere() -> None:
    sim = network()
    erased(sim, "b1")
    check(sim)


WRONG: list[tuple[str, Any, str, Callable[[], Any]]] = [
    ("the memory is forgotten", Log, "amend", everywhere),
    ("the disk is forgotten", MemoryStore, "erase", from_the_disk),
    ("what is being read is let pass", Logs, "read_again", lambda: reads_while_erasing(network())),
    ("nobody else is asked", Erasing, "asked", everywhere),
]


@pytest.mark.parametrize(("what", "where", "name", "play"), WRONG, ids=[w[0] for w in WRONG])
def test_mutation(patch: Patch, what: str, where: Any, name: str, play: Callable[[], Any]) -> None:
    patch(where, name, nothing)
    with pytest.raises((AssertionError, Violation)):
        play()


def test_mutation_an_answer_without_the_second_round(patch: Patch) -> None:
    before = Erasing._ask

    def hasty(self: Erasing, task: Any, *about: Any, is_barrier: bool) -> None:
        if is_barrier:
            self._end(task, ())
        else:
            before(self, task, *about, is_barrier=is_barrier)

    patch(Erasing, "_ask", hasty)
    with pytest.raises((AssertionError, Violation)):
        on_its_way()


def test_mutation_tombstones_that_are_told(patch: Patch) -> None:
    patch(__import__("tidings.delivery.logs", fromlist=["_"]), "is_erased", lambda _: False)
    with pytest.raises((AssertionError, Violation)):
        everywhere()
