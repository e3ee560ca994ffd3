"""Arrivals: strangers cost little, take turns, and keep nobody out."""

from __future__ import annotations

import asyncio
import logging
import socket
import struct
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from tests.broker.doors.test_certificates import Papers, papers
from tests.broker.peers import Peer, configured, connected, eventually, on_loop
from tidings.broker.doors import arrivals
from tidings.broker.doors.arrivals import ArrivalStage
from tidings.broker.server import Broker
from tidings.broker.tokens import hashed, new_token
from tidings.events import Notification
from tidings.protocol.requests import Attach, Publish, Refused
from tidings.protocol.wire import VERSION, Hello, Ping, Pong, Welcome, encode

__all__ = ["papers"]

HALF = struct.pack(">I", 100) + b"\x91"
"""The beginning of a greeting."""


def stranger(broker: Broker, said: bytes = b"", *, host: str = "127.0.0.1") -> socket.socket:
    """Somebody who says this from an address of this machine, and no more."""
    there = socket.create_connection(broker.address, source_address=(host, 0))
    there.sendall(said)
    return there


def strangers(broker: Broker, count: int, said: bytes = b"") -> ExitStack:
    stack = ExitStack()
    for _ in range(count):
        stack.enter_context(stranger(broker, said))
    return stack


def stages(broker: Broker) -> dict[ArrivalStage, int]:
    found = [each.stage for each in broker.arrivals._all]
    return {stage: found.count(stage) for stage in found}


async def all_gone(broker: Broker) -> None:
    """Nobody is left, and nothing is left of them."""
    await eventually(lambda: not len(broker.arrivals))
    here = broker.arrivals
    assert [here._unread, here._crowds, here._turns] == [{}, {}, {}]


def padded(size: int, **more: str) -> bytes:
    """A frame of this many bytes that greets."""
    for padding in range(size):
        options: dict[str, str | int | bool | None] = {"padding": "x" * padding}
        frame = encode([Hello(VERSION, "client", "ann", options=options)])
        if len(frame) >= size:
            assert len(frame) == size
            return frame
    raise AssertionError(size)


@on_loop
async def test_a_greeting_has_four_kibibytes_and_not_a_byte_more(tmp_path: Path) -> None:
    async with Broker(configured(tmp_path)) as broker:
        async with connected(broker) as peer:
            peer.writer.write(padded(4096))
            assert isinstance(await peer.hear(), Welcome)
        async with connected(broker) as peer:
            peer.writer.write(padded(4097))
            refused = await peer.hear()
            assert isinstance(refused, Refused)
            assert "a greeting has at most 4092" in refused.reason


@on_loop
async def test_nothing_behind_a_greeting_is_read_before_it_is_accepted(tmp_path: Path) -> None:
    token = new_token()
    text = f'[tokens]\ndesk = "{hashed(token)}"\n'
    large = encode([Attach(), Publish(1, (Notification({"n": 1, "x": bytes(1 << 20)}),)), Ping(7)])
    async with Broker(configured(tmp_path, text)) as broker:
        for shown in ("guess", token):
            hello = encode([Hello(VERSION, "client", "ann", shown)])
            async with connected(broker) as peer:
                peer.writer.write(hello + large)
                if shown == token:
                    assert isinstance(await peer.hear(), Welcome)
                    assert await peer.until(Pong) == Pong(7)
                    assert broker.metrics.bytes_in == len(hello) + len(large)
                    await eventually(lambda: broker.host.last == 1)
                else:
                    await peer.rest()
                    assert broker.metrics.bytes_in == 0
        await all_gone(broker)


@on_loop
async def test_a_few_of_an_origin_are_read_and_the_others_wait_unread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Broker(configured(tmp_path)) as broker:
        with strangers(broker, 20, HALF), strangers(broker, 20):
            await eventually(
                lambda: (
                    stages(broker)
                    == {ArrivalStage.READ: 8, ArrivalStage.WAITING: 12, ArrivalStage.SILENT: 20}
                )
            )
            with stranger(broker, HALF, host="127.0.0.2"):  # who has turns of their own
                await eventually(lambda: stages(broker)[ArrivalStage.READ] == 9)
            async with connected(broker) as peer:  # of the same origin, but quick
                await peer.attach("ann")
        await all_gone(broker)


@on_loop
async def test_whoever_waits_has_a_turn_when_another_one_ends(tmp_path: Path) -> None:
    hello = encode([Hello(VERSION, "client", "late")])
    async with Broker(configured(tmp_path)) as broker, connected(broker) as late:
        with strangers(broker, 8, HALF):
            await eventually(
                lambda: stages(broker) == {ArrivalStage.READ: 8, ArrivalStage.SILENT: 1}
            )
            late.writer.write(hello[:9])
            await eventually(
                lambda: stages(broker) == {ArrivalStage.READ: 8, ArrivalStage.WAITING: 1}
            )
            late.writer.write(hello[9:])
        assert isinstance(await late.hear(), Welcome)
        await all_gone(broker)


@on_loop
async def test_who_takes_too_long_is_told_whatever_they_wait_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrivals, "_SECONDS", 0.1)
    monkeypatch.setattr(arrivals, "_WAIT", 0.05)
    async with Broker(configured(tmp_path)) as broker:
        peers = [Peer(*await asyncio.open_connection(*broker.address)) for _ in range(12)]
        for peer in peers[2:]:
            peer.writer.write(HALF)
        for peer in peers:
            [refused] = await peer.rest()
            assert isinstance(refused, Refused)
            assert "Hello" in refused.reason
            await peer.close()
        await all_gone(broker)


