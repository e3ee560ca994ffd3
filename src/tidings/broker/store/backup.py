"""Backups: a store as it was at one moment, in a file; and how a broker goes on from one.

A backup is taken while the broker runs. What is restored never goes on silently where the backup
ends, as ticks behind it may have been heard: the next start begins an epoch, as the folder has
no identity, and a mark that tells of the highest epoch that is known.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

from tidings.broker.store import about, check, database, identity, mark
from tidings.broker.store.about import End
from tidings.broker.store.ballast import sync_folder
from tidings.broker.store.check import OnProgress
from tidings.broker.store.database import StoreError
from tidings.broker.store.mark import Head
from tidings.broker.store.seals import Damage
from tidings.protocol.epochs import stream_name

_PAGES: Final = 1_024
"""Pages that are copied between two calls that tell how far the copy is."""
_MOVED: Final = ("broker.db", "broker.db-wal", "broker.db-shm", *identity.NAMES)
"""Files that are put aside of a store that is replaced. Its mark stays until there is another one:
it keeps a broker from beginning anew in a folder that was left half empty."""


class Taken(msgspec.Struct, frozen=True):
    """What a backup holds."""

    broker: str
    head: Head

    @property
    def place(self) -> str:
        """The last event in it, as a cursor."""
        return f"{stream_name(self.broker, self.head.epoch)}:{self.head.last}"


class Restored(msgspec.Struct, frozen=True):
    """What has become of a folder."""

    broker: str
    begins: str
    """The stream that the next start begins with, or goes on with."""
    aside: Path | None
    """Where the store is that was there before."""
    taken: Taken | None = None
    """What was restored; None if nothing was."""


def back_up(folder: Path, target: Path, *, told: OnProgress = lambda done, total: None) -> Taken:
    """Copy the store of a folder into a file. A broker may run on it, and commits go on.

    `told` hears of pages. Afterwards there is a whole backup, or none.
    """
    if target.exists():
        raise StoreError(f"{target} is there already: a backup does not overwrite anything.")
    file = database.file_of(folder)
    draft = target.with_name(f"{target.name}.part")
    with _explained(file), contextlib.closing(database.look(file)) as source:
        # In a transaction, or each commit of a broker that runs would make it begin anew.
        source.execute("BEGIN")
        taken = _taken(source, file)
        try:
            with _explained(target), contextlib.closing(_created(draft)) as copy:
                source.backup(copy, pages=_PAGES, progress=lambda _, left, n: told(n - left, n))
                copy.execute("PRAGMA journal_mode = DELETE")  # it is one file, and stays one
            draft.rename(target)
            sync_folder(target.absolute().parent)
        finally:
            draft.unlink(missing_ok=True)
    return taken


def restore(
    backup: Path,
    folder: Path,
    *,
    replace: bool = False,
    above: int = 0,
    told: OnProgress = lambda done, total: None,
) -> Restored:
    """Put a backup, or a copy of a store's folder, into a folder: an epoch begins with its start.

    That epoch is higher than any that the backup or the store in the folder knows of, and than
    `above`. A store that is there is refused, or with `replace` put aside. A damaged backup is
    refused, and nothing has changed then. `told` hears of events that were checked.
    """
    with _locked(folder):
        old = _look_at(folder)
        if old.is_there and not replace:
            raise StoreError(
                f"{folder} has a store; --replace puts it aside, and the backup in its place."
            )
        report = check.check(backup, told=told)
        if report.problems:
            raise StoreError(f"{backup} is damaged ({report.problems[0]}): take another backup.")
        if old.broker not in (None, report.broker):
            raise StoreError(
                f"{folder} is the store of {old.broker!r}, but {backup} is one of "
                f"{report.broker!r}; every broker needs its own folder."
            )
        draft = database.new_draft(folder)
        taken = _copied(database.file_of(backup) if backup.is_dir() else backup, draft)
        known = _highest([taken.head, *old.heads, Head(0, above)])
        mark.write(folder, known)
        aside = _put_aside(folder) if old.is_there else None
        draft.rename(database.file_of(folder))
        sync_folder(folder)
    return Restored(taken.broker, stream_name(taken.broker, known.epoch + 1), aside, taken)


def renew(folder: Path, *, broker: str | None = None, above: int = 0) -> Restored:
    """Put the store of a folder aside, and begin an empty one in another epoch.

    That epoch is higher than any that the old store knows of, and than `above`. Nothing is left
    of its streams, so they end at tick 0: whoever has read in them is told, here as elsewhere.
    `broker` is needed if it cannot say whose it is.
    """
    with _locked(folder):
        old = _look_at(folder)
        name = old.broker or broker
        if name is None:
            raise StoreError(f"{folder} does not say whose store it is: name the broker.")
        if broker not in (None, name):
            raise StoreError(f"{folder} is the store of {name!r}, not of {broker!r}.")
        known = _highest([*old.heads, Head(0, max(above, 1))])
        mark.write(folder, known)
        aside = _put_aside(folder) if old.is_there else None
        closed = [End()] * known.epoch
        database.create(database.file_of(folder), name, number=known.number + 1, closed=closed)
    return Restored(name, stream_name(name, known.epoch + 1), aside)


def _copied(backup: Path, target: Path) -> Taken:
    with _explained(backup), contextlib.closing(database.look(backup)) as source:
        taken = _taken(source, backup)
        with _explained(target), contextlib.closing(_created(target)) as copy:
            source.backup(copy)
    return taken


class _Old(msgspec.Struct, frozen=True):
    """What can be known of a store that is to be replaced, which may be damaged."""

    is_there: bool
    broker: str | None = None
    heads: tuple[Head, ...] = ()


def _look_at(folder: Path) -> _Old:
    witness = mark.look(folder)
    heads = [] if witness is None else [witness]
    is_there = witness is not None or any((folder / name).exists() for name in _MOVED)
    with contextlib.suppress(StoreError, Damage, sqlite3.Error):
        file = database.file_of(folder)
        with contextlib.closing(database.look(file)) as connection:
            broker = database.owner_of(connection, file)
            with contextlib.suppress(Damage, sqlite3.Error):
                head = about.get(connection, about.HEAD, Head)
                heads += [] if head is None else [head]
            return _Old(is_there, broker, tuple(heads))
    return _Old(is_there, None, tuple(heads))


def _highest(heads: list[Head]) -> Head:
    """A head that none of these is ahead of."""
    number = max(head.number for head in heads)
    epoch, last = max((head.epoch, head.last) for head in heads)
    return Head(number, epoch, last)


def _put_aside(folder: Path) -> Path:
    """Move a store into a folder within its own, which may be a disk by itself."""
    now = datetime.now(UTC)
    aside = folder / f"replaced-{now:%Y%m%dT%H%M%S}"
    while aside.exists():
        aside = aside.with_name(f"{aside.name}+")
    aside.mkdir()
    for name in _MOVED:
        with contextlib.suppress(FileNotFoundError):
            (folder / name).rename(aside / name)
    sync_folder(aside)
    sync_folder(folder)
    return aside


def _taken(connection: sqlite3.Connection, file: Path) -> Taken:
    broker = database.owner_of(connection, file)
    head = about.get(connection, about.HEAD, Head)
    if broker is None or head is None:
        raise Damage("it does not say whose it is, or what its last commit was")
    return Taken(broker, head)


def _created(path: Path) -> sqlite3.Connection:
    """A new database that only its owner may read."""
    path.unlink(missing_ok=True)
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    return database.connect(path)


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Keep brokers away, and files that the broker's user could not open."""
    if folder.exists() and (owner := folder.stat().st_uid) != os.geteuid():
        raise StoreError(
            f"{folder} belongs to another user (number {owner}): do this as that user, as whom "
            "the broker runs, or it cannot open its files."
        )
    handle = database.lock(folder)
    try:
        yield
    finally:
        os.close(handle)


@contextlib.contextmanager
def _explained(file: Path) -> Iterator[None]:
    try:
        yield
    except Damage as error:
        raise StoreError(database.damage(file, str(error))) from None
    except sqlite3.Error as error:
        raise StoreError(database.explain(error, file)) from None
    except OSError as error:
        raise StoreError(f"{file} cannot be written: {error.strerror}.") from None
