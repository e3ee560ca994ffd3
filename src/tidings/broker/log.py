"""The log's table: what is asked of it and done to it, within somebody's transaction."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final

from tidings.broker.batch import ROW, Batch, batch_of
from tidings.broker.database import Damage

_READ_BYTES: Final = 8 << 20
_TAIL_BYTES: Final = 4 << 20
"""How much of the log's end is checked when it is opened: what a crash may have touched."""
_TRIM_ROWS: Final = 256
_TRIM_BYTES: Final = 32 << 20

_ROWS: Final = "SELECT first, last, first_time, last_time, until, events FROM log"
_FROM_TICK: Final = f"""{_ROWS}
    WHERE first >= coalesce((SELECT max(first) FROM log WHERE first <= ?), 0) ORDER BY first"""
_FROM_TIME: Final = f"""{_ROWS}
    WHERE first >= (SELECT first FROM log WHERE last_time >= ? ORDER BY last_time, first LIMIT 1)
    ORDER BY first"""
_FROM_END: Final = f"{_ROWS} ORDER BY first DESC"
_SIZES: Final = f"""
    SELECT first, last, last_time, length(events) + {ROW}, until FROM log ORDER BY first LIMIT ?"""


def append(connection: sqlite3.Connection, rows: Sequence[Batch]) -> None:
    """Add rows at the end."""
    connection.executemany(
        "INSERT INTO log VALUES (?, ?, ?, ?, ?, ?)",
        [(r.first, r.last, r.first_time, r.last_time, r.until, r.content) for r in rows],
    )


def rows_at_tick(
    connection: sqlite3.Connection, tick: int, limit: int, *, size: int = _READ_BYTES
) -> list[Batch]:
    """The rows from the one with this tick on, or from the first: about `limit` events, and not
    much more than so many bytes."""
    return _some(connection, _FROM_TICK, tick, limit=limit, size=size)


def rows_at_time(connection: sqlite3.Connection, time: float, limit: int) -> list[Batch]:
    """The rows from the first on that has an event of this time or later."""
    return _some(connection, _FROM_TIME, time, limit=limit, size=_READ_BYTES)


def first_tick_and_last_rows(connection: sqlite3.Connection) -> tuple[int, list[Batch]]:
    """Where the log begins, and its end."""
    (first,) = connection.execute("SELECT min(first) FROM log").fetchone()
    return first or 1, _some(connection, _FROM_END, size=_TAIL_BYTES)[::-1]


def expire(
    connection: sqlite3.Connection,
    before: float | None,
    size: int | None,
    until: int,
    upto: int | None = None,
) -> int | None:
    """Delete some of what is too old or too much, but not the last row; the first tick kept.

    `until` is the size of the log from its very beginning; what lies behind the tick `upto` stays
    in any case. None: there was nothing to delete.
    """
    kept, freed = None, 0
    rows = connection.execute(_SIZES, (_TRIM_ROWS + 1,)).fetchall()
    for (_, last, last_time, length, end), (following, *_) in pairwise(rows):
        try:
            is_old = before is not None and last_time < before
            is_much = size is not None and until - end + length > size
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
        connection.execute("DELETE FROM log WHERE first < ?", (kept,))
    return kept


def _some(
    connection: sqlite3.Connection, query: str, *start: Any, size: int, limit: int | None = None
) -> list[Batch]:
    """Rows until they have `limit` events from the start on, or so many bytes."""
    rows: list[Batch] = []
    with contextlib.closing(connection.execute(query, start)) as cursor:
        for row in cursor:
            rows.append(batch := batch_of(row))
            size -= batch.size
            begin = max(start[0], rows[0].first) if query is _FROM_TICK else rows[0].first
            if size <= 0 or (limit is not None and batch.last - begin + 1 >= limit):
                break
    return rows
