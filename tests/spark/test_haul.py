"""Stretches read from real brokers, and hauled into files of a lake."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import monotonic
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

import tidings
from tests.client.brokers import BrokerProcess
from tests.spark.brokers import log_of, running
from tidings import Filter, Notification
from tidings.broker.store import SQLiteStore
from tidings.client import Login
from tidings.lakes.lake import EVERYTHING, Lake, LakeError
from tidings.lakes.layout import Archived
from tidings.protocol.messages import Event
from tidings.spark.archiving.archive import GapError, archive
from tidings.spark.archiving.haul import Haul, haul
from tidings.spark.format.bounds import find_bounds
from tidings.spark.format.notifications import Notifications
from tidings.spark.format.options import reading
from tidings.spark.format.reader import BatchReader
from tidings.spark.interrupts import Stopped
from tidings.spark.streams.absence import Away, Gone
from tidings.spark.streams.reading import notifications, read, read_rows
from tidings.spark.streams.stretch import Stretch

pytestmark = pytest.mark.slow

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
SAID: list[dict[str, Any]] = [
    {"n": 1, "x": 1},
    {"n": 2, "x": 2, "when": NOON},
    {"n": 3, "x": "three", "tags": ["b", "a"]},
    {"n": 4, "x": 4.5},
    {"n": 5, "tidings.for": ["desk-7"], "tidings.id": "paris:1"},
    {"n": 6, "x": 2**60, "list": [{"a": 1}]},
]


EXACT = [
    Notification.from_json(text)
    for text in (
        '{"n":1,"x":"a"}',
        '{"n":2,"x":[5,4,5],"order":{"b":null,"a":{"size":1.10}},"note":null}',
        '{"x":-9,"n":3}',
        '{"n":4,"x":-9.0,"legs":[{"a":[]},[1]]}',
        '{"specversion":"1.0","id":"7","time":"2026-11-15T12:00:00.5+01:00","data":{"n":1}}',
    )
] + [Notification.of_bytes(b"GIF89a", "image/gif", {"n": 6, "x": ["b", "a"]})]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with running(tmp_path / "paris") as found:
        yield found


def publish(broker: BrokerProcess, said: Sequence[Mapping[str, Any]]) -> None:
    with tidings.connect_sync(broker.url) as client:
        for each in said:
            client.publish(each)


def heard(stretch: Stretch, login: Login, filter: Filter) -> list[Event]:
    """What a stretch has, in its lightest form."""
    return [
        Event(stretch.stream, tick, said, time=time)
        for rows in read_rows(stretch, login, filter)
        for tick, time, said in zip(rows.ticks, rows.times, notifications(rows), strict=True)
    ]


def heard_by_all(broker: BrokerProcess) -> list[Event]:
    """What a broker's log has that is not for bulk subscribers."""
    return [e for e in log_of(broker) if "tidings.for" not in e.notification]


def test_a_stretch_is_the_same_copied_or_told(broker: BrokerProcess) -> None:
    """And without copies for bulk subscribers, which are nobody else's."""
    publish(broker, SAID)
    log = heard_by_all(broker)
    place = Login(broker.url)
    whole, part = Stretch("paris", 0, 6, {}), Stretch("paris", 1, 4, {})
    for stretch, expected in ((whole, log), (part, log[1:4])):
        assert heard(stretch, place, Filter.all()) == expected
        # This filter is not known to mean everything, so it is subscribed to.
        assert heard(stretch, place, Filter.parse("n > 0")) == expected
        events = [e for some in read(stretch, place, Filter.all()) for e in some]
        assert [(e.id, e.notification, e.seconds) for e in events] == [
            (f"paris:{e.tick}", e.notification, e.time) for e in expected
        ]
    assert heard(whole, place, EVERYTHING) == log


