"""The format "tidings", read: against what the brokers' logs hold."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from tests.client.brokers import BrokerProcess
from tests.network.brokers import Network
from tests.spark.brokers import log_of, running
from tidings.client import connect, connect_sync
from tidings.events import Filter, Notification
from tidings.lakes.lake import Lake
from tidings.lakes.layout import Archived
from tidings.protocol.messages import Event
from tidings.spark import install
from tidings.spark.bulk.registrations import ALL, cancellation, registration
from tidings.spark.format.variants import decode

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("source")]

COUNT = 3_000
NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)
SYMBOLS = ("DIS", "KO", "it's", "D_S")


def quotes(count: int, *, seed: int = 1) -> Iterator[dict[str, Any]]:
    """Quotes of all shapes: some without a price, some where the price is a text."""
    draw = random.Random(seed)
    begin = datetime(2026, 11, 1, tzinfo=UTC)
    for number in range(count):
        quote: dict[str, Any] = {"number": number, "symbol": draw.choice(SYMBOLS)}
        kind = draw.randrange(10)
        if kind < 7:
            quote["price"] = draw.choice((draw.randrange(100), draw.uniform(0, 100)))
        elif kind == 7:
            quote["price"] = "unknown"
        elif kind == 8:
            quote["price"] = 2**70 + 1
        quote["tags"] = draw.sample(["media", "us", "tech"], draw.randrange(3))
        quote["at"] = begin + timedelta(microseconds=draw.randrange(10**12))
        yield quote


@pytest.fixture(scope="module")
def installed(spark: Any) -> Any:
    install(spark)
    return spark


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker with a log that stays as it is."""
    with running(tmp_path_factory.mktemp("broker")) as found:
        with connect_sync(found.url) as client:
            client.publish_each(quotes(COUNT))
        yield found


@pytest.fixture(scope="module")
def log(broker: BrokerProcess) -> list[Event]:
    found = log_of(broker)
    assert len(found) == COUNT
    return found


def past(spark: Any, broker: BrokerProcess, **options: Any) -> Any:
    return spark.read.format("tidings").options(url=broker.url, timeout=5, **options)


def test_a_batch_is_the_log(installed: Any, broker: BrokerProcess, log: list[Event]) -> None:
    frame = past(installed, broker, partitionTicks=700).load()
    assert frame.rdd.getNumPartitions() == 5
    rows = frame.collect()
    assert sorted(r.tick for r in rows) == [e.tick for e in log]
    for row in rows:
        event = log[row.tick - 1]
        assert (row.id, row.stream) == (f"paris:{event.tick}", "paris")
        found = {name: decode(v.value, v.metadata) for name, v in row.attributes.items()}
        assert Notification(found).attributes == event.notification.attributes
        assert abs(row.time.timestamp() - event.time) < 1e-5


def test_attributes_can_be_asked_for_as_json(
    installed: Any, broker: BrokerProcess, log: list[Event]
) -> None:
    rows = past(installed, broker).schema("tick BIGINT, attributes STRING").load().collect()
    found = {row.tick: Notification.from_json(row.attributes) for row in rows}
    assert found == {event.tick: event.notification for event in log}


def test_a_where_can_look_into_the_attributes(
    installed: Any, broker: BrokerProcess, log: list[Event]
) -> None:
    where = "try_variant_get(attributes['price'], '$', 'double') > 50"
    where = f"attributes['symbol']::string = 'DIS' AND {where}"
    found = past(installed, broker).load().where(where).collect()
    wanted = Filter.parse("symbol = 'DIS' AND price > 50")
    assert sorted(r.tick for r in found) == [e.tick for e in log if wanted.matches(e.notification)]


@pytest.mark.parametrize("filter", ["symbol = 'DIS' AND price > 50", "price IS STRING", "FALSE"])
def test_a_filter_is_the_brokers_affair(
    installed: Any, broker: BrokerProcess, log: list[Event], filter: str
) -> None:
    wanted = Filter.parse(filter)
    found = past(installed, broker, filter=filter, partitionTicks=1000).load().collect()
    assert sorted(r.tick for r in found) == [e.tick for e in log if wanted.matches(e.notification)]


COLUMNS = "tick BIGINT, symbol STRING, price DOUBLE, number INT, tags ARRAY<STRING>, at TIMESTAMP"


def expected(event: Event) -> dict[str, Any]:
    """What the columns should say of an event."""
    said = event.notification
    price = said.get("price")
    fits = isinstance(price, int | float) and price < 2**53
    return {
        "tick": event.tick,
        "symbol": said["symbol"],
        "price": float(price) if fits else None,
        "number": said["number"],
        "tags": sorted(said["tags"]),
        "at": said["at"],
    }


