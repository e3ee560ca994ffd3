"""The copy of a stretch, straight from the log of the broker whose stream it is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from itertools import repeat
from operator import contains
from typing import Final

from tidings.client import Client, CursorTooOld
from tidings.delivery.copies import FOR
from tidings.delivery.erased import ERASED
from tidings.events import Filter
from tidings.lakes.layout import EVERYTHING
from tidings.protocol.runs import Rows
from tidings.spark.streams.absence import Gone, Patience, gap
from tidings.spark.streams.stretch import Stretch

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