def test_what_was_published_comes_exactly_by_every_way(
    broker: BrokerProcess, tmp_path: Path
) -> None:
    publish(broker, EXACT)
    stretch, login, lake = Stretch("paris", 0, len(EXACT), {}), Login(broker.url), tmp_path / "lake"
    for filter in (Filter.all(), Filter.parse("EXISTS n OR EXISTS id")):  # copied, or told
        assert [e.notification for e in heard(stretch, login, filter)] == EXACT
        events = [e for some in read(stretch, login, filter) for e in some]
        assert [e.notification for e in events] == EXACT
    archive(broker.url, Lake(lake), until="live")
    assert [e.notification for e in Lake(lake).events()] == EXACT
    columns = StructType().add("body", "string").add("content", "binary")
    columns = columns.add("content_type", "string").add("attributes", "string")
    asked = reading({"url": broker.url}, is_stream=False)
    batch = BatchReader(asked, find_bounds(asked), columns)
    rows = [row for part in batch.partitions() for b in batch.read(part) for row in b.to_pylist()]
    again = [
        n for b in batch.partitions() for rows in batch.read(b) for _, n in made(rows, columns)
    ]
    assert again == [
        Notification.of_bytes(n.body, n.content_type) if n.bytes_type else n for n in EXACT
    ]
    assert [row["attributes"] for row in rows] == [n.to_json() for n in EXACT]
    assert [row["content_type"] for row in rows] == [n.content_type for n in EXACT]


def made(rows: pa.RecordBatch, columns: StructType) -> Iterator[tuple[Any, Any]]:
    """What is published of rows of what was read."""
    own = [name for name in columns.names if name != "attributes"]
    schema = StructType([columns[name] for name in own])
    return Notifications(schema, 1 << 20).of(rows.select(own))


def test_of_several_brokers_the_one_whose_stream_it_is_is_asked(tmp_path: Path) -> None:
    """They are not linked: who subscribed to the other's stream would hear nothing."""
    with running(tmp_path / "paris") as paris:
        (tmp_path / "rome").mkdir()
        rome = BrokerProcess(tmp_path / "rome", name="rome")
        rome.start()
        try:
            publish(rome, SAID)
            both = f"{paris.url},127.0.0.1:{rome.port}"
            found = heard(Stretch("rome", 0, 6, {}), Login(both), Filter.all())
            assert found == heard_by_all(rome)
            with pytest.raises(Away, match="is the broker rome up, and linked"):
                heard(Stretch("rome", 0, 6, {}), Login(paris.url, timeout=0.5), Filter.all())
        finally:
            rome.stop()


def test_what_is_gone_away_or_unwanted_is_told_apart(broker: BrokerProcess) -> None:
    for n in range(3):
        publish(broker, [{"n": n}])
    with pytest.raises(Gone, match="ends at tick 3, before tick 9") as short:
        heard(Stretch("paris", 0, 9, {}), Login(broker.url), EVERYTHING)
    assert (short.value.after, short.value.upto) == (9, 3)
    stop = threading.Event()
    stop.set()
    with pytest.raises(Stopped):
        list(read_rows(Stretch("paris", 0, 3, {}), Login(broker.url), EVERYTHING, stop=stop))
    broker.stop()
    store = SQLiteStore(broker.folder / "store", broker.name)
    lost = store.trim(before=1e12) - 1
    store.close()
    begun = monotonic()
    with pytest.raises(Away, match="no broker can be reached"):
        heard(Stretch("paris", 0, 3, {}), Login(broker.url, timeout=0.6), EVERYTHING)
    assert monotonic() - begun < 5
    broker.start()
    assert lost > 0
    for filter in (EVERYTHING, Filter.parse("n >= 0")):
        with pytest.raises(Gone, match="no longer kept") as gone:
            heard(Stretch("paris", 0, 3, {}), Login(broker.url), filter)
        assert (gone.value.after, gone.value.upto) == (0, lost)


