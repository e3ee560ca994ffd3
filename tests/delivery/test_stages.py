"""The table of stages is what readers do, and whatever happens, they hear what they should.

Each scenario is a small world that is gone through in every way: see `world`. A node that goes from
one stage to another in a way that the table does not list is damaged, and raises.
"""

from __future__ import annotations

from functools import cache
from random import Random
from typing import Any, Final
from unittest import mock

import msgspec
import pytest

from tests.delivery.world import (
    SETTINGS,
    WANTED,
    A,
    B,
    Explorer,
    Found,
    Scenario,
    Step,
    explore,
)
from tidings.delivery.fetching import Fetching
from tidings.delivery.readers import Flow, Reader
from tidings.delivery.reading import Reading
from tidings.delivery.stages import STAGES, Stage, Turn
from tidings.delivery.standing import Standing
from tidings.events import Notification
from tidings.protocol.host import Request
from tidings.protocol.parts import UNTOLD
from tidings.protocol.requests import Advertise, Attach, Detach, Publish, Subscribe, Unsubscribe

pytestmark = pytest.mark.xdist_group("stages")

Transition = tuple[Turn, Stage, Stage]


def subscribe(id: str = "1", **place: Any) -> Step:
    return Step(A, (Request("s", Subscribe(id, WANTED, **place), time=20.0),))


def publish(number: int, *, is_wanted: bool = True, at: int = B) -> Step:
    """A publisher comes, and says this."""
    said = Notification({"n": number if is_wanted else 9})
    asked = Request("p", Attach()), Request("p", Publish(number, (said,)), time=10.0 + number)
    return Step(at, asked)


def again(id: str, **place: Any) -> Step:
    """The client comes again, and subscribes."""
    return Step(A, (Request("s", Attach()), *subscribe(id, **place).asked))


CLOSE: Final = Step(A, (Request("s", Detach()),))
END: Final = Step(A, (Request("s", Unsubscribe("1")),))
ADVERTISE: Final = Step(B, (Request("p", Advertise("1", WANTED)),))
ADVERTISED: Final = msgspec.structs.replace(SETTINGS, advertisements="identity")

SCENARIOS: Final = {
    "one begins now and ends, a packet is lost, and time passes": Scenario(
        ((subscribe(), END), (publish(1), publish(2, is_wanted=False))), {"lose": 1, "wait": 1}
    ),
    "one begins now and ends, and packets overtake each other": Scenario(
        ((subscribe(), END), (publish(1), publish(2, is_wanted=False))), {"swap": 1}
    ),
    "one begins now, and the link is cut": Scenario(((subscribe(),), (publish(1),)), {"cut": 1}),
    "one begins now, and the publisher's node is restarted": Scenario(
        ((subscribe(),), (publish(1),)), {"restart": 1}
    ),
    "two begin now, and the link is cut": Scenario(((subscribe(), subscribe("2")),), {"cut": 1}),
    "two begin now, and what they want is advertised": Scenario(
        ((subscribe(), subscribe("2")), (ADVERTISE, publish(1))), settings=ADVERTISED
    ),
    "one reads the past in parts, and does not always read": Scenario(
        ((subscribe(since="begin"),), (publish(4),)), {"full": 1}, {"a": 0, "b": 3}, part=1
    ),
    "one reads on in parts, and the link is cut": Scenario(
        ((subscribe(since={"a": 0, "b": 1}),),), {"cut": 1}, {"a": 0, "b": 3}, part=1
    ),
    "a durable one begins now, and does not always read": Scenario(
        ((subscribe(durable="d"),), (publish(1),)), {"full": 1}
    ),
    "a durable one ends with its session, and goes on in the next one": Scenario(
        ((subscribe(durable="d"), CLOSE, again("2", durable="d")), (publish(1),))
    ),
    "a durable one reads the past, and does not always read": Scenario(
        ((subscribe(durable="d", since="begin"),), (publish(2),)), {"full": 1}, {"a": 0, "b": 1}
    ),
    "one reads two epochs, and does not always read": Scenario(
        ((subscribe(since={"a": 0, "b": 1}),), (publish(1),)),
        {"full": 1},
        {"a": 0, "b": 3, "b~2": 1},
        part=1,
    ),
    "one reads two epochs, and the link is cut": Scenario(
        ((subscribe(since={"a": 0, "b": 1}),),), {"cut": 1}, {"a": 0, "b": 2, "b~2": 1}
    ),
    "one reads two epochs of its own node, and does not always read": Scenario(
        ((subscribe(since={"a": 1, "b": 0}),), (publish(1, at=A),)),
        {"full": 1},
        {"a": 2, "a~2": 0, "b": 0},
    ),
    "one reads the past, and the publisher's node loses its disk": Scenario(
        ((subscribe(since="begin"),), (publish(2),)), {"replace": 1}, {"a": 0, "b": 1}
    ),
}


