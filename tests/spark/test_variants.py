"""Values as variants: what Spark, and PySpark without it, read of them."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime, timedelta
from decimal import Decimal, localcontext
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pyspark.sql.types import (
    LongType,
    MapType,
    StringType,
    StructType,
    VariantType,
    VariantVal,
)
from pyspark.sql.variant_utils import VariantUtils

from tidings.events import Notification, NotificationError, TidingsError
from tidings.events.encoding import DEPTH
from tidings.events.values import PRESENT, element_order, scalar
from tidings.lakes.layout import Archived, to_events
from tidings.spark.format.rows import RowBatches
from tidings.spark.format.variants import decode, encode, without_parts

NOON = datetime(2026, 11, 16, 12, 0, 0, 250_001, tzinfo=UTC)

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=70)
NUMBERS = st.one_of(
    st.integers(),
    st.integers(-(10**45), 10**45),
    st.integers(0, 400).map(lambda n: 2**n),
    st.floats(allow_nan=False),
)
TIMES = st.datetimes(timezones=st.just(UTC))
SCALARS = st.one_of(TEXTS, st.booleans(), NUMBERS, TIMES, st.binary(max_size=300))
JSON = st.recursive(
    st.one_of(
        st.none(),
        TEXTS,
        st.booleans(),
        st.integers(-(2**63), 2**63 - 1),
        st.floats(allow_nan=False, allow_infinity=False),
    ),
    lambda inner: st.lists(inner) | st.dictionaries(TEXTS.filter(lambda t: "$" not in t), inner),
    max_leaves=20,
)
CARRIED = st.lists(JSON, min_size=1).map(lambda members: [None, *members])
VALUES = st.one_of(SCALARS, st.lists(SCALARS, max_size=8), CARRIED)


def value_of(said: Notification) -> Any:
    """The attribute `x`: a set as such, and a list of more than scalars as the body has it."""
    return said["x"] if said.attributes["x"] is PRESENT else said.attributes["x"]


def expected(value: Any) -> Any:
    """What a canonical value is for whoever reads it as a variant."""
    if isinstance(value, frozenset):
        return [expected(scalar(member)) for member in sorted(value, key=element_order)]
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 10**38:
        if value.bit_length() < 1024 and float(value) == value:
            return float(value)
        return str(Decimal(value))
    return value


@given(VALUES)
@example([])
@example("x" * 63)
@example("x" * 64)
@example(list(range(300)))
@example(["x" * 300, "y" * 70_000])
@example([{f"name {n}": n for n in range(300)}])
@example([{"deep": [{"deep": [{"er": None}]}]}])
@example(10**38)
@example(-(10**38) + 1)
@example(10**400)
@example(10**5000)
@example(math.inf)
def test_pyspark_reads_the_values_that_were_written(said: Any) -> None:
    value = value_of(Notification({"x": said}))
    with localcontext(prec=50):  # it multiplies decimals
        found: Any = VariantUtils.to_python(*encode(value))
    assert found == expected(value)
    if not isinstance(found, Decimal):
        assert type(found) is type(expected(value))


@given(VALUES)
@example([{f"name {n}": n for n in range(300)}])
def test_what_was_written_is_read_as_the_notification_had_it(said: Any) -> None:
    before = Notification({"x": said})
    after = Notification({"x": decode(*encode(value_of(before)))})
    plain = before["x"]
    members = plain if isinstance(plain, frozenset) else [plain]
    is_text = any(isinstance(m, int) and isinstance(expected(m), str) for m in members)
    assert is_text or after.attributes == before.attributes
    if not isinstance(plain, frozenset):
        assert is_text or after["x"] == before["x"]


def nested(depth: int) -> Any:
    """Lists in lists, so deep."""
    found: Any = ["x"]
    for _ in range(depth - 1):
        found = [found, {"a": 1}]
    return found


def test_the_deepest_that_can_be_published_is_no_text() -> None:
    said = Notification({"x": nested(DEPTH - 1)})
    found = decode(*encode(value_of(said)))
    assert found == nested(DEPTH - 1)
    assert Notification({"x": found}) == said
    with pytest.raises(NotificationError, match="nested more than 100 deep"):
        Notification({"x": nested(DEPTH)})


def test_what_is_nested_deeper_than_can_be_published_is_text() -> None:
    """A lake may have it from before there was a limit."""
    deep = nested(300)
    found: Any = decode(*encode(deep))
    for level in range(DEPTH):
        found, other = found
        assert other == ({"a": 1} if level < DEPTH - 1 else '{"a":1}')
    assert json.loads(found) == nested(300 - DEPTH)
    body = json.dumps({"x": deep, "y": {"z": deep}})
    columns = {"stream": ["paris"], "tick": [1], "time": pa.array([NOON]), "body": [body]}
    present = {f"{name}$present": [True] for name in ("x", "y", "y.z")}
    events: list[Any] = [*to_events(pa.table(columns | present))]
    rows = RowBatches(StructType().add("attributes", MapType(StringType(), VariantType())))
    (row,) = rows.batch(events).to_pylist()
    assert [name for name, _ in row["attributes"]] == ["x", "y", "y.z"]
    values = {name: decode(**variant) for name, variant in row["attributes"]}
    assert values["x"] == values["y.z"] == decode(*encode(deep))


def test_a_variant_of_another_that_is_nested_too_deeply_is_refused() -> None:
    written = VariantVal.parseJson("[" * DEPTH + "]" * DEPTH)
    decode(written.value, written.metadata)
    written = VariantVal.parseJson("[" * (DEPTH + 1) + "]" * (DEPTH + 1))
    with pytest.raises(TidingsError, match="a variant is nested more than 100 deep"):
        decode(written.value, written.metadata)


@given(JSON)
def test_what_pyspark_writes_is_read(said: Any) -> None:
    written = VariantVal.parseJson(json.dumps(said))
    assert decode(written.value, written.metadata) == said


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (b"\x2c" + (1).to_bytes(4, "little"), datetime(1970, 1, 2, tzinfo=UTC)),
        (b"\x34" + (1).to_bytes(8, "little"), datetime(1970, 1, 1, 0, 0, 0, 1, tzinfo=UTC)),
        (b"\x20\x02" + (250).to_bytes(4, "little"), 2.5),
        (b"\x24\x02" + (-300).to_bytes(8, "little", signed=True), -3),
        (b"\x38\x00\x00\x00\x3f", 0.5),
    ],
    ids=["a date", "a time without a zone", "a decimal", "a whole decimal", "a float"],
)
def test_kinds_that_events_do_not_have_are_read_as_the_nearest(value: bytes, found: Any) -> None:
    read = decode(value, b"\x01\x00\x00")
    assert (type(read), read) == (type(found), found)


def test_a_kind_that_is_no_value_is_refused() -> None:
    with pytest.raises(TidingsError, match="a variant of kind 20 is no value of a notification"):
        decode(bytes([20 << 2]) + bytes(16), b"\x01\x00\x00")


SAID = {
    "text": "Łódź",
    "long": "x" * 1_000,
    "yes": True,
    "byte": -128,
    "short": 128,
    "int": -(2**31),
    "bigint": 2**63 - 1,
    "decimal": -(10**38) + 1,
    "huge": 2**200,
    "odd": 10**60 + 1,
    "double": 0.1,
    "infinite": -math.inf,
    "at": NOON,
    "raw": b"\x00\xff",
    "empty": [],
    "tags": ["b", "a"],
    "mixed": ["b", 2, True, NOON],
    "carried": [{"b": 1, "a": [2.5, None]}, "x"],
    "order": {"size": 7},
}


@pytest.mark.slow
@pytest.mark.xdist_group("source")
def test_spark_casts_them_to_the_values_that_were_published(spark: Any) -> None:
    schema = StructType().add("tick", LongType())
    schema = schema.add("attributes", MapType(StringType(), VariantType()))
    events: list[Any] = [
        Archived("paris", n, NOON + timedelta(n), Notification(said))
        for n, said in enumerate([SAID, {}, {"byte": 1}])
    ]

    def rows(batches: Any) -> Any:
        list(batches)
        yield RowBatches(schema).batch(events)

    frame = spark.range(1).repartition(1).mapInArrow(rows, schema)
    casts = {
        "text": "string",
        "long": "string",
        "yes": "boolean",
        "byte": "tinyint",
        "short": "smallint",
        "int": "int",
        "bigint": "bigint",
        "decimal": "decimal(38,0)",
        "huge": "double",
        "odd": "string",
        "double": "double",
        "infinite": "double",
        "at": "timestamp",
        "raw": "binary",
        "empty": "array<string>",
        "tags": "array<string>",
    }
    chosen = [f"attributes['{name}']::{kind} AS {name}" for name, kind in casts.items()]
    (found,) = frame.where("tick = 0").selectExpr(*chosen).toArrow().to_pylist()
    said = {name: SAID[name] for name in casts}
    assert found == said | {
        "decimal": Decimal(-(10**38) + 1),
        "odd": str(10**60 + 1),
        "tags": ["a", "b"],
    }
    inside = frame.where("tick = 0").selectExpr(
        "attributes['odd']::double AS near",
        "variant_get(attributes['mixed'], '$[1]', 'int') AS second",
        "variant_get(attributes['carried'], '$[0].a[0]', 'double') AS carried",
        "variant_get(attributes['order'], '$.size', 'int') AS size",
        "schema_of_variant(attributes['at']) AS at",
    )
    (row,) = inside.collect()
    assert (row.near, row.second, row.carried, row.at) == (1e60, 2, 2.5, "TIMESTAMP")
    assert row.size == 7
    whole = frame.orderBy("tick").collect()
    assert [set(row.attributes) for row in whole] == [{*SAID, "order.size"}, set(), {"byte"}]
    python = {name: value.toPython() for name, value in whole[0].attributes.items()}
    exact = python | {"decimal": -(10**38) + 1, "odd": 10**60 + 1}
    assert Notification(without_parts(exact)).attributes == Notification(SAID).attributes