def test_two_hauls_that_name_a_column_alike_for_different_kinds(
    broker: BrokerProcess, tmp_path: Path
) -> None:
    publish(broker, SAID)
    lake = Lake(tmp_path / "lake")
    schema = lake.schema()

    def task(start: int, end: int) -> Haul:
        stretch = Stretch("paris", start, end, {})
        return Haul(stretch, Login(broker.url), lake.filter, str(lake.path), schema)

    tasks = [task(0, 2), task(2, 3), task(3, 6)]
    brought = [haul(each) for each in tasks]
    assert [each.columns["x"] for b in brought for each in b.written] == [
        {"integer": "x"},
        {"string": "x"},
        {"double": "x", "integer": "x$integer"},
    ]
    assert lake.admit(brought[0].written) == []
    # Each would have put other values into the column x.
    misfits = lake.admit([w for b in brought for w in b.written])
    assert misfits == [w for b in brought[1:] for w in b.written]
    for each in brought[1:]:
        each.discard(lake.path)
    schema = lake.schema()
    brought[1:] = [haul(task(2, 3)), haul(task(3, 6))]
    written = [w for b in brought for w in b.written]
    assert lake.admit(written) == []
    assert lake.commit(written, "w", 1, held={"paris": 6})
    assert not lake.commit([], "w", 1, held={"paris": 9})
    assert lake.held() == {"paris": 6}
    expected = [e.notification for e in log_of(broker) if "tidings.for" not in e.notification]
    assert [e.notification for e in lake.events()] == expected
    assert {"x", "x$string", "x$double"} <= set(lake.schema().names)
    assert len(list(lake.path.rglob("*.parquet"))) == len(lake.snapshot().files()) == 3
    with pytest.raises(LakeError, match="paris:1 would be in the lake twice"):
        lake.commit(brought[0].written, "w", 2, held={"paris": 6})


def test_a_lake_has_what_it_was_made_for_and_nothing_else(
    broker: BrokerProcess, tmp_path: Path
) -> None:
    publish(broker, SAID)
    every, few = Lake(tmp_path / "every"), Lake(tmp_path / "few", filter="x IS NUMBER")
    none = Lake(tmp_path / "none", filter=Filter.parse("x = 'nobody'"))
    for lake in (every, few, none):
        archive(broker.url, lake, until="live")
        assert lake.held() == {"paris": 6}
        expected = [e.tick for e in log_of(broker) if lake.filter.matches(e.notification)]
        assert [e.tick for e in lake.events()] == expected
    assert every.filter == EVERYTHING
    assert [e.tick for e in every.events()] == [1, 2, 3, 4, 6]
    assert Lake(few.path).filter == Lake(few.path, filter="x IS NUMBER").filter == few.filter
    with pytest.raises(LakeError, match="was made for 'x IS NUMBER'"):
        Lake(few.path, filter="TRUE")
    for text in ("TRUE", "x = 1"):
        words = f"was made for everything but .* and not for '{text}': leave out the filter, or"
        with pytest.raises(LakeError, match=words):
            Lake(every.path, filter=text)
    whole = Lake(tmp_path / "whole", filter="TRUE")
    archive(broker.url, whole, until="live")
    assert [e.tick for e in whole.events()] == [1, 2, 3, 4, 6]
    few.compact()
    assert Lake(few.path).filter == few.filter


def test_a_snapshot_stays_what_it_is(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "lake")

    def some(ticks: range) -> list[Archived]:
        return [
            Archived("paris", t, NOON + timedelta(seconds=t), Notification({"n": t})) for t in ticks
        ]

    lake.append(some(range(1, 4)), writer="w", version=1)
    before = lake.snapshot()
    lake.append(some(range(4, 6)), writer="w", version=2, held={"paris": 9})
    lake.compact()
    assert before.held() == {"paris": 3}
    assert [e.tick for e in before.events()] == [1, 2, 3]
    assert (before.written("w"), lake.snapshot().written("w")) == (1, 2)
    after = lake.snapshot()
    assert after.held() == {"paris": 9}
    assert [e.tick for e in after.events("n > 2", since="paris:3")] == [4, 5]


