"""Our own tongue, spoken from a raw socket: what `wire` says, heard only as far as it matters."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from msgspec import Raw
from msgspec.msgpack import Decoder

from tidings.events import Filter, Notification
from tidings.protocol.requests import (
    Accepted,
    Acknowledge,
    Attach,
    Interest,
    Missed,
    Progress,
    Publish,
    Refused,
    Resend,
    Subscribe,
)
from tidings.protocol.wire import VERSION, Hello, Ping, Pong, Splitter, Welcome, encode

_LARGEST = 1 << 28
_BATCH = 500
"""Subscriptions that are asked for in one frame."""


class _Place(msgspec.Struct, array_like=True, tag=40, gc=False):
    """An event, but for what it says."""

    stream: str
    tick: int
    notification: Raw


class Heard(msgspec.Struct, array_like=True, tag=22, gc=False):
    """A delivery, with as little of it decoded as an index of subscriptions would need."""

    event: _Place
    ids: tuple[str, ...]


messages = Decoder(
    list[Heard | Accepted | Refused | Resend | Progress | Missed | Interest | Ping | Pong | Welcome]
).decode
"""The messages of a payload from a broker."""


class Line:
    """A connection to a broker, for asking and waiting; then to be given to a crowd."""

    def __init__(self, port: int, name: str) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._splitter = Splitter(_LARGEST)
        self.say([Hello(VERSION, "client", name)])
        self.say([Attach()])
        self.wait_for({"attach"})

    def say(self, messages: Sequence[Any]) -> None:
        self.socket.sendall(encode(messages))

    def hear(self, timeout: float | None = None) -> list[Any]:
        """What has come, or comes within this many seconds."""
        self.socket.settimeout(timeout)
        try:
            chunk = self.socket.recv(1 << 18)
        except TimeoutError:
            return []
        if not chunk:
            raise RuntimeError("the broker has closed a connection")
        return [m for payload in self._splitter.feed(chunk) for m in messages(payload)]

    def wait_for(self, ids: set[str]) -> float:
        """Until all of these are accepted; returns when that was, by the monotonic clock."""
        open_ = set(ids)
        while open_:
            for message in self.hear(60.0):
                if isinstance(message, Refused):
                    raise RuntimeError(f"{message.id} was refused: {message.reason}")
                if isinstance(message, Accepted):
                    open_.discard(message.id)
        return time.monotonic()

    def subscribe(self, filters: Iterable[tuple[str, Filter]], *, durable: bool) -> None:
        """Ask for all of these, and wait until they have started."""
        pairs = list(filters)
        for first in range(0, len(pairs), _BATCH):
            some = pairs[first : first + _BATCH]
            self.say([Subscribe(i, f, durable=i if durable else None) for i, f in some])
            self.wait_for({i for i, _ in some})


class Ear:
    """Counts the deliveries of a connection, by subscription; acknowledges them if it should."""

    def __init__(self, *, acknowledges: bool = False) -> None:
        self._splitter = Splitter(_LARGEST)
        self._acknowledges = acknowledges
        self._last: dict[str, int] = {}
        self._stream = ""
        self.missed = 0
        self.kept = 0
        """Up to this number publications are kept."""

    def hear(self, chunk: bytes) -> tuple[int, int]:
        count = 0
        for payload in self._splitter.feed(chunk):
            for message in messages(payload):
                if message.__class__ is Heard:
                    ids = message.ids
                    count += len(ids)
                    if self._acknowledges:
                        place = message.event
                        self._stream = place.stream
                        for id in ids:
                            self._last[id] = place.tick
                else:
                    self._note(message)
        return count, count

    def _note(self, message: Any) -> None:
        if isinstance(message, Accepted):
            self.kept = message.number
        elif isinstance(message, Missed):
            self.missed += message.count
        elif isinstance(message, Refused):
            raise RuntimeError(f"{message.id} was refused: {message.reason}")

    def due(self, now: float) -> bytes:
        if not self._last:
            return b""
        last, self._last = self._last, {}
        return encode([Acknowledge(id, {self._stream: tick}) for id, tick in last.items()])


def publications(notifications: Sequence[Notification], first: int, batch: int) -> list[bytes]:
    """Frames of this many notifications each; the first of them has the number `first`."""
    return [
        encode([Publish(first + at, tuple(notifications[at : at + batch]))])
        for at in range(0, len(notifications), batch)
    ]
