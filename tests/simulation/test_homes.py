"""A durable subscription lives at one broker, and goes to the one where somebody wants it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.simulation.test_guarantees import join, publish, script, subscribe
from tidings.protocol.requests import Acknowledge, Unsubscribe
from tidings.simulation.clients import Client
from tidings.simulation.play import Play
from tidings.simulation.scenario import Step

SLOW_PAIR = {"nodes": ["b0", "b1"], "links": [["b0", "b1", 0.3, 1.0]]}
LINE = {
    "nodes": ["b0", "b1", "b2"],
    "links": [["b0", "b1", 0.3, 1.0], ["b1", "b2", 0.3, 1.0]],
}


def homes(trial: Play, name: str = "s1") -> set[str]:
    """Where a durable subscription lives."""
    stores = trial.simulation.stores
    return {node for node in stores if f"durable:{name}" in stores[node].content}


def heard(trial: Play, client: str) -> list[Any]:
    """What it was told of these tests' own events."""
    told = [event.notification.attributes for event in trial.clients[client].heard]
    return [attributes["n"] for attributes in told if "n" in attributes]


def is_read_by(trial: Play, client: str) -> bool:
    return bool(trial.clients[client].readings)


def made_at_once() -> Play:
    return script(
        SLOW_PAIR,
        join("c0", "b0"),
        join("c1", "b1"),
        subscribe(3.0, "c0", "TRUE", durable="s1"),
        subscribe(3.1, "c1", "TRUE", durable="s1"),
        publish(8.0, "c1", n=1),
    )


def test_a_name_goes_to_where_it_is_wanted_and_on_from_where_it_was() -> None:
    trial = script(
        LINE,
        join("c0", "b0"),
        join("c2", "b2"),
        subscribe(3.0, "c2", "TRUE", durable="s1"),
        publish(4.6, "c0", n=1),
        publish(5.0, "c0", n=2),
        Step(6.0, "ack", client="c2"),
        publish(7.0, "c0", n=3),
        subscribe(8.0, "c0", "TRUE", durable="s1"),
        publish(9.0, "c2", n=4),
    )
    assert homes(trial) == {"b0"}
    assert not is_read_by(trial, "c2")
    assert heard(trial, "c0") == [3, 4]


def test_a_client_that_goes_to_another_broker_hears_each_event_once() -> None:
    """What it has heard and not acknowledged is not told again."""
    trial = script(
        LINE,
        join("c0", "b0"),
        join("c2", "b2"),
        subscribe(3.0, "c2", "TRUE", durable="s1"),
        publish(6.0, "c0", n=1),
        Step(7.2, "ack", client="c2"),
        publish(7.5, "c0", n=2),
        Step(8.5, "hop", client="c2", node="b1"),
        publish(8.6, "c0", n=3),
        publish(10.0, "c0", n=4),
        Step(13.0, "hop", client="c2", node="b0"),
        publish(15.0, "c0", n=5),
    )
    assert homes(trial) == {"b0"}
    assert heard(trial, "c2") == [1, 2, 3, 4, 5]


def test_of_two_that_make_a_name_at_once_one_has_it_and_then_the_other() -> None:
    trial = made_at_once()
    assert homes(trial) == {"b1"}, "where it was asked for again"
    assert not is_read_by(trial, "c0")


def test_a_name_that_was_forgotten_begins_anew_elsewhere() -> None:
    trial = script(
        SLOW_PAIR,
        join("c0", "b0"),
        join("c1", "b1"),
        subscribe(3.0, "c0", "TRUE", durable="s1"),
        subscribe(6.0, "c1", "TRUE", durable="s1", id="moved"),
        publish(8.0, "c1", n=1),
        Step(10.0, "unsubscribe", client="c1", id="moved", forget=True),
        publish(12.0, "c1", n=2),
        subscribe(14.0, "c0", "TRUE", durable="s1"),
        publish(18.0, "c1", n=3),
    )
    assert homes(trial) == {"b0"}
    assert heard(trial, "c0") == [3]


@pytest.mark.parametrize(
    ("home", "lives"), [("", {"b0"}), ("here", {"b0", "b1"})], ids=["anywhere", "here"]
)
def test_a_name_whose_home_cannot_be_asked_is_refused_until_it_can(
    home: str, lives: set[str]
) -> None:
    trial = script(
        SLOW_PAIR,
        join("c0", "b0"),
        join("c1", "b1"),
        subscribe(3.0, "c0", "TRUE", durable="s1"),
        Step(6.0, "cut", node="b0", to="b1"),
        subscribe(7.0, "c1", "TRUE", durable="s1", home=home, id="other"),
        publish(9.0, "c0", n=1),
        Step(12.0, "unsubscribe", client="c1", id="other"),
        grace="strawman",
    )
    assert homes(trial) == lives
    assert ("may live at b0" in str(trial.clients["c1"].refused)) == (not home)


def test_a_name_is_asked_for_again_when_the_way_was_lost() -> None:
    trial = script(
        SLOW_PAIR,
        join("c0", "b0"),
        join("c1", "b1"),
        subscribe(3.0, "c0", "TRUE", durable="s1"),
        subscribe(8.0, "c1", "TRUE", durable="s1"),
        Step(8.2, "mute", node="b0", to="b1"),
        Step(9.5, "mend", node="b0", to="b1"),
    )
    assert homes(trial) == {"b1"}
    assert is_read_by(trial, "c1")


def test_different_names_do_not_meet() -> None:
    trial = script(
        SLOW_PAIR,
        join("c0", "b0"),
        join("c1", "b1"),
        subscribe(3.0, "c0", "TRUE", durable="d1"),
        subscribe(8.0, "c1", "TRUE", durable="d2"),
    )
    assert is_read_by(trial, "c0")
    assert is_read_by(trial, "c1")


def test_an_acknowledgement_may_come_before_the_name_has(patch: Any) -> None:
    """What a client has heard elsewhere it acknowledges while the name is on its way."""
    hop = Client.hop

    def hop_and_acknowledge(self: Client, node: str) -> None:
        hop(self, node)
        connect = self.simulation.now + 0.5
        self.simulation.at(connect, lambda *_: self._ask(Acknowledge("s1", {"b0": 1})))

    patch(Client, "hop", hop_and_acknowledge)
    trial = script(
        SLOW_PAIR,
        join("c0", "b0"),
        join("c1", "b1"),
        subscribe(3.0, "c1", "TRUE", durable="s1"),
        publish(5.0, "c0", n=1),
        Step(7.0, "hop", client="c1", node="b0"),
        publish(9.0, "c0", n=2),
    )
    assert heard(trial, "c1") == [1, 2]
    assert trial.simulation.stores["b0"].content["cursor:s1"]["b0"] == 1


def test_a_name_that_is_on_its_way_can_be_forgotten(patch: Any) -> None:
    hop = Client.hop

    def hop_and_forget(self: Client, node: str) -> None:
        hop(self, node)
        forget = Unsubscribe("s1", forget=True)
        self.simulation.at(self.simulation.now + 0.5, lambda *_: self._ask(forget))

    patch(Client, "hop", hop_and_forget)
    trial = script(
        SLOW_PAIR,
        join("c0", "b0"),
        join("c1", "b1"),
        subscribe(3.0, "c1", "TRUE", durable="s1"),
        Step(7.0, "hop", client="c1", node="b0"),
        Step(9.0, "leave", client="c1"),
    )
    assert homes(trial) == set()
