"""Two processes under one name: the later one has it, and the earlier one is never told a lie."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

import tidings
from tests.network.brokers import PATIENCE, BrokerProcess, Network, eventually, free_ports
from tests.network.proxy import Proxy

pytestmark = pytest.mark.slow


@asynccontextmanager
async def broker_behind_proxy(folder: Path) -> AsyncIterator[tuple[BrokerProcess, Proxy]]:
    """One broker, and a wire to it that can be cut."""
    (port,) = free_ports(1)
    text = f'name = "paris"\nlisten = "127.0.0.1:{port}"\nstore = "paris"\n'
    broker, proxy = BrokerProcess(folder, "paris", text, port=port), Proxy(port)
    await proxy.start()
    try:
        await broker.start()
        yield broker, proxy
    finally:
        await proxy.stop()
        broker.clean_up()


def said(broker: BrokerProcess) -> list[tuple[str, int]]:
    """Who has said what in its log."""
    return [(str(e.notification["by"]), int(e.notification["n"])) for e in broker.log()]


@pytest.mark.parametrize("is_killed", [False, True], ids=["the broker lives", "it is killed, too"])
def test_a_publication_that_is_nowhere_is_never_acknowledged(
    is_killed: bool, tmp_path: Path
) -> None:
    """A process is cut off with a number in flight; its successor publishes under this number."""

    async def run() -> None:
        async with broker_behind_proxy(tmp_path) as (broker, proxy):
            old = await tidings.connect(f"tidings://127.0.0.1:{proxy.port}", name="desk")
            await old.publish({"by": "old", "n": 1})
            proxy.choke()
            in_flight = asyncio.create_task(old.publish({"by": "old", "n": 2}))
            await asyncio.sleep(0)
            async with tidings.connect(broker.url, name="desk") as new:
                assert new.kept == 1
                assert (await new.publish({"by": "new", "n": 2})).number == 2
                if is_killed:
                    broker.kill()
                    await broker.start()
                    await eventually(lambda: new.is_connected)
                proxy.drop()
                proxy.mend()
                with pytest.raises(tidings.Fenced):
                    async with asyncio.timeout(PATIENCE):
                        await in_flight
                with pytest.raises(tidings.Fenced):
                    await old.publish({"by": "old", "n": 3})
                assert (await new.publish({"by": "new", "n": 3})).number == 3  # it is not disturbed
            await old.close()
            assert said(broker) == [("old", 1), ("new", 2), ("new", 3)]

    asyncio.run(run())


def test_what_one_broker_may_have_kept_is_not_published_at_another(tmp_path: Path) -> None:
    async def run() -> None:
        async with Network(tmp_path, (("a", "b"),)) as network:
            await network.agreed()
            here, there = network["a"], network["b"]
            proxy = Proxy(here.port)
            await proxy.start()
            url = f"tidings://127.0.0.1:{proxy.port},127.0.0.1:{there.port}"
            async with tidings.connect(url, name="desk") as client:
                assert (await client.publish({"by": "desk", "n": 1})).number == 1
                proxy.choke()
                under_way = [
                    asyncio.create_task(client.publish({"by": "desk", "n": n})) for n in (2, 3)
                ]
                await asyncio.sleep(0.1)
                proxy.cut()
                async with asyncio.timeout(PATIENCE):
                    outcomes = await asyncio.gather(*under_way, return_exceptions=True)
                assert [type(outcome) for outcome in outcomes] == [tidings.OutcomeUnknown] * 2
                assert client.broker == "b"
                await client.publish({"by": "desk", "n": 4})
            await proxy.stop()
            assert said(there) == [("desk", 4)]
            assert said(here) == [("desk", 1)]

    asyncio.run(run())


def test_a_process_that_comes_back_by_itself_goes_on_with_its_numbers(tmp_path: Path) -> None:
    async def run() -> None:
        async with (
            broker_behind_proxy(tmp_path) as (broker, proxy),
            tidings.connect(f"tidings://127.0.0.1:{proxy.port}", name="desk") as client,
        ):
            for n in range(1, 30, 3):
                proxy.choke()
                some = [
                    asyncio.create_task(client.publish({"by": "x", "n": n + i})) for i in (0, 1)
                ]
                await asyncio.sleep(0)
                proxy.drop()
                proxy.mend()
                async with asyncio.timeout(PATIENCE):
                    await asyncio.gather(*some)
                    await client.publish({"by": "x", "n": n + 2})
            broker.kill()
            await broker.start()
            async with asyncio.timeout(PATIENCE):
                await client.publish({"by": "x", "n": 31})
            assert [n for _, n in said(broker)] == list(range(1, 32))

    asyncio.run(run())
