"""Files: rows of a lake, written as Parquet by a process that has them and committed by another.

A file is nothing until a commit names it. So any process may write one, on any machine that sees
the lake's folder, and be killed meanwhile: what is not committed is deleted when the lake is
compacted. Each file is looked at before it is committed, since a machine may see another disk.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from math import isfinite
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidings.lakes.errors import LakeError
from tidings.lakes.layout import BODY, FIXED, Columns, columns_of

_INDEXED: Final = 100
"""Columns of which the log says between what their values lie: the first ones."""
_LONGEST: Final = 64
"""Characters of a string that the log says."""
ROW_GROUP: Final = 32_768
"""Rows of a row group. A reader in the order of time has a whole one in memory."""
DISTINCT: Final = frozenset({"id", "tick", "time", BODY})
"""Columns where hardly a value is there twice, which a dictionary would not serve."""
RISING: Final = ("tick", "time")
"""Columns of numbers that rise. What they rise by is kept, in a few bits, and not compressed: they
are read in a third of the time, and take less room."""
DELTAS: Final = "DELTA_BINARY_PACKED"


@dataclass(frozen=True)
class File:
    """A file, and what is said of it in the log."""

    path: str
    """Within the lake."""
    size: int
    day: str
    statistics: str


@dataclass(frozen=True)
class Written:
    """Rows that have been written, in one file for each day."""

    files: tuple[File, ...] = ()
    rows: int = 0
    columns: Columns = field(default_factory=dict)
    """The columns of attributes that have new ones, as the writer has named them."""
    order: tuple[str, ...] = ()
    """All attributes that have columns, in the order that the writer relies on."""
    first: Mapping[str, int] = field(default_factory=dict)
    """Of each stream, the first tick."""

    def check(self, folder: Path) -> None:
        """`LakeError` if a file is not here as its writer has left it: then it is elsewhere."""
        for file in self.files:
            if (wrong := missing(folder / file.path, file.size)) is not None:
                raise LakeError(
                    f"{wrong}. Nothing was committed: {folder} must be one folder that this "
                    "machine and all workers share"
                )

    def discard(self, folder: Path) -> None:
        """Delete the files, which are not committed and will not be."""
        for file in self.files:
            with suppress(OSError):
                (folder / file.path).unlink()


def missing(path: Path, size: int) -> str | None:
    """What is wrong if a file of a lake is not here with all its bytes; None if it is."""
    try:
        here = os.stat(path).st_size
    except FileNotFoundError:
        return f"{path}: it was written with {size:,} bytes, but is not here"
    if here != size:
        return f"{path}: it was written with {size:,} bytes, but has {here:,} here"
    return None


def synced(path: Path) -> None:
    """Have a file on the disk; or a folder's names, after one was made or renamed in it."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write(folder: Path, rows: pa.Table, known: pa.Schema) -> Written:
    """Write rows into a lake's folder; `known` are the columns that their writer knew of."""
    new = {name.partition("$")[0] for name in rows.schema.names[len(known) :]}
    columns = columns_of(rows.schema)
    named = {n: kinds for n, kinds in columns.items() if n in new}
    files = tuple([_write(folder, day, part) for day, part in _by_day(rows)])
    return Written(files, rows.num_rows, named, tuple(columns), _first(rows))


def _first(rows: pa.Table) -> dict[str, int]:
    least = rows.group_by("stream").aggregate([("tick", "min")])
    return dict(zip(least["stream"].to_pylist(), least["tick_min"].to_pylist(), strict=True))


def _by_day(rows: pa.Table) -> Iterator[tuple[date, pa.Table]]:
    found = pc.unique(rows["day"]).to_pylist()
    for day in found:
        chosen = rows if len(found) == 1 else rows.filter(pc.equal(rows["day"], day))
        yield day, chosen.drop_columns("day")


def _write(folder: Path, day: date, rows: pa.Table) -> File:
    inside = folder / f"day={day}"
    inside.mkdir(exist_ok=True)
    path = inside / f"part-{uuid4()}.zstd.parquet"
    said: list[Any] = []
    with (
        path.open("xb") as file,
        pq.ParquetWriter(
            file,
            rows.schema,
            compression={n: "none" if n in RISING else "zstd" for n in _leaves(rows.schema)},
            use_dictionary=[n for n in _leaves(rows.schema) if n not in DISTINCT],
            column_encoding=dict.fromkeys(RISING, DELTAS),
            metadata_collector=said,
        ) as writer,
    ):
        writer.write_table(rows, ROW_GROUP)
    size = os.stat(path).st_size
    return File(f"day={day}/{path.name}", size, str(day), statistics(rows, said[0]))


def _leaves(schema: pa.Schema) -> list[str]:
    """The columns as Parquet calls them."""
    return [f"{f.name}.list.element" if pa.types.is_list(f.type) else f.name for f in schema]


# -- statistics ------------------------------------------------------------------------------------


def statistics(rows: pa.Table, metadata: Any) -> str:
    """What Delta's log is to say of a file, as JSON, so that readers can leave it out.

    Strings are cut: the least to its beginning, the greatest to the next text behind all that
    begin so. Times are cut to milliseconds, as Delta wants it.
    """
    indexed = [*FIXED.names, *(n for n in rows.schema.names if n not in FIXED.names)][:_INDEXED]
    least: dict[str, Any] = {}
    greatest: dict[str, Any] = {}
    for at, column in enumerate(rows.schema):
        if column.name in indexed and column.name != BODY and not pa.types.is_list(column.type):
            groups = [metadata.row_group(n).column(at) for n in range(metadata.num_row_groups)]
            found = [g.statistics for g in groups if g.is_stats_set and g.statistics.has_min_max]
            values = sum(s.num_values for s in found)  # Parquet says nothing of very long ones
            ends = [(s.min, s.max) for s in found]
            if ends and values == rows.num_rows - rows[column.name].null_count:
                least |= _said(column.name, _below(min(low for low, _ in ends)))
                greatest |= _said(column.name, _above(max(high for _, high in ends)))
    nulls = {name: rows[name].null_count for name in indexed if name in rows.schema.names}
    whole = {
        "numRecords": rows.num_rows,
        "minValues": least,
        "maxValues": greatest,
        "nullCount": nulls,
    }
    return msgspec.json.encode(whole).decode()


def _said(name: str, value: Any) -> dict[str, Any]:
    return {} if value is None else {name: value}


def _below(value: Any) -> Any:
    match value:
        case str():
            return value[:_LONGEST]
        case datetime():
            return value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        case float():
            return value if isfinite(value) else None
        case bytes():
            return None
    return value


def _above(value: Any) -> Any:
    if not isinstance(value, str) or len(value) <= _LONGEST:
        return _below(value)
    for end in range(_LONGEST, 0, -1):
        code = ord(value[end - 1]) + 1
        if code <= 0x10FFFF:
            return value[: end - 1] + chr(0xE000 if code == 0xD800 else code)
    return None
