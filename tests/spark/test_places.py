"""Where streams begin and end, asked of real brokers: the answer needs little of what they hold."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from time import time

import pytest

from tests.network.brokers import Network
from tests.network.proxy import Proxy
from tidings.client import Client, Login, connect
from tidings.protocol.requests import Cursor
from tidings.spark.streams import places
from tidings.spark.streams.places import ends_known_to, ticks_before

pytestmark = pytest.mark.slow

MANY = 300_000
TEXT = "x" * 100


async def publish(url: str, count: int) -> None:
    async with connect(url) as client:
        await client.publish_each({"n": n, "text": TEXT} for n in range(count))


@asynccontextmanager
async def wire(port: int) -> AsyncIterator[Proxy]:
    proxy = Proxy(port)
    await proxy.start()
    try:
        yield proxy
    finally:
        await proxy.stop()


def test_streams_that_have_nothing_to_say_are_not_waited_for(tmp_path: Path) -> None:
    async def asked() -> None:
        async with Network(tmp_path, [("a", "b"), ("b", "c")]) as brokers:
            await brokers.agreed()
            await publish(brokers["a"].url, 20)
            await publish(brokers["b"].url, 3)
            noon = time()
            await publish(brokers["a"].url, MANY)
            async with wire(brokers["a"].port) as proxy:
                broker = Login(f"tidings://127.0.0.1:{proxy.port}")
                for since, expected in (
                    (0.0, {"a": 0, "b": 0, "c": 0}),
                    (noon, {"a": 20, "b": 3, "c": 0}),
                    (time() + 60, {"a": 20 + MANY, "b": 3, "c": 0}),
                ):
                    found = await asyncio.to_thread(ticks_before, broker, since, ["a", "b", "c"])
                    assert found == expected
                assert proxy.passed < MANY * len(TEXT) / 2

    asyncio.run(asked())


@pytest.mark.parametrize("is_all", [True, False], ids=["from the beginning", "from noon on"])
def test_a_stream_that_goes_away_amid_the_question_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_all: bool
) -> None:
    """Else it would begin at its end, and all that it holds would be passed over."""

    async def asked() -> None:
        async with Network(tmp_path, [("a", "b"), ("a", "c")]) as brokers:
            await brokers.agreed()
            await publish(brokers["a"].url, 20)
            await publish(brokers["b"].url, 3)
            noon = 0.0 if is_all else time()

            async def told(client: Client) -> Cursor:
                found = await ends_known_to(client)
                brokers["b"].kill()
                await brokers.agreed()  # that it is gone
                return found

            monkeypatch.setattr(places, "ends_known_to", told)
            broker = Login(brokers["a"].url)
            found = await asyncio.to_thread(ticks_before, broker, noon, ["a", "b", "c"])
            assert found == {"a": 0 if is_all else 20, "c": 0}
            await brokers.start("b")
            await brokers.agreed()
            monkeypatch.undo()
            found = await asyncio.to_thread(ticks_before, broker, noon, ["b"])
            assert found == {"b": 0 if is_all else 3}

    asyncio.run(asked())
