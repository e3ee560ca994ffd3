"""Places: where the streams are, as a broker tells it to a client that only asks.

Both questions are subscriptions that end as soon as they are answered. They need no more than
the connection that every client has, and leave nothing behind at the broker.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple, TypeVar

from tidings.client import Client, ConnectionFailed, Login
from tidings.events import Filter, TidingsError
from tidings.protocol.cursors import read_cursor
from tidings.protocol.requests import Cursor

_T = TypeVar("_T")

_LATER: Final = datetime(9000, 1, 1, tzinfo=UTC)
"""What comes after this is behind the end of every stream. Unlike to begin now, which is where the
broker's knowledge of other streams ends, it has each stream itself asked."""
_ROOM: Final = 1_000_000
"""Events of a near stream that may wait until a far one has begun. With less room, the subscription
would be given up meanwhile and made again, and the far one asked again."""


def ends(login: Login) -> Cursor:
    """The last tick of every stream that can be reached: all up to it is on disk."""
    return _ask(login, ends_known_to)


def ends_at(login: Login) -> tuple[str, Cursor]:
    """The name of the broker, and the last tick of every stream that can be reached."""

    async def ask(client: Client) -> tuple[str, Cursor]:
        last = await ends_known_to(client)
        while not client.broker:  # it has gone meanwhile; the answer waits until it is back
            last = await ends_known_to(client)
        return client.broker, last

    return _ask(login, ask)


async def ends_known_to(client: Client) -> Cursor:
    """The last tick of every stream that can be reached, asked by a client that is open."""
    return (await _silence(client)).ticks


class Ends(NamedTuple):
    """Where the streams end, and what of them was promised there."""

    ticks: Cursor
    """The last tick of every stream that can be reached."""
    complete: dict[str, float]
    """For some of them, a time: whatever is earlier lies up to that tick, for good."""


async def ends_promised_to(client: Client) -> Ends:
    """The same, with the times below which the streams are complete.

    Asked for once, the broker promises times for as long as the client is connected.
    """
    return await _silence(client, times=True)


async def _silence(client: Client, *, times: bool = False) -> Ends:
    async with client.subscribe(Filter.none(), since=_LATER, times=times) as silence:
        async for _ in silence.until_live():
            pass
        return Ends(read_cursor(silence.cursor), silence.complete)


def ticks_before(login: Login, since: float, streams: Iterable[str]) -> Cursor:
    """Of each stream, the tick behind which lies what was published from a time on.

    Time 0 is the beginning: what is kept of the streams. A stream that cannot be reached, or no
    longer, is left out.
    """
    wanted = set(streams)
    if not wanted:
        return {}

    async def ask(client: Client) -> Cursor:
        last = await ends_known_to(client)
        begin = "begin" if since <= 0 else datetime.fromtimestamp(since, UTC)
        found: Cursor = {}
        asked = last.keys() & wanted
        async with client.subscribe(Filter.all(), since=begin, queue=_ROOM) as events:
            while some := await events.take(or_live=True):
                for event in some:
                    found.setdefault(event.stream, event.tick - 1)
                if not events.waiting and asked <= _placed(found, events.cursor, last):
                    break
            # One that has gone meanwhile is not waited for: of where it begins, nothing is known.
            asked &= _placed(found, events.cursor, last)
        return {s: min(last[s], found.get(s, last[s])) for s in asked}

    return _ask(login, ask)


def _placed(found: Cursor, told: str, last: Cursor) -> set[str]:
    """The streams that have an event, or were told up to their end: then they have none."""
    cursor = read_cursor(told)
    return {s for s, end in last.items() if s in found or cursor.get(s, 0) >= end}


def _ask(login: Login, question: Callable[[Client], Coroutine[Any, Any, _T]]) -> _T:
    async def asked() -> _T:
        client = await login.client()
        try:
            async with asyncio.timeout(login.timeout):
                return await question(client)
        finally:
            await client.close(within=1.0)

    try:
        return asyncio.run(asked())
    except ConnectionFailed:  # which may be a TimeoutError, too, and is worth another try
        raise
    except TimeoutError:
        raise TidingsError(
            f"the broker at {login.url} has not said within {login.timeout:g} seconds where "
            "its streams are"
        ) from None
