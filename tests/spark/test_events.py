"""Events asked again and again: each answer is right, and all are of the moment of the load."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.matching.strategies import SCHEMA
from tests.spark.brokers import running
from tidings.client import connect_sync
from tidings.events import Filter, FilterError, Notification, TidingsError
from tidings.lakes.lake import Lake
from tidings.spark import events
from tidings.spark.archiving.archive import archive

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("events")]

COLUMNS = "tick BIGINT, symbol STRING, price DOUBLE"
COUNT = 300


class Place(NamedTuple):
    """Where events are, as options say it; and how more of them come there."""

    options: dict[str, str]
    publish: Callable[[int], None]

    def load(self, spark: Any, schema: str | None) -> Any:
        reader = spark.read.format("tidings").options(**self.options)
        return (reader if schema is None else reader.schema(schema)).load()


@pytest.fixture(params=["broker", "lake"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    with running(tmp_path / "broker") as broker:
        lake = Lake(tmp_path / "lake")

        def publish(count: int) -> None:
            with connect_sync(broker.url) as client:
                client.publish_each(quote(n) for n in range(count))
            if request.param == "lake":
                archive(broker.url, lake, until="live")

        publish(COUNT)
        broker_options = {"url": broker.url, "timeout": "5"}
        yield Place(
            broker_options if request.param == "broker" else {"lake": str(lake.path)}, publish
        )


def quote(n: int) -> dict[str, Any]:
    return {"symbol": ("DIS", "KO", "it's")[n % 3], "price": n if n % 10 else "unknown"}


def wanted(filter: str, count: int = COUNT) -> list[int]:
    chosen = Filter.parse(filter)
    return [n + 1 for n in range(count) if chosen.matches(Notification(quote(n)))]


def ticks(frame: Any) -> list[int]:
    return sorted(frame.select("tick").toArrow()["tick"].to_pylist())


def rows_read(frame: Any) -> int:
    """How many rows the source has given to Spark for what was collected."""
    frame.collect()
    scan = frame._jdf.queryExecution().executedPlan().collectLeaves().head()
    return int(scan.metrics().apply("numOutputRows").value())


@pytest.fixture(scope="module")
def pushing(spark: Any) -> Iterator[Any]:
    """A session in which somebody has other sources push filters, so that Spark plans anew."""
    setting = "spark.sql.python.filterPushdown.enabled"
    before = spark.conf.get(setting)
    spark.conf.set(setting, "true")
    yield spark
    spark.conf.set(setting, before)


def test_each_question_is_answered_rightly_and_only_what_it_wants_is_read(
    pushing: Any, place: Place
) -> None:
    asked = events(pushing, **place.options, schema=COLUMNS)
    low, high = "price < 50", "price > 200 AND symbol = 'it''s'"
    one, other = asked.where(low), asked.where(Filter.parse(high))
    assert ticks(one.union(other)) == sorted(wanted(low) + wanted(high))
    assert ticks(one) == wanted(low)
    assert ticks(other) == wanted(high)
    assert (one.count(), asked.dataframe().count(), one.count()) == (len(ticks(one)), COUNT, 45)
    assert rows_read(other) == len(wanted(high))
    both = one.where("symbol = 'KO'").union(other.where("tick > 250")).union(asked.where("FALSE"))
    assert ticks(both) == sorted(
        wanted(f"{low} AND symbol = 'KO'") + [t for t in wanted(high) if t > 250]
    )
    assert ticks(asked.where("price IS STRING")) == wanted("price IS STRING")


def test_all_that_is_asked_of_one_load_is_asked_of_the_same_events(
    pushing: Any, place: Place
) -> None:
    low = "price < 50"
    asked = events(pushing, **place.options)
    loaded = place.load(pushing, None)
    place.publish(10)
    assert loaded.count() == COUNT, "as it was when it was loaded"
    typed = place.load(pushing, COLUMNS)
    assert typed.count() == COUNT + 10, "Spark asks for nothing of it before"
    for _ in range(2):
        assert asked.dataframe().count() == COUNT
        assert ticks(asked.where(low)) == wanted(low)
        for frame, count in ((loaded, COUNT), (typed, COUNT + 10)):
            assert frame.union(frame.where("tick > 0")).count() == 2 * count
            assert frame.where("tick > 100").count() == count - 100
            assert frame.count() == count
        place.publish(10)
    assert events(pushing, **place.options).dataframe().count() == COUNT + 30


def test_events_lie_between_two_places(spark: Any, place: Place) -> None:
    def found(**options: Any) -> list[int]:
        return ticks(events(spark, **place.options, **options).where("EXISTS price"))

    assert found(since={"paris": 10}, until="paris:20") == list(range(11, 21))
    recent = events(spark, **place.options, since=timedelta(hours=1))
    assert recent.dataframe().count() == COUNT
    assert found(until=timedelta(hours=1)) == []


def test_what_is_wrong_is_said_before_spark_is_asked(spark: Any, place: Place) -> None:
    asked = events(spark, **place.options)
    with pytest.raises(FilterError, match="expected"):
        asked.where("price > > 50")
    with pytest.raises(TidingsError, match=r"where takes a filter, .* dataframe\(\)\.where"):
        asked.where(asked.dataframe().tick > 5)  # type: ignore[arg-type]
    with pytest.raises(TidingsError, match=r"do not know the types that IS A refers to"):
        asked.where(Filter.parse("symbol IS A 'stock'", schema=SCHEMA))
    for options, words in (
        ({"filter": "price > 50"}, "option filter: .* say it to where"),
        ({"pushdown": "true"}, "there is no option 'pushdown'"),
        ({"since": "yesterday"}, "option since: 'yesterday' says no place"),
        ({"until": "begin"}, "begin"),
    ):
        with pytest.raises(TidingsError, match=words):
            events(spark, **place.options, **options)  # type: ignore[arg-type]


def test_a_notebook_has_an_event_loop_already(spark: Any, place: Place) -> None:
    async def cell() -> int:
        return int(events(spark, **place.options).where("symbol = 'KO'").count())

    assert asyncio.run(cell()) == COUNT // 3


def test_what_is_loaded_while_the_broker_is_down_is_no_batch_later_either(
    spark: Any, tmp_path: Path
) -> None:
    with running(tmp_path / "broker") as broker:
        place = Place({"url": broker.url, "timeout": "0.5"}, lambda count: None)
        kept = place.load(spark, None)
        broker.kill()
        with pytest.raises(TidingsError, match="no broker can be reached"):
            events(spark, **place.options)
        with pytest.raises(Exception, match="it could not be loaded: no broker can be reached"):
            place.load(spark, None)
        typed = place.load(spark, COLUMNS)
        for frame in (kept, typed):
            with pytest.raises(Exception, match="no broker can be reached"):
                frame.count()
        broker.start()
        with connect_sync(broker.url) as client:
            client.publish(quote(1))
        assert kept.count() == 0, "it was loaded before"
        with pytest.raises(Exception, match="it could not be loaded: no broker can be reached"):
            typed.count()
        assert place.load(spark, COLUMNS).count() == 1
