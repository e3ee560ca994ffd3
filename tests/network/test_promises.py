"""Promised times between real brokers: they go on while nothing happens, and outlive a kill."""

from __future__ import annotations

from pathlib import Path
from time import time

import pytest

from tests.broker.peers import Peer, connected, on_loop
from tests.network.brokers import ODD, Network
from tidings.protocol.addresses import Address
from tidings.protocol.requests import Progress
from tidings.protocol.wire import Delivery

pytestmark = pytest.mark.slow

SETTINGS = """
[routing]
beat = 0.2
silence = 1.0
progress = 0.2
"""


async def promised(peer: Peer, stream: str, *, beyond: float) -> float:
    """A time below which a stream is complete, above another one."""
    while (told := (await peer.until(Progress)).complete.get(stream, 0.0)) <= beyond:
        pass
    return told


async def reading(peer: Peer) -> Peer:
    await peer.attach("reader")
    await peer.subscribe("n > 0", times=True)
    return peer


def at(network: Network, name: str) -> Address:
    return Address("127.0.0.1", network[name].port)


@on_loop
async def test_times_are_promised_of_all_streams_while_nothing_happens(tmp_path: Path) -> None:
    async with Network(tmp_path, [("a", "b"), ("b", "c")], settings=SETTINGS) as network:
        await network.agreed()
        async with connected(at(network, "a")) as peer:
            await reading(peer)
            for stream in "cab":
                one = await promised(peer, stream, beyond=time() - 2.0)
                assert await promised(peer, stream, beyond=one) <= time()


@on_loop
async def test_a_promise_outlives_a_kill_and_a_clock_that_is_set_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = tmp_path / "clock"
    monkeypatch.setenv("ODD_CLOCK", str(clock))
    async with Network(tmp_path, [("a", "b")], program=ODD, settings=SETTINGS) as network:
        await network.agreed()
        for ahead in (0.0, -100.0, -200.0):
            async with connected(at(network, "b")) as reader:
                await reading(reader)
                told = await promised(reader, "a", beyond=1.0)
                network["a"].kill()
                clock.write_text(str(ahead - 100.0))
                await network.start("a")
                async with connected(at(network, "a")) as writer:
                    await writer.attach(f"writer {ahead}")
                    await writer.published(1, {"n": 1})
                heard = (await reader.until(Delivery)).event
                assert heard.stream == "a"
                assert told <= heard.time <= told + 5.0
        network.check_calm()
