"""Status: what a broker tells about itself to all who may connect, and how to ask it.

The question is an option of Hello and the answer is the only message, instead of Welcome. So
it needs no session, leaves no trace in the node, and can be asked of a broker in any trouble.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from typing import Final

import msgspec

from tidings.client.tls import tls_trouble
from tidings.events import TidingsError
from tidings.protocol.addresses import Address
from tidings.protocol.requests import Refused
from tidings.protocol.wire import Splitter, WireError, encode, greeting

ASK: Final = "ask"
"""The option of Hello by which a client asks for the status."""
_LARGEST: Final = 64 << 20
"""Bytes of an answer, at most."""
_CHUNK: Final = 1 << 16
"""Bytes that are read at once."""


class LinkStatus(msgspec.Struct, frozen=True):
    """One neighbour, as its broker sees it."""

    name: str
    is_up: bool
    is_in_tree: bool
    queue: int
    """Messages that it has not acknowledged."""
    waiting: int
    """Bytes that the connection has not taken."""
    subscriptions: int
    """Filters that it wants matched."""
    advertisements: int
    address: str | None = None
    role: str = "peer"
    """`peer`, or `parent` or `child` in a hierarchy: what the neighbour is to the broker."""


class StreamStatus(msgspec.Struct, frozen=True):
    """How far a stream has come at a broker."""

    path: tuple[str, ...]
    """The brokers on the way from its own."""
    upto: int


class PrincipalStatus(msgspec.Struct, frozen=True):
    """What the clients of one principal have left in a broker's store."""

    name: str
    durables: int
    """Durable subscriptions."""
    publishers: int
    """Names under which they have published."""
    idle: int
    """Durable subscriptions that were not used for 60 days; after 90 they are forgotten."""
    names: tuple[str, ...]
    """Names of some durable subscriptions that were not used for 60 days."""


class LakeStatus(msgspec.Struct, frozen=True):
    """The lake that keeps what its broker lets go of."""

    folder: str
    upto: int | None
    """The tick up to which it has the broker's stream; None if that is not known."""
    trouble: str | None
    """Why nothing is let go of, if that is so."""


class Status(msgspec.Struct, frozen=True, array_like=True, tag=64):
    """What a broker says about itself."""

    broker: str
    version: str
    address: str
    uptime: float
    first: int
    """The first tick of its current stream that is kept."""
    last: int
    """The last tick of its current stream."""
    size: int
    """Bytes of its store."""
    trouble: str | None
    sessions: int
    connections: int
    subscriptions: int
    """Filters that its clients want matched."""
    links: tuple[LinkStatus, ...]
    streams: dict[str, StreamStatus]
    rates: dict[str, float]
    """Events and bytes in a second, over the last few seconds."""
    lake: LakeStatus | None = None
    stream: str = ""
    """Its current stream, in which clients publish."""
    warnings: tuple[str, ...] = ()
    """Sentences that the people who run it should know."""
    ignored: int | None = None
    """Events that should have been statistics and were not; None if it does not learn from any."""
    principals: tuple[PrincipalStatus, ...] = ()
    """Principals whose clients have left something in the store."""
    durables: int = 0
    """Durable subscriptions that a principal may have."""
    publishers: int = 0
    """Names under which the clients of a principal may have published."""


_DECODER: Final = msgspec.msgpack.Decoder(list[Status | Refused])


async def ask(
    address: Address,
    *,
    token: str | None = None,
    trust: ssl.SSLContext | None = None,
    within: float = 5.0,
) -> Status:
    """What the broker there says about itself; `TidingsError` if it does not."""
    try:
        async with asyncio.timeout(within):
            return await _ask(address, token, trust)
    except TimeoutError:
        raise TidingsError(f"{address} has not answered for {within:g} seconds") from None
    except ssl.SSLError as problem:
        raise TidingsError(f"{address}: {tls_trouble(problem)}") from None
    except OSError as problem:
        reason = problem.strerror or str(problem)
        raise TidingsError(f"nobody can be reached at {address}: {reason}") from None


async def _ask(address: Address, token: str | None, trust: ssl.SSLContext | None) -> Status:
    reader, writer = await asyncio.open_connection(*address, ssl=trust)
    try:
        writer.write(encode([greeting("client", "", token, {ASK: "status"})]))
        splitter = Splitter(_LARGEST)
        payloads: list[bytes] = []
        while not payloads:
            chunk = await reader.read(_CHUNK)
            if not chunk:
                why = ", as it does if it does not trust a certificate that it is shown"
                raise TidingsError(
                    f"{address} hung up without an answer{'' if trust is None else why}"
                )
            payloads = splitter.feed(chunk)
        return _read(payloads[0], address)
    finally:
        writer.close()


def _read(payload: bytes, address: Address) -> Status:
    try:
        answer = _DECODER.decode(payload)[0]
    except (msgspec.MsgspecError, WireError, IndexError):
        raise TidingsError(f"what answers at {address} is no broker of this version") from None
    if isinstance(answer, Refused):
        raise TidingsError(answer.reason)
    return answer


class Rates:
    """How fast numbers rise, over the last few samples."""

    def __init__(self, *, samples: int = 5) -> None:
        self._samples: list[tuple[float, Mapping[str, float]]] = []
        self._most = samples

    def sample(self, now: float, numbers: Mapping[str, float]) -> None:
        """Take note of what they are now."""
        self._samples.append((now, numbers))
        del self._samples[: -self._most]

    def rates(self) -> dict[str, float]:
        """The rise of each number in a second, by its name.

        >>> rates = Rates()
        >>> rates.sample(0.0, {"events": 0})
        >>> rates.sample(2.0, {"events": 10})
        >>> rates.rates()
        {'events': 5.0}
        """
        if len(self._samples) < 2:
            return {}
        (begin, before), (end, after) = self._samples[0], self._samples[-1]
        span = max(end - begin, 1e-9)
        return {name: (after[name] - before[name]) / span for name in after}
