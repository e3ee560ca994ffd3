"""A search: which files of a lake to read, and which of their rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from tidings.delivery.erased import ERASED
from tidings.events import Filter
from tidings.events.values import microseconds
from tidings.lakes.errors import LakeError, reading
from tidings.lakes.formats import objection
from tidings.lakes.grouping import Grouping, names_in
from tidings.lakes.layout import FIXED, Columns, columns_of, days
from tidings.lakes.pruning import Statistics, Window, may_match, times
from tidings.matching import Index
from tidings.protocol.cursors import Beginning

if TYPE_CHECKING:
    from deltalake import DeltaTable

ROWS: Final = 65_536
"""Rows of a batch, at most."""
_EARLIEST: Final = microseconds(datetime.min.replace(tzinfo=UTC))
_ALWAYS: Final = ("path", "num_records", "partition.day")


def schema_of(table: DeltaTable) -> pa.Schema:
    """The columns, the fixed ones first: Delta puts `day` behind all that it knew before.

    `LakeError` if it lacks one of these, or is of another format.
    """
    found = pa.schema(table.schema().to_arrow())
    if not {*FIXED.names} <= {*found.names}:
        raise LakeError(f"{_folder(table)}: this is a Delta table, but no lake")
    if why := objection(table.metadata().configuration):
        raise LakeError(f"{_folder(table)}: {why}")
    fixed = [found.field(name) for name in FIXED.names]
    return pa.schema([*fixed, *(field for field in found if field.name not in FIXED.names)])


def _folder(table: DeltaTable) -> str:
    return unquote(urlsplit(table.table_uri).path).rstrip("/")


class Search:
    """What is to be read, as of one version of the table."""

    def __init__(self, path: Path, table: DeltaTable, filter: Filter, window: Window) -> None:
        self._path = path
        self._schema = schema_of(table)
        self._stored = pa.schema([f for f in self._schema if f.name != "day"])
        self._columns: Columns = columns_of(self._schema)
        self._sieve = Sieve(filter, self._columns)
        self._condition = window.condition()
        statistics = pa.table(table.get_add_actions(flatten=True))
        self.found: list[Statistics] = [
            file
            for file in _chosen(statistics, self._sieve.used)
            if window.may_hold(file) and self._may_match(file, filter)
        ]
        """What is known of each file that is to be read."""
        self.files: list[tuple[str, int]] = sorted(
            ((file["path"], times(file)[0]) for file in self.found), key=itemgetter(1, 0)
        )
        """The files, by the earliest time that they may hold, in microseconds."""

    def _may_match(self, file: Statistics, filter: Filter) -> bool:
        """Whether rows of the file may match, by the log or, where that is silent, by itself.

        The log says nothing of columns that are newer than the file, but also nothing of some
        that the file has.
        """
        if not may_match(file, filter, self._columns):
            return False
        unsaid = {c for c in self._sieve.used if file.get(f"null_count.{c}") is None}
        if may_match(_without(file, unsaid), filter, self._columns):
            return True  # whichever of them it has
        try:
            stored = pq.read_schema(self._path / file["path"]).names
        except (OSError, pa.ArrowException):
            return True  # its reader will say so
        return may_match(_without(file, unsaid.difference(stored)), filter, self._columns)

    def rows(self, path: str) -> Iterator[pa.RecordBatch]:
        """The rows of a file that are wanted; `LakeError` if it cannot be read."""
        yield from self.read(self._file(path))

    def groups(self, path: str) -> Iterator[tuple[int, Any]]:
        """The row groups of a file, to be read, each with its earliest time."""
        with reading(self._path / path):
            pieces = self._file(path).split_by_row_group(self._condition, self._stored)
        for group in pieces:
            said = (group.row_groups[0].statistics or {}).get("time")
            yield _EARLIEST if said is None else microseconds(said["min"]), group

    def _file(self, path: str) -> Any:
        with reading(self._path / path):
            found = ds.dataset(str(self._path / path), schema=self._stored, format="parquet")
            return next(iter(found.get_fragments()))

    def read(self, piece: Any) -> Iterator[pa.RecordBatch]:
        """The rows of a row group that are wanted."""
        for batch in self._batches(piece):
            if batch.num_rows and (sifted := self._sieve.sift(batch)).num_rows:
                yield with_day(sifted, self._schema)

    def _batches(self, piece: Any) -> Iterator[pa.RecordBatch]:
        with reading(piece.path):
            yield from piece.to_batches(self._stored, filter=self._condition, batch_size=ROWS)


def _chosen(statistics: pa.Table, columns: Iterable[str]) -> list[dict[str, Any]]:
    """What is said of each file, as far as it matters here."""
    used = {"stream", "tick", "time", "rest", *columns}
    wanted = {f"{what}.{column}" for what in ("min", "max", "null_count") for column in used}
    kept = [n for n in statistics.column_names if n in wanted or n in _ALWAYS]
    return statistics.select(kept).to_pylist()  # type: ignore[no-any-return]


def _without(file: Statistics, columns: Iterable[str]) -> Statistics:
    """What is known of a file that has no values in some columns."""
    return {**file, **{f"null_count.{column}": file["num_records"] for column in columns}}


def with_day(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The rows with the column `day`, which the names of files have, in its place in a schema."""
    times = batch["time"].cast(pa.int64()).to_numpy(zero_copy_only=False)
    at = schema.get_field_index("day")
    arrays = batch.columns
    return pa.RecordBatch.from_arrays([*arrays[:at], days(times), *arrays[at:]], schema=schema)


