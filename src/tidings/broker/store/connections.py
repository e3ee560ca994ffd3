"""Connections to the database: the one that changes it, and those that read meanwhile."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, TypeVar

from tidings.broker.store import database
from tidings.broker.store.ballast import Ballast

_T = TypeVar("_T")

_JOURNAL_BYTES: Final = 32 << 20
"""Bytes of the journal above which it is emptied."""
_VACUUM_PAGES: Final = 256
"""Pages given back in one step: few, as the journal needs as much room on a full disk."""
_SPARE_PAGES: Final = 1_024
"""Free pages that are never given back."""


class Writer:
    """Transactions that are on the disk once they are done. One thread at a time uses it."""

    def __init__(self, connection: sqlite3.Connection, path: Path, ballast: Ballast) -> None:
        self._connection = connection
        self._journal = database.journal_of(path)
        self._ballast = ballast
        self._limit = _JOURNAL_BYTES
        """Bytes of the journal above which it is emptied next."""
        connection.execute("PRAGMA journal_mode = WAL")  # should another program have changed it
        connection.execute(f"PRAGMA journal_size_limit = {_JOURNAL_BYTES}")

    def transact(self, work: Callable[[sqlite3.Connection], _T]) -> _T:
        """Do the work as one transaction, if need be in the place of the ballast."""
        try:
            result = self._attempt(work)
        except sqlite3.Error as error:
            if not database.is_out_of_room(error) or not self._ballast.release():
                raise
            result = self._attempt(work)
        self._limit_journal()
        return result

    def shrink(self) -> bool:
        """Give some pages back if far too many are free; whether that is so, and has worked.

        The file may stay a quarter larger than its content: the log grows into it again.
        """
        free, pages = self._pragma("freelist_count"), self._pragma("page_count")
        spare = min(free - max(pages // 4, _SPARE_PAGES), _VACUUM_PAGES)
        if spare <= 0:
            return False
        self._checkpoint()  # the journal may be what takes up the last of the disk
        try:
            # As a script, since `execute` would leave the pragma after the first page.
            self._connection.executescript(f"PRAGMA incremental_vacuum({spare})")
        except sqlite3.Error as error:
            if database.is_out_of_room(error):
                return False  # to move pages takes room, too; the free ones are not lost
            raise
        self._checkpoint()  # which is when the file is cut
        return self._pragma("freelist_count") < free

    def overwrite(self, work: Callable[[sqlite3.Connection], _T]) -> _T:
        """Do the work as one transaction that overwrites with zeros whatever it deletes."""
        self._connection.execute("PRAGMA secure_delete = ON")
        try:
            return self.transact(work)
        finally:
            self._connection.execute("PRAGMA secure_delete = FAST")

    def scrub(self) -> bool:
        """Give some of the free pages back, which keep what was in them; whether any were left."""
        free = self._pragma("freelist_count")
        if free:
            self._connection.executescript(f"PRAGMA incremental_vacuum({_VACUUM_PAGES})")
        return self._pragma("freelist_count") < free

    def empty_journal(self) -> bool:
        """Write all of the journal to the database and cut it; False while somebody reads it."""
        return self._checkpoint()

    def _attempt(self, work: Callable[[sqlite3.Connection], _T]) -> _T:
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            result = work(self._connection)
            self._connection.execute("COMMIT")
        except BaseException:
            with contextlib.suppress(sqlite3.Error):
                if self._connection.in_transaction:  # after some errors SQLite has rolled back
                    self._connection.execute("ROLLBACK")
            raise
        return result

    def _limit_journal(self) -> None:
        """The checkpoint that SQLite does by itself never waits for readers; but if one reads for
        long, as a backup does, not every commit should wait for it."""
        size = self._journal_size()
        if size <= _JOURNAL_BYTES:
            self._limit = _JOURNAL_BYTES
        elif size > self._limit:
            self._checkpoint()
            self._limit = self._journal_size() + _JOURNAL_BYTES

    def _checkpoint(self) -> bool:
        """Empty the journal into the database; while a reader takes long, a later time will do."""
        is_busy = 1
        with contextlib.suppress(sqlite3.Error):  # what was committed is safe in the journal
            self._connection.execute("PRAGMA busy_timeout = 50")
            ((is_busy, *_),) = self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self._connection.execute(f"PRAGMA busy_timeout = {database.PATIENCE * 1000:.0f}")
        return not is_busy

    def _journal_size(self) -> int:
        try:
            return self._journal.stat().st_size
        except OSError:
            return 0

    def _pragma(self, name: str) -> int:
        (number,) = self._connection.execute(f"PRAGMA {name}").fetchone()
        return int(number)


class Pool:
    """Connections that only read: one for each thread that reads, kept for the next one.

    SQLite's WAL mode shows each the last commit, and none waits for the one that runs.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._idle: list[sqlite3.Connection] | None = []
        """Connections that are not lent; None once the pool is closed."""

    @contextlib.contextmanager
    def lend(self) -> Iterator[sqlite3.Connection]:
        """A connection for a thread, for a moment: an open query keeps the journal from ending."""
        with self._lock:
            if self._idle is None:
                raise database.StoreError(f"{self._path} has been closed.")
            connection = self._idle.pop() if self._idle else None
        connection = connection or database.connect(self._path, writes=False)
        try:
            yield connection
        except BaseException:
            connection.close()
            raise
        self._take_back(connection)

    def close(self) -> None:
        """Close them all; one that is lent is closed when it comes back."""
        with self._lock:
            idle, self._idle = self._idle, None
        for connection in idle or ():
            connection.close()

    def _take_back(self, connection: sqlite3.Connection) -> None:
        with self._lock:
            if self._idle is not None:
                self._idle.append(connection)
                return
        connection.close()
