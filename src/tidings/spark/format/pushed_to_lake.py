"""Pushed to a lake: what of Spark's WHERE leaves out files of a lake, and rows of them.

Spark still does all of it, so what is said here may admit more than Spark's filters, never less.
A column holds an attribute's values of one kind; what it says of them is asked of the attribute.
Columns of the event itself are compared by Arrow.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from functools import reduce
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import datasource as sparks
from pyspark.sql.types import DataType, StructType, TimestampType

from tidings.events import Filter
from tidings.spark.format.pushed import pushed
from tidings.spark.lakes.layout import FIXED, REST, Columns
from tidings.spark.lakes.pruning import Statistics, may_match

_KINDS: Final = {"id": "string", "stream": "string", "tick": "integer", "time": "time"}
_OWN: Final[Columns] = {f" {name}": {kind: name} for name, kind in _KINDS.items()}
"""The event's own columns under names that are not `pushed`'s own, so that it looks at them."""
_OPERATORS: Final[dict[type[sparks.Filter], str]] = {
    sparks.EqualTo: "==",
    sparks.GreaterThan: ">",
    sparks.GreaterThanOrEqual: ">=",
    sparks.LessThan: "<",
    sparks.LessThanOrEqual: "<=",
}


@dataclass(frozen=True)
class Pushed:
    """What was understood of a WHERE."""

    filter: Filter
    """Of the attributes."""
    own: Filter = Filter.all()  # noqa: RUF009 - it is frozen
    """Of the event's own columns."""
    comparisons: tuple[tuple[str, str, Any], ...] = ()
    """The same for Arrow: column, operator, value."""

    @classmethod
    def of(cls, filters: Iterable[sparks.Filter], schema: StructType) -> Pushed:
        """What is understood of these filters on rows with this schema."""
        found = cls(Filter.all())
        for filter_ in filters:
            for simple in _by_time(filter_):
                found = found._with(simple, schema)
        return found

    def _with(self, filter_: sparks.Filter, schema: StructType) -> Pushed:
        column = _column_of(filter_)
        if column is None or column == REST or column not in schema.fieldNames():
            return self
        if column not in FIXED.names:
            attribute = column.partition("$")[0]
            said = _pushed(filter_, attribute, schema[column].dataType)
            return self if said is None else replace(self, filter=self.filter.intersect(said))
        kind = TimestampType() if column == "time" else schema[column].dataType
        said = _pushed(filter_, f" {column}", kind)
        operator = _OPERATORS.get(filter_.__class__)
        more = () if operator is None else ((column, operator, filter_.value),)  # type: ignore[attr-defined]
        if said is None:
            return self
        return replace(self, own=self.own.intersect(said), comparisons=(*self.comparisons, *more))

    def may_hold(self, file: Statistics) -> bool:
        """Whether rows of the file may be wanted, as far as the event's own columns say."""
        return may_match({**file, f"null_count.{REST}": file["num_records"]}, self.own, _OWN)

    def condition(self, others: Any) -> Any:
        """What Arrow is to check of each row, together with what it is to check anyway."""
        found = [_compared(*comparison) for comparison in self.comparisons]
        if others is not None:
            found.append(others)
        return reduce(lambda a, b: a & b, found) if found else None


def _column_of(filter_: sparks.Filter) -> str | None:
    inner = filter_.child if isinstance(filter_, sparks.Not) else filter_
    path: tuple[str, ...] = getattr(inner, "attribute", ())
    return path[0] if len(path) == 1 else None


def _pushed(filter_: sparks.Filter, name: str, kind: DataType) -> Filter | None:
    if isinstance(filter_, sparks.Not):
        renamed: Any = sparks.Not(replace(filter_.child, attribute=(name,)))  # type: ignore[call-arg]
    else:
        renamed = replace(filter_, attribute=(name,))  # type: ignore[call-arg]
    return pushed(renamed, StructType().add(name, kind))


def _by_time(filter_: sparks.Filter) -> list[sparks.Filter]:
    """A comparison of the day as one or two of the time; any other filter as it is."""
    value = getattr(filter_, "value", None)
    if _column_of(filter_) != "day":
        return [filter_]
    if not isinstance(value, date) or isinstance(value, datetime) or value == date.max:
        return []
    begin = datetime(value.year, value.month, value.day, tzinfo=UTC)
    end = begin + timedelta(days=1)
    time = ("time",)
    match filter_:
        case sparks.EqualTo():
            return [sparks.GreaterThanOrEqual(time, begin), sparks.LessThan(time, end)]
        case sparks.GreaterThan():
            return [sparks.GreaterThanOrEqual(time, end)]
        case sparks.GreaterThanOrEqual():
            return [sparks.GreaterThanOrEqual(time, begin)]
        case sparks.LessThan():
            return [sparks.LessThan(time, begin)]
        case sparks.LessThanOrEqual():
            return [sparks.LessThan(time, end)]
    return []


def _compared(column: str, operator: str, value: Any) -> Any:
    field, constant = pc.field(column), pa.scalar(value, FIXED.field(column).type)
    match operator:
        case "==":
            return field == constant
        case ">":
            return field > constant
        case ">=":
            return field >= constant
        case "<":
            return field < constant
    return field <= constant
