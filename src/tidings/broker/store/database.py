"""The database under the store: how it is made, opened by one broker at a time, and trusted.

    folder/lock        held by the broker that runs, with its process number inside
    folder/ballast     room that is held back for a full disk: see `ballast`
    folder/mark        the last commit, told a second time: see `mark`
    folder/identity    what tells the folder from a copy of it, or identity.2: see `identity`
    folder/broker.db   SQLite in WAL mode, with broker.db-wal and broker.db-shm while it runs
        about          the broker's name, its last commit, its closed streams: see `about`
        state          the node's values, and what was refused
        log            its events: see `log_table`. `place` is a row's epoch and first tick, and
                       `until` the size of all logs up to its end

SQLite has no checksums of its own in the database, so every value and every row carries one.
They are looked at whenever something is read. A check of the whole file at every start would
read all of it, which takes minutes for a large log, and would find nothing that a crash can do.
"""

from __future__ import annotations

import fcntl
import logging
import os
import sqlite3
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tidings.broker.store import about, identity, mark
from tidings.broker.store.ballast import PRIVATE, sync_folder
from tidings.broker.store.mark import Head
from tidings.broker.store.seals import Damage
from tidings.events import TidingsError
from tidings.protocol.epochs import stream_name

_log = logging.getLogger(__name__)

FORMAT: Final = 2
"""The format of the database, and of all that is in it."""
_MAGIC: Final = int.from_bytes(b"tdgs", "big")
"""What tells our files from other people's databases."""
_PAUSES: Final = (0.01, 0.1)
"""Seconds until the lock is tried again: another program may just look whether it is taken."""
PATIENCE: Final = 10.0
"""Seconds to wait for another program that looks into the database."""

# The log is a ring: what is trimmed makes room for what comes. Incremental vacuum, which must
# be chosen before the first table, lets the store give pages back when far too many are free.
_SCHEMA: Final = f"""
PRAGMA auto_vacuum = INCREMENTAL;
PRAGMA journal_mode = WAL;
BEGIN;
CREATE TABLE about (key TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE state (key TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE log (
    place INTEGER PRIMARY KEY,
    last INTEGER NOT NULL,
    first_time REAL NOT NULL,
    last_time REAL NOT NULL,
    until INTEGER NOT NULL,
    events BLOB NOT NULL
);
CREATE INDEX log_by_time ON log (place >> 48, last_time);
PRAGMA application_id = {_MAGIC};
PRAGMA user_version = {FORMAT};
COMMIT;
"""


class StoreError(TidingsError):
    """The store cannot be opened, written or read; the message is a sentence that says why."""


class LogDamageError(StoreError):
    """Some ticks of a log are not what was written: nothing of (since, upto] can be read."""

    def __init__(self, message: str, since: int, upto: int) -> None:
        super().__init__(message)
        self.since, self.upto = since, upto


class DisorderError(StoreError):
    """Events cannot follow on those in the log: the node that wants them kept is mistaken."""


def lock(folder: Path) -> int:
    """Make the folder ours until the returned file is closed, and its files private to this user.

    A folder that is made here is private, too; one that was there keeps its rights.
    """
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        handle = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE)
    except OSError as error:
        raise StoreError(f"{folder} cannot be written: {error.strerror}.") from None
    try:
        _flock(handle)
        os.ftruncate(handle, 0)
        os.write(handle, str(os.getpid()).encode())
    except BlockingIOError:
        owner = os.read(handle, 20).decode(errors="replace") or "unknown"
        os.close(handle)
        raise StoreError(f"{folder} is in use by another broker (process {owner}).") from None
    except OSError:
        pass  # it is ours, but the disk has no room for our number
    _tighten(folder)
    return handle


def _tighten(folder: Path) -> None:
    """Make the files of a store private to their owner."""
    for name in ("lock", "ballast", "broker.db", "broker.db-wal", "broker.db-shm", mark.NAME):
        path = folder / name
        try:
            if path.is_file() and path.stat().st_mode & 0o077:
                path.chmod(PRIVATE)
                _log.warning("%s was open to other users of this machine; it no longer is", path)
        except FileNotFoundError:
            continue
        except OSError as error:
            _log.warning("%s is open to other users of this machine: %s", path, error.strerror)


def _flock(handle: int) -> None:
    for pause in _PAUSES:
        try:
            return fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(pause)
    return fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


