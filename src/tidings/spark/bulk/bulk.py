"""Bulk: the subscriptions of a registrations' lake, as of any of its cursors, as an index.

The lake is the table of subscriptions, and a cursor is its version: what was registered up to
there. A process keeps the index of the last cursor it was asked for, and moves it from one batch
to the next by reading only what was registered in between. To begin anew, it reads a snapshot:
parsing filters is most of the work, and so it is done once for all who match::

    LAKE/_snapshots/PLACE.filters     the last word under each name, as of a cursor

A snapshot is what Python pickles, which is five times as fast as to parse; so those who can write
to the folder can have Spark's workers run code, as can those who can write to its checkpoint.
"""

from __future__ import annotations

import gc
import os
import pickle
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from typing import IO, Final

import msgspec

from tidings.events import Filter, TidingsError
from tidings.lakes.lake import Lake
from tidings.lakes.ledger import STREAM, Ledger
from tidings.matching import Index, warm
from tidings.protocol.cursors import is_behind
from tidings.protocol.requests import Cursor
from tidings.spark.bulk.registrations import Entry, Registrations

FORMAT: Final = 1
_SNAPSHOTS: Final = "_snapshots"
_KEPT: Final = 3
"""Snapshots kept: a worker may be reading one that is not the last."""
_OFTEN: Final = 2_000
"""Changes until the next snapshot, unless a tenth of what is in force is more."""


class Position:
    """How far a lake is, asked for often: costs a look at its log, unless there is more."""

    def __init__(self, path: str | Path) -> None:
        self._log = Path(path) / "_delta_log"
        self._ledger = Ledger(Path(path))
        self._version = -1

    def cursor(self) -> Cursor:
        """What `Lake.held` says; `TidingsError` if there is no lake."""
        if self._version < 0:
            self._version = _newest(self._log)
        while (self._log / f"{self._version + 1:020}.json").exists():
            self._version += 1
        numbers = self._ledger.numbers(self._version)
        found = {n.removeprefix(STREAM): t for n, t in numbers.items() if n.startswith(STREAM)}
        return {stream: found[stream] for stream in sorted(found)}


def _newest(log: Path) -> int:
    versions = [int(path.stem) for path in log.glob("*.json") if path.stem.isdecimal()]
    if not versions:
        raise TidingsError(
            f"{log.parent}: there are no registrations here; `tidings pipeline deliver` keeps them"
        )
    return max(versions)


class Bulk:
    """The subscriptions as of a cursor; `move` goes to another one."""

    def __init__(self, path: str | Path) -> None:
        _newest(Path(path) / "_delta_log")
        self._lake = Lake(path)
        self._begin()

    def _begin(self) -> None:
        self.cursor: Cursor = {}
        self._known = Registrations(keep=False)
        self.index = Index()

    def move(self, cursor: Mapping[str, int]) -> Index:
        """The index of what is in force as of the cursor; it changes with the next `move`."""
        if dict(cursor) != self.cursor:
            try:
                self._go(cursor)
            except BaseException:
                self._begin()  # else what was heard of by then is known, but not in the index
                raise
        return self.index

    def _go(self, cursor: Mapping[str, int]) -> None:
        if not self.cursor or not is_behind(self.cursor, cursor):
            self._begin()
            self._restore(cursor)
        change = self._known.hear(self._lake.events(since=self.cursor, until=cursor))
        for name in change.removed:
            self.index.remove(name)
        self._add(change.added)
        self.cursor = dict(cursor)

    def _add(self, filters: Mapping[str, Filter]) -> None:
        if filters:
            warm.wait()  # so that many are laid out at once
            self.index.add_many(filters.items())

    def _restore(self, cursor: Mapping[str, int]) -> None:
        found = snapshot_before(self._lake.path, cursor)
        if found is not None:
            self.cursor, entries = found
            self._add(self._known.restore(entries))


class Keeper:
    """Follows a lake in the driver: counts what is in force, and writes snapshots for others.

    It has no index of its own.
    """

    def __init__(self, path: str | Path) -> None:
        self._lake = Lake(path)
        self._position = Position(path)
        self._begin()

    def _begin(self) -> None:
        self.cursor: Cursor = {}
        self.known = Registrations()
        self._unwritten = 0

    def follow(self) -> None:
        """Take in what is new in the lake."""
        cursor = self._position.cursor()
        if cursor != self.cursor:
            try:
                self._go(cursor)
            except BaseException:
                self._begin()  # else what was heard of by then is known, but not counted
                raise

    def _go(self, cursor: Cursor) -> None:
        if not self.cursor and (found := snapshot_before(self._lake.path, cursor)) is not None:
            self.cursor, entries = found
            self.known.restore(entries)
        with undisturbed():
            change = self.known.hear(self._lake.events(since=self.cursor, until=cursor))
        self.cursor = cursor
        self._unwritten += len(change.added) + len(change.removed)
        if self._unwritten >= max(_OFTEN, self.known.count // 10):
            write_snapshot(self._lake.path, cursor, self.known)
            self._unwritten = 0


# -- snapshots -----------------------------------------------------------------------------------


def write_snapshot(lake: Path, cursor: Mapping[str, int], known: Registrations) -> Path:
    """Write what is known as of a cursor; older snapshots than the last few are deleted."""
    folder = lake / _SNAPSHOTS
    folder.mkdir(exist_ok=True)
    path = folder / f"{sum(cursor.values()):020}.filters"
    unfinished = folder / "unfinished"
    about = {"format": FORMAT, "version": version("tidings"), "cursor": dict(cursor)}
    with open(unfinished, "wb") as file:
        file.write(msgspec.json.encode(about) + b"\n")
        pickle.dump(known.entries, file, pickle.HIGHEST_PROTOCOL)
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(path)  # it is there whole, or not at all
    for old in _snapshots(lake)[_KEPT:]:
        old.unlink(missing_ok=True)
    return path


def snapshot_before(
    lake: Path, cursor: Mapping[str, int]
) -> tuple[Cursor, dict[str, Entry]] | None:
    """The last snapshot that is not ahead of a cursor; None if there is none."""
    for path in _snapshots(lake):
        # It was deleted meanwhile, as there are later ones; or damaged, which is told in many
        # ways, and then all that is lost is time.
        with suppress(Exception), open(path, "rb") as file:
            about = msgspec.json.decode(file.readline())
            is_ours = (about["format"], about["version"]) == (FORMAT, version("tidings"))
            if is_ours and is_behind(about["cursor"], cursor):
                return about["cursor"], _loaded(file)
    return None


def _loaded(file: IO[bytes]) -> dict[str, Entry]:
    with undisturbed():
        entries: dict[str, Entry] = pickle.load(file)
        gc.freeze()
    return entries


@contextmanager
def undisturbed() -> Iterator[None]:
    """While much is made that will stay: it is not looked through for garbage."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _snapshots(lake: Path) -> list[Path]:
    """The last one first."""
    return sorted((lake / _SNAPSHOTS).glob("*.filters"), reverse=True)


# -- one for a process ---------------------------------------------------------------------------

_bulks: dict[str, Bulk] = {}
_lock = threading.Lock()


def bulk(path: str) -> Bulk:
    """The one of this process; only one thread at a time may use it."""
    with _lock:
        if path not in _bulks:
            _bulks[path] = Bulk(path)
        return _bulks[path]