def test_attributes_are_columns_and_null_where_they_do_not_fit(
    installed: Any, broker: BrokerProcess, log: list[Event]
) -> None:
    table = past(installed, broker).schema(COLUMNS).load().orderBy("tick").toArrow()
    assert table.to_pylist() == [expected(event) for event in log]


def test_a_batch_can_be_asked_again_and_otherwise(
    installed: Any, broker: BrokerProcess, log: list[Event]
) -> None:
    frame = past(installed, broker).schema(COLUMNS).load()
    early, late = frame.where("number < 100"), frame.where("number >= 100")
    assert 0 < early.count() < COUNT
    assert frame.count() == early.union(late).count() == COUNT


def test_a_misfit_can_be_an_error(installed: Any, broker: BrokerProcess) -> None:
    frame = past(installed, broker, onMismatch="fail").schema("price DOUBLE").load()
    with pytest.raises(Exception, match=r"event paris:\d+: price is .* does not fit DOUBLE"):
        frame.collect()


def test_a_batch_lies_between_two_places(
    installed: Any, broker: BrokerProcess, log: list[Event]
) -> None:
    def ticks(**options: Any) -> list[int]:
        return sorted(r.tick for r in past(installed, broker, **options).load().collect())

    assert ticks(since="paris:10", until="paris:20") == list(range(11, 21))
    assert ticks(since="paris:2990") == list(range(2991, COUNT + 1))
    middle = log[COUNT // 2].time
    moment = datetime.fromtimestamp(middle, UTC) + timedelta(microseconds=1)
    split = sum(e.time < moment.timestamp() for e in log)
    assert ticks(until=moment.isoformat()) == list(range(1, split + 1))
    assert ticks(since=moment.isoformat()) == list(range(split + 1, COUNT + 1))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"filtre": "a = 1"}, "there is no option 'filtre'.*filter"),
        ({"filter": "a = = 1"}, "expected"),
        ({"path": "/quotes"}, "option path: .* use the option url .* or lake"),
        ({"since": "yesterday"}, "option since: 'yesterday' says no place: give begin"),
        ({"since": "paris:999999"}, "stream paris ends at tick 3000.*lost what came behind"),
        ({"onGap": "stop"}, "option onGap: 'stop' is none of fail, continue"),
        ({"timeout": "soon"}, "option timeout: 'soon' is no number of seconds"),
        ({"partitionTicks": "0"}, "option partitionTicks: '0' is no whole number"),
        ({"maxEventsPerTrigger": "5"}, "maxEventsPerTrigger: a batch is read as a whole"),
        ({"subscriptions": "/x"}, "option subscriptions: of a stream only"),
        ({"deliver": "true"}, "option deliver: it needs the option subscriptions"),
        ({"deliver": "perhaps"}, "option deliver: 'perhaps' is none of false, true"),
        ({"url": "http://here"}, "no broker's address"),
        ({"url": "tidings://127.0.0.1:1", "timeout": "0.1"}, "no broker can be reached"),
    ],
)
def test_what_is_wrong_with_an_option_is_said(
    installed: Any, broker: BrokerProcess, options: dict[str, str], words: str
) -> None:
    said = {"url": broker.url, **options}
    with pytest.raises(Exception, match=f"(?s){words}"):
        installed.read.format("tidings").options(**said).load().collect()


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ("tick STRING", "column tick is of the event itself and is BIGINT, not STRING"),
        ("a MAP<STRING, STRING>", "column a: no attribute can be MAP<STRING,STRING>"),
        ("a MAP<STRING, VARIANT>", "column a: no attribute can be MAP<STRING,VARIANT>"),
        (
            "attributes MAP<STRING, STRING>",
            "column attributes .* is MAP<STRING,VARIANT> or, as JSON, STRING, not MAP<STRING,STRI",
        ),
    ],
)
def test_columns_that_cannot_be_are_refused(
    installed: Any, broker: BrokerProcess, schema: str, words: str
) -> None:
    with pytest.raises(Exception, match=words):
        past(installed, broker).schema(schema).load().collect()


# -- streams -----------------------------------------------------------------------------------


class Stream:
    """A query that writes what it reads to Parquet, and can be begun again."""

    def __init__(self, spark: Any, url: str, folder: Path, **options: Any) -> None:
        self._spark, self._folder = spark, folder
        self._options = {"url": url, "timeout": 30, **options}

    def start(self, **trigger: Any) -> Any:
        source = self._spark.readStream.format("tidings").options(**self._options).load()
        writer = source.writeStream.format("parquet").trigger(**trigger)
        writer = writer.option("checkpointLocation", str(self._folder / "checkpoint"))
        return writer.start(str(self._folder / "rows"))

    def catch_up(self) -> Any:
        query = self.start(availableNow=True)
        assert query.awaitTermination(60)
        return query

    def ticks(self) -> list[int]:
        if not (self._folder / "rows" / "_spark_metadata").exists():
            return []
        rows = self._spark.read.schema("tick BIGINT").parquet(str(self._folder / "rows")).collect()
        return sorted(row.tick for row in rows)


