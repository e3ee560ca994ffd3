"""Connections: frames over one socket to one broker, from the first greeting to the end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Any, Final, cast

from tidings.protocol.requests import Refused
from tidings.protocol.wire import ACCESS, SESSION, VERSION, Splitter, WireError, decode, encode

LARGEST: Final = 1 << 28
"""Bytes of the largest frame: what announces a larger one is no broker."""
_ROOM: Final = 1 << 18
"""Bytes on their way into the socket, above which further messages wait and share frames."""


class Connection(asyncio.Protocol):
    """A connection that a broker has welcomed; made by `dialling`."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.greeting: asyncio.Future[Any] = loop.create_future()
        self.gone: asyncio.Future[str] = loop.create_future()
        """Done when the connection is, with the reason."""
        self.receive: Callable[[list[Any]], None] = lambda messages: None
        """Called with the messages of each frame."""
        self.drained: Callable[[], None] = lambda: None
        self.is_busy = False
        """Whether the socket does not take more for now; `drained` is called when it does."""
        self.is_taken_over = False
        """Whether the broker has closed it for another client of the same name."""
        self.is_denied = False
        """Whether the broker has closed it since the client may not come in at all."""
        self.version = VERSION
        """Of the wire, which both sides use: what belongs to a later one is not sent."""
        self.largest = LARGEST
        """Bytes of the largest frame that the broker takes."""
        self.heard_at = monotonic()
        self._transport = cast(asyncio.Transport, None)
        self._splitter = Splitter(LARGEST)
        self._reason = "the broker has closed the connection"

    # -- what asyncio calls --------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=_ROOM, low=_ROOM // 4)

    def data_received(self, data: bytes) -> None:
        self.heard_at = monotonic()
        if self.gone.done():
            return
        try:
            for payload in self._splitter.feed(data):
                self._take(decode(payload))
        except WireError as problem:
            self.abort(f"the broker said something strange: {problem}")

    def _take(self, messages: list[Any]) -> None:
        if not self.greeting.done() and messages:
            self.greeting.set_result(messages[0])
            messages = messages[1:]
        for message in messages:
            if isinstance(message, Refused) and message.id in ("", SESSION, ACCESS):
                self._reason = message.reason  # said before the broker closes
                self.is_taken_over = message.id == SESSION
                self.is_denied = message.id == ACCESS
        if messages:
            self.receive(messages)

    def connection_lost(self, problem: Exception | None) -> None:
        self._end(self._reason if problem is None else str(problem) or self._reason)

    def pause_writing(self) -> None:
        self.is_busy = True

    def resume_writing(self) -> None:
        self.is_busy = False
        self.drained()

    # -- what the client calls -----------------------------------------------------------------

    def send(self, messages: Sequence[Any]) -> None:
        """Send these, in one frame if that is not too large."""
        if self._transport.is_closing():
            return
        frame = encode(messages)
        if len(frame) > self.largest and len(messages) > 1:
            self.send(messages[: len(messages) // 2])
            self.send(messages[len(messages) // 2 :])
        else:
            self._transport.write(frame)

    def pause(self) -> None:
        """Read no more until `go_on`."""
        if not self._transport.is_closing():
            self._transport.pause_reading()

    def go_on(self) -> None:
        """Read again."""
        if not self._transport.is_closing():
            self._transport.resume_reading()

    def close(self) -> None:
        """Close, once everything is in the socket."""
        self._transport.close()

    def abort(self, reason: str) -> None:
        """Give it up."""
        self._end(reason)
        self._transport.abort()

    def _end(self, reason: str) -> None:
        if not self.gone.done():
            self.gone.set_result(reason)
        if not self.greeting.done():
            self.greeting.set_result(None)
