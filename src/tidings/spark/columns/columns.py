"""Columns: a filter as a condition that Spark itself evaluates."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql.types import StructType

from tidings.events import Filter, TidingsError
from tidings.spark.columns.attributes import attributes, has_all_attributes
from tidings.spark.columns.expressions import condition
from tidings.spark.columns.lake_columns import column_in_lake, is_lake, maybe_in_lake


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
