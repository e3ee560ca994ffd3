"""Arrivals: those who have connected, until their greeting is accepted.

    accepted ──▶ SILENT ──▶ WAITING ──▶ READ ──────▶ greeted: the gate decides
                  5 s        10 s        4 KiB, 5 s      └──▶ REFUSED, and why

No arrival has shown a token yet, so none may cost much. Nothing is read of those who are silent or
wait. A few greetings of each origin are read at a time, and the others take turns. The latest
arrival has the next turn, since the one that has been here longest is likeliest to hold the others
up. A greeting that has arrived as a whole is read in no time, and needs no turn.

When too many are silent or wait, the origin that has most of them loses its oldest. So an arrival
that greets is heard, however many strangers have come before.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
import socket
import ssl
from collections import Counter
from collections.abc import Callable
from enum import Enum, auto
from time import monotonic
from typing import Any, Final, TypeAlias, cast

from tidings.broker.operations.metrics import Metrics
from tidings.events import TidingsError
from tidings.protocol.addresses import Address
from tidings.protocol.requests import Refused
from tidings.protocol.wire import LENGTH, Hello, WireError, encode, read_hello

_log = logging.getLogger(__name__)

GREETING: Final = 4096
"""Bytes of the frame of a greeting. No more is read before it is accepted."""
_SECONDS: Final = 5.0
"""Seconds until the first byte, and again until the end of the greeting, TLS included."""
_WAIT: Final = 10.0
"""Seconds to wait for a turn. Clients wait no longer for an answer."""
_TURNS: Final = 8
"""Greetings of one origin that are read at the same time."""
_ALL_TURNS: Final = 256
"""Greetings of all origins that are read at the same time."""
_BACKLOG: Final = 1024
"""Connections that the system keeps until they are accepted."""
_AT_ONCE: Final = 16
"""Connections that are accepted in one turn of the event loop."""
_PAUSE: Final = 1.0
"""Seconds without accepting after no more files could be opened."""
_LINGER: Final = 1.0
"""Seconds that a refused arrival has to take the reason."""
_TLS: Final = b"\x16"
"""The first byte of whoever speaks TLS; no greeting of a sensible length has it."""
_LINES: Final = 10
"""Refusals in a second that are logged one by one."""

Greeted: TypeAlias = Callable[[asyncio.Transport, Hello, int], Refused | None]
"""Takes the transport over, with nothing read behind a greeting of this many bytes, or refuses."""


class ArrivalStage(Enum):
    """How far an arrival is."""

    SILENT = auto()
    """It has said nothing."""
    WAITING = auto()
    """It has said something, of which nothing is read."""
    READ = auto()
    """Its greeting is read."""
    REFUSED = auto()
    """It is told why, and then closed."""
    GONE = auto()
    """It was let in, refused or lost."""


class Arrival(asyncio.BufferedProtocol):
    """One connection. As a protocol, it reads no byte beyond the greeting."""

    def __init__(self, arrivals: Arrivals, connected: socket.socket, peer: Any) -> None:
        self._arrivals = arrivals
        self.socket = connected
        self.address = str(Address(*peer[:2]))
        self.origin = origin(peer[0])
        self.stage = ArrivalStage.SILENT
        self.has_turn = False
        self.timer: asyncio.TimerHandle | None = None
        self.opening: asyncio.Task[None] | None = None
        self.transport: asyncio.Transport | None = None
        self._read = bytearray()
        self._wanted = memoryview(bytearray(LENGTH))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        if self.stage is ArrivalStage.GONE:
            self.transport.abort()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._wanted

    def buffer_updated(self, nbytes: int) -> None:
        if self.stage is not ArrivalStage.READ:
            return
        self._read += self._wanted[:nbytes]
        try:
            missing = _missing(self._read)
            if missing:
                self._wanted = memoryview(bytearray(missing))
            else:
                self._arrivals.greeted(self, read_hello(self._read[LENGTH:]), len(self._read))
        except WireError as problem:
            self._arrivals.refuse(self, str(problem))

    def connection_lost(self, problem: Exception | None) -> None:
        self._arrivals.gone(self)

    def speaks_plainly(self) -> bool:
        """Whether it has said something that does not begin TLS."""
        try:
            return self.socket.recv(1, socket.MSG_PEEK) not in (b"", _TLS)
        except OSError:
            return False

    def is_whole(self) -> bool:
        """Whether all of the greeting can be read, or enough to see that it is none."""
        try:
            return not _missing(self.socket.recv(GREETING, socket.MSG_PEEK))
        except (OSError, WireError):
            return True


def _missing(read: bytes | bytearray) -> int:
    """How many bytes to read next for a greeting of which these are the first."""
    if len(read) < LENGTH:
        return LENGTH - len(read)
    size = int.from_bytes(read[:LENGTH], "big")
    if read[:1] == _TLS:
        raise WireError("it speaks TLS, for which this broker has no certificate")
    if size > GREETING - LENGTH:
        raise WireError(
            f"a frame of {size} bytes is announced; a greeting has at most {GREETING - LENGTH}"
        )
    return max(0, LENGTH + size - len(read))


def origin(host: str) -> str:
    """Who is taken for one and the same: an IPv4 address, or 64 bits of an IPv6 address.

    >>> origin("192.0.2.7"), origin("::ffff:192.0.2.7"), origin("2001:db8:1:2:3:4:5:6")
    ('192.0.2.7', '192.0.2.7', '2001:db8:1:2::')
    """
    address = ipaddress.ip_address(host)
    if isinstance(address, ipaddress.IPv4Address):
        return host
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.IPv6Address(int(address) >> 64 << 64))


class Arrivals:
    """Accepts connections, and reads their greetings."""

    def __init__(
        self, greeted: Greeted, metrics: Metrics, *, tls: ssl.SSLContext | None, most: int
    ) -> None:
        """At most `most` connections may be silent or wait."""
        self._greeted = greeted
        self._metrics = metrics
        self._tls = tls
        self._most = most
        self._loop = asyncio.get_running_loop()
        self._listeners: list[socket.socket] = []
        self._all: set[Arrival] = set()
        self._unread: dict[Arrival, None] = {}
        """The arrivals that are silent or wait, in the order in which they have come."""
        self._crowds: Counter[str] = Counter()
        """How many silent or waiting arrivals each origin has."""
        self._turns: Counter[str] = Counter()
        """How many greetings of each origin are read."""
        self._second = 0.0
        """When the current second of refusals began."""
        self._refusals = 0
        """Refusals in that second."""

    def __len__(self) -> int:
        """How many have not greeted yet."""
        return len(self._all)

    # -- listening -----------------------------------------------------------------------------

    async def bind(self, address: Address) -> Address:
        """Take the address, but accept nothing yet. Returns the one taken if the port was 0."""
        try:
            found = await self._loop.getaddrinfo(
                *address, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )
            for family, kind, protocol, _, place in dict.fromkeys(found):
                listener = socket.socket(family, kind, protocol)
                self._listeners.append(listener)
                listener.setblocking(False)
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                listener.bind(place)
        except OSError as problem:
            self.close()
            reason = problem.strerror or str(problem)
            raise TidingsError(f"cannot listen on {address}: {reason}") from None
        return Address(*self._listeners[0].getsockname()[:2])

    def start(self) -> None:
        """Accept connections, until `close`."""
        for listener in self._listeners:
            listener.listen(_BACKLOG)
            self._loop.add_reader(listener, self._accept, listener)

    def close(self) -> None:
        """Accept nothing more, and cut off all that have not greeted."""
        listeners, self._listeners = self._listeners, []
        for listener in listeners:
            self._loop.remove_reader(listener)
            listener.close()
        for arrival in [*self._unread, *self._all]:  # in this order, none gets another's turn
            self._cut_off(arrival)

    def _accept(self, listener: socket.socket) -> None:
        for _ in range(_AT_ONCE):
            try:
                accepted, peer = listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as problem:
                _log.error("cannot accept connections for a second: %s", problem.strerror)
                self._loop.remove_reader(listener)
                self._loop.call_later(_PAUSE, self._accept_again, listener)
                return
            accepted.setblocking(False)
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._arrived(Arrival(self, accepted, peer))

    def _accept_again(self, listener: socket.socket) -> None:
        if listener in self._listeners:
            self._loop.add_reader(listener, self._accept, listener)

    # -- from stage to stage -------------------------------------------------------------------

    def _arrived(self, arrival: Arrival) -> None:
        self._all.add(arrival)
        self._unread[arrival] = None
        self._crowds[arrival.origin] += 1
        self._limit(arrival, _SECONDS, f"nobody has said Hello for {_SECONDS:g} seconds")
        self._loop.add_reader(arrival.socket, self._said_something, arrival)
        if len(self._unread) > self._most:
            [(crowd, _)] = self._crowds.most_common(1)
            oldest = next(each for each in self._unread if each.origin == crowd)
            self.refuse(oldest, f"{crowd} has too many connections that have not said Hello")

    def _said_something(self, arrival: Arrival) -> None:
        self._loop.remove_reader(arrival.socket)
        if self._tls is not None and arrival.speaks_plainly():
            self.refuse(arrival, "this broker speaks only TLS: write tidings+tls://")
        elif self._tls is None and arrival.is_whole():
            self._read(arrival)
        elif self._is_free(arrival.origin):
            self._take_turn(arrival)
        else:
            arrival.stage = ArrivalStage.WAITING
            self._limit(arrival, _WAIT, f"others of {arrival.origin} have not finished their Hello")

    def _is_free(self, origin: str) -> bool:
        return self._turns[origin] < _TURNS and self._turns.total() < _ALL_TURNS

    def _take_turn(self, arrival: Arrival) -> None:
        arrival.has_turn = True
        self._turns[arrival.origin] += 1
        self._read(arrival)

    def _end_turn(self, arrival: Arrival) -> None:
        if not arrival.has_turn:
            return
        arrival.has_turn = False
        _take_one(self._turns, arrival.origin)
        for each in reversed(self._unread):
            if each.stage is ArrivalStage.WAITING and self._is_free(each.origin):
                self._take_turn(each)
                return

    def _read(self, arrival: Arrival) -> None:
        self._no_longer_unread(arrival)
        arrival.stage = ArrivalStage.READ
        self._limit(arrival, _SECONDS, f"nobody has said Hello for {_SECONDS:g} seconds")
        arrival.opening = self._loop.create_task(self._open(arrival))

    async def _open(self, arrival: Arrival) -> None:
        more: dict[str, Any] = {} if self._tls is None else {"ssl_handshake_timeout": _SECONDS}
        try:
            await self._loop.connect_accepted_socket(
                lambda: arrival, arrival.socket, ssl=self._tls, **more
            )
        except OSError as problem:  # TLS was not agreed on, or not in time
            self.gone(arrival)
            why = str(problem) or type(problem).__name__
            self._tell(f"refused somebody at {arrival.address}: {why}")

    def _no_longer_unread(self, arrival: Arrival) -> None:
        if arrival in self._unread:
            del self._unread[arrival]
            _take_one(self._crowds, arrival.origin)

    def greeted(self, arrival: Arrival, hello: Hello, size: int) -> None:
        assert arrival.transport is not None
        arrival.transport.pause_reading()
        refused = self._greeted(arrival.transport, hello, size)
        if refused is None:
            self.gone(arrival)
        else:
            self.refuse(arrival, refused.reason, id=refused.id, who=f"{hello.role} {hello.name!r}")

    # -- the end -------------------------------------------------------------------------------

    def _limit(self, arrival: Arrival, seconds: float, reason: str) -> None:
        self._set_timer(arrival, self._loop.call_later(seconds, self.refuse, arrival, reason))

    def _set_timer(self, arrival: Arrival, timer: asyncio.TimerHandle | None) -> None:
        if arrival.timer is not None:
            arrival.timer.cancel()
        arrival.timer = timer

    def refuse(self, arrival: Arrival, reason: str, *, id: str = "", who: str = "somebody") -> None:
        """Say why an arrival cannot come in, and hang up."""
        if arrival.stage in (ArrivalStage.REFUSED, ArrivalStage.GONE):
            return
        self._metrics.refused += 1
        self._tell(f"refused {who} at {arrival.address}: {reason}")
        frame = encode([Refused(id, reason)])
        if arrival.transport is None:
            if self._tls is None or arrival.speaks_plainly():
                with contextlib.suppress(OSError):
                    arrival.socket.send(frame)
                    arrival.socket.recv(GREETING)  # what is left unread would undo the answer
            self._cut_off(arrival)
            return
        arrival.stage = ArrivalStage.REFUSED
        self._set_timer(arrival, self._loop.call_later(_LINGER, self._cut_off, arrival))
        arrival.transport.write(frame)
        arrival.transport.close()

    def _cut_off(self, arrival: Arrival) -> None:
        """Hang up with nothing more said."""
        if arrival.stage is ArrivalStage.GONE:
            return
        if arrival.transport is not None:
            arrival.transport.abort()
        else:
            if arrival.opening is None:
                self._loop.remove_reader(arrival.socket)
            else:
                arrival.opening.cancel()
            arrival.socket.close()
        self.gone(arrival)

    def gone(self, arrival: Arrival) -> None:
        """An arrival is no longer here: let in, or lost."""
        if arrival.stage is ArrivalStage.GONE:
            return
        self._no_longer_unread(arrival)
        arrival.stage = ArrivalStage.GONE
        self._set_timer(arrival, None)
        self._all.discard(arrival)
        self._end_turn(arrival)

    def _tell(self, line: str) -> None:
        """Log what strangers do, but not as fast as they can do it."""
        now = monotonic()
        if now - self._second >= 1.0:
            if self._refusals > _LINES:
                _log.warning("refused %d more within a second", self._refusals - _LINES)
            self._second, self._refusals = now, 0
        self._refusals += 1
        if self._refusals <= _LINES:
            _log.warning("%s", line)


def _take_one(counter: Counter[str], key: str) -> None:
    counter[key] -= 1
    if not counter[key]:
        del counter[key]
