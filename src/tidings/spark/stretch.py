"""A stretch: the ticks of one stream behind a start and up to an end, read from a broker.

A subscription has no end, so a stretch watches how far it was told: up to the end, either as an
event or as silence. The other streams are subscribed to where they are now, as there is no way to
leave them out; what little comes of them is dropped.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from time import monotonic
from typing import Final

from pyspark.sql.datasource import InputPartition

from tidings.client import Client, CursorTooOld, Event, Subscription, connect
from tidings.client.positions import read_cursor
from tidings.events import Filter, TidingsError
from tidings.node.requests import Cursor
from tidings.spark.options import Reading

_ROWS: Final = 10_000
"""So many events make a batch: of fewer, Spark would spend its time on batches."""
_QUEUE: Final = 20_000
_PAUSES: Final = (0.002, 0.1)
"""How long to wait for news before looking how far the broker is; longer each time."""


@dataclass(frozen=True)
class Stretch(InputPartition):
    """What one task reads."""

    stream: str
    start: int
    end: int
    others: Cursor

    def __str__(self) -> str:
        return f"ticks {self.start + 1} to {self.end} of stream {self.stream}"


def split(start: Cursor, end: Cursor, others: Cursor, *, most: int) -> list[Stretch]:
    """All between two cursors, in stretches of so many ticks.

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


def read(stretch: Stretch, options: Reading, filter: Filter) -> Iterator[list[Event]]:
    """The events of a stretch that a filter admits, many at a time and in order.

    `TidingsError` if the broker stays away for too long, or no longer keeps them.
    """
    reader = _Reader(stretch, options, filter)
    with asyncio.Runner() as runner:
        try:
            gathered: list[Event] = []
            while (events := runner.run(reader.take())) is not None:
                gathered += events
                if len(gathered) >= _ROWS:
                    yield gathered
                    gathered = []
            if gathered:
                yield gathered
        finally:
            runner.run(reader.close())


class _Reader:
    """Reads a stretch; all in one thread, so that what was told and what waits belong together."""

    def __init__(self, stretch: Stretch, options: Reading, filter: Filter) -> None:
        self._stretch, self._options, self._filter = stretch, options, filter
        self._upto = stretch.start
        """All up to here was taken, or is silence."""
        self._others = dict(stretch.others)
        self._client: Client | None = None
        self._subscription: Subscription | None = None
        self._moved_at = monotonic()
        self._pause = _PAUSES[0]

    async def take(self) -> list[Event] | None:
        """What has come; None at the end."""
        if self._upto >= self._stretch.end:
            return None
        try:
            subscription = self._subscription or await self._subscribe()
            async with asyncio.timeout(self._pause):
                events = await subscription.take(_ROWS)
        except TimeoutError:
            events = []
        except CursorTooOld as problem:
            self._go_on(problem)
            return []
        if self._subscription is None or self._subscription.missed:
            await self._drop()  # perhaps something of this stream: read on where it was complete
            return []
        return self._advance(events, self._subscription)

    def _advance(self, events: list[Event], subscription: Subscription) -> list[Event]:
        before, end = self._upto, self._stretch.end
        own = [e for e in events if e.stream == self._stretch.stream]
        if own:
            self._upto = max(self._upto, own[-1].tick)
        if not subscription.waiting:  # then all that it was told has been taken
            told = read_cursor(subscription.cursor)
            self._upto = max(self._upto, told.get(self._stretch.stream, 0))
        if self._upto > before:
            self._moved_at, self._pause = monotonic(), _PAUSES[0]
        elif monotonic() - self._moved_at > self._options.broker.timeout:
            raise TidingsError(self._too_long())
        elif not events:
            self._pause = min(2 * self._pause, _PAUSES[1])
        return [e for e in own if before < e.tick <= end]

    async def _subscribe(self) -> Subscription:
        broker = self._options.broker
        if self._client is None:
            self._client = await connect(broker.url, token=broker.token, wait=broker.timeout)
        since = {**self._others, self._stretch.stream: self._upto}
        found = self._client.subscribe(self._filter, since=since, queue=_QUEUE)
        try:
            async with asyncio.timeout(broker.timeout):
                await found.open()
        except TimeoutError:
            raise TidingsError(self._too_long()) from None
        self._subscription = found
        return found

    async def _drop(self) -> None:
        subscription, self._subscription = self._subscription, None
        if subscription is not None:
            await subscription.close()

    def _go_on(self, problem: CursorTooOld) -> None:
        """Behind a gap, if that may be."""
        self._subscription = None
        cursor = read_cursor(problem.cursor)
        stream = self._stretch.stream
        place = cursor.pop(stream, 0)
        if f" of {stream}, which " not in str(problem):  # of another stream, which is not read
            self._others |= cursor
        elif place > self._upto and self._options.on_gap == "continue":
            self._upto = place
        else:
            raise TidingsError(f"{gap(stream, self._upto, place)} ({problem})")

    def _too_long(self) -> str:
        broker = self._options.broker
        waited = f"within {broker.timeout:g} seconds"
        if self._client is None or not self._client.is_connected:
            return f"{self._stretch}: the broker at {broker.url} did not come back {waited}"
        return (
            f"{self._stretch}: nothing came behind tick {self._upto} {waited}; "
            f"is the broker {self._stretch.stream} up, and linked to the one at {broker.url}?"
        )

    async def close(self) -> None:
        if self._client is not None:
            await self._client.close(within=1.0)


def gap(stream: str, position: int, place: int) -> str:
    """What to say where events are gone."""
    if place < position:
        return (
            f"stream {stream} ends at tick {place}, before tick {position}, which was read: "
            "its broker has lost its log"
        )
    return (
        f"stream {stream} is no longer kept from tick {position + 1} on: {place - position:,} "
        "ticks are lost. To go on behind them, use the option onGap = continue"
    )
