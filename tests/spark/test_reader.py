"""Offsets of a stream: what they fix is read again alike, whatever happens to the broker."""

from __future__ import annotations

import asyncio
import json
import pickle
import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.types import LongType, StructType

from tests.client.brokers import BrokerProcess
from tests.network import brokers as networks
from tests.network.brokers import Network
from tests.spark.brokers import log_of, running
from tidings.broker.store import SQLiteStore
from tidings.client import Login, connect_sync
from tidings.events import TidingsError
from tidings.lakes.lake import Lake
from tidings.protocol.requests import Cursor
from tidings.spark.archiving.archive import archive
from tidings.spark.bulk.registrations import ALL, registration
from tidings.spark.format import bounds as bounds_module
from tidings.spark.format import reader as reader_module
from tidings.spark.format.bounds import find_bounds
from tidings.spark.format.options import reading
from tidings.spark.format.reader import BatchReader, StreamReader
from tidings.spark.streams import places
from tidings.spark.streams.absence import Gone

pytestmark = pytest.mark.slow

TICKS = StructType().add("tick", LongType())
AnyBroker = BrokerProcess | networks.BrokerProcess


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with running(tmp_path / "broker") as found:
        yield found


def publish(broker: AnyBroker, count: int) -> None:
    with connect_sync(broker.url) as client:
        for _ in range(count):
            client.publish({"number": 1})


def reader(broker: AnyBroker, **options: str) -> StreamReader:
    """As Spark makes one for each run of a query."""
    said = {"url": broker.url, "timeout": "5", **options}
    return StreamReader(reading(said, is_stream=True), TICKS)


def batch(**options: str) -> BatchReader:
    """As Spark makes one of what was loaded now."""
    said = reading({"timeout": "5", **options}, is_stream=False)
    return BatchReader(said, find_bounds(said), TICKS)


def all_ticks(batch: BatchReader) -> list[int]:
    return [
        tick
        for partition in batch.partitions()
        for rows in batch.read(partition)
        for tick in rows["tick"].to_pylist()
    ]


def ahead(reader: StreamReader, start: dict[str, Any]) -> dict[str, Any]:
    """The next offset, as a checkpoint keeps it."""
    found = reader.latestOffset(start, reader.getDefaultReadLimit())
    return json.loads(json.dumps(found))  # type: ignore[no-any-return]