@on_loop
async def test_who_drips_bytes_has_no_more_time_than_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrivals, "_SECONDS", 0.2)
    async with Broker(configured(tmp_path)) as broker, connected(broker) as peer:
        peer.writer.write(struct.pack(">I", 4000))

        async def drip() -> None:
            while True:
                peer.writer.write(b"\x91")
                await asyncio.sleep(0.01)

        dripping = asyncio.create_task(drip())
        assert isinstance(await peer.hear(), Refused)
        assert await peer.hear() is None
        dripping.cancel()
        await all_gone(broker)


@on_loop
async def test_the_largest_crowd_makes_room_for_who_comes(tmp_path: Path) -> None:
    async with Broker(configured(tmp_path)) as broker:
        broker.arrivals._most = 5
        with stranger(broker, host="127.0.0.2") as alone, strangers(broker, 20):
            await eventually(lambda: broker.metrics.refused == 16)
            assert stages(broker) == {ArrivalStage.SILENT: 5}
            assert [each.origin for each in broker.arrivals._unread].count("127.0.0.2") == 1
            async with connected(broker) as peer:
                await peer.attach("ann")
            alone.sendall(encode([Hello(VERSION, "client", "bob")]))
            await eventually(lambda: len(broker.host.sessions) == 1)
        await all_gone(broker)


@on_loop
async def test_strangers_fill_neither_memory_nor_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "tidings"):
        async with Broker(configured(tmp_path)) as broker:
            for n in range(1, 11):
                with strangers(broker, 20, b"GET / HTTP/1.1\r\n\r\n" * 10):
                    await eventually(lambda n=n: broker.metrics.refused == 20 * n)
            await all_gone(broker)
            assert not broker.gate.connections
    begun = caplog.records[0].created
    seconds = caplog.records[-1].created - begun
    assert len(caplog.records) <= 11 * (1 + seconds)


@on_loop
async def test_neighbours_have_places_that_clients_cannot_take(tmp_path: Path) -> None:
    text = "[limits]\nconnections = 1\n[neighbours]\nlondon = {}\n"
    async with (
        Broker(configured(tmp_path, text, name="paris")) as broker,
        connected(broker) as client,
        connected(broker) as another,
        connected(broker) as neighbour,
    ):
        await client.attach("ann")
        assert isinstance(await another.greet("bob"), Refused)
        assert isinstance(await neighbour.greet("london", role="broker"), Welcome)
        assert broker.links.is_up("london")
        await client.subscribe("n > 0")
        await client.published(1, {"n": 1})
        assert await client.deliveries(1) == [{"n": 1}]


def test_open_files_are_left_for_neighbours_and_the_store(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    broker = Broker(configured(tmp_path, "[limits]\nconnections = 5000\n"))
    assert broker._places(100_000) == (5_000, 1_024)
    assert not caplog.records
    assert broker._places(4_096) == (4_096 - 1_024 - 512, 1_024)
    assert "4096 files may be open: 2560 clients are let in, not 5000" in caplog.text
    assert broker._places(256) == (1, 64)


@pytest.mark.slow
@on_loop
async def test_handshakes_take_turns_and_those_that_stop_are_given_up(
    tmp_path: Path, papers: Papers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrivals, "_SECONDS", 1.0)
    record = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"  # the beginning of a handshake
    configuration = configured(tmp_path, tls=papers.tls("paris"))
    async with Broker(configuration) as broker:
        with strangers(broker, 12, record), strangers(broker, 5):
            await eventually(lambda: stages(broker).get(ArrivalStage.READ) == 8)
            await eventually(lambda: stages(broker).get(ArrivalStage.WAITING) == 4)
            async with connected(broker, trust=papers.context()) as peer:
                await peer.attach("ann")
            await all_gone(broker)


@pytest.mark.slow
@on_loop
async def test_hundreds_may_come_at_once_from_one_origin_over_tls(
    tmp_path: Path, papers: Papers
) -> None:
    configuration = configured(tmp_path, tls=papers.tls("paris"))
    trust = papers.context()
    async with Broker(configuration) as broker:

        async def one(number: int) -> None:
            async with connected(broker, trust=trust) as peer:
                await peer.attach(f"c{number}")

        await asyncio.gather(*(one(number) for number in range(200)))
        assert broker.metrics.refused == 0
        await all_gone(broker)


@on_loop
async def test_garbage_instead_of_tls_ends_the_connection(tmp_path: Path, papers: Papers) -> None:
    configuration = configured(tmp_path, tls=papers.tls("paris"))
    async with Broker(configuration) as broker:
        for said in (b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 5000, encode([Hello(1, "client", "")])):
            async with connected(broker) as peer:
                peer.writer.write(said)
                with suppress(ConnectionError):
                    await peer.reader.read()
        await all_gone(broker)


@on_loop
async def test_a_broker_that_stops_waits_for_no_stranger(tmp_path: Path, papers: Papers) -> None:
    for tls in (None, papers.tls("paris")):
        async with Broker(configured(tmp_path, tls=tls)) as broker:
            with strangers(broker, 12, b"\x16\x03\x01\x02\x00\x01"[: 6 if tls else 3]):
                await eventually(lambda broker=broker: stages(broker).get(ArrivalStage.READ) == 8)
                await broker.stop()
                await asyncio.sleep(0)
                assert len(broker.arrivals) == 0
