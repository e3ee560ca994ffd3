"""A durable subscription lives at one broker; whoever asks another one for it is told."""

from __future__ import annotations

import pytest

from tests.simulation.test_guarantees import join, publish, script, subscribe
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


def is_read_by(trial: Play, client: str) -> bool:
    return bool(trial.clients[client].readings)


def made_at_once() -> Play:
    return script(
        SLOW_PAIR,
        join("c0", "b0"),
        join("c1", "b1"),
        subscribe(3.0, "c0", "TRUE", durable="s1"),
        subscribe(3.1, "c1", "TRUE", durable="s1"),
        publish(8.0, "c1", x=1),
    )


def test_a_name_that_lives_elsewhere_is_refused() -> None:
    trial = script(
        LINE,
        join("c0", "b0"),
        join("c2", "b2"),
        subscribe(3.0, "c2", "TRUE", durable="s1"),
        subscribe(8.0, "c0", "TRUE", durable="s1"),
    )
    assert homes(trial) == {"b2"}
    assert not is_read_by(trial, "c0")


def test_of_two_that_make_a_name_at_once_one_has_it() -> None:
    trial = made_at_once()
    assert homes(trial) == {"b0"}
    assert not is_read_by(trial, "c1")


def test_a_name_that_was_forgotten_may_live_elsewhere() -> None:
    trial = script(
        SLOW_PAIR,
        join("c0", "b0"),
        join("c1", "b1"),
        subscribe(3.0, "c0", "TRUE", durable="s1"),
        Step(6.0, "unsubscribe", client="c0", id="s1", forget=True),
        subscribe(9.0, "c1", "TRUE", durable="s1"),
    )
    assert homes(trial) == {"b1"}


@pytest.mark.parametrize(
    ("home", "lives"),
    [("sure", {"b0"}), ("", {"b0", "b1"}), ("here", {"b0", "b1"})],
    ids=["several places", "one place", "here"],
)
def test_a_name_that_nobody_can_be_asked_for_is_refused_to_who_may_come_from_elsewhere(
    home: str, lives: set[str]
) -> None:
    trial = script(
        SLOW_PAIR,
        join("c0", "b0"),
        join("c1", "b1"),
        subscribe(3.0, "c0", "TRUE", durable="s1"),
        Step(6.0, "cut", node="b0", to="b1"),
        subscribe(7.0, "c1", "TRUE", durable="s1", home=home),
        publish(9.0, "c0", x=1),
        grace="strawman",
    )
    assert homes(trial) == lives
    assert is_read_by(trial, "c1") == ("b1" in lives)


def test_a_name_is_asked_for_again_when_the_way_was_lost() -> None:
    trial = script(
        SLOW_PAIR,
        join("c0", "b0"),
        join("c1", "b1"),
        subscribe(3.0, "c0", "TRUE", durable="s1"),
        subscribe(8.0, "c1", "TRUE", durable="s1", home="sure"),
        Step(8.2, "mute", node="b0", to="b1"),
        Step(9.5, "mend", node="b0", to="b1"),
    )
    assert homes(trial) == {"b0"}
    assert not is_read_by(trial, "c1")


def test_different_names_do_not_meet() -> None:
    trial = script(
        SLOW_PAIR,
        join("c0", "b0"),
        join("c1", "b1"),
        subscribe(3.0, "c0", "TRUE", durable="d1"),
        subscribe(8.0, "c1", "TRUE", durable="d2", home="sure"),
    )
    assert is_read_by(trial, "c0")
    assert is_read_by(trial, "c1")