@dataclass(frozen=True)
class Question:
    """What of a lake is wanted."""

    lake: Path
    filter: Filter
    window: Window
    version: int | None = None
    """The version of the table, for those who ask several times; None for the newest."""

    @classmethod
    def of(
        cls,
        lake: str | Path,
        filter: Filter | str | None = None,
        since: Beginning = None,
        until: Beginning = None,
    ) -> Question:
        """As a program says it; `TidingsError` if it says no filter or place."""
        wanted = Filter.all() if filter is None else Filter.of(filter)
        return cls(Path(lake).absolute(), wanted, Window.of(since, until))

    def pinned(self) -> Question:
        """This question about the lake as it is now, whatever is added later."""
        return replace(self, version=self.table().version())

    def search(self) -> Search:
        return Search(self.lake, self.table(), self.filter, self.window)

    def table(self) -> Any:
        """The Delta table; `LakeError` if there is none."""
        from tidings.lakes import delta  # which tasks of Spark can do without

        return delta.found(self.lake, self.version)

    def schema(self) -> pa.Schema:
        return schema_of(self.table())


class Sieve:
    """Lets through what a filter matches, exactly, by the index; nothing that was erased."""

    def __init__(self, filter: Filter, columns: Columns) -> None:
        self._filter = filter
        self._is_all = filter == Filter.all()
        self._grouping = Grouping(names_in([filter]), columns)
        self._index: Index | None = None
        self._erased = columns.get(ERASED, {}).get("string")

    @property
    def used(self) -> list[str]:
        """The columns that it looks at."""
        mark = [] if self._erased is None else [self._erased]
        return mark if self._is_all else list(dict.fromkeys([*self._grouping.used, *mark]))

    def sift(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows that match, in their order."""
        if self._is_all and (self._erased is None or _is_empty(batch[self._erased])):
            return batch
        wanted = self.mask(batch)
        return batch if wanted.all() else batch.filter(pa.array(wanted))

    def mask(self, batch: pa.RecordBatch) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Of each row, whether it matches."""
        standing = np.ones(batch.num_rows, np.bool_)
        if self._erased is not None and not _is_empty(batch[self._erased]):
            standing = ~np.asarray(batch[self._erased].is_valid())
        if self._is_all:
            return standing
        if self._index is None:
            self._index = Index()
            self._index.add(0, self._filter)
        wanted = np.zeros(batch.num_rows, np.bool_)
        for rows, events in self._grouping.groups(batch):
            found = np.asarray(self._index.match_batch(events, threads=1)[0])
            wanted[found if rows is None else rows[found]] = True
        return wanted & standing


def _is_empty(column: Any) -> bool:
    return bool(column.null_count == len(column))
