"""What once broke a promise, step by step: it holds now, with all checks there are."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from tests.simulation.random_runs import random_event
from tests.simulation.shrinking import play
from tidings.node import Settings
from tidings.simulation.play import Play
from tidings.simulation.scenario import Scenario, Step


def script(network: dict[str, Any], *steps: Step, seed: int = 1, **settings: Any) -> Play:
    """Play a few steps that once broke a promise."""
    return play(
        Scenario(
            seed=seed,
            duration=20.0,
            network=network,
            settings=Settings(**settings),
            is_harsh=True,
            steps=steps,
        )
    )


def join(client: str, node: str) -> Step:
    return Step(0.0, "join", client=client, node=node)


def publish(at: float, client: str, *, more: int = 0, **event: Any) -> Step:
    random = Random(f"{event}")
    others = [random_event(random) for _ in range(more)]
    return Step(at, "publish", client=client, event=event, more=others)


def subscribe(
    at: float,
    client: str,
    filter: str,
    *,
    durable: str = "",
    since: Any = "",
    home: Any = "",
    id: str = "",
) -> Step:
    """Since now, the beginning, or half of the time."""
    return Step(
        at,
        "subscribe",
        client=client,
        id=id,
        filter=filter,
        durable=durable,
        since=since,
        value=0.5,
        home=home,
    )


SINGLE = {"kind": "single"}
PAIR = {"nodes": ["b0", "b1"], "links": [["b0", "b1", 0.01, 1.0]]}


def test_what_was_delivered_but_not_acknowledged_is_delivered_in_the_next_life() -> None:
    script(
        SINGLE,
        join("c0", "b0"),
        subscribe(1.0, "c0", "TRUE", durable="d", since="begin"),
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
        subscribe(3.0, "c0", "TRUE", durable="d", since="begin"),
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


@pytest.mark.parametrize("seed", range(4))
def test_a_durable_name_that_is_forgotten_while_another_replays_it_is_set_back(seed: int) -> None:
    """Either may come first: the replay of what is known, or that it is not known any more."""
    script(
        SINGLE,
        *(join(client, "b0") for client in ("c0", "c1", "c2")),
        publish(0.5, "c0", x=2, more=1),
        subscribe(1.3, "c2", "x < 7", durable="d"),
        Step(2.977, "unsubscribe", client="c2", id="s1", forget=True),
        subscribe(2.98, "c1", "x < 7", durable="d", since="begin"),
        subscribe(18.5, "c0", "x < 7", durable="d"),
        seed=seed,
    )


def test_a_durable_name_is_taken_back_just_after_it_was_taken_over_and_then_forgotten() -> None:
    script(
        SINGLE,
        join("c0", "b0"),
        join("c1", "b0"),
        subscribe(3.0, "c0", "TRUE", durable="d"),
        publish(9.0, "c0", x=5),
        subscribe(9.4, "c1", "TRUE", durable="d"),
        Step(9.422, "take", client="c0"),
        Step(10.1, "ack", client="c0"),
        Step(18.3, "unsubscribe", client="c0", id="s2", forget=True),
        subscribe(18.8, "c1", "TRUE", durable="d"),
    )


def unreached(seed: int) -> None:
    """Something is published where nobody could be reached when the subscription began."""
    script(
        PAIR,
        join("c0", "b0"),
        join("c1", "b1"),
        publish(1.0, "c1", x=1, more=4),
        Step(3.0, "cut", node="b0", to="b1"),
        subscribe(4.0, "c0", "TRUE", durable="d"),
        subscribe(4.0, "c0", "TRUE"),
        publish(6.0, "c1", x=1, more=4),
        Step(7.0, "hang", client="c0"),
        Step(9.0, "mend", node="b0", to="b1"),
        seed=seed,
        grace="strawman",
    )


def restarted(seed: int) -> None:
    """The same, after the node of the subscription was down itself."""
    script(
        PAIR,
        join("c0", "b0"),
        join("c1", "b1"),
        publish(1.0, "c1", x=1, more=4),
        Step(3.0, "crash", node="b0"),
        Step(3.0, "cut", node="b0", to="b1"),
        Step(3.5, "restart", node="b0"),
        subscribe(4.0, "c0", "TRUE", durable="d", home="here"),
        subscribe(4.0, "c0", "TRUE"),
        publish(6.0, "c1", x=1, more=4),
        Step(9.0, "mend", node="b0", to="b1"),
        seed=seed,
        grace="strawman",
    )


@pytest.mark.parametrize("seed", range(6))
def test_no_clock_decides_what_is_heard_of_a_stream_that_could_not_be_reached(seed: int) -> None:
    unreached(seed)
    restarted(seed)


def test_a_live_subscription_goes_on_where_what_was_published_out_of_reach_is_gone() -> None:
    trial = script(
        PAIR,
        join("c0", "b0"),
        join("c1", "b1"),
        publish(1.0, "c1", x=1, more=4),
        Step(3.0, "cut", node="b0", to="b1"),
        subscribe(4.0, "c0", "TRUE"),
        publish(6.0, "c1", x=1, more=4),
        Step(7.0, "trim", node="b1", value=0.8),
        Step(9.0, "mend", node="b0", to="b1"),
        grace="strawman",
    )
    (reading,) = trial.clients["c0"].readings.values()
    assert reading.id == "s1", "it was not refused"


@pytest.mark.parametrize("seed", range(6))
def test_a_stream_that_was_never_heard_of_is_heard_though_its_clock_is_behind(seed: int) -> None:
    script(
        PAIR,
        Step(0.0, "cut", node="b0", to="b1"),
        join("c0", "b0"),
        join("c1", "b1"),
        subscribe(4.0, "c0", "TRUE", durable="d"),
        subscribe(4.0, "c0", "TRUE"),
        publish(6.0, "c1", x=1, more=4),
        Step(9.0, "mend", node="b0", to="b1"),
        seed=seed,
        grace="strawman",
    )


@pytest.mark.parametrize("seed", range(6))
def test_a_subscription_begins_though_the_way_is_lost_before_it_is_known_where(seed: int) -> None:
    script(
        {"nodes": ["b0", "b1"], "links": [["b0", "b1", 0.3, 1.0]]},
        join("c0", "b0"),
        join("c1", "b1"),
        publish(1.0, "c1", x=1, more=4),
        subscribe(3.0, "c0", "TRUE", durable="d"),
        subscribe(3.0, "c0", "x < 5"),
        Step(3.3, "cut", node="b0", to="b1"),
        publish(6.0, "c1", x=1, more=4),
        Step(7.0, "vanish", client="c0"),
        Step(8.0, "join", client="c0", node="b0"),
        Step(9.0, "mend", node="b0", to="b1"),
        seed=seed,
        grace="strawman",
    )


def trimmed(filter: str) -> None:
    """Of five events that come while a link is cut, the first two are no longer kept after it."""
    script(
        PAIR,
        join("c0", "b0"),
        join("c1", "b1"),
        subscribe(1.0, "c0", filter),
        Step(2.0, "cut", node="b0", to="b1"),
        *(publish(3.0, "c1", x=1) for _ in range(5)),
        Step(5.0, "trim", node="b1", value=0.5),
        Step(6.0, "mend", node="b0", to="b1"),
        grace="strawman",
    )


@pytest.mark.parametrize("filter", ["x = 1", "x = 2"])
def test_what_is_no_longer_kept_is_not_counted_as_missed_but_told(filter: str) -> None:
    trimmed(filter)


def test_what_was_told_as_missed_is_not_read_again() -> None:
    script(
        SINGLE,
        join("c0", "b0"),
        subscribe(1.0, "c0", "TRUE"),
        Step(2.0, "stall", client="c0"),
        publish(3.0, "c0", x=1, more=4),
        Step(4.0, "drain", client="c0"),
        Step(4.1, "hang", client="c0"),
    )


def spoilt(*, durable: str = "", since: str = "begin") -> None:
    """Two of five events are damaged on the disk, and wanted here and at a neighbour."""
    script(
        PAIR,
        join("c0", "b0"),
        join("c1", "b1"),
        *(publish(1.0, "c0", x=1) for _ in range(5)),
        Step(2.0, "spoil", node="b0", value=0.3, number=2),
        Step(3.0, "crash", node="b0"),
        Step(3.1, "restart", node="b0"),
        subscribe(5.0, "c0", "x = 1", durable=durable, since=since),
        subscribe(5.0, "c1", "x = 1", durable=durable and "e", since=since),
    )


@pytest.mark.parametrize("durable", ["", "d"])
@pytest.mark.parametrize("since", ["begin", "time"])
def test_whoever_wants_what_is_damaged_is_told_and_goes_on_behind_it(
    durable: str, since: str
) -> None:
    spoilt(durable=durable, since=since)


@pytest.mark.parametrize("durable", ["", "d"])
def test_a_flow_that_lacks_what_is_damaged_goes_on_behind_it(durable: str) -> None:
    script(
        PAIR,
        join("c0", "b0"),
        join("c1", "b1"),
        subscribe(1.0, "c1", "x = 1", durable=durable),
        Step(2.0, "cut", node="b0", to="b1"),
        *(publish(3.0, "c0", x=1) for _ in range(5)),
        Step(5.0, "spoil", node="b0", value=0.3, number=2),
        Step(6.0, "crash", node="b0"),
        Step(6.1, "restart", node="b0"),
        Step(7.0, "mend", node="b0", to="b1"),
        grace="strawman",
    )


def test_who_is_let_in_while_events_are_passed_on_hears_the_rest_of_them() -> None:
    """The third event gives up a neighbour, and with it the last who could know a durable name."""
    script(
        {
            "nodes": ["b0", "b1", "b3", "b4"],
            "links": [["b0", "b3", 0.01, 1.0], ["b0", "b4", 0.01, 1.0], ["b1", "b4", 0.01, 1.0]],
        },
        join("c0", "b3"),
        Step(2.4, "crash", node="b4"),
        subscribe(2.5, "c0", "x > 3", durable="d"),
        Step(4.1, "cut", node="b0", to="b3"),
        publish(8.2, "c0", x=5, more=4),
        subscriptions="flooding",
        grace="adaptive:3",
    )


def test_what_is_advertised_when_another_reader_has_just_asked_for_it_is_fetched() -> None:
    """The event passes b1 before that hears of the second reader, by whom b0 wants it already."""
    script(
        {"nodes": ["b0", "b1", "b2"], "links": [["b0", "b1", 1.0, 1.0], ["b1", "b2", 0.01, 1.0]]},
        join("c0", "b0"),
        join("c1", "b0"),
        join("c2", "b2"),
        Step(0.5, "advertise", client="c2", id="a", filter="x < 3"),
        subscribe(5.0, "c0", "x >= 6"),
        Step(10.0, "advertise", client="c2", id="b", filter="TRUE"),
        publish(10.2, "c2", x=8),
        subscribe(10.5, "c1", "x > 1"),
        advertisements="covering",
    )


def test_a_log_that_is_trimmed_while_it_is_compared_with_the_disk_is_not_damaged() -> None:
    script(
        SINGLE,
        join("c1", "b0"),
        Step(0.6, "slow", value=0.5),
        publish(2.8, "c1", x=9, more=1),
        *(Step(8.05 + 0.1 * n, "trim", node="b0", value=0.3 * n) for n in range(4)),
        check=2.0,
    )


def failing() -> None:
    """A disk is in trouble for longer than a node waits between two comparisons with it."""
    script(
        SINGLE,
        join("c0", "b0"),
        Step(5.0, "fail", node="b0", number=3),
        publish(6.5, "c0", x=1),
        check=2.0,
    )


def test_a_node_whose_disk_is_in_trouble_is_not_damaged() -> None:
    failing()


@pytest.mark.parametrize("seed", range(4))
def test_a_log_that_cannot_be_read_for_long_is_asked_again_and_goes_on_for_all_others(
    seed: int,
) -> None:
    """The read waits for a commit; meanwhile somebody else hears all that is published."""
    script(
        SINGLE,
        join("c0", "b0"),
        join("c1", "b0"),
        *(publish(1.0, "c0", x=n) for n in range(5)),
        subscribe(3.0, "c0", "TRUE"),
        Step(5.0, "fail", node="b0", number=8),
        publish(5.5, "c0", x=1),
        subscribe(5.6, "c1", "TRUE", since="begin"),
        publish(7.0, "c0", x=1),
        seed=seed,
        check=2.0,
    )


def straggling(seed: int) -> None:
    """A link is silent; what was on its way there comes later than what came another way."""
    script(
        {"kind": "random_graph", "nodes": 6, "seed": 3, "extra": 4},
        join("c0", "b3"),
        join("c3", "b0"),
        subscribe(1.96, "c3", "s = 'a'", since="time"),
        publish(3.322, "c3", more=1, x=6, s="a"),
        Step(3.797, "mute", node="b0", to="b3"),
        publish(5.759, "c0", x=7, s="a"),
        publish(8.539, "c0", more=4, x=4, s="a"),
        seed=seed,
        tree=True,
        subscriptions="flooding",
        grace="adaptive:3",
    )


@pytest.mark.parametrize("seed", range(4))
def test_what_comes_by_an_earlier_way_is_not_taken_for_the_flow(seed: int) -> None:
    straggling(seed)
