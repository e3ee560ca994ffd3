"""The lake reader: a lake as a source of Spark, read by Python tasks straight into Arrow.

Columns are those of the lake, with the types they have there (see `layout`), so an attribute of
several kinds has several. Any other column is as `rows` says: the attribute of its name, or all of
them in `attributes`. So is `body`, which is exactly what was published, and read only if it is
asked for. What is asked is asked of one version of the lake.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from tidings.events import TidingsError
from tidings.lakes.layout import BODY, CONTENT, CONTENT_TYPE, columns_of, days, to_events
from tidings.lakes.portions import Portion, plain, portions, read
from tidings.lakes.search import Question, Sieve
from tidings.spark.format.options import AS_OF, folder_of, refuse_path

_OPTIONS: Final = ("lake", "filter", "since", "until")
_DAY: Final = "day"
_ORIGIN: Final = ("stream", "tick", "time")
_NEVER_NULL: Final = ("id", *_ORIGIN, _DAY)
_WHOLE: Final = frozenset([BODY, CONTENT, CONTENT_TYPE, "attributes"])
"""Columns for which it must be known what was published."""


def question(options: Mapping[str, str]) -> Question:
    """What the options of a source say; `TidingsError` if that is nothing known."""
    said = {name.lower(): text for name, text in options.items()}
    for name in said.keys() - {*_OPTIONS, AS_OF.lower()}:
        refuse_path(name)
        raise TidingsError(
            f"there is no option {name!r} where a lake is read; there are {', '.join(_OPTIONS)}"
        )
    folder = folder_of("lake", said["lake"])
    try:
        asked = Question.of(folder, said.get("filter"), said.get("since"), said.get("until"))
    except TidingsError as problem:
        raise TidingsError(f"{said['lake']}: {problem}") from None
    version = said.get(AS_OF.lower())
    return asked if version is None else replace(asked, version=int(version))


def spark_schema(question: Question) -> StructType:
    """The lake's columns as Spark knows them, but for what has to be asked for: `body`."""
    return from_arrow_schema(pa.schema([f for f in question.schema() if f.name != BODY]))


@dataclass(frozen=True)
class Share(InputPartition):
    """What one task reads, and for which part of the filters, if these are in parts."""

    portion: Portion
    part: int = 0


class LakeReader(DataSourceReader):
    """Reads the rows of a lake that are wanted."""

    def __init__(self, question: Question, schema: StructType) -> None:
        self._question = question
        self._held = question.schema()
        self._schema = to_arrow_schema(schema, timezone="UTC")
        self._others = StructType(
            [f for f, a in zip(schema, self._schema, strict=True) if not _is_held(a, self._held)]
        )
        """The columns that the lake does not have."""
        self._is_direct = not self._others.fields
        self._needed = self._schema.names if self._is_direct else self._needed_for_others()
        """The columns of the lake of which those that were asked for are made."""
        if not self._is_direct:
            from tidings.spark.format.rows import RowBatches

            RowBatches(self._others)  # is there such a column?

    def _needed_for_others(self) -> list[str]:
        is_whole = not _WHOLE.isdisjoint(self._others.fieldNames())
        return [name for name in self._held.names if name != BODY or is_whole]

    def partitions(self) -> Sequence[InputPartition]:
        files = [(f["path"], f["num_records"]) for f in self._question.search().found]
        return [Share(portion) for portion in portions(self._question.lake, files)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, Share):  # there is nothing to read
            return
        sieve = Sieve(self._question.filter, columns_of(self._held))
        for batch in self._batches(partition, {*self._needed, *sieve.used}):
            chosen = sieve.sift(batch)
            if chosen.num_rows:
                yield self._given(chosen)

    def _batches(
        self, share: Share, names: set[str], encoded: Sequence[str] = ()
    ) -> Iterator[pa.RecordBatch]:
        """The rows of a share that are inside the window, with these columns."""
        condition = self._question.window.condition()
        if condition is not None:
            names = {*names, *_ORIGIN}
        if _DAY in names:
            names = {*names, "time"} - {_DAY}
        schema = pa.schema([field for field in self._held if field.name in names])
        for piece in share.portion:
            yield from read(
                self._question.lake, piece, schema, condition=condition, encoded=encoded
            )

    def _given(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows in the columns that were asked for."""
        others: dict[str, pa.Array] = {}
        if not self._is_direct:
            from tidings.spark.format.rows import RowBatches

            fields = [self._held.field(name) for name in batch.schema.names]
            rows = pa.RecordBatch.from_arrays(
                plain_columns(batch, fields), schema=pa.schema(fields)
            )
            made = RowBatches(self._others).batch(list(to_events(rows)))  # type: ignore[arg-type]
            others = dict(zip(made.schema.names, made, strict=True))
        held = pa.schema([field for field in self._schema if field.name not in others])
        found = dict(zip(held.names, plain_columns(batch, held), strict=True)) | others
        arrays = [found[name] for name in self._schema.names]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)


def plain_columns(batch: pa.RecordBatch, schema: Iterable[pa.Field]) -> list[Any]:
    """The columns of a schema, as Spark takes them."""
    return [plain(_column(batch, field.name), field.type) for field in schema]


def _column(batch: pa.RecordBatch, name: str) -> Any:
    if name == _DAY:
        return days(batch["time"].cast(pa.int64()).to_numpy(zero_copy_only=False))
    return batch[name]


def _is_held(field: pa.Field, held: pa.Schema) -> bool:
    at = held.get_field_index(field.name)
    can_be = field.nullable or field.name in _NEVER_NULL
    if field.name == BODY:  # in the lake it is null where other columns say it
        return False
    return can_be and at >= 0 and _same(held.field(at).type, field.type)


def _same(one: pa.DataType, other: pa.DataType) -> bool:
    if pa.types.is_list(one) and pa.types.is_list(other):
        return bool(one.value_type == other.value_type)
    return bool(one == other)
