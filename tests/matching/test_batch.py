"""A table gives what its rows give one by one, whatever types its columns are of."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.matching.engines import TUNINGS, folded, in_segments, tuned
from tests.matching.strategies import NAMES, POOLS, filters, notifications
from tidings.events import Filter, Notification, NotificationError, TidingsError
from tidings.matching import Index, batch

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)


def an_index(*texts: str) -> Index:
    index = Index()
    index.add_many((text, Filter.parse(text)) for text in texts)
    return index


def matches(index: Index, events: Any) -> list[tuple[int, Any]]:
    rows, keys = index.match_batch(events)
    assert rows.type == pa.int32(), "one type, whatever the events came in"
    pairs = list(zip(rows.to_pylist(), keys.to_pylist(), strict=True))
    assert [row for row, _ in pairs] == sorted(row for row, _ in pairs), "in the order of events"
    assert len(pairs) == len(set(pairs)), "each pair once"
    return sorted(pairs, key=repr)


def singles(index: Index, events: list[Notification]) -> list[tuple[int, Any]]:
    found = [(row, key) for row, event in enumerate(events) for key in index.match(event)]
    return sorted(found, key=repr)


def rows_of(table: Any) -> list[Notification]:
    """The events of a table, by way of plain Python; times without a zone are UTC."""
    return [Notification(_zoned(row)) for row in table.to_pylist()]


def _zoned(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _zoned(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_zoned(inner) for inner in value]
    if isinstance(value, datetime) and value.tzinfo is None:
        return value.replace(tzinfo=UTC)
    return value


# -- all types -------------------------------------------------------------------------------

_TIMES = [NOON, NOON + timedelta(seconds=1), None]
_NAIVE = [t and t.replace(tzinfo=None) for t in _TIMES]
_LIST = [["a", "b"], None, [], ["b"], [None, "a"]]
COLUMNS: dict[str, Any] = {
    **{
        str(kind): pa.array([0, 1, None, 2, 100, 127], kind)
        for kind in (pa.int8(), pa.int16(), pa.int32(), pa.uint8(), pa.uint16(), pa.uint32())
    },
    "int64": pa.array(
        [0, -1, None, 2**53, 2**53 + 1, 2**53 + 2, -(2**53) - 1, 2**63 - 1, -(2**63)]
    ),
    "uint64": pa.array([0, 1, None, 2**53, 2**53 + 1, 2**63, 2**63 + 1, 2**64 - 1], pa.uint64()),
    "float16": pa.array([0.0, 1.5, None, -0.0, math.inf], pa.float16()),
    "float32": pa.array([0.0, 0.1, None, 1.5, -0.0, 2.0**53, math.inf], pa.float32()),
    "float64": pa.array([0.0, 0.1, None, 5e-324, 2.0**53, 2.0**63, 1e30, math.inf, -math.inf]),
    "bool": pa.array([True, False, None]),
    "string": pa.array(["", "a", None, "ab", "zz", "é", "a\0"]),
    "large_string": pa.array(["", "a", None, "ab", "zz"], pa.large_string()),
    "string_view": pa.array(["", "a", None, "ab", "zz"], pa.string_view()),
    "dictionary": pa.array(["a", None, "ab", "a", "zz"]).dictionary_encode(),
    "dictionary with a null": pa.DictionaryArray.from_arrays([0, 1, None], pa.array(["a", None])),
    "dictionary of numbers": pa.array([1, 2, None, 1]).dictionary_encode(),
    "dictionary of times": pa.array(_NAIVE, pa.timestamp("ms")).dictionary_encode(),
    "binary": pa.array([b"", b"a", None, b"a\0"]),
    "large_binary": pa.array([b"", b"a", None], pa.large_binary()),
    "binary_view": pa.array([b"", b"a", None], pa.binary_view()),
    "fixed_size_binary": pa.array([b"ab", b"a\0", None], pa.binary(2)),
    "null": pa.nulls(3),
    "list": pa.array(_LIST),
    "large_list": pa.array(_LIST, pa.large_list(pa.string())),
    "list_view": pa.array(_LIST, pa.list_view(pa.string())),
    "fixed_size_list": pa.array([["a", "b"], None, ["b", "c"]], pa.list_(pa.string(), 2)),
    "list of numbers": pa.array([[1, 2], [2**53 + 1], None, []]),
    "list of booleans": pa.array([[True], [False, True], None, []]),
    "list of times": pa.array([_NAIVE[:2], [], None], pa.list_(pa.timestamp("ms"))),
    "large list of times": pa.array([_NAIVE[:2]], pa.large_list(pa.timestamp("s"))),
    "fixed list of times": pa.array([_NAIVE[:2], None], pa.list_(pa.timestamp("us", "UTC"), 2)),
    "list of lists": pa.array([[["a"]], [[]], None]),
    "list of structs": pa.array([[{"a": 1}], [], None]),
    "struct": pa.array([{"a": 1, "b": "x"}, None, {"a": None, "b": "a"}]),
    "struct of structs": pa.array([{"a": {"b": 1}}, {"a": None}, None, {"a": {"b": 2}}]),
    **{
        f"timestamp[{unit}{zone and ', ' + zone}]": pa.array(
            _TIMES if zone else _NAIVE, pa.timestamp(unit, zone or None)
        )
        for unit in ("s", "ms", "us", "ns")
        for zone in ("", "UTC", "Europe/Berlin", "+05:30")
    },
}
ASKED = [
    *("c = 0", "c = 1", "c >= 1", "c IN (1, 100)", "c != 1", "c < 0.1", "c <= 0.1", "c IS NUMBER"),
    *("c = 9007199254740992", "c = 9007199254740993", "c > 9007199254740992"),
    *("c < 9007199254740994", "c = 9223372036854775808", "c >= 18446744073709551615", "c > 1e29"),
    *("c = true", "NOT c", "c IS BOOLEAN"),
    *("c = ''", "c = 'a'", "c >= 'ab'", "c LIKE 'a%'", "c LIKE '%b'", "c IN ('a', 'zz')"),
    *("c = x''", "c = x'61'", "c > x'61'", "c IS NOT BYTES"),
    *("c = TIMESTAMP '2026-11-15T12:00:00Z'", "c > TIMESTAMP '2026-11-15T12:00:00Z'", "c IS TIME"),
    *("c CONTAINS 'a'", "c OVERLAPS ('a', 'c')", "c SUBSET OF ('a', 'b')", "c CONTAINS 1"),
    *("c CONTAINS true", "c CONTAINS TIMESTAMP '2026-11-15T12:00:00Z'", "c IS SET"),
    *("c.a = 1", "c.b = 'a'", "c.a.b = 1", "NOT EXISTS c.a", "EXISTS c.a.b"),
    *("EXISTS c", "NOT EXISTS c", "c IS NOT NUMBER", "c = 1 OR c = 'a'", "TRUE"),
]


@pytest.mark.parametrize("tuning", ["bits", "postings", "presence"])
@pytest.mark.parametrize("kind", COLUMNS)
def test_a_column_of_any_type_holds_the_values_that_its_rows_hold(kind: str, tuning: str) -> None:
    column = COLUMNS[kind]
    chunks = pa.chunked_array([column.slice(0, 2), column.slice(0, 0), column.slice(2)])
    chunked = pa.table({"c": chunks})
    table = pa.table({"c": column})
    expected = rows_of(table)
    with tuned(tuning):
        index = an_index(*ASKED)
        assert matches(index, table) == singles(index, expected)
        assert matches(index, chunked) == singles(index, expected)
        assert matches(index, table.to_batches()[0]) == singles(index, expected)
        assert matches(index, expected) == singles(index, expected)
    assert singles(index, expected), "the filters ask for something that is there"


@given(
    tuning=st.sampled_from(list(TUNINGS)),
    chosen=st.lists(filters, max_size=9),
    events=st.lists(notifications, max_size=6),
    split=st.booleans(),
)
def test_any_events_as_a_list_give_what_they_give_one_by_one(
    tuning: str, chosen: list[Filter], events: list[Notification], split: bool
) -> None:
    with tuned(tuning):
        index = (in_segments if split else folded)(enumerate(chosen))
        assert matches(index, events) == singles(index, events)


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    """Columns of one domain each, with nulls, in chunks."""
    length = draw(st.integers(0, 6))
    columns = {}
    for name in draw(st.sets(st.sampled_from([*NAMES, "nobody names this"]))):
        domain = draw(st.sampled_from([*POOLS, "set"]))
        if domain == "set":
            element = st.one_of(st.none(), st.lists(st.sampled_from(["a", "b", "c"]), max_size=3))
        else:
            pool = [v for v in POOLS[domain] if domain != "number" or abs(v) < 2**63]
            if domain == "number" and draw(st.booleans()):
                pool = [v for v in pool if isinstance(v, int)]
            elif domain == "number":
                pool = [float(v) for v in pool]
            element = st.one_of(st.none(), st.sampled_from(pool))
        column = pa.array(draw(st.lists(element, min_size=length, max_size=length)))
        cut = draw(st.integers(0, length))
        columns[name] = pa.chunked_array([column.slice(0, cut), column.slice(cut)], column.type)
    return pa.table(columns)


@given(
    tuning=st.sampled_from(list(TUNINGS)),
    chosen=st.lists(filters, max_size=9),
    table=tables(),
    split=st.booleans(),
)
def test_any_table_gives_what_its_rows_give_one_by_one(
    tuning: str, chosen: list[Filter], table: Any, split: bool
) -> None:
    with tuned(tuning):
        index = (in_segments if split else folded)(enumerate(chosen))
        assert matches(index, table) == singles(index, rows_of(table))


# -- shapes ----------------------------------------------------------------------------------


def test_a_table_without_rows_matches_nothing() -> None:
    index = an_index("x = 1", "TRUE", "x LIKE '%a'", "x CONTAINS 'a'")
    for column in (pa.array([], pa.int64()), pa.chunked_array([], pa.list_(pa.string()))):
        assert matches(index, pa.table({"x": column})) == []
    assert matches(index, pa.table({})) == []
    assert matches(index, []) == []


def test_a_table_without_columns_still_has_events() -> None:
    index = an_index("x = 1", "TRUE", "NOT EXISTS x")
    table = pa.table({"other": [1, 2, 3]}).select([])
    assert matches(index, table) == [
        (n, text) for n in range(3) for text in ("NOT EXISTS x", "TRUE")
    ]
    assert matches(index, table.to_batches()[0]) == matches(index, table)


def test_columns_that_nobody_names_are_not_even_read() -> None:
    index = an_index("x = 1", "EXISTS x")
    unreadable = {
        "decimal": pa.array([Decimal("1.5")]),
        "date": pa.array([date(2026, 11, 15)]),
        "nan": pa.array([math.nan]),
        "nanoseconds": pa.array([1_500], pa.timestamp("ns")),
        "duration": pa.array([timedelta(1)]),
    }
    table = pa.table({"x": [1], **unreadable})
    assert matches(index, table) == [(0, "EXISTS x"), (0, "x = 1")]


@pytest.mark.parametrize("asked", ["x > 1", "EXISTS x", "x = 'a'", "x CONTAINS 1"])
@pytest.mark.parametrize(
    "column",
    [
        pa.array([Decimal("1.5")]),
        pa.array([date(2026, 11, 15)]),
        pa.array([timedelta(1)]),
        pa.array([timedelta(1)]).dictionary_encode(),
    ],
    ids=["decimal", "date", "duration", "dictionary"],
)
def test_a_column_that_holds_no_values_is_refused_by_name_if_somebody_names_it(
    column: Any, asked: str
) -> None:
    with pytest.raises(NotificationError, match="'x'") as refusal:
        an_index(asked).match_batch(pa.table({"x": column}))
    assert refusal.value.field == "x"


@pytest.mark.parametrize("asked", ["x > 1", "x > 1 OR x = 'a'", "EXISTS x", "x IS NOT STRING"])
@pytest.mark.parametrize("kind", [pa.float64(), pa.float32(), pa.float16()], ids=str)
def test_nan_is_refused_with_its_column_and_row(kind: Any, asked: str) -> None:
    column = pa.array([2.0] * 200 + [None, math.nan, 3.0], kind)
    with pytest.raises(NotificationError, match=r"'x'.*row 201\b.*NaN") as refusal:
        an_index(asked).match_batch(pa.table({"x": column}))
    assert refusal.value.field == "x"


@pytest.mark.parametrize("asked", ["x > TIMESTAMP '2020-01-01T00:00:00Z'", "EXISTS x"])
@pytest.mark.parametrize(
    "column",
    [
        pa.array([1_500], pa.timestamp("ns")),
        pa.array([2**60], pa.timestamp("s")),
        pa.array([[1_500]], pa.list_(pa.timestamp("ns"))),
    ],
    ids=["nanoseconds", "out of range", "in a list"],
)
def test_a_time_that_has_no_place_is_refused_by_name(column: Any, asked: str) -> None:
    index = an_index(asked, "x CONTAINS TIMESTAMP '2020-01-01T00:00:00Z'")
    with pytest.raises(NotificationError, match=r"'x'.*microsecond"):
        index.match_batch(pa.table({"x": column}))


def test_an_attribute_given_twice_is_refused_by_name() -> None:
    nested = pa.table({"a": pa.array([{"b": 1}]), "a.b": [2]})
    with pytest.raises(NotificationError, match=r"'a\.b'.*twice"):
        an_index("a.b = 1").match_batch(nested)
    twice = pa.table([pa.array([1]), pa.array([2])], names=["x", "x"])
    with pytest.raises(NotificationError, match=r"'x'.*twice"):
        an_index("x = 1").match_batch(twice)


def test_an_attribute_can_change_its_domain_from_batch_to_batch() -> None:
    index = an_index("x = 1", "x = 'a'", "x = true", "x CONTAINS 'a'")
    for column, key in (
        ([1], "x = 1"),
        (["a"], "x = 'a'"),
        ([True], "x = true"),
        ([["a"]], "x CONTAINS 'a'"),
        ([1.0], "x = 1"),
    ):
        assert matches(index, pa.table({"x": column})) == [(0, key)]


# -- keys and results ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "keys",
    [[1, 2], ["a", "b"], [b"a", b"b"], [True, False], [1, 2.5], [-(2**63), 2**63 - 1]],
    ids=repr,
)
def test_keys_come_back_as_they_were(keys: list[Any]) -> None:
    index = folded((key, Filter.all()) for key in keys)
    _, found = index.match_batch(pa.table({"x": [1]}))
    assert sorted(found.to_pylist()) == sorted(keys)


@pytest.mark.parametrize(
    "keys",
    [[(1, 2)], [("a", 1)], [1, "a"], [frozenset({1})], [2**63], [object()]],
    ids=["tuple", "tuple of two kinds", "two kinds", "set", "huge", "object"],
)
def test_keys_that_arrow_cannot_hold_are_refused_and_match_still_takes_them(
    keys: list[Any],
) -> None:
    index = folded((key, Filter.parse("x = 1")) for key in keys)
    with pytest.raises(TidingsError, match=r"one kind, such as integers or strings"):
        index.match_batch(pa.table({"x": [1]}))
    assert set(index.match(Notification({"x": 1}))) == set(keys)
    assert matches(index, pa.table({"x": [2]})) == [], "what matches nothing needs no type"


@pytest.mark.parametrize("for_a_thread", [1, 7, 1_000])
def test_results_may_be_larger_than_the_room_for_them(
    for_a_thread: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch, "_ROOM", 64)
    monkeypatch.setattr(batch, "_FOR_A_THREAD", for_a_thread)
    monkeypatch.setattr("os.cpu_count", lambda: 5)
    texts = [f"x >= {n}" for n in range(30)] + [f"x >= {n} AND x IS NOT STRING" for n in range(10)]
    index = an_index(*texts, "NOT EXISTS y")
    table = pa.table({"x": [n % 40 for n in range(500)]})
    expected = [(r, f"x >= {n}") for r in range(500) for n in range(min(30, r % 40 + 1))]
    expected += [(r, t) for r in range(500) for n, t in enumerate(texts[30:]) if n <= r % 40]
    expected += [(r, "NOT EXISTS y") for r in range(500)]
    assert matches(index, table) == sorted(expected, key=repr)


@pytest.mark.slow
def test_a_million_matches_are_all_found() -> None:
    index = folded((n, Filter.parse(f"x >= {n}")) for n in range(1_000))
    rows, keys = index.match_batch(pa.table({"x": [999] * 1_000}))
    assert len(rows) == len(keys) == 1_000_000
    assert rows.to_numpy().reshape(1_000, 1_000).min(axis=1).tolist() == list(range(1_000))
    assert sorted(keys.to_pylist()[:1_000]) == list(range(1_000))


def test_what_was_added_or_removed_since_is_seen_by_the_next_batch() -> None:
    index = an_index("x = 1", "x = 2")
    table = pa.table({"x": [1, 2]})
    assert matches(index, table) == [(0, "x = 1"), (1, "x = 2")]
    index.remove("x = 1")
    index.add("x > 1", Filter.parse("x > 1"))
    assert matches(index, table) == [(1, "x = 2"), (1, "x > 1")]


def test_learning_from_a_table_changes_no_answer() -> None:
    numbers = [*(n % 300 for n in range(2_000)), *[7] * 60]
    texts = [f"x = {number} AND y = 'a{number % 2}'" for number in numbers]
    index = folded(enumerate(map(Filter.parse, texts)))
    table = pa.table({"x": [7] * 3_000, "y": [f"a{n % 2}" for n in range(3_000)]})
    before = index.match(Notification({"x": 7, "y": "a1"}))
    found = matches(index, table)
    assert len(found) == 3_000 / 2 * len(before)
    assert index.explain()["segments"][0]["events learnt from"] > 0
    assert sorted(index.match(Notification({"x": 7, "y": "a1"}))) == sorted(before)


def test_bit_sets_are_not_looked_at_for_a_few_filters_that_have_values() -> None:
    """A value that is in the sample by chance seems to be frequent."""
    symbols = [f"S{n}" for n in range(1_000)]
    filters = [f"symbol = '{symbol}' AND price > {n % 90}" for n, symbol in enumerate(symbols)]
    table = pa.table({"symbol": symbols, "price": [n % 100 for n in range(1_000)]})
    index = Index()
    index.add_many(enumerate(map(Filter.parse, filters[:500])))
    rows, keys = index.match_batch(table)
    assert rows.to_pylist() == keys.to_pylist() == [n for n in range(500) if n % 100 > n % 90]
    segment = index.explain()["segments"][0]
    assert (segment["found by a value"], segment["found by bit sets"]) == (500, 0)
    index.add(500, Filter.parse("price > 98"))  # which has none, so that they are needed
    index.match_batch(table)
    assert sum(s["found by bit sets"] for s in index.explain()["segments"]) > 0
