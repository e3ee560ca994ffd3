"""Delta: what a lake asks of the package `deltalake`, and nothing of what it is for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from time import time
from typing import Final

import pyarrow as pa

from tidings.events import Filter, TidingsError
from tidings.spark.lakes.files import Written
from tidings.spark.lakes.layout import EVERYTHING, FIXED

try:
    from deltalake import CommitProperties, DeltaTable, Schema, Transaction
    from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
    from deltalake.transaction import AddAction
except ImportError as problem:
    raise TidingsError(
        f"The lake needs Delta ({problem}). Try: pip install 'tidings[spark]'"
    ) from None

__all__ = ["CommitFailedError", "DeltaError", "DeltaTable", "LakeError"]

_FILTER: Final = "tidings.filter"
_CONFIGURATION: Final = {
    "delta.dataSkippingNumIndexedCols": "100",
    "delta.deletedFileRetentionDuration": "interval 7 days",
}


class LakeError(TidingsError):
    """The lake cannot take or give what it was asked to."""


def opened(path: Path, filter: Filter) -> DeltaTable:
    """The table as it is now; if there is none, it is made for what this filter matches."""
    try:
        return DeltaTable(path)
    except TableNotFoundError:
        pass
    if path.exists() and any(path.iterdir()) and not (path / "_delta_log").exists():
        raise LakeError(f"{path}: there is something else here, which is no lake")
    with suppress(Exception):  # somebody else may be making it at this moment
        DeltaTable.create(
            path,
            FIXED,
            partition_by=["day"],
            configuration={**_CONFIGURATION, _FILTER: filter.to_json()},
            raise_if_key_not_exists=False,
        )
    try:
        return DeltaTable(path)
    except Exception as problem:
        raise LakeError(f"{path}: no lake can be made here: {problem}") from None


def filter_of(table: DeltaTable) -> Filter:
    """What a table was made for."""
    said = table.metadata().configuration.get(_FILTER)
    return EVERYTHING if said is None else Filter.from_json(said)


def add_columns(table: DeltaTable, columns: Sequence[pa.Field]) -> None:
    """Add columns; `CommitFailedError` if somebody else has changed the table since it was read."""
    table.alter.add_columns(Schema.from_arrow(pa.schema(columns)).fields)


def commit(table: DeltaTable, written: Sequence[Written], numbers: Mapping[str, int]) -> None:
    """Add files and set numbers, all or nothing.

    `CommitFailedError` if somebody else has set one of these numbers since the table was read, or
    has added columns.
    """
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
