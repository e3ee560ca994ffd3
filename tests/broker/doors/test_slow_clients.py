"""Clients that read slowly or not at all, clients by the thousand, and a disk that is slow."""

from __future__ import annotations

import asyncio
import resource
from pathlib import Path

import pytest

from tests.broker.peers import Peer, configured, connected, eventually, on_loop
from tidings.broker.doors import gate
from tidings.broker.server import Broker
from tidings.protocol.requests import Accepted, Attach, Missed, Refused
from tidings.protocol.wire import VERSION, Delivery, Hello, Ping, Pong, Welcome, encode

MEMORY = 64 << 10
pytestmark = pytest.mark.slow  # megabytes must pass before anything is full

SMALL = f"[limits]\nmemory = {MEMORY}\n"
TEXT = "x" * 5000


def stops_reading(peer: Peer) -> None:
    """What the kernel holds for it is not much: some megabytes."""
    peer.writer.transport.pause_reading()  # type: ignore[attr-defined]


def reads_again(peer: Peer) -> None:
    peer.writer.transport.resume_reading()  # type: ignore[attr-defined]


async def flood(writer: Peer, first: int, count: int) -> None:
    for number in range(first, first + count, 100):
        await writer.published(number, *({"n": number + i, "text": TEXT} for i in range(100)))


def waiting(broker: Broker) -> int:
    return max((connection.waiting for connection in broker.gate.connections), default=0)


@on_loop
async def test_a_live_subscription_that_is_not_read_misses_events_and_is_told(
    tmp_path: Path,
) -> None:
    async with (
        Broker(configured(tmp_path, SMALL)) as broker,
        connected(broker) as slow,
        connected(broker) as quick,
        connected(broker) as writer,
    ):
        for peer, name in ((slow, "slow"), (quick, "quick"), (writer, "writer")):
            await peer.attach(name)
        await slow.subscribe("n > 0")
        await quick.subscribe("n > 0")
        stops_reading(slow)
        reading = asyncio.create_task(quick.deliveries(4000))
        most = 0
        for first in range(1, 4001, 500):
            await flood(writer, first, 500)
            most = max(most, waiting(broker))
        assert [event["n"] for event in await reading] == list(range(1, 4001))
        assert MEMORY < most < MEMORY + 2_000_000  # one batch more than the limit, not all
        reads_again(slow)
        missed = await slow.until(Missed)
        heard = sum(isinstance(m, Delivery) for m in slow.heard)
        assert missed.count + heard == 4000
        await writer.published(4001, {"n": 4001})
        while (await slow.until(Delivery)).event.notification["n"] != 4001:
            pass


@on_loop
async def test_a_durable_subscription_that_is_not_read_gets_everything_later(
    tmp_path: Path,
) -> None:
    async with (
        Broker(configured(tmp_path, SMALL)) as broker,
        connected(broker) as slow,
        connected(broker) as writer,
    ):
        await slow.attach("slow")
        await writer.attach("writer")
        await slow.subscribe("n > 0", durable="desk")
        stops_reading(slow)
        await flood(writer, 1, 4000)
        assert MEMORY < waiting(broker) < MEMORY + 2_000_000
        reads_again(slow)
        assert [event["n"] for event in await slow.deliveries(4000)] == list(range(1, 4001))
        assert not [m for m in slow.heard if isinstance(m, Missed)]


@on_loop
async def test_a_client_that_asks_and_does_not_read_is_not_read_either(tmp_path: Path) -> None:
    async with Broker(configured(tmp_path, SMALL)) as broker, connected(broker) as peer:
        await peer.attach("ann")
        stops_reading(peer)
        asked = encode([Ping(1 << 60)] * 5000)
        for _ in range(300):
            peer.writer.write(asked)
            await asyncio.sleep(0)
            assert waiting(broker) < MEMORY + 1_000_000
        [connection] = broker.gate.connections
        assert connection.is_held
        reads_again(peer)
        for _ in range(300 * 5000):
            assert isinstance(await peer.hear(), Pong)


@on_loop
async def test_a_client_that_never_reads_again_is_cut_off_in_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate, "_STALLED", 1)
    text = SMALL + "silence = 0.2\n"
    async with Broker(configured(tmp_path, text)) as broker, connected(broker) as peer:
        await peer.attach("ann")
        stops_reading(peer)
        for _ in range(1000):
            peer.writer.write(encode([Ping(1 << 60)] * 5000))
        await eventually(lambda: not broker.host.sessions)


@on_loop
async def test_publishers_wait_for_a_slow_disk_and_memory_stays_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Broker(configured(tmp_path)) as broker, connected(broker) as writer:
        host, most = broker.host, 0
        await writer.attach("writer")
        commit, may_commit = host.store.commit, asyncio.Event()
        loop = asyncio.get_running_loop()

        def slowly(*arguments: object) -> None:
            asyncio.run_coroutine_threadsafe(may_commit.wait(), loop).result()
            commit(*arguments)  # type: ignore[arg-type]

        monkeypatch.setattr(host.store, "commit", slowly)
        pushed = asyncio.create_task(push(writer, 20_000))
        try:
            await eventually(lambda: host.commits.is_congested)
            for _ in range(50):
                await asyncio.sleep(0)
                most = max(most, host.commits.bundle.size)
            assert not pushed.done()
            assert most < 8 << 20
        finally:
            may_commit.set()
        await pushed
        while max(m.number for m in writer.heard if isinstance(m, Accepted)) < 20_000:
            await writer.until(Accepted)
        assert host.last == 20_000


async def push(writer: Peer, count: int) -> None:
    for number in range(1, count + 1, 100):
        writer.publish(number, *({"n": number + i, "text": TEXT} for i in range(100)))
        await writer.writer.drain()


class Client(asyncio.Protocol):
    """One of very many: greets, attaches, and counts frames."""

    def __init__(self, name: str) -> None:
        self.name, self.received, self.is_lost = name, 0, False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        hello = encode([Hello(VERSION, "client", self.name)])
        transport.write(hello + encode([Attach()]))  # type: ignore[attr-defined]

    def data_received(self, data: bytes) -> None:
        self.received += len(data)

    def connection_lost(self, problem: Exception | None) -> None:
        self.is_lost = True


@on_loop
async def test_five_thousand_clients_are_served(tmp_path: Path) -> None:
    clients = 5_000
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 2 * clients + 100:
        pytest.skip(f"only {hard} open files are allowed here")
    async with Broker(configured(tmp_path)) as broker:  # which raises the soft limit
        loop = asyncio.get_running_loop()
        there: list[Client] = []
        for first in range(0, clients, 250):
            made = await asyncio.gather(
                *(
                    loop.create_connection(lambda n=n: Client(f"c{n}"), *broker.address)
                    for n in range(first, first + 250)
                )
            )
            there += [client for _, client in made]
        await eventually(lambda: len(broker.host.node.sessions) == clients)
        # Answers leave once they are on disk, behind the sessions that they are for.
        await eventually(lambda: all(client.received for client in there))
        async with connected(broker) as peer:
            assert isinstance(await peer.greet("ann"), Welcome)
            peer.say(Attach())
            await peer.subscribe("n > 0")
            await peer.published(1, {"n": 1})
            assert await peer.deliveries(1) == [{"n": 1}]
            assert not [m for m in peer.heard if isinstance(m, Refused)]
        for client in there:
            client.transport.close()
        await eventually(lambda: all(client.is_lost for client in there))
        await eventually(lambda: not broker.host.node.sessions)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
