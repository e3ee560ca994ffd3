"""Delta: what a lake asks of the package `deltalake`, and which small files it has joined."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import date
from pathlib import Path
from time import time
from typing import Final, NamedTuple
from urllib.parse import unquote
from uuid import uuid4

import msgspec
import pyarrow as pa

from tidings.events import Filter, TidingsError
from tidings.lakes.errors import LakeError
from tidings.lakes.files import DELTAS, DISTINCT, RISING, ROW_GROUP, Written, synced
from tidings.lakes.formats import FORMAT, KEY
from tidings.lakes.layout import EVERYTHING

try:
    from deltalake import (
        ColumnProperties,
        CommitProperties,
        DeltaTable,
        Schema,
        Transaction,
        WriterProperties,
    )
    from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
    from deltalake.transaction import AddAction
except ImportError as problem:
    raise TidingsError(
        f"The lake needs Delta ({problem}). Try: pip install 'tidings[lakes]'"
    ) from None

__all__ = ["CommitFailedError", "DeltaError", "DeltaTable"]

_FILTER: Final = "tidings.filter"
_CONFIGURATION: Final = {
    "delta.dataSkippingNumIndexedCols": "100",
    "delta.deletedFileRetentionDuration": "interval 7 days",
}


def found(path: Path, version: int | None = None) -> DeltaTable:
    """The table as it is now, or was; `LakeError` if there is none, or none that can be read."""
    if (table := _table(path, version)) is None:
        raise LakeError(f"{path}: there is no lake here")
    return table


def found_or_made(
    path: Path, columns: pa.Schema, *, what: str = "lake", filter: Filter | None = None
) -> DeltaTable:
    """The table as it is now; if there is none, it is made, by `day`.

    A lake is made for what the `filter` matches.
    """
    if (table := _table(path)) is not None:
        return table
    if _is_taken(path):
        raise LakeError(f"{path}: there is something else here, which is no {what}")
    try:
        DeltaTable.create(
            path,
            columns,
            partition_by=["day"],
            configuration=_configuration(filter) if filter else None,
            raise_if_key_not_exists=False,
        )
    except Exception as problem:
        if _table(path) is None:  # else somebody else has made it at this moment
            raise LakeError(f"{path}: no {what} can be made here: {first_line(problem)}") from None
    return found(path)


def _configuration(filter: Filter) -> dict[str, str | None]:
    return {**_CONFIGURATION, KEY: str(FORMAT), _FILTER: filter.to_json()}


def _table(path: Path, version: int | None = None) -> DeltaTable | None:
    if (read := unquote(str(path))) != str(path):
        raise LakeError(f"{path}: Delta takes this name for {read}; give another one")
    try:
        return DeltaTable(path, version=version) if path.is_dir() else None
    except TableNotFoundError:
        return None
    except DeltaError as problem:
        raise LakeError(f"{path}: the lake cannot be read: {first_line(problem)}") from None


def _is_taken(path: Path) -> bool:
    if not path.is_dir():
        return path.exists()
    return any(path.iterdir()) and not (path / "_delta_log").exists()


def first_line(problem: Exception) -> str:
    """What is wrong, without the backtrace that Delta puts behind it."""
    return str(problem).partition("\n")[0]


def filter_of(table: DeltaTable) -> Filter:
    """What a table was made for."""
    said = table.metadata().configuration.get(_FILTER)
    return EVERYTHING if said is None else Filter.from_json(said)


def add_columns(table: DeltaTable, columns: Sequence[pa.Field]) -> None:
    """Add columns; `CommitFailedError` if somebody else has changed the table since it was read."""
    table.alter.add_columns(Schema.from_arrow(pa.schema(columns)).fields)


def join(table: DeltaTable, joint: Joint) -> tuple[int, int]:
    """Join small files of a day, and commit it; how many they were, and are now."""
    done = table.optimize.compact(
        [("day", "=", str(joint.day))],
        target_size=joint.below,
        writer_properties=WriterProperties(
            max_row_group_size=ROW_GROUP,
            compression="ZSTD",
            compression_level=4,
            column_properties={
                name: ColumnProperties(False, encoding=DELTAS if name in RISING else None)
                for name in DISTINCT
            },
        ),
    )
    return done["numFilesRemoved"], done["numFilesAdded"]


def replace(path: Path, table: DeltaTable, olds: Collection[str], news: Sequence[Written]) -> None:
    """Put files in the places of others, as one commit behind the version that was read.

    `CommitFailedError` if there is another one already. (`deltalake` can commit files that it has
    not written itself only as additions, so this writes the commit, as Delta's protocol has it.)
    """
    for each in news:
        each.check(path)
    now = int(time() * 1000)
    days = _days(table)
    actions: list[dict[str, object]] = [
        {"commitInfo": {"timestamp": now, "operation": "ERASE", "engineInfo": "tidings"}}
    ]
    actions += [
        {
            "remove": {
                "path": old,
                "deletionTimestamp": now,
                "dataChange": True,
                "extendedFileMetadata": True,
                "partitionValues": {"day": days[old][0]},
                "size": days[old][1],
            }
        }
        for old in olds
    ]
    actions += [
        {
            "add": {
                "path": new.path,
                "partitionValues": {"day": new.day},
                "size": new.size,
                "modificationTime": now,
                "dataChange": True,
                "stats": new.statistics,
            }
        }
        for each in news
        for new in each.files
    ]
    log = path / "_delta_log"
    draft = log / f".{uuid4()}.draft"
    draft.write_bytes(b"".join(msgspec.json.encode(action) + b"\n" for action in actions))
    try:
        synced(draft)
        os.link(draft, log / f"{table.version() + 1:020}.json")  # which must not be there
    except FileExistsError:
        raise CommitFailedError(f"version {table.version() + 1} is there already") from None
    finally:
        draft.unlink()
    synced(log)


def _days(table: DeltaTable) -> dict[str, tuple[str, int]]:
    """Of each file its day, and its size."""
    known = pa.table(table.get_add_actions(flatten=True))
    columns = (known[name].to_pylist() for name in ("path", "partition.day", "size_bytes"))
    return {path: (str(day), size) for path, day, size in zip(*columns, strict=True)}


def commit(
    path: Path, table: DeltaTable, written: Sequence[Written], numbers: Mapping[str, int]
) -> None:
    """Add files to the table at a path and set numbers, all or nothing.

    `LakeError` if a file is not there for whoever commits. `CommitFailedError` if somebody else
    has set one of these numbers since the table was read, or has added columns.
    """
    for each in written:
        each.check(path)
    now = int(time() * 1000)
    table.create_write_transaction(
        [
            AddAction(f.path, f.size, {"day": f.day}, now, True, f.statistics)
            for each in written
            for f in each.files
        ],
        "append",
        table.schema(),
        ["day"],
        commit_properties=CommitProperties(
            app_transactions=[Transaction(name, number) for name, number in numbers.items()]
        ),
    )


# -- which small files to join -----------------------------------------------------------------

LARGE: Final = 100 << 20
"""Bytes from which on a file is joined with no other."""


class Joint(NamedTuple):
    """Files of a day that are to be joined: all with fewer bytes than `below`."""

    day: date
    files: int
    below: int


def joints(files: Iterable[tuple[date, int]]) -> list[Joint]:
    """What to join, of files that are given with their days and sizes.

    Of each day, files are joined from the smallest on, up to the largest that is no larger than all
    before it together. So whatever is written again is then in a file of twice the size, at least:
    an event that came in a file of 100 kB is written ten times until it is in one of 100 MB, where
    it stays. What is left of a day are some files, each larger than all the smaller ones together.

    >>> day = date(2026, 11, 15)
    >>> [(j.files, j.below) for j in joints((day, size) for size in (20, 5, 5, 9, 40))]
    [(3, 20)]
    """
    days: defaultdict[date, list[int]] = defaultdict(list)
    for day, size in files:
        if size < LARGE:
            days[day].append(size)
    found = [_joint(day, sorted(sizes)) for day, sizes in sorted(days.items())]
    return [joint for joint in found if joint.files]


def _joint(day: date, sizes: list[int]) -> Joint:
    count = before = 0
    for number, size in enumerate(sizes, start=1):
        if size <= before:
            count = number
        before += size
    return Joint(day, count, sizes[count] if count < len(sizes) else LARGE)
