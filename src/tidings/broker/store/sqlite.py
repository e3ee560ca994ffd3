"""A store in SQLite: a broker's values and its logs, on the disk once they are committed."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import sqlite3
import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any, Final, TypeVar

from tidings.broker.store import about, database, erasing, identity, log_table
from tidings.broker.store import mark as marks
from tidings.broker.store.about import End
from tidings.broker.store.ballast import Ballast
from tidings.broker.store.connections import Pool, Writer
from tidings.broker.store.continuity import Found, all_closed, doubt, warning
from tidings.broker.store.database import DisorderError, LogDamageError, StoreError
from tidings.broker.store.disk import Erased, Eraser
from tidings.broker.store.identity import Identity
from tidings.broker.store.log_table import LogRow, rows_of
from tidings.broker.store.mark import Head, Mark
from tidings.broker.store.seals import Damage, seal, unseal
from tidings.events import TidingsError
from tidings.protocol.epochs import epoch_of, stream_name
from tidings.protocol.host import Span
from tidings.protocol.messages import Event
from tidings.protocol.wire import pack_value, unpack_value

_log = logging.getLogger(__name__)

_T = TypeVar("_T")

_PAUSE: Final = 0.001
"""Seconds between the steps of a trim, in which a commit that waits gets its turn."""


class SQLiteStore:
    """A store in a folder of its own, for the broker of this name.

    `ballast` bytes are thrown off when the disk is full, so that what a node has taken on can
    still be committed: no commit should need more.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = SQLiteStore(folder, "paris", ballast=0)
    ...     store.commit({"publisher:desk-7": 12}, ())
    ...     store.close()
    ...     with contextlib.closing(SQLiteStore(folder, "paris", ballast=0)) as store:
    ...         store.content()
    {'publisher:desk-7': 12}
    """

    def __init__(self, folder: str | Path, name: str, *, ballast: int = 16 << 20) -> None:
        self._name = name
        self._path = path = database.file_of(Path(folder).absolute())
        self._stream = name
        self._spans: dict[str, Span] = {}
        self._until = 0
        self._head = Head()
        self._identity: Identity | None = None
        self._damage: str | None = None
        self._failure: str | None = None
        self._is_open = True
        self.raised: str | None = None
        """See `Disk`."""
        self._writing = threading.Lock()
        self._ballast = Ballast(path.with_name("ballast"), ballast)
        with contextlib.ExitStack() as stack, self._explained():
            stack.callback(os.close, database.lock(path.parent))
            is_new = database.open_or_create(path, name)
            connection = stack.enter_context(contextlib.closing(database.connect(path)))
            database.examine(connection, path, name)
            self._writer = Writer(connection, path, self._ballast)
            self._pool = stack.enter_context(contextlib.closing(Pool(path)))
            self._load()
            self.content()  # a damaged value is better found now
            if not is_new:
                self._prove()
            self._mark = stack.enter_context(contextlib.closing(Mark(path.parent)))
            self._mark.move(self._head)
            self._ballast.restore()
            self._resources = stack.pop_all()

    @property
    def trouble(self) -> str | None:
        """See `Disk`: damage, the last commit's failure, or a disk that is nearly full."""
        reason = self._damage or self._failure or self._mark.trouble
        if reason or self._ballast.is_in_place:
            return reason
        needs = self._ballast.needs / 2**20
        return (
            f"The disk of {self._path.parent} is full: "
            f"all will be well again when {needs:.0f} MiB are free."
        )

    def content(self) -> dict[str, Any]:
        with self._explained(), self._pool.lend() as connection:
            rows = connection.execute("SELECT key, value FROM state").fetchall()
        with self._explained():
            return {key: value_of(key, sealed) for key, sealed in rows}

    def spans(self) -> dict[str, Span]:
        return dict(self._spans)

    def commit(
        self, values: Mapping[str, Any], events: Sequence[Event], publishers: Sequence[str] = ()
    ) -> None:
        forgotten = [(key,) for key, value in values.items() if value is None]
        stored = [
            (key, seal(pack_value(value), key))
            for key, value in values.items()
            if value is not None
        ]

        def write(connection: sqlite3.Connection) -> None:
            connection.executemany("DELETE FROM state WHERE key = ?", forgotten)
            connection.executemany("INSERT OR REPLACE INTO state VALUES (?, ?)", stored)
            log_table.append(connection, rows)
            about.put(connection, about.HEAD, head)

        with self._writing:
            self._check_order(events)
            rows = list(rows_of(events, self._head.epoch, self._until, publishers))
            last = rows[-1].last if rows else self._head.last
            head = Head(self._head.number + 1, self._head.epoch, last)
            self._transact(write)
            self._failure = None
            self._head = head
            self._mark.move(head)
            if rows:
                self._until = rows[-1].until
                first = self._spans[self._stream].first
                self._now_kept(self._stream, Span(first, rows[-1].last, rows[-1].last_time))

    def raise_epoch(self) -> str:
        with self._writing:
            self._begin_epoch()
            self._mark.move(self._head)
            return self._stream

    def read(
        self, stream: str, since: int, *, after: float = 0.0, limit: int
    ) -> tuple[int, int, tuple[Event, ...]]:
        # Before the query: what is committed after it must not be taken for too early.
        last = self._span(stream).last
        if after <= 0 and since >= last:
            return since, since, ()
        epoch = epoch_of(stream)
        with self._explained(), self._pool.lend() as connection:
            try:
                if after > 0:
                    rows = log_table.rows_at_time(connection, epoch, after, limit)
                else:
                    rows = log_table.rows_at_tick(connection, epoch, since + 1, limit)
                events = _behind(_unpacked(rows, stream), since, after)
                if rows and not events:
                    raise Damage(f"the events behind {rows[0].last} are missing")
            except Damage as error:
                if after > 0:
                    since = log_table.tick_at_time(connection, epoch, after) - 1
                raise self._log_damage(connection, stream, since, error) from None
        return (events[0].tick - 1, events[-1].tick, events) if events else (last, last, ())

    def copy(
        self, stream: str, after: int, *, upto: int, size: int
    ) -> tuple[int, int, tuple[bytes, ...]]:
        last = self._span(stream).last
        if after >= min(upto, last):
            return after, after, ()
        with self._explained(), self._pool.lend() as connection:
            try:
                rows = log_table.rows_at_tick(
                    connection, epoch_of(stream), after + 1, upto - after, size=size
                )
                if not rows and self._is_empty(stream):
                    return last, last, ()
                blocks = _blocks(rows)
                if not blocks or rows[len(blocks) - 1].last <= after:
                    raise Damage(f"the events behind {after} are missing")
            except Damage as error:
                raise self._log_damage(connection, stream, after, error) from None
        return max(after, rows[0].first - 1), rows[len(blocks) - 1].last, blocks

    def trim(
        self,
        *,
        before: float | None = None,
        size: int | None = None,
        upto: Mapping[str, int] | None = None,
    ) -> int:
        for stream in self.spans():
            least = None if upto is None else upto.get(stream, 0)
            while self._trim_some(stream, before, size, least):
                time.sleep(_PAUSE)
        while self._shrink_some():
            time.sleep(_PAUSE)
        with self._writing:
            self._ballast.restore()
            if self._mark.trouble:
                self._mark.move(self._head)
        return self._spans[self._stream].first

    def erase(self, stream: str, eraser: Eraser, *, upto: int, is_dry: bool = False) -> Erased:
        span, epoch = self._span(stream), epoch_of(stream)
        at, end = span.first - 1, min(upto, span.last)
        count = last = 0
        damaged: list[tuple[int, int]] = []
        while at < end:
            with self._explained(), self._pool.lend() as connection:
                piece = erasing.look(connection, epoch, stream, eraser, since=at, end=end)
            at, count, last = piece.upto, count + piece.erased, piece.last or last
            if piece.damaged is not None:
                damaged.append(piece.damaged)
            if piece.rows and not is_dry:
                self._rewrite(piece.rows)
            time.sleep(_PAUSE)
        if not is_dry:
            self._scrub()
        return Erased(count, last, tuple(damaged))

    def _rewrite(self, rows: Sequence[LogRow]) -> None:
        with self._writing, self._explained(writing=True):
            self._check_open()
            self._writer.overwrite(lambda connection: log_table.rewrite(connection, rows))

    def _scrub(self) -> None:
        """Leave nothing of what was deleted in any file, neither now nor before."""
        while self._scrub_some():
            time.sleep(_PAUSE)
        end = time.monotonic() + database.PATIENCE
        while not self._empty_journal():
            if time.monotonic() > end:
                raise StoreError(
                    f"{self._path}: another program has been reading it for "
                    f"{database.PATIENCE:.0f} seconds, as a backup does, and what was erased is "
                    "still in its journal."
                )
            time.sleep(_PAUSE)

    def _scrub_some(self) -> bool:
        with self._writing, self._explained(writing=True):
            self._check_open()
            return self._writer.scrub()

    def _empty_journal(self) -> bool:
        with self._writing, self._explained(writing=True):
            self._check_open()
            return self._writer.empty_journal()

    def close(self) -> None:
        with self._writing:
            self._is_open = False
            self._resources.close()  # those that read first, so that the writer ends the journal

    # -- opening -------------------------------------------------------------------------------

    def _load(self) -> None:
        """What was committed, after a look at the end of the log."""
        with self._pool.lend() as connection:
            head = about.get(connection, about.HEAD, Head)
            closed = about.get(connection, about.CLOSED, list[End]) or []
            self._identity = about.get(connection, about.IDENTITY, Identity)
            if head is None or head.epoch != len(closed) + 1:
                raise Damage("it does not say what its last commit was")
            firsts = [log_table.first_tick(connection, epoch) for epoch in range(1, head.epoch + 1)]
            rows = log_table.last_rows(connection, head.epoch)
            self._until = log_table.length(connection)
        self._head = head
        self._stream = stream_name(self._name, head.epoch)
        _unpacked(rows, self._stream, wholly=True)
        ends = [*closed, End(rows[-1].last, rows[-1].last_time) if rows else End()]
        if ends[-1].last != head.last:
            raise Damage(f"the log ends at {ends[-1].last}, the last commit at {head.last}")
        self._spans = {
            stream_name(self._name, epoch): Span(first or end.last + 1, end.last, end.time)
            for epoch, (first, end) in enumerate(zip(firsts, ends, strict=True), 1)
        }

    def _prove(self) -> None:
        """Go on where the log has ended if that can be proved; else begin an epoch.

        A crash in between does no harm: once the old identity is gone, nothing is proved until
        the database knows the new one, and it learns of it together with the new epoch.
        """
        folder = self._path.parent
        mark = marks.look(folder)
        found = Found(self._head, self._identity, mark, identity.look(folder))
        why = doubt(found, self._name)
        if why is None:
            self._change_identity()
            return
        closed = self._head
        identity.remove(folder)
        if mark is None:
            marks.write(folder, closed)
        mine = identity.write(folder)
        self._begin_epoch(mark=mark, identity=mine)
        self._identity = mine
        self.raised = warning(why, closed, self._stream, self._name)
        _log.warning("%s: %s", self._path, self.raised)

    def _change_identity(self) -> None:
        """Be another one than any copy that was made until now.

        A crash in between does no harm: the identity that the database knows is always there. A
        store without room keeps it, as its broker is to start nevertheless.
        """
        try:
            mine = identity.write(self._path.parent, beside=self._identity)
            self._writer.transact(lambda c: about.put(c, about.IDENTITY, mine))
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            _log.warning("%s: no room for another identity", self._path)
        except sqlite3.Error as error:
            if not database.is_out_of_room(error):
                raise
            _log.warning("%s: no room for another identity", self._path)
        else:
            self._identity = mine
            identity.remove(self._path.parent, but=mine)

    def _begin_epoch(self, *, mark: Head | None = None, identity: Identity | None = None) -> None:
        ends = [End(span.last, span.time) for span in self._spans.values()]
        closed = all_closed(ends, mark)
        number = max(self._head.number, mark.number if mark else 0) + 1
        head = Head(number, len(closed) + 1, 0)

        def write(connection: sqlite3.Connection) -> None:
            about.put(connection, about.CLOSED, closed)
            about.put(connection, about.HEAD, head)
            if identity is not None:
                about.put(connection, about.IDENTITY, identity)

        self._transact(write)
        self._head = head
        self._stream = stream_name(self._name, head.epoch)
        skipped = {
            stream_name(self._name, epoch): Span(end.last + 1, end.last, end.time)
            for epoch, end in enumerate(closed, 1)
        }
        self._spans = skipped | self._spans | {self._stream: Span()}

    # -- the rest ------------------------------------------------------------------------------

    def _log_damage(
        self, connection: sqlite3.Connection, stream: str, since: int, error: Damage
    ) -> LogDamageError:
        """What is behind a tick cannot be read; publishing and all other reading go on."""
        span = self._span(stream)
        since = max(since, span.first - 1)
        following = log_table.next_sound_tick(connection, epoch_of(stream), since)
        upto = span.last if following is None else following - 1
        return LogDamageError(database.damage(self._path, str(error)), since, upto)

    def _span(self, stream: str) -> Span:
        try:
            return self._spans[stream]
        except KeyError:
            raise StoreError(f"{self._path} has no log of {stream!r}.") from None

    def _now_kept(self, stream: str, span: Span) -> None:
        self._spans = self._spans | {stream: span}  # others may look at the old one

    def _is_empty(self, stream: str) -> bool:
        """Whether all of it was trimmed; a trim that is under way is waited for."""
        with self._writing:
            span = self._spans[stream]
            return span.first > span.last

    def _check_order(self, events: Sequence[Event]) -> None:
        """A log with a gap, a repetition or a clock that goes back could not be read again."""
        span = self._spans[self._stream]
        tick, now = span.last, span.time
        for event in events:
            if event.stream != self._stream or event.tick != tick + 1 or not event.time >= now:
                raise DisorderError(
                    f"Event {event.stream}:{event.tick} of time {event.time} cannot follow on "
                    f"{self._stream}:{tick} of time {now} in the log."
                )
            tick, now = event.tick, event.time

    def _trim_some(
        self, stream: str, before: float | None, size: int | None, upto: int | None
    ) -> bool:
        """Forget some of what is too old or too much of a stream; whether there was any."""
        with self._writing:
            span = self._spans[stream]
            first = self._transact(
                lambda c: log_table.expire(
                    c,
                    epoch_of(stream),
                    before=before,
                    size=size,
                    until=self._until,
                    upto=upto,
                    end=None if stream == self._stream else span.last,
                )
            )
            if first is not None:
                self._now_kept(stream, Span(first, span.last, span.time))
            return first is not None

    def _shrink_some(self) -> bool:
        with self._writing, self._explained(writing=True):
            self._check_open()
            return self._writer.shrink()

    def _transact(self, work: Callable[[sqlite3.Connection], _T]) -> _T:
        with self._explained(writing=True):
            self._check_open()
            return self._writer.transact(work)

    def _check_open(self) -> None:
        if not self._is_open:
            raise StoreError(f"{self._path} has been closed.")

    @contextlib.contextmanager
    def _explained(self, *, writing: bool = False) -> Iterator[None]:
        """Tell what goes wrong as a `StoreError`, and remember it as our trouble."""
        try:
            yield
        except Damage as error:
            self._damage = database.damage(self._path, str(error))
            raise StoreError(self._damage) from None
        except sqlite3.Error as error:
            reason = database.explain(error, self._path)
            if database.is_damage(error):
                self._damage = reason
            elif writing:
                self._failure = reason
            raise StoreError(reason) from None
        except OSError as error:
            reason = f"{self._path.parent} cannot be written: {error.strerror}."
            raise StoreError(reason) from None


