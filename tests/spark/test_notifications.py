"""Rows as notifications, without Spark."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from datetime import UTC, datetime
from struct import Struct
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DoubleType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampType,
    VariantType,
)

from tests.lakes.published import PUBLISHED
from tidings.events import Notification, TidingsError
from tidings.lakes.layout import Archived
from tidings.spark.format.notifications import Notifications
from tidings.spark.format.rows import GENERIC, RowBatches
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


def test_what_makes_notifications_can_be_sent_to_workers() -> None:
    order = StructType().add("sizes", ArrayType(LongType())).add("by", StringType())
    prices = MapType(StringType(), DoubleType())
    schema = StructType().add("order", order).add("prices", prices).add("orders", ArrayType(order))
    one = {"sizes": [5, None], "by": None}
    row = {"order": one, "prices": [("DIS", 101.25), ("F", None)], "orders": [one, None]}
    batch = pa.RecordBatch.from_pylist([row], to_arrow_schema(schema, timezone="UTC"))
    sent = pickle.loads(pickle.dumps(Notifications(schema, 1 << 20)))
    ((_, said),) = sent.of(batch)
    assert said.value == {
        "order": {"sizes": [5, None]},
        "prices": {"DIS": 101.25, "F": None},
        "orders": [{"sizes": [5, None]}, None],
    }


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
        (nested(101), "nested more than 100 deep"),
        (nested(2_000), "nested more than 100 deep"),
    ],
    ids=["a kind", "a time", "a time BC", "a date BC", "a date", "101", "2000"],
)
def test_a_variant_that_no_event_can_have_is_told(value: bytes, words: str) -> None:
    broken = {"value": value, "metadata": b"\x01\x00\x00"}
    bad, good = made({"x": VariantType()}, {"x": broken}, {"x": variant(1)})
    assert words in bad
    assert good == Notification({"x": 1})


def test_columns_are_published_as_exactly_what_they_hold() -> None:
    order = StructType().add("size", LongType()).add("by", StringType())
    columns: dict[str, DataType] = {
        "tags": ArrayType(StringType()),
        "order": order,
        "legs": ArrayType(order),
        "more": MapType(StringType(), ArrayType(LongType())),
        "raw": VariantType(),
        "missing": LongType(),
    }
    row = {
        "tags": ["us", None, "media", "us"],
        "order": {"size": 1, "by": None},
        "legs": [{"size": 2, "by": "me"}, None, {"size": None, "by": None}],
        "more": [("z", [5, 4, 5]), ("a", None)],
        "raw": {"value": b"\x00", "metadata": b"\x01\x00\x00"},
    }
    (said,) = made(columns, row)
    assert said.body == (
        b'{"tags":["us",null,"media","us"],"order":{"size":1},"legs":[{"size":2,"by":"me"},null,{}]'
        b',"more":{"z":[5,4,5],"a":null},"raw":null}'
    )
    assert said["order.size"] == 1
    assert "missing" not in said


def test_a_cloud_event_of_columns_is_one() -> None:
    columns: dict[str, DataType] = {
        "specversion": StringType(),
        "id": StringType(),
        "time": TimestampType(),
        "data": StructType().add("n", LongType()),
    }
    row = {"specversion": "1.0", "id": "7", "time": SAID["at"], "data": {"n": 1}}
    (said,) = made(columns, row)
    text = '{"specversion":"1.0","id":"7","time":"2026-11-15T00:00:00Z","data":{"n":1}}'
    assert said == Notification.from_json(text)


# -- events as they are read -----------------------------------------------------------------------


KINDS: dict[str, DataType] = {
    "tick": LongType(),
    "time": TimestampType(),
    "attributes": MAP,
    "content": BinaryType(),
}


def as_read(columns: str, *said: Notification) -> list[Any]:
    """The events in columns, as the format reads them, and then as it publishes these."""
    found = StructType()
    for name in columns.split():
        found = found.add(name, KINDS.get(name, StringType()))
    events: list[Any] = [Archived("paris", n, SAID["at"], each) for n, each in enumerate(said)]
    batch = RowBatches(found).batch(events)
    return [again for _, again in Notifications(found, 1 << 20).of(batch)]


@settings(max_examples=min(40, settings.default.max_examples))
@given(st.lists(PUBLISHED, max_size=4))
def test_what_is_read_whole_is_published_exactly(said: list[Notification]) -> None:
    whole = "id stream tick time body content content_type"
    without = [Notification.of_bytes(n.body, n.content_type) if n.bytes_type else n for n in said]
    assert as_read(whole, *said) == without
    assert as_read(f"attributes {whole}", *said) == said
    json = [each for each in said if each.bytes_type is None]
    assert as_read("body", *json) == json


@settings(max_examples=min(40, settings.default.max_examples))
@given(st.lists(PUBLISHED.filter(lambda n: n.bytes_type is None), max_size=4))
def test_what_is_read_as_a_map_is_published_with_the_same_attributes(
    said: list[Notification],
) -> None:
    assume(all(abs(n) < 10**38 for each in said for n in numbers_in(each)))
    again = as_read("id stream tick time attributes", *said)
    assert [each.attributes for each in again] == [each.attributes for each in said]


def numbers_in(said: Notification) -> Iterator[int]:
    for value in said.attributes.values():
        yield from (
            n for n in (value if isinstance(value, frozenset) else [value]) if type(n) is int
        )


def test_a_column_more_wins_over_the_body_where_it_says_something_else() -> None:
    text = '{"order":{"b":[2,1,2],"size":1},"price":5,"note":null,"tags":["b","a","b"]}'
    columns = {"body": StringType(), "attributes": MAP, "price": DoubleType()}
    row = {"body": text, "price": 5.0}
    more: dict[str, Any] = {"order.size": 7, "score": 0.5, "tags": ["a", "b"]}
    kinds = {"order.size": LongType(), "score": DoubleType(), "tags": ArrayType(StringType())}
    (same,) = made(columns, row)
    (said,) = made({**columns, **kinds}, {**row, **more})
    assert same.body.decode() == text
    assert said.body.decode() == (
        '{"order":{"b":[2,1,2],"size":7},"price":5,"note":null,"tags":["b","a","b"],"score":0.5}'
    )


def test_a_column_that_is_called_body_is_an_attribute_among_others() -> None:
    (said,) = made({"body": StringType(), "to": StringType()}, {"body": "{}", "to": "me"})
    assert said == Notification({"body": "{}", "to": "me"})


def test_an_event_without_body_is_told() -> None:
    missing, wrong = made({"id": StringType(), "body": StringType()}, {"id": "a"}, {"body": "[]"})
    assert missing == "there is no body"
    assert wrong == "expected a JSON object, found an array"


@pytest.mark.parametrize("kind", [ArrayType(VariantType()), StructType().add("a", VariantType())])
def test_variants_are_columns_or_in_maps(kind: DataType) -> None:
    with pytest.raises(TidingsError, match=r"column x.* is VARIANT, which no attribute can be"):
        made({"x": kind})
