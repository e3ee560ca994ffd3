"""Columns of a lake: what a filter says of a DataFrame with the columns of a lake.

In such a frame (see `layout`) an attribute has a column for each kind of value, and what fits none
is in `rest`, as JSON. Spark says the filter of the columns by itself. Where the rest mentions an
attribute of the filter, which should be in few rows, the index is asked about the row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import BooleanType, NullType, StructType

from tidings.events import Filter
from tidings.events.encoding import encode_json
from tidings.lakes.grouping import Grouping, names_in
from tidings.lakes.layout import BODY, FIXED, REST, Columns, is_presence
from tidings.spark.columns.attributes import AttributeColumn, AttributeColumns
from tidings.spark.columns.expressions import condition_of_kinds, either

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
