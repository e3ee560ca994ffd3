"""Rows: events as Arrow batches, in the columns that were asked for.

Some names are of the event itself: `id`, `stream`, `tick`, `time` (when it was published) and
`attributes`: all of them, as a map of variants (`try_variant_get(attributes['price'], '$',
'double') > 50`) or, if it is asked for as STRING, as the JSON that `Notification.from_json` reads.
`body` is exactly the JSON that was published, as STRING, and null if that was bytes: these are
`content`, which is BINARY and else null. `content_type` is that of either.
Every other column is the attribute of its name, and null where that is absent or does not fit the
column's type. No value is bent to fit: a number is never read from a string, nor rounded to a
BIGINT. Only FLOAT and DECIMAL take the nearest number that they have; infinity is near to no other.

Where events are judged by subscriptions, there is a sixth: `matches`, the names of those that want
the event. A lake's columns that are named for its attributes are columns here, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import date, datetime
from decimal import Context, Decimal, InvalidOperation
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructType,
    TimestampType,
)

from tidings.client import Event
from tidings.events import Notification, TidingsError
from tidings.lakes.layout import BODY, CONTENT, CONTENT_TYPE, REST
from tidings.lakes.search import Question
from tidings.spark.columns.attributes import is_variants
from tidings.spark.format.variants import variants

GENERIC: Final = (
    "id STRING, stream STRING, tick BIGINT, time TIMESTAMP, attributes MAP<STRING,VARIANT>"
)
"""The columns that are read if no others are asked for."""
MATCHES: Final = "matches"
JUDGED: Final = f"{GENERIC}, {MATCHES} ARRAY<STRING>"
"""The columns that are read of events that are judged, if no others are asked for."""

_MISFIT: Final = object()
_EXACT: Final = Context(prec=76)
"""For decimals of 38 digits; Python's own context has 28."""
_LARGEST: Final = 2.0**128 - 2.0**103
"""From here on, the nearest FLOAT is infinite."""
_BITS: Final[dict[type[DataType], int]] = {
    ByteType: 8,
    ShortType: 16,
    IntegerType: 32,
    LongType: 64,
}
_OWN: Final[dict[str, tuple[type[DataType], Callable[[Event], Any]]]] = {
    "id": (StringType, lambda event: event.id),
    "stream": (StringType, lambda event: event.stream),
    "tick": (LongType, lambda event: event.tick),
    "time": (TimestampType, lambda event: event.time),
    "attributes": (StringType, lambda event: event.notification.to_json()),
    BODY: (StringType, lambda event: _json_of(event.notification)),
    CONTENT: (BinaryType, lambda event: _bytes_of(event.notification)),
    CONTENT_TYPE: (StringType, lambda event: event.notification.content_type),
}
"""The columns that are no attributes: their types, and how they are had. Variants are apart."""


