"""Erasing: what is to be gone from a log, and from every byte of the store's files.

Rows are looked at in small pieces, without holding anybody up, and those with something to erase
are written anew, each under its own ticks, times and size: so seals, marks and cursors hold as
before. Then no copy may be left:

    in the journal      it is written to the database, and cut
    in free pages       which keep what was in them: they are given back, and the file is cut
    within other pages  SQLite overwrites what it deletes there (`secure_delete`)

What lies under the file (a file system that keeps old blocks, a disk that moves them) is out of
reach, as are backups.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from operator import is_not
from typing import Final, NamedTuple

from tidings.broker.store import log_table
from tidings.broker.store.disk import Eraser
from tidings.broker.store.log_table import LogRow, rewritten
from tidings.broker.store.seals import Damage
from tidings.protocol.messages import Event

_EVENTS: Final = 2_048
"""Events that are looked at together, about."""
_BYTES: Final = 1 << 20
"""Bytes of rows that are looked at together, about."""


class Piece(NamedTuple):
    """Some of a log."""

    upto: int
    """The last tick in it."""
    erased: int
    """Events that are erased, before or now."""
    last: int
    """The last tick in it where something is erased; 0 if there is none."""
    rows: Sequence[LogRow]
    """What to write in the places of rows in which there is something to erase."""
    damaged: tuple[int, int] | None = None
    """Its ticks, if they cannot be read."""


def look(
    connection: sqlite3.Connection, epoch: int, stream: str, eraser: Eraser, *, since: int, end: int
) -> Piece:
    """What is to be done behind a tick, where there is something up to the tick `end`."""
    try:
        rows = log_table.rows_at_tick(connection, epoch, since + 1, _EVENTS, size=_BYTES)
    except Damage:
        return _damaged(connection, epoch, since, end)
    count, last, changed, upto = 0, 0, [], since
    for row in rows:
        try:
            events = row.events(stream)
        except Damage:
            if upto > since:
                break  # it comes first in the next piece
            return _damaged(connection, epoch, since, end)
        upto = row.last
        written = [_after(event, eraser, end) for event in events]
        erased = [event for event in written if eraser.is_erased(event)]
        if erased:
            last = erased[-1].tick
            count += sum(map(eraser.has_erased, erased))
            if any(map(is_not, events, written)):
                changed.append(rewritten(row, written))
    return Piece(upto if rows else end, count, last, changed)


def _after(event: Event, eraser: Eraser, end: int) -> Event:
    """An event as it is to be after the erasure."""
    return eraser.tombstone(event) if event.tick <= end and eraser.matches(event) else event


def _damaged(connection: sqlite3.Connection, epoch: int, since: int, end: int) -> Piece:
    sound = log_table.next_sound_tick(connection, epoch, since)
    upto = end if sound is None else min(sound - 1, end)
    return Piece(upto, 0, 0, (), (since + 1, upto))
