"""Portions: the files of a lake divided among tasks, and how a task reads its own.

Each task reads the columns that it needs straight into Arrow, in one thread: all cores have a
task. What filters compare is read as dictionaries, as it is stored, so that an index looks at
each distinct string once. Nothing here knows of Spark.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from itertools import accumulate
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidings.lakes.errors import reading

ROWS: Final = 32_768
"""Rows read from a file at once."""
_LEAST: Final = 200_000
"""Rows of the smallest portion, unless there are fewer: to begin a task costs Spark as much as to
match some fifty thousand rows."""
_MOST: Final = 1_000_000
"""Rows of the largest portion, if its row groups allow."""
_TASKS: Final = 16
"""Portions to make, as far as their sizes allow."""


class Piece(NamedTuple):
    """A file, or some row groups of it."""

    path: str
    rows: int
    groups: tuple[int, ...] | None = None


Portion = tuple[Piece, ...]


def portions(folder: Path, files: Iterable[tuple[str, int]]) -> list[Portion]:
    """Files, given with their numbers of rows, in portions of similar size; large ones are cut."""
    files = list(files)
    total = sum(rows for _, rows in files)
    size = min(max(total // _TASKS, _LEAST), _MOST)
    found: list[Portion] = []
    current: list[Piece] = []
    filled = 0
    for path, rows in files:
        for piece in _cut(folder, path, rows, size):
            if current and filled + piece.rows > size:
                found.append(tuple(current))
                current, filled = [], 0
            current.append(piece)
            filled += piece.rows
    if current:
        found.append(tuple(current))
    return found


def _cut(folder: Path, path: str, rows: int, size: int) -> Iterator[Piece]:
    """A file in pieces of about this size, all alike, as far as its row groups allow."""
    if rows <= size:
        yield Piece(path, rows)
        return
    with reading(folder / path):
        about = pq.read_metadata(folder / path)
    counts = [about.row_group(number).num_rows for number in range(about.num_row_groups)]
    wanted = -(-rows // size)
    pieces: dict[int, list[int]] = {}
    for number, end in enumerate(accumulate(counts)):
        middle = end - counts[number] / 2
        pieces.setdefault(int(middle * wanted / sum(counts)), []).append(number)
    for groups in pieces.values():
        yield Piece(path, sum(counts[number] for number in groups), tuple(groups))


def read(
    folder: Path,
    piece: Piece,
    schema: pa.Schema,
    *,
    condition: Any = None,
    encoded: Collection[str] = (),
) -> Iterator[pa.RecordBatch]:
    """The rows as batches of these columns; those named in `encoded` may be dictionaries.

    A column that the file does not have is null: it is older than the column. `condition` is an
    expression of Arrow's on the columns, for rows that are wanted. `LakeError` names a file that
    cannot be read.
    """
    with reading(folder / piece.path):
        yield from _read(folder, piece, schema, condition, encoded)


def _read(
    folder: Path, piece: Piece, schema: pa.Schema, condition: Any, encoded: Collection[str]
) -> Iterator[pa.RecordBatch]:
    about = pq.read_metadata(folder / piece.path)
    there = set(about.schema.to_arrow_schema().names)
    texts = [name for name in encoded if name in there]
    with pq.ParquetFile(
        folder / piece.path, metadata=about, read_dictionary=texts, memory_map=True
    ) as file:
        wanted = [name for name in schema.names if name in there]
        batches = file.iter_batches(
            ROWS, row_groups=piece.groups, columns=wanted or ["tick"], use_threads=False
        )
        for batch in batches:
            arrays = [
                _typed(batch[field.name], field, encoded)
                if field.name in there
                else pa.nulls(batch.num_rows, field.type)
                for field in schema
            ]
            made = pa.RecordBatch.from_arrays(arrays, names=schema.names)
            yield from [made] if condition is None else _chosen(made, condition)


def _typed(column: Any, field: pa.Field, encoded: Collection[str]) -> Any:
    kind = column.type
    if kind == field.type or (field.name in encoded and pa.types.is_dictionary(kind)):
        return column
    return column.cast(field.type)


def _chosen(batch: pa.RecordBatch, condition: Any) -> Iterator[pa.RecordBatch]:
    for chosen in pa.Table.from_batches([batch]).filter(condition).to_batches():
        if chosen.num_rows:
            yield chosen


def plain(column: Any, kind: pa.DataType) -> Any:
    """A column without dictionary, of this type."""
    return column if column.type == kind else pc.cast(column, kind)
