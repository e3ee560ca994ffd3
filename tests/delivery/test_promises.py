"""Promises: monotone, reserved before they are told, and kept by whoever comes next."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.delivery.test_own import LOGS
from tidings.delivery.promises import FOREVER, RESERVED, Promises
from tidings.events import Filter, Notification
from tidings.node import Node, Settings
from tidings.protocol.host import (
    Append,
    Effect,
    LinkDown,
    Raise,
    Received,
    Reply,
    Request,
    Send,
    Span,
    Store,
    Sync,
    Woken,
)
from tidings.protocol.messages import Frame, Heard, Silence
from tidings.protocol.requests import Attach, Progress, Publish, Subscribe

times = st.floats(0.0, 1e9)


@given(times, st.lists(times))
def test_a_promise_never_goes_back_and_is_always_reserved(begin: float, clock: list[float]) -> None:
    promises, disk, told = Promises(begin), begin, begin
    for time in clock:
        reservation = promises.move(time)
        if reservation is not None:
            assert reservation.key == RESERVED.kind
            disk = reservation.value
        assert told <= promises.below <= disk
        assert promises.below >= time
        assert not list(promises.audit())
        assert Promises(disk).below >= promises.below  # whoever comes next
        told = promises.below


@given(times)
def test_a_clock_that_runs_on_needs_a_reservation_a_second(begin: float) -> None:
    promises = Promises(0.0)
    moves = [promises.move(1.0 + begin + n / 4) for n in range(400)]
    assert 70 <= sum(move is not None for move in moves) <= 101


def test_more_than_is_reserved_is_found_out() -> None:
    promises = Promises(5.0)
    promises.below = 6.0
    assert list(promises.audit())


# -- a node ------------------------------------------------------------------------------------


def node(logs: dict[str, Span] | None = None, **stored: float) -> Node:
    made = Node("paris", Settings(), stored=stored, logs=logs)
    made.start(0.0, 100.0)
    return made


def asked(made: Node, *, times: bool = True) -> Node:
    """Somebody reads."""
    made.handle(Request("ann", Attach()), 0.0)
    made.handle(Request("ann", Subscribe("1", Filter.parse("n > 0"), times=times)), 0.0)
    return made


def complete(effects: list[Effect]) -> dict[str, float]:
    """What a client is told."""
    found: dict[str, float] = {}
    for effect in effects:
        if isinstance(effect, Reply) and isinstance(effect.answer, Progress):
            found |= effect.answer.complete
    return found


def published(made: Node, time: float, number: int = 1) -> float:
    """The time of what is published then."""
    said = Request("bob", Publish(number, (Notification({"n": 1}),)), time)
    made.handle(Request("bob", Attach()), 2.0)
    [append] = [e for e in made.handle(said, 2.0) if isinstance(e, Append)]
    return append.events[0].time


def test_a_time_is_reserved_and_synced_before_it_is_promised() -> None:
    effects = asked(node()).handle(Woken(500.0), 1.0)
    kinds = [type(effect) for effect in effects]
    assert effects[kinds.index(Store)] == RESERVED.put(501.0)
    assert kinds.index(Store) < kinds.index(Sync) < kinds.index(Reply)
    assert complete(effects) == {"paris": 500.0}


def test_nothing_is_said_below_what_was_promised_whatever_the_clock_shows() -> None:
    made = asked(node())
    made.handle(Woken(500.0), 1.0)
    assert published(made, 20.0) == 500.0
    assert published(made, 507.0, 2) == 507.0
    assert not complete(made.handle(Woken(30.0), 3.0))
    assert complete(made.handle(Woken(600.0), 4.0)) == {"paris": 600.0}


def test_a_node_begins_where_the_one_before_has_reserved() -> None:
    made = asked(node(reserved=501.0))
    assert published(made, 20.0) == 501.0
    assert complete(made.handle(Woken(30.0), 3.0)) == {"paris": 501.0}


def test_nothing_is_reserved_while_nobody_is_told() -> None:
    for made in (node(), asked(node(), times=False)):
        for second in range(1, 5):
            effects = made.handle(Woken(500.0 + second), float(second))
            assert not [e for e in effects if isinstance(e, Sync) or e == RESERVED.put(0.0)]
            assert not complete(effects)


def test_a_neighbour_is_told_while_it_hears_and_nothing_is_reserved_while_it_does_not() -> None:
    nodes = {n: Node(n, Settings(), neighbours={o: "peer"}) for n, o in (("a", "b"), ("b", "a"))}
    on_the_way: list[tuple[str, str, Any]] = []
    silences: list[Silence] = []

    def perform(name: str, effects: list[Effect]) -> list[Effect]:
        on_the_way.extend((name, e.neighbour, e.packet) for e in effects if isinstance(e, Send))
        return effects

    def carry() -> None:
        while on_the_way:
            source, target, packet = on_the_way.pop(0)
            if isinstance(packet, Frame) and isinstance(packet.body, Silence):
                silences.append(packet.body)
            perform(target, nodes[target].handle(Received(source, packet), 0.5))

    for name, made in nodes.items():
        perform(name, made.start(0.0))
    carry()
    perform("a", nodes["a"].handle(Woken(500.0), 1.0))
    carry()
    assert silences == [Silence({"a": 0}, {"a": 500.0})]
    assert nodes["b"].from_log.reading.flow("a").complete in (0.0, 500.0)
    nodes["a"].handle(LinkDown("b"), 2.0)
    for second in range(60, 70):  # it was given up meanwhile
        effects = nodes["a"].handle(Woken(500.0 + second), float(second))
    assert not [e for e in effects if isinstance(e, Store)]


def test_who_asks_is_told_as_soon_as_it_is_live() -> None:
    made = node()
    made.handle(Request("ann", Attach()), 0.0)
    made.handle(Woken(500.0), 1.0)
    first = Request("ann", Subscribe("1", Filter.parse("n > 0"), times=True))
    effects = made.handle(first, 1.5)
    kinds = [type(effect) for effect in effects]
    assert kinds.index(Store) < kinds.index(Sync) < kinds.index(Reply)
    assert complete(effects) == {"paris": 500.0}
    second = Request("ann", Subscribe("2", Filter.parse("n > 1"), times=True))
    effects = made.handle(second, 1.5)
    assert complete(effects) == {"paris": 500.0}
    assert not [e for e in effects if isinstance(e, Sync)]
    assert published(made, 20.0) == 500.0


def test_a_host_that_tells_no_time_is_promised_nothing() -> None:
    effects = asked(node()).handle(Woken(), 1.0)
    assert not complete(effects)
    assert not [e for e in effects if isinstance(e, Sync)]


def test_a_closed_stream_is_complete_for_ever() -> None:
    made = asked(node({"paris": Span(1, 7, 50.0), "paris~2": Span()}))
    assert complete(made.handle(Woken(500.0), 1.0)) == {"paris": FOREVER, "paris~2": 500.0}
    effects = made.handle(Heard({"paris~2": 9}), 2.0)
    assert [e.stream for e in effects if isinstance(e, Raise)] == ["paris~3"]
    told = complete(made.handle(Woken(502.0), 3.0))
    assert told == {"paris~2": FOREVER, "paris~3": 502.0}


def test_who_becomes_live_later_is_told_all_that_is_complete() -> None:
    made = asked(node({"paris": Span(), "paris~2": Span()}))
    made.handle(Woken(500.0), 1.0)
    late = Subscribe("2", Filter.parse("n > 5"), times=True)
    assert complete(made.handle(Request("ann", late), 1.5)) == {"paris": FOREVER, "paris~2": 500.0}
    quiet = Subscribe("3", Filter.parse("n > 6"))
    assert not complete(made.handle(Request("ann", quiet), 1.5))


def test_all_own_streams_keep_the_promise() -> None:
    made = Node("paris", Settings(), stored={"reserved": 70.0}, logs=LOGS)
    made.start(0.0)
    logs = made.from_log.logs
    for name in logs.own:
        [event] = logs.keep(logs.own[name], [(Notification({}), False, "")], time=1.0)
        assert event.time == 70.0


@pytest.mark.parametrize("below", [-1.0, 7.0])
def test_a_promise_that_cannot_be_is_damage(below: float) -> None:
    made = node(reserved=5.0)
    made.from_log.logs.promises.below = below
    assert any("promised" in problem for problem in made.from_log.audit([]))