def test_a_log_that_is_trimmed_while_it_is_archived_costs_only_what_is_gone(
    broker: BrokerProcess, tmp_path: Path
) -> None:
    for first in range(0, 40, 10):
        publish(broker, [{"n": n} for n in range(first, first + 10)])
    lake = Lake(tmp_path / "lake")
    archive(broker.url, lake, until="paris:5")
    broker.stop()
    store = SQLiteStore(broker.folder / "store", broker.name)
    lost = store.trim(before=1e12) - 1
    store.close()
    broker.start()
    with pytest.raises(GapError, match="holds paris up to 5, but it is kept from"):
        archive(broker.url, lake, until="live", batch=7)
    report = archive(broker.url, lake, until="live", batch=7, on_gap="continue")
    assert report.events == 40 - lost
    kept = [*range(1, 6), *range(lost + 1, 41)]
    assert [e.tick for e in lake.events()] == kept


def test_a_log_that_is_trimmed_meanwhile_is_read_as_far_as_it_came(broker: BrokerProcess) -> None:
    count = 150_000  # some pieces, each of several batches
    with tidings.connect_sync(broker.url) as client:
        client.publish_each({"n": n, "in": "a long log"} for n in range(count))
    reading = read_rows(Stretch("paris", 0, count, {}), Login(broker.url), EVERYTHING)
    ticks = next(reading).ticks
    broker.kill()
    store = SQLiteStore(broker.folder / "store", broker.name)
    pieces = [0]
    while pieces[-1] < count:
        pieces.append(store.copy(broker.name, pieces[-1], upto=count, size=1 << 20)[1])
    lost = store.trim(before=1e12) - 1
    store.close()
    broker.start()
    with pytest.raises(Gone) as gone:
        ticks.extend(tick for rows in reading for tick in rows.ticks)
    assert ticks == list(range(1, len(ticks) + 1))
    assert (gone.value.after, gone.value.upto) == (len(ticks), lost)
    assert len(ticks) in pieces[1:-1]  # all of a piece, though it ends in the midst of a batch


PROGRAM = """
import sys, tracemalloc
import pyarrow
from tidings.spark.archiving.archive import archive
from tidings.lakes.lake import Lake

lake = Lake(sys.argv[2], filter=sys.argv[3])
archive(sys.argv[1], lake, until={"paris": 20}, batch=10)
tracemalloc.start()
archive(sys.argv[1], lake, until="live", batch=1_000_000)
print(tracemalloc.get_traced_memory()[1], pyarrow.default_memory_pool().max_memory())
"""
"""Says the most that was held at a time in objects of Python's, and of Arrow's. What the process
takes is more: the system's share of that depends on what else the machine does."""


@pytest.mark.parametrize(
    ("filter", "most"),
    [
        pytest.param(str(EVERYTHING), 200 << 20, id="copied"),
        pytest.param("EXISTS n", 450 << 20, id="told"),  # also what is under way meanwhile
    ],
)
def test_memory_is_bounded_however_much_has_gathered(
    broker: BrokerProcess, tmp_path: Path, filter: str, most: int
) -> None:
    text = "x" * 40_000
    count = 8_000  # a third of a gigabyte
    with tidings.connect_sync(broker.url) as client:
        client.publish_each({"n": n, "text": text + str(n)} for n in range(count))
    lake = tmp_path / "lake"
    program = [sys.executable, "-c", PROGRAM, broker.url, lake, filter]
    done = subprocess.run(program, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert Lake(lake).held() == {"paris": count}
    assert sum(batch.num_rows for batch in Lake(lake).scan("EXISTS n")) == count
    assert len(Lake(lake).snapshot().files()) > 4  # a file is not larger than memory should be
    assert sum(map(int, done.stdout.split())) < most
