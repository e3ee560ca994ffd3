"""A durable subscription goes on at whichever broker its client comes to, whatever is killed."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

import tidings
from tests.network.brokers import LINE, PATIENCE, Network
from tidings.broker.store.backup import back_up, restore

pytestmark = pytest.mark.slow

_ROUNDS = 8
_SEEDS = range(int(os.environ.get("TIDINGS_SEEDS", "1")))


def url_of(network: Network, *names: str) -> str:
    """All of these brokers, in this order."""
    first, *others = (network[name].url for name in names)
    return ",".join((first, *(url.removeprefix("tidings://") for url in others)))


async def numbers(events: tidings.Subscription, count: int) -> list[int]:
    return [int((await events.get(PATIENCE))["n"]) for _ in range(count)]


@asynccontextmanager
async def _read_at_a(network: Network) -> AsyncIterator[tidings.Subscription]:
    """A client of both brokers has heard ten events at `a`, and acknowledged five."""
    await network.agreed()
    async with (
        tidings.connect(url_of(network, "a", "b")) as client,
        tidings.connect(network["b"].url) as publisher,
        client.subscribe("n > 0", durable="desk") as events,
    ):
        await publisher.publish_many({"n": n} for n in range(1, 11))
        heard = [await events.get(PATIENCE) for _ in range(10)]
        await heard[4].ack()
        assert client.broker == "a"
        yield events
        await events.close()
        async with client.subscribe("n > 0", durable="desk") as again:
            assert await numbers(again, 5) == [6, 7, 8, 9, 10], "nobody has acknowledged them"


def test_a_client_whose_broker_is_killed_waits_at_another_one_and_hears_all_once(
    tmp_path: Path,
) -> None:
    async def run() -> None:
        async with Network(tmp_path, (("a", "b"),)) as network, _read_at_a(network) as events:
            network["a"].kill()
            async with tidings.connect(network["b"].url) as publisher:
                await publisher.publish_many({"n": n} for n in range(11, 16))
                with pytest.raises(tidings.SubscriptionRefused, match="may live at a,"):
                    await publisher.subscribe("n > 0", durable="desk")
                await network["a"].start()
                assert await numbers(events, 5) == [11, 12, 13, 14, 15]
            assert network["b"].saved("desk") == {"a": 0, "b": 5}

    asyncio.run(run())


def test_a_name_that_is_taken_elsewhere_is_lost_to_who_had_it(tmp_path: Path) -> None:
    async def run() -> None:
        async with Network(tmp_path, LINE) as network:
            await network.agreed()
            async with (
                tidings.connect(network["a"].url) as old,
                tidings.connect(network["c"].url) as new,
                old.subscribe("n > 0", durable="desk") as before,
            ):
                await new.publish_many({"n": n} for n in range(1, 4))
                heard = [await before.get(PATIENCE) for _ in range(3)]
                await heard[1].ack()
                with pytest.raises(tidings.SubscriptionRefused, match="hears n > 0, not n > 1"):
                    await new.subscribe("n > 1", durable="desk")
                async with new.subscribe("n > 0", durable="desk") as events:
                    assert await numbers(events, 1) == [3]
                    with pytest.raises(tidings.SubscriptionRefused, match=r"taken .*, at broker c"):
                        await before.get(PATIENCE)
                    with pytest.raises(tidings.SubscriptionRefused, match="taken"):
                        await heard[2].ack()
                assert await old.forget("desk")
                assert not await new.forget("desk")

    asyncio.run(run())


@pytest.mark.parametrize("seed", _SEEDS)
def test_nothing_is_lost_or_repeated_if_brokers_are_killed_while_a_name_moves(
    seed: int, tmp_path: Path
) -> None:
    """From `a` to `c` and back: the one that gives, the one that is given, or both are killed."""
    dice = random.Random(seed)

    async def disturb(network: Network) -> None:
        victims = dice.choice((["a"], ["c"], ["a", "c"]))
        await asyncio.sleep(dice.uniform(0.0, 0.06))
        for name in victims:
            network[name].kill()
        for name in victims:
            await network[name].start()

    async def read(network: Network, names: tuple[str, str], first: int) -> int:
        """Read some under the name, and acknowledge them; the number of the next event."""
        async with tidings.connect(url_of(network, *names), wait=PATIENCE) as client:
            async with asyncio.timeout(PATIENCE):
                events = None
                while events is None:
                    with suppress(tidings.SubscriptionRefused):  # for now
                        events = await client.subscribe("n > 0", durable="desk")
            count = dice.randrange(1, 9)
            heard = [await events.get(PATIENCE) for _ in range(count)]
            assert [event["n"] for event in heard] == list(range(first, first + count))
            async with asyncio.timeout(PATIENCE):
                await heard[-1].ack()
            await events.close()
        return first + count

    async def run() -> None:
        async with Network(tmp_path, LINE) as network:
            await network.agreed()
            first = 1
            async with tidings.connect(network["b"].url) as publisher:
                async with publisher.subscribe("n > 0", durable="desk"):
                    await publisher.publish_many({"n": n} for n in range(1, 201))
                for number in range(_ROUNDS):
                    names = ("a", "c") if number % 2 else ("c", "a")
                    disturbing = asyncio.create_task(disturb(network))
                    first = await read(network, names, first)
                    await disturbing
                    await network.agreed()
                async with publisher.subscribe("n > 0", durable="desk") as events:
                    assert await numbers(events, 201 - first) == list(range(first, 201))

    asyncio.run(run())


def test_durable_subscriptions_are_listed_and_changed_wherever_they_live(tmp_path: Path) -> None:
    async def run() -> None:
        async with Network(tmp_path, LINE) as network:
            await network.agreed()
            async with (
                tidings.connect(network["a"].url) as reader,
                tidings.connect(network["c"].url) as manager,
                reader.subscribe("n > 0", durable="desk") as events,
                reader.subscribe("n > 1", durable="other"),
            ):
                await reader.publish_many({"n": n} for n in range(1, 6))
                heard = [await events.get(PATIENCE) for _ in range(5)]
                await heard[1].ack()
                found, unasked = await manager.durables()
                (desk, other) = found
                assert (desk.name, desk.home, desk.behind, desk.lag) == ("desk", "a", {"a": 3}, 3)
                assert desk.is_read
                assert not desk.is_paused
                assert str(other.filter) == "n > 1"
                assert not unasked

                await manager.pause("desk")
                await reader.publish({"n": 6})
                with pytest.raises(tidings.TimedOut):
                    await events.get(0.3)
                assert [each.is_paused for each in (await manager.durables()).found] == [1, 0]
                await manager.resume("desk")
                assert (await events.get(PATIENCE))["n"] == 6

                await manager.seek("desk", "begin")
                with pytest.raises(tidings.SubscriptionRefused, match="set to another place"):
                    await events.get(PATIENCE)
                async with reader.subscribe("n > 0", durable="desk") as again:
                    assert await numbers(again, 6) == [1, 2, 3, 4, 5, 6]
                assert await manager.forget("other")
                assert [each.name for each in (await reader.durables()).found] == ["desk"]
                with pytest.raises(tidings.SubscriptionRefused, match="no broker knows"):
                    await manager.pause("other")

                network["a"].kill()
                with pytest.raises(tidings.SubscriptionRefused, match="may live at a,"):
                    await manager.pause("desk")
                assert await manager.durables() == ((), ("a",))

    asyncio.run(run())


def test_what_is_paused_stays_so_where_it_goes(tmp_path: Path) -> None:
    async def run() -> None:
        async with Network(tmp_path, (("a", "b"),)) as network:
            await network.agreed()
            async with tidings.connect(network["a"].url) as first:
                async with first.subscribe("n > 0", durable="desk"):
                    await first.publish({"n": 1})
                await first.pause("desk")
            network["a"].kill()
            await network["a"].start()
            await network.agreed()
            async with (
                tidings.connect(network["b"].url) as second,
                second.subscribe("n > 0", durable="desk") as events,
            ):
                with pytest.raises(tidings.TimedOut):
                    await events.get(0.3)
                await second.resume("desk")
                assert await numbers(events, 1) == [1]

    asyncio.run(run())


def test_a_store_that_was_restored_does_not_serve_what_it_gave_away_since(tmp_path: Path) -> None:
    async def run() -> None:
        async with Network(tmp_path, (("a", "b"),)) as network:
            await network.agreed()
            async with tidings.connect(network["b"].url) as publisher:
                async with (
                    tidings.connect(network["a"].url) as first,
                    first.subscribe("n > 0", durable="desk") as events,
                ):
                    await publisher.publish_many({"n": n} for n in range(1, 4))
                    await (await events.get(PATIENCE)).ack()
                back_up(network["a"].store, tmp_path / "backup.db")
                async with publisher.subscribe("n > 0", durable="desk") as events:
                    assert await numbers(events, 1) == [2]
                    await (await events.get(PATIENCE)).ack()
                network["a"].kill()
                restore(tmp_path / "backup.db", network["a"].store, replace=True)
                await network["a"].start()
                async with (
                    tidings.connect(network["a"].url) as again,
                    again.subscribe("n > 0", durable="desk") as events,
                ):
                    await publisher.publish({"n": 4})
                    assert await numbers(events, 1) == [4], "not 2, as the backup has it"

    asyncio.run(run())
