"""A check: all of a store is read, and held against its checksums and its witnesses.

A broker may run on it meanwhile. So the log is read in small pieces, between which it may be
trimmed: a transaction that lasts keeps the journal from ending.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, TypeAlias

import msgspec

from tidings.broker.store import about, database, identity, log_table, mark
from tidings.broker.store.about import End
from tidings.broker.store.continuity import Found, doubt
from tidings.broker.store.database import StoreError
from tidings.broker.store.identity import Identity
from tidings.broker.store.log_table import row_of
from tidings.broker.store.mark import Head
from tidings.broker.store.seals import Damage
from tidings.broker.store.sqlite import value_of
from tidings.protocol.epochs import stream_name
from tidings.protocol.host import Span

OnProgress: TypeAlias = Callable[[int, int], None]
"""Is called with how many events were read, and how many there are."""

_ROWS: Final = 32
"""Rows that are read at once."""
_MOST: Final = 20
"""Problems in a report, at most; a store with more of them is lost as a whole."""


class CheckReport(msgspec.Struct, frozen=True):
    """What a check has found."""

    broker: str
    spans: dict[str, Span]
    """What is kept of each stream, in order of epochs."""
    values: int
    problems: tuple[str, ...]
    """What is damaged, a sentence each without its end."""
    doubt: str | None
    """Why a broker that starts on it would begin an epoch, if it would."""
    is_in_use: bool
    """Whether a broker runs on it; the structure of the database is not looked at then."""


def check(path: Path, *, told: OnProgress = lambda done, total: None) -> CheckReport:
    """Look at all of a store, in its folder, or of a backup, in its file.

    What is no store at all is a `StoreError`.
    """
    folder = path if path.is_dir() else None
    file = database.file_of(path) if folder else path
    is_in_use = folder is not None and database.is_in_use(folder)
    witness = mark.look(folder) if folder else None  # first, as it must not be ahead
    with contextlib.closing(database.look(file)) as connection:
        broker = database.owner_of(connection, file)
        if broker is None:
            raise StoreError(f"{file} does not say whose store it is.")
        checking = _Checking(connection, broker, told)
        checking.begin()
        checking.values()
        checking.rows()
        if not is_in_use:
            checking.structure()
    why = None
    if folder is not None and checking.head is not None:
        found = Found(checking.head, checking.identity, witness, identity.look(folder))
        why = doubt(found, broker)
    problems = tuple(checking.problems)
    return CheckReport(broker, checking.spans, checking.count, problems, why, is_in_use)


class _Checking:
    def __init__(self, connection: sqlite3.Connection, broker: str, told: OnProgress) -> None:
        self.problems: list[str] = []
        self.head: Head | None = None
        self.identity: Identity | None = None
        self.ends: list[End] = []
        self.spans: dict[str, Span] = {}
        self.count = 0
        self._connection = connection
        self._broker = broker
        self._told = told
        self._done = 0

    @contextlib.contextmanager
    def _noted(self, where: str) -> Iterator[None]:
        try:
            yield
        except (Damage, sqlite3.Error) as problem:
            self._note(f"{where}: {problem}")

    def _note(self, problem: str) -> None:
        if len(self.problems) < _MOST:
            self.problems.append(problem)

    def begin(self) -> None:
        """What it says of itself; the log is looked at as far as it goes now."""
        with self._noted("what it says of itself"):
            self._connection.execute("BEGIN")
            self.head = about.get(self._connection, about.HEAD, Head)
            closed = about.get(self._connection, about.CLOSED, list[End]) or []
            self.identity = about.get(self._connection, about.IDENTITY, Identity)
            if self.head is None or self.head.epoch != len(closed) + 1:
                self.head = None
                raise Damage("it does not say what its last commit was")
            self.ends = [*closed, End(self.head.last)]
            for epoch, end in enumerate(self.ends, 1):
                first = log_table.first_tick(self._connection, epoch) or end.last + 1
                stream = stream_name(self._broker, epoch)
                self.spans[stream] = Span(first, end.last, end.time)
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")

    def values(self) -> None:
        """Every value of the node."""
        with self._noted("the values"):
            for key, sealed in self._connection.execute("SELECT key, value FROM state").fetchall():
                self.count += 1
                with self._noted("the values"):
                    value_of(key, sealed)

    def rows(self) -> None:
        """Every row of the log, and that none is missing between them."""
        for epoch, (stream, span) in enumerate(self.spans.items(), 1):
            with self._noted(stream):
                self._walk(epoch, stream, span)

    def _walk(self, epoch: int, stream: str, span: Span) -> None:
        first, upto = span.first, span.first - 1
        while upto < span.last:
            rows = log_table.rows_behind(self._connection, epoch, first - 1, _ROWS)
            if not rows:
                break
            for first, row in rows:
                if first != upto + 1 and not self._was_trimmed(epoch, upto + 1):
                    self._note(f"{stream}: ticks {upto + 1} to {first - 1} are missing")
                upto = row[2] if isinstance(row[2], int) else first
                with self._noted(stream):
                    upto = row_of(row).events(stream)[-1].tick
                self._done += upto - first + 1
            first += 1
            self._told(self._done, sum(s.last - s.first + 1 for s in self.spans.values()))
        if upto < span.last and not self._was_trimmed(epoch, upto + 1):
            self._note(f"{stream}: ticks {upto + 1} to {span.last} are missing")

    def _was_trimmed(self, epoch: int, tick: int) -> bool:
        """Whether a tick was let go of since the check began, by a broker that runs."""
        first = log_table.first_tick(self._connection, epoch)
        return first > tick if first is not None else epoch < len(self.ends)

    def structure(self) -> None:
        """What SQLite itself can find: pages, indexes, lists of free pages."""
        with self._noted("the database"):
            for (line,) in self._connection.execute(f"PRAGMA integrity_check({_MOST})").fetchall():
                if line != "ok":
                    self._note(f"the database: {line}")
