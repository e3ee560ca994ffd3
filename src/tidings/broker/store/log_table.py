"""The log's table: what is asked of it and done to it, within a transaction of the caller.

Each of its rows is some events that were committed together.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, Final

import msgspec

from tidings.broker.store.seals import Damage, seal, unseal
from tidings.events import TidingsError
from tidings.protocol.messages import Event
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


_READ_BYTES: Final = 8 << 20
"""Bytes of rows that are read at once, about."""
_TAIL_BYTES: Final = 4 << 20
"""Bytes of the log's end that are checked when it is opened: what a crash may have touched."""
_TRIM_ROWS: Final = 256
"""Rows that one transaction deletes, at most."""
_TRIM_BYTES: Final = 32 << 20
"""Bytes of rows that one transaction deletes, about."""

_TICKS: Final = 48
"""Bits of a row's place that are its first tick; above them is its epoch."""
_COLUMNS: Final = f"place >> {_TICKS}, place & {(1 << _TICKS) - 1}"
_ROWS: Final = f"SELECT {_COLUMNS}, last, first_time, last_time, until, events FROM log"
_FROM_PLACE: Final = f"""{_ROWS}
    WHERE place >= coalesce((SELECT max(place) FROM log WHERE place BETWEEN ? AND ?), ?)
    AND place < ? ORDER BY place"""
_AT_TIME: Final = f"""
    SELECT place FROM log WHERE place >> {_TICKS} = ? AND last_time >= ?
    ORDER BY last_time, place LIMIT 1"""
_FROM_TIME: Final = f"{_ROWS} WHERE place >= ({_AT_TIME}) AND place < ? ORDER BY place"
_FROM_END: Final = f"{_ROWS} WHERE place >= ? AND place < ? ORDER BY place DESC"
_SIZES: Final = f"""
    SELECT place & {(1 << _TICKS) - 1}, last, last_time, length(events) + {OVERHEAD}, until FROM log
    WHERE place >= ? AND place < ? ORDER BY place LIMIT ?"""


def _place(epoch: int, tick: int) -> int:
    return epoch << _TICKS | tick


def _bounds(epoch: int) -> tuple[int, int]:
    """The place before all rows of an epoch, and the one behind them."""
    return _place(epoch, 0), _place(epoch + 1, 0)


def append(connection: sqlite3.Connection, rows: Sequence[LogRow]) -> None:
    """Add rows at the end."""
    connection.executemany(
        "INSERT INTO log VALUES (?, ?, ?, ?, ?, ?)",
        [
            (_place(r.epoch, r.first), r.last, r.first_time, r.last_time, r.until, r.content)
            for r in rows
        ],
    )


def rewrite(connection: sqlite3.Connection, rows: Sequence[LogRow]) -> None:
    """Put other events into rows, of the same ticks and times; not into those that have gone."""
    connection.executemany(
        "UPDATE log SET events = ? WHERE place = ? AND last = ?",
        [(r.content, _place(r.epoch, r.first), r.last) for r in rows],
    )


def rows_at_tick(
    connection: sqlite3.Connection, epoch: int, tick: int, limit: int, *, size: int = _READ_BYTES
) -> list[LogRow]:
    """The rows of an epoch from the one with this tick on, or from the first.

    There are about `limit` events from the tick on, and not much more than `size` bytes.
    """
    begin, end = _bounds(epoch)
    bounds = (begin, _place(epoch, tick), begin, end)
    return _some(connection, _FROM_PLACE, *bounds, size=size, limit=limit, tick=tick)


def rows_at_time(
    connection: sqlite3.Connection, epoch: int, time: float, limit: int
) -> list[LogRow]:
    """The rows of an epoch from the first on that has an event of this time or later."""
    bounds = (epoch, time, _place(epoch + 1, 0))
    return _some(connection, _FROM_TIME, *bounds, size=_READ_BYTES, limit=limit)


def tick_at_time(connection: sqlite3.Connection, epoch: int, time: float) -> int:
    """The first tick of the row with which `rows_at_time` begins, or would if it were sound."""
    row = connection.execute(_AT_TIME, (epoch, time)).fetchone()
    return 0 if row is None else int(row[0]) - _place(epoch, 0)


