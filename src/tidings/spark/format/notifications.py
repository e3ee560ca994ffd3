"""Notifications: the rows that somebody writes, each as an event, or why it is none.

A column is an attribute, and null means that it is absent; structs become dotted names, arrays
become sets, and a VARIANT is what is in it. A single column `event` of type STRING is the
notification in JSON. Where there is a column `attributes` that is MAP<STRING, VARIANT>, as it is
read, what is in the map are the attributes, but for those that other columns have a value of; `id`,
`stream`, `tick` and `time` are of the event that was read, and not published again. Nothing here
touches a broker or a disk.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DoubleType,
    FloatType,
    IntegralType,
    MapType,
    NullType,
    StringType,
    StructType,
    TimestampType,
    VariantType,
)

from tidings.events import Notification, TidingsError
from tidings.protocol.records import WireLimits
from tidings.spark.columns.attributes import has_all_attributes, is_variants
from tidings.spark.format.staging import size_of
from tidings.spark.format.variants import decode

PLAIN: Final = (
    StringType,
    BooleanType,
    IntegralType,
    DoubleType,
    FloatType,
    TimestampType,
    BinaryType,
    NullType,
)
_EVENT: Final = "event"
_ATTRIBUTES: Final = "attributes"
_ORIGIN: Final = ("id", "stream", "tick", "time")


class Notifications:
    """Makes notifications of rows; `TidingsError` if a column can be no attribute."""

    def __init__(self, schema: StructType, most: int) -> None:
        """A row of more bytes than `most` is no notification."""
        self._names, self._most = schema.fieldNames(), most
        kinds = {field.name: field.dataType for field in schema}
        for name, kind in kinds.items():
            if not _has_variants(kind):
                _check(name, kind)
        self._is_json = self._names == [_EVENT] and isinstance(kinds[_EVENT], StringType)
        self._is_read = has_all_attributes(schema)
        self._varied = [name for name, kind in kinds.items() if _has_variants(kind)]
        self._limits = WireLimits()

    def of(self, batch: pa.RecordBatch) -> Iterator[tuple[dict[str, Any], Notification | str]]:
        """Each row as it is, with the notification that it is, or why it is none."""
        for row, misfit in _rows(batch.rename_columns(self._names)):
            try:
                yield row, misfit or self._notification(row)
            except TidingsError as problem:
                yield row, str(problem)

    def _notification(self, row: dict[str, Any]) -> Notification:
        if self._is_json:
            if row[_EVENT] is None:
                raise TidingsError("there is no event")
            said = Notification.from_json(row[_EVENT])
        else:
            for name in self._varied:
                row[name] = _plain(row[name])
            said = Notification(self._attributes(row) if self._is_read else row)
        self._limits.check(said)
        size = size_of(said)
        if size > self._most:
            raise TidingsError(f"it has {size:,} bytes; maxEventBytes is {self._most:,}")
        return said

    def _attributes(self, row: dict[str, Any]) -> dict[str, Any]:
        # Null may also mean that the value, which the map has, did not fit when it was read.
        others = {
            n: v for n, v in row.items() if n not in (_ATTRIBUTES, *_ORIGIN) and v is not None
        }
        return {**(row[_ATTRIBUTES] or {}), **others}


def _rows(batch: pa.RecordBatch) -> Iterator[tuple[dict[str, Any], str]]:
    """Each row, and what is wrong if it cannot be had in Python.

    Its times end with year 9999, and its maps have each key once (else it is a `KeyError`).
    """
    try:
        rows = batch.to_pylist(maps_as_pydicts="strict")
    except (OverflowError, ValueError, KeyError) as problem:
        if batch.num_rows > 1:
            for at in range(batch.num_rows):
                yield from _rows(batch.slice(at, 1))
        else:
            reason = problem.args[0] if isinstance(problem, KeyError) else problem
            row = {n: _shown(c) for n, c in zip(batch.schema.names, batch, strict=True)}
            yield row, str(reason)
    else:
        yield from ((row, "") for row in rows)


def _shown(column: pa.Array) -> Any:
    """The value of a column with one row, or how Arrow writes it if Python has none such."""
    try:
        return column[0].as_py()
    except (OverflowError, ValueError):
        return " ".join(column.to_string().split())


# -- variants --------------------------------------------------------------------------------------


def _has_variants(kind: DataType) -> bool:
    return isinstance(kind, VariantType) or is_variants(kind)


def _plain(value: Any) -> Any:
    """A variant, or a map of them, as Arrow has it: what is in it."""
    if value is None:
        return None
    if value.keys() != {"value", "metadata"} or not isinstance(value["value"], bytes):
        return {name: _plain(variant) for name, variant in value.items()}
    return decode(**value)


def _check(name: str, kind: DataType) -> None:
    """Whether a column's values can be an attribute's; `TidingsError` says which can."""
    match kind:
        case StructType():
            for field in kind:
                _check(f"{name}.{field.name}", field.dataType)
        case ArrayType():
            _check(name, kind.elementType)
        case MapType(keyType=StringType()):
            _check(name, kind.valueType)
        case _ if not isinstance(kind, PLAIN):
            raise TidingsError(
                f"column {name} is {kind.simpleString().upper()}, which no attribute can be; cast "
                "it to STRING, BOOLEAN, BIGINT, DOUBLE, TIMESTAMP or BINARY, or arrays or structs "
                "of these"
            )
