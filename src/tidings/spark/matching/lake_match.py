"""Matching inside the reader of a lake: events do not travel to Java before it is known who wants
them, and those that nobody wants do not travel at all.

Tasks read files of the lake, ask an index and give lists of keys. A set of filters that is too
large for one process is in parts (see `filter_parts`): then each task is for some files and one
part, tasks of one part follow each other, and a process holds the index of one part at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

import msgspec
import pyarrow as pa
from pyspark import SparkFiles
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it
from pyspark.sql.datasource import DataSource, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import ArrayType, DataType, IntegerType, LongType, StringType, StructType

from tidings.events import Filter, TidingsError
from tidings.lakes.grouping import Grouping, names_in
from tidings.lakes.layout import columns_of
from tidings.lakes.pruning import Place, Window
from tidings.lakes.search import Question, Sieve
from tidings.matching.named import NamedIndex
from tidings.spark.columns.attributes import quoted
from tidings.spark.format.lake_reader import LakeReader, Share
from tidings.spark.matching import filter_file
from tidings.spark.matching.asking import Asking, kind_of
from tidings.spark.matching.filter_parts import Concerned, FilterPart, StoredPart, cut, needed
from tidings.spark.workers import settle

NAME: Final = "tidings-matches"
"""What the source is called; only `match` speaks of it."""


SPARK_KINDS: Final[Mapping[str, DataType]] = {
    "string": StringType(),
    "int": IntegerType(),
    "bigint": LongType(),
}


class MatchPlan(msgspec.Struct, frozen=True):
    """What to match with what."""

    lake: str
    version: int | None
    filter: str
    """The file that has it, which the driver can read: types come along in it."""
    since: Place
    until: Place
    columns: list[str]
    column: str
    """What the list of keys is called."""
    kind: str
    """What keys are, in Spark's words."""
    parts: list[StoredPart]
    valued: int
    attributes: list[str]
    keep: bool
    is_sent: bool
    """Whether Spark has sent the files of filters, or tasks find them where they are."""

    @property
    def question(self) -> Question:
        """Which events are to be looked at."""
        window = Window(self.since, self.until)
        (wanted,) = filter_file.read(Path(self.filter)).values()
        return Question(Path(self.lake), wanted, window, self.version)

    def text(self) -> str:
        return msgspec.json.encode(self).decode()


def schema_for(plan: MatchPlan, held: pa.Schema) -> StructType:
    """The columns that come of it."""
    unknown = [name for name in plan.columns if name not in held.names]
    if unknown:
        raise TidingsError(
            f"{plan.lake}: the lake has no column {', '.join(map(repr, unknown))}; there are "
            f"{', '.join(held.names)}"
        )
    # By `id` parts are put together, so it is refused for any number of parts.
    if plan.column.lower() in map(str.lower, [*plan.columns, "id"]):
        raise TidingsError(f"there is a column {plan.column!r} already; name another one")
    fields = pa.schema([held.field(name) for name in plan.columns])
    return from_arrow_schema(fields).add(plan.column, ArrayType(SPARK_KINDS[plan.kind]))


class Wanted(NamedTuple):
    """How what matches is to be shown."""

    keep: bool
    column: str
    columns: tuple[str, ...]


def match_lake(
    question: Question,
    filters: dict[Any, Filter],
    wanted: Wanted,
    *,
    memory: int | None = None,
    combine: bool = True,
    folder: str | Path | None = None,
) -> DataFrame:
    """What `tidings.spark.match` says of lakes."""
    spark = SparkSession.getActiveSession()
    if spark is None:
        raise TidingsError("no Spark session runs here; start one with tidings.spark.session")
    question = question.pinned()
    divided = cut(filters, 1 if memory is None else needed(filters, memory))
    is_joined = combine and len(divided.parts) > 1
    columns = list(dict.fromkeys([*wanted.columns, "id"] if is_joined else wanted.columns))
    plan = MatchPlan(
        lake=str(question.lake),
        version=question.version,
        filter=str(sent(spark, {"": question.filter}, folder)),
        since=question.window.since,
        until=question.window.until,
        columns=columns,
        column=wanted.column,
        kind=kind_of(list(filters)),
        parts=[_stored(spark, part, folder) for part in divided.parts],
        valued=divided.valued,
        attributes=divided.attributes,
        keep=wanted.keep,
        is_sent=folder is None,
    )
    schema_for(plan, question.schema())  # so that what is wrong is said now
    spark.dataSource.register(LakeMatches)
    found = spark.read.format(NAME).option("plan", plan.text()).load()
    if not is_joined:
        return found
    others = [F.first(quoted(name)).alias(name) for name in wanted.columns if name != "id"]
    lists_ = F.flatten(F.collect_list(quoted(wanted.column))).alias(wanted.column)
    return (
        found.groupBy("id")
        .agg(*others, lists_)
        .select(*map(quoted, [*wanted.columns, wanted.column]))
    )


