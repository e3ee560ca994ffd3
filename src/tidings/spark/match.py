"""Matching: which of many filters do the rows of a DataFrame satisfy?

A few filters become conditions of Spark's own. Of many, an index is made in each Python process
of Spark's, which is asked with batches of the columns that the filters name.

It is asked as a function of these columns, not by sending whole rows through Python (mapInArrow):
that is up to a third faster, but Spark then reads every column of a file, wanted or not, and each
must be of a type that Arrow has.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final, cast

from tidings.events import Filter, TidingsError
from tidings.spark import snapshot

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from tidings.spark.attributes import Attributes

FEW: Final = 16
"""Up to so many filters, Spark compiles them to one condition that is faster than the index."""

ROW: Final = ""
"""A name that no attribute has: there are rows even where the filters name no column."""

_folders: list[TemporaryDirectory[str]] = []  # until the program ends: executors fetch from there


def match(
    df: DataFrame,
    filters: Mapping[str, Filter | str],
    *,
    keep: bool = False,
    column: str = "matches",
    few: int = FEW,
    folder: str | Path | None = None,
) -> DataFrame:
    """The rows that match a filter, with the keys of those that they match in a column more.

    The column is an array of strings, each key once, in no particular order. With `keep`, rows
    without a match stay, with an empty array. How rows are read, `tidings.spark.column` says.
    Works on streams too: the filters are those of the moment when the query was made.

    Up to `few` filters are conditions of Spark's own. More are written to a file that is named by
    its content, which Spark sends to its machines; each Python process makes an index of it once
    and keeps it for later batches and queries. `folder` is a place that all machines see: the file
    is written there instead of being sent. The index of all filters
    must fit into the memory of each process; a larger set must be split by the caller.

        match(quotes, {"falling": "symbol = 'DIS' AND change < 0"})
    """
    from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it

    from tidings.spark.attributes import attributes, quoted
    from tidings.spark.expressions import condition

    if column.lower() in map(str.lower, df.columns):
        raise TidingsError(f"the DataFrame has a column {column!r} already; name another one")
    wanted = {k: Filter.parse(f) if isinstance(f, str) else f for k, f in filters.items()}
    known = attributes(df.schema)
    if len(wanted) <= few:
        return _natively(df, {k: condition(f, known) for k, f in wanted.items()}, keep, column)
    found = _asking(df.sparkSession, wanted, known, folder)
    matched = df.withColumn(column, found)
    return matched if keep else matched.where(F.size(F.col(quoted(column))) > 0)


def _natively(df: DataFrame, conditions: dict[str, Column], keep: bool, column: str) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    from tidings.spark.expressions import either

    keys = [F.when(condition, F.lit(key)) for key, condition in conditions.items()]
    found = F.array_compact(F.array(*keys)).cast("array<string>")
    # Where rows are dropped, it is by a condition of its own, which Spark pushes down to the files.
    return (df if keep else df.where(either(conditions.values()))).withColumn(column, found)


def _asking(
    spark: SparkSession, filters: dict[str, Filter], known: Attributes, folder: str | Path | None
) -> Column:
    """The keys that an index finds for each row."""
    import pyarrow as pa
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.pandas.functions import arrow_udf

    used = {name for f in filters.values() for c in f.conjunctions for name in c.constraints}
    asked = [known[name] for name in sorted(used) if name in known]
    names = [attribute.name for attribute in asked]
    if folder is not None:
        path = snapshot.write(filters, Path(folder)).absolute()
        is_sent = False
    else:
        path, is_sent = _sent(spark, filters), True

    def ask(batches: Any) -> Any:
        found = snapshot.matches(_received(path) if is_sent else path)
        for batch in batches:
            columns = pa.RecordBatch.from_arrays(batch.flatten(), names=[*names, ROW])
            yield found.of(columns)

    # PySpark reads from the annotations how the function wants to be called, and that when it runs.
    ask.__annotations__ = dict.fromkeys(["batches", "return"], Iterator[pa.Array])
    # Spark may not ask twice, once to drop rows and once for the column: that would be dear.
    udf = arrow_udf(ask, "array<string>").asNondeterministic()  # type: ignore[call-overload]
    fields = [a.normal.alias(f"{n}") for n, a in enumerate(asked)]
    return cast("Column", udf(F.struct(*fields, F.lit(True).alias(ROW))))


def _sent(spark: SparkSession, filters: dict[str, Filter]) -> Path:
    """Write a snapshot and have Spark send it to whoever works on it."""
    if not _folders:
        _folders.append(TemporaryDirectory(prefix="tidings-filters-"))
    path = snapshot.write(filters, Path(_folders[0].name))
    context = spark.sparkContext
    if not any(sent.endswith(path.name) for sent in context.listFiles):
        context.addFile(str(path))
    return path


def _received(path: Path) -> Path:
    from pyspark import SparkFiles

    return Path(SparkFiles.get(path.name))
