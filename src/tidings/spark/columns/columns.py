"""Columns: a filter as a condition that Spark itself evaluates.

In a frame with the columns of a lake (see `layout`) an attribute has a column for each kind of
value, and what fits none is in `rest`, as JSON. Spark says the filter of the columns by itself.
Where the rest mentions an attribute of the filter, which should be in few rows, the index is asked
about the row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import BooleanType, NullType, StructType

from tidings.events import Filter, TidingsError
from tidings.events.encoding import encode_json
from tidings.lakes.grouping import Grouping, names_in
from tidings.lakes.layout import BODY, FIXED, REST, Columns, is_presence
from tidings.spark.columns.attributes import (
    AttributeColumn,
    AttributeColumns,
    attributes,
    has_all_attributes,
)
from tidings.spark.columns.expressions import condition, condition_of_kinds, either

_FIXED = {field.name: field.dataType for field in from_arrow_schema(FIXED) if field.name != BODY}


def is_lake(schema: StructType) -> bool:
    """Whether the columns are those of a lake: all that every lake has are there, or but `body`."""
    there = {field.name: field.dataType for field in schema}
    return all(there.get(name) == kind for name, kind in _FIXED.items())


def columns_in(schema: StructType) -> Columns:
    """Which columns hold which attribute, by kind; those that can hold nothing are left out."""
    found: Columns = {}
    for field in schema:
        if field.name not in FIXED.names and not isinstance(field.dataType, NullType):
            name, _, kind = field.name.partition("$")
            found.setdefault(name, {})[kind or "first"] = field.name
    return found


def maybe_in_lake(filter: Filter, schema: StructType) -> Column:
    """True for all rows that match, and for others whose rest mentions what the filter asks for."""
    names = names_in([filter])
    mentioned = {name: _mentions(name) for name in names}
    return condition_of_kinds(filter, _attributes(names, schema), mentioned)


def column_in_lake(filter: Filter, schema: StructType) -> Column:
    """The filter, exactly."""
    names = names_in([filter])
    native = condition_of_kinds(filter, _attributes(names, schema))
    if not names:
        return native
    is_mentioned = either(_mentions(name) for name in sorted(names))
    asked = _asked(filter, schema, is_mentioned)
    return F.when(is_mentioned, asked).otherwise(native)


def fields_in(schema: StructType, names: Sequence[str]) -> list[Column]:
    """Columns as the index takes them: in a frame, somebody may have added such as it does not."""
    known = _known(schema)
    return [F.col(REST) if name == REST else known[name].normal for name in names]


def _attributes(names: set[str], schema: StructType) -> dict[str, list[AttributeColumn]]:
    columns, known = columns_in(schema), _known(schema)
    return {n: [known[column] for column in columns.get(n, {}).values()] for n in names}


def _known(schema: StructType) -> AttributeColumns:
    presence = StructType()
    return AttributeColumns(
        {f.name: ((f.name,), presence if is_presence(f.name) else f.dataType) for f in schema}
    )


def _mentions(name: str) -> Column:
    """Whether the rest may hold an attribute: its name stands there, if only by chance."""
    text = encode_json({name: 0})[1:-2]  # "name":
    return F.coalesce(F.col(REST).contains(text), F.lit(False))


def _asked(filter: Filter, schema: StructType, where: Column) -> Column:
    """What the index says of rows where the condition holds; null of others."""
    import pyarrow as pa
    from pyspark.sql.pandas.functions import arrow_udf

    grouping = Grouping(names_in([filter]), columns_in(schema))
    used = grouping.used

    def ask(batches: Any) -> Any:
        import numpy as np

        from tidings.matching.named import NamedIndex

        index: NamedIndex | None = None
        for batch in batches:
            rows = pa.RecordBatch.from_arrays(batch.flatten(), names=used)
            wanted = np.flatnonzero(np.asarray(rows[REST].is_valid()))
            truth = np.zeros(len(batch), np.bool_)
            if len(wanted):
                index = index or NamedIndex({0: filter})
                for members, events in grouping.groups(rows.take(wanted)):
                    found = index.pairs(events)[0]
                    truth[wanted[found if members is None else members[found]]] = True
            yield pa.array(truth)

    # PySpark reads from the annotations how the function wants to be called, and that when it runs.
    ask.__annotations__ = dict.fromkeys(["batches", "return"], Iterator[pa.Array])
    udf = arrow_udf(ask, BooleanType())  # type: ignore[call-overload]
    fields = [F.when(where, c).alias(f"{n}") for n, c in enumerate(fields_in(schema, used))]
    return cast("Column", udf(F.struct(*fields)))


def column(filter: Filter | str, schema: StructType) -> Column:
    """The filter as a native condition on the rows of a DataFrame with this schema.

    It is true for exactly those rows that the filter matches, false for all others and never
    null, so `NOT` may stand before it. Spark pushes it down to the files where it can.

    A row is a notification with an attribute for each column; those of a struct have dotted names,
    `order.size`, and the struct is there, too, without a value to compare. Null is absence, and so
    is NaN, which no notification can hold. Numbers compare by exact value. What notifications do
    not know is converted: a decimal is the nearest double (or a whole number, if it has no fraction
    and at most 18 digits), a date is its midnight in UTC, a time without a zone is in UTC. An array
    is a set; one that holds null is present, but no set.
    Names are those of the schema to the letter: a filter on `Price` does not mean `price`. Where
    there are both, Spark can tell them apart only if `spark.sql.caseSensitive` is set.

    If the schema is that of a lake (all columns that every lake has are there), an attribute is
    what the lake says it is: it may have several columns, `price` and `price$string`, or be in
    `rest`. Then the condition is not all Spark's own, and it is better to put `maybe` before it.

    Where all attributes are in a map, as the format reads them if it is told no columns, it is a
    `TidingsError`; `match` takes them so. Another one names the attribute of which the filter says
    something that Spark cannot say, such as a column of a type that is none of these.

        quotes.where(column("symbol = 'DIS' AND change < 0", quotes.schema))
    """
    wanted = Filter.of(filter)
    if is_lake(schema):
        return column_in_lake(wanted, schema)
    if has_all_attributes(schema):
        raise TidingsError(
            "the attributes are in a map, and have no columns: read them with a schema such as "
            "'symbol STRING, price DOUBLE', or say the filter with the option filter"
        )
    return condition(wanted, attributes(schema))


def maybe(filter: Filter | str, schema: StructType) -> Column:
    """A native condition that is true for all rows that the filter matches, and few others.

    Others there are only in a frame with the columns of a lake, where `rest` mentions an attribute
    of the filter. There it is a quick first look, which Spark pushes down to the files:

        rows.where(maybe(text, rows.schema)).where(column(text, rows.schema))
    """
    wanted = Filter.of(filter)
    return maybe_in_lake(wanted, schema) if is_lake(schema) else column(wanted, schema)
