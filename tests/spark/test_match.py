"""Many filters on the rows of a DataFrame: natively and by the index, both as the filters say."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.spark.rows import notifications
from tests.spark.test_columns import EVENTS, random_filters, table
from tidings.events import Filter, TidingsError
from tidings.matching import Index
from tidings.spark import match

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("match")]

FILTERS = {f"ключ {n}": f for n, f in enumerate([*random_filters(24, 7), Filter.none()])}


@pytest.fixture(scope="module")
def rows(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    path = tmp_path_factory.mktemp("rows")
    pq.write_table(table().append_column("row", [range(len(EVENTS))]), path / "rows.parquet")
    return spark.read.parquet(str(path))


def found(matched: Any) -> dict[int, list[str]]:
    """For each row, its keys."""
    rows = matched.select("row", "matches").toArrow().to_pylist()
    lists = {row["row"]: sorted(row["matches"]) for row in rows}
    assert len(lists) == len(rows), "each row once"
    return lists


def expected(filters: dict[str, Filter]) -> dict[int, list[str]]:
    return {
        row: sorted(key for key, wanted in filters.items() if wanted.matches(event))
        for row, event in enumerate(EVENTS)
    }


def test_all_ways_agree_with_the_filters(rows: Any) -> None:
    index = Index()
    index.add_many(FILTERS.items())
    wanted = expected(FILTERS)
    assert {row: sorted(index.match(event)) for row, event in enumerate(EVENTS)} == wanted
    assert found(match(rows, FILTERS, keep=True, few=100)) == wanted
    assert found(match(rows, FILTERS, keep=True, few=0)) == wanted


@pytest.mark.parametrize("few", [0, 100])
def test_rows_without_a_match_are_dropped(rows: Any, few: int) -> None:
    filters = {"a": "string LIKE 'a%' AND NOT EXISTS missing", "b": "doubles CONTAINS 0"}
    parsed = {key: Filter.parse(text) for key, text in filters.items()}
    wanted = {row: keys for row, keys in expected(parsed).items() if keys}
    assert 0 < len(wanted) < len(EVENTS)
    matched = match(rows, filters, few=few)
    assert found(matched) == wanted
    assert matched.columns == [*rows.columns, "matches"]
    kept = notifications(matched.drop("row", "matches").toArrow())
    assert kept == [EVENTS[row] for row in sorted(wanted)], "the rows are as they were"


@pytest.mark.parametrize("few", [0, 100])
def test_filters_on_nothing_that_is_there(spark: Any, few: int) -> None:
    three = spark.range(3)
    both = {"all": "TRUE", "absent": "NOT EXISTS a", "never": "a = 1"}
    lists = match(three, both, few=few, column="`which").toArrow()["`which"].to_pylist()
    assert [sorted(keys) for keys in lists] == [["absent", "all"]] * 3
    assert match(three, {}, few=few).count() == 0
    assert match(three, {}, few=few, keep=True).toArrow()["matches"].to_pylist() == [[]] * 3


def test_a_column_of_that_name_is_not_overwritten(spark: Any) -> None:
    with pytest.raises(TidingsError, match="has a column 'ID' already"):
        match(spark.range(1), {}, column="ID")


@pytest.mark.parametrize("filters", ["desks.tsv", [("a", "x = 1")]])
def test_filters_are_a_mapping(filters: Any) -> None:
    with pytest.raises(TidingsError, match=f"mapping .* this is a {type(filters).__name__}"):
        match("lake", filters)


@pytest.mark.parametrize("few", [0, 100])
def test_keys_that_do_not_fit_are_refused(spark: Any, few: int) -> None:
    with pytest.raises(TidingsError, match=f"of 64 bits; {2**70} does not fit"):
        match(spark.range(1), {2**70: "TRUE"}, few=few)


def indexes(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Which indexes a Python process of Spark's has."""
    from tidings.spark.matching import filter_file

    list(batches)
    held = [f"{os.getpid()} {name} {id(made)}" for name, made in filter_file._indexes.items()]
    yield pa.record_batch({"held": pa.array(held, pa.string())})


def test_a_process_makes_the_index_once(spark: Any, rows: Any) -> None:
    def held() -> set[str]:
        # By enough tasks that each process has one: other tests leave more processes than cores.
        probe = spark.range(40, numPartitions=40).mapInArrow(indexes, "held string")
        return {h for h in probe.toArrow()["held"].to_pylist() if name in h}

    filters = {f"{n}": Filter.parse(f"long = {n}") for n in range(40)}
    sent = set(spark.sparkContext.listFiles)
    matched = match(rows, filters)
    (name,) = set(spark.sparkContext.listFiles) - sent
    name = name.rpartition("/")[2]
    first = found(matched)
    before = held()
    assert found(match(rows, filters)) == first
    after = held()
    assert before, "the index is there after the query"
    assert {h.split()[0] for h in before & after}, "and is the same one after the next"
    pids = [h.split()[0] for h in before | after]
    assert len(pids) == len(set(pids)), "no process has made a second one"


def test_events_with_their_attributes_in_a_map_are_matched(spark: Any) -> None:
    from pyspark.sql.types import LongType, MapType, StringType, StructType, VariantType

    from tidings.spark import column
    from tidings.spark.format.variants import variants

    kind = MapType(StringType(), VariantType())
    schema = StructType().add("row", LongType()).add("attributes", kind)

    def read(batches: Any) -> Iterator[pa.RecordBatch]:
        from pyspark.sql.pandas.types import to_arrow_schema

        types = to_arrow_schema(schema, timezone="UTC")
        for batch in batches:
            some = [EVENTS[row] for row in batch["row"].to_pylist()]
            maps = variants(some, types.field("attributes").type)
            yield pa.RecordBatch.from_arrays([batch["row"], maps], schema=types)

    frame = spark.range(len(EVENTS)).withColumnRenamed("id", "row").mapInArrow(read, schema)
    assert found(match(frame, FILTERS, keep=True)) == expected(FILTERS)
    with pytest.raises(TidingsError, match="read them with a schema such as"):
        column("price > 5", frame.schema)


def test_a_stream_is_matched_as_a_table_is(spark: Any, rows: Any, tmp_path: Path) -> None:
    source = Path(rows.inputFiles()[0].removeprefix("file://")).parent
    stream = spark.readStream.schema(rows.schema).parquet(str(source))
    stream = stream.withWatermark("time", "1 second")
    folder = tmp_path / "filters"
    folder.mkdir()
    matched = match(stream, FILTERS, few=0, folder=folder).select("row", "time", "matches")
    watermark = stream.schema["time"].metadata
    assert matched.schema["time"].metadata == watermark != {}
    query = (
        matched.writeStream.format("memory")
        .queryName("matched")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(60)
    assert found(spark.table("matched")) == {r: k for r, k in expected(FILTERS).items() if k}
    assert len(list(folder.iterdir())) == 1, "the filters are where all machines see them"
