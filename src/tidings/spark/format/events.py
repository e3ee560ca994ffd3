"""Events, asked again and again: each question is a scan of its own, and all are of one moment.

Spark 4.3 keeps the filter that it pushed last for all scans of a `load()`, also within one query.
So a question is a new `load()` here, and its filter an option that Spark does not touch.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from tidings.events import Filter, TidingsError
from tidings.protocol.cursors import Beginning, beginning, cursor_text
from tidings.spark.format.bounds import find_bounds
from tidings.spark.format.lake_reader import question
from tidings.spark.format.options import AS_OF, folder_of, reading, time_text
from tidings.spark.format.source import TidingsSource, register

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


class Events:
    """What there was in brokers' streams, or in a lake, when this was made; see `events`."""

    def __init__(
        self, spark: SparkSession, options: Mapping[str, str], schema: StructType | str | None
    ) -> None:
        self._spark, self._options, self._schema = spark, options, schema

    def where(self, filter: Filter | str) -> DataFrame:
        """The events that match a filter, which brokers or the readers of the lake look through.

        What the DataFrame is asked further, such as another `where`, is Spark's, about columns.
        `FilterError` shows what of a text is no filter.
        """
        wanted = Filter.of(filter)
        if not isinstance(wanted, Filter):
            raise TidingsError(
                f'where takes a filter, such as "price > 50", and not a {type(wanted).__name__}; '
                "for a condition of Spark's there is dataframe().where"
            )
        if any(len(c.types) for held in wanted.conjunctions for c in held.constraints.values()):
            raise TidingsError(
                f"{wanted}: brokers and tasks do not know the types that IS A refers to; name "
                "them, with IN"
            )
        return self._loaded(filter=str(wanted))

    def dataframe(self) -> DataFrame:
        """All events."""
        return self._loaded()

    def _loaded(self, **more: str) -> DataFrame:
        reader = self._spark.read.format(TidingsSource.name()).options(**self._options, **more)
        return (reader if self._schema is None else reader.schema(self._schema)).load()


def events(
    spark: SparkSession,
    *,
    url: str | None = None,
    lake: str | Path | None = None,
    since: Beginning = None,
    until: Beginning = None,
    schema: StructType | str | None = None,
    **options: Any,
) -> Events:
    """The events of brokers, or of a lake, as a source of DataFrames: one for each question.

        quotes = events(spark, url="tidings://paris", schema="symbol STRING, price DOUBLE")
        dear = quotes.where("price > 50")
        all = quotes.dataframe()

    They are those that are there now, between `since` and `until`, if these are given: whatever is
    asked, and whenever, is asked of the same events. `schema` says the columns; without it, they
    are those of the lake or, of brokers, `id`, `stream`, `tick`, `time` and `attributes`. The other
    options are those of the format (see `TidingsSource`).

    `TidingsError` if there is no such lake, or no broker can be reached.
    """
    if "filter" in map(str.lower, options):
        raise TidingsError("option filter: each question has its own; say it to where")
    said = {name: str(value) for name, value in options.items()}
    if url is not None:
        said["url"] = url
    if lake is not None:
        said["lake"] = folder_of("lake", str(lake))
    for name, place in (("since", since), ("until", until)):
        if (text := _text(name, place)) is not None:
            said[name] = text
    # In a thread of its own: a notebook's has an event loop that runs already.
    with ThreadPoolExecutor(1) as thread:
        fixed = thread.submit(_as_of, said).result()
    register(spark)
    return Events(spark, {**said, AS_OF: fixed}, schema)


def _as_of(options: Mapping[str, str]) -> str:
    if "lake" in options:
        return str(question(options).pinned().version)
    return find_bounds(reading(options, is_stream=False)).text()


def _text(name: str, place: Beginning) -> str | None:
    """A place as an option, which is the same whenever it is read: no time is how long ago."""
    try:
        said = beginning(place)
    except TidingsError as problem:
        raise TidingsError(f"option {name}: {problem}") from None
    if isinstance(said, dict):
        return cursor_text(said)
    return time_text(said) if isinstance(said, float) else said
