"""Runs: records of a log, which say once what is one for many events, and leave their bytes alone.

A record is an array of the format and its runs. A run is an array, too::

    first      the tick of its first row; each row has the tick after that of the row before
    moment     when they were published, in seconds since 1970
    publisher  the name under which they were published; empty if that is not known
    control    the version of the policy that held; 0 while there is none
    trace      what they are traced under, as a W3C `traceparent`, or nil
    rows       the notifications, as the bytes that came
    more       nil, or for each row nil or what it has besides: an array of the publisher's id,
               whether it goes to everybody, whether it may be there twice, when it expires
               (0.0: never); what is missing at the end has its default

A run may be cut anywhere: what is observed never depends on where. New fields come last, with
defaults, and are skipped by whoever does not know them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import msgspec
from msgspec import Raw
from msgspec.msgpack import Decoder, Encoder

from tidings.events import Notification
from tidings.protocol import records
from tidings.protocol.messages import Event, More
from tidings.protocol.records import UNLIMITED, Body, RecordDecoder, WireError, body_of
from tidings.protocol.requests import Time

FORMAT: Final = 2
"""The format of a record, which is the first thing in it."""


class Besides(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What few rows have besides a notification."""

    id: str = ""
    """The publisher's own, under which it is kept once."""
    flood: bool = False
    """Whether it goes to everybody."""
    maybe_twice: bool = False
    expires: Time = 0.0


