"""The plain client: the same verbs without `await`, for programs without asyncio.

An asyncio client runs in a thread of its own; calls from any thread are passed on to it.
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
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from concurrent.futures import Future
from contextlib import suppress
from itertools import islice
from typing import Any, Final, Literal, TypeVar

from tidings.client.client import Client, connect
from tidings.client.dialling import OnStatus
from tidings.client.durables import DurablesFound
from tidings.client.errors import ClientClosed
from tidings.client.event import DONE, Event
from tidings.client.loop_thread import LoopThread
from tidings.client.outbox import OutboxLimits
from tidings.client.publishing import Said
from tidings.client.reading import Told
from tidings.client.receipts import Receipt, Receipts
from tidings.client.state import ClientState, SubscriptionState
from tidings.client.subscription import Subscription, within
from tidings.client.tls import Tls
from tidings.client.token import Token
from tidings.client.waiting import OnRefused
from tidings.events import Filter, Notification
from tidings.protocol.addresses import DEFAULT_URL
from tidings.protocol.cursors import Beginning
from tidings.protocol.requests import Erasure

_T = TypeVar("_T")


def connect_sync(
    url: str = DEFAULT_URL,
    *,
    token: Token = None,
    name: str | None = None,
    tls: Tls = None,
    wait: float = 0.0,
    on_status: OnStatus | None = None,
    limits: OutboxLimits | None = None,
) -> PlainClient:
    """A plain client; use it with `with`. The arguments are those of `connect`.

    `on_status` and callbacks of subscriptions are called in the client's own thread.
    """
    return PlainClient(
        connect(url, token=token, name=name, tls=tls, wait=wait, on_status=on_status, limits=limits)
    )


class PlainClient(ClientState):
    """A client whose verbs return when they are done; made by `connect_sync`."""

    def __init__(self, client: Client) -> None:
        super().__init__(client._host)
        self._client = client
        self._thread = LoopThread()

    def open(self) -> PlainClient:
        """Connect; `with` does it."""
        if self._thread.start():
            try:
                self._thread.run(self._client.open())
            except BaseException:
                self._thread.stop()
                raise
        return self

    def __enter__(self) -> PlainClient:
        return self.open()

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Take leave: wait until all is published and acknowledged, at most ten seconds."""
        self._thread.check_caller()
        try:
            with suppress(ClientClosed):  # it may be closed, or have never been open
                self._thread.run(self._client.close())
        finally:  # also if it is interrupted
            self._thread.stop()

    # -- verbs ---------------------------------------------------------------------------------

    def advertise(self, filter: Filter | str, timeout: float | None = None) -> None:
        """Say what this client will publish, so that it is carried only where it is wanted.

        `TimedOut` if the broker does not answer for `timeout` seconds.
        """

        async def advertised() -> None:
            async with within(timeout):
                await self._client.advertise(filter)

        self._thread.run(advertised())

    def unadvertise(self, filter: Filter | str) -> None:
        """Take an advertisement back."""
        self._thread.run(self._client.unadvertise(filter))

    def publish(
        self,
        said: Said | bytes,
        *,
        content_type: str | None = None,
        attributes: Mapping[str, Any] | None = None,
        id: str | None = None,
        maybe_twice: bool = False,
    ) -> Receipt:
        """Say what happened. Returns when it is on the broker's disk, with a receipt.

        What has an `id` is kept once; see `Client.publish`.
        """
        publishing = self._client.publish(
            said,
            content_type=content_type,
            attributes=attributes,
            id=id,
            maybe_twice=maybe_twice,
        )
        return self._thread.run(publishing)

    def publish_many(
        self, notifications: Iterable[Said], *, id: str | None = None, maybe_twice: bool = False
    ) -> Receipts:
        """Publish all of them together: all are kept, or none; see `Client.publish_many`."""
        self._thread.check_caller()
        together = list(islice(notifications, self._outbox.limits.most + 1))
        return self._thread.run(self._client.publish_many(together, id=id, maybe_twice=maybe_twice))

    def publish_each(
        self,
        notifications: Iterable[Said],
        *,
        on_refused: OnRefused | None = None,
    ) -> int:
        """Publish each of them, many at a time; see `Client.publish_each`.

        The iterable is read in the calling thread, and may wait: each notification is sent as
        soon as it is there.
        """
        self._thread.check_caller()
        belt = Belt(self._thread.loop)
        work = self._thread.begin(self._client.publish_each(belt.items(), on_refused=on_refused))
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
        """Begin to publish each of them, and return at once; see `Client.publish_each`.

        The future knows how many are kept, when all of them are. `on_refused` is called in the
        client's own thread.
        """
        return self._thread.begin(self._client.publish_each(notifications, on_refused=on_refused))

    def leave_out(self, number: int) -> None:
        """From now on, give notifications numbers above this one; see `Client.leave_out`."""

        async def left_out() -> None:
            self._client.leave_out(number)

        self._thread.run(left_out())

    def flush(self) -> None:
        """Wait until all that was published is kept, and the broker knows what is acknowledged."""
        self._thread.run(self._client.flush())

    def interest(self, filter: Filter | str) -> Iterator[bool]:
        """Whether anybody wants something that the filter matches; see `Client.interest`."""
        interest = self._client.interest(filter)
        try:
            while True:
                yield self._thread.run(_following(interest))
        finally:
            with suppress(ClientClosed):  # it ended with the client
                self._thread.run(_ended(interest))

    def acknowledge(self, durable: str, cursor: Mapping[str, int], *, owner: str) -> None:
        """Tell the broker how far a durable subscription is; see `Client.acknowledge`."""
        self._thread.run(self._client.acknowledge(durable, cursor, owner=owner))

    def forget(self, durable: str) -> bool:
        """Let the broker forget a durable subscription; see `Client.forget`."""
        return self._thread.run(self._client.forget(durable))

    def durables(self) -> DurablesFound:
        """All durable subscriptions of this principal; see `Client.durables`."""
        return self._thread.run(self._client.durables())

    def seek(self, durable: str, since: Beginning) -> None:
        """Set a durable subscription back or ahead; see `Client.seek`."""
        self._thread.run(self._client.seek(durable, since))

    def pause(self, durable: str) -> None:
        """Have a durable subscription told nothing from now on; see `Client.pause`."""
        self._thread.run(self._client.pause(durable))

    def resume(self, durable: str) -> None:
        """Let a paused durable subscription go on; see `Client.resume`."""
        self._thread.run(self._client.resume(durable))

    def erase(
        self,
        filter: Filter | str,
        *,
        reason: str = "",
        dry_run: bool = False,
        told: Callable[[Erasure], object] | None = None,
    ) -> Erasure:
        """Erase what the filter matches from the logs of all brokers; see `Client.erase`.

        `told` is called in the client's own thread.
        """
        erasing = self._client.erase(filter, reason=reason, dry_run=dry_run, told=told)
        return self._thread.run(erasing)

    def subscribe(
        self,
        filter: Filter | str,
        *,
        durable: str | None = None,
        since: Beginning | Receipt | Receipts = None,
        replace: bool = False,
        home: Literal["here"] | None = None,
        callback: Callable[[Event], Any] | None = None,
        queue: int = 10_000,
        told: Told | None = None,
        bulk: str | None = None,
        times: bool = False,
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
            times=times,
        )
        return PlainSubscription(self._thread, subscription, is_read=callback is None)


