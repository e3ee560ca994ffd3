"""Readers: the streams of a network as a batch, or as a stream of batches, of Spark.

An offset is a cursor, fixed by the driver before tasks read, and with it where its batch begins:
where a stream begins that turned up, or all of them at first, a broker may say otherwise later.
Each task then reads its ticks straight from the broker, and the same if it has to do so again.

Where events are judged by subscriptions, the offset also names how far their table was when it was
made. Tasks judge by the table as of then, so that who wants an event is also the same again. Where
they deliver it, the offset names the broker, too: no other one knows what of a batch it has got.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from secrets import token_hex
from time import time
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from tidings.events import TidingsError
from tidings.events.values import parse_time
from tidings.protocol.cursors import merged
from tidings.protocol.epochs import comes_after
from tidings.protocol.requests import Cursor
from tidings.spark.bulk.judging import Judged, Table, index_of, wanted
from tidings.spark.bulk.publishing import TICKS, Delivering, delivered, lanes
from tidings.spark.format.bounds import Bounds, left, lost
from tidings.spark.format.options import ReadOptions, time_text
from tidings.spark.format.rows import RowBatches
from tidings.spark.streams.absence import gap
from tidings.spark.streams.places import ends, ends_at, ticks_before
from tidings.spark.streams.reading import read
from tidings.spark.streams.stretch import Stretch, split
from tidings.spark.workers import settle

_VERSION: Final = 3
_BEGIN: Final = "begin"


class BatchReader(DataSourceReader):
    """Reads what lies between two places in the streams."""

    def __init__(self, options: ReadOptions, bounds: Bounds, schema: StructType) -> None:
        RowBatches(schema)  # is there such a column?
        self._options, self._bounds, self._schema = options, bounds, schema

    def partitions(self) -> Sequence[InputPartition]:
        options, start, end = self._options, self._bounds.start, self._bounds.end
        if not options.filter.conjunctions:
            return []
        others = merged(end, ends(options.login))  # by now they may be far ahead
        return split(start, end, others, most=options.partition)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _batches(partition, self._options, self._schema)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the streams as they grow."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        if not options.deliver:
            RowBatches(schema, judged=options.subscriptions is not None)
        self._options, self._schema = options, schema
        self._table = None if options.subscriptions is None else Table(options.subscriptions)
        self._last: Cursor | None = None
        """Where the streams are, as far as is known."""
        self._broker = ""
        """The name of the broker that has said where the streams are."""
        self._target: Cursor | None = None
        """Where to end, if all is to end there."""

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        match self._options.since:
            case None:
                now = time()
                return self._offset(time_text(now), self._ends())
            case dict() as cursor:
                return self._offset(_BEGIN, cursor)
            case "begin":
                return self._offset(_BEGIN, {})
            case moment:
                return self._offset(time_text(moment), {})

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadMaxRows(self._options.most)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._target = self._ends()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        begin = self._cursor(start)
        self._last = last = self._ends()
        gone = lost(begin, last)
        for stream in gone:
            if self._options.on_gap == "fail":
                raise TidingsError(gap(stream, begin[stream], last[stream]))
            begin[stream] = left(stream, last)
        if self._target is not None:
            target = self._target
            last = {s: min(t, target[s]) for s, t in last.items() if s in target}
        end = merged(begin, last)
        begin = begin | self._begun(start, end)
        end = {s: t for s, t in end.items() if s in begin}
        if isinstance(limit, ReadMaxRows):
            end = {s: begin[s] + n for s, n in _shares(begin, end, limit.max_rows).items()}
        if end == self._cursor(start):  # what was registered meanwhile has nothing to judge yet
            return start
        # Deliveries have the numbers of their ticks: of another log, they need another session.
        session = "" if gone else start.get("session", "")
        return self._offset(start["since"], end, begin=begin, session=session)

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        return None if self._last is None else self._offset(_BEGIN, self._last)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        upto, begin = self._cursor(end), _cursor_of(end["begin"])
        if self._last is None:
            self._last = self._ends()
        most = TICKS if self._options.deliver else self._options.partition
        found = split(begin, upto, merged(upto, self._last), most=most)
        if self._table is None:
            return found
        cursor = self._table.cursor_of(end)
        judged = [Judged(stretch, cursor) for stretch in found]
        if not self._options.deliver:
            return judged
        return lanes(judged, end["session"], broker=end["broker"])

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _batches(partition, self._options, self._schema)

    def _ends(self) -> Cursor:
        self._broker, last = ends_at(self._options.login)
        return last

    # -- offsets -------------------------------------------------------------------------------

    def _offset(
        self, since: str, cursor: Cursor, *, begin: Cursor | None = None, session: str = ""
    ) -> dict[str, Any]:
        """The end of a batch that begins at `begin`, or of none.

        Equal offsets are equal JSON: that is how Spark sees that there is nothing new.
        """
        more: dict[str, Any] = {}
        if self._table is not None:
            more["subscriptions"] = self._table.now()
        if self._options.deliver:
            more |= {"session": session or token_hex(8), "broker": self._broker}
        return {
            "version": _VERSION,
            "filter": self._options.filter.key,
            "since": since,
            "begin": _sorted(cursor if begin is None else begin),
            "cursor": _sorted(cursor),
            **more,
        }

    def _cursor(self, offset: dict[str, Any]) -> Cursor:
        """The cursor of an offset that this query can go on from."""
        version, key = offset.get("version"), offset.get("filter")
        if version != _VERSION:
            raise TidingsError(
                f"the checkpoint has offsets of version {version}; this tidings reads {_VERSION}"
            )
        if key != self._options.filter.key:
            raise TidingsError(
                "the checkpoint belongs to another filter than "
                f"{str(self._options.filter)!r}: what it has passed over would be missing. Use "
                "the filter it was begun with, or another checkpointLocation"
            )
        if self._table is not None:
            self._table.cursor_of(offset)  # is it of these subscriptions?
        return _cursor_of(offset["cursor"])

    def _begun(self, start: dict[str, Any], end: Cursor) -> Cursor:
        """Where streams begin that turned up after `start`.

        One that cannot be reached any more is left out, and has not turned up yet.
        """
        known = start["cursor"].keys()
        next_ = {s: 0 for s in end.keys() - known if comes_after(s, known)}
        new = end.keys() - known - next_.keys()
        since = 0.0 if start["since"] == _BEGIN else parse_time(start["since"]).timestamp()
        found = ticks_before(self._options.login, since, new)
        return {s: min(end[s], tick) for s, tick in found.items()} | next_


def _sorted(cursor: Cursor) -> Cursor:
    return {stream: cursor[stream] for stream in sorted(cursor)}


def _cursor_of(said: dict[str, Any]) -> Cursor:
    """A cursor of an offset."""
    return {str(stream): int(tick) for stream, tick in said.items()}


def _shares(start: Cursor, end: Cursor, most: int) -> Cursor:
    """How far to go in each stream so that it is no more than `most` ticks in all.

    A stream that has less than its share leaves the rest to the others. If there are more streams
    than ticks, they take turns: how many were read so far says whose turn it is.

    >>> _shares({"paris": 0, "rome": 0}, {"paris": 100, "rome": 3}, 10)
    {'paris': 7, 'rome': 3}
    >>> _shares({"paris": 1, "rome": 0}, {"paris": 2, "rome": 100}, 1)
    {'paris': 0, 'rome': 1}
    """
    shares = dict.fromkeys(end, 0)
    waiting = sorted(stream for stream, upto in end.items() if upto > start[stream])
    turn = sum(start.values()) % len(waiting) if waiting else 0
    chosen = [*waiting[turn:], *waiting[:turn]][:most]
    chosen.sort(key=lambda stream: end[stream] - start[stream])
    for others, stream in zip(range(len(chosen), 0, -1), chosen, strict=True):
        shares[stream] = min(end[stream] - start[stream], most // others)
        most -= shares[stream]
    return shares


def _batches(
    partition: InputPartition, options: ReadOptions, schema: StructType
) -> Iterator[pa.RecordBatch]:
    filter = options.filter
    fail, is_judged = options.on_mismatch == "fail", options.subscriptions is not None
    match partition:
        case Delivering():
            assert options.subscriptions is not None
            assert options.dead_letters is not None
            yield from delivered(
                partition,
                options.login,
                filter,
                on_gap=options.on_gap,
                subscriptions=options.subscriptions,
                dead_letters=options.dead_letters,
            )
        case Judged(stretch, cursor):
            assert options.subscriptions is not None
            index = index_of(options.subscriptions, cursor)
            rows = RowBatches(schema, fail=fail, judged=is_judged)
            for events in read(stretch, options.login, filter, on_gap=options.on_gap):
                found = dict(wanted([event.notification for event in events], index))
                if found:
                    yield rows.batch([events[place] for place in found], list(found.values()))
        case Stretch():  # else there is nothing to read
            rows = RowBatches(schema, fail=fail)
            for events in read(partition, options.login, filter, on_gap=options.on_gap):
                yield rows.batch(events)
    settle()
