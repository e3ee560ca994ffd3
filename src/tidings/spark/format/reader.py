"""Readers: the streams of a network as a batch, or as a stream of batches, of Spark.

An offset is a cursor, fixed by the driver before anybody reads, and with it where its batch begins:
where a stream begins that turned up, or all of them at first, a broker may say otherwise later.
Each task then reads its ticks straight from the broker, and the same if it has to do so again.

Where events are judged by subscriptions, the offset also names how far their table was when it was
made. Tasks judge by the table as of then, so that who wants an event is also the same again. Where
they deliver it, the offset names the broker, too: no other one knows what of a batch it has got.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from secrets import token_hex
from time import time
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.datasource import Filter as SparkFilter
from pyspark.sql.streaming.datasource import (
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from tidings.events import Filter, TidingsError
from tidings.events.values import parse_time
from tidings.node.requests import Cursor, Since
from tidings.spark.bulk.judging import Judged, Table, subscriptions, wanted
from tidings.spark.bulk.publishing import TICKS, Delivering, delivered, lanes
from tidings.spark.format.options import Broker, Reading, time_text
from tidings.spark.format.pushed import pushed
from tidings.spark.format.rows import Rows
from tidings.spark.streams.places import ends, ends_at, merged, ticks_before
from tidings.spark.streams.stretch import Stretch, gap, read, split
from tidings.spark.workers import settle

_VERSION: Final = 3
_BEGIN: Final = "begin"


class BatchReader(DataSourceReader):
    """Reads what lies between two places in the streams that can be reached when it begins."""

    def __init__(self, options: Reading, schema: StructType) -> None:
        Rows(schema)  # is there such a column?
        self._options, self._schema, self._filter = options, schema, options.filter

    def partitions(self) -> Sequence[InputPartition]:
        options = self._options
        last = ends(options.broker)
        _check_known("since", options.since, last)
        _check_known("until", options.until, last)
        if not self._filter.conjunctions:
            return []
        match options.until:
            case None:
                end = last
            case dict() as cursor:
                end = {s: min(t, cursor.get(s, 0)) for s, t in last.items()}
            case "begin":
                raise TidingsError("option until: begin is where everything starts")
            case moment:
                end = _ticks_before(options.broker, moment, last.keys())
        start = dict(options.since) if isinstance(options.since, dict) else {}
        for stream in _lost(start, last):
            if options.on_gap == "fail":
                raise TidingsError(f"option since: {gap(stream, start[stream], last[stream])}")
            start[stream] = 0
        # What is found by time may lie behind `last`, which is older: then there is nothing yet.
        since = options.since if isinstance(options.since, float) else 0.0
        start |= _ticks_before(options.broker, since, end.keys() - start.keys())
        return split(start, end, last, most=options.partition)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _batches(partition, self._options, self._filter, self._schema)


class PushedReader(BatchReader):
    """The same of a DataFrame that is asked one question: the broker does what it can of its WHERE.

    Spark 4.3 keeps what was pushed last for all that is made of a DataFrame. Asked again, or twice
    in one query, it would leave out what only another WHERE excludes: so one has to ask for it.
    """

    def pushFilters(self, filters: list[SparkFilter]) -> list[SparkFilter]:  # noqa: N802
        for filter in filters:
            admitted = pushed(filter, self._schema)
            if admitted is not None:
                self._filter = self._filter.intersect(admitted)
        return filters


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the streams as they grow."""

    def __init__(self, options: Reading, schema: StructType) -> None:
        if not options.deliver:
            Rows(schema, judged=options.subscriptions is not None)
        self._options, self._schema = options, schema
        self._table = None if options.subscriptions is None else Table(options.subscriptions)
        self._last: Cursor | None = None
        """Where the streams are, as far as is known,"""
        self._broker = ""
        """by the broker of this name."""
        self._target: Cursor | None = None
        """No further than this."""

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
        lost = _lost(begin, last)
        for stream in lost:
            if self._options.on_gap == "fail":
                raise TidingsError(gap(stream, begin[stream], last[stream]))
            begin[stream] = 0
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
        session = "" if lost else start.get("session", "")
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
        return _batches(partition, self._options, self._options.filter, self._schema)

    def _ends(self) -> Cursor:
        self._broker, last = ends_at(self._options.broker)
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
        new = end.keys() - start["cursor"].keys()
        since = 0.0 if start["since"] == _BEGIN else parse_time(start["since"]).timestamp()
        found = ticks_before(self._options.broker, since, new)
        return {s: min(end[s], tick) for s, tick in found.items()}


def _sorted(cursor: Cursor) -> Cursor:
    return {stream: cursor[stream] for stream in sorted(cursor)}


def _cursor_of(said: dict[str, Any]) -> Cursor:
    """A cursor of an offset."""
    return {str(stream): int(tick) for stream, tick in said.items()}


def _ticks_before(broker: Broker, since: float, streams: Set[str]) -> Cursor:
    """The same as `ticks_before`, of all these streams."""
    found = ticks_before(broker, since, streams)
    for stream in sorted(streams - found.keys()):
        raise TidingsError(f"stream {stream} cannot be reached any more; is its broker up?")
    return found


def _check_known(option: str, place: Since, last: Cursor) -> None:
    """Whether there are all streams that a cursor names."""
    named = place.keys() if isinstance(place, dict) else set()
    for stream in sorted(named - last.keys()):
        raise TidingsError(
            f"option {option}: stream {stream} cannot be reached; is its name right, and its "
            f"broker up? There are {', '.join(sorted(last))}"
        )


def _lost(begin: Cursor, last: Cursor) -> list[str]:
    """The streams that end before they are to begin: what their broker has now is another log."""
    return [stream for stream, tick in begin.items() if last.get(stream, tick) < tick]


def _shares(start: Cursor, end: Cursor, most: int) -> Cursor:
    """How far to go in each stream so that it is no more than so many ticks in all.

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
    for left, stream in zip(range(len(chosen), 0, -1), chosen, strict=True):
        shares[stream] = min(end[stream] - start[stream], most // left)
        most -= shares[stream]
    return shares


def _batches(
    partition: InputPartition, options: Reading, filter: Filter, schema: StructType
) -> Iterator[pa.RecordBatch]:
    fail, is_judged = options.on_mismatch == "fail", options.subscriptions is not None
    match partition:
        case Delivering():
            yield from delivered(partition, options)
        case Judged(stretch, cursor):
            assert options.subscriptions is not None
            index = subscriptions(options.subscriptions, cursor)
            rows = Rows(schema, fail=fail, judged=is_judged)
            for events in read(stretch, options, filter):
                found = dict(wanted([event.notification for event in events], index))
                if found:
                    yield rows.batch([events[place] for place in found], list(found.values()))
        case Stretch():  # else there is nothing to read
            rows = Rows(schema, fail=fail)
            for events in read(partition, options, filter):
                yield rows.batch(events)
    settle()
