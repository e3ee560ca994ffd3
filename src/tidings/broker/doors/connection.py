"""Connections: frames in and out of one socket, and what happens if the other end does not read.

What the frames say is not known here: the owner of a connection sets `receive` and the other
callbacks. Nothing here waits; a connection that is full says so, and one that is closed swallows
what it is sent.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from math import inf
from time import monotonic
from typing import Any, Final

from tidings.broker.doors.decoding import Decoding
from tidings.broker.operations.metrics import Metrics
from tidings.protocol.requests import Refused
from tidings.protocol.wire import VERSION, Splitter, WireError, encode

_log = logging.getLogger(__name__)

_MOST_MESSAGES: Final = 1024
"""Messages that share a frame; more are split, so that no receiver gets a very large one."""
_LINGER: Final = 5.0
"""Seconds that the other end of a closed connection has to take what it was sent."""


def _nothing() -> None:
    """Do nothing, which is the default of callbacks."""


def _ignore(*_: object) -> None:
    """Do nothing, whatever it is called with."""


class Connection(asyncio.Protocol):
    """One end of a connection, accepted or dialled."""

    def __init__(
        self,
        made: Callable[[Connection], None],
        *,
        decoding: Decoding,
        frame: int,
        memory: int,
        metrics: Metrics,
    ) -> None:
        """Frames of more than `frame` bytes are refused; above `memory` bytes it is full."""
        self._decoding = decoding
        self._undecoded: deque[bytes] = deque()
        """The payload that a thread decodes, and those that came behind it."""
        self._made = made
        self.frame = frame
        self.memory = memory
        self._metrics = metrics
        self._transport: Any = None  # an asyncio.Transport, as soon as it is made
        self._splitter = Splitter(frame)
        self.address = "?"
        self.label = ""
        """Who it is, for the log."""
        self.receive: Callable[[list[Any], int], None] = _ignore
        """Called with the messages of each frame, and its size."""
        self.gone: Callable[[Connection], None] = _ignore
        self.lost: Callable[[], None] = _nothing
        self.filled: Callable[[], None] = _nothing
        self.drained: Callable[[], None] = _nothing
        self.version = VERSION
        """Of the wire, which both ends use: what belongs to a later one is not sent."""
        self.most = inf
        """If the other end leaves more bytes than this unread, it is cut off."""
        self.is_full = self.is_closing = False
        self.heard_at = monotonic()
        self.asked_at: float | None = None
        """When it was asked whether it is there, if it has said nothing since."""
        self.waited = (0, 0.0)
        """How many bytes it had to take when it was last seen to take some, and when that was."""
        self._holds = 0

    # -- what asyncio calls --------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._transport.set_write_buffer_limits(high=self.memory, low=self.memory // 4)
        peer = transport.get_extra_info("peername")
        self.address = f"{peer[0]}:{peer[1]}" if isinstance(peer, tuple) else str(peer or "?")
        self._metrics.opened += 1
        self._made(self)

    def take_over(self, transport: asyncio.Transport, size: int) -> None:
        """Go on with a transport behind a greeting of this size; nothing is read until `go_on`."""
        self._holds = 1
        self._metrics.bytes_in += size
        transport.pause_reading()
        transport.set_protocol(self)
        self.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        if self.is_closing:
            return
        self.heard_at = monotonic()
        self.asked_at = None
        self._metrics.bytes_in += len(data)
        try:
            for payload in self._splitter.feed(data):
                if not self._take(payload):
                    return
        except WireError as problem:
            self.refuse(str(problem))

    def connection_lost(self, problem: Exception | None) -> None:
        self.is_closing = True
        if isinstance(problem, ssl.SSLError):
            _log.warning("%s at %s: %s", self.label or "somebody", self.address, problem)
        self.gone(self)
        self.lost()
        self.receive = self.gone = _ignore
        self.lost = self.filled = self.drained = _nothing  # they lead back here: no cycle is left

    def pause_writing(self) -> None:
        self.is_full = True
        self.filled()

    def resume_writing(self) -> None:
        self.is_full = False
        self.drained()

    def _take(self, payload: bytes) -> bool:
        """Handle a frame; whether more may follow."""
        if self._undecoded:
            self._undecoded.append(payload)
            return True
        messages = self._decoding.at_once(payload)
        if messages is None:
            self._undecoded.append(payload)
            self._decode_apart(payload)
        else:
            self.receive(messages, len(payload))
        return not self.is_closing

    def _decode_apart(self, payload: bytes) -> None:
        """Decode a frame in a thread; what comes behind it waits, and no more is read."""
        self.hold()
        loop = asyncio.get_running_loop()

        def done(work: Future[list[Any]]) -> None:
            if not work.cancelled() and not loop.is_closed():
                loop.call_soon_threadsafe(self._decoded, work)

        self._decoding.apart(payload).add_done_callback(done)

    def _decoded(self, work: Future[list[Any]]) -> None:
        waiting, self._undecoded = self._undecoded, deque()
        if self.is_closing:
            return
        try:
            self.receive(work.result(), len(waiting.popleft()))
            may_follow = not self._is_gone
            while waiting and may_follow and not self._undecoded:
                may_follow = self._take(waiting.popleft())
        except WireError as problem:
            self.refuse(str(problem))
        self._undecoded += waiting
        self.go_on()

    # -- frames --------------------------------------------------------------------------------

    def send(self, messages: list[Any]) -> None:
        """Send these, in one frame if they fit; they may be lost with the connection."""
        if self.is_closing:
            return
        if self.is_full and self._is_too_full():
            return
        if len(messages) <= _MOST_MESSAGES:
            self._write(messages)
            return
        for first in range(0, len(messages), _MOST_MESSAGES):
            self._write(messages[first : first + _MOST_MESSAGES])

    def _write(self, messages: list[Any]) -> None:
        try:
            frame = encode(messages)
        except WireError as problem:  # a mistake of ours; the others get theirs all the same
            self.cut_off(f"cannot be sent something: {problem}")
            return
        if len(frame) > self.frame and len(messages) > 1:
            middle = len(messages) // 2
            self._write(messages[:middle])
            self._write(messages[middle:])
            return
        if not self._is_gone:
            self._metrics.bytes_out += len(frame)
            self._transport.write(frame)

    def _is_too_full(self) -> bool:
        if self.waiting < self.most:
            return False
        self.cut_off("does not read what it is sent")
        return True

    @property
    def waiting(self) -> int:
        """How many bytes it has yet to take."""
        return 0 if self._is_gone else self._transport.get_write_buffer_size()

    @property
    def _is_gone(self) -> bool:
        """Whether the other end has hung up, even if `connection_lost` is yet to be called."""
        return self.is_closing or self._transport.is_closing()

    # -- holding back, and the end -------------------------------------------------------------

    @property
    def is_held(self) -> bool:
        """Whether nothing is read."""
        return self._holds > 0

    def hold(self) -> None:
        """Read no more, until as many calls of `go_on`."""
        self._holds += 1
        if self._holds == 1 and not self._is_gone:
            self._transport.pause_reading()

    def go_on(self) -> None:
        """Read again."""
        self._holds -= 1
        if self._holds == 0 and not self._is_gone:
            self._transport.resume_reading()

    def hold_for(self, seconds: float) -> None:
        """Read no more for this time."""
        self.hold()
        asyncio.get_running_loop().call_later(seconds, self.go_on)

    def refuse(self, reason: str) -> None:
        """Say why, and close."""
        if self.is_closing:
            return
        self.log_refusal(reason)
        self.farewell(reason)

    def log_refusal(self, reason: str) -> None:
        """Note that whoever is at the other end is not listened to any longer."""
        self._metrics.refused += 1
        _log.warning(
            "refused %s at %s: %s",
            self.label or "somebody",
            self.address,
            reason,
            extra={"session": self.label},
        )

    def farewell(self, reason: str) -> None:
        """Say why, and close, with what was sent before."""
        if not self.is_closing:
            self._write([Refused("", reason)])
            self.close()

    def close(self) -> None:
        """Close, once the other end has taken what it was sent, or after a while."""
        if not self.is_closing:
            self.is_closing = True
            self._transport.close()
            asyncio.get_running_loop().call_later(_LINGER, self._transport.abort)

    def cut_off(self, why: str) -> None:
        """Close at once, with nothing more said."""
        self.is_closing = True
        _log.warning(
            "cut %s at %s off: it %s",
            self.label or "somebody",
            self.address,
            why,
            extra={"session": self.label},
        )
        self._transport.abort()

    def forget(self) -> None:
        """Close at once, and as if that had been noticed: of a connection that is given up
        while it is being made, asyncio may never speak again."""
        self.is_closing = True
        if self._transport is not None:
            self._transport.abort()
        self.connection_lost(None)
