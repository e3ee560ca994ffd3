"""A stretch: the ticks of one stream behind a start and up to an end, copied or subscribed to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from itertools import repeat
from operator import contains
from typing import Final

from tidings.client import Client, CursorTooOld, Event, Subscription, Told
from tidings.delivery.copies import FOR
from tidings.delivery.erased import ERASED
from tidings.events import Filter
from tidings.lakes.layout import EVERYTHING
from tidings.protocol.cursors import read_cursor
from tidings.protocol.requests import Cursor
from tidings.protocol.runs import Rows
from tidings.spark.streams.absence import Gone, Patience, gap

try:
    from pyspark.sql.datasource import InputPartition
except ImportError:  # to read without Spark takes none

    class InputPartition:  # type: ignore[no-redef]
        """What Spark hands to a task."""


@dataclass(frozen=True)
class Stretch(InputPartition):
    """What one task reads: the ticks of `stream` behind `start`, up to and with `end`."""

    stream: str
    start: int
    end: int
    others: Cursor
    """Where the other streams are: to subscribe to one stream names a place in all."""

    def __str__(self) -> str:
        return f"ticks {self.start + 1} to {self.end} of stream {self.stream}"


def split(start: Cursor, end: Cursor, others: Cursor, *, most: int) -> list[Stretch]:
    """All between two cursors, in stretches of at most `most` ticks.

    >>> for stretch in split({"paris": 2}, {"paris": 9, "rome": 0}, {}, most=5):
    ...     print(stretch)
    ticks 3 to 7 of stream paris
    ticks 8 to 9 of stream paris
    """
    return [
        Stretch(stream, begin, min(begin + most, upto), others)
        for stream, upto in sorted(end.items())
        for begin in range(start.get(stream, 0), upto, most)
    ]


MANY: Final = 10_000
"""Events of a batch, about, at most. Smaller batches would cost Spark more than their events."""
BYTES: Final = 8 << 20
"""Bytes of a batch, about, at most."""
_PAUSE: Final = 0.1
"""Seconds to wait for a batch before looking whether it is still wanted."""


def can_be_copied(filter: Filter) -> bool:
    """Whether a filter means everything, or all but what is dropped here."""
    return filter in (EVERYTHING, Filter.all())


class StretchCopy:
    """Copies batch by batch. The next piece is on its way while a batch is worked on."""

    def __init__(
        self, client: Client, stretch: Stretch, filter: Filter, upto: int, patience: Patience
    ) -> None:
        self._client, self._stretch = client, stretch
        self._patience = patience
        self.upto = upto
        """All up to here was taken."""
        self._copy: AsyncGenerator[Rows, None] | None = None
        self._gathering: asyncio.Task[Rows] | None = None

    async def take(self) -> Rows | None:
        """What has come, perhaps nothing; `CursorTooOld` if it is no longer kept."""
        if self._gathering is None:
            self._gathering = asyncio.ensure_future(self._gathered())
        await asyncio.wait([self._gathering], timeout=_PAUSE)
        if not self._gathering.done():
            return None
        gathering, self._gathering = self._gathering, None
        rows = gathering.result()
        if not rows.ticks:
            stream, end = self._stretch.stream, self._stretch.end
            raise Gone(gap(stream, end, self.upto), end, self.upto)
        self.upto = rows.ticks[-1]
        return _ordinary(rows)

    async def _gathered(self) -> Rows:
        """A batch of what comes."""
        gathered, size = Rows([], [], [], []), 0
        if self._copy is None:
            stream, end = self._stretch.stream, self._stretch.end
            self._copy = self._client.copy(stream, after=self.upto, upto=end)
        try:
            async for rows in self._copy:
                self._patience.moved()
                gathered.ticks.extend(rows.ticks)
                gathered.times.extend(rows.times)
                gathered.records.extend(rows.records)
                gathered.bodies.extend(rows.bodies)
                size += rows.size
                if len(gathered.ticks) >= MANY or size >= BYTES:
                    break
        except CursorTooOld:
            self._copy = None
            if not gathered.ticks:  # else it will be said again, behind what has come
                raise
        return gathered

    async def close(self) -> None:
        """Nothing more is wanted; the client is closed after this."""
        if self._gathering is not None:
            self._gathering.cancel()
            await asyncio.wait([self._gathering])


def _ordinary(rows: Rows) -> Rows:
    """Without copies for bulk subscribers, and without tombstones."""
    if not any(any(map(contains, rows.records, repeat(name))) for name in (FOR, ERASED)):
        return rows
    kept = [
        n for n, record in enumerate(rows.records) if FOR not in record and ERASED not in record
    ]
    return Rows(
        [rows.ticks[n] for n in kept],
        [rows.times[n] for n in kept],
        [rows.records[n] for n in kept],
        [rows.bodies[n] for n in kept],
    )


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
