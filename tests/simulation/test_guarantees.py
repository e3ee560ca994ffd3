"""Whatever breaks: what was accepted is delivered exactly once, in order, to all who want it."""

from __future__ import annotations

import os
from typing import Any

import pytest

from tests.simulation.trials import NETWORKS, SEMANTICS, STRATEGIES, run, trial
from tidings.node import Settings
from tidings.simulation.random_runs import FAULTS
from tidings.simulation.scenario import Scenario, Step
from tidings.simulation.trials import play

SEEDS = int(os.environ.get("TIDINGS_SEEDS", "3"))
"""For each network, level of faults, strategy and semantics: 420 trials for each seed."""


@pytest.mark.parametrize("network", NETWORKS)
def test_every_guarantee_holds_in_every_network(network: str) -> None:
    for seed in range(3):
        run(seed, network, "covering", "advertisements", "all", steps=50)


@pytest.mark.slow
@pytest.mark.parametrize("faults", FAULTS)
@pytest.mark.parametrize("network", NETWORKS)
def test_every_guarantee_holds_whatever_breaks(network: str, faults: str) -> None:
    for number, strategy in enumerate(STRATEGIES):
        for more, semantics in enumerate(SEMANTICS):
            for seed in range(SEEDS):
                run(100 * (seed + 1) + 10 * number + more, network, strategy, semantics, faults)


@pytest.mark.slow
@pytest.mark.parametrize("faults", FAULTS)
def test_every_guarantee_holds_while_brokers_learn(faults: str) -> None:
    known = 0
    for network in NETWORKS:
        for seed, semantics in enumerate(SEMANTICS):
            done = run(seed, network, "learnt:0.2", semantics, faults, steps=50)
            nodes = done.simulation.nodes.values()
            known += sum(bool(node.learning and node.learning.known) for node in nodes)
    assert known > 20


def test_a_trial_is_the_same_every_time() -> None:
    first, second = play(trial(5, "graph")), play(trial(5, "graph"))
    assert first.simulation.steps == second.simulation.steps
    assert first.simulation.now == second.simulation.now


# -- what once went wrong ----------------------------------------------------------------------


def script(network: dict[str, Any], *steps: Step, seed: int = 1, **settings: Any) -> None:
    """Play a few steps that once broke a promise."""
    play(
        Scenario(
            seed=seed,
            duration=20.0,
            network=network,
            settings=Settings(log=True, **settings),
            steps=steps,
        )
    )


def join(client: str, node: str) -> Step:
    return Step(0.0, "join", client=client, node=node)


def publish(at: float, client: str, *, more: int = 0, **event: Any) -> Step:
    return Step(at, "publish", client=client, event=event, number=more)


def subscribe(at: float, client: str, filter: str, *, durable: str = "", since: int = 0) -> Step:
    """Since now, the beginning, or a time (0, 1, 2)."""
    return Step(at, "subscribe", client=client, filter=filter, to=durable, number=since, value=0.5)


SINGLE = {"kind": "single"}
PAIR = {"nodes": ["b0", "b1"], "links": [["b0", "b1", 0.01, 1.0]]}


def test_what_was_delivered_but_not_acknowledged_is_delivered_in_the_next_life() -> None:
    script(
        SINGLE,
        join("c0", "b0"),
        subscribe(1.0, "c0", "TRUE", durable="d", since=1),
        publish(2.0, "c0", x=1),
        *(
            Step(at, do, client="c0", node="b0")
            for at, do in ((3.0, "vanish"), (4.0, "join"), (5.0, "vanish"), (6.0, "join"))
        ),
    )


def test_a_durable_subscription_that_was_not_accepted_yet_begins_where_it_began() -> None:
    script(
        {"nodes": ["b0", "b1", "b2"], "links": [["b0", "b1", 0.01, 1.0], ["b1", "b2", 0.01, 1.0]]},
        join("c0", "b0"),
        publish(2.0, "c0", x=1, more=4),
        Step(2.5, "mute", node="b1", to="b2"),
        subscribe(3.0, "c0", "TRUE", durable="d", since=1),
        Step(3.5, "hang", client="c0"),
        Step(12.0, "mend", node="b1", to="b2"),
        Step(16.0, "vanish", client="c0"),
        tree=True,
    )


