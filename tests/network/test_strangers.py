"""Whoever connects may say anything, or nothing: the broker stays up, and serves the others."""

from __future__ import annotations

import asyncio
import random
import resource
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import msgspec
import pytest
import trustme

import tidings
from tests.network.brokers import ODD, PATIENCE, BrokerProcess, free_ports
from tidings.broker.tokens import hashed, new_token
from tidings.client import ConnectionFailed
from tidings.events import Filter, Notification
from tidings.protocol.requests import Accepted, Attach, Missed, Publish, Subscribe
from tidings.protocol.wire import VERSION, Delivery, Hello, Splitter, Welcome, decode, encode

KERNELS = 96 << 20
"""Bytes that a broker needs once for matching, and may load in the first seconds: 80 MiB, and 14
more where scipy is installed, which numba then imports, too."""
HELLO = encode([Hello(VERSION, "client", "stranger", None, {})])


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """One for all: whatever happened to it before, it has to be as good as new."""
    process = _broker(tmp_path_factory.mktemp("broker"), "[limits]\nsilence = 1\n")
    process.program = ODD
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ODD_GREETING", "1")
        asyncio.run(process.start())
    yield process
    assert process.stop() == 0
    assert "Traceback" not in process.said
    process.clean_up()


def _broker(folder: Path, more: str = "") -> BrokerProcess:
    (port,) = free_ports(1)
    lines = f'name = "a"\nlisten = "127.0.0.1:{port}"\nstore = "a"\n{more}'
    return BrokerProcess(folder, "a", lines, port=port)


@asynccontextmanager
async def service(broker: BrokerProcess) -> AsyncIterator[Callable[[], Awaitable[None]]]:
    """Somebody who publishes and hears that all the time; call it to see that it still works."""
    async with (
        tidings.connect(broker.url, wait=PATIENCE) as client,
        client.subscribe("EXISTS ping") as events,
    ):
        count = 0

        async def works() -> None:
            nonlocal count
            count += 1
            await asyncio.wait_for(client.publish({"ping": count}), PATIENCE)
            assert (await events.get(PATIENCE))["ping"] == count

        await works()
        yield works
        await works()
        assert client.is_connected


async def _say(broker: BrokerProcess, said: bytes) -> bytes:
    """Say this, and hear all that is said until the broker hangs up."""
    reader, writer = await asyncio.open_connection("127.0.0.1", broker.port)
    try:
        writer.write(said)
        async with asyncio.timeout(PATIENCE):
            with suppress(ConnectionResetError):
                return await reader.read(-1)
        return b""
    finally:
        writer.transport.abort()


NONSENSE = {
    "text": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "tls": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500),
    "huge": struct.pack(">I", 0xFFFFFFFF) + bytes(100),
    "large": struct.pack(">I", (4 << 20) + 1) + bytes(100),
    "no array": struct.pack(">I", 1) + b"\x01",
    "nested": struct.pack(">I", 100_000) + b"\x91" * 100_000,
    "long array": struct.pack(">I", 5) + b"\xdd\xff\xff\xff\xff",
    "no hello": encode([Attach()]),
    "answer": encode([Accepted("publish", 1)]),
    "unknown version": encode([Hello(99, "client", "", None, {})]),
    "unknown role": encode([Hello(VERSION, "king", "", None, {})]),
    "other broker": encode([Hello(VERSION, "broker", "b", None, {})]),
    "garbage later": HELLO + encode([Attach()]) + struct.pack(">I", 4) + b"\xc1\xc1\xc1\xc1",
    "welcome later": HELLO + encode([Welcome(VERSION, "b", {})]),
    "hello twice": HELLO + HELLO,
}


@pytest.mark.parametrize("what", NONSENSE)
def test_nonsense_is_answered_by_hanging_up(what: str, broker: BrokerProcess) -> None:
    async def run() -> None:
        async with service(broker) as works:
            await _say(broker, NONSENSE[what])
            await works()

    asyncio.run(run())
    assert broker.is_running


def test_an_answer_that_cannot_be_written_harms_nobody_else(broker: BrokerProcess) -> None:
    """What is said to all in one go is not lost for some since it is strange for one."""
    last = encode([Attach(), Publish(2**64 - 2, (Notification({"n": 1}),) * 3)])

    async def run() -> None:
        async with service(broker) as works:
            for number in range(10):
                _, writer = await asyncio.open_connection("127.0.0.1", broker.port)
                writer.write(encode([Hello(VERSION, "client", f"last-{number}", None, {})]) + last)
                for _ in range(10):
                    await works()
                writer.transport.abort()

    asyncio.run(run())


