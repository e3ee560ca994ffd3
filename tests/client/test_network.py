"""A client of one broker hears what is published at another, whatever happens to either."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

import tidings
from tests.client.brokers import BrokerProcess

pytestmark = pytest.mark.slow


@pytest.fixture
def cities(tmp_path: Path, request: pytest.FixtureRequest) -> Any:
    """Two brokers; rome dials paris. A parameter is more of their configuration."""
    more = getattr(request, "param", "")
    for city in ("paris", "rome"):
        (tmp_path / city).mkdir()
    paris = BrokerProcess(tmp_path / "paris", config=f"{more}[neighbours]\nrome = {{}}\n")
    paris.start()
    config = f'{more}[neighbours]\nparis = "127.0.0.1:{paris.port}"\n'
    rome = BrokerProcess(tmp_path / "rome", name="rome", config=config)
    rome.start()
    yield paris, rome
    paris.stop()
    rome.stop()


def test_two_streams_are_heard_once_each_though_both_brokers_are_killed(
    cities: tuple[BrokerProcess, BrokerProcess], run: Callable[[Any], Any]
) -> None:
    paris, rome = cities

    async def main() -> None:
        is_over = False
        counts = {"paris": 0, "rome": 0}

        async def produce(city: str) -> AsyncIterator[dict[str, Any]]:
            while not is_over:
                counts[city] += 1
                yield {"city": city, "n": counts[city]}
                await asyncio.sleep(0.001)

        heard: dict[str, list[int]] = {"paris": [], "rome": []}
        live: dict[str, list[int]] = {"paris": [], "rome": []}
        async with (
            tidings.connect(paris.url) as reader,
            tidings.connect(paris.url) as at_paris,
            tidings.connect(rome.url) as at_rome,
            reader.subscribe("n > 0", durable="desk", since="begin") as events,
            reader.subscribe("n > 0", callback=lambda e: live[e["city"]].append(e["n"])) as other,
        ):

            async def hear() -> None:
                async for event in events:
                    heard[event["city"]].append(event["n"])
                    event.ack_soon()

            async def both_grow() -> None:
                before = {city: len(numbers) for city, numbers in heard.items()}
                while any(len(heard[city]) < before[city] + 50 for city in heard):
                    await asyncio.sleep(0.01)

            hearing = asyncio.create_task(hear())
            work = [
                asyncio.create_task(at_paris.publish_each(produce("paris"))),
                asyncio.create_task(at_rome.publish_each(produce("rome"))),
            ]
            await both_grow()
            for broker in (rome, paris):
                await asyncio.to_thread(broker.kill)
                await asyncio.to_thread(broker.start)
                await both_grow()
            is_over = True
            await asyncio.gather(*work)
            while {city: len(n) for city, n in heard.items()} != counts:
                await asyncio.sleep(0.01)
            assert events.cursor.startswith("paris:")
            while any(n[-1] != counts[city] for city, n in live.items()):
                await asyncio.sleep(0.01)
            hearing.cancel()
            assert other.missed == 0
        for city, count in counts.items():
            assert heard[city] == list(range(1, count + 1))
            first = live[city][0]
            assert live[city] == list(range(first, count + 1))

    run(main())


@pytest.mark.parametrize("cities", ['[routing]\nadvertisements = "covering"\n'], indirect=True)
def test_interest_is_known_of_what_was_advertised_and_else_refused(
    cities: tuple[BrokerProcess, BrokerProcess], run: Callable[[Any], Any]
) -> None:
    paris, rome = cities

    async def main() -> None:
        async with (
            tidings.connect(paris.url) as producer,
            tidings.connect(paris.url) as other,
            tidings.connect(rome.url) as reader,
            reader.subscribe("room = 'a'") as wanted,
        ):
            await other.advertise("room = 'a'")  # what others may publish is not the producer's
            for _ in range(2):
                with pytest.raises(tidings.RequestRefused, match="Advertise first"):
                    await anext(producer.interest("room = 'a'"))
                await producer.advertise("room = 'b'")
            await producer.advertise("EXISTS room")
            interest = producer.interest("room = 'a'")
            while not await anext(interest):  # until what rome wants has come to paris
                pass
            await wanted.close()
            assert not await anext(interest)
            await producer.unadvertise("EXISTS room")
            with pytest.raises(tidings.RequestRefused, match="Advertise first"):
                await anext(interest)

    run(main())
