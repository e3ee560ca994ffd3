"""Statistics of a lake, published to real brokers: what they hold for each other shrinks."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from time import monotonic

import pytest

from tests.network.brokers import HASTY, LINE, PATIENCE, Network
from tidings import connect
from tidings.events import Notification
from tidings.lakes.lake import Lake
from tidings.lakes.layout import Archived

pytestmark = pytest.mark.slow

WANTED = (
    "symbol = 'A' AND price BETWEEN 10 AND 11",
    "symbol = 'A' AND price BETWEEN 13 AND 14",
    "symbol = 'B' AND price BETWEEN 10 AND 11.5",
    "symbol = 'B' AND price BETWEEN 13.5 AND 14",
)
"""Two filters for a neighbour, as long as nobody knows that 12 is rare."""


def make_lake(folder: Path) -> Path:
    """Most prices are far below 10."""
    chance, lake = Random(1), Lake(folder)
    events = [
        {"symbol": chance.choice("AB"), "price": chance.uniform(0, 2 if n % 100 else 20)}
        for n in range(5_000)
    ]
    noon = datetime(2026, 11, 16, 12, tzinfo=UTC)
    lake.append(
        [Archived("old", n, noon, Notification(e)) for n, e in enumerate(events, 1)], "test", 1
    )
    return folder


async def holds(network: Network, broker: str, neighbour: str, filters: int) -> None:
    """Wait until a broker holds this many filters for a neighbour."""
    end = monotonic() + PATIENCE
    while True:
        links = {link.name: link for link in (await network[broker].status()).links}
        if links[neighbour].subscriptions == filters:
            return
        assert monotonic() < end, f"{links[neighbour].subscriptions} filters, not {filters}"
        await asyncio.sleep(0.05)


def test_brokers_learn_from_a_lake_and_remember_it(tmp_path: Path) -> None:
    lake = make_lake(tmp_path / "lake")

    async def run() -> None:
        settings = HASTY + 'subscriptions = "learnt:0.01"\n'
        async with Network(tmp_path, LINE, settings=settings) as network:
            await network.agreed()
            async with connect(network["a"].url) as reader, connect(network["c"].url) as writer:
                heard = [await reader.subscribe(text) for text in WANTED]
                await holds(network, "c", "b", 3)  # the brokers' own for statistics is the third
                await asyncio.to_thread(publish_statistics, lake, tmp_path, network["c"].url)
                await holds(network, "c", "b", 2)
                await holds(network, "b", "a", 2)
                for price in (10.5, 12, 14, 15):
                    await writer.publish({"symbol": "A", "price": price})
                for price in (11, 12, 14):
                    await writer.publish({"symbol": "B", "price": price})
                async with asyncio.timeout(PATIENCE):
                    found = [(await subscription.get())["price"] for subscription in heard]
                assert found == [10.5, 14, 11, 14]
            network["b"].kill()
            await network["b"].start()
            await network.agreed()
            async with connect(network["a"].url) as reader:
                for text in WANTED:
                    await reader.subscribe(text)
                await holds(network, "c", "b", 2)
            network.check_calm()

    asyncio.run(run())


def publish_statistics(lake: Path, folder: Path, url: str) -> None:
    program = [sys.executable, "-m", "tidings.cli", "pipeline", "statistics"]
    where = ["--lake", str(lake), "--out", str(folder / "out"), "--master", "none"]
    done = subprocess.run(
        [*program, *where, "--publish", url], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert "5,000 events, 2 attributes" in done.stderr
    assert (folder / "out" / "report.md").read_text().startswith("# What a lake's events are like")
