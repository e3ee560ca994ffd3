"""The store: what a broker keeps across a crash, its node's values and its log of events."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from operator import attrgetter
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

from tidings.broker import database, log
from tidings.broker.ballast import Ballast
from tidings.broker.batch import Batch, batches
from tidings.broker.database import Damage, StoreError
from tidings.broker.readers import Readers
from tidings.broker.writer import Writer
from tidings.events import TidingsError
from tidings.node import Event, Span
from tidings.node.wire import pack_value, unpack_value

__all__ = ["SQLiteStore", "Store", "StoreError"]

_T = TypeVar("_T")

_PAUSE: Final = 0.001
"""Seconds between the steps of a trim, in which a commit that waits gets its turn."""


class Store(Protocol):
    """What the host asks of a store. Everything may raise `StoreError`, whose text is a sentence.

    Any thread may call any method; a read waits for no commit.
    """

    @property
    def trouble(self) -> str | None:
        """A sentence that says why nothing new should be accepted; None if all is well."""

    def content(self) -> dict[str, Any]:
        """All values, by their keys."""

    def span(self) -> Span:
        """What of the log is kept."""

    def commit(self, values: Mapping[str, Any], events: Sequence[Event]) -> None:
        """Set values (None forgets one) and append events: all of it, and for good, or nothing.

        A commit that raises may be tried again, alone or together with what follows it.
        """

    def read(
        self, since: int, *, after: float = 0.0, limit: int
    ) -> tuple[int, int, tuple[Event, ...]]:
        """All of the log in (since, upto], as (since, upto, events); see `Read`.

        The returned `since` is above the given one if what lies between is no longer kept.
        There may be somewhat more or fewer events than `limit`, but none only if none are left.
        """

    def copy(self, after: int, *, upto: int, size: int) -> tuple[int, int, tuple[bytes, ...]]:
        """The log behind a tick, undecoded: (since, upto, blocks), each block as `pack` made it.

        There are about `size` bytes, or as many as there are up to the given tick. The returned
        `since` is above the given one if what lies between is no longer kept. The first block may
        begin before it, and the returned `upto`, the end of the last one, may be above the given.
        """

    def trim(
        self, *, before: float | None = None, size: int | None = None, upto: int | None = None
    ) -> int:
        """Forget events older than a time, and the oldest above a size; the first tick kept.

        None goes that lies behind the tick `upto`. Whole batches go, and never the last, so that
        no tick is used twice. To be called from time to time even if nothing is to be forgotten:
        it also mends `trouble` where it can.
        """

    def close(self) -> None:
        """Let go of everything; a second time is no error."""


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
        self._path = path = Path(folder).absolute() / "broker.db"
        self._damage: str | None = None
        self._failure: str | None = None
        self._is_open = True
        self._writing = threading.Lock()
        self._ballast = Ballast(path.with_name("ballast"), ballast)
        with contextlib.ExitStack() as stack, self._explained():
            stack.callback(os.close, database.lock(path.parent))
            database.create(path, name)
            connection = stack.enter_context(contextlib.closing(database.connect(path)))
            database.examine(connection, path, name)
            self._writer = Writer(connection, path, self._ballast)
            self._readers = stack.enter_context(contextlib.closing(Readers(path)))
            self._span, self._until = self._load()
            self.content()  # a damaged value is better found now
            self._ballast.restore()
            self._resources = stack.pop_all()

    @property
    def trouble(self) -> str | None:
        """See `Store`: damage, the last commit's failure, or a disk that is nearly full."""
        if self._damage or self._failure or self._ballast.is_in_place:
            return self._damage or self._failure
        needs = self._ballast.needs / 2**20
        return (
            f"The disk of {self._path.parent} is full: "
            f"all will be well again when {needs:.0f} MiB are free."
        )

    def content(self) -> dict[str, Any]:
        with self._explained(), self._readers.lend() as connection:
            rows = connection.execute("SELECT key, value FROM state").fetchall()
        with self._explained():
            return {key: _value(key, sealed) for key, sealed in rows}

    def span(self) -> Span:
        return self._span

    def commit(self, values: Mapping[str, Any], events: Sequence[Event]) -> None:
        forgotten = [(key,) for key, value in values.items() if value is None]
        stored = [
            (key, database.seal(pack_value(value), key))
            for key, value in values.items()
            if value is not None
        ]

        def write(connection: sqlite3.Connection) -> None:
            connection.executemany("DELETE FROM state WHERE key = ?", forgotten)
            connection.executemany("INSERT OR REPLACE INTO state VALUES (?, ?)", stored)
            log.append(connection, rows)

        with self._writing:
            self._check_order(events)
            rows = list(batches(events, self._until))
            self._transact(write)
            self._failure = None
            if rows:
                self._until = rows[-1].until
                self._span = Span(self._span.first, rows[-1].last, rows[-1].last_time)

    def read(
        self, since: int, *, after: float = 0.0, limit: int
    ) -> tuple[int, int, tuple[Event, ...]]:
        # Before the query: what is committed after it must not be taken for too early.
        last = self._span.last
        if after <= 0 and since >= last:
            return since, since, ()
        with self._explained():
            with self._readers.lend() as connection:
                if after > 0:
                    rows = log.rows_at_time(connection, after, limit)
                else:
                    rows = log.rows_at_tick(connection, since + 1, limit)
            events = self._unpacked(rows)
        if after > 0:
            begin = bisect_left(events, after, key=attrgetter("time"))
        else:
            begin = bisect_left(events, since + 1, key=attrgetter("tick"))
        events = events[begin:]
        return (events[0].tick - 1, events[-1].tick, events) if events else (last, last, ())

    def copy(self, after: int, *, upto: int, size: int) -> tuple[int, int, tuple[bytes, ...]]:
        if after >= min(upto, self._span.last):
            return after, after, ()
        with self._explained():
            with self._readers.lend() as connection:
                rows = log.rows_at_tick(connection, after + 1, upto - after, size=size)
            if not rows:
                raise Damage(f"the events behind {after} are missing")
            for row, following in pairwise(rows):
                if row.last + 1 != following.first:
                    raise Damage(f"the events behind {row.last} are missing")
            blocks = tuple([row.block() for row in rows])
        return max(after, rows[0].first - 1), rows[-1].last, blocks

    def trim(
        self, *, before: float | None = None, size: int | None = None, upto: int | None = None
    ) -> int:
        while self._trim_some(before, size, upto):
            time.sleep(_PAUSE)
        while self._shrink_some():
            time.sleep(_PAUSE)
        with self._writing:
            self._ballast.restore()
        return self._span.first

    def close(self) -> None:
        with self._writing:
            self._is_open = False
            self._resources.close()  # the readers first, so that the writer ends the journal

    def _load(self) -> tuple[Span, int]:
        """The span and the length of the log, after a look at its end."""
        with self._readers.lend() as connection:
            first, rows = log.first_tick_and_last_rows(connection)
        if not rows:
            return Span(), 0
        self._unpacked(rows)
        return Span(first, rows[-1].last, rows[-1].last_time), rows[-1].until

    def _unpacked(self, rows: Sequence[Batch]) -> tuple[Event, ...]:
        """The events of rows, which must follow on each other."""
        events: list[Event] = []
        for row in rows:
            if events and events[-1].tick + 1 != row.first:
                raise Damage(f"the events behind {events[-1].tick} are missing")
            events += row.events(self._name)
        return tuple(events)

    def _check_order(self, events: Sequence[Event]) -> None:
        """A log with a gap, a repetition or a clock that goes back could not be read again."""
        tick, now = self._span.last, self._span.time
        for event in events:
            if event.stream != self._name or event.tick != tick + 1 or not event.time >= now:
                raise StoreError(
                    f"Event {event.stream}:{event.tick} of time {event.time} cannot follow on "
                    f"{self._name}:{tick} of time {now} in the log."
                )
            tick, now = event.tick, event.time

    def _trim_some(self, before: float | None, size: int | None, upto: int | None) -> bool:
        """Forget some of what is too old or too much; whether there was any."""
        with self._writing:
            first = self._transact(lambda c: log.expire(c, before, size, self._until, upto))
            if first is not None:
                self._span = Span(first, self._span.last, self._span.time)
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


def _value(key: str, sealed: bytes) -> Any:
    try:
        return unpack_value(database.unseal(sealed, key))
    except (TidingsError, Damage):
        raise Damage(f"the value of {key!r} is not what was written") from None
