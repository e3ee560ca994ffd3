"""The log's rows, each some events that were committed together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from tidings.broker.store.seals import Damage, seal, unseal
from tidings.events import TidingsError
from tidings.protocol import Event
from tidings.protocol.runs import pack, unpack, unpack_runs

OVERHEAD: Final = 64
"""Bytes that a row takes up besides its events, about."""
_MOST_EVENTS: Final = 256
"""Events in a row, at most."""
_MOST_BYTES: Final = 1 << 20
"""Bytes of a row with more than one event, at most."""


class LogRow(msgspec.Struct, frozen=True, array_like=True):
    """A row of the log."""

    epoch: int
    first: int
    last: int
    first_time: float
    last_time: float
    until: int
    """The bytes of the log up to here, counted from its very beginning."""
    content: bytes

    @property
    def size(self) -> int:
        """The bytes that it takes up, about."""
        return len(self.content) + OVERHEAD

    def block(self) -> bytes:
        """The events as `pack` made them; `Damage` if they are not what was written."""
        label = (self.first, self.last, self.first_time, self.last_time, self.until)
        return unseal(self.content, self.epoch, *label)

    def events(self, stream: str) -> tuple[Event, ...]:
        """The events in it; `Damage` if they are not what was written."""
        try:
            events = unpack(self.block(), stream)
        except (TidingsError, Damage):
            events = ()
        if not events or (events[0].tick, events[-1].tick) != (self.first, self.last):
            raise Damage(f"the events from {self.first} on are not what was written")
        return events


def rewritten(row: LogRow, events: Sequence[Event]) -> LogRow:
    """A row with other events of the same ticks and times.

    What it says of the size of the log stays: the rows behind it count on that.
    """
    label = (row.epoch, row.first, row.last, row.first_time, row.last_time, row.until)
    publishers = [run.publisher for run in unpack_runs(row.block()) for _ in run.rows]
    return LogRow(*label, seal(pack(events, publishers), *label))


def row_of(row: tuple[Any, ...]) -> LogRow:
    """A row that was read; `Damage` if it has values of the wrong kinds."""
    try:
        return msgspec.convert(row, LogRow)
    except msgspec.ValidationError as error:
        raise Damage(f"a row of the log is not what was written: {error}") from None


def rows_of(
    events: Sequence[Event], epoch: int, until: int, publishers: Sequence[str] = ()
) -> Iterator[LogRow]:
    """The rows for a commit: several, if one would be too large to be read at once."""
    for start in range(0, len(events), _MOST_EVENTS):
        end = start + _MOST_EVENTS
        for some, content in _packed(events[start:end], publishers[start:end]):
            until += 4 + len(content) + OVERHEAD
            first, last = some[0], some[-1]
            label = (epoch, first.tick, last.tick, float(first.time), float(last.time), until)
            yield LogRow(*label, seal(content, *label))


def _packed(
    events: Sequence[Event], publishers: Sequence[str]
) -> Iterator[tuple[Sequence[Event], bytes]]:
    content = pack(events, publishers)
    if len(content) <= _MOST_BYTES or len(events) == 1:
        yield events, content
    else:
        middle = len(events) // 2
        yield from _packed(events[:middle], publishers[:middle])
        yield from _packed(events[middle:], publishers[middle:])
