"""Stores that go back: no tick is used twice, and whoever was ahead is told."""

from __future__ import annotations

from typing import Any

import pytest

from tests.simulation.runs import Patch
from tests.simulation.test_guarantee_mutations import fails_with
from tests.simulation.test_guarantees import PAIR, join, publish, script, subscribe
from tidings.delivery import FromLog
from tidings.delivery.reading import Reading
from tidings.delivery.standing import Standing
from tidings.node import Node
from tidings.protocol.messages import Heard
from tidings.simulation.guarantees import Violation
from tidings.simulation.scenario import Step

LINE = {
    "nodes": ["b0", "b1", "b2"],
    "links": [["b0", "b1", 0.01, 1.0], ["b1", "b2", 0.01, 1.0]],
}


def goes_back(*more: Step, network: Any = LINE, commits: int = 2, **settings: Any) -> None:
    """A broker publishes to one with readers, loses some of it, and publishes again."""
    far = network["nodes"][-1]
    script(
        network,
        join("c0", "b0"),
        join("c1", "b1"),
        join("c2", far),
        subscribe(1.0, "c0", "TRUE"),
        subscribe(1.0, "c0", "TRUE", durable="d"),
        subscribe(1.0, "c1", "x > 3"),
        *(publish(2.0 + n / 10, "c2", x=n) for n in range(8)),
        *more,
        Step(4.0, "back", node=far, number=commits),
        Step(5.0, "restart", node=far),
        Step(7.0, "join", client="c2", node=far),
        publish(8.0, "c2", x=5, more=3),
        **settings,
    )


def test_whoever_is_beyond_the_end_is_told_and_all_hear_what_comes() -> None:
    goes_back()
    goes_back(commits=100)
    goes_back(tree=True)


def test_whoever_comes_back_later_is_told_then() -> None:
    goes_back(Step(3.5, "cut", node="b0", to="b1"), Step(9.0, "mend", node="b0", to="b1"))
    goes_back(Step(3.5, "vanish", client="c0"), Step(9.0, "join", client="c0", node="b0"))
    goes_back(Step(3.5, "stall", client="c0"), Step(9.0, "drain", client="c0"))


def test_a_store_may_go_back_again_and_over_an_earlier_epoch() -> None:
    goes_back(
        Step(10.0, "back", node="b2", number=1),
        Step(11.0, "restart", node="b2"),
        Step(13.0, "join", client="c2", node="b2"),
        publish(14.0, "c2", x=5, more=3),
        Step(15.0, "back", node="b2", number=100),
        Step(16.0, "restart", node="b2"),
    )


def unnoticed(network: Any = LINE) -> None:
    """The store has nothing to notice it by, but others know more of the stream."""
    far = network["nodes"][-1]
    script(
        network,
        join("c0", "b0"),
        join("c2", far),
        subscribe(1.0, "c0", "TRUE"),
        *(publish(2.0 + n / 10, "c2", x=n) for n in range(8)),
        Step(4.0, "back", node=far, number=3, value=1.0),
        Step(5.0, "restart", node=far),
        Step(9.0, "join", client="c2", node=far),
        publish(10.0, "c2", x=5, more=3),
    )


def test_a_node_whose_stream_is_known_beyond_its_end_begins_another_one() -> None:
    unnoticed()
    unnoticed(PAIR)


# -- each way to get it wrong is caught --------------------------------------------------------


def test_mutation_nobody_listens_to_what_others_know(patch: Patch) -> None:
    def deaf(self: FromLog, neighbour: Any, message: Heard) -> None:
        """Nothing."""

    patch(FromLog, "_heard", deaf)
    with pytest.raises(AssertionError, match="given out a second time"):
        unnoticed()


def test_mutation_followers_that_are_not_told(patch: Patch) -> None:
    def quiet(self: Reading, flow: Any, message: Any) -> None:
        flow.upto, flow.is_live = message.upto, True

    patch(Reading, "_went_back", quiet)
    with pytest.raises(Violation):
        goes_back()


def test_mutation_a_later_epoch_read_before_the_end_of_an_earlier_one(patch: Patch) -> None:
    patch(Standing, "has_earlier", lambda self, reader, stream: False)
    with pytest.raises(Violation, match="has not heard"):
        goes_back(Step(3.5, "vanish", client="c0"), Step(9.0, "join", client="c0", node="b0"))


def stalled(seed: int) -> None:
    goes_back(Step(3.5, "stall", client="c0"), Step(9.0, "drain", client="c0"), seed=seed)


def test_mutation_a_later_epoch_that_clocks_decide_where_to_begin(patch: Patch) -> None:
    patch(Reading, "follow_epochs", lambda self, reader, streams: None)
    assert any(fails_with(stalled, seed) for seed in range(8))


def test_mutation_a_restored_node_that_is_taken_for_an_older_one(patch: Patch) -> None:
    init = Node.__init__

    def forgetful(self: Node, *args: Any, **more: Any) -> None:
        init(self, *args, **more)
        self.incarnation = self.conversations._incarnation = self._starts

    patch(Node, "__init__", forgetful)
    with pytest.raises(Violation):
        goes_back(Step(3.2, "crash", node="b2"), Step(3.3, "restart", node="b2"), commits=100)
