"""The inbox: deliveries as a Delta table, for subscribers who would rather ask than be told.

A row is a delivery: `name`, the `id` and `time` of the event, the `day` it was published, and the
event in JSON. Tasks write the rows, since a popular event has a million of them; the driver adds
their files in one commit, together with the number of the batch, so that a batch which Spark
brings again is known.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidings.events import TidingsError
from tidings.lakes.delta import DeltaTable, commit, found_or_made
from tidings.lakes.files import File, Written, statistics

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_log = logging.getLogger("tidings.spark")

COLUMNS: Final = pa.schema(
    [
        ("name", pa.string()),
        ("id", pa.string()),
        ("time", pa.timestamp("us", "UTC")),
        ("event", pa.string()),
        ("day", pa.date32()),
    ]
)
_QUERY: Final = "sql.streaming.queryId"
_FILES: Final = "path STRING, size BIGINT, day STRING, statistics STRING"
"""What a task tells of the files it has written: the fields of `File`."""
_BYTES: Final = 64 << 20
"""Bytes of JSON in memory at a time, and in a file."""
_COMPACT: Final = 500
"""Commits until small files are joined."""


class Inbox:
    """A Delta table in a folder, made when it is missing; all tasks must see the folder."""

    def __init__(self, path: Path) -> None:
        """`TidingsError` if there is something else, or nothing can be there."""
        self._path = path
        _opened(path)

    def take(self, rows: DataFrame, batch: int) -> None:
        """Add the deliveries of a query's batch, if they are not there.

        The rows are events: `matches` (the names), `id`, `time`, and `event` (in JSON).
        """
        query = rows.sparkSession.sparkContext.getLocalProperty(_QUERY)
        assert query is not None
        if not self._has(query, batch):
            told = rows.mapInArrow(partial(_tell_files, self._path), _FILES).collect()
            self.add([File(**row.asDict()) for row in told], query, batch)

    def _has(self, query: str, batch: int) -> bool:
        last = _opened(self._path).transaction_version(query)
        return last is not None and last >= batch

    def add(self, files: list[File], query: str, batch: int) -> None:
        """Commit the files of a batch, which is not there yet; `LakeError` if one is not here."""
        if not files:
            return
        table = _opened(self._path)
        commit(self._path, table, [Written(tuple(files))], {query: batch})
        table.update_incremental()
        if table.version() % _COMPACT == 0:
            self._join(table)

    def _join(self, table: DeltaTable) -> None:
        """Join small files, and delete those that have not been the table's for a week."""
        try:
            table.optimize.compact()
            table.vacuum(dry_run=False, full=True)
        except Exception as problem:  # what is there is as good as before
            _log.warning("%s: small files could not be joined: %s", self._path, problem)


# -- rows, in tasks --------------------------------------------------------------------------------


def _tell_files(folder: Path, events: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in events:
        if told := [asdict(file) for file in write(folder, batch)]:
            yield pa.RecordBatch.from_pylist(told)


def write(folder: Path, events: pa.RecordBatch) -> Iterator[File]:
    """Write a row for each name of each event; the files are nothing until they are committed."""
    for rows in _deliveries(events):
        for day in pc.unique(rows["day"]).to_pylist():
            part = rows.filter(pc.equal(rows["day"], day)).drop_columns("day")
            path = folder / f"day={day}" / f"part-{uuid4()}.zstd.parquet"
            path.parent.mkdir(exist_ok=True)
            said: list[Any] = []
            pq.write_table(part, path, compression="zstd", metadata_collector=said)
            size, about = path.stat().st_size, statistics(part, said[0])
            yield File(f"day={day}/{path.name}", size, str(day), about)


def _deliveries(events: pa.RecordBatch) -> Iterator[pa.Table]:
    """A row for each name, about as many at a time as `_BYTES` allow."""
    names, owners = pc.list_flatten(events["matches"]), pc.list_parent_indices(events["matches"])
    sizes = np.cumsum(pc.binary_length(events["event"]).to_numpy().astype(np.int64)[owners])
    cuts = np.flatnonzero(np.diff(sizes // _BYTES)) + 1
    times = events["time"].cast(COLUMNS.field("time").type)
    whole = pa.table(
        [events["id"], times, events["event"], times.cast(pa.date32())], COLUMNS.names[1:]
    )
    for first, end in pairwise([0, *cuts.tolist(), len(names)]):
        rows = whole.take(owners[first:end])
        yield rows.add_column(0, "name", names[first:end]).cast(COLUMNS)


# -- the table -------------------------------------------------------------------------------------


def _opened(path: Path) -> DeltaTable:
    table = found_or_made(path, COLUMNS, what="inbox")
    held = pa.schema(table.schema().to_arrow())
    if held.names != COLUMNS.names:
        raise TidingsError(
            f"{path}: this is no inbox: its columns are {', '.join(held.names[:9])} instead of "
            f"{', '.join(COLUMNS.names)}. Name a folder that is new, or an inbox"
        )
    return table
