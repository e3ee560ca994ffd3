"""A broker that refuses some of what is published is killed: who publishes knows what is kept."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

import tidings
from tests.network.brokers import PATIENCE, BrokerProcess, eventually, free_ports

SEEDS = range(int(os.environ.get("TIDINGS_SEEDS", "1")))

pytestmark = pytest.mark.slow


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker that refuses whatever has a third attribute; it is not started."""
    (port,) = free_ports(1)
    lines = f'name = "a"\nlisten = "127.0.0.1:{port}"\nstore = "a"\n[limits]\nattributes = 2\n'
    found = BrokerProcess(tmp_path, "a", lines, port=port)
    yield found
    found.clean_up()


def said(n: int, *, is_wide: bool) -> dict[str, Any]:
    return {"n": n, "a": 1, "b": 1} if is_wide else {"n": n}


def kept(broker: BrokerProcess) -> list[int]:
    return [event.notification["n"] for event in broker.log()]


def test_what_was_refused_is_known_though_the_broker_was_killed_before_it_said_so(
    broker: BrokerProcess,
) -> None:
    async def run() -> None:
        await broker.start()
        refused: list[int] = []
        async with tidings.connect(broker.url, wait=PATIENCE) as client:
            assert client._host._connection is not None
            client._host._connection.receive = lambda _: None  # no answer arrives
            work = asyncio.create_task(
                client.publish_each(
                    [said(n, is_wide=n == 1) for n in range(3)],
                    on_refused=lambda index, _: refused.append(index),
                )
            )
            await eventually(lambda: len(broker.log()) == 2)
            broker.kill()
            await broker.start()
            assert (await work, refused) == (2, [1])
            assert (await client.publish(said(3, is_wide=False))).number == 4
        assert kept(broker) == [0, 2, 3]

    asyncio.run(run())


def test_what_was_refused_is_known_to_the_next_though_the_broker_was_killed_after_it_said_so(
    broker: BrokerProcess,
) -> None:
    async def run() -> None:
        await broker.start()
        async with tidings.connect(broker.url, name="desk", wait=PATIENCE) as client:
            assert (await client.publish(said(0, is_wide=False))).number == 1
            with pytest.raises(tidings.PublishRefused):
                await client.publish(said(1, is_wide=True))
            broker.kill()
            await broker.start()
            assert (await client.publish(said(2, is_wide=False))).number == 3
        async with tidings.connect(broker.url, name="desk", wait=PATIENCE) as client:
            assert (client.kept, [*client.refusals]) == (3, [2])
        assert kept(broker) == [0, 2]

    asyncio.run(run())


@pytest.mark.parametrize("seed", SEEDS)
def test_of_everything_it_is_known_whether_it_is_kept_whenever_the_broker_is_killed(
    broker: BrokerProcess, seed: int
) -> None:
    chance = Random(f"refusals {seed}")
    wide: set[int] = set()
    count = 0

    async def run() -> None:
        await broker.start()
        refused: list[int] = []
        is_over = False

        def produce() -> Iterator[dict[str, Any]]:
            nonlocal count
            while not is_over:
                if is_wide := chance.random() < 0.4:
                    wide.add(count)
                yield said(count, is_wide=is_wide)
                count += 1

        async with tidings.connect(broker.url, wait=PATIENCE) as client:
            work = asyncio.create_task(
                client.publish_each(produce(), on_refused=lambda index, _: refused.append(index))
            )
            for _ in range(4):
                more = client.kept + chance.randint(200, 3_000)
                await eventually(lambda more=more: client.kept > more)
                broker.kill()
                await broker.start()
            is_over = True
            assert (await work, sorted(refused)) == (count - len(wide), sorted(wide))
        assert kept(broker) == [n for n in range(count) if n not in wide]

    asyncio.run(run())
