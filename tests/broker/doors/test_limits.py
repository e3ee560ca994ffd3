"""Limits: each of them is told in a sentence, and harms nobody but the one who is above it."""

from __future__ import annotations

from pathlib import Path
from time import monotonic

import pytest

from tests.broker.peers import configured, connected, eventually, on_loop
from tidings.broker.server import Broker
from tidings.events import Filter, TidingsError
from tidings.protocol.requests import (
    Accepted,
    Advertise,
    Attach,
    Detach,
    Refused,
    Subscribe,
    Unsubscribe,
    Watch,
)
from tidings.protocol.wire import ACCESS, Ping, Pong


@on_loop
async def test_a_frame_above_the_limit_ends_the_connection(tmp_path: Path) -> None:
    text = "[limits]\nframe = 2000\n"
    async with (
        Broker(configured(tmp_path, text)) as broker,
        connected(broker) as greedy,
        connected(broker) as other,
    ):
        await greedy.attach("greedy")
        await other.attach("other")
        await greedy.published(1, {"text": "x" * 1500})
        greedy.publish(2, {"text": "x" * 3000})
        refused = await greedy.until(Refused)
        assert "the limit is 2000" in refused.reason
        await greedy.rest()
        await other.published(1, {"text": "fine"})
        assert broker.host.last == 2


@on_loop
async def test_notifications_with_too_many_attributes_are_refused_alone(tmp_path: Path) -> None:
    text = "[limits]\nattributes = 3\n"
    few, many = {"n": 1}, {f"a{i}": i for i in range(4)}
    async with Broker(configured(tmp_path, text)) as broker, connected(broker) as peer:
        await peer.attach("ann")
        await peer.subscribe("n > 0")
        await peer.published(1, many, few, few, many, many, few)
        refused = [m for m in peer.heard if isinstance(m, Refused)]
        assert [m.id for m in refused] == ["1", "4", "5"]
        assert refused[0].reason == "a notification has at most 3 attributes, not 4"
        assert await peer.deliveries(3) == [few] * 3
        await peer.published(7, few)


@on_loop
async def test_a_refusal_that_may_have_been_lost_is_told_before_what_is_kept(
    tmp_path: Path,
) -> None:
    text = "[limits]\nattributes = 1\n"
    async with Broker(configured(tmp_path, text)) as broker:
        async with connected(broker) as peer:
            await peer.attach("ann")
            await peer.published(1, {"n": 1}, {"n": 1, "m": 2}, {"n": 3})
        async with connected(broker) as peer:
            await peer.attach("ann")
            refused, accepted = peer.heard[-2:]
            assert (refused.id, accepted.id, accepted.number) == ("2", "attach", 3)


@on_loop
async def test_a_refusal_outlives_the_broker_that_has_spoken_it(tmp_path: Path) -> None:
    text = "[limits]\nattributes = 1\n"
    async with Broker(configured(tmp_path, text)) as broker, connected(broker) as peer:
        await peer.attach("ann")
        await peer.published(1, {"n": 1}, {"n": 2, "m": 2}, {"n": 3})
    async with Broker(configured(tmp_path, text)) as broker, connected(broker) as peer:
        await peer.attach("ann")
        assert [m.id for m in peer.heard if isinstance(m, Refused)] == ["2"]


@on_loop
async def test_what_was_refused_behind_what_is_kept_may_be_published_again(tmp_path: Path) -> None:
    async with Broker(configured(tmp_path)) as broker:
        async with connected(broker) as peer:
            await peer.attach("ann")
            await peer.published(1, {"n": 1})
            broker.host.commits.trouble = "the disk is full"
            peer.publish(2, {"n": 2})
            await peer.until(Refused)
            broker.host.commits.trouble = None
        for _ in range(2):  # the second time it is kept
            async with connected(broker) as peer:
                await peer.attach("ann")
                assert not [m for m in peer.heard if isinstance(m, Refused)]
                await peer.published(2, {"n": 2})
        assert broker.host.last == 2


@on_loop
async def test_a_number_that_is_left_out_is_told_as_refused(tmp_path: Path) -> None:
    async with Broker(configured(tmp_path)) as broker:
        async with connected(broker) as peer:
            await peer.attach("ann")
            await peer.published(1, {"n": 1})
            peer.publish(1)  # it is kept, whatever is said of it
            peer.publish(2)
            await peer.published(3, {"n": 3})
        async with connected(broker) as peer:
            await peer.attach("ann")
            assert [m.id for m in peer.heard if isinstance(m, Refused)] == ["2"]
        assert broker.host.last == 2


@on_loop
async def test_a_session_has_so_many_subscriptions_and_no_more(tmp_path: Path) -> None:
    text = "[limits]\nsubscriptions = 4\n"
    anything = Filter.parse("n > 0")
    async with Broker(configured(tmp_path, text)) as broker, connected(broker) as peer:
        await peer.attach("ann")
        await peer.subscribe("n > 0", "a")
        await peer.subscribe("n > 1", "b")
        peer.say(Watch("c", anything), Advertise("d", anything))
        assert (await peer.until(Accepted)).id == "c"
        assert (await peer.until(Accepted)).id == "d"
        for over in (Subscribe("e", anything), Watch("e", anything), Advertise("e", anything)):
            peer.say(over)
            refused = await peer.until(Refused)
            assert refused.id == "e"
            assert "at most 4 subscriptions" in refused.reason
        peer.say(Unsubscribe("a"))
        assert (await peer.until(Accepted)).id == "a"
        await peer.subscribe("n > 2", "e")
        peer.say(Advertise("d", Filter.parse("n > 5")))  # the same id takes no more room
        assert (await peer.until(Accepted)).id == "d"