def is_in_use(folder: Path) -> bool:
    """Whether a broker runs on the store of a folder."""
    try:
        handle = os.open(folder / "lock", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(handle)
    return False


def open_or_create(path: Path, name: str) -> bool:
    """Make an empty database, unless there is one, or something says that there was.

    Whether it was made.
    """
    if path.exists():
        return False
    if journal_of(path).exists():
        # SQLite would take it for the journal of the new database.
        raise StoreError(f"{path} is missing, but its journal is there: {_advice(path)}")
    before = mark.look(path.parent)
    if before is not None and before != Head():
        raise StoreError(
            f"{path} is missing, but the mark beside it tells of commit {before.number}, up to "
            f"{stream_name(name, before.epoch)}:{before.last}: {_advice(path)}"
        )
    create(path, name)
    return True


def create(path: Path, name: str, *, number: int = 0, closed: Sequence[about.End] = ()) -> None:
    """Make an empty database behind closed streams: afterwards there is a whole one, or none."""
    head = Head(number, len(closed) + 1, 0)
    try:
        draft = new_draft(path.parent)
        mark.write(path.parent, head)
        mine = identity.write(path.parent)
        connection = connect(draft)
        try:
            connection.executescript(_SCHEMA)
            about.put(connection, about.BROKER, name)
            about.put(connection, about.CLOSED, closed)
            about.put(connection, about.HEAD, head)
            about.put(connection, about.IDENTITY, mine)
        finally:
            connection.close()
        draft.rename(path)
        sync_folder(path.parent)
    except sqlite3.Error as error:
        raise StoreError(explain(error, path)) from None
    except OSError as error:
        raise StoreError(f"{path.parent} cannot be written: {error.strerror}.") from None


def new_draft(folder: Path) -> Path:
    """Where a database may be made; what was left there is removed."""
    draft = folder / "draft.db"
    for remains in (draft, journal_of(draft), draft.with_name("draft.db-shm")):
        remains.unlink(missing_ok=True)
    draft.touch(PRIVATE)  # SQLite gives the journals the rights of their database
    return draft


def connect(path: Path, *, writes: bool = True) -> sqlite3.Connection:
    """A connection that any one thread at a time may use; transactions are begun by hand."""
    connection = sqlite3.connect(
        path, timeout=PATIENCE, isolation_level=None, check_same_thread=False
    )
    try:
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA fullfsync = ON")  # a Mac's fsync does not reach the disk
        connection.execute("PRAGMA checkpoint_fullfsync = ON")
        # What is deleted is overwritten where that costs no write of its own; pages that are free
        # keep what they had until something is erased: see `erasing`.
        connection.execute("PRAGMA secure_delete = FAST")
        connection.execute("PRAGMA temp_store = MEMORY")
        if not writes:
            connection.execute("PRAGMA query_only = ON")
    except BaseException:
        connection.close()
        raise
    return connection


def look(path: Path) -> sqlite3.Connection:
    """A connection that only reads; a broker may have the database in use."""
    if not path.is_file():
        raise StoreError(f"{path} is not there: this is no store of a broker.")
    uri = f"{path.absolute().as_uri()}?mode=ro"
    return sqlite3.connect(uri, uri=True, timeout=PATIENCE, isolation_level=None)


def owner_of(connection: sqlite3.Connection, path: Path) -> str | None:
    """The broker that a store belongs to; whatever is not a store of ours is refused."""
    try:
        (magic,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if magic != _MAGIC:
            raise StoreError(f"{path} is not a store of tidings: {_advice(path)}")
        if version != FORMAT:
            raise StoreError(_other_format(path, version))
        return about.get(connection, about.BROKER, str)
    except Damage as error:
        raise StoreError(damage(path, str(error))) from None
    except sqlite3.Error as error:
        raise StoreError(explain(error, path)) from None


def _other_format(path: Path, version: int) -> str:
    if version > FORMAT:
        return (
            f"{path} was written by a newer tidings, in format {version}; this one reads "
            f"format {FORMAT}: start its broker with that tidings, or a later one."
        )
    return (
        f"{path} is of format {version}, which was never released; this tidings reads format "
        f"{FORMAT}: move the folder {path.parent} away, and the broker begins an empty store."
    )


def examine(connection: sqlite3.Connection, path: Path, name: str) -> None:
    """Refuse what is not this broker's store, or cannot be written."""
    owner = owner_of(connection, path)
    try:
        connection.execute("BEGIN")
        connection.execute("UPDATE about SET value = value")  # BEGIN alone would only read
        connection.execute("ROLLBACK")
    except sqlite3.Error as error:
        raise StoreError(explain(error, path)) from None
    if owner != name:
        whose = "nobody" if owner is None else repr(owner)
        raise StoreError(
            f"{path} belongs to broker {whose}, not to {name!r}; every broker needs its own folder."
        )


def file_of(folder: Path) -> Path:
    """The database in the folder of a store."""
    return folder / "broker.db"


def journal_of(path: Path) -> Path:
    """SQLite's write-ahead log for a database."""
    return path.with_name(f"{path.name}-wal")


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
    """What an error of SQLite means, in a sentence for the people who run the broker."""
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
    return (
        f"`tidings store check {path.parent}` looks at all of it; `tidings store restore --replace "
        f"BACKUP {path.parent}` puts a backup in its place; and without one, "
        f"`tidings store renew {path.parent}` begins an empty log in another epoch."
    )


def _code(error: sqlite3.Error) -> int:
    return int(getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)) & 0xFF
