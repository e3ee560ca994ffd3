"""Filters as Spark's own conditions hold for the rows that the filters match."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import islice
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.matching.strategies import ELEMENTS, PATTERNS, POOLS, SCHEMA
from tests.oracles.filters import constant
from tests.spark.rows import notifications
from tidings.events import Conjunction, Constraint, Filter, TidingsError
from tidings.events.intervals import STRINGS, Intervals
from tidings.events.phrases import name_text
from tidings.events.strings import Strings
from tidings.spark import column, match

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("columns")]

WHOLE = [0, 1, -1, 2, 100, None]
LARGE = [*WHOLE, 2**53, 2**53 + 1, 2**53 + 2, -(2**53) - 1, 2**63 - 1, -(2**63)]
FLOATS = [0.0, -0.0, 0.1, 0.5, 5e-324, 2.0**53, 2.0**63, 1e30, math.inf, -math.inf, math.nan, None]
TIMES = [t for t in POOLS["time"] if t.year > 1] + [datetime(1, 1, 1, tzinfo=UTC), None]
NAIVE = [t and t.replace(tzinfo=None) for t in TIMES]
TEXTS = [*POOLS["string"], "\ud7ff", "\ue000", "\U0001f600", "x\U0001f600y", "a\nb", "%_\\", None]
COLUMNS: dict[str, pa.Array] = {
    "tiny": pa.array(WHOLE, pa.int8()),
    "small": pa.array(WHOLE, pa.int16()),
    "int": pa.array(WHOLE, pa.int32()),
    "long": pa.array(LARGE),
    "float": pa.array(FLOATS, pa.float32()),
    "double": pa.array([*FLOATS, math.nextafter(1, 0), math.nextafter(1, 2), 1e308]),
    "money": pa.array([Decimal("0.10"), Decimal("2.00"), None], pa.decimal128(10, 2)),
    "whole": pa.array([Decimal(1), Decimal(10**17 + 1), None], pa.decimal128(18, 0)),
    "huge": pa.array([Decimal(1), Decimal(10**30), Decimal(2**53 + 1)], pa.decimal128(38, 0)),
    "bool": pa.array([True, False, None]),
    "string": pa.array(TEXTS),
    "bytes": pa.array([*POOLS["bytes"], b"\x7f", b"\x80", None]),
    "time": pa.array(TIMES, pa.timestamp("us", "UTC")),
    "naive": pa.array(NAIVE, pa.timestamp("us")),
    "date": pa.array([date(2026, 11, 15), date(2026, 11, 16), date(1, 1, 1), None]),
    "null": pa.nulls(1),
    "strings": pa.array([["a", "b"], ["a"], [], ["c"], ["a", None], ["b", "b"], None]),
    "longs": pa.array([[1, 0], [2**53 + 1], [2**53], [], [None], None]),
    "doubles": pa.array([[0.5], [-0.0], [2.0**53], [1.0, math.nan], [None], [], None]),
    "bools": pa.array([[True], [True, False], [], [None], None]),
    "times": pa.array([TIMES[:2], [TIMES[1]], [], None], pa.list_(pa.timestamp("us", "UTC"))),
    "dates": pa.array([[date(2026, 11, 15)], [], [None], None], pa.list_(pa.date32())),
    "blobs": pa.array([[b"a"], [b"b", b"a"], [], None]),
    "lists": pa.array([[["a"]], [[]], [], None]),
    "structs": pa.array([[{"a": 1}], [], None]),
    "nested": pa.array([{"a": 1, "b.c": "x"}, {"a": None, "b.c": "a"}, None]),
    "a.dot": pa.array([1, None, 2]),
    "a`tick": pa.array([1, None, 2]),
}
NAMES = [*COLUMNS, "nested.a", "nested.b.c", "missing", "LONG"]


def table() -> pa.Table:
    """All columns beside each other, the shorter ones filled with nulls; then some at random."""
    chance = Random(0)
    length = max(map(len, COLUMNS.values()))
    values = {n: c.to_pylist() for n, c in COLUMNS.items()}
    rows = {
        n: [*v, *[None] * (length - len(v)), *[chance.choice(v) for _ in range(60)]]
        for n, v in values.items()
    }
    return pa.table({n: pa.array(rows[n], c.type) for n, c in COLUMNS.items()})


def conditions() -> Iterator[str]:
    """Texts with all classes of constraints, in which `{0}` stands for the attribute."""
    chance = Random(1)
    pools = [*POOLS.values(), POOLS["number"], POOLS["string"]]
    lists = ["SUBSET OF", "SUPERSET OF", "OVERLAPS", "DISJOINT FROM", "NOT SUBSET OF"]
    domains = ["NUMBER", "STRING", "BOOLEAN", "TIME", "BYTES", "SET"]
    while True:
        pool = [constant(value) for value in chance.choice(pools)]
        one, other = chance.choice(pool), chance.choice(pool)
        many = ", ".join(chance.choices(pool, k=chance.choice([2, 3, 12])))
        items = ", ".join(constant(e) for e in chance.choices(ELEMENTS, k=chance.choice([1, 2, 5])))
        no = chance.choice(["", "NOT "])
        like = constant(chance.choice([*PATTERNS, "%a_%", "%\U0001f600", "_\U0001f600%y", "a_b"]))
        kind = chance.choice(["stock", "priced", "bond"])
        yield from (
            f"{{0}} {chance.choice(['=', '!=', '<', '<=', '>', '>='])} {one}",
            f"{{0}} {no}IN ({many})",
            f"{{0}} {no}BETWEEN {one} AND {other}",
            f"{{0}} {no}LIKE {like}",
            f"{{0}} {no}CONTAINS {constant(chance.choice(ELEMENTS))}",
            f"{{0}} {chance.choice(lists)} ({items})",
            f"{{0}} IS {no}{chance.choice(domains)}",
            f"{{0}} {no}UNDER '{chance.choice(['a', 'a.b', 'stock'])}'",
            f"{{0}} IS {no}A '{kind}'",
            chance.choice(["EXISTS {0}", "NOT EXISTS {0}"]),
        )


def random_filters(count: int, seed: int) -> Iterator[Filter]:
    """On some columns each, with OR and NOT."""
    chance = Random(seed)
    texts = list(islice(conditions(), 400))
    names = [*map(name_text, NAMES)]
    for _ in range(count):
        parts = [chance.choice(texts).format(chance.choice(names)) for _ in range(4)]
        shape = chance.choice(
            [
                "{} AND {}",
                "{} OR {}",
                "NOT ({} AND {})",
                "({} OR {}) AND {}",
                "{} AND {} OR {} AND {}",
            ]
        )
        yield Filter.parse(shape.format(*parts), schema=SCHEMA)


@pytest.fixture(scope="module")
def rows(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The table as a file, so that Spark compiles the conditions and pushes them down to it."""
    path = tmp_path_factory.mktemp("rows") / "rows.parquet"
    pq.write_table(table(), path)
    return spark.read.parquet(str(path))


