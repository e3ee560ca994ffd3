"""A subscription that reads a stretch; by itself, it would have no end."""

from __future__ import annotations

import asyncio
from typing import Final

from tidings.client import Client, CursorTooOld, Event, Subscription, Told
from tidings.events import Filter
from tidings.protocol.cursors import read_cursor
from tidings.spark.streams.absence import Patience
from tidings.spark.streams.stretch import Stretch

_MANY: Final = 10_000
"""Events taken at a time, at most."""
_QUEUE: Final = 20_000
"""Events that may wait to be taken."""
_PAUSES: Final = (0.002, 0.1)
"""How long to wait for news before looking how far the broker is; longer each time."""


_NOTED: Final = Told()


class StretchSubscription:
    """Watches how far a subscription was told: up to the end, either as an event or as silence.

    The other streams are subscribed to where they are now, as there is no way to leave them out;
    what little comes of them is dropped.
    """

    def __init__(
        self, client: Client, stretch: Stretch, filter: Filter, upto: int, patience: Patience
    ) -> None:
        self._client, self._stretch, self._filter = client, stretch, filter
        self._patience = patience
        self.upto = upto
        """All up to here was taken, or is silence."""
        self._others = dict(stretch.others)
        self._subscription: Subscription | None = None
        self._pause = _PAUSES[0]

    async def take(self) -> list[Event]:
        """What has come, perhaps nothing; `CursorTooOld` if it is no longer kept."""
        try:
            subscription = self._subscription or await self._subscribe()
            async with asyncio.timeout(self._pause):
                events = await subscription.take(_MANY)
        except TimeoutError:
            events = []
        except CursorTooOld as problem:
            self._subscription = None
            if problem.stream == self._stretch.stream:
                raise
            self._others |= read_cursor(problem.cursor)  # of one that is not read
            return []
        found = self._subscription
        if found is None or found.missed or found.lost:
            await self._drop()  # perhaps something of this stream: read on where it was complete
            return []
        return self._advance(events, found)

    def _advance(self, events: list[Event], subscription: Subscription) -> list[Event]:
        before, end = self.upto, self._stretch.end
        own = [e for e in events if e.stream == self._stretch.stream]
        if own:
            self.upto = max(self.upto, own[-1].tick)
        if not subscription.waiting:  # then all that it was told has been taken
            told = read_cursor(subscription.cursor)
            self.upto = max(self.upto, told.get(self._stretch.stream, 0))
        if self.upto > before:
            self._patience.moved()
            self._pause = _PAUSES[0]
        elif not events:
            self._pause = min(2 * self._pause, _PAUSES[1])
        return [e for e in own if before < e.tick <= end]

    async def _subscribe(self) -> Subscription:
        since = {**self._others, self._stretch.stream: self.upto}
        # Noted when the batch was planned, perhaps by what another broker knew.
        found = self._client.subscribe(self._filter, since=since, queue=_QUEUE, told=_NOTED)
        async with asyncio.timeout(self._patience.seconds):
            await found.open()
        self._subscription = found
        return found

    async def _drop(self) -> None:
        subscription, self._subscription = self._subscription, None
        if subscription is not None:
            await subscription.close()

    async def close(self) -> None:
        """Nothing more is wanted; the client is closed after this."""
