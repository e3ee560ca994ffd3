"""Events as columns: of every type that a value can have, and of a lake with some of its own."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.types import (
    DecimalType,
    FloatType,
    MapType,
    StringType,
    StructField,
    StructType,
    VariantType,
)

from tests.lakes.filled import ODD, fill
from tests.lakes.published import PUBLISHED
from tidings.events import Notification, TidingsError
from tidings.events.values import PRESENT
from tidings.lakes.lake import Lake
from tidings.lakes.layout import Archived
from tidings.lakes.search import Question
from tidings.spark.format.lake_reader import LakeReader, question, spark_schema
from tidings.spark.format.rows import RowBatches, columns_of_lake
from tidings.spark.format.variants import decode, encode

NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)


def column(kind: Any, *values: object) -> list[Any]:
    """What a column of this type says of the values of its attribute."""
    events: list[Any] = [
        Archived("paris", n, NOON, Notification({"x": value})) for n, value in enumerate(values)
    ]
    return RowBatches(StructType().add("x", kind)).batch(events)["x"].to_pylist()  # type: ignore[no-any-return]


def test_a_decimal_has_all_its_digits() -> None:
    assert column(DecimalType(38, 10), 10**27 + 1, -(10**28) + 1, 0.125, 10**28) == [
        Decimal(10**27 + 1),
        Decimal(-(10**28) + 1),
        Decimal("0.125"),
        None,
    ]
    assert column(DecimalType(38, 0), 10**38 - 1, 10**38, 2.5) == [
        Decimal(10**38 - 1),
        None,
        Decimal(2),
    ]
    assert column(DecimalType(38, 38), 0.1, 1) == [Decimal("0.1"), None]


def test_a_float_is_the_nearest_unless_that_is_infinite() -> None:
    largest = 3.4028234663852886e38
    assert column(FloatType(), largest, 1e300, -(10**39), math.inf, 3.4028235677973366e38) == [
        largest,
        None,
        None,
        math.inf,
        None,
    ]


def test_a_column_that_says_that_it_has_no_nulls_is_refused(tmp_path: Path) -> None:
    schema = StructType().add("tick", "long", nullable=False).add("price", "double")
    fill(tmp_path / "lake", [Notification({"price": 1.5})], commits=1)
    RowBatches(schema)
    LakeReader(Question.of(tmp_path / "lake"), schema.add("day", "date", nullable=False))
    for name in ("price", "nowhere"):
        never = StructType().add(name, "double", nullable=False)
        with pytest.raises(TidingsError, match=f"column {name} .* leave out NOT NULL"):
            RowBatches(never)
        with pytest.raises(TidingsError, match=f"column {name} .* leave out NOT NULL"):
            LakeReader(Question.of(tmp_path / "lake"), never)


def read(path: Path, schema: StructType) -> pa.Table:
    reader = LakeReader(Question.of(path), schema)
    return pa.Table.from_batches([b for p in reader.partitions() for b in reader.read(p)])


def looked_into(said: Notification) -> dict[str, object]:
    """The attributes as variants say them; of a list of more than scalars, what it holds."""
    values = {n: said[n] if v is PRESENT else v for n, v in said.attributes.items()}
    return {name: decode(*encode(value)) for name, value in values.items()}


@settings(max_examples=min(20, settings.default.max_examples))
@given(st.lists(PUBLISHED, min_size=1, max_size=9))
def test_a_lake_has_what_was_published_for_whoever_asks_for_it(said: list[Notification]) -> None:
    kinds = {"content": "binary", "tick": "long"}
    names = ["tick", "stream", "body", "content", "content_type", "attributes"]
    schema = StructType()
    for name in names:
        schema = schema.add(name, kinds.get(name, "string"))
    with TemporaryDirectory() as folder:
        events = fill(Path(folder) / "lake", said)
        rows = {
            (r["stream"], r["tick"]): r for r in read(Path(folder) / "lake", schema).to_pylist()
        }
    for event in events:
        row, n = rows[event.stream, event.tick], event.notification
        assert (row["content_type"], row["attributes"]) == (n.content_type, n.to_json())
        of_bytes = n.bytes_type is not None
        assert row["body"] == (None if of_bytes else n.body.decode())
        assert row["content"] == (n.body if of_bytes else None)


def test_a_body_is_read_only_if_it_is_asked_for(tmp_path: Path) -> None:
    fill(tmp_path / "lake", [Notification({"order": {"size": n}}) for n in range(4)])
    asked = Question.of(tmp_path / "lake")
    assert "body" in asked.schema().names
    assert "body" not in spark_schema(asked).names
    for names, is_read in (("id", False), ("id nowhere", False), ("body", True)):
        schema = StructType()
        for name in names.split():
            schema = schema.add(name, StringType())
        assert ("body" in LakeReader(asked, schema)._needed) is is_read


def test_a_column_that_a_lake_lacks_changes_none_of_the_others(tmp_path: Path) -> None:
    events = fill(tmp_path / "lake", ODD)
    schema = spark_schema(Question.of(tmp_path / "lake"))
    more = StructType([StructField("attributes", StringType()), *schema])
    more = more.add("nowhere", "double")
    alone, with_more = read(tmp_path / "lake", schema), read(tmp_path / "lake", more)
    assert with_more.select(alone.column_names).to_pylist() == alone.to_pylist()
    assert any("$" in name for name in alone.column_names)
    said = map(Notification.from_json, with_more["attributes"].to_pylist())
    assert dict(zip(with_more["id"].to_pylist(), said, strict=True)) == {
        event.id: event.notification for event in events
    }
    assert with_more["nowhere"].null_count == len(events)
    maps = StructType().add("id", "string").add("attributes", MapType(StringType(), VariantType()))
    assert {
        row["id"]: {name: decode(**variant) for name, variant in row["attributes"]}
        for row in read(tmp_path / "lake", maps).to_pylist()
    } == {event.id: looked_into(event.notification) for event in events}


def test_a_lake_is_not_read_by_a_path(tmp_path: Path) -> None:
    with pytest.raises(TidingsError, match="option path: there is nothing at a path"):
        question({"lake": str(tmp_path), "path": "/quotes"})


def test_columns_are_of_a_lake_that_there_is(tmp_path: Path) -> None:
    fill(tmp_path / "lake", [Notification({"price": 1.5, "symbol": "DIS"})], commits=1)
    names = columns_of_lake(str(tmp_path / "lake")).fieldNames()
    assert names == ["id", "stream", "tick", "time", "price", "symbol"]
    with pytest.raises(TidingsError, match=r"option schemaOf: .*lkae: there is no lake here"):
        columns_of_lake(str(tmp_path / "lkae"))
    assert not (tmp_path / "lkae").exists()
    assert Lake(tmp_path / "lake").held() == {"paris": 1}