@on_loop
async def test_what_has_been_refused_by_the_node_takes_no_room(tmp_path: Path) -> None:
    text = "[limits]\nsubscriptions = 1\n"
    async with (
        Broker(configured(tmp_path, text)) as broker,
        connected(broker) as one,
        connected(broker) as two,
    ):
        await one.attach("one")
        await two.attach("two")
        await one.subscribe("n > 0", "a", durable="desk")
        await two.subscribe("n > 0", "a", durable="desk")
        assert (await one.until(Refused)).id == "a"  # taken over
        await one.subscribe("n > 0", "b")


@on_loop
async def test_an_id_may_look_like_a_number_that_is_far_too_long(tmp_path: Path) -> None:
    long = "9" * 5_000
    async with (
        Broker(configured(tmp_path)) as broker,
        connected(broker) as one,
        connected(broker) as two,
    ):
        await one.attach("one")
        await two.attach("two")
        await one.subscribe("n > 0", long, durable="desk")
        await two.subscribe("n > 0", long, durable="desk")
        assert (await one.until(Refused)).id == long


@on_loop
async def test_only_so_many_clients_are_let_in(tmp_path: Path) -> None:
    text = "[limits]\nconnections = 2\n"
    async with Broker(configured(tmp_path, text, name="paris")) as broker, connected(broker) as a:
        await a.attach("a")
        async with connected(broker) as b:
            await b.attach("b")
            async with connected(broker) as c:
                refused = await c.greet("c")
                assert isinstance(refused, Refused)
                assert "all the 2 clients" in refused.reason
        await eventually(lambda: len(broker.gate.connections) == 1)
        async with connected(broker) as d:
            await d.attach("d")


@on_loop
async def test_who_publishes_faster_than_the_rate_is_read_later_and_loses_nothing(
    tmp_path: Path,
) -> None:
    text = "[limits]\npublish_rate = 1000\n"
    async with (
        Broker(configured(tmp_path, text)) as broker,
        connected(broker) as fast,
        connected(broker) as other,
    ):
        await fast.attach("fast")
        await other.attach("other")
        begun = monotonic()
        for number in range(1, 1701, 100):
            fast.publish(number, *({"n": i} for i in range(100)))
        await other.published(1, {"n": 1})
        for number in (1, 2):  # the first may be read together with them, the second not before
            fast.say(Ping(number))
            assert await fast.until(Pong) == Pong(number)
        # A second's worth is free.
        assert monotonic() - begun > 0.5
        accepted = [m.number for m in fast.heard if isinstance(m, Accepted)]
        assert max(accepted) == 1700
        assert not [m for m in fast.heard if isinstance(m, Refused)]
        assert broker.host.last == 1701


@pytest.mark.parametrize("line", ["frame = 10", "memory = 10", "connections = 0"])
def test_limits_that_would_let_nobody_work_are_refused(tmp_path: Path, line: str) -> None:
    with pytest.raises(TidingsError, match=rf"line 2: limits.{line.split()[0]}: .*>= "):
        configured(tmp_path, f"[limits]\n{line}\n")


@on_loop
async def test_a_name_of_a_durable_subscription_is_not_too_long(tmp_path: Path) -> None:
    async with Broker(configured(tmp_path)) as broker, connected(broker) as peer:
        await peer.attach("ann")
        await peer.subscribe("n > 0", durable="x" * 256)
        peer.say(Subscribe("t", Filter.all(), durable="x" * 257))
        refused = await peer.until(Refused)
        assert (refused.id, "at most 256 characters, not 257" in refused.reason) == ("t", True)


@on_loop
async def test_who_has_no_room_for_a_name_can_hear_but_not_publish(tmp_path: Path) -> None:
    text = "[limits]\npublishers = 2\n"
    async with (
        Broker(configured(tmp_path, text)) as broker,
        connected(broker) as one,
        connected(broker) as two,
        connected(broker) as three,
    ):
        for number, peer in enumerate((one, two, three)):
            await peer.attach(f"peer-{number}")
        await one.published(1, {"n": 1})
        await two.published(1, {"n": 2})
        await three.subscribe("n > 0", since="begin")
        three.publish(1, {"n": 3}, {"n": 4})
        refused = [await three.until(Refused) for _ in range(2)]
        assert [m.id for m in refused] == ["1", "2"]
        assert "under 2 names" in refused[0].reason
        assert await three.deliveries(2) == [{"n": 1}, {"n": 2}]
        two.say(Detach(forget=True))  # there is room again
        await two.rest()
        await three.published(3, {"n": 5})
        async with connected(broker) as named:
            await named.greet("another")
            named.say(Attach(instance="i"))
            refused = [m for m in await named.rest() if isinstance(m, Refused)]
            assert [(m.id, "under 2 names" in m.reason) for m in refused] == [(ACCESS, True)]


@on_loop
async def test_a_name_of_a_bulk_subscription_may_be_odd_but_not_just_anything(
    tmp_path: Path,
) -> None:
    odd = ["it's", 'a "b" \\', "\x00\n\t", "é😀", "x" * 256]
    async with Broker(configured(tmp_path)) as broker, connected(broker) as peer:
        await peer.attach("ann")
        for number, name in enumerate(odd, start=1):
            await peer.subscribe("TRUE", name, bulk=name)
            await peer.published(number, {"n": number, "tidings.for": frozenset([name, "other"])})
            assert await peer.deliveries(1) == [{"n": number, "tidings.for": {name}}]
        for name in ("", "desk/falling", "x" * 257):
            peer.say(Subscribe("t", Filter.all(), bulk=name))
            refused = await peer.until(Refused)
            assert (refused.id, "is no name" in refused.reason) == ("t", True)