@pytest.mark.slow
def test_random_bytes_and_frames_cut_short_do_no_harm(broker: BrokerProcess) -> None:
    chance = random.Random(7)
    whole = HELLO + encode(
        [
            Attach(),
            Subscribe("s", Filter.parse("EXISTS n AND NOT (x = 'a' OR y > 7)"), "desk", "begin"),
            Publish(1, (Notification({"n": 1, "x": "a", "y": 2.5}),) * 3),
        ]
    )

    async def one() -> None:
        said = bytearray(whole)
        for _ in range(chance.randint(1, 4)):
            said[chance.randrange(len(said))] = chance.randrange(256)
        del said[chance.randint(1, 2 * len(said)) :]
        reader, writer = await asyncio.open_connection("127.0.0.1", broker.port)
        writer.write(said)
        with suppress(OSError):  # the broker may have hung up already
            writer.write_eof()
        with suppress(ConnectionResetError):
            await asyncio.wait_for(reader.read(-1), PATIENCE)
        writer.transport.abort()

    async def run() -> None:
        async with service(broker) as works:
            before = broker.memory
            for _ in range(20):
                await asyncio.gather(*(one() for _ in range(25)))
                await works()
            assert broker.memory - before < KERNELS + (40 << 20)

    asyncio.run(run())
    assert broker.is_running


@pytest.mark.slow
def test_who_says_nothing_or_too_little_is_forgotten(broker: BrokerProcess) -> None:
    """Half-open connections, and frames of which only the length ever comes."""

    async def run() -> None:
        async with service(broker) as works:
            before = (await broker.status()).connections
            beginnings = [b"", HELLO[:3], HELLO[:-1], HELLO, HELLO + struct.pack(">I", 4 << 20)]
            writers = []
            for number in range(200):
                _, writer = await asyncio.open_connection("127.0.0.1", broker.port)
                writer.write(beginnings[number % len(beginnings)])
                writers.append(writer)
            await works()

            async def connections() -> int:
                return (await broker.status()).connections

            async with asyncio.timeout(PATIENCE):
                while await connections() > before:
                    await works()
                    await asyncio.sleep(0.1)
            for writer in writers:
                writer.transport.abort()

    asyncio.run(run())


@pytest.mark.slow
def test_frames_of_strangers_are_not_read_before_they_have_greeted(tmp_path: Path) -> None:
    """Half frames take no memory, and whole ones no time: not a byte behind a greeting is read."""
    token = new_token()
    process = _broker(tmp_path, f'[tokens]\ndesk = "{hashed(token)}"\n')
    values = ",".join(f'{{"eq":{n}}}' for n in range(200_000))
    filter = f'{{"any":[{{"x":{{"number":[{values}]}}}}]}}'
    costly = msgspec.msgpack.encode([[2, "s", filter]])
    whole = struct.pack(">I", len(costly)) + costly
    half = struct.pack(">I", 4 << 20) + bytes(3 << 20)
    beginnings = [whole, half, struct.pack(">I", 4000) + bytes(3000), HELLO + whole]

    async def run() -> None:
        await process.start()
        async with tidings.connect(process.url, token=token, wait=PATIENCE) as client:
            await client.publish({"n": 0})
            memory, writers = process.memory, []
            for number in range(300):
                _, writer = await asyncio.open_connection("127.0.0.1", process.port)
                writer.write(beginnings[number % len(beginnings)])
                writers.append(writer)
            for number in range(100):
                await client.publish({"n": number})
                assert process.memory - memory < KERNELS + (40 << 20)
            async with tidings.connect(process.url, token=token) as another:
                await another.publish({"n": 100})
            for writer in writers:
                writer.transport.abort()
        assert process.stop() == 0

    try:
        asyncio.run(run())
    finally:
        process.clean_up()