def next_sound_tick(connection: sqlite3.Connection, epoch: int, tick: int) -> int | None:
    """The first tick of the next row behind a tick that is what was written, if there is one."""
    bounds = (_place(epoch, tick + 1), _place(epoch + 1, 0))
    query = f"{_ROWS} WHERE place >= ? AND place < ? ORDER BY place"
    with contextlib.closing(connection.execute(query, bounds)) as cursor:
        for row in cursor:
            with contextlib.suppress(Damage):
                found = row_of(row)
                found.block()
                return found.first
    return None


def first_tick(connection: sqlite3.Connection, epoch: int) -> int | None:
    """Where the log of an epoch begins; None if nothing of it is kept."""
    query = "SELECT min(place) FROM log WHERE place >= ? AND place < ?"
    (place,) = connection.execute(query, _bounds(epoch)).fetchone()
    return None if place is None else int(place) - _place(epoch, 0)


def last_rows(connection: sqlite3.Connection, epoch: int) -> list[LogRow]:
    """The end of an epoch's log: as much of it as a crash may have touched."""
    return _some(connection, _FROM_END, *_bounds(epoch), size=_TAIL_BYTES)[::-1]


def rows_behind(
    connection: sqlite3.Connection, epoch: int, tick: int, count: int
) -> list[tuple[int, Any]]:
    """Some rows that begin behind a tick, as they are: the first tick of each, and its columns."""
    bounds = (_place(epoch, tick), _place(epoch + 1, 0))
    query = f"{_ROWS} WHERE place > ? AND place < ? ORDER BY place LIMIT ?"
    return [(row[1], row) for row in connection.execute(query, (*bounds, count))]


def length(connection: sqlite3.Connection) -> int:
    """The size of all logs from their very beginning."""
    row = connection.execute("SELECT until FROM log ORDER BY place DESC LIMIT 1").fetchone()
    until = 0 if row is None else row[0]
    if not isinstance(until, int):
        raise Damage("the last row of the log is not what was written")
    return until


def expire(
    connection: sqlite3.Connection,
    epoch: int,
    *,
    before: float | None,
    size: int | None,
    until: int,
    upto: int | None,
    end: int | None,
) -> int | None:
    """Delete some of what is too old or too much of an epoch; the first tick kept.

    `until` is the size of all logs from their very beginning; what lies behind the tick `upto`
    stays in any case. `end` is the last tick of a closed epoch; of the current one the last row
    stays. The answer is None if there was nothing to delete.
    """
    kept, freed = None, 0
    rows = connection.execute(_SIZES, (*_bounds(epoch), _TRIM_ROWS + 1)).fetchall()
    if end is not None and len(rows) <= _TRIM_ROWS:
        rows.append((end + 1,))
    for (_, last, last_time, length, so_far), (following, *_) in pairwise(rows):
        try:
            is_old = before is not None and last_time < before
            is_much = size is not None and until - so_far + length > size
            is_whole = last + 1 == following
            must_stay = upto is not None and last > upto
        except TypeError:
            raise Damage(f"the row before {following} is not what was written") from None
        if freed >= _TRIM_BYTES or must_stay or not (is_old or is_much):
            break
        if not is_whole:
            raise Damage(f"the events behind {last} are missing")
        kept, freed = following, freed + length
    if kept is not None:
        bounds = (_place(epoch, 0), _place(epoch, kept))
        connection.execute("DELETE FROM log WHERE place >= ? AND place < ?", bounds)
    return kept


def _some(
    connection: sqlite3.Connection,
    query: str,
    *bounds: Any,
    size: int,
    limit: int | None = None,
    tick: int = 0,
) -> list[LogRow]:
    """Rows until they have `limit` events from a tick on, or `size` bytes."""
    rows: list[LogRow] = []
    with contextlib.closing(connection.execute(query, bounds)) as cursor:
        for row in cursor:
            try:
                rows.append(found := row_of(row))
            except Damage:
                if rows and query is not _FROM_END:
                    break  # what lies before it can be read
                raise
            size -= found.size
            begin = max(tick, rows[0].first)
            if size <= 0 or (limit is not None and found.last - begin + 1 >= limit):
                break
    return rows