EVENTS = notifications(table())


def check(rows: Any, filters: list[Filter]) -> None:
    chosen = [column(f, rows.schema).alias(str(n)) for n, f in enumerate(filters)]
    found = rows.select(*chosen).toArrow()
    for wanted, truths in zip(filters, found.columns, strict=True):
        for event, truth in zip(EVENTS, truths.to_pylist(), strict=True):
            assert truth is wanted.matches(event), f"{wanted} on {dict(event)}"


def test_one_attribute_of_any_type(rows: Any) -> None:
    texts = conditions()
    check(
        rows,
        [
            Filter.parse(text.format(name_text(name)), schema=SCHEMA)
            for name in NAMES
            for text in islice(texts, 7)
        ],
    )


def test_where_spark_by_itself_would_say_otherwise(rows: Any) -> None:
    texts = [
        *("double > 1", "NOT EXISTS double", "double != 1", "double IS NUMBER"),  # NaN
        *("double >= 9007199254740993", "double < 9007199254740993", "double = 9007199254740993"),
        *("long = 9007199254740992.0", "long > 1e30", "long < 1e30", "long > 9223372036854775807"),
        *(
            "float = 0.1",
            "float > 0.1",
            "int = 0.5",
            "int > 0.5",
            f"double < {10**400}",
            "tiny < 1000",
        ),
        *("double IN (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)", "doubles OVERLAPS (0, 7)"),  # -0.0
        *("doubles SUBSET OF (1)", "strings SUBSET OF ('a', 'b')", "longs NOT CONTAINS 1"),  # null
        *(
            "string LIKE '_\U0001f600%y'",
            "string LIKE 'x_y'",
            "string > '\uffff'",
            "string LIKE 'a_b'",
        ),
        *("bytes > x'7f'", "time < TIMESTAMP '0001-01-02T00:00:00Z'", "NOT (long = 1)"),
    ]
    check(rows, [Filter.parse(text) for text in texts])


def test_several_attributes(rows: Any) -> None:
    check(rows, [*random_filters(40, 0), Filter.all(), Filter.none()])