def test_no_more_is_read_at_a_time_than_was_asked_for(
    installed: Any, broker: BrokerProcess, log: list[Event], tmp_path: Path
) -> None:
    stream = Stream(installed, broker.url, tmp_path, since="begin", maxEventsPerTrigger=1_250)
    query = stream.catch_up()
    sizes = [p.numInputRows for p in query.recentProgress if p.numInputRows]
    assert sizes == [1_250, 1_250, 500]
    assert stream.ticks() == [e.tick for e in log]


def test_another_filter_cannot_go_on_from_a_checkpoint(
    installed: Any, broker: BrokerProcess, tmp_path: Path
) -> None:
    Stream(installed, broker.url, tmp_path, filter="number < 10", since="begin").catch_up()
    other = Stream(installed, broker.url, tmp_path, filter="number < 20", since="begin")
    with pytest.raises(Exception, match="the checkpoint belongs to another filter than"):
        other.catch_up()


def test_a_stream_is_judged_by_the_subscriptions_that_its_offset_names(
    installed: Any, broker: BrokerProcess, log: list[Event], tmp_path: Path
) -> None:
    def register(version: int, *said: Notification) -> None:
        events = [Archived("rome", 10 * version + n, NOON, s) for n, s in enumerate(said)]
        table.append(events, writer="test", version=version)

    def judged(**options: Any) -> dict[int, set[str]]:
        stream = Stream(installed, broker.url, tmp_path, since="begin", **options)
        stream.catch_up()
        rows = installed.read.parquet(str(tmp_path / "rows")).collect()
        return {row.tick: set(row.matches) for row in rows}

    table = Lake(tmp_path / "table", filter=ALL)
    options = {"subscriptions": str(tmp_path / "table"), "maxEventsPerTrigger": 2_000}
    register(1, registration("low", "price < 5"), registration("d", "symbol = 'DIS'"))
    filters = {"low": Filter.parse("price < 5"), "d": Filter.parse("symbol = 'DIS'")}
    expected = {
        e.tick: found
        for e in log
        if (found := {name for name, f in filters.items() if f.matches(e.notification)})
    }
    assert judged(**options) == expected
    # The last batch comes again; meanwhile the table has changed, and it is still the old one.
    for folder in ("checkpoint/commits", "rows/_spark_metadata"):
        for name in ("1", ".1.crc"):
            (tmp_path / folder / name).unlink()
    register(2, cancellation("d"), registration("all", "TRUE"))
    assert judged(**options) == expected
    Lake(tmp_path / "other", filter=ALL)
    with pytest.raises(Exception, match="belongs to other subscriptions"):
        judged(**{**options, "subscriptions": str(tmp_path / "other")})


def test_columns_can_be_those_of_a_lake(
    installed: Any, broker: BrokerProcess, log: list[Event], tmp_path: Path
) -> None:
    lake = Lake(tmp_path / "lake")
    lake.append(log[:50], writer="test", version=1)
    frame = past(installed, broker, schemaOf=str(lake.path)).load()
    assert set(frame.columns) == {"id", "stream", "tick", "time", *log[0].notification, "price"}
    found = frame.select("tick", "symbol", "tags", "at").orderBy("tick").toArrow()
    assert found.to_pylist() == [
        {key: expected(event)[key] for key in ("tick", "symbol", "tags", "at")} for event in log
    ]
    wanted = Lake(tmp_path / "wanted", filter=ALL)
    judged = installed.readStream.format("tidings").option("url", broker.url)
    judged = judged.option("schemaOf", str(lake.path)).option("subscriptions", str(wanted.path))
    assert set(judged.load().columns) == {*frame.columns, "matches"}


MEMORY = """
import sys, tracemalloc
import pyarrow
from tidings.spark.format.bounds import find_bounds
from tidings.spark.format.options import reading
from tidings.spark.format.reader import BatchReader
from pyspark.sql.types import StructType
schema = StructType().add("tick", "long").add("text", "string")
options = reading({"url": sys.argv[1], "filter": sys.argv[2]}, is_stream=False)
reader = BatchReader(options, find_bounds(options), schema)
(whole,) = reader.partitions()
rows = size = 0
tracemalloc.start()
for batch in reader.read(whole):
    rows, size = rows + batch.num_rows, size + batch.nbytes
held = tracemalloc.get_traced_memory()[1], pyarrow.default_memory_pool().max_memory()
print(rows, size, sum(held))
"""


