"""Durable subscriptions across crashes: what is replayed, replaced and taken over is never lost."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import tidings
from tests.network.brokers import PATIENCE
from tests.network.test_zombies import broker_behind_proxy

pytestmark = pytest.mark.slow


async def some(events: tidings.Subscription, count: int) -> list[int]:
    """The numbers of the next events, all acknowledged."""
    heard = [await events.get(PATIENCE) for _ in range(count)]
    await heard[-1].ack()
    return [int(event["n"]) for event in heard]


def test_a_replay_that_is_interrupted_goes_on_where_it_was(tmp_path: Path) -> None:
    async def run() -> None:
        async with broker_behind_proxy(tmp_path) as (broker, _):
            async with tidings.connect(broker.url) as client:
                async with client.subscribe("n > 0", durable="desk") as events:
                    await client.publish_each({"n": n} for n in range(1, 101))
                    assert await some(events, 100) == list(range(1, 101))
                async with client.subscribe("n > 0", durable="desk", since="begin") as events:
                    assert await some(events, 50) == list(range(1, 51))
                    await client.flush()
                    broker.kill()
            await broker.start()
            async with (
                tidings.connect(broker.url) as client,
                client.subscribe("n > 0", durable="desk") as events,
            ):
                assert await some(events, 50) == list(range(51, 101))

    asyncio.run(run())


def test_a_replay_is_not_undone_by_who_had_the_subscription_before(tmp_path: Path) -> None:
    """It was cut off when it had heard everything, and comes back while another one replays."""

    async def run() -> None:
        async with broker_behind_proxy(tmp_path) as (broker, proxy):
            old = await tidings.connect(f"tidings://127.0.0.1:{proxy.port}")
            before = await old.subscribe("n > 0", durable="desk")
            async with tidings.connect(broker.url) as new:
                await new.publish_each({"n": n} for n in range(1, 101))
                assert await some(before, 100) == list(range(1, 101))
                await old.flush()
                proxy.choke()
                async with new.subscribe("n > 0", durable="desk", since="begin") as events:
                    assert await some(events, 50) == list(range(1, 51))
                    proxy.drop()
                    proxy.mend()
                    with pytest.raises(tidings.SubscriptionRefused, match="taken"):
                        await before.get(PATIENCE)
                    assert await some(events, 10) == list(range(51, 61))
                async with new.subscribe("n > 0", durable="desk") as events:
                    assert await some(events, 40) == list(range(61, 101))
            await old.close()

    asyncio.run(run())


def test_another_filter_is_refused_and_both_are_shown(tmp_path: Path) -> None:
    async def run() -> None:
        async with (
            broker_behind_proxy(tmp_path) as (broker, _),
            tidings.connect(broker.url) as client,
        ):
            async with client.subscribe("n > 0", durable="desk") as events:
                await client.publish({"n": 1})
                assert await some(events, 1) == [1]
                with pytest.raises(tidings.SubscriptionRefused, match=r"hears n > 0, not n > 2"):
                    await client.subscribe("n > 2", durable="desk")
                await client.publish_each({"n": n} for n in (2, 3))
                assert await some(events, 1) == [2], "it goes on for who has it"
            async with client.subscribe("n > 2", durable="desk", replace=True) as events:
                assert await some(events, 1) == [3]
                await client.flush()
            broker.kill()
            await broker.start()
            with pytest.raises(tidings.SubscriptionRefused, match=r"hears n > 2, not n > 0"):
                await client.subscribe("n > 0", durable="desk")
            async with client.subscribe("n > 0", durable="desk", replace=True) as events:
                await client.publish({"n": 1})
                assert await some(events, 1) == [1], "behind what was acknowledged, nothing else"

    asyncio.run(run())


@pytest.mark.parametrize("is_broker", [False, True], ids=["the client", "the broker"])
def test_what_an_awaited_acknowledgement_covers_never_comes_again(
    is_broker: bool, tmp_path: Path
) -> None:
    """Whoever of the two crashes right after it was kept."""

    async def run() -> None:
        async with broker_behind_proxy(tmp_path) as (broker, proxy):
            url = f"tidings://127.0.0.1:{proxy.port}"
            async with (
                tidings.connect(broker.url) as writer,
                writer.subscribe("n > 0", durable="desk"),
            ):
                await writer.publish_each({"n": n} for n in range(1, 31))
            for n in range(1, 30, 3):
                client = await tidings.connect(url, wait=PATIENCE)
                events = await client.subscribe("n > 0", durable="desk")
                heard = [await events.get(PATIENCE) for _ in range(3)]
                assert [event["n"] for event in heard] == [n, n + 1, n + 2]
                async with asyncio.timeout(PATIENCE):
                    await asyncio.gather(*(event.ack() for event in heard))
                if is_broker:
                    broker.kill()
                    await broker.start()
                else:
                    proxy.drop()  # with all that a client might say later
                client._host.session.lost()
                await client.close(within=0.0)

    asyncio.run(run())


def test_an_acknowledgement_that_is_lost_on_the_way_is_said_again(tmp_path: Path) -> None:
    async def run() -> None:
        async with (
            broker_behind_proxy(tmp_path) as (broker, proxy),
            tidings.connect(f"tidings://127.0.0.1:{proxy.port}") as client,
            client.subscribe("n > 0", durable="desk") as events,
        ):
            await client.publish_each({"n": n} for n in range(1, 11))
            for n in range(1, 11):
                event = await events.get(PATIENCE)
                proxy.choke()
                kept = asyncio.create_task(_kept(event))
                await asyncio.sleep(0)
                proxy.drop()
                proxy.mend()
                async with asyncio.timeout(PATIENCE):
                    await kept
                assert broker.saved("desk") == {"paris": n}

    asyncio.run(run())


async def _kept(event: tidings.Event) -> None:
    await event.ack()


def test_who_waits_for_an_acknowledgement_hears_that_somebody_else_has_the_name(
    tmp_path: Path,
) -> None:
    async def run() -> None:
        async with (
            broker_behind_proxy(tmp_path) as (broker, proxy),
            tidings.connect(f"tidings://127.0.0.1:{proxy.port}") as old,
            tidings.connect(broker.url) as new,
            old.subscribe("n > 0", durable="desk") as events,
        ):
            await new.publish({"n": 1})
            event = await events.get(PATIENCE)
            proxy.choke()
            kept = asyncio.create_task(_kept(event))
            await asyncio.sleep(0)
            async with new.subscribe("n > 0", durable="desk") as others:
                assert (await others.get(PATIENCE))["n"] == 1
                proxy.drop()
                proxy.mend()
                with pytest.raises(tidings.SubscriptionRefused, match="taken"):
                    async with asyncio.timeout(PATIENCE):
                        await kept

    asyncio.run(run())


def test_a_plain_client_waits_for_its_acknowledgements_too(tmp_path: Path) -> None:
    async def run() -> None:
        async with broker_behind_proxy(tmp_path) as (broker, _):

            def read(first: int) -> None:
                with (
                    tidings.connect_sync(broker.url, wait=PATIENCE) as client,
                    client.subscribe("n > 0", durable="desk") as events,
                ):
                    if first == 1:
                        client.publish_each({"n": n} for n in range(1, 11))
                    for n in range(first, first + 5):
                        event = events.get(PATIENCE)
                        assert event["n"] == n
                        event.ack()
                        assert broker.saved("desk") == {"paris": n}
                    broker.kill()

            await asyncio.to_thread(read, 1)
            await broker.start()
            await asyncio.to_thread(read, 6)

    asyncio.run(run())