class PlainSubscription(SubscriptionState):
    """What a plain client hears of a filter; `for event in subscription` reads it."""

    def __init__(self, thread: LoopThread, subscription: Subscription, *, is_read: bool) -> None:
        """It begins. If it `is_read` here, its events are acknowledged through it, too."""
        super().__init__(subscription._reading)
        self._thread = thread
        self._subscription = subscription
        self._taken: deque[Event] = deque()
        self._last: Event | None = None
        if is_read:
            subscription.acknowledge_through(self)
        thread.run(subscription.open())

    def __enter__(self) -> PlainSubscription:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Hear no more. A durable subscription goes on later behind what is acknowledged."""
        if self._thread.is_running:  # else it ended with the client
            self._thread.run(self._subscription.close())

    def forget(self) -> None:
        """Hear no more, and let the broker forget how far a durable subscription is."""
        self._thread.run(self._subscription.forget())

    @property
    def waiting(self) -> int:
        """How many events wait to be read."""
        return len(self._taken) + super().waiting

    def _unread(self) -> Sequence[Event]:
        return [*self._taken, *super()._unread()]

    def get(self, timeout: float | None = None) -> Event:
        """The next event; `TimedOut` if there is none for `timeout` seconds."""
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
            async with within(timeout):
                return await self._subscription.take(or_live=or_live)

        self._taken.extend(self._thread.run(taken()))
        return bool(self._taken)

    def acknowledge(self, event: Event) -> Awaitable[None]:
        """What `Event.ack` does: it returns when it is done."""

        async def acknowledged() -> None:
            await self._subscription.acknowledge(event)

        self._thread.run(acknowledged())
        return DONE

    def acknowledge_soon(self, event: Event) -> None:
        """What `Event.ack_soon` does. Only the last of many is passed on to the other thread."""
        before, self._last = self._last, event
        if before is None:
            self._thread.call_soon(self._pass_on)

    def _pass_on(self) -> None:
        event, self._last = self._last, None
        if event is not None:
            self._subscription.acknowledge_soon(event)


_ROOM: Final = 4_096
"""Items that wait to be taken over by the other thread."""


class Belt:
    """Carries items from one thread to the event loop of another."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._items: deque[Any] = deque()
        self._room = threading.Semaphore(_ROOM)
        self._news = asyncio.Event()
        self._is_told = self._is_ended = self._is_stopped = False

    def put(self, item: Any) -> bool:
        """Hand one over, and wait while there is no room; False if items are no longer taken."""
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
        """Items are no longer taken."""
        self._is_stopped = True
        self._room.release()

    def _tell(self) -> None:
        if not self._is_told:
            self._is_told = True
            with suppress(RuntimeError):  # the loop is closed: items are no longer taken
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


async def _following(iterator: AsyncIterator[_T]) -> _T:
    return await anext(iterator)


async def _ended(generator: AsyncGenerator[Any, None]) -> None:
    await generator.aclose()