def _stored(spark: SparkSession, part: FilterPart, folder: str | Path | None) -> StoredPart:
    path = sent(spark, part.filters, folder)
    return StoredPart(str(path), sorted(names_in(part.filters.values())), part.number)


class LakeMatches(DataSource):
    """The events of a lake with the keys of the filters that they match."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        plan = self._plan()
        return schema_for(plan, plan.question.schema())

    def reader(self, schema: StructType) -> MatchReader:
        return MatchReader(self._plan(), schema)

    def _plan(self) -> MatchPlan:
        return msgspec.json.decode(self.options["plan"], type=MatchPlan)


class MatchReader(LakeReader):
    """Reads a lake, and gives what matches."""

    def __init__(self, plan: MatchPlan, schema: StructType) -> None:
        *fields, _ = schema.fields
        super().__init__(plan.question, StructType(fields))
        self._plan = plan

    def partitions(self) -> Sequence[InputPartition]:
        shares = [s for s in super().partitions() if isinstance(s, Share)]
        return [Share(s.portion, part) for part in range(len(self._plan.parts)) for s in shares]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, Share):
            return
        part = self._plan.parts[partition.part]
        columns = columns_of(self._held)
        sieve = Sieve(self._question.filter, columns)
        concerned = Concerned(self._plan.attributes, columns, self._plan.valued)
        grouping = Grouping(part.names, columns)
        used = {*sieve.used, *grouping.used, *(concerned.used if part.number is not None else ())}
        # With `keep`, the first part gives all rows, and any other only those that match there.
        keep = self._plan.keep and partition.part == 0
        asking = Asking(self._index_of(part), grouping, self._plan.kind)
        texts = [n for n in {*used, "stream"} if pa.types.is_string(self._held.field(n).type)]
        given = list(dict.fromkeys("time" if n == "day" else n for n in self._needed))
        for batch in self._batches(partition, {*self._needed, *used}, encoded=texts):
            chosen = sieve.sift(batch)
            if part.number is not None and not keep:
                rows = concerned.rows(chosen, part.number)
                chosen = chosen.take(rows) if len(rows) < chosen.num_rows else chosen
            for events, keys in asking.answers(chosen, given, keep=keep):
                fields = [*self._schema, pa.field(self._plan.column, keys.type)]
                arrays = [*self._given(events).columns, keys]
                yield pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))
        settle()

    def _index_of(self, part: StoredPart) -> NamedIndex:
        path = Path(part.path)
        path = received(path) if self._plan.is_sent else path
        return filter_file.index_of(path, alone=len(self._plan.parts) > 1)


_folders: list[TemporaryDirectory[str]] = []  # until the program ends: executors fetch from there


def sent(spark: SparkSession, filters: Mapping[Any, Filter], folder: str | Path | None) -> Path:
    """Write them as a file, to a folder that all machines see or for Spark to send; where it is."""
    if folder is not None:
        return filter_file.write(filters, Path(folder)).absolute()
    if not _folders:
        _folders.append(TemporaryDirectory(prefix="tidings-filters-"))
    path = filter_file.write(filters, Path(_folders[0].name))
    context = spark.sparkContext
    if not any(sent.endswith(path.name) for sent in context.listFiles):
        context.addFile(str(path))
    return path


def received(path: Path) -> Path:
    """Where a task finds what was sent."""
    return Path(SparkFiles.get(path.name))
