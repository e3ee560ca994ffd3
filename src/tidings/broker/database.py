"""The database under the store: how it is made, opened by one broker at a time, and trusted.

    folder/lock        held by the broker that runs, with its process number inside
    folder/ballast     see `ballast`
    folder/broker.db   SQLite in WAL mode, with broker.db-wal and broker.db-shm while it runs
        about          the broker's name
        state          the node's values, and what was refused
        log            its events: a row for each batch; `until` is the size of the log up to here

SQLite has no checksums of its own in the database, so every value and every batch carries one.
They are looked at whenever something is read. A check of the whole file at every start would
read all of it, which takes minutes for a large log, and would find nothing that a crash can do.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import zlib
from pathlib import Path
from typing import Final

from tidings.broker.ballast import sync_folder
from tidings.events import TidingsError

FORMAT: Final = 1
_MARK: Final = int.from_bytes(b"tdgs", "big")
"""What tells our files from other people's databases."""
PATIENCE: Final = 10.0
"""Seconds to wait for somebody who looks into the database with another program."""

# The log is a ring: what is trimmed makes room for what comes. Incremental vacuum, which must
# be chosen before the first table, lets the store give pages back when far too many are free.
_SCHEMA: Final = f"""
PRAGMA auto_vacuum = INCREMENTAL;
PRAGMA journal_mode = WAL;
BEGIN;
CREATE TABLE about (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE state (key TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE log (
    first INTEGER PRIMARY KEY,
    last INTEGER NOT NULL,
    first_time REAL NOT NULL,
    last_time REAL NOT NULL,
    until INTEGER NOT NULL,
    events BLOB NOT NULL
);
CREATE INDEX log_by_time ON log (last_time);
PRAGMA application_id = {_MARK};
PRAGMA user_version = {FORMAT};
COMMIT;
"""


class StoreError(TidingsError):
    """The store cannot be opened, written or read; the message is a sentence that says why."""


class Damage(Exception):  # noqa: N818 - it is told as a `StoreError`, which names the file
    """Something in the database is not what was written."""


def lock(folder: Path) -> int:
    """Make the folder ours until the returned file is closed."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise StoreError(f"{folder} cannot be written: {error.strerror}.") from None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.ftruncate(handle, 0)
        os.write(handle, str(os.getpid()).encode())
    except BlockingIOError:
        owner = os.read(handle, 20).decode(errors="replace") or "unknown"
        os.close(handle)
        raise StoreError(f"{folder} is in use by another broker (process {owner}).") from None
    except OSError:
        pass  # it is ours, but the disk has no room for our number
    return handle


def create(path: Path, name: str) -> None:
    """Make the database, unless there is one: afterwards there is a whole one, or none."""
    if path.exists():
        return
    if journal_of(path).exists():
        # SQLite would take it for the journal of the new database.
        raise StoreError(f"{path} is missing, but its journal is there: {_advice(path)}")
    draft = path.with_name("draft.db")
    try:
        for remains in (draft, journal_of(draft), draft.with_name("draft.db-shm")):
            remains.unlink(missing_ok=True)
        connection = connect(draft)
        try:
            connection.executescript(_SCHEMA)
            connection.execute("INSERT INTO about VALUES ('broker', ?)", (name,))
        finally:
            connection.close()
        draft.rename(path)
        sync_folder(path.parent)
    except sqlite3.Error as error:
        raise StoreError(explain(error, path)) from None
    except OSError as error:
        raise StoreError(f"{path.parent} cannot be written: {error.strerror}.") from None


def connect(path: Path, *, writes: bool = True) -> sqlite3.Connection:
    """A connection that any one thread at a time may use; transactions are begun by hand."""
    connection = sqlite3.connect(
        path, timeout=PATIENCE, isolation_level=None, check_same_thread=False
    )
    try:
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA fullfsync = ON")  # a Mac's fsync does not reach the disk
        connection.execute("PRAGMA checkpoint_fullfsync = ON")
        connection.execute("PRAGMA secure_delete = OFF")  # or trimming writes zeros over it all
        connection.execute("PRAGMA temp_store = MEMORY")
        if not writes:
            connection.execute("PRAGMA query_only = ON")
    except BaseException:
        connection.close()
        raise
    return connection


def examine(connection: sqlite3.Connection, path: Path, name: str) -> None:
    """Refuse what is not a store of ours, or cannot be written."""
    try:
        (mark,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if mark != _MARK:
            raise StoreError(f"{path} is not a store of tidings: {_advice(path)}")
        if version > FORMAT:
            raise StoreError(
                f"{path} was written by a newer tidings, in format {version}; "
                f"this one reads formats up to {FORMAT}."
            )
        row = connection.execute("SELECT value FROM about WHERE key = 'broker'").fetchone()
        connection.execute("BEGIN")
        connection.execute("UPDATE about SET value = value")  # BEGIN alone would only read
        connection.execute("ROLLBACK")
    except sqlite3.Error as error:
        raise StoreError(explain(error, path)) from None
    if row is None or row[0] != name:
        owner = repr(row[0]) if row else "nobody"
        raise StoreError(
            f"{path} belongs to broker {owner}, not to {name!r}; every broker needs its own folder."
        )


def journal_of(path: Path) -> Path:
    """SQLite's write-ahead log for a database."""
    return path.with_name(f"{path.name}-wal")


def seal(content: bytes, *label: object) -> bytes:
    """The content behind its checksum, which also covers the place where it belongs."""
    return zlib.crc32(content, zlib.crc32(repr(label).encode())).to_bytes(4, "big") + content


def unseal(sealed: object, *label: object) -> bytes:
    """What was sealed with this label; `Damage` if it is not that any more."""
    if not isinstance(sealed, bytes) or seal(sealed[4:], *label) != sealed:
        raise Damage("a checksum is wrong")
    return sealed[4:]


def is_out_of_room(error: sqlite3.Error) -> bool:
    """Whether more room may help. A quota, or a late notice by fsync, is but an I/O error."""
    return _code(error) in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)


def is_damage(error: sqlite3.Error) -> bool:
    """Whether the file is not what SQLite has written."""
    return _code(error) in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB) or (
        # A table that has gone, or text that is none.
        _code(error) == sqlite3.SQLITE_ERROR and isinstance(error, sqlite3.OperationalError)
    )


def explain(error: sqlite3.Error, path: Path) -> str:
    """What an error of SQLite means to whoever runs the broker."""
    if is_damage(error):
        return damage(path, str(error))
    match _code(error):
        case sqlite3.SQLITE_FULL:
            return f"The disk of {path.parent} is full."
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_PERM:
            return f"{path} cannot be written: {error}."
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return f"{path} has been locked by another program for {PATIENCE:.0f} seconds."
    return f"{path} cannot be read or written: {error}."


def damage(path: Path, what: str) -> str:
    """The sentence for a file that is not what was written."""
    legible = "".join(c if c.isprintable() else "·" for c in what)
    return f"{path} is damaged ({legible}): {_advice(path)}"


def _advice(path: Path) -> str:
    return f"restore a copy of {path.parent}, or move it away to begin with an empty log."


def _code(error: sqlite3.Error) -> int:
    return int(getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)) & 0xFF
