"""Rows as notifications, without Spark."""

from __future__ import annotations

from datetime import UTC, datetime
from struct import Struct
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    DataType,
    LongType,
    MapType,
    StringType,
    StructType,
    VariantType,
)

from tidings.events import Notification, TidingsError
from tidings.spark.format.notifications import Notifications
from tidings.spark.format.rows import GENERIC
from tidings.spark.format.variants import encode

MAP = MapType(StringType(), VariantType())
TIME, DATE = Struct("<Bq"), Struct("<Bi")
SAID = {"price": 101.25, "n": 2**70, "at": datetime(2026, 11, 15, tzinfo=UTC), "tags": {1, "x"}}


def variant(value: object) -> dict[str, bytes]:
    held, names = encode(Notification({"x": value}).attributes["x"])
    return {"value": held, "metadata": names}


def made(columns: dict[str, DataType], *rows: dict[str, Any]) -> list[Any]:
    schema = StructType()
    for name, kind in columns.items():
        schema = schema.add(name, kind)
    batch = pa.RecordBatch.from_pylist(list(rows), to_arrow_schema(schema, timezone="UTC"))
    return [said for _, said in Notifications(schema, 1 << 20).of(batch)]


def test_of_what_was_read_the_attributes_are_published() -> None:
    held = [(name, variant(value)) for name, value in SAID.items()]
    columns = {"id": StringType(), "tick": LongType(), "attributes": MAP}
    assert set(columns) < set(GENERIC.replace(",", " ").split())
    (said,) = made(columns, {"id": "paris:7", "tick": 7, "attributes": held})
    assert said == Notification(SAID)


def test_a_column_more_is_an_attribute_and_wins() -> None:
    row = {"attributes": [("a", variant(1)), ("b", variant(2))], "b": 3, "time": 4}
    (said,) = made({"attributes": MAP, "b": LongType(), "time": LongType()}, row)
    assert said == Notification({"a": 1, "b": 3})


def test_what_did_not_fit_its_column_is_published_as_the_map_has_it() -> None:
    row = {"price": None, "attributes": [("price", variant("dear")), ("z", variant(1))]}
    (said, other) = made({"price": LongType(), "attributes": MAP}, row, {"price": 3})
    assert said == Notification({"price": "dear", "z": 1})
    assert other == Notification({"price": 3})


def test_without_the_map_all_columns_are_attributes() -> None:
    columns: dict[str, DataType] = {"id": LongType(), "price": VariantType(), "more": MAP}
    row = {"id": 7, "price": variant(1.5), "more": [("a", variant("x"))]}
    (said, empty) = made(columns, row, {"id": 8})
    assert said == Notification({"id": 7, "price": 1.5, "more": {"a": "x"}})
    assert empty == Notification({"id": 8})


def test_a_text_that_is_no_text_is_told() -> None:
    """Spark lets any bytes be a STRING."""
    held = pa.array([b"fine", b"\xff"]).buffers()
    texts = pa.Array.from_buffers(pa.string(), 2, held)
    schema = StructType().add("text", StringType()).add("n", LongType())
    batch = pa.record_batch({"text": texts, "n": [1, 2]})
    (_, good), (row, bad) = Notifications(schema, 1 << 20).of(batch)
    assert good == Notification({"text": "fine", "n": 1})
    assert (row["n"], bad) == (
        2, "'utf-8' codec can't decode byte 0xff in position 0: invalid start byte"
    )  # fmt: skip


def nested(depth: int) -> bytes:
    """The variant of an array within an array, and so on."""
    value = b"\x00"
    for _ in range(depth):
        ends = (0).to_bytes(4, "little") + len(value).to_bytes(4, "little")
        value = bytes([3 << 2 | 3, 1]) + ends + value
    return value


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (bytes([20 << 2]) + bytes(16), "a variant of kind 20"),
        (TIME.pack(12 << 2, 300_000_000_000 * 10**6), "in the years 1 to 9999"),
        (TIME.pack(13 << 2, -(2**63)), "in the years 1 to 9999"),
        (DATE.pack(11 << 2, -800_000), "in the years 1 to 9999"),
        (DATE.pack(11 << 2, 2**31 - 1), "in the years 1 to 9999"),
        (nested(33), "nested more than 32 deep"),
        (nested(200), "nested more than 32 deep"),
        (nested(201), "nested more than 200 deep"),
        (nested(2_000), "nested more than 200 deep"),
    ],
    ids=["a kind", "a time", "a time BC", "a date BC", "a date", "33", "200", "201", "2000"],
)
def test_a_variant_that_no_event_can_have_is_told(value: bytes, words: str) -> None:
    broken = {"value": value, "metadata": b"\x01\x00\x00"}
    bad, good = made({"x": VariantType()}, {"x": broken}, {"x": variant(1)})
    assert words in bad
    assert good == Notification({"x": 1})


@pytest.mark.parametrize("kind", [ArrayType(VariantType()), StructType().add("a", VariantType())])
def test_variants_are_columns_or_in_maps(kind: DataType) -> None:
    with pytest.raises(TidingsError, match=r"column x.* is VARIANT, which no attribute can be"):
        made({"x": kind})
