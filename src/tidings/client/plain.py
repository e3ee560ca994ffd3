"""The plain client: the same verbs without `await`, for programs without asyncio.

An asyncio client runs in a thread of its own; calls from any thread are passed on to it. Events
come over many at a time.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from concurrent.futures import Future
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, Literal, TypeVar

from tidings.client.client import Client, connect
from tidings.client.dialling import OnStatus
from tidings.client.errors import ClientClosed
from tidings.client.event import DONE, Event
from tidings.client.outbox import Limits
from tidings.client.positions import Beginning
from tidings.client.reading import Told
from tidings.client.receipts import OnRefused
from tidings.client.subscription import Subscription
from tidings.client.tls import Tls
from tidings.events import Filter, Notification, TidingsError
from tidings.protocol.addresses import DEFAULT_URL

_T = TypeVar("_T")
_HANDED_OVER: Final = 4_096
"""So many notifications wait at most to be taken over by the other thread."""
_LAST_WORDS: Final = 1.0
"""Seconds for what was asked when the client was closed."""


def connect_sync(
    url: str = DEFAULT_URL,
    *,
    token: str | None = None,
    name: str | None = None,
    tls: Tls = None,
    wait: float = 0.0,
    on_status: OnStatus | None = None,
    limits: Limits | None = None,
) -> PlainClient:
    """A plain client; use it with `with`. The arguments are those of `connect`.

    `on_status` and callbacks of subscriptions are called in the client's own thread.
    """
    return PlainClient(
        connect(url, token=token, name=name, tls=tls, wait=wait, on_status=on_status, limits=limits)
    )


class PlainClient:
    """A client whose verbs return when they are done; made by `connect_sync`."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        """Held while something is begun, or nothing more can be."""

    def open(self) -> PlainClient:
        """Connect; `with` does it."""
        if self._loop is None:
            self._loop = _new_loop()
            self._thread = threading.Thread(
                target=self._loop.run_forever, name="tidings client", daemon=True
            )
            self._thread.start()
            try:
                self._run(self._client.open())
            except BaseException:
                self._stop()
                raise
        return self

    def __enter__(self) -> PlainClient:
        return self.open()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Take leave: wait until all is published and acknowledged, at most ten seconds."""
        self._check_thread()
        try:
            with suppress(ClientClosed):  # it may be closed, or have never been open
                self._run(self._client.close())
        finally:  # also if it is interrupted
            self._stop()

    def _stop(self) -> None:
        with self._lock:
            thread, self._thread = self._thread, None
        if self._loop is None or thread is None:
            return
        self._loop.call_soon_threadsafe(self._loop.stop)
        thread.join()
        self._loop.run_until_complete(_answered())
        self._loop.close()

    def _run(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Have the other thread do something, and wait for it."""
        try:
            self._check_thread()
        except TidingsError:
            work.close()
            raise
        future = self._begin(work)
        try:
            return future.result()
        except BaseException:  # an interrupt, perhaps
            future.cancel()
            raise

    def _check_thread(self) -> None:
        """`TidingsError` to whoever would wait here for ever."""
        if threading.current_thread() is self._thread:
            raise TidingsError(
                "a callback cannot wait for the client that calls it; have another thread do this"
            )

    def _begin(self, work: Coroutine[Any, Any, _T]) -> Future[_T]:
        """Have the other thread do something."""
        with self._lock:
            try:
                return asyncio.run_coroutine_threadsafe(work, self._opened())
            except ClientClosed:
                work.close()
                raise

    def _soon(self, callback: Callable[[], None]) -> None:
        """Have the other thread call something."""
        with self._lock:
            self._opened().call_soon_threadsafe(callback)

    def _opened(self) -> asyncio.AbstractEventLoop:
        if self._loop is None or self._thread is None:
            raise ClientClosed("the client is not open: use `with`, or open it")
        return self._loop

    # -- verbs ---------------------------------------------------------------------------------

    @property
    def is_connected(self) -> bool:
        """Whether there is a connection now. While there is none, everything waits for one."""
        return self._client.is_connected

    @property
    def name(self) -> str:
        """The name of the session."""
        return self._client.name

    @property
    def broker(self) -> str:
        """The name of the broker, or nothing while there is no connection."""
        return self._client.broker

    @property
    def kept(self) -> int:
        """How many notifications the broker has kept of this session's name, in all its life."""
        return self._client.kept

    @property
    def refusals(self) -> dict[int, str]:
        """Numbers that the broker has refused to an earlier client; see `Client.refusals`."""
        return self._client.refusals

    @property
    def largest(self) -> int:
        """The broker takes no notification of more bytes than this."""
        return self._client.largest

    @property
    def lake(self) -> str | None:
        """The folder of a lake that has what its broker no longer keeps, if it has told of one."""
        return self._client.lake

    @property
    def principal(self) -> str:
        """Who the broker takes this client for."""
        return self._client.principal

    def advertise(self, filter: Filter | str, timeout: float | None = None) -> None:
        """Say what this client will publish, so that it is carried only where it is wanted.

        `TimeoutError` if the broker does not answer for so many seconds.
        """

        async def advertised() -> None:
            async with asyncio.timeout(timeout):
                await self._client.advertise(filter)

        self._run(advertised())

    def unadvertise(self, filter: Filter | str) -> None:
        """Take an advertisement back."""
        self._run(self._client.unadvertise(filter))

    def publish(self, notification: Notification | Mapping[str, Any]) -> int:
        """Say what happened. Returns when it is on the broker's disk, with its number."""
        return self._run(self._client.publish(notification))

    def publish_many(
        self,
        notifications: Iterable[Notification | Mapping[str, Any]],
        *,
        on_refused: OnRefused | None = None,
    ) -> int:
        """Publish all of them, many at a time; see `Client.publish_many`.

        The iterable is read in the calling thread, and may wait: each notification is sent as
        soon as it is there.
        """
        self._check_thread()
        belt = _Belt(self._opened())
        work = self._begin(self._client.publish_many(belt.items(), on_refused=on_refused))
        work.add_done_callback(lambda _: belt.stop())
        try:
            for notification in notifications:
                if not belt.put(notification):
                    break
        finally:
            belt.end()
        return work.result()

    def publish_soon(
        self, notifications: Sequence[Notification], *, on_refused: OnRefused | None = None
    ) -> Future[int]:
        """Begin to publish all of them, and return at once; see `Client.publish_many`.

        The future knows how many are kept, when all of them are. `on_refused` is called in the
        client's own thread.
        """
        return self._begin(self._client.publish_many(notifications, on_refused=on_refused))

    def leave_out(self, number: int) -> None:
        """Give notifications from now on numbers above this one; see `Client.leave_out`."""

        async def left_out() -> None:
            self._client.leave_out(number)

        self._run(left_out())

    def flush(self) -> None:
        """Wait until all that was published is kept, and the broker knows what is acknowledged."""
        self._run(self._client.flush())

    def interest(self, filter: Filter | str) -> Iterator[bool]:
        """Whether anybody wants something that the filter matches: now, and at each change."""
        interest = self._client.interest(filter)
        try:
            while True:
                yield self._run(_following(interest))
        finally:
            with suppress(ClientClosed):  # it ended with the client
                self._run(_ended(interest))

    def acknowledge(self, durable: str, cursor: Mapping[str, int], *, owner: str) -> None:
        """A durable subscription that nobody reads now has been told of all up to a cursor."""
        self._run(self._client.acknowledge(durable, cursor, owner=owner))

    def forget(self, durable: str) -> bool:
        """Let the broker forget a durable subscription; see `Client.forget`."""
        return self._run(self._client.forget(durable))

    def subscribe(
        self,
        filter: Filter | str,
        *,
        durable: str | None = None,
        since: Beginning = None,
        replace: bool = False,
        home: Literal["here"] | None = None,
        callback: Callable[[Event], Any] | None = None,
        queue: int = 10_000,
        told: Told | None = None,
        bulk: str | None = None,
    ) -> PlainSubscription:
        """Hear what the filter matches, from now on; see `Client.subscribe`.

        It has begun when this returns. Close it, or use it with `with`.
        """
        subscription = self._client.subscribe(
            filter,
            durable=durable,
            since=since,
            replace=replace,
            home=home,
            callback=callback,
            queue=queue,
            told=told,
            bulk=bulk,
        )
        return PlainSubscription(self, subscription)


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:  # there is none for every platform
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


async def _answered() -> None:
    """Whoever has asked at the last moment hears that the client is closed."""
    await asyncio.sleep(0)
    others = asyncio.all_tasks() - {asyncio.current_task()}
    if others:
        _, left = await asyncio.wait(others, timeout=_LAST_WORDS)
        for task in left:
            task.cancel()


async def _following(iterator: AsyncIterator[_T]) -> _T:
    return await anext(iterator)


async def _ended(generator: AsyncGenerator[Any, None]) -> None:
    await generator.aclose()


class PlainSubscription:
    """What a plain client hears of a filter; `for event in subscription` reads it."""

    def __init__(self, client: PlainClient, subscription: Subscription) -> None:
        self._client = client
        self._subscription = subscription
        self._taken: deque[Event] = deque()
        self._last: Event | None = None
        if subscription._callback is None:
            subscription._reading.source = self
        client._run(subscription.open())

    def __enter__(self) -> PlainSubscription:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Hear no more. A durable subscription goes on later behind what is acknowledged."""
        if self._client._thread is not None:  # else it ended with the client
            self._client._run(self._subscription.close())

    def forget(self) -> None:
        """Hear no more, and let the broker forget how far a durable subscription is."""
        self._client._run(self._subscription.forget())

    @property
    def filter(self) -> Filter:
        """What it hears."""
        return self._subscription.filter

    @property
    def is_live(self) -> bool:
        """Whether it has been told all that was published before, as far as can be known."""
        return self._subscription.is_live

    @property
    def missed(self) -> int:
        """How many events it was not told of since nobody read the ones before; only if live.

        Where `lost` is above 0, there may be up to so many more.
        """
        return self._subscription.missed

    @property
    def lost(self) -> int:
        """How many ticks brokers no longer kept when it was to be told of them; only if live.

        How many of them were events that it wants, nobody can say.
        """
        return self._subscription.lost

    @property
    def doubted(self) -> int:
        """How often a broker has found its memory damaged: each time, what was told before may
        lack events or repeat some. To be certain, begin anew from an earlier cursor."""
        return self._subscription.doubted

    @property
    def waiting(self) -> int:
        """How many events wait to be read."""
        return len(self._taken) + self._subscription.waiting

    @property
    def cursor(self) -> str:
        """How far it was told, for `since`. Events that wait to be read lie before it."""
        return self._subscription.cursor

    def get(self, timeout: float | None = None) -> Event:
        """The next event; `TimeoutError` if there is none for so many seconds."""
        if not self._taken and not self._take(timeout):
            raise ClientClosed("the subscription is closed")
        return self._taken.popleft()

    def __iter__(self) -> Iterator[Event]:
        while self._taken or self._take():
            yield self._taken.popleft()

    def until_live(self) -> Iterator[Event]:
        """The events until it has caught up: all that is kept, and then the end."""
        while self._taken or self._take(or_live=True):
            yield self._taken.popleft()

    def _take(self, timeout: float | None = None, *, or_live: bool = False) -> bool:
        async def taken() -> list[Event]:
            async with asyncio.timeout(timeout):
                return await self._subscription.take(or_live=or_live)

        self._taken.extend(self._client._run(taken()))
        return bool(self._taken)

    def acknowledge(self, event: Event) -> Awaitable[None]:
        """What `Event.ack` does: it returns when it is done."""

        async def acknowledged() -> None:
            await self._subscription.acknowledge(event)

        self._client._run(acknowledged())
        return DONE

    def acknowledge_soon(self, event: Event) -> None:
        """What `Event.ack_soon` does. Only the last of many is passed on to the other thread."""
        before, self._last = self._last, event
        if before is None:
            self._client._soon(self._pass_on)

    def _pass_on(self) -> None:
        event, self._last = self._last, None
        if event is not None:
            self._subscription.acknowledge_soon(event)


class _Belt:
    """Takes notifications from one thread to the event loop of another, a limited number."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._items: deque[Any] = deque()
        self._room = threading.Semaphore(_HANDED_OVER)
        self._news = asyncio.Event()
        self._is_told = self._is_ended = self._is_stopped = False

    def put(self, item: Any) -> bool:
        """Hand one over, and wait if there are too many; False if nobody takes them."""
        self._room.acquire()
        if self._is_stopped:
            return False
        self._items.append(item)
        self._tell()
        return True

    def end(self) -> None:
        """There are no more."""
        self._is_ended = True
        self._is_told = False
        self._tell()

    def stop(self) -> None:
        """Nobody takes them any more."""
        self._is_stopped = True
        self._room.release()

    def _tell(self) -> None:
        if not self._is_told:
            self._is_told = True
            with suppress(RuntimeError):  # the client is closed: nobody takes them any more
                self._loop.call_soon_threadsafe(self._news.set)

    async def items(self) -> AsyncIterator[Any]:
        """What was handed over."""
        while True:
            self._news.clear()
            self._is_told = False  # before looking: what comes later is told anew
            while self._items:
                item = self._items.popleft()
                self._room.release()
                yield item
            if self._is_ended and not self._items:
                return
            await self._news.wait()