def test_progress_does_not_pass_over_what_a_full_client_has_missed() -> None:
    script(
        PAIR,
        Step(0.0, "crash", node="b1"),
        join("c0", "b0"),
        subscribe(1.0, "c0", "TRUE"),
        Step(2.0, "stall", client="c0"),
        publish(3.0, "c0", x=1),
        Step(4.0, "restart", node="b1"),
        Step(8.0, "hang", client="c0"),
    )


def test_progress_does_not_overtake_the_event_by_which_a_neighbour_is_given_up() -> None:
    script(
        PAIR,
        join("c0", "b0"),
        join("c1", "b1"),
        subscribe(1.0, "c1", "TRUE"),
        Step(2.0, "cut", node="b0", to="b1"),
        subscribe(3.0, "c0", "TRUE"),
        publish(4.0, "c0", x=8, more=4),
        grace="adaptive:2",
    )


def test_a_durable_subscription_knows_when_it_began_though_its_client_does_not() -> None:
    script(
        PAIR,
        join("c0", "b0"),
        join("c1", "b1"),
        publish(1.0, "c1", x=1),
        Step(2.0, "cut", node="b0", to="b1"),
        subscribe(3.0, "c0", "TRUE", durable="d"),
        publish(4.0, "c1", x=1),
        Step(5.0, "hang", client="c0"),
        Step(8.0, "mend", node="b0", to="b1"),
        grace="strawman",
    )


def unadvertised() -> None:
    """Something is published before anybody has heard that it is advertised, and no longer is."""
    script(
        {"nodes": ["b0", "b1", "b2"], "links": [["b0", "b1", 0.3, 1.0], ["b1", "b2", 0.3, 1.0]]},
        join("c0", "b0"),
        join("c2", "b2"),
        subscribe(3.0, "c0", "x < 6", durable="d"),
        Step(6.0, "advertise", client="c2", id="a", filter="x < 6"),
        publish(6.2, "c2", x=1),
        Step(6.4, "unadvertise", client="c2", id="a"),
        advertisements="covering",
    )


def test_what_is_no_longer_advertised_is_fetched_all_the_same() -> None:
    unadvertised()


def test_a_subscription_to_what_is_no_longer_advertised_starts_behind_what_was() -> None:
    script(
        PAIR,
        join("c0", "b0"),
        join("c1", "b1"),
        Step(1.0, "advertise", client="c1", id="a", filter="TRUE"),
        subscribe(2.0, "c0", "x = 1"),
        publish(10.2, "c1", x=6),
        Step(10.3, "advertise", client="c1", id="a", filter="x < 2"),
        subscribe(10.7, "c0", "x = 6"),
        advertisements="simple",
    )


def test_a_subscription_that_is_refused_in_one_stream_is_over_in_all() -> None:
    script(
        PAIR,
        join("c0", "b0"),
        join("c1", "b1"),
        subscribe(1.0, "c0", "TRUE", durable="d"),
        publish(2.0, "c0", x=1, more=4),
        publish(2.0, "c1", x=1, more=4),
        Step(3.0, "vanish", client="c0"),
        Step(4.0, "trim", node="b0", value=0.5),
        Step(5.0, "join", client="c0", node="b0"),
    )


def stale() -> None:
    """The answer to what a node asked comes after it has crashed and asked something else."""
    script(
        {"nodes": ["b0", "b1", "b2"], "links": [["b0", "b1", 0.01, 1.0], ["b1", "b2", 1.0, 1.0]]},
        join("c0", "b0"),
        join("c2", "b2"),
        subscribe(5.0, "c0", "TRUE"),
        Step(5.5, "crash", node="b0"),
        Step(5.6, "restart", node="b0"),
        publish(6.68, "c2", x=1),
    )


def test_an_answer_that_an_earlier_node_of_the_same_name_asked_for_is_not_taken() -> None:
    stale()
