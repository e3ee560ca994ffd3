"""Pushed filters: what of Spark's WHERE a broker can do, so that less is sent.

Spark still does all of it: a pushed filter may admit more than Spark's, never less. So it only
has to be right about the values that fit their column, which are the attributes' own.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from pyspark.sql import datasource as sparks
from pyspark.sql.types import (
    BooleanType,
    ByteType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructType,
    TimestampType,
)

from tidings.events import Filter, TidingsError
from tidings.events.phrases import escaped_pattern, listed, literal, name_text, quoted
from tidings.spark.format.rows import GENERIC

_OWN: Final = frozenset(part.split()[0] for part in GENERIC.split(", "))
_NUMBERS: Final = (ByteType, ShortType, IntegerType, LongType, DoubleType)
_MOST: Final = 1_000
"""A list of more values is left to Spark."""
_COMPARED: Final[dict[type[sparks.Filter], str]] = {
    sparks.EqualTo: "=",
    sparks.EqualNullSafe: "=",
    sparks.GreaterThan: ">",
    sparks.GreaterThanOrEqual: ">=",
    sparks.LessThan: "<",
    sparks.LessThanOrEqual: "<=",
}


def pushed(filter: sparks.Filter, schema: StructType) -> Filter | None:
    """A filter that admits all that Spark's does, over events in these columns; None if unknown.

    >>> columns = StructType().add("symbol", StringType()).add("price", DoubleType())
    >>> print(pushed(sparks.GreaterThan(("price",), 50.0), columns))
    price > 50
    >>> print(pushed(sparks.StringStartsWith(("symbol",), "D_"), columns))
    symbol LIKE 'D\\\\_%'
    >>> pushed(sparks.IsNull(("price",)), columns) is None
    True
    """
    text = _text(filter, schema)
    if text is None:
        return None
    try:
        return Filter.parse(text)
    except TidingsError:
        return None  # longer than the language allows, say


def _text(filter: sparks.Filter, schema: StructType) -> str | None:
    if isinstance(filter, sparks.Not):
        return _negation(filter.child, schema)
    column = _column(filter, schema)
    if column is None:
        return None
    name, kind = column
    operator = _COMPARED.get(filter.__class__)
    if operator is not None:
        value = getattr(filter, "value", None)
        return f"{name} {operator} {literal(value)}" if _is_of(value, kind) else None
    match filter:
        case sparks.IsNotNull():
            return f"EXISTS {name}"
        case sparks.In(value=values):
            known = [v for v in values if v is not None]
            if 0 < len(known) <= _MOST and all(_is_of(v, kind) for v in known):
                return f"{name} IN {listed(known)}"
        case sparks.StringStartsWith(value=value) if _is_of(value, kind):
            return f"{name} LIKE {quoted(escaped_pattern(value) + '%')}"
        case sparks.StringEndsWith(value=value) if _is_of(value, kind):
            return f"{name} LIKE {quoted('%' + escaped_pattern(value))}"
        case sparks.StringContains(value=value) if _is_of(value, kind):
            return f"{name} LIKE {quoted('%' + escaped_pattern(value) + '%')}"
    return None


def _negation(child: sparks.Filter, schema: StructType) -> str | None:
    """Only of what is null where the column is: `NOT a IS NULL` is said otherwise."""
    column = _column(child, schema)
    if column is None:
        return None
    if isinstance(child, sparks.IsNull):
        return f"EXISTS {column[0]}"
    if isinstance(child, sparks.EqualTo) and _is_of(child.value, column[1]):
        return f"{column[0]} <> {literal(child.value)}"
    return None


def _column(filter: sparks.Filter, schema: StructType) -> tuple[str, DataType] | None:
    path: tuple[str, ...] = getattr(filter, "attribute", ())
    if len(path) != 1 or path[0] in _OWN or path[0] not in schema.fieldNames():
        return None
    return name_text(path[0]), schema[path[0]].dataType


def _is_of(value: Any, kind: DataType) -> bool:
    """Whether a value is of the domain that the column's values come from."""
    if isinstance(value, bool):
        return isinstance(kind, BooleanType)
    if isinstance(value, int | float):
        return isinstance(kind, _NUMBERS) and value == value  # NaN is above all else, says Spark
    if isinstance(value, str):
        # Of other collations, `=` does not mean the same.
        return isinstance(kind, StringType) and kind == StringType()
    if isinstance(value, datetime):
        return isinstance(kind, TimestampType) and value.tzinfo is not None
    return False
