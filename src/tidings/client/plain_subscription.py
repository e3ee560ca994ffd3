"""The plain subscription: events for programs without asyncio, taken over many at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Iterator, Sequence

from tidings.client.deadline import within
from tidings.client.errors import ClientClosed
from tidings.client.event import DONE, Event
from tidings.client.loop_thread import LoopThread
from tidings.client.state import SubscriptionState
from tidings.client.subscription import Subscription


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
