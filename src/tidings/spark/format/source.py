"""The format "tidings" of Spark: events to read, as a batch or a stream, and rows to publish."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import ArrayType, StringType, StructType

from tidings.client import AccessDenied, ConnectionFailed
from tidings.events import TidingsError
from tidings.spark.bulk.publishing import COUNTS
from tidings.spark.format.bounds import Bounds, find_bounds
from tidings.spark.format.lake_reader import LakeReader, question, spark_schema
from tidings.spark.format.options import AS_OF, columns, may_be_batch, reading, writing
from tidings.spark.format.reader import BatchReader, StreamReader
from tidings.spark.format.rows import GENERIC, JUDGED, MATCHES, columns_of_lake
from tidings.spark.format.sink import BatchWriter, StreamWriter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidings.lakes.search import Question


_T = TypeVar("_T")


class TidingsSource(DataSource):
    """What `spark.read.format("tidings")` and its kin find.

    Options of all: `url`; `token`, or `tokenFile`, the file that it is in; with TLS `authority`,
    the file of the authority that has signed the broker's certificate, and `certificate` and
    `certificateKey`, the files of one's own; and `timeout`, the seconds that a broker may be away
    (30).

    To read: `filter`; `since` (begin, a time, how long ago, or a cursor; a batch begins at the
    beginning and a stream now, unless it is said); `until` (of a batch); `maxEventsPerTrigger`
    (of a stream: the most ticks at a time, so no more events); `onGap`, what to do where events
    are no longer kept (fail, or continue); `onMismatch`, what becomes of a value that does not
    fit its column (null, or fail); `partitionTicks`, how many ticks make a task (100000).
    `schemaOf`, a lake whose columns are those to read, unless a schema is given: columns are
    described in `rows`. `subscriptions` (of a stream), a lake of registrations: only what they want
    is read, and a column says who wants it; with `deliver` = true it is published for them, with
    `deadLetters` for what cannot be, and rows are counts. `tidings.spark.deliver` does that.

    To read a lake, as a batch: `lake`, its folder, with `filter`, `since` and `until` of
    `Lake.scan`. Columns are described in `lake_reader`, and what rows are to be published in
    `notifications`.

    A batch is of what there is when it is loaded, however often it is asked. If it is given a
    schema, Spark makes the source only when it is first asked, and it is of what there is then:
    `tidings.spark.events` does not wait.

    To publish: `staging`, a folder that the driver and all workers share (a stream has one in
    its checkpointLocation); `deadLetters`, a folder for rows that are no notifications, which
    otherwise fail the query, or that the broker refuses; `key`, the columns by which such a row
    is known (`"desk, number"`); `maxEventBytes`, above which a row is none (1 MiB); `advertise`, a
    filter that says what will be published, which some brokers want to know first.
    """

    def __init__(self, options: dict[str, str]) -> None:
        """Find what a batch is of: Spark makes one source for a `load()`, and copies it then.

        What is wrong with a batch is said when it is known to be one.
        """
        super().__init__(options)
        self._question: Question | None = None
        self._bounds: Bounds | None = None
        self._problem, self._is_away = "", False
        try:
            if "lake" in options:
                self._question = question(options).pinned()
            elif AS_OF in options:
                self._bounds = Bounds.read(options[AS_OF])
            elif may_be_batch(options):
                self._bounds = find_bounds(reading(options, is_stream=False))
        except (ConnectionFailed, AccessDenied) as problem:
            self._problem, self._is_away = f"it could not be loaded: {problem}", True
        except TidingsError as problem:
            self._problem = str(problem)

    @classmethod
    def name(cls) -> str:
        """What to say to `format`."""
        return "tidings"

    def schema(self) -> str | StructType:
        if self._is_away:  # which is as bad for a stream
            raise TidingsError(self._problem)
        if "lake" in self.options:
            return spark_schema(self._found(self._question))
        is_judged, is_delivery, lake = columns(self.options)
        if is_delivery:
            return COUNTS
        if lake is None:
            return JUDGED if is_judged else GENERIC
        found = columns_of_lake(lake)
        return found.add(MATCHES, ArrayType(StringType())) if is_judged else found

    def reader(self, schema: StructType) -> BatchReader | LakeReader:
        if "lake" in self.options:
            return LakeReader(self._found(self._question), schema)
        options = reading(self.options, is_stream=False)
        return BatchReader(options, self._found(self._bounds), schema)

    def _found(self, what: _T | None) -> _T:
        if what is None:
            raise TidingsError(self._problem)
        return what

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