@pytest.mark.parametrize("filter", ["TRUE", "n >= 0"], ids=["copied", "told"])
def test_a_task_holds_no_more_of_a_long_stretch_than_some_batches(
    tmp_path: Path, filter: str
) -> None:
    """However far a producer is ahead, what waits waits on the broker's disk."""
    with running(tmp_path / "broker") as broker:
        with connect_sync(broker.url) as client:
            client.publish_each({"n": n, "text": "x" * 100_000} for n in range(2_400))
        done = subprocess.run(
            [sys.executable, "-c", MEMORY, broker.url, filter],
            capture_output=True,
            text=True,
            timeout=120,
        )
    assert done.returncode == 0, done.stderr
    rows, size, held = map(int, done.stdout.split())
    assert rows == 2_400
    assert held < size


def test_every_event_comes_once_though_broker_and_query_are_stopped(
    installed: Any, tmp_path: Path
) -> None:
    def publish() -> None:
        with connect_sync(broker.url, name="feed") as client:
            while not enough.wait(0.05):  # a few thousand a second are enough
                client.publish_each(quotes(200, seed=client.kept))

    enough = threading.Event()
    with running(tmp_path / "broker") as broker:
        publisher = threading.Thread(target=publish)
        publisher.start()
        try:
            stream = Stream(installed, broker.url, tmp_path, filter="number < 150", since="begin")
            for _ in range(2):
                query = stream.start(processingTime="0 seconds")
                before = len(stream.ticks())
                until(lambda b=before: len(stream.ticks()) > b, query)
                broker.kill()
                broker.start()
                before = len(stream.ticks())
                until(lambda b=before: len(stream.ticks()) > b, query)
                query.stop()
        finally:
            enough.set()
            publisher.join()
        stream.catch_up()
        wanted = [e.tick for e in log_of(broker) if e.notification["number"] < 150]
    assert stream.ticks() == wanted


def until(condition: Any, query: Any) -> None:
    """Wait for something that a query brings about."""
    end = monotonic() + 60
    while not condition():
        assert not query.awaitTermination(0.05), query.exception()
        assert monotonic() < end, "it does not happen"


def test_the_streams_of_a_network_are_read_through_one_broker(
    installed: Any, tmp_path: Path
) -> None:
    """No tick is missing at the end of a stream whose broker is another one."""

    async def network() -> None:
        async with Network(tmp_path, [("a", "b")]) as brokers:
            await brokers.agreed()
            stream = Stream(installed, brokers["a"].url, tmp_path / "s", since="begin", **limits)
            for round in range(2):
                for name, count in (("a", 30), ("b", 500)):
                    async with connect(brokers[name].url) as client:
                        await client.publish_each(quotes(count, seed=round))
                query = stream.catch_up()
                sizes = [p.numInputRows for p in query.recentProgress]
                assert max(sizes) <= 400
            found = installed.read.parquet(str(tmp_path / "s" / "rows")).collect()
            logs = {(e.stream, e.tick) for log in brokers.logs().values() for e in log}
            assert len(found) == len(logs) == 1_060
            assert {(row.stream, row.tick) for row in found} == logs
            reader = installed.read.format("tidings").option("url", brokers["b"].url)
            behind = reader.option("since", "b:990").option("until", "a:7,b:995").load().collect()
            assert {r.id for r in behind} == {f"a:{n}" for n in range(1, 8)} | {
                f"b:{n}" for n in range(991, 996)
            }

    limits = {"maxEventsPerTrigger": 400, "partitionTicks": 150}
    asyncio.run(network())


def test_a_broker_that_stays_away_fails_the_query_with_its_address(
    installed: Any, tmp_path: Path
) -> None:
    with running(tmp_path / "broker") as broker:
        with connect_sync(broker.url) as client:
            client.publish({"number": 1})
        stream = Stream(installed, broker.url, tmp_path, since="begin", timeout=0.5)
        query = stream.start(processingTime="0 seconds")
        until(lambda: stream.ticks() == [1], query)
        broker.kill()
        with pytest.raises(Exception, match=f"no broker can be reached at .*{broker.port}"):
            query.awaitTermination(60)
        broker.start()
        stream.catch_up()
        assert stream.ticks() == [1]


def test_where_events_are_gone_the_query_says_so_or_goes_on(installed: Any, tmp_path: Path) -> None:
    from tidings.broker.store import SQLiteStore

    with running(tmp_path / "broker") as broker:
        stream = Stream(installed, broker.url, tmp_path, since="paris:0")
        with connect_sync(broker.url) as client:
            for number in range(4):
                client.publish_each({"number": number} for _ in range(50))
        broker.stop()
        store = SQLiteStore(broker.folder / "store", broker.name)
        first = store.trim(before=log_of(broker)[120].time)
        store.close()
        assert 1 < first <= 121
        broker.start()
        with pytest.raises(Exception, match=f"no longer kept from tick 1 on: {first - 1} ticks"):
            stream.catch_up()
        Stream(installed, broker.url, tmp_path, since="paris:0", onGap="continue").catch_up()
        assert stream.ticks() == list(range(first, 201))
