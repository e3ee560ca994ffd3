"""What a program gets for what it publishes, one by one and together, from a real broker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

import tidings
from tests.client.brokers import BrokerProcess

Run = Callable[[Any], Any]


def deaf(client: tidings.Client) -> None:
    """From now on no answer arrives over this connection."""
    assert client._host._connection is not None
    client._host._connection.receive = lambda _: None


def test_a_receipt_says_where_the_event_is_that_others_hear(
    broker: BrokerProcess, run: Run
) -> None:
    async def main() -> None:
        async with tidings.connect(broker.url) as client, client.subscribe("TRUE") as events:
            receipt = await client.publish({"n": 1})
            event = await events.get(timeout=10)
            assert (receipt.number, receipt.id, receipt.cursor) == (1, event.id, event.cursor)
            assert (receipt.seconds, receipt.time) == (event.seconds, event.time)

    run(main())


def test_a_subscription_since_a_receipt_begins_with_ones_own_write(
    broker: BrokerProcess, run: Run
) -> None:
    async def main() -> None:
        async with tidings.connect(broker.url) as client:
            await client.publish({"n": 1})
            own = await client.publish({"n": 2})
            both = await client.publish_many([{"n": 3}, {"n": 4}])
            for since, first in ((own, 2), (both, 3), (both.last, 3)):
                async with client.subscribe("TRUE", since=since) as events:
                    heard = [event["n"] async for event in events.until_live()]
                    assert heard == [*range(first, 5)]
            async with client.subscribe("TRUE", since=own.cursor) as events:
                assert [event["n"] async for event in events.until_live()] == [3, 4]

    run(main())


def test_a_receipt_names_the_first_place_of_what_was_sent_again(
    broker: BrokerProcess, run: Run
) -> None:
    async def main() -> None:
        async with tidings.connect(broker.url, wait=10) as client, tidings.connect(broker.url) as o:
            await o.publish({"n": 0})
            deaf(client)
            one = asyncio.create_task(client.publish({"n": 1}))
            many = asyncio.create_task(client.publish_many([{"n": 2}, {"n": 3}]))
            async with o.subscribe("n = 3", since="begin") as events:
                await events.get(timeout=10)
            broker.kill()
            broker.start()
            assert (await one).id == "paris:2"
            assert [receipt.id for receipt in await many] == ["paris:3", "paris:4"]

    run(main())


def test_what_is_published_together_stays_together_whoever_else_publishes(
    broker: BrokerProcess, run: Run
) -> None:
    async def work(client: tidings.Client, who: int) -> None:
        for n in range(20):
            receipts = await client.publish_many({"who": who, "n": n, "i": i} for i in range(7))
            assert [r.tick - receipts.first.tick for r in receipts] == [*range(7)]
            assert len(receipts) == 7
            assert receipts[2:4] == [receipts[2], receipts[3]]

    async def main() -> None:
        async with (
            tidings.connect(broker.url) as one,
            tidings.connect(broker.url) as other,
            one.subscribe("TRUE") as events,
        ):
            await asyncio.gather(*(work(client, who) for who, client in enumerate((one, other))))
            heard = [await events.get(timeout=10) for _ in range(280)]
        for begin in range(0, 280, 7):
            together = heard[begin : begin + 7]
            assert len({(event["who"], event["n"]) for event in together}) == 1
            assert [event["i"] for event in together] == [*range(7)]

    run(main())


LIMITED = "[limits]\nattributes = 2\n"


def test_if_one_is_refused_none_is_kept_and_the_refusal_says_which(
    broker: BrokerProcess, run: Run
) -> None:
    async def main() -> None:
        async with tidings.connect(broker.url) as client:
            with pytest.raises(tidings.PublishRefused, match=r"event 1 is refused.*2 attributes"):
                await client.publish_many([{"n": 1}, {"a": 1, "b": 2, "c": 3}, {"n": 3}])
            receipts = await client.publish_many([{"n": 4}, {"n": 5}])
            assert [r.id for r in receipts] == ["paris:1", "paris:2"]
            assert client.kept == 5

    broker.stop()
    broker.start(config=LIMITED)
    run(main())


def test_too_many_to_stay_together_are_refused_before_anything_is_sent(
    broker: BrokerProcess, run: Run
) -> None:
    async def main() -> None:
        async with tidings.connect(broker.url) as client:
            with pytest.raises(tidings.PublishRefused, match="2,048 events are the most"):
                await client.publish_many({"n": n} for n in range(1_000_000_000))
            with pytest.raises(tidings.PublishRefused, match="these 2 events have"):
                await client.publish_many([{"text": "x" * (client.largest // 2)}] * 2)
            with pytest.raises(tidings.NotificationError, match=r"event 1: attribute 'x\.y'"):
                await client.publish_many([{"x": 1}, {"x": {"y": object()}}])
            assert len(await client.publish_many([])) == 0
            full = await client.publish_many({"n": n} for n in range(2_048))
            assert (full.first.id, full.last.id) == ("paris:1", "paris:2048")

    run(main())


def test_the_plain_client_gives_the_same_receipts(broker: BrokerProcess) -> None:
    with tidings.connect_sync(broker.url) as client:
        receipt = client.publish({"n": 1})
        receipts = client.publish_many({"n": n} for n in range(2, 5))
        assert (receipt.id, [r.tick for r in receipts]) == ("paris:1", [2, 3, 4])
        with client.subscribe("TRUE", since=receipt) as events:
            assert [event["n"] for event in events.until_live()] == [1, 2, 3, 4]


def test_a_cloud_event_is_kept_once_whoever_publishes_it(broker: BrokerProcess, run: Run) -> None:
    event = {"specversion": "1.0", "source": "/shop", "id": "7", "type": "order"}

    async def main() -> None:
        async with tidings.connect(broker.url) as one, tidings.connect(broker.url) as other:
            first = await one.publish(event)
            again = await other.publish(tidings.Notification({**event, "data": "differs"}))
            assert (first.id, again.id, again.number) == ("paris:1", "paris:1", 1)
            assert await other.publish_each([event, {**event, "id": "8"}, event]) == 3
            assert (await one.publish(event, id="another")).id == "paris:3"
            far = {**event, "source": "x" * 5_000}  # as long as it may be
            assert [(await one.publish(far)).tick for _ in range(2)] == [4, 4]
            for_bulk = {**event, "tidings.for": ["desk"]}  # a copy of it for bulk subscribers
            assert [(await one.publish(for_bulk)).tick for _ in range(2)] == [5, 6]

    run(main())


def test_an_id_is_remembered_over_a_crash(broker: BrokerProcess, run: Run) -> None:
    async def main() -> None:
        async with tidings.connect(broker.url, wait=10) as client:
            one = await client.publish({"n": 1}, id="x")
            many = await client.publish_many([{"n": 2}, {"n": 3}], id="x")
            broker.kill()
            broker.start()
            assert (await client.publish({"n": 1}, id="x")).id == one.id
            again = await client.publish_many([{"n": 2}, {"n": 3}], id="x")
            assert [r.id for r in again] == [r.id for r in many] == ["paris:2", "paris:3"]
            for wrong in ("", "x" * 4_097, 7):
                with pytest.raises(tidings.NotificationError, match="1 to 4,096 characters"):
                    await client.publish({"n": 1}, id=wrong)  # type: ignore[arg-type]

    run(main())
