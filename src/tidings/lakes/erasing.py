"""Erasing: events of a lake that are to be gone, and what is left of them.

A row that is erased keeps what says where it was (`id`, `stream`, `tick`, `time`, `day`), and has
the id of the erasure in the column `tidings.erased`; all other columns are null. Whoever reads a
lake passes over such rows. Files that cannot hold anything to erase are not read, and those with
none of it stay; all others are written anew, and one commit puts them in the places of the old.

What a commit replaces is still in the folder, and the log still says between what values it lay. So
afterwards old files are deleted and what the log says of them, too, unless they are to be kept.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from time import time
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidings.delivery.erased import ERASED, Eraser
from tidings.events import Filter
from tidings.lakes import delta, files
from tidings.lakes.delta import CommitFailedError, DeltaError, first_line
from tidings.lakes.errors import LakeError
from tidings.lakes.files import Written, synced
from tidings.lakes.lake import Lake
from tidings.lakes.layout import FIXED, KINDS, columns_of
from tidings.lakes.portions import Piece, read
from tidings.lakes.search import Sieve, with_day
from tidings.lakes.view import View

_ATTEMPTS: Final = 20
"""Tries of a commit that others are always ahead of."""
_LEFT: Final = frozenset({"id", "stream", "tick", "time", "day"})
"""Columns that a row keeps: whatever else there is says something of the event."""
_ORPHANED: Final = 24 * 3600.0
"""Seconds after which nobody commits a file any more that was written before."""

OnProgress = Callable[[int, int], object]
"""Is called with how many files were looked at, and how many there are."""


class LakeErasure(NamedTuple):
    """What an erasure has done in a lake."""

    erased: int
    """Events that were erased now, or would be."""
    held: dict[str, int]
    """How far the lake was: what it gets of these ticks later was not looked at."""
    rewritten: int = 0
    """Files that were written anew, or would be."""
    deleted: int = 0
    """Files that were deleted, with what was erased in them, or before that."""


def erase(
    lake: Lake,
    filter: Filter | str,
    id: str,
    *,
    is_dry: bool = False,
    keep_files: bool = False,
    told: OnProgress = lambda done, total: None,
) -> LakeErasure:
    """Erase what a filter matches in a lake, under the id of an erasure.

    With `keep_files`, what was replaced stays for those who read it now, until it is deleted: by
    another erasure, or by `Lake.compact`. `LakeError` if nothing was erased.
    """
    erasing = _Erasing(lake, Eraser(Filter.of(filter), id).filter, id, told)
    for _ in range(_ATTEMPTS):
        view = lake.snapshot()
        count, olds = erasing.look(view)
        if is_dry or not olds:
            break
        if erasing.replace(view, olds):
            break
    else:
        raise LakeError(f"{lake.path}: others write to the lake all the time; try again")
    erasing.discard()
    deleted = 0 if is_dry or keep_files else _clean(lake)
    return LakeErasure(count, view.held(), len(olds), deleted)


class _Erasing:
    """An erasure in a lake, over any number of attempts to commit it."""

    def __init__(self, lake: Lake, filter: Filter, id: str, told: OnProgress) -> None:
        self._lake, self._filter, self._id, self._told = lake, filter, id, told
        self._found: dict[str, int] = {}
        """How many rows are to be erased in each file that was looked at."""
        self._written: dict[str, Written] = {}
        """What is to be in the place of a file, which nobody changes."""

    def look(self, view: View) -> tuple[int, list[str]]:
        """How many events are to be erased, and in which files."""
        search = view.search(self._filter, None, None)
        sieve = Sieve(self._filter, columns_of(view.schema()))
        paths = [path for path, _ in search.files]
        for done, path in enumerate(paths):
            self._told(done, len(paths))
            if path not in self._found:
                batches = self._batches(view, path, {*sieve.used, "tick"})
                self._found[path] = sum(int(sieve.mask(batch).sum()) for batch in batches)
        self._told(len(paths), len(paths))
        olds = [path for path in paths if self._found[path]]
        return sum(self._found[path] for path in olds), olds

    def replace(self, view: View, olds: list[str]) -> bool:
        """Put other files in the places of some; False if somebody else has committed meanwhile."""
        lake = self._lake
        mark = Written(columns={ERASED: {"string": ERASED}})
        if ERASED not in view.schema().names:
            if lake.admit([mark]):
                raise LakeError(
                    f"{lake.path} cannot have the column {ERASED} which tells erased rows: there "
                    "is one that is called almost so, or there are too many columns"
                )
            view = lake.snapshot()
        try:
            for path in olds:
                if path not in self._written:
                    self._written[path] = self._rewrite(view, path)
            news = [self._written[path] for path in olds]
            _sync(lake.path, news)
            delta.replace(lake.path, view.table, olds, news)
        except CommitFailedError:
            return False
        except OSError as problem:
            self.discard()
            raise LakeError(f"{lake.path}: nothing was erased: {problem}") from problem
        for path in olds:
            del self._written[path]
        return True

    def discard(self) -> None:
        """Delete what was written and not committed."""
        for each in self._written.values():
            each.discard(self._lake.path)

    def _rewrite(self, view: View, path: str) -> Written:
        """Write a file anew, in the same order, without what is erased."""
        sieve = Sieve(self._filter, columns_of(view.schema()))
        there = {*pq.read_schema(self._lake.path / path).names, *FIXED.names, ERASED}
        schema = pa.schema([field for field in view.schema() if field.name in there])
        names = {*schema.names, *sieve.used}
        batches = [
            self._without(batch.select(schema.names), np.asarray(sieve.mask(batch)))
            for batch in self._batches(view, path, names)
        ]
        return files.write(self._lake.path, pa.Table.from_batches(batches, schema), schema)

    def _without(self, batch: pa.RecordBatch, erased: Any) -> pa.RecordBatch:
        if not erased.any():
            return batch
        mask = pa.array(erased)
        arrays = []
        for field, array in zip(batch.schema, batch.columns, strict=True):
            if field.name == ERASED:
                array = pc.if_else(mask, pa.scalar(self._id, KINDS["string"]), array)
            elif field.name not in _LEFT:
                array = pc.if_else(mask, pa.scalar(None, field.type), array)
            arrays.append(array)
        return pa.RecordBatch.from_arrays(arrays, schema=batch.schema)

    def _batches(self, view: View, path: str, names: set[str]) -> Iterator[pa.RecordBatch]:
        """All rows of a file, in their order, with these columns."""
        fields = [f for f in view.schema() if f.name in {*names, "time"} and f.name != "day"]
        for batch in read(self._lake.path, Piece(path, 0), pa.schema(fields)):
            if "day" in names:
                batch = with_day(batch, pa.schema([f for f in view.schema() if f.name in names]))
            yield batch


def _sync(folder: Path, written: list[Written]) -> None:
    """Have new files on the disk before old ones are deleted."""
    paths = [folder / file.path for each in written for file in each.files]
    for path in (*paths, *{path.parent for path in paths}):
        synced(path)


# -- what is left of what was replaced -------------------------------------------------------------


def _clean(lake: Lake) -> int:
    """Delete what no longer belongs to the lake, and what its log says of that; how many files.

    (Delta's own vacuum would leave what was replaced at this very moment.)
    """
    log = lake.path / "_delta_log"
    removed = _removed(log)
    view = lake.snapshot()
    living, late, deleted = set(view.sizes()), time() - _ORPHANED, 0
    try:
        for path in lake.path.glob("day=*/*.parquet"):
            name = str(path.relative_to(lake.path))
            if name not in living and (name in removed or path.stat().st_mtime < late):
                path.unlink(missing_ok=True)
                deleted += 1
        view.table.create_checkpoint()
        _redact(log, view.table.version(), living)
    except (DeltaError, OSError) as problem:
        raise LakeError(
            f"{lake.path}: what was erased is no longer read, but it is still in old files, which "
            f"cannot be deleted: {first_line(problem)}; run it again"
        ) from problem
    return deleted


def _removed(log: Path) -> set[str]:
    """The files that commits have put others in the places of."""
    found = set()
    for path in log.glob("*.json"):
        for line in path.read_bytes().splitlines():
            if b'"remove"' in line and "remove" in (action := msgspec.json.decode(line)):
                found.add(unquote(action["remove"]["path"]))
    return found


def _redact(log: Path, version: int, living: set[str]) -> None:
    """Let the log not say any more between what values lay in files that are gone.

    Its versions stay, so that those who write at this moment are not misled. Older checkpoints,
    which say the same, are not needed beside a newer one.
    """
    for path in log.glob("*.json"):
        if not path.stem.isdecimal() or b'"stats"' not in (before := path.read_bytes()):
            continue
        lines = [_redacted(line, living) for line in before.splitlines()]
        after = b"\n".join(lines) + b"\n"
        if lines != before.splitlines():
            draft = path.with_name(f".{path.name}.redacted")
            draft.write_bytes(after)
            synced(draft)
            os.replace(draft, path)
    for path in log.glob("*.checkpoint*.parquet"):
        if int(path.name.partition(".")[0]) < version:
            path.unlink(missing_ok=True)
    synced(log)


def _redacted(line: bytes, living: set[str]) -> bytes:
    if b'"stats"' not in line:
        return line
    action: dict[str, Any] = msgspec.json.decode(line)
    added = action.get("add")
    if added is None or unquote(added["path"]) in living or added.get("stats") is None:
        return line
    rows = msgspec.json.decode(added["stats"]).get("numRecords")
    if added["stats"] == (less := msgspec.json.encode({"numRecords": rows}).decode()):
        return line
    return msgspec.json.encode({**action, "add": {**added, "stats": less}})
