"""Pruning: which files of a lake may hold what is asked for, by what Delta's log says of them.

The log has, for each file, the least and the greatest value of most columns and how many rows have
none. It cuts times to milliseconds and long strings to a prefix, so both are taken with a margin.
Never is a file left out that holds a row that is wanted; one without statistics is read. Whether
a column is missing in a file that is older, only the file itself says: see `Search`.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, time, timedelta
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from tidings.events import Filter, TidingsError
from tidings.events.constraint import Constraint
from tidings.events.intervals import BOOLEANS, NUMBERS, STRINGS, TIMES, Intervals, after_prefix
from tidings.events.strings import Strings
from tidings.events.values import EPOCH, MICROSECOND, microseconds
from tidings.lakes.layout import DAY, REST, Columns
from tidings.protocol.cursors import Beginning, beginning, is_behind
from tidings.protocol.requests import Cursor

Statistics = Mapping[str, Any]
"""What the log says of one file, by the names of `DeltaTable.get_add_actions(flatten=True)`."""

_CUT: Final = timedelta(milliseconds=1)
_SHORTEST: Final = 32
"""No string is cut to fewer bytes."""
_EARLIEST: Final = datetime.min.replace(tzinfo=UTC)
_LATEST: Final = datetime.max.replace(tzinfo=UTC)
_ORDERS: Final = {"boolean": BOOLEANS, "integer": NUMBERS, "double": NUMBERS, "time": TIMES}


class Place(NamedTuple):
    """A position in all streams: ticks, or a time."""

    cursor: Mapping[str, int] | None = None
    time: int | None = None
    """In microseconds."""


class Window(NamedTuple):
    """What lies behind one place, up to another one. A time belongs to what follows on it."""

    since: Place
    until: Place

    @classmethod
    def of(cls, since: Beginning, until: Beginning) -> Window:
        """As a program says it; `TidingsError` if it says no place, or the beginning as its end."""
        if until == "begin":
            raise TidingsError("'begin' is no place to end: give a time or a cursor, or nothing")
        return cls(_place(since), _place(until))

    @property
    def is_empty(self) -> bool:
        """Whether nothing lies inside, whatever there is.

        >>> Window.of("2026-11-16", "2026-11-15").is_empty
        True
        """
        if self.since.time is not None and self.until.time is not None:
            return self.since.time >= self.until.time
        if self.since.cursor is not None and self.until.cursor is not None:
            return is_behind(self.until.cursor, self.since.cursor)
        return False

    def may_hold(self, file: Statistics) -> bool:
        """Whether rows of the file may lie inside."""
        first, last = times(file)
        if self.since.time is not None and last < self.since.time:
            return False
        if self.until.time is not None and first >= self.until.time:
            return False
        stream = file.get("min.stream")
        if stream is None or stream != file.get("max.stream") or not _is_whole(stream):
            return True
        lowest, highest = file.get("min.tick"), file.get("max.tick")
        if lowest is None or highest is None:
            return True
        cursor, upto = self.since.cursor, self.until.cursor
        return (cursor is None or highest > cursor.get(stream, 0)) and (
            upto is None or lowest <= upto.get(stream, 0)
        )

    def condition(self) -> Any:
        """Whether a row lies inside, as an expression of Arrow's; None if all do."""
        stream, tick, when = pc.field("stream"), pc.field("tick"), pc.field("time")
        parts = []
        if self.since.time is not None:
            parts.append(when >= _scalar(self.since.time))
        if self.until.time is not None:
            parts.append(when < _scalar(self.until.time))
        if self.since.cursor is not None:
            parts += [(stream != s) | (tick > t) for s, t in self.since.cursor.items()]
        if self.until.cursor is not None:
            parts.append(stream.isin(pa.array(list(self.until.cursor), pa.string())))
            parts += [(stream != s) | (tick <= t) for s, t in self.until.cursor.items()]
        found = None
        for part in parts:
            found = part if found is None else found & part
        return found


def exactly(said: Beginning) -> Cursor | datetime | None:
    """A cursor, or a time, or neither: the beginning."""
    where = beginning(said)
    if isinstance(where, float):
        # A datetime that the caller gave is exact; its seconds as a float are not quite.
        return said if isinstance(said, datetime) else datetime.fromtimestamp(where, UTC)
    return where if isinstance(where, dict) else None


def _place(said: Beginning) -> Place:
    where = exactly(said)
    if isinstance(where, datetime):
        return Place(time=microseconds(where))
    return Place(cursor=where)


def _scalar(count: int) -> Any:
    return pa.scalar(EPOCH + count * MICROSECOND, pa.timestamp("us", "UTC"))


def may_match(file: Statistics, filter: Filter, columns: Columns) -> bool:
    """Whether rows of the file may match."""
    return any(
        all(_may_be(file, c[name], columns.get(name, {})) for name in c.constraints)
        for c in filter.conjunctions
    )


def _may_be(file: Statistics, constraint: Constraint, kinds: Mapping[str, str]) -> bool:
    if constraint.absent or not _is_empty(file, REST):
        return True
    return any(
        not _is_empty(file, column)
        and (constraint.others if kind == "present" else _may_hold(file, kind, column, constraint))
        for kind, column in kinds.items()
    )


def _is_empty(file: Statistics, column: str) -> bool:
    count = file.get(f"null_count.{column}")
    return count is not None and count == file.get("num_records")


def _may_hold(file: Statistics, kind: str, column: str, constraint: Constraint) -> bool:
    return _span(file, kind, column).overlaps(constraint)


def _span(file: Statistics, kind: str, column: str) -> Constraint:
    """What values of a column may be, as a constraint that covers them all."""
    low, high = file.get(f"min.{column}"), file.get(f"max.{column}")
    if low is None or high is None:
        return _ANYTHING
    if kind == "string":
        span = Intervals.above(STRINGS, low, closed=True)
        if _is_whole(high):
            span = span.intersect(Intervals.below(STRINGS, high, closed=True))
        elif (end := after_prefix(high)) is not None:
            span = span.intersect(Intervals.below(STRINGS, end))
        return Constraint.of(Strings(span))
    if kind not in _ORDERS:
        return _ANYTHING
    if kind == "time":
        low, high = _earlier(low), _later(high)
    return Constraint.of(Intervals.between(_ORDERS[kind], low, high))


def times(file: Statistics) -> tuple[int, int]:
    """Between which times a file's events were published, in microseconds."""
    earliest, latest = [microseconds(_EARLIEST)], [microseconds(_LATEST)]
    if (day := file.get("partition.day")) is not None:
        midnight = microseconds(datetime.combine(day, time(), UTC))
        earliest.append(midnight)
        latest.append(midnight + DAY)
    if (first := file.get("min.time")) is not None:
        earliest.append(microseconds(_earlier(first)))
    if (last := file.get("max.time")) is not None:
        latest.append(microseconds(_later(last)))
    return max(earliest), min(latest)


def _is_whole(text: str) -> bool:
    return len(text.encode()) < _SHORTEST


def _earlier(when: datetime) -> datetime:
    when = when.replace(tzinfo=UTC)
    return when - _CUT if when - _EARLIEST > _CUT else _EARLIEST


def _later(when: datetime) -> datetime:
    when = when.replace(tzinfo=UTC)
    return when + _CUT if _LATEST - when > _CUT else _LATEST


_ANYTHING: Final = Constraint({}, others=True)
