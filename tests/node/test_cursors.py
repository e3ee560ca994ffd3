"""Cursors: what names streams that nobody has heard of is refused, and takes no room."""

from __future__ import annotations

from typing import Any

import pytest

from tidings.events import Filter, Notification
from tidings.node import Node, Settings
from tidings.protocol.host import Reply, Request
from tidings.protocol.requests import (
    Accepted,
    Acknowledge,
    Attach,
    Publish,
    Refused,
    Subscribe,
    Unsubscribe,
)

MANY = {f"stream-{n}": 1 for n in range(1_000_000)}
SOME = {f"stream-{n}": 1 for n in range(1_000)}
OTHERS = {f"other-{n}": 1 for n in range(1_000)}


class Broker:
    """A node with a log of three events, and a client."""

    def __init__(self) -> None:
        self.node = Node("paris", Settings())
        self.node.start(0.0)
        self.ask(Attach())
        self.ask(Publish(1, (Notification({"n": 1}),) * 3))

    def ask(self, body: Any) -> Accepted | Refused:
        """What it answers to a request."""
        replies = [e for e in self.node.handle(Request("c", body), 1.0) if isinstance(e, Reply)]
        answers = [e.answer for e in replies if isinstance(e.answer, Accepted | Refused)]
        return answers[-1]

    @property
    def cursor(self) -> dict[str, int]:
        """What is saved of the durable subscription."""
        return self.node.from_log.subscriptions.saved["d"].cursor


def subscribe(**more: Any) -> Subscribe:
    return Subscribe("1", Filter.all(), **more)


def test_a_stream_that_nobody_has_heard_of_is_named() -> None:
    answer = Broker().ask(subscribe(since={"paris": 2, "pariss": 3}))
    assert isinstance(answer, Refused)
    assert answer.reason.startswith("this broker has never heard of 'pariss': ")


def test_an_epoch_that_is_yet_to_come_is_named() -> None:
    answer = Broker().ask(subscribe(since={"paris": 2, "paris~2": 3}))
    assert isinstance(answer, Refused)
    assert answer.reason.startswith("this broker has never heard of 'paris~2': ")


def test_an_epoch_that_ended_before_anybody_heard_of_its_node_is_taken() -> None:
    broker = Broker()
    broker.node.from_log.reached.hear("rome~3", 7)
    assert isinstance(broker.ask(subscribe(since={"rome": 2, "rome~2": 3})), Accepted)


def test_a_place_ahead_of_the_log_is_refused_and_not_accepted_first() -> None:
    broker = Broker()
    effects = broker.node.handle(Request("c", subscribe(since={"paris": 99})), 1.0)
    (answer,) = [each.answer for each in effects if isinstance(each, Reply)]
    assert isinstance(answer, Refused)
    assert answer.cursor == {"paris": 3}


def test_no_more_than_three_of_a_million_are_named() -> None:
    broker = Broker()
    for body in (subscribe(since=MANY), subscribe(heard=MANY), subscribe(since=MANY, durable="d")):
        answer = broker.ask(body)
        assert isinstance(answer, Refused)
        assert "'stream-0', 'stream-1', 'stream-10' and 999997 more" in answer.reason
        assert len(answer.reason) < 300
    delivery = broker.node.from_log
    assert delivery.subscriptions.saved == {}
    assert delivery.clients["c"].readers == {}


@pytest.mark.parametrize("how", ["heard", "since"])
def test_a_thousand_may_be_named_by_what_was_noted_elsewhere(how: str) -> None:
    """Brokers that are long gone are in a lake's cursor; one that has just started knows nobody."""
    wanted: dict[str, Any] = {how: {"paris": 2, **SOME}, "is_noted": how == "since"}
    assert isinstance(Broker().ask(subscribe(**wanted)), Accepted)
    wanted[how]["one-more"] = 1
    assert isinstance(Broker().ask(subscribe(**wanted)), Refused)


def test_the_name_of_a_stream_that_nobody_has_heard_of_is_not_a_megabyte() -> None:
    assert isinstance(Broker().ask(subscribe(heard={"x" * 128: 1})), Accepted)
    answer = Broker().ask(subscribe(heard={"x" * 129: 1}))
    assert isinstance(answer, Refused)
    assert len(answer.reason) < 300


def test_a_durable_subscription_gathers_no_more_than_that() -> None:
    broker = Broker()
    assert isinstance(broker.ask(subscribe(since=SOME, durable="d", is_noted=True)), Accepted)
    assert broker.cursor.keys() == {*SOME, "paris"}
    assert isinstance(broker.ask(Unsubscribe("1")), Accepted)
    for body in (
        subscribe(heard=OTHERS, durable="d"),
        subscribe(since=OTHERS, durable="d", is_noted=True),
        Acknowledge("k", OTHERS, "d"),
    ):
        assert isinstance(broker.ask(body), Refused)
    assert isinstance(broker.ask(Acknowledge("k", {**SOME, "paris": 3}, "d")), Accepted)
    assert isinstance(broker.ask(subscribe(since={"stream-1": 0}, durable="d")), Accepted)
    assert broker.cursor.keys() == {*SOME, "paris"}


def test_who_reads_acknowledges_only_where_it_is() -> None:
    broker = Broker()
    assert isinstance(broker.ask(subscribe(since={"paris": 1}, durable="d")), Accepted)
    answer = broker.ask(Acknowledge("1", {"paris": 2, "rome": 7}))
    assert isinstance(answer, Refused)
    assert "nowhere in 'rome'" in answer.reason
    assert broker.cursor == {"paris": 1}
    assert isinstance(broker.ask(Acknowledge("1", {"paris": 2})), Accepted)
    assert broker.cursor == {"paris": 2}