LARGE: Final = ("link", "restarted", "advertised", "packet", "disk")
"""Scenarios of these take a second or more."""
NAMES: Final = [
    pytest.param(name, marks=pytest.mark.slow if any(w in name for w in LARGE) else ())
    for name in SCENARIOS
]


@cache
def explored(name: str) -> tuple[Found, frozenset[Transition]]:
    """How much there is in a scenario, and how its readers went from stage to stage."""
    seen: set[Transition] = set()
    turn = Standing.turn

    def watched(self: Standing, reader: Reader, flow: Flow, what: Turn, to: Stage) -> None:
        seen.add((what, reader.stage(flow.stream), to))
        turn(self, reader, flow, what, to)

    with mock.patch.object(Standing, "turn", watched):
        found = explore(Explorer(SCENARIOS[name]))
    print(f"{name}: {found}")
    return found, frozenset(seen)


@pytest.mark.parametrize("name", NAMES)
def test_whatever_happens_all_is_heard_in_order_and_once(name: str) -> None:
    found, _ = explored(name)
    assert found.worlds > found.ends > 5


@pytest.mark.slow
def test_what_the_table_lists_is_all_that_happens() -> None:
    seen = set().union(*(explored(name)[1] for name in SCENARIOS))
    listed = {
        (what, stage, to)
        for what, row in STAGES.items()
        for stage, tos in row.items()
        for to in tos
    }
    assert seen == listed


def test_a_node_that_was_frozen_again_and_again_is_as_one_that_never_was() -> None:
    explorer = Explorer(SCENARIOS["one reads the past in parts, and does not always read"])
    explore(explorer)
    for number in Random(1).sample(explorer.states, 30):
        frozen, live = explorer.replayed(number)
        assert frozen == live


# -- what is wrong is found ------------------------------------------------------------------------


def mistaken(name: str) -> str:
    """What the exploration of a scenario finds wrong."""
    with pytest.raises(AssertionError) as caught:
        explore(Explorer(SCENARIOS[name]))
    return str(caught.value)


def test_it_finds_an_epoch_that_is_read_before_the_one_before_it_ends() -> None:
    with mock.patch.object(Standing, "has_earlier", return_value=False):
        found = mistaken("one reads two epochs, and does not always read")
    assert "1 hears 3 of b after ['b~2']" in found


def test_it_finds_a_gap_that_is_not_asked_for() -> None:
    ask = Fetching.ask

    def forgetful(self: Fetching, stream: str, since: int, *about: Any, **more: Any) -> int:
        if about or more or since < 0:
            return ask(self, stream, since, *about, **more)
        self._number += 1
        self._asked[self._number] = None, UNTOLD
        return self._number

    with mock.patch.object(Fetching, "ask", forgetful):
        found = mistaken("one begins now, and the link is cut")
    assert "1 was told None of b, not [[1]]" in found


def test_it_finds_a_reader_that_does_not_ask_where_it_begins() -> None:
    with mock.patch.object(Reading, "_is_covered", return_value=True):
        found = mistaken("one begins now, and the link is cut")
    assert "nobody asks for what flow b lacks" in found


def test_it_finds_an_entry_that_the_table_lacks() -> None:
    with mock.patch.dict(STAGES, {Turn.FILL: {}}):
        found = mistaken("a durable one begins now, and does not always read")
    assert "is following in a, and is to be away, since its client does not read" in found