class RowBatches:
    """Makes Arrow batches of events, for one schema; `TidingsError` if none can be made for it."""

    def __init__(self, schema: StructType, *, fail: bool = False, judged: bool = False) -> None:
        """With `fail`, a value that does not fit is a `TidingsError` instead of null.

        If events are `judged`, the column `matches` has the names of those that want them.
        """
        self._fail, self._is_judged = fail, judged
        self._schema = to_arrow_schema(schema, timezone="UTC")
        if judged and MATCHES in schema.fieldNames():
            _check_matches(schema[MATCHES].dataType)
        for field in schema:
            if not (field.nullable or field.name in _OWN or (judged and field.name == MATCHES)):
                raise TidingsError(
                    f"column {field.name} is null where an event has no such attribute, or one "
                    "that does not fit; leave out NOT NULL"
                )
        self._columns = [
            (f.name, f.dataType, _as_it_is)
            if judged and f.name == MATCHES
            else (f.name, f.dataType, _fitting(f.name, f.dataType))
            for f in schema
        ]

    def batch(
        self, events: Sequence[Event], matches: Sequence[list[str]] | None = None
    ) -> pa.RecordBatch:
        """The events, one row each."""
        arrays = [
            pa.array(matches, field.type)
            if self._is_judged and field.name == MATCHES
            else variants([event.notification for event in events], field.type)
            if pa.types.is_map(field.type)
            else pa.array(self._values(*column, events), field.type)
            for column, field in zip(self._columns, self._schema, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _values(
        self, name: str, kind: DataType, fitting: Callable[[Any], Any], events: Sequence[Event]
    ) -> list[Any]:
        own = _OWN.get(name)
        if own is not None:
            return [own[1](event) for event in events]
        values: list[Any] = []
        for event in events:
            value = event.notification.get(name)
            if value is not None:
                fit = fitting(value)
                if fit is _MISFIT and self._fail:
                    raise TidingsError(
                        f"event {event.id}: {name} is {value!r}, which does not fit "
                        f"{kind.simpleString().upper()}"
                    )
                value = None if fit is _MISFIT else fit
            values.append(value)
        return values


def columns_of_lake(path: str) -> StructType:
    """The columns of a lake that are named for what is in them: of the event, and attributes.

    An attribute that has columns for several kinds of values is read as the first of them.
    `TidingsError` if there is no such lake.
    """
    try:
        held = Question.of(path).schema()
    except TidingsError as problem:
        raise TidingsError(f"option schemaOf: {problem}") from None
    fields = [f for f in held if f.name not in ("day", REST, BODY) and "$" not in f.name]
    return from_arrow_schema(pa.schema(fields))


def _json_of(said: Notification) -> str | None:
    return said.body.decode() if said.bytes_type is None else None


def _bytes_of(said: Notification) -> bytes | None:
    return None if said.bytes_type is None else said.body


def _as_it_is(value: Any) -> Any:
    return value


def _check_matches(kind: DataType) -> None:
    if kind != ArrayType(StringType()):
        raise TidingsError(
            f"column {MATCHES} has the names of those that want the event: ARRAY<STRING>, not "
            f"{kind.simpleString().upper()}"
        )


def _fitting(name: str, kind: DataType) -> Callable[[Any], Any]:
    """How a value is put into a column: as itself, or `_MISFIT`."""
    own = _OWN.get(name)
    if own is not None:
        if not isinstance(kind, own[0]) and not (name == "attributes" and is_variants(kind)):
            types = own[0]().simpleString().upper()
            if name == "attributes":
                types = f"MAP<STRING,VARIANT> or, as JSON, {types}"
            raise TidingsError(
                f"column {name} is of the event itself and is {types}, not "
                f"{kind.simpleString().upper()}; an attribute {name!r} is in column attributes"
            )
        return _as_it_is
    found = _for_type(kind)
    if found is None:
        raise TidingsError(
            f"column {name}: no attribute can be {kind.simpleString().upper()}; there are STRING, "
            "BOOLEAN, BIGINT and smaller, DOUBLE, FLOAT, DECIMAL, TIMESTAMP, DATE, BINARY, and "
            "ARRAY of these"
        )
    return found


def _for_type(kind: DataType) -> Callable[[Any], Any] | None:
    match kind:
        case StringType():
            return lambda v: v if v.__class__ is str else _MISFIT
        case BooleanType():
            return lambda v: v if v.__class__ is bool else _MISFIT
        case BinaryType():
            return lambda v: v if v.__class__ is bytes else _MISFIT
        case TimestampType():
            return lambda v: v if v.__class__ is datetime else _MISFIT
        case DateType():
            return _date
        case DoubleType():
            return _double
        case FloatType():
            return _float
        case DecimalType():
            return _decimal(kind)
        case ArrayType():
            return _array(kind.elementType)
    bits = _BITS.get(kind.__class__)
    return None if bits is None else _whole(1 << (bits - 1))


def _number(value: Any) -> int | float | None:
    if value.__class__ is float:
        return float(value)
    if value.__class__ is int and abs(value) < 1 << 1023:
        return int(value)
    return None


def _double(value: Any) -> Any:
    number = _number(value)
    return _MISFIT if number is None or float(number) != number else float(number)


def _float(value: Any) -> Any:
    number = _number(value)
    if number is None or _LARGEST <= abs(number) < math.inf:
        return _MISFIT
    return float(number)


def _whole(limit: int) -> Callable[[Any], Any]:
    def fit(value: Any) -> Any:
        number = _number(value)
        if number is None or not -limit <= number < limit or number != int(number):
            return _MISFIT
        return int(number)

    return fit


def _decimal(kind: DecimalType) -> Callable[[Any], Any]:
    step, limit = Decimal(1).scaleb(-kind.scale), Decimal(10) ** (kind.precision - kind.scale)

    def fit(value: Any) -> Any:
        number = _number(value)
        if number is None or not -limit < number < limit:
            return _MISFIT
        try:
            near = Decimal(repr(number)).quantize(step, context=_EXACT)
        except InvalidOperation:
            return _MISFIT
        return near if -limit < near < limit else _MISFIT

    return fit


def _date(value: Any) -> Any:
    """A time at midnight, UTC."""
    if value.__class__ is not datetime or (value.hour, value.minute, value.second) != (0, 0, 0):
        return _MISFIT
    return _MISFIT if value.microsecond else date(value.year, value.month, value.day)


def _array(element: DataType) -> Callable[[Any], Any] | None:
    """A set, in an order that is always the same."""
    inner = None if isinstance(element, ArrayType) else _for_type(element)
    if inner is None:
        return None

    def fit(value: Any) -> Any:
        if value.__class__ is not frozenset:
            return _MISFIT
        members = [inner(member) for member in value]
        return _MISFIT if any(m is _MISFIT for m in members) else sorted(members)

    return fit
