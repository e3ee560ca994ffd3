"""Matching: which of many filters do the events of a lake or a DataFrame satisfy?

A lake is matched where it is read: see `lake_match`. Of a DataFrame, a few filters become
conditions of Spark's own; of many, an index is made in each Python process of Spark's, which is
asked with batches of the columns that the filters name.

It is asked as a function of these columns, not by sending whole rows through Python (mapInArrow):
that is up to a third faster, but Spark then reads every column of a file, wanted or not, and each
must be of a type that Arrow has.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it
from pyspark.sql.pandas.functions import arrow_udf

from tidings.events import Filter, Notification, TidingsError
from tidings.lakes.grouping import Grouping, names_in
from tidings.lakes.layout import REST
from tidings.lakes.search import Question
from tidings.protocol.cursors import Beginning
from tidings.spark.columns.attributes import attributes, has_all_attributes, quoted
from tidings.spark.columns.columns import columns_in, fields_in, is_lake
from tidings.spark.columns.expressions import condition, either
from tidings.spark.format.variants import records
from tidings.spark.matching import filter_file
from tidings.spark.matching.asking import KINDS, Asking, kind_of
from tidings.spark.matching.lake_match import Wanted, match_lake, received, sent
from tidings.spark.workers import settle

if TYPE_CHECKING:
    from tidings.lakes.lake import Lake

FEW: Final = 16
"""Filters up to which one condition, compiled by Spark, is faster than the index."""

ROW: Final = ""
"""A name that no attribute has: there are rows even where the filters name no column."""

ALL: Final = "attributes"
"""The column that has all attributes of an event, where the format was told no others."""

ORIGIN: Final = ("id", "stream", "tick", "time")
"""The columns of a lake that come with what matches, if no others are named."""


def match(
    events: DataFrame | Lake | str | Path,
    filters: Mapping[Any, Filter | str],
    *,
    keep: bool = False,
    column: str = "matches",
    few: int = FEW,
    folder: str | Path | None = None,
    columns: Sequence[str] | None = None,
    filter: Filter | str | None = None,
    since: Beginning = None,
    until: Beginning = None,
    memory: int | None = None,
    combine: bool = True,
) -> DataFrame:
    """The events that match a filter, with the keys of those that they match in a column more.

    The column is an array of the keys, each once, in no particular order. Keys are strings, or
    all of them whole numbers, which is quicker. With `keep`, events without a match stay, with an
    empty array. The filters are sent to Spark's machines as a file that is named by its content;
    each Python process makes an index of it once and keeps it for later batches and queries.
    `folder` is a place that all machines see: the file is written there instead of being sent.

    *Of a DataFrame*, which may be a stream: how rows are read, `tidings.spark.column` says. Up to
    `few` filters are conditions of Spark's own. Where the attributes are in a map, as the format
    reads them if it is told no columns, they are taken from there.

    *Of a lake*, or the path of one, in the session that is running: what matches comes with its
    `columns` (id, stream, tick and time, if none are named), and is found where the lake is read,
    so this is much faster. `filter`, `since` and `until` are those of `Lake.scan`. If the index
    of all filters takes more than `memory` bytes in a process, they are divided into parts; what
    an event matches in several is put together at the end, or comes as one row for each part if
    not `combine`.

        match(quotes, {"falling": "symbol = 'DIS' AND change < 0"})
        match("lake", filters, columns=["id", "price"], since="2026-11-01", memory=2**30)
    """
    if not isinstance(filters, Mapping):
        raise TidingsError(
            "filters are a mapping of keys to filters, such as {'falling': 'change < 0'}; "
            f"this is a {type(filters).__name__}"
        )
    wanted = {key: Filter.of(filter_) for key, filter_ in filters.items()}
    if not isinstance(events, DataFrame):
        path = events if isinstance(events, str | Path) else events.path
        question = Question.of(path, filter, since, until)
        shown = Wanted(keep, column, ORIGIN if columns is None else tuple(columns))
        return match_lake(question, wanted, shown, memory=memory, combine=combine, folder=folder)
    if (columns, filter, since, until, memory) != (None,) * 5:
        raise TidingsError(
            "columns, filter, since, until and memory are for lakes; select the rows and columns "
            "of a DataFrame before"
        )
    return _of_frame(events, wanted, keep, column, few, folder)


def _of_frame(
    df: DataFrame,
    wanted: dict[Any, Filter],
    keep: bool,
    column: str,
    few: int,
    folder: str | Path | None,
) -> DataFrame:
    if column.lower() in map(str.lower, df.columns):
        raise TidingsError(f"the DataFrame has a column {column!r} already; name another one")
    grouping: Grouping | None = None
    if is_lake(df.schema):  # an attribute may have several columns, or be in the rest
        grouping = Grouping(names_in(wanted.values()), columns_in(df.schema))
        names = grouping.used
        fields = fields_in(df.schema, names)
    elif has_all_attributes(df.schema):
        names, fields = [ALL], [F.col(ALL)]
    else:
        known = attributes(df.schema)
        if len(wanted) <= few:
            return _natively(df, {k: condition(f, known) for k, f in wanted.items()}, keep, column)
        asked = [known[name] for name in sorted(names_in(wanted.values())) if name in known]
        names = [*(attribute.name for attribute in asked), ROW]
        fields = [*(attribute.normal for attribute in asked), F.lit(True)]
    matched = df.withColumn(
        column, _asking(df.sparkSession, wanted, (names, fields), folder, grouping)
    )
    return matched if keep else matched.where(F.size(F.col(quoted(column))) > 0)


def _natively(df: DataFrame, conditions: dict[Any, Column], keep: bool, column: str) -> DataFrame:
    kind = kind_of(list(conditions))
    keys = [F.when(condition, F.lit(key)) for key, condition in conditions.items()]
    found = F.array_compact(F.array(*keys)).cast(f"array<{kind}>")
    # Where rows are dropped, it is by a condition of its own, which Spark pushes down to the files.
    return (df if keep else df.where(either(conditions.values()))).withColumn(column, found)


def _asking(
    spark: SparkSession,
    filters: dict[Any, Filter],
    columns: tuple[list[str], list[Column]],
    folder: str | Path | None,
    grouping: Grouping | None = None,
) -> Column:
    """The keys that an index finds for each row of these columns; grouped first, if need be."""
    names, fields = columns
    kind = kind_of(list(filters))  # before they are sent, so that what is wrong is said
    path = sent(spark, filters, folder)
    is_sent = folder is None

    def ask(batches: Any) -> Any:
        found = filter_file.index_of(received(path) if is_sent else path)
        asking = None if grouping is None else Asking(found, grouping, kind)
        for batch in batches:
            rows = pa.RecordBatch.from_arrays(batch.flatten(), names=names)
            if asking is not None:
                answers = asking.answers(rows, [REST], keep=True)
                yield pa.concat_arrays([keys for _, keys in answers])
            elif names == [ALL]:
                events = [Notification(record) for record in records(rows[ALL])]
                yield found.of(events).cast(pa.list_(KINDS[kind]))
            else:
                yield found.of(rows).cast(pa.list_(KINDS[kind]))
        settle()

    # PySpark reads from the annotations how the function wants to be called, and that when it runs.
    ask.__annotations__ = dict.fromkeys(["batches", "return"], Iterator[pa.Array])
    # Spark may not ask twice, once to drop rows and once for the column: that would be dear.
    udf = arrow_udf(ask, f"array<{kind}>").asNondeterministic()  # type: ignore[call-overload]
    aliased = [field.alias(f"{n}") for n, field in enumerate(fields)]
    return cast("Column", udf(F.struct(*aliased)))
