"""Where a subscription begins, and where it lives: what comes next is heard, or it is refused."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

import tidings
from tests.network.brokers import HASTY, ODD, PATIENCE, Network

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("is_restarted", [False, True], ids=["the broker lives", "it is killed"])
def test_what_is_published_out_of_reach_is_heard_though_the_clock_there_is_behind(
    is_restarted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = tmp_path / "clock"
    clock.write_text("-60")
    monkeypatch.setenv("ODD_CLOCK", str(clock))
    settings = f"{HASTY}margin = 1.0\n"

    async def run() -> None:
        async with Network(tmp_path, (("a", "b"),), settings=settings, proxied=True) as network:
            network["b"].stop()
            network["b"].program = ODD
            await network["b"].start()
            await network.agreed()
            async with tidings.connect(network["b"].url) as publisher:
                await publisher.publish_each({"n": n} for n in range(5))
                network.proxies["a", "b"].cut()
                await _apart(network)
                if is_restarted:
                    network["a"].kill()
                    await network["a"].start()
                async with (
                    tidings.connect(network["a"].url) as reader,
                    reader.subscribe("EXISTS n", durable="desk") as durable,
                    reader.subscribe("EXISTS n") as live,
                ):
                    await publisher.publish_each({"n": n} for n in range(5, 15))
                    network.proxies["a", "b"].mend()
                    for events in (durable, live):
                        heard = [await events.get(PATIENCE)]
                        while heard[-1]["n"] != 14:
                            heard.append(await events.get(PATIENCE))
                        first = heard[0]["n"]
                        assert first <= 5
                        assert [event["n"] for event in heard] == list(range(first, 15))

    asyncio.run(run())


async def _apart(network: Network) -> None:
    """Wait until `a` knows that there is no way to `b`."""
    async with asyncio.timeout(PATIENCE):
        while "b" in (await network["a"].status()).streams:
            await asyncio.sleep(0.02)


@asynccontextmanager
async def _durable_at_a(network: Network) -> AsyncIterator[tuple[str, tidings.Client]]:
    """A client of both brokers has heard five events under a durable name, and `a` is killed."""
    await network.agreed()
    url = f"{network['a'].url},{network['b'].url.removeprefix('tidings://')}"
    async with (
        tidings.connect(url) as client,
        tidings.connect(network["b"].url) as publisher,
    ):
        events = await client.subscribe("n > 0", durable="desk")
        await publisher.publish_each({"n": n} for n in range(1, 6))
        heard = [await events.get(PATIENCE) for _ in range(5)]
        await heard[-1].ack()
        network["a"].kill()
        with pytest.raises(tidings.SubscriptionRefused, match="does not know"):
            await events.get(PATIENCE)
        assert client.broker == "b"
        await publisher.publish_each({"n": n} for n in range(6, 11))
        yield url, client


def test_a_durable_subscription_never_skips_by_coming_to_another_broker(tmp_path: Path) -> None:
    async def run() -> None:
        async with (
            Network(tmp_path, (("a", "b"),)) as network,
            _durable_at_a(network) as (url, client),
        ):
            with pytest.raises(tidings.SubscriptionRefused, match="may live at a,"):
                await client.subscribe("n > 0", durable="desk")
            await network["a"].start()
            await network.agreed()
            with pytest.raises(tidings.SubscriptionRefused, match="lives at broker a"):
                await client.subscribe("n > 0", durable="desk")
            async with (
                tidings.connect(network["b"].url) as other,
                tidings.connect(url) as again,
            ):
                with pytest.raises(tidings.SubscriptionRefused, match="lives at broker a"):
                    await other.subscribe("n > 0", durable="desk")
                async with again.subscribe("n > 0", durable="desk") as events:
                    assert [(await events.get(PATIENCE))["n"] for _ in range(5)] == [6, 7, 8, 9, 10]

    asyncio.run(run())


def test_who_says_here_begins_a_durable_subscription_here(tmp_path: Path) -> None:
    async def run() -> None:
        async with (
            Network(tmp_path, (("a", "b"),)) as network,
            _durable_at_a(network) as (url, client),
        ):
            async with client.subscribe("n > 0", durable="desk", home="here") as events:
                await client.publish({"n": 11})
                event = await events.get(PATIENCE)
                assert event["n"] == 11
                await event.ack()
            await network["a"].start()
            await network.agreed()
            async with client.subscribe("n > 0", durable="desk") as events:
                await client.publish({"n": 12})
                assert (await events.get(PATIENCE))["n"] == 12
            async with (
                tidings.connect(url) as again,
                again.subscribe("n > 0", durable="desk", since={"b": 5}) as events,
            ):
                assert [(await events.get(PATIENCE))["n"] for _ in range(7)] == list(range(6, 13))

    asyncio.run(run())