@pytest.mark.slow
def test_who_does_not_read_costs_little_and_is_told_what_was_missed(
    broker: BrokerProcess,
) -> None:
    total = 20_000

    async def run() -> None:
        async with service(broker) as works:
            deaf = socket.socket()
            deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
            deaf.setblocking(False)
            loop = asyncio.get_running_loop()
            await loop.sock_connect(deaf, ("127.0.0.1", broker.port))
            wanted = Subscribe("s", Filter.parse("EXISTS flood"))
            greeting = encode([Hello(VERSION, "client", "deaf", None, {})])
            await loop.sock_sendall(deaf, greeting + encode([Attach(), wanted]))
            async with (
                tidings.connect(broker.url) as client,
                client.subscribe("EXISTS flood", durable="ears") as events,
            ):
                before = broker.memory

                async def read() -> None:
                    for n in range(total):
                        event = await events.get(PATIENCE)
                        assert event["flood"] == n
                        event.ack_soon()

                reading = asyncio.create_task(read())
                large = bytes(1_000)
                for first in range(0, total, 1_000):
                    await client.publish_each(
                        {"flood": n, "x": large} for n in range(first, first + 1_000)
                    )
                    await works()
                await reading
                assert broker.memory - before < KERNELS + (60 << 20)
                await events.forget()

            splitter, heard, missed = Splitter(1 << 28), [], 0
            async with asyncio.timeout(PATIENCE):
                while len(heard) + missed < total:
                    chunk = await loop.sock_recv(deaf, 1 << 20)
                    assert chunk, "it was cut off"
                    for payload in splitter.feed(chunk):
                        for message in decode(payload):
                            if isinstance(message, Delivery):
                                heard.append(message.event.notification["flood"])
                            elif isinstance(message, Missed):
                                missed += message.count
            assert len(heard) + missed == total
            assert missed > 0
            assert heard == sorted(set(heard))
            deaf.close()

    asyncio.run(run())


@pytest.mark.slow
def test_a_publication_above_the_limit_does_not_hold_up_the_others(broker: BrokerProcess) -> None:
    async def run() -> None:
        async with tidings.connect(broker.url, wait=PATIENCE) as client:
            with pytest.raises(tidings.TidingsError, match=r"bytes|large"):
                await asyncio.wait_for(client.publish({"x": bytes(5 << 20)}), PATIENCE)
            await asyncio.wait_for(client.publish({"x": 1}), PATIENCE)

    asyncio.run(run())


@pytest.mark.slow
def test_thousands_of_idle_connections_are_no_burden(tmp_path: Path) -> None:
    count = 5_000
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < count + 500:
        pytest.skip(f"no more than {hard} files may be open here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    process = _broker(tmp_path)

    async def run() -> None:
        await process.start()
        before = process.memory
        writers: list[asyncio.StreamWriter] = []

        async def one(number: int) -> None:
            reader, writer = await asyncio.open_connection("127.0.0.1", process.port)
            writers.append(writer)
            wanted = Subscribe("s", Filter.parse(f"n = {number}"))
            hello = Hello(VERSION, "client", f"idle-{number}", None, {})
            writer.write(encode([hello]) + encode([Attach(), wanted]))
            splitter, messages = Splitter(1 << 20), []
            while not any(isinstance(m, Accepted) and m.id == "s" for m in messages):
                chunk = await reader.read(1 << 16)
                assert chunk, f"the broker has hung up: {messages}"
                for payload in splitter.feed(chunk):
                    messages += decode(payload)

        try:
            async with service(process) as works:
                for first in range(0, count, 250):
                    await asyncio.wait_for(
                        asyncio.gather(*(one(n) for n in range(first, first + 250))), PATIENCE
                    )
                await works()
                assert (await process.status()).sessions == count + 1
                assert (process.memory - before) / count < 50_000
                for writer in writers:
                    writer.transport.abort()

                async def sessions() -> int:
                    return (await process.status()).sessions

                async with asyncio.timeout(PATIENCE):
                    while await sessions() > 1:
                        await asyncio.sleep(0.02)
        finally:
            for writer in writers:
                writer.transport.abort()
        assert process.stop() == 0

    try:
        asyncio.run(run())
    finally:
        process.clean_up()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_who_expects_tls_is_told_that_there_is_none(broker: BrokerProcess) -> None:
    async def run() -> None:
        url = broker.url.replace("tidings://", "tidings+tls://")
        with pytest.raises(ConnectionFailed, match="TLS"):
            async with tidings.connect(url, tls=ssl.create_default_context()):
                pass

    asyncio.run(run())


@pytest.mark.slow
def test_who_does_not_speak_tls_is_not_let_in(tmp_path: Path) -> None:
    authority = trustme.CA()
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(
        tmp_path / "both.pem"
    )
    authority.cert_pem.write_to_path(tmp_path / "authority.pem")
    process = _broker(tmp_path, '[tls]\ncertificate = "both.pem"\nkey = "both.pem"\n')

    async def run() -> None:
        await process.start()
        encrypted = process.url.replace("tidings://", "tidings+tls://")
        async with tidings.connect(encrypted, tls=tmp_path / "authority.pem") as client:
            with pytest.raises(ConnectionFailed):
                async with tidings.connect(process.url):
                    pass
            await client.publish({"n": 1})
        assert len(process.log()) == 1
        assert process.stop() == 0

    try:
        asyncio.run(run())
    finally:
        process.clean_up()