def test_rows_are_dropped_as_they_should_where_files_are_asked_first(rows: Any) -> None:
    for text in (
        "double > 0.1 AND NOT EXISTS missing",
        "long >= 9007199254740993",
        "string LIKE 'a%' OR string > 'z'",
        "time <= TIMESTAMP '2026-11-15T12:00:00Z'",
        "date = TIMESTAMP '2026-11-15T00:00:00Z'",
        "NOT EXISTS double AND NOT nested.a = 2",
    ):
        wanted = Filter.parse(text)
        expected = [e for e in EVENTS if wanted.matches(e)]
        assert expected, "the filter asks for something that is there"
        assert notifications(rows.where(column(text, rows.schema)).toArrow()) == expected


def test_it_is_what_sql_says(rows: Any) -> None:
    rows.createOrReplaceTempView("rows")
    for text in (
        "int BETWEEN 0 AND 2 AND string IN ('a', 'ab', 'b')",
        "long > 9007199254740992 OR string LIKE '%a%'",
        "int = 1 AND NOT (bool AND long = 2)",
    ):
        expected = rows.sparkSession.sql(f"SELECT count(*) FROM rows WHERE {text}").first()[0]
        assert rows.where(column(text, rows.schema)).count() == expected > 0


class Palindrome:
    """A test of strings that somebody else might add."""

    text = "IS PALINDROME"
    hull = Intervals.everything(STRINGS)

    def matches(self, value: str) -> bool:
        return value == value[::-1]


def test_what_spark_cannot_say_is_an_error_that_names_the_attribute(rows: Any, spark: Any) -> None:
    strange = Strings(Intervals.everything(STRINGS))
    strange.passing = frozenset({Palindrome()})  # type: ignore[arg-type]
    wanted = Filter([Conjunction({"string": Constraint.of(strange)})])
    with pytest.raises(TidingsError, match="'string': Spark cannot say IS PALINDROME"):
        column(wanted, rows.schema)
    maps = spark.sql("SELECT map('a', 1) AS m, 'x' COLLATE UTF8_LCASE AS c, 1 AS n")
    with pytest.raises(TidingsError, match=r"'m': a column of map<string,int> is none of"):
        column("m = 1", maps.schema)
    with pytest.raises(TidingsError, match=r"'c': .* collation UTF8_LCASE"):
        column("c = 'X'", maps.schema)
    assert maps.where(column("n = 1", maps.schema)).count() == 1, "nobody asks for the others"


def test_an_array_of_void_is_the_empty_set_or_no_set(spark: Any) -> None:
    rows = spark.range(3).selectExpr(
        "id", "CASE id WHEN 0 THEN array() WHEN 1 THEN array(NULL) END AS tags"
    )
    assert rows.schema["tags"].dataType.simpleString() == "array<void>"
    for text, expected in {
        "tags SUBSET OF ('a')": [0],
        "tags CONTAINS 'a'": [],
        "EXISTS tags": [0, 1],
        "NOT EXISTS tags": [2],
    }.items():
        found = rows.where(column(text, rows.schema)).collect()
        asked = match(rows, {"it": text}).where("size(matches) > 0").collect()
        assert [row.id for row in found] == [row.id for row in asked] == expected, text


def test_a_name_that_is_there_twice_is_refused(spark: Any) -> None:
    twice = spark.sql("SELECT 1 AS `a.b`, named_struct('b', 2) AS a")
    with pytest.raises(TidingsError, match=r"'a\.b': there are two such columns"):
        column("a.b = 1", twice.schema)


def test_names_that_spark_takes_for_the_same_are_refused_if_they_are_asked_for(spark: Any) -> None:
    rows = spark.sql(
        "SELECT 1 AS Price, 2 AS price, 3 AS n, named_struct('A', 4, 'a', 5) AS s, "
        "named_struct('x', 6) AS T, named_struct('y', 7) AS t"
    )
    held = {"price = 2": "price", "Price = 1": "Price", "s.a = 5": "s.a", "t.y = 7": "t.y"}
    for text, name in held.items():
        for ask in (lambda f: column(f, rows.schema), lambda f: match(rows, {"it": f})):
            with pytest.raises(TidingsError, match=rf"'{name}': Spark takes the columns .* and "):
                ask(text)
    assert rows.where(column("n = 3", rows.schema)).count() == 1, "nobody asks for the others"
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        for text in held:
            assert rows.where(column(text, rows.schema)).count() == 1
    finally:
        spark.conf.unset("spark.sql.caseSensitive")
