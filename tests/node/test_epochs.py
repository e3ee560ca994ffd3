"""One node with the streams of several epochs: where its readers begin."""

from __future__ import annotations

from typing import Any

from tidings.events import Filter, Notification
from tidings.node import Node, Settings
from tidings.protocol.host import (
    Deliver,
    Effect,
    Raise,
    Read,
    Records,
    Reply,
    Request,
    Span,
    Store,
    Sync,
)
from tidings.protocol.messages import Event, Heard
from tidings.protocol.requests import Attach, Refused, Subscribe

CLOSED = Span(1, 3, 10.0)
OPEN = Span(1, 5, 20.0)


def started(current: Span = OPEN) -> Node:
    """A node to which somebody is connected."""
    node = Node("paris", Settings(), logs={"paris": CLOSED, "paris~2": current})
    node.start(now=0.0)
    node.handle(Request("ann", Attach()), now=1.0)
    return node


def asked(current: Span = OPEN, node: Node | None = None, **place: Any) -> list[Effect]:
    """What a node does for somebody who subscribes."""
    node = node or started(current)
    return node.handle(Request("ann", Subscribe("s", Filter.all(), **place), 30.0), now=1.0)


def reads(effects: list[Effect]) -> list[tuple[str, int, float]]:
    return [(e.stream, e.since, e.after) for e in effects if isinstance(e, Read)]


def test_whoever_has_read_in_a_stream_hears_all_of_the_next_whenever_it_began() -> None:
    assert reads(asked(heard={"paris": 3}, begun=25.0)) == [("paris~2", 0, 0.0)]
    assert reads(asked(since={"paris": 3})) == [("paris~2", 0, 0.0)]


def test_a_stream_is_read_to_its_end_before_the_next_one_is() -> None:
    node = started()
    (read,) = [e for e in asked(node=node, heard={"paris": 1}, begun=25.0) if isinstance(e, Read)]
    assert (read.stream, read.since) == ("paris", 1)
    found = tuple(Event("paris", tick, Notification({"n": tick}), False, 9.0) for tick in (2, 3))
    effects = node.handle(Records(read.number, 1, 3, found), now=2.0)
    assert [e.event.tick for e in effects if isinstance(e, Deliver)] == [2, 3]
    assert reads(effects) == [("paris~2", 0, 0.0)]


def test_whoever_begins_at_a_time_begins_there_in_all_epochs() -> None:
    assert reads(asked(since=5.0)) == [("paris", 0, 5.0), ("paris~2", 0, 5.0)]
    # Its place in the first is known at once, which is no reason to hear more of the second.
    assert reads(asked(since=15.0)) == [("paris~2", 0, 15.0)]
    assert reads(asked(since="begin")) == [("paris", 0, 0.0), ("paris~2", 0, 0.0)]
    assert reads(asked()) == []


def test_what_is_no_longer_kept_of_the_next_stream_is_not_passed_over() -> None:
    told = [e.answer for e in asked(Span(4, 5, 20.0), since={"paris": 3}) if isinstance(e, Reply)]
    (refusal,) = [answer for answer in told if isinstance(answer, Refused)]
    assert (refusal.stream, refusal.position) == ("paris~2", 0)
    assert refusal.cursor == {"paris": 3, "paris~2": 3}


def test_a_cursor_beyond_the_end_is_refused_with_the_place_to_go_on() -> None:
    told = [e.answer for e in asked(since={"paris": 7}) if isinstance(e, Reply)]
    (refusal,) = [answer for answer in told if isinstance(answer, Refused)]
    assert (refusal.stream, refusal.position) == ("paris", 7)
    assert refusal.cursor == {"paris": 3, "paris~2": 0}
    assert "lost by its broker; continue from paris:3" in refusal.reason


def test_an_epoch_is_on_disk_before_anybody_hears_of_it() -> None:
    node = Node("paris", Settings(), logs={"paris": CLOSED}, instance="i")
    stored = [e for e in node.start(now=0.0) if isinstance(e, Store)]
    assert Store("identities", {"paris": "i"}) in stored
    node.handle(Request("ann", Attach()), now=1.0)
    node.handle(Request("ann", Subscribe("s", Filter.all()), 30.0), now=1.0)
    effects = node.handle(Heard({"paris": 4, "rome": 9}), now=2.0)
    assert [type(e) for e in effects[:3]] == [Raise, Store, Sync]
    assert isinstance(effects[0], Raise)
    assert effects[0].stream == "paris~2"
    assert "ends at tick 3 here, but was heard up to 4" in effects[0].reason
    assert all(isinstance(e, Reply) for e in effects[3:])
    assert node.handle(Heard({"paris": 4}), now=3.0) == [], "it is closed by now"