class Run(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Events that follow on each other in a stream, with what is one for all of them.

    >>> events = [Event("paris", tick, Notification({"n": tick}), time=5.0) for tick in (7, 8)]
    >>> [run] = unpack_runs(pack(events, ["desk", "desk"]))
    >>> run.first, run.moment, run.publisher, len(run.rows), run.each("paris") == events
    (7, 5.0, 'desk', 2, True)
    """

    first: int
    moment: Time
    publisher: str = ""
    control: int = 0
    trace: str | None = None
    rows: Sequence[Raw] = ()
    more: Sequence[Besides | None] | None = None

    def each(self, stream: str) -> list[Event]:
        """Its rows, as events of a stream."""
        read, moment, tick = _OWN.notification, self.moment, self.first
        if self.more is None and self.trace is None and not self.control:
            if len(self.rows) == 1:  # as a quiet broker writes them
                return [Event(stream, tick, read(self.rows[0]), False, moment)]
            ticked = enumerate(self.rows, tick)
            return [Event(stream, tick, read(row), False, moment) for tick, row in ticked]
        more = self.more or [None] * len(self.rows)
        if len(more) != len(self.rows):
            raise WireError(f"a run has {len(self.rows)} rows, and tells more of {len(more)}")
        return [
            Event(stream, tick, read(row), bool(each and each.flood), moment, self._more(each))
            for tick, (row, each) in enumerate(zip(self.rows, more, strict=True), tick)
        ]

    def _more(self, row: Besides | None) -> More | None:
        row = row or _NOTHING
        found = More(row.id, row.expires, self.control, self.trace, row.maybe_twice)
        return None if found == _NO_MORE else found


class Rows(NamedTuple):
    """Events of one stream, as lists of the same length: the lightest form that they have."""

    ticks: list[int]
    times: list[float]
    records: list[dict[str, object]]
    """The attributes of each."""
    bodies: list[Body | None]
    """The body of each, where the attributes do not say it."""
    size: int = 0
    """The bytes that they took, with what was around them; 0 if nobody has counted."""

    def between(self, after: int, upto: int) -> Rows:
        """Those behind a tick, up to and with another."""
        begin, end = bisect_right(self.ticks, after), bisect_right(self.ticks, upto)
        if begin == 0 and end == len(self.ticks):
            return self
        some = slice(begin, end)
        ticks, times, records, bodies, size = self
        return Rows(ticks[some], times[some], records[some], bodies[some], size)


# -- writing -----------------------------------------------------------------------------------


def pack(events: Sequence[Event], publishers: Sequence[str] = ()) -> bytes:
    """Events of one stream, in its order, as one record of its log.

    `publishers` are the names under which each was published, if they are known.
    """
    try:
        return _ENCODER.encode((FORMAT, _written(events, publishers)))
    except records.UNWRITABLE as problem:
        raise records.unwritten(problem) from None


def repack(runs: Iterable[Run]) -> bytes:
    """Runs that were read as a record again."""
    return _ENCODER.encode((FORMAT, [_trimmed(run) for run in runs]))


_Written: TypeAlias = tuple[Any, ...]
"""A run as it is written: what is missing at the end has its default."""


def _written(events: Sequence[Event], publishers: Sequence[str]) -> list[_Written]:
    """As few runs as events make, which must be in order. A name that is missing is empty."""
    if not events:
        return []
    first, last, name = events[0], events[-1], publishers[0] if publishers else ""
    is_one = len(events) == 1 or (
        last.tick - first.tick == len(events) - 1
        and last.time == first.time
        and publishers.count(name) == len(publishers)
    )
    if is_one and not _have_more(events):
        return [(first.tick, first.time, name, 0, None, [e.notification for e in events])]
    found: list[_Written] = []
    moment, name, following, shared = 0.0, "", -1, _USUAL
    rows: list[Notification] = []
    begin, has_more = 0, False
    for at, event in enumerate(events):
        publisher = publishers[at] if publishers else ""
        more = event.more
        about = _USUAL if more is None else (more.control, more.trace)
        if event.tick != following or event.time != moment or publisher != name or about != shared:
            if has_more:
                found[-1] += ([_besides(each) for each in events[begin:at]],)
            following, moment, name, shared = event.tick, event.time, publisher, about
            begin, has_more, rows = at, False, []
            found.append((following, moment, name, *shared, rows))
        following += 1
        rows.append(event.notification)
        if event.flood or more is not None:
            has_more = True
    if has_more:
        found[-1] += ([_besides(each) for each in events[begin:]],)
    return found


def _have_more(events: Sequence[Event]) -> bool:
    for event in events:  # noqa: SIM110 - `any` of a generator takes three times as long
        if event.more is not None or event.flood:
            return True
    return False


_USUAL: Final[tuple[int, str | None]] = (0, None)
"""The control version and the trace of nearly all events."""


def _besides(event: Event) -> _Written | None:
    more = event.more or _NO_MORE
    return _trim((more.id, event.flood, more.maybe_twice, more.expires))


def _trimmed(run: Run) -> _Written:
    said = (run.first, run.moment, run.publisher, run.control, run.trace, run.rows)
    if run.more is None:
        return said
    return (*said, [each and _trim(msgspec.structs.astuple(each)) for each in run.more])


def _trim(row: tuple[str, bool, bool, float]) -> _Written | None:
    id, flood, maybe_twice, expires = row
    if expires:
        return row
    if maybe_twice:
        return (id, flood, True)
    if flood:
        return (id, True)
    return (id,) if id else None


# -- reading -----------------------------------------------------------------------------------


class _PlainRun(msgspec.Struct, array_like=True, gc=False):
    first: int
    moment: Time
    publisher: str = ""
    control: int = 0
    trace: str | None = None
    rows: Sequence[records.Plain | msgspec.msgpack.Ext] = ()


def unpack_runs(blob: bytes | memoryview) -> list[Run]:
    """The runs of a record; `WireError` if it is damaged, or of another format."""
    try:
        return _RECORD.decode(blob)[1]
    except records.UNREADABLE as problem:
        _check_format(blob)
        raise _unread(problem) from None


def unpack(blob: bytes | memoryview, stream: str) -> tuple[Event, ...]:
    """The events of a record of this stream's log; `WireError` if it is damaged."""
    runs = unpack_runs(blob)
    try:
        if len(runs) == 1:
            return tuple(runs[0].each(stream))
        return tuple([event for run in runs for event in run.each(stream)])
    except records.UNREADABLE as problem:
        raise _unread(problem) from None


def unpack_rows(blob: bytes | memoryview) -> Rows:
    """The events of a record without an object for each, which takes half the time."""
    try:
        _, runs = _PLAIN_RECORD.decode(blob)
    except msgspec.ValidationError:  # values that are less common, or something wrong
        return rows_of(unpack(blob, ""), len(blob))
    except records.UNREADABLE as problem:
        raise _unread(problem) from None
    ticks: list[int] = []
    times: list[float] = []
    found: list[Any] = []
    for run in runs:
        count = len(run.rows)
        ticks.extend(range(run.first, run.first + count))
        times.extend([run.moment] * count)
        found.extend(run.rows)
    bodies: list[Body | None] = [None] * len(found)
    for at, record in enumerate(found):
        if record.__class__ is not dict:
            found[at], bodies[at] = _OWN.marked(record)
    return Rows(ticks, times, found, bodies, len(blob))


def rows_of(events: Sequence[Event], size: int = 0) -> Rows:
    """Events of one stream in their lightest form."""
    said = [event.notification for event in events]
    return Rows(
        [event.tick for event in events],
        [event.time for event in events],
        [notification.attributes for notification in said],
        [body_of(notification) for notification in said],
        size,
    )


def _check_format(blob: bytes | memoryview) -> None:
    """Say so if a record that cannot be read is of another format."""
    try:
        found, _ = _ANY_RECORD.decode(blob)
    except records.UNREADABLE:
        return
    if found != FORMAT:
        raise WireError(f"a record of format {found}; this tidings reads format {FORMAT}")


def _unread(problem: Exception) -> WireError:
    return records.unread("a record of the log", problem)


_NO_MORE: Final = More()
_NOTHING: Final = Besides()
_OWN: Final = RecordDecoder(UNLIMITED)
_ENCODER: Final = Encoder(enc_hook=records.hook)
_RECORD: Final = Decoder(tuple[Literal[2], list[Run]])
_PLAIN_RECORD: Final = Decoder(tuple[Literal[2], list[_PlainRun]])
_ANY_RECORD: Final = Decoder(tuple[int, Raw])
