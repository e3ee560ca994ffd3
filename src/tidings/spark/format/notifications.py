"""Notifications: the rows that somebody writes, each as an event, or why it is none.

A row is a JSON object with a name for each column; a null column, or field of a struct, is left
out. Structs and maps are objects, arrays are lists, and a VARIANT is what is in it. A single column
`event` of type STRING is the notification in JSON.

A row may also be an event as it is read: where there is a column `attributes` that is MAP<STRING,
VARIANT>, or where all columns are of the event itself (see `rows`) and `body` or `content` is one.
Then it is published as it was: `content` as bytes, else `body` as that JSON, else what is in the
map. Other columns are attributes that win where they have a value and a different one. `id`,
`stream`, `tick` and `time` are of the event that was read, and not published again. Nothing here
touches a broker or a disk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, Final, TypeAlias

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
from tidings.events.notification import BYTES
from tidings.events.values import PRESENT, domain_of
from tidings.lakes.layout import BODY, CONTENT, CONTENT_TYPE
from tidings.protocol.records import WireLimits
from tidings.spark.columns.attributes import has_all_attributes, is_variants
from tidings.spark.format.staging import size_of
from tidings.spark.format.variants import decode, without_parts

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
_WHOLE: Final = {BODY: StringType, CONTENT: BinaryType, CONTENT_TYPE: StringType}
"""Columns that say what was published, and their types."""
_OWN: Final = frozenset([_ATTRIBUTES, *_ORIGIN, *_WHOLE])
_Shape: TypeAlias = Callable[[Any], Any]


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
        self._is_read = has_all_attributes(schema) or _is_whole(kinds)
        self._whole = [n for n, kind in _WHOLE.items() if isinstance(kinds.get(n), kind)]
        self._shapes = {name: _shape(kind) for name, kind in kinds.items()}
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
            there = [name for name, value in row.items() if value is not None]
            for name in self._varied:
                row[name] = _plain(row[name])
            said = self._read(row, there) if self._is_read else self._made(row, there)
        self._limits.check(said)
        size = size_of(said)
        if size > self._most:
            raise TidingsError(f"it has {size:,} bytes; maxEventBytes is {self._most:,}")
        return said

    def _made(self, row: dict[str, Any], there: Iterable[str]) -> Notification:
        return Notification({name: self._shapes[name](row[name]) for name in there})

    def _read(self, row: dict[str, Any], there: Iterable[str]) -> Notification:
        """What was read, with the attributes that other columns have."""
        content, body, kind = (
            row[name] if name in self._whole else None for name in (CONTENT, BODY, CONTENT_TYPE)
        )
        attributes = without_parts(row.get(_ATTRIBUTES) or {})
        if content is not None:
            said = Notification.of_bytes(content, kind or BYTES, attributes)
        elif body is not None:
            said = Notification.from_json(body)
        elif _ATTRIBUTES in row:
            said = Notification(attributes)
        else:
            raise TidingsError("there is no body")
        # Null may also mean that the value, which the event has, did not fit when it was read.
        own = {_ATTRIBUTES, *_ORIGIN, *self._whole}
        others = {name: self._shapes[name](row[name]) for name in there if name not in own}
        changed = {n: v for n, v in others.items() if not _says(said, n, v)}
        if not changed:
            return said
        if content is not None:
            return Notification.of_bytes(content, kind or BYTES, {**said, **changed})
        whole = dict(said.value)
        for name, value in changed.items():
            _put(whole, name, value)
        return Notification(whole)


def _is_whole(kinds: dict[str, DataType]) -> bool:
    """Whether all columns are of the event itself, and one of them is what was published."""
    return (
        kinds.keys() <= _OWN
        and not kinds.keys().isdisjoint([BODY, CONTENT])
        and all(isinstance(kinds[name], kind) for name, kind in _WHOLE.items() if name in kinds)
        and (_ATTRIBUTES not in kinds or is_variants(kinds[_ATTRIBUTES]))
    )


def _says(said: Notification, name: str, value: Any) -> bool:
    """Whether filters see the same of an event anyway if this is an attribute of it."""
    found = Notification({name: value}).attributes
    return all(
        (each is not PRESENT or isinstance(value, dict))
        and said.attributes.get(n) == each
        and domain_of(said.attributes[n]) == domain_of(each)
        for n, each in found.items()
    )


def _put(whole: dict[str, Any], name: str, value: Any) -> None:
    """Put a value under a dotted name: into the object that has it, if there is one."""
    for key, inner in whole.items():
        if inner.__class__ is dict and name.startswith(f"{key}."):
            whole[key] = dict(inner)
            _put(whole[key], name[len(key) + 1 :], value)
            return
    whole[name] = value


def _shape(kind: DataType) -> _Shape:
    """How a value that Arrow gives is one of JSON: fields of structs that are null are left out.

    No closure: pickled, it goes where rows are written.
    """
    match kind:
        case StructType():
            return partial(_object, [(field.name, _shape(field.dataType)) for field in kind])
        case ArrayType():
            return partial(_list, _shape(kind.elementType))
        case MapType() if not is_variants(kind):
            return partial(_map, _shape(kind.valueType))
    return _as_it_is


def _object(fields: Iterable[tuple[str, _Shape]], value: dict[str, Any]) -> dict[str, Any]:
    return {name: shape(value[name]) for name, shape in fields if value[name] is not None}


def _list(shape: _Shape, value: list[Any]) -> list[Any]:
    return [None if each is None else shape(each) for each in value]


def _map(shape: _Shape, value: dict[str, Any]) -> dict[str, Any]:
    return {name: None if each is None else shape(each) for name, each in value.items()}


def _as_it_is(value: Any) -> Any:
    return value


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
