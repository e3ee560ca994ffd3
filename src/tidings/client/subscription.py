"""Subscriptions: events, to be read one after another or handed to a function."""

from __future__ import annotations

import asyncio
import inspect
import logging
import warnings
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Generator
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, TypeAlias

from tidings.client.errors import (
    ClientClosed,
    SubscriptionRefused,
    SubscriptionWarning,
    TimedOut,
    cannot_go_on,
)
from tidings.client.event import Acknowledger, Event
from tidings.client.host import SessionHost
from tidings.client.reading import Reading
from tidings.client.state import SubscriptionState
from tidings.events import TidingsError

_log = logging.getLogger("tidings.client")


Callback: TypeAlias = Callable[[Event], Any]
"""A function or coroutine function that is called with each event."""


class Subscription(SubscriptionState):
    """What a client hears of a filter; made by `Client.subscribe`.

    `async for event in subscription` ends when the subscription is closed, and raises
    `SubscriptionRefused`, `CursorTooOld` or `StreamWentBack` if the broker ends it.
    """

    def __init__(
        self,
        host: SessionHost,
        reading: Reading,
        callback: Callback | None,
        *,
        siblings: set[Subscription],
    ) -> None:
        """`siblings` are the open subscriptions of the same client, among which it will be."""
        super().__init__(reading)
        self._host = host
        self._siblings = siblings
        self._callback = callback
        self._caller: asyncio.Task[None] | None = None
        self._is_open = self._is_closed = False
        reading.source = self

    async def open(self) -> Subscription:
        """Begin; returns when the broker has. `async with` does it.

        It is a `SubscriptionWarning` if the broker finds something odd about it.
        """
        host, reading = self._host, self._reading
        if not self._is_open:
            host.check()
            self._is_open = True
            self._siblings.add(self)
            host.session.subscribe(reading)
            host.soon()
        try:
            while not reading.is_started and reading.ending is None:
                await host.wait(reading)
            while reading.warnings:
                warnings.warn(reading.warnings.popitem()[0], SubscriptionWarning, stacklevel=2)
        except BaseException:
            await self.close()
            raise
        if not reading.is_started and not reading.inbox:
            self._siblings.discard(self)
            raise self._ending()
        # Else what was told of some streams, before it ended for another one, is to be read first:
        # the cursor where it could go on lies behind it.
        if self._callback is not None and self._caller is None:
            self._caller = asyncio.create_task(self._call(self._callback))
        return self

    def __await__(self) -> Generator[Any, None, Subscription]:
        return self.open().__await__()

    async def __aenter__(self) -> Subscription:
        return await self.open()

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Hear no more. A durable subscription goes on later behind what is acknowledged."""
        await self._close(forget=False)

    async def forget(self) -> None:
        """Hear no more, and let the broker forget how far a durable subscription is."""
        host = self._host
        while not host.is_connected:
            host.check()
            await host.wait(host.session.outbox)
        await self._close(forget=True)
        await host.all_heard()

    async def _close(self, *, forget: bool) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        self._host.session.unsubscribe(self._reading, forget=forget)
        self._siblings.discard(self)
        self._host.soon()
        self._host.wake(self._reading)
        if self._caller is not None and self._caller is not asyncio.current_task():
            self._caller.cancel()
            with suppress(asyncio.CancelledError):
                await self._caller

    # -- events --------------------------------------------------------------------------------

    async def get(self, timeout: float | None = None) -> Event:
        """The next event; `TimedOut` if there is none for `timeout` seconds.

        `ClientClosed` once the subscription is closed.
        """
        if self._reading.inbox:
            return self._next()
        async with within(timeout):
            if await self._more():
                return self._next()
        raise ClientClosed("the subscription is closed")

    def __aiter__(self) -> AsyncIterator[Event]:
        return self

    async def __anext__(self) -> Event:
        if self._reading.inbox or await self._more():
            return self._next()
        raise StopAsyncIteration

    async def until_live(self) -> AsyncGenerator[Event, None]:
        """The events until it has caught up: all that is kept, and then the end."""
        while self._reading.inbox or await self._more(or_live=True):
            yield self._next()

    async def take(self, most: int = 1_000, *, or_live: bool = False) -> list[Event]:
        """The events that wait to be read, at least one; none at the end.

        With `or_live`, none also as soon as it has caught up.
        """
        inbox = self._reading.inbox
        if not inbox and not await self._more(or_live=or_live):
            return []
        taken = [inbox.popleft() for _ in range(min(most, len(inbox)))]
        self._host.has_read(self._reading)
        return taken

    def _next(self) -> Event:
        event = self._reading.inbox.popleft()
        self._host.has_read(self._reading)
        return event

    async def _more(self, *, or_live: bool = False) -> bool:
        """Wait until an event can be read; False at the end."""
        reading, host = self._reading, self._host
        if not self._is_open:
            raise ClientClosed("the subscription has not begun: use `async with`, or await it")
        while not reading.inbox:
            if self._is_closed or (or_live and reading.is_live):
                return False
            if reading.ending is not None:
                raise self._ending()
            host.check()
            await host.wait(reading)
        return True

    def _ending(self) -> TidingsError:
        assert self._reading.ending is not None
        said = self._reading.ending
        if said.cursor is not None:
            return cannot_go_on(said)
        return SubscriptionRefused(said.reason)

    # -- acknowledgements ----------------------------------------------------------------------

    def acknowledge_through(self, source: Acknowledger) -> None:
        """Hand out events that are acknowledged to this, which passes it on, and not to `self`."""
        self._reading.source = source

    def acknowledge(self, event: Event) -> Awaitable[None]:
        """What `Event.ack` does: it is begun at once, and done when it was awaited."""
        self.acknowledge_soon(event)
        return _Kept(partial(self._until_kept, event.sequence))

    def acknowledge_soon(self, event: Event) -> None:
        """What `Event.ack_soon` does."""
        self._reading.acknowledge_soon(event)
        self._host.has_acknowledged(self._reading)

    async def _until_kept(self, sequence: int) -> None:
        """Wait until the broker has on disk that everything up to an event is acknowledged."""
        reading, host = self._reading, self._host
        if reading.durable is None:
            return
        while reading.kept < sequence:
            if reading.ending is not None:
                raise self._ending()
            if self._is_closed:
                raise ClientClosed("the subscription was closed before this was acknowledged")
            host.check()
            if reading.is_due:
                host.hurry(reading)
            await host.wait(reading)

    # -- the callback --------------------------------------------------------------------------

    async def _call(self, callback: Callback) -> None:
        try:
            async for event in self:
                try:
                    result = callback(event)
                    if inspect.isawaitable(result):
                        await result
                except Exception:
                    _log.exception("the callback of a subscription failed at event %s", event.id)
        except TidingsError as problem:
            if not self._is_closed and not isinstance(problem, ClientClosed):
                _log.error("a subscription has ended: %s", problem)


class _Kept:
    """Awaited to know that an acknowledgement is kept."""

    __slots__ = ("_until_kept",)

    def __init__(self, until_kept: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._until_kept = until_kept

    def __await__(self) -> Generator[Any, None, None]:
        return self._until_kept().__await__()


@asynccontextmanager
async def within(seconds: float | None) -> AsyncGenerator[None, None]:
    """What is done here takes no longer than this, else it is `TimedOut`; None: it may."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError:
        raise TimedOut(f"it has not come within {seconds:g} seconds") from None