def _unpacked(rows: Sequence[LogRow], stream: str, *, wholly: bool = False) -> tuple[Event, ...]:
    """The events of rows up to the first that is damaged; `Damage` if it is the very first.

    With `wholly`, none may be, and they must follow on each other.
    """
    events: list[Event] = []
    try:
        for row in rows:
            if events and events[-1].tick + 1 != row.first:
                raise Damage(f"the events behind {events[-1].tick} are missing")
            events += row.events(stream)
    except Damage:
        if wholly or not events:
            raise
    return tuple(events)


def _behind(events: tuple[Event, ...], since: int, after: float) -> tuple[Event, ...]:
    """Those of a time or later, or behind a tick if the time is 0."""
    if after > 0:
        return events[bisect_left(events, after, key=attrgetter("time")) :]
    return events[bisect_left(events, since + 1, key=attrgetter("tick")) :]


def _blocks(rows: Sequence[LogRow]) -> tuple[bytes, ...]:
    """The blocks of rows up to the first that is damaged; `Damage` if it is the very first."""
    blocks: list[bytes] = []
    try:
        for number, row in enumerate(rows):
            if number and rows[number - 1].last + 1 != row.first:
                raise Damage(f"the events behind {rows[number - 1].last} are missing")
            blocks.append(row.block())
    except Damage:
        if not blocks:
            raise
    return tuple(blocks)


def value_of(key: str, sealed: bytes) -> Any:
    """A value as it was committed; `Damage` if it is not that any more."""
    try:
        return unpack_value(unseal(sealed, key))
    except (TidingsError, Damage):
        raise Damage(f"the value of {key!r} is not what was written") from None
