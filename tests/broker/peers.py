"""Brokers in this process, and whoever talks to them, over real sockets."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import uvloop

from tidings.broker.configuration import Configuration
from tidings.broker.server import Broker
from tidings.events import Filter, Notification
from tidings.protocol.addresses import Address
from tidings.protocol.requests import Accepted, Attach, Publish, Subscribe
from tidings.protocol.wire import (
    VERSION,
    Delivery,
    Hello,
    Message,
    Splitter,
    Welcome,
    decode,
    encode,
)

T = TypeVar("T")
PATIENCE = 10.0


def on_loop(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Run an async test on the loop that brokers run on, and not for ever."""

    @wraps(test)
    def run(*arguments: Any, **named: Any) -> None:
        async def whole() -> None:
            async with asyncio.timeout(3 * PATIENCE):
                await test(*arguments, **named)

        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(whole())

    return run


def configured(folder: Path, text: str = "", **changes: Any) -> Configuration:
    """A configuration for tests: any port, a store in a folder."""
    usual = {
        "listen": "127.0.0.1:0",
        "drain": 2.0,
        "store": str(folder / changes.get("name", "store")),
    }
    return Configuration.parse(text, **{**usual, **changes})


class Peer:
    """Says what it is told to, and remembers what it hears."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.heard: list[Message] = []
        self._splitter = Splitter(1 << 28)
        self._next = 0
        self._delivered: list[Delivery] = []

    def say(self, *messages: Message) -> None:
        self.writer.write(encode(messages))

    async def hear(self) -> Message | None:
        """The next message, or None once the broker has hung up."""
        while self._next == len(self.heard):
            try:
                async with asyncio.timeout(PATIENCE):
                    chunk = await self.reader.read(1 << 16)
            except ConnectionResetError:
                return None
            if not chunk:
                return None
            for payload in self._splitter.feed(chunk):
                messages = decode(payload)
                self.heard.extend(messages)
                self._delivered.extend(m for m in messages if isinstance(m, Delivery))
        self._next += 1
        return self.heard[self._next - 1]

    async def until(self, kind: type[T]) -> T:
        """The next message of a kind; what comes before it is passed over."""
        while True:
            message = await self.hear()
            assert message is not None, f"hung up before {kind.__name__}: {self.heard}"
            if isinstance(message, kind):
                return message

    async def rest(self) -> list[Message]:
        """All that comes until the broker hangs up."""
        found = []
        while (message := await self.hear()) is not None:
            found.append(message)
        return found

    async def greet(self, name: str = "", **more: Any) -> Message | None:
        self.say(Hello(VERSION, more.pop("role", "client"), name, **more))
        return await self.hear()

    async def attach(self, name: str = "", **more: Any) -> None:
        assert isinstance(await self.greet(name, **more), Welcome)
        self.say(Attach())
        accepted = await self.until(Accepted)
        assert accepted.id == "attach"

    async def subscribe(self, filter: str, id: str = "s", **more: Any) -> None:
        self.say(Subscribe(id, Filter.parse(filter), **more))
        while (await self.until(Accepted)).id != id:
            pass

    def publish(self, number: int, *events: dict[str, Any]) -> None:
        self.say(Publish(number, tuple(map(Notification, events))))

    async def published(self, number: int, *events: dict[str, Any]) -> None:
        """Publish, and wait until that is kept."""
        self.publish(number, *events)
        last = number + len(events) - 1
        while True:
            accepted = await self.until(Accepted)
            if accepted.id == "publish" and accepted.number >= last:
                return

    async def deliveries(self, count: int) -> list[dict[str, Any]]:
        """The next events, even those that were passed over in waiting for something else."""
        while len(self._delivered) < count:
            await self.until(Delivery)
        found, self._delivered = self._delivered[:count], self._delivered[count:]
        return [dict(each.event.notification) for each in found]

    async def close(self) -> None:
        self.writer.close()
        with suppress(OSError, ssl.SSLError):
            await self.writer.wait_closed()


@asynccontextmanager
async def connected(
    to: Broker | Address, *, trust: ssl.SSLContext | None = None, limit: int = 1 << 16
) -> AsyncIterator[Peer]:
    address = to.address if isinstance(to, Broker) else to
    reader, writer = await asyncio.open_connection(
        *address, ssl=trust, limit=limit, server_hostname="localhost" if trust else None
    )
    peer = Peer(reader, writer)
    try:
        yield peer
    finally:
        await peer.close()


async def eventually(condition: Callable[[], object]) -> None:
    """Wait until something holds."""
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await asyncio.sleep(0.005)
