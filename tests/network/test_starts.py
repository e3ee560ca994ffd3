"""Where a subscription begins: all that comes next is heard."""

from __future__ import annotations

import asyncio
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
                    reader.subscribe("EXISTS n", durable="desk", home="here") as durable,
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
