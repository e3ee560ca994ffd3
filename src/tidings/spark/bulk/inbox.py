"""The inbox: deliveries as a Delta table, for subscribers who would rather ask than be told.

A row is a delivery: `name`, the `id` and `time` of the event, the `day` it was published, and the
event in JSON. The number of each batch is kept with its rows in one commit, so that a batch which
Spark brings again is known.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from tidings.events import TidingsError

try:
    from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
    from deltalake.exceptions import TableNotFoundError
except ImportError as problem:
    raise TidingsError(
        f"The inbox needs Delta ({problem}). Try: pip install 'tidings[spark]'"
    ) from None

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

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
_COMPACT: Final = 500
"""After so many commits small files are joined."""


class Inbox:
    """A Delta table in a folder, made when it is missing."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._commits = 0
        _opened(path)

    def take(self, rows: DataFrame, batch: int) -> None:
        """Append the rows (name, id, time, event) of a query's batch, if they are not there."""
        query = rows.sparkSession.sparkContext.getLocalProperty(_QUERY)
        assert query is not None
        self.append(rows.toArrow(), query, batch)

    def append(self, rows: pa.Table, query: str, batch: int) -> bool:
        """Add the deliveries of a batch; False if they are there already."""
        table = _opened(self._path)
        last = table.transaction_version(query)
        if last is not None and last >= batch:
            return False
        if rows.num_rows:
            days: Any = rows["time"].cast(pa.date32())
            whole = rows.append_column("day", days).select(COLUMNS.names).cast(COLUMNS)
            write_deltalake(
                table,
                whole,
                mode="append",
                commit_properties=CommitProperties(app_transactions=[Transaction(query, batch)]),
            )
            self._commits += 1
            if self._commits % _COMPACT == 0:
                _opened(self._path).optimize.compact()
        return True


def _opened(path: Path) -> DeltaTable:
    try:
        return DeltaTable(path)
    except TableNotFoundError:
        if path.exists() and any(path.iterdir()):
            raise TidingsError(f"{path}: there is something else here, no inbox") from None
        return DeltaTable.create(path, COLUMNS, partition_by=["day"])
