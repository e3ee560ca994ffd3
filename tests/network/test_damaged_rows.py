"""A row of a broker's log that is damaged: who needs it is told so, and nobody else notices."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import tidings
from tests.network.brokers import PATIENCE, BrokerProcess, Network
from tidings.client import CursorTooOld

pytestmark = pytest.mark.slow

COUNT = 1_500
NEEDLE = 300
"""The number of the event that is damaged: far enough from the end, which is read at each start."""


def damage(broker: BrokerProcess) -> None:
    """Change one byte of an old event, as a disk might."""
    file = broker.store / "broker.db"
    whole = file.read_bytes()
    place = whole.index(f"needle {NEEDLE};".encode())
    with file.open("r+b") as opened:
        opened.seek(place)
        opened.write(b"N")


async def heard(client: tidings.Client, since: str, **options: str) -> list[int]:
    async with (
        asyncio.timeout(PATIENCE),
        client.subscribe("EXISTS n", since=since, **options) as events,
    ):
        return [event["n"] async for event in events.until_live()]


async def copied(client: tidings.Client, after: int) -> list[int]:
    return [tick async for rows in client.copy("a", after=after) for tick in rows.ticks]


async def told(client: tidings.Client, **options: str) -> tuple[list[int], CursorTooOld]:
    """What a reader of everything hears before the damage, and what it is told there."""
    before: list[int] = []
    try:
        async with (
            asyncio.timeout(PATIENCE),
            client.subscribe("EXISTS n", since="begin", **options) as events,
        ):
            while True:
                before.append((await events.get())["n"])
    except CursorTooOld as problem:
        return before, problem


def test_readers_of_a_damaged_row_are_told_and_go_on_behind_it(tmp_path: Path) -> None:
    async def run() -> None:
        async with Network(tmp_path, (("a", "b"),)) as network:
            own, far = network["a"], network["b"]
            async with tidings.connect(own.url, wait=PATIENCE) as client:
                text = "x" * 5_000
                for first in range(1, COUNT + 1, 20):
                    numbers = range(first, first + 20)
                    await client.publish_each({"n": n, "x": f"needle {n};{text}"} for n in numbers)
            assert own.stop() == 0
            damage(own)
            await own.start()
            await network.agreed()
            for broker in (own, far):
                async with tidings.connect(broker.url, wait=PATIENCE) as client:
                    await reads(client)
            async with tidings.connect(own.url, wait=PATIENCE) as client:
                await copies(client)
                await client.publish({"n": COUNT + 1})
                assert await heard(client, f"a:{COUNT}") == [COUNT + 1]
            assert "is damaged" in own.said

    async def reads(client: tidings.Client) -> None:
        async with client.subscribe("EXISTS news") as live:
            for options in ({}, {"durable": f"desk at {client.broker}"}):
                before, problem = await told(client, **options)
                assert before == list(range(1, len(before) + 1))
                first, last = len(before) + 1, int(problem.cursor.partition("a:")[2].split(",")[0])
                assert first <= NEEDLE <= last < first + 300
                assert problem.stream == "a"
                assert f"ticks {first} to {last} of a cannot be read" in str(problem)
                assert "the log of broker a is damaged" in str(problem)
                assert "tidings store check" in str(problem)
                after = await heard(client, problem.cursor, **options)
                assert after == list(range(last + 1, COUNT + 1))
            await client.publish({"news": True})
            assert "news" in await live.get(PATIENCE)

    async def copies(client: tidings.Client) -> None:
        with pytest.raises(CursorTooOld, match="of a cannot be read") as problem:
            await copied(client, 0)
        last = int(problem.value.cursor.removeprefix("a:"))
        rest = await copied(client, last)
        assert (rest[0], rest[-1]) == (last + 1, rest[0] + len(rest) - 1)

    asyncio.run(run())
