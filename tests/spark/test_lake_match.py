"""Reading and matching a lake on Spark finds what the filters say, whatever events hold."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.lakes.filled import ODD, START, fill
from tests.lakes.test_bodies import OBJECTS_AND_OTHERS, TEXTS
from tests.matching.strategies import NAMES, SCHEMA
from tests.spark.test_columns import conditions
from tidings.events import Filter, Notification, TidingsError
from tidings.events.phrases import name_text
from tidings.lakes.lake import Lake
from tidings.lakes.layout import Archived, to_events
from tidings.spark import column, install, match, maybe

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("lake_match")]


def random_filters(count: int, seed: int) -> dict[str, Filter]:
    """Of all classes of constraints, over the attributes of the odd events."""
    chance = Random(seed)
    texts = conditions()
    names = [*map(name_text, [*NAMES, "symbol", "quantity", "Ärger", "_hidden", "time", "id"])]
    shapes = ["{}", "{} AND {}", "{} OR {}", "NOT ({} AND {})", "({} OR {}) AND {}"]
    found = {}
    for number in range(count):
        parts = [next(texts).format(chance.choice(names)) for _ in range(3)]
        text = chance.choice(shapes).format(*parts)
        found[f"ключ {number}"] = Filter.parse(text, schema=SCHEMA)
    return found


FILTERS = random_filters(150, 3)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Archived]]:
    path = tmp_path_factory.mktemp("lakes") / "lake"
    return path, fill(path, ODD)


def expected(events: list[Archived], filters: dict[str, Filter]) -> dict[str, list[str]]:
    keys = {
        event.id: sorted(k for k, f in filters.items() if f.matches(event.notification))
        for event in events
    }
    return {id_: found for id_, found in keys.items() if found}


def found(matched: Any) -> dict[str, list[str]]:
    table = matched.select("id", "matches").toArrow()
    lists = {r["id"]: sorted(r["matches"]) for r in table.to_pylist()}
    assert len(lists) == table.num_rows, "each event once"
    return lists


def test_a_lake_is_matched_as_the_filters_say(
    spark: Any, lake: tuple[Path, list[Archived]], tmp_path: Path
) -> None:
    path, events = lake
    wanted = expected(events, FILTERS)
    parts = match(Lake(path), FILTERS, memory=15_000, columns=["tick", "x"], folder=tmp_path)
    assert len(list(tmp_path.iterdir())) > 2, "the filters are in parts"
    assert parts.columns == ["tick", "x", "matches"]
    several = match(str(path), FILTERS, memory=15_000, combine=False)
    rows = several.select("id", "matches").toArrow().to_pylist()
    assert len({r["id"] for r in rows}) < len(rows), "one for each part that it matches in"
    together: dict[str, list[str]] = {}
    for row in rows:
        together.setdefault(row["id"], []).extend(row["matches"])
    assert {id_: sorted(keys) for id_, keys in together.items()} == wanted
    assert found(match(path, FILTERS, memory=15_000)) == wanted
    assert found(match(path, FILTERS)) == wanted


def test_what_comes_along_is_chosen(spark: Any, lake: tuple[Path, list[Archived]]) -> None:
    path, events = lake
    numbered = dict(enumerate(FILTERS.values()))
    since, only = START.replace(minute=55), Filter.parse("NOT quantity = 3")
    matched = match(
        path, numbered, keep=True, column="who", columns=["id", "day", "symbol"], since=since,
        filter=only,
    )  # fmt: skip
    assert (
        matched.schema.simpleString() == "struct<id:string,day:date,symbol:string,who:array<int>>"
    )
    inside = [e for e in events if e.time >= since and only.matches(e.notification)]
    rows = {row["id"]: row for row in matched.toArrow().to_pylist()}
    assert rows.keys() == {event.id for event in inside}
    for event in inside:
        row, said = rows[event.id], event.notification
        assert sorted(row["who"]) == [n for n, f in numbered.items() if f.matches(said)]
        assert (row["day"], row["symbol"]) == (event.time.date(), said.get("symbol"))
    typed = Filter.parse("x IS A 'stock'", schema=SCHEMA)
    stocks = match(path, {"all": Filter.all()}, filter=typed)
    assert sorted(found(stocks)) == sorted(e.id for e in events if typed.matches(e.notification))
    parts = match(path, numbered, keep=True, memory=15_000, since=since)
    kept = parts.select("id", "matches").toArrow().to_pylist()
    assert sorted(r["id"] for r in kept) == sorted(e.id for e in events if e.time >= since)
    assert match(path, numbered, since="2030-01-01").where("matches IS NOT NULL").count() == 0
    last = match(path, numbered, keep=True).where("stream = 'rome' AND tick > 200")
    assert last.count() == sum(e.stream == "rome" and e.tick > 200 for e in events) > 0
    with pytest.raises(TidingsError, match="no column 'price'; there are id, stream"):
        match(path, numbered, columns=["price"])
    with pytest.raises(TidingsError, match="there is no lake here"):
        match(path / "missing", numbered)
    with pytest.raises(TidingsError, match="all whole numbers"):
        match(path, {"a": Filter.all(), 1: Filter.all()})
    with pytest.raises(TidingsError, match="are for lakes"):
        match(spark.range(1), numbered, since="begin")


@pytest.mark.parametrize("memory", [None, 15_000])
def test_a_column_of_that_name_is_refused_for_any_number_of_parts(
    spark: Any, lake: tuple[Path, list[Archived]], memory: int | None
) -> None:
    for name, columns in (("Time", None), ("id", ["x"]), ("X", ["x"])):
        with pytest.raises(TidingsError, match=f"there is a column '{name}' already"):
            match(lake[0], FILTERS, column=name, columns=columns, memory=memory)
    with pytest.raises(TidingsError, match="an index needs memory"):
        match(lake[0], FILTERS, memory=0)


def published(said: Notification) -> dict[str, Any]:
    """What was published, as columns say it."""
    is_json = said.bytes_type is None
    return {
        "body": said.body.decode() if is_json else None,
        "content": None if is_json else said.body,
        "content_type": said.content_type,
    }


def test_an_object_is_there_for_all_who_look_through_a_lake(spark: Any, tmp_path: Path) -> None:
    install(spark)
    filters = {text: Filter.parse(text) for text in TEXTS}
    events = fill(tmp_path / "lake", OBJECTS_AND_OTHERS)
    rows = spark.read.format("tidings").option("lake", str(tmp_path / "lake")).load()
    assert "data$present" in rows.columns
    wanted = expected(events, filters)
    told = rows.select(
        "id", *[column(f, rows.schema).alias(f"f{n}") for n, f in enumerate(filters.values())]
    )
    likely = rows.select(
        "id", *[maybe(f, rows.schema).alias(f"f{n}") for n, f in enumerate(filters.values())]
    )
    said = {
        row["id"]: sorted(text for n, text in enumerate(filters) if row[f"f{n}"])
        for row in told.toArrow().to_pylist()
    }
    assert {id_: texts for id_, texts in said.items() if texts} == wanted
    for row in likely.toArrow().to_pylist():
        assert all(row[f"f{n}"] for n, text in enumerate(filters) if text in said[row["id"]])
    assert found(match(rows, filters, few=0)) == wanted
    assert found(match(tmp_path / "lake", filters)) == wanted


def test_a_lake_is_a_table(spark: Any, lake: tuple[Path, list[Archived]]) -> None:
    path, events = lake
    install(spark)
    rows = spark.read.format("tidings").option("lake", str(path)).load()
    back = sorted(to_events(rows.toArrow()), key=lambda e: (e.time, e.stream))
    assert [(e.id, e.time, e.notification.attributes) for e in back] == [
        (e.id, e.time, e.notification.attributes) for e in events
    ]
    whole = "id STRING, body STRING, content BINARY, content_type STRING"
    exact = spark.read.format("tidings").option("lake", str(path)).schema(whole).load()
    assert {r.pop("id"): r for r in exact.toArrow().to_pylist()} == {
        e.id: published(e.notification) for e in events
    }
    some = match(path, {"S2": "symbol = 'S2'"}, columns=["id", "body"]).toArrow().to_pylist()
    assert {r["id"]: r["body"] for r in some} == {
        e.id: published(e.notification)["body"] for e in events
        if e.notification.get("symbol") == "S2"
    }  # fmt: skip
    some = (
        spark.read.format("tidings").option("lake", str(path)).option("filter", "symbol = 'S2'")
        .option("until", "paris:150").schema("tick BIGINT, attributes STRING, symbol STRING").load()
    )  # fmt: skip
    said = {row["tick"]: row for row in some.toArrow().to_pylist()}
    mine = [
        e for e in events
        if e.stream == "paris" and e.tick <= 150 and e.notification.get("symbol") == "S2"
    ]  # fmt: skip
    assert {t: r["attributes"] for t, r in said.items()} == {
        e.tick: e.notification.to_json() for e in mine
    }
    with pytest.raises(Exception, match="there is no option 'filtre' where a lake is read"):
        spark.read.format("tidings").options(lake=str(path), filtre="TRUE").load()


def test_what_was_loaded_stays_as_it_was(spark: Any, tmp_path: Path) -> None:
    install(spark)
    fill(tmp_path, [Notification({"price": 1.5})], commits=1)
    rows = spark.read.format("tidings").option("lake", str(tmp_path)).load()
    matched = match(tmp_path, {"calm": "NOT EXISTS alarm"})
    more = [Notification({"alarm": True}), Notification({"price": "n/a"})]
    Lake(tmp_path).append(
        [Archived("oslo", n, START, said) for n, said in enumerate(more, start=1)], "w", 1
    )
    # Of the columns that are new, what was loaded knows nothing: it would say of an alarm that
    # there is none.
    for text in ("NOT EXISTS alarm", "EXISTS price"):
        assert rows.where(column(text, rows.schema)).count() == 1
    assert list(found(matched).values()) == [["calm"]]
    assert spark.read.format("tidings").option("lake", str(tmp_path)).load().count() == 3


def test_a_frame_can_be_asked_again_and_otherwise(
    spark: Any, lake: tuple[Path, list[Archived]]
) -> None:
    path, events = lake
    install(spark)
    rows = spark.read.format("tidings").option("lake", str(path)).load()
    matched = match(path, {"all": Filter.all()})
    low = sum(event.tick <= 10 for event in events)
    for frame in (rows, matched):
        assert frame.where("tick <= 10").count() == low
        assert frame.count() == len(events)
        assert frame.where("tick <= 10").union(frame.where("tick > 10")).count() == len(events)


def test_all_ways_to_ask_a_lake_agree(spark: Any, lake: tuple[Path, list[Archived]]) -> None:
    path, events = lake
    install(spark)
    rows = spark.read.format("tidings").option("lake", str(path)).load().cache()
    some = dict(list(FILTERS.items())[:40:2])
    truths = rows.select(
        "id",
        *[column(f, rows.schema).alias(f"{n}") for n, f in enumerate(some.values())],
        *[maybe(f, rows.schema).alias(f"maybe {n}") for n, f in enumerate(some.values())],
    ).toArrow()
    said = {event.id: event.notification for event in events}
    surplus = 0
    for row in truths.to_pylist():
        for n, wanted in enumerate(some.values()):
            assert row[f"{n}"] is wanted.matches(said[row["id"]]), f"{wanted} on {said[row['id']]}"
            assert row[f"maybe {n}"] or not row[f"{n}"]
            surplus += row[f"maybe {n}"] and not row[f"{n}"]
    assert 0 < surplus < len(some) * len(events) / 4
    assert found(match(rows, FILTERS)) == expected(events, FILTERS)
    few = {n: f for n, f in enumerate(some.values()) if n < 3}
    kept = match(rows, few, keep=True).select("id", "matches").toArrow()
    assert {r["id"]: sorted(r["matches"]) for r in kept.to_pylist()} == {
        event.id: [n for n, f in few.items() if f.matches(event.notification)] for event in events
    }
    for text in (
        "symbol = 'S2' AND quantity BETWEEN 2 AND 5",
        "symbol IN ('S1', 'S3') OR quantity > 5",
        "symbol LIKE 'S%' AND NOT quantity = 3",
    ):
        ours = rows.where(maybe(text, rows.schema)).where(column(text, rows.schema))
        ids = sorted(ours.select("id").toArrow()["id"].to_pylist())
        assert ids == sorted(rows.where(text).select("id").toArrow()["id"].to_pylist())
        wanted = Filter.parse(text)
        assert ids == sorted(e.id for e in events if wanted.matches(e.notification)) != []
    rows.unpersist()


def test_a_frame_of_a_lake_is_read_as_rows_are_whatever_spark_and_others_made_of_it(
    spark: Any, tmp_path: Path
) -> None:
    from pyspark.sql import functions as F  # noqa: N812

    noon = START.replace(hour=12, minute=0)
    added = {
        "short": ("CAST(2 AS SMALLINT)", 2),
        "cost": ("CAST(1.5 AS DECIMAL(10, 2))", 1.5),
        "due": ("DATE '2026-11-14'", START.replace(hour=0, minute=0)),
        "all": ("array(TIMESTAMP_NTZ '2026-11-14 12:00:00')", [noon]),
        "hole": ("array('a', NULL)", ["a", None]),
        "deep": ("array(array(1))", [[1]]),
        "nan": ("CAST('NaN' AS DOUBLE)", None),
        "void": ("NULL", None),
        "struct": ("named_struct('field', 1)", None),  # which no filter here asks for
    }
    said = [{"when": noon, "of": {"a", "b"}}, {"when": {1, 2}, "raw": b"x"}, {"when": "noon"}]
    fill(tmp_path, [Notification(each) for each in said], commits=1)
    values = {name: value for name, (_, value) in added.items()}
    texts = [
        "when >= TIMESTAMP '2026-11-14T12:00:00Z' AND of CONTAINS 'a'",
        "when = 'noon' OR raw = X'78' OR EXISTS void",
        "EXISTS when AND cost = 1.5 AND short = 2",
        "EXISTS when AND due = TIMESTAMP '2026-11-14T00:00:00Z'",
        "EXISTS when AND all CONTAINS TIMESTAMP '2026-11-14T12:00:00Z'",
        "EXISTS when AND EXISTS deep AND NOT EXISTS nan",
        "EXISTS when AND EXISTS hole",
        "EXISTS when AND hole CONTAINS 'a'",
    ]
    events = [Notification({**each, **values}) for each in said]
    truths = {text: [Filter.parse(text).matches(each) for each in events] for text in texts}
    install(spark)
    settings = {"session.timeZone": "Europe/Paris", "execution.arrow.useLargeVarTypes": "true"}
    before = {name: spark.conf.get(f"spark.sql.{name}") for name in settings}
    lake = spark.read.format("tidings").option("lake", str(tmp_path)).load()
    rows = lake.select("*", *(F.expr(sql).alias(name) for name, (sql, _) in added.items()))
    try:
        for name, value in settings.items():
            spark.conf.set(f"spark.sql.{name}", value)
            conditions = [column(text, rows.schema).alias(text) for text in texts]
            table = rows.orderBy("time").select(*conditions).toArrow()
            assert table.to_pydict() == truths
            matched = match(rows, {text: text for text in texts}, keep=True)
            lists = matched.orderBy("time").select("matches").toArrow()["matches"].to_pylist()
            assert {t: [t in keys for keys in lists] for t in texts} == truths
    finally:
        for name, value in before.items():
            spark.conf.set(f"spark.sql.{name}", value)
