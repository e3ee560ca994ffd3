"""The pool: connections that look at the database while the writer changes it."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

from tidings.broker.store import database


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
