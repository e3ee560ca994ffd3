"""Staging: rows that are to be published, written down first, so that each is published once.

Spark runs a micro-batch again if it was killed within it, and its rows may then come in another
order, or in other tasks. So nothing is published from a task::

    task      rows → notifications → a file                                  (all tasks)
    driver    manifest: these files, in this order, behind number N          (renamed into place)
    driver    publish them as N+1, N+2, …                                    (the broker counts)
    driver    manifest: done; files deleted

The manifest decides. A driver that finds one publishes its files, not those of the tasks that have
run again, and goes on behind what the broker says it has kept of this session's name. Before there
is one, nothing was published, and the new files will do.

A row that the broker refuses has a number, too, and is behind us once a later row is kept. But
whoever comes under the session's name is told the last refusals again, more than a thousand. So
rows are published by the thousand, and which of them were refused is written down before the next.
Behind the last row that is kept, rows are published again, or their numbers given to the next.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any, Final
from uuid import uuid4

import msgspec

from tidings.events import Notification, TidingsError
from tidings.lakes.files import synced
from tidings.protocol.messages import Event
from tidings.protocol.records import pack_notification
from tidings.protocol.wire import pack, unpack

_RECORD: Final = 1_000
"""Rows of a record, at most."""
_BYTES: Final = 8 << 20
"""Bytes of a record, about, at most. A reader has a record in memory."""
_LENGTH: Final = 4


class Row(msgspec.Struct, frozen=True):
    """A row that is to be published."""

    partition: int
    """The task that staged it."""
    number: int
    """Where it was in what its task has read."""
    notification: Notification
    key: dict[str, Any]
    """The columns by which it is known, if any."""


class Manifest(msgspec.Struct, frozen=True):
    """What a micro-batch publishes; the first that was written is the one that counts."""

    batch: int
    files: tuple[str, ...]
    total: int
    broker: str
    """The broker it is published at."""
    behind: int
    """The last number of the query that the broker had kept: this batch's come behind it."""
    settled: int = 0
    """Rows at the beginning of which it is written down which were refused."""
    refused: int = 0
    """Rows refused of those that are settled."""
    reason: str = ""
    """Why the last of the settled rows that were refused was refused."""
    is_done: bool = False


class Staging:
    """The folder of one query."""

    def __init__(self, folder: str | Path, query: str) -> None:
        self.folder: Final = Path(folder) / query
        self._rows = self.folder / "rows"

    # -- in a task -----------------------------------------------------------------------------

    def write(self, rows: Iterator[Row]) -> tuple[str, int, int]:
        """Write the rows of a task to a new file.

        Returns its name, how many there are, and how many bytes the largest has.
        """
        self._rows.mkdir(parents=True, exist_ok=True)
        name = f"{uuid4().hex}.rows"
        count = largest = 0
        with open(self._rows / name, "wb") as file:
            part: list[Row] = []
            size = 0
            for row in rows:
                part.append(row)
                count += 1
                largest = max(largest, added := size_of(row.notification))
                size += added
                if len(part) == _RECORD or size >= _BYTES:
                    _write(file, part)
                    part, size = [], 0
            _write(file, part)
            file.flush()
            os.fsync(file.fileno())
        synced(self._rows)
        return name, count, largest

    # -- in the driver -------------------------------------------------------------------------

    def manifest(self, batch: int) -> Manifest | None:
        """What was decided of a batch; `TidingsError` if a later one was published."""
        latest = max((int(p.stem) for p in self.folder.glob("*.json")), default=-1)
        if latest > batch:
            raise TidingsError(
                f"batch {latest} of this query was published, and now comes batch {batch}: the "
                f"checkpoint is older than what {self.folder} says. Delete the checkpoint, too, "
                "to begin anew"
            )
        return self._decided(batch)

    def _decided(self, batch: int) -> Manifest | None:
        try:
            return msgspec.json.decode(self._path(batch).read_bytes(), type=Manifest)
        except FileNotFoundError:
            return None
        except msgspec.MsgspecError as problem:
            raise TidingsError(f"{self._path(batch)} is damaged: {problem}") from None

    def decide(self, manifest: Manifest) -> None:
        """Write a manifest, in place of any other."""
        path = self._path(manifest.batch)
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_suffix(".new")
        with open(fresh, "wb") as file:
            file.write(msgspec.json.encode(manifest))
            file.flush()
            os.fsync(file.fileno())
        fresh.rename(path)
        synced(path.parent)

    def events(self, files: Sequence[str], *, skip: int = 0) -> Iterator[Row]:
        """The rows in the files, but for those to skip at the beginning."""
        for name in files:
            for record in _records(self._rows / name):
                yield from record[skip:]
                skip = max(0, skip - len(record))

    def finish(self, manifest: Manifest) -> None:
        """All of it is published: remember only that."""
        self.decide(msgspec.structs.replace(manifest, files=(), is_done=True))
        self.clear(manifest.batch)

    def clear(self, batch: int) -> None:
        """Delete what no batch from this one on needs: also what tasks left that were killed."""
        for path in self._rows.glob("*.rows"):
            path.unlink(missing_ok=True)
        for path in self.folder.glob("*.json"):
            if int(path.stem) < batch:
                path.unlink(missing_ok=True)

    def discard(self, batch: int, files: Sequence[str]) -> None:
        """Delete files of a batch, but for those that its manifest names: they are to come."""
        manifest = self._decided(batch)
        for name in files:
            if manifest is None or name not in manifest.files:
                (self._rows / name).unlink(missing_ok=True)

    def _path(self, batch: int) -> Path:
        return self.folder / f"{batch}.json"


def size_of(notification: Notification) -> int:
    """Its bytes on the wire; `TidingsError` if it cannot travel."""
    return len(memoryview(pack_notification(notification)))


class _Record(msgspec.Struct, frozen=True, array_like=True):
    """Some rows of a task, as they are written."""

    partition: int
    events: bytes
    """Their numbers are the ticks."""
    keys: list[dict[str, Any]]
    """Of each of them, or of none."""


def _write(file: IO[bytes], part: list[Row]) -> None:
    if part:
        events = pack([Event("", row.number, row.notification) for row in part])
        keys = [row.key for row in part if row.key]
        record = msgspec.msgpack.encode(_Record(part[0].partition, events, keys))
        file.write(len(record).to_bytes(_LENGTH, "big") + record)


def _records(path: Path) -> Iterator[Sequence[Row]]:
    """What was written at a time, one after the other."""
    try:
        file = open(path, "rb")  # noqa: SIM115
    except FileNotFoundError:
        raise TidingsError(
            f"{path} is not there: the option staging must be a folder that the driver and all "
            "workers share"
        ) from None
    with file:
        while head := file.read(_LENGTH):
            size = int.from_bytes(head, "big")
            record = file.read(size)
            if len(head) < _LENGTH or len(record) < size:
                raise TidingsError(
                    f"{path} ends within a record: a task had written more, and synced it, so the "
                    "folder staging has lost some of it"
                )
            yield _rows(msgspec.msgpack.decode(record, type=_Record))


def _rows(record: _Record) -> list[Row]:
    events = unpack(record.events, "")
    keys = record.keys or [{}] * len(events)
    return [
        Row(record.partition, event.tick, event.notification, key)
        for event, key in zip(events, keys, strict=True)
    ]