def ticks(reader: StreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[int]:
    return [
        tick
        for partition in reader.partitions(start, end)
        for batch in reader.read(partition)
        for tick in batch["tick"].to_pylist()
    ]


def test_a_batch_that_comes_again_misses_what_is_gone_by_then(broker: BrokerProcess) -> None:
    for _ in range(4):
        publish(broker, 10)
    first = reader(broker, since="begin")
    start = first.initialOffset()
    end = ahead(first, start)
    assert ticks(first, start, end) == list(range(1, 41))
    broker.stop()
    store = SQLiteStore(broker.folder / "store", broker.name)
    kept = store.trim(before=log_of(broker)[25].time)
    store.close()
    broker.start()
    assert kept > 1
    with pytest.raises(Gone, match="stream paris is no longer kept from tick 1 on"):
        ticks(reader(broker, since="begin"), start, end)
    again = reader(broker, since="begin", onGap="continue")
    assert ticks(again, start, end) == list(range(kept, 41))


def test_a_first_batch_begins_where_it_did_when_it_comes_again(broker: BrokerProcess) -> None:
    publish(broker, 3)
    first = reader(broker)
    start = first.initialOffset()
    publish(broker, 4)
    end = ahead(first, start)
    assert ticks(first, start, end) == [4, 5, 6, 7]
    again = reader(broker)  # Spark keeps no offset before the first batch, and asks anew
    assert ticks(again, again.initialOffset(), end) == [4, 5, 6, 7]


def test_behind_a_lost_log_all_of_the_new_one_is_read(
    broker: BrokerProcess, tmp_path: Path
) -> None:
    publish(broker, 20)
    start = ahead(first := reader(broker, since="begin"), first.initialOffset())
    broker.stop()
    shutil.rmtree(broker.folder / "store")
    broker.start()
    publish(broker, 5)
    with pytest.raises(Exception, match="stream paris ends at tick 5, before tick 20"):
        ahead(reader(broker, since="begin"), start)
    some = reader(broker, since="begin", onGap="continue", maxEventsPerTrigger="3")
    middle = ahead(some, start)
    assert ticks(some, start, middle) == [1, 2, 3]
    assert ticks(some, middle, ahead(some, middle)) == [4, 5]


@pytest.mark.parametrize("filter", ["TRUE", "number >= 0"])
def test_a_batch_whose_log_is_lost_under_it_ends_with_what_there_is(
    broker: BrokerProcess, filter: str
) -> None:
    """Also where a task begins behind all that there is now."""
    options = {"since": "begin", "filter": filter, "partitionTicks": "10", "timeout": "0.5"}
    publish(broker, 20)
    first = reader(broker, **options)
    start = first.initialOffset()
    end = ahead(first, start)
    broker.stop()
    shutil.rmtree(broker.folder / "store")
    broker.start()
    publish(broker, 5)
    failing = reader(broker, **options)
    for task in failing.partitions(start, end):
        with pytest.raises(Gone, match=r"stream paris ends at tick 5, before tick [12]0"):
            list(failing.read(task))
    going_on = reader(broker, **options, onGap="continue")
    assert ticks(going_on, start, end) == [1, 2, 3, 4, 5]
    assert ticks(going_on, end, ahead(going_on, end)) == [1, 2, 3, 4, 5]


def test_a_batch_that_begins_behind_a_lost_log_is_all_of_the_new_one(broker: BrokerProcess) -> None:
    publish(broker, 3)
    options = {"url": broker.url, "since": "paris:20"}
    with pytest.raises(TidingsError, match="option since: stream paris ends at tick 3"):
        batch(**options)
    assert all_ticks(batch(**options, onGap="continue")) == [1, 2, 3]


@pytest.mark.parametrize("until", [None, "2999-01-01", "paris:17"])
@pytest.mark.parametrize("since", ["begin", "-1h", "paris:5"])
def test_a_batch_is_of_the_same_events_whatever_is_published_meanwhile(
    broker: BrokerProcess, since: str, until: str | None
) -> None:
    publish(broker, 20)
    options = {"url": broker.url, "since": since, "partitionTicks": "6"}
    loaded = batch(**options) if until is None else batch(**options, until=until)
    wanted = list(range(6 if since == "paris:5" else 1, 18 if until == "paris:17" else 21))
    tasks = loaded.partitions()
    for _ in range(2):
        publish(broker, 5)
        again = pickle.loads(pickle.dumps(loaded))
        assert all_ticks(again) == wanted
        retried = [again.read(task) for task in tasks]
        assert [t for rows in retried for b in rows for t in b["tick"].to_pylist()] == wanted


def test_what_a_batch_has_lost_since_it_was_loaded_is_said(broker: BrokerProcess) -> None:
    for _ in range(4):
        publish(broker, 10)
    options = {"url": broker.url, "since": "begin"}
    failing, going_on = batch(**options), batch(**options, onGap="continue")
    broker.stop()
    store = SQLiteStore(broker.folder / "store", broker.name)
    kept = store.trim(before=log_of(broker)[25].time)
    store.close()
    broker.start()
    publish(broker, 1)
    assert 1 < kept <= 26
    with pytest.raises(Gone, match=f"no longer kept from tick 1 on: {kept - 1} ticks are lost"):
        all_ticks(failing)
    assert all_ticks(going_on) == list(range(kept, 41))
    assert all_ticks(batch(**options)) == list(range(kept, 42))


def test_a_stream_that_comes_back_after_a_batch_was_loaded_is_none_of_it(tmp_path: Path) -> None:
    async def network() -> None:
        async with Network(tmp_path, [("a", "b")]) as brokers:
            await brokers.agreed()
            for name in "ab":
                await asyncio.to_thread(publish, brokers[name], 3)
            brokers["b"].kill()
            url = brokers["a"].url
            reached = partial(places.ends, Login(url))
            while "b" in await asyncio.to_thread(reached):
                await asyncio.sleep(0.05)
            loaded = await asyncio.to_thread(batch, url=url)
            await brokers.start("b")
            await brokers.agreed()
            assert await asyncio.to_thread(all_ticks, loaded) == [1, 2, 3]
            later = await asyncio.to_thread(batch, url=url)
            assert await asyncio.to_thread(all_ticks, later) == [1, 2, 3, 1, 2, 3]

    asyncio.run(network())


@pytest.mark.parametrize("on_gap", ["fail", "continue"])
def test_a_time_behind_all_events_is_no_lost_log_though_more_are_published_meanwhile(
    broker: BrokerProcess, monkeypatch: pytest.MonkeyPatch, on_gap: str
) -> None:
    def ends(asked: Login) -> Cursor:
        found = places.ends(asked)
        publish(broker, 2)
        return found

    publish(broker, 3)
    monkeypatch.setattr(bounds_module, "ends", ends)
    assert batch(url=broker.url, since="2999-01-01", onGap=on_gap).partitions() == []


def test_behind_a_lost_log_deliveries_are_numbered_anew(
    broker: BrokerProcess, tmp_path: Path
) -> None:
    """Numbers follow ticks, and whoever delivered for the old ones is far ahead of the new."""
    Lake(tmp_path / "table", filter=ALL)
    options = {
        "since": "begin",
        "onGap": "continue",
        "deliver": "true",
        "subscriptions": str(tmp_path / "table"),
        "deadLetters": str(tmp_path / "dead"),
    }
    publish(broker, 20)
    start = ahead(first := reader(broker, **options), first.initialOffset())
    broker.stop()
    shutil.rmtree(broker.folder / "store")
    broker.start()
    publish(broker, 5)
    end = ahead(first, start)
    publish(broker, 1)
    assert end["session"] != start["session"]
    assert ahead(first, end)["session"] == end["session"]


def test_a_batch_is_delivered_at_the_broker_where_it_was_begun_and_the_next_at_any(
    tmp_path: Path,
) -> None:
    """Only that one knows what of it was delivered."""

    def run(reader: StreamReader, start: dict[str, Any], end: dict[str, Any]) -> None:
        for task in reader.partitions(start, end):
            list(reader.read(task))

    async def delivered() -> None:
        async with Network(tmp_path, [("a", "b")]) as brokers:
            await brokers.agreed()
            await asyncio.to_thread(serve, brokers)

    def serve(brokers: Network) -> None:
        a, b = brokers["a"], brokers["b"]
        with connect_sync(a.url) as client:
            client.publish(registration("all", "TRUE"))
        publish(a, 10)
        lake = Lake(tmp_path / "table", filter=ALL)
        archive(a.url, lake, until="live")
        options = {"since": "begin", "deliver": "true", "subscriptions": str(lake.path)}
        options["deadLetters"] = str(tmp_path / "dead")
        start = reader(a, **options).initialOffset()
        end = ahead(first := reader(a, **options), start)
        run(first, start, end)
        other = reader(b, **options)
        words = "at broker a; the one at .* is b: .* Give the address of a until"
        with pytest.raises(TidingsError, match=words):
            run(other, start, end)
        run(reader(a, **options), start, end)
        assert deliveries(a) == [f"a:{n}" for n in range(2, 12)]
        assert deliveries(b) == []
        publish(a, 5)
        run(other, end, ahead(other, end))
        assert deliveries(b) == [f"a:{n}" for n in range(22, 27)]

    def deliveries(broker: networks.BrokerProcess) -> list[str]:
        said = [event.notification for event in broker.log()]
        return [each["tidings.id"] for each in said if "tidings.for" in each]

    asyncio.run(delivered())


# -- without a broker: what it would say ---------------------------------------------------------


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> Cursor:
    """Where the streams end; rome can be reached only when it is asked for that."""
    ends = {"paris": 9, "rome": 7}
    monkeypatch.setattr(bounds_module, "ends", lambda broker: dict(ends))
    monkeypatch.setattr(reader_module, "ends_at", lambda broker: ("paris", dict(ends)))
    for module in (bounds_module, reader_module):
        monkeypatch.setattr(
            module,
            "ticks_before",
            lambda broker, since, streams: {s: 2 for s in streams if s != "rome"},
        )
    return ends


@pytest.mark.parametrize("option", ["since", "until"])
def test_a_batch_leaves_out_no_stream_that_is_gone_meanwhile(said: Cursor, option: str) -> None:
    with pytest.raises(TidingsError, match="stream rome cannot be reached any more"):
        batch(**{option: "2026-11-01"})


@pytest.mark.parametrize("option", ["since", "until"])
@pytest.mark.parametrize("filter", ["TRUE", "FALSE"])
def test_a_batch_passes_over_no_stream_that_is_named(
    said: Cursor, option: str, filter: str
) -> None:
    """One that nobody knows may be a typing error: then too much would be read, or nothing."""
    options = {option: "paris:2,pariss:7", "filter": filter}
    with pytest.raises(TidingsError, match=f"option {option}: stream pariss cannot be reached"):
        batch(**options)


def test_a_new_stream_that_is_gone_meanwhile_is_left_for_the_next_trigger(
    said: Cursor, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = StreamReader(reading({"since": "begin"}, is_stream=True), TICKS)
    end = ahead(stream, stream.initialOffset())
    assert (end["begin"], end["cursor"]) == ({"paris": 2}, {"paris": 9})
    assert ahead(stream, end) == end
    monkeypatch.setattr(
        reader_module, "ticks_before", lambda b, t, streams: dict.fromkeys(streams, 4)
    )
    end = ahead(stream, end)
    assert (end["begin"], end["cursor"]) == ({"paris": 9, "rome": 4}, {"paris": 9, "rome": 7})


@pytest.mark.parametrize("most", [1, 2, 3])
def test_no_stream_starves_where_there_are_more_than_ticks(said: Cursor, most: int) -> None:
    """However small the backlog of a stream is, and however large that of another."""
    options = {"since": "a:0,b:0,c:0,d:0", "maxEventsPerTrigger": str(most)}
    stream = StreamReader(reading(options, is_stream=True), TICKS)
    said.clear()
    said.update(a=0, b=1_000, c=50, d=50)
    offset = stream.initialOffset()
    for _ in range(40):
        said["a"] += 1
        offset = ahead(stream, offset)
    read = offset["cursor"]
    assert sum(read.values()) == 40 * most
    assert max(read.values()) - min(read.values()) <= 1
