"""The format "tidings" of Spark: events to read, as a batch or a stream, and rows to publish."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import ArrayType, StringType, StructType

from tidings.events import TidingsError
from tidings.spark.bulk.publishing import COUNTS
from tidings.spark.format.lake_reader import LakeReader, PushedLakeReader, question, spark_schema
from tidings.spark.format.options import columns, is_pushed_down, reading, writing
from tidings.spark.format.reader import BatchReader, PushedReader, StreamReader
from tidings.spark.format.rows import GENERIC, JUDGED, MATCHES, columns_of_lake
from tidings.spark.format.sink import BatchWriter, StreamWriter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidings.spark.lakes.search import Question


class TidingsSource(DataSource):
    """What `spark.read.format("tidings")` and its kin find.

    Options of all: `url`, `token`, `authority` (with TLS: the file of who signed the broker's
    certificate), and `timeout`, the seconds that a broker may be away (30).

    To read: `filter`; `since` (begin, a time, how long ago, or a cursor; a batch begins at the
    beginning and a stream now, unless it is said); `until` (of a batch); `maxEventsPerTrigger`
    (of a stream: so many ticks at a time, so no more events); `onGap`, what to do where events
    are no longer kept (fail, or continue); `onMismatch`, what becomes of a value that does not
    fit its column (null, or fail); `partitionTicks`, how many ticks make a task (100000).
    `schemaOf`, a lake whose columns are those to read, unless a schema is given: columns are
    described in `rows`. `pushdown` = true (of a batch) has the broker do what it can of the
    DataFrame's WHERE, if that is asked one question: see `PushedReader`. `subscriptions` (of a
    stream), a lake of registrations: only what they want is read, and a column says who wants it;
    with `deliver` = true it is published for them, with `deadLetters` for what cannot be, and rows
    are counts. `tidings.spark.deliver` does that.

    To read a lake, as a batch: `lake`, its folder, with `filter`, `since` and `until` of
    `Lake.scan`, and `pushdown`. Columns are described in `lake_reader`; what comes is what the
    lake holds when it is loaded.

    To publish: `staging`, a folder that the driver and all workers share (a stream has one in
    its checkpointLocation); `deadLetters`, a folder for rows that are no notifications, which
    otherwise fail the query, or that the broker refuses; `key`, the columns by which such a row
    is known (`"desk, number"`); `maxEventBytes`, above which a row is none (1 MiB); `advertise`, a
    filter that says what will be published, which some brokers want to know first.
    """

    _question: Question | None = None
    """What is asked of a lake, as it was when Spark asked for its columns."""

    @classmethod
    def name(cls) -> str:
        """What to say to `format`."""
        return "tidings"

    def schema(self) -> str | StructType:
        if "lake" in self.options:
            self._question = question(self.options).pinned()
            return spark_schema(self._question)
        is_judged, is_delivery, lake = columns(self.options)
        if is_delivery:
            return COUNTS
        if lake is None:
            return JUDGED if is_judged else GENERIC
        found = columns_of_lake(lake)
        return found.add(MATCHES, ArrayType(StringType())) if is_judged else found

    def reader(self, schema: StructType) -> BatchReader | LakeReader:
        is_pushed = is_pushed_down(self.options)
        if "lake" in self.options:
            asked = self._question or question(self.options).pinned()
            return (PushedLakeReader if is_pushed else LakeReader)(asked, schema)
        options = reading(self.options, is_stream=False)
        return (PushedReader if is_pushed else BatchReader)(options, schema)

    def streamReader(self, schema: StructType) -> StreamReader:  # noqa: N802
        if "lake" in self.options:
            raise TidingsError(
                "option lake: a lake is read as a batch, by spark.read; a stream is of brokers, "
                "which the option url names"
            )
        return StreamReader(reading(self.options, is_stream=True), schema)

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        return BatchWriter(writing(self.options), schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:  # noqa: N802
        return StreamWriter(writing(self.options), schema, overwrite=overwrite)


def register(spark: SparkSession) -> None:
    """Make the format known to a session."""
    spark.dataSource.register(TidingsSource)
    # Else Spark refuses a source that takes filters.
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
