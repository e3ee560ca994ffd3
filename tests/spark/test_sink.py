"""The format "tidings", written: every row is published once, whatever is killed."""

from __future__ import annotations

import json
import pickle
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, MapType, StringType, StructType

from tests.client.brokers import BrokerProcess
from tests.spark.brokers import log_of, running
from tidings.events import Notification
from tidings.spark import install
from tidings.spark.format.options import writing
from tidings.spark.format.sink import StreamWriter

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("sink")]

PATIENCE = 60.0
MANY = 100_000
"""Rows that take a moment to publish."""
DYING = Path(__file__).with_name("dying_query.py")
QUOTES = "number BIGINT, symbol STRING, price DOUBLE"


@pytest.fixture(scope="module")
def installed(spark: Any) -> Any:
    install(spark)
    return spark


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with running(tmp_path / "broker") as found:
        yield found


def numbers(broker: BrokerProcess) -> Counter[int]:
    """How often each number was published."""
    return Counter(event.notification["number"] for event in log_of(broker))


def once(count: int) -> Counter[int]:
    return Counter(range(count))


class Feed:
    """Files of quotes that a query reads, some in each micro-batch."""

    def __init__(self, folder: Path, *, most: int = 1) -> None:
        self.folder, self.most, self._count = folder, most, 0
        folder.mkdir()

    def add(self, count: int) -> None:
        first = self._count
        self._count += count
        lines = [
            json.dumps(
                {"number": n, "symbol": "DIS", "price": n / 2} | ({"price": None} if n % 3 else {})
            )
            for n in range(first, self._count)
        ]
        fresh = self.folder / f".{first:09}"
        fresh.write_text("\n".join(lines) + "\n")
        fresh.rename(self.folder / f"{first:09}.json")

    def rows(self, spark: Any) -> Any:
        reader = spark.readStream.schema(QUOTES).option("maxFilesPerTrigger", self.most)
        return reader.json(str(self.folder))


def publishing(rows: Any, broker: BrokerProcess, folder: Path, **options: Any) -> Any:
    said = {"url": broker.url, "timeout": 5, **options}
    writer = rows.writeStream.format("tidings").options(**said)
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    return writer.trigger(availableNow=True).start()


def publish_all(rows: Any, broker: BrokerProcess, folder: Path, **options: Any) -> None:
    assert publishing(rows, broker, folder, **options).awaitTermination(PATIENCE)


def test_rows_of_a_stream_are_published_once_and_null_is_absent(
    installed: Any, broker: BrokerProcess, tmp_path: Path
) -> None:
    feed = Feed(tmp_path / "feed")
    feed.add(20)
    feed.add(30)
    publish_all(feed.rows(installed), broker, tmp_path)
    # As if Spark had been killed before it wrote that batch 1 is done: it comes once more.
    for name in ("1", ".1.crc"):
        (tmp_path / "checkpoint" / "commits" / name).unlink()
    feed.add(10)
    publish_all(feed.rows(installed), broker, tmp_path)
    assert (tmp_path / "checkpoint" / "commits" / "1").exists()
    assert numbers(broker) == once(60)
    for event in log_of(broker):
        said = dict(event.notification)
        number = said.pop("number")
        assert said == {"symbol": "DIS"} | ({} if number % 3 else {"price": number / 2})
    assert list((tmp_path / "checkpoint" / "tidings").glob("*/rows/*")) == []


def test_a_batch_is_published_with_values_of_every_kind(
    installed: Any, broker: BrokerProcess, tmp_path: Path
) -> None:
    at = datetime(2026, 11, 15, 12, 0, 0, 17, tzinfo=UTC)
    row = {
        "symbol": "DIS",
        "size": 2**40,
        "price": 0.1,
        "is_open": True,
        "at": at,
        "raw": bytearray(b"\x01"),
        "tags": ["us", "media"],
        "order": {"id": 7, "by": "me"},
    }
    schema = (
        "symbol STRING, size BIGINT, price DOUBLE, is_open BOOLEAN, at TIMESTAMP, raw BINARY, "
        "tags ARRAY<STRING>, `order` STRUCT<id: INT, by: STRING>, more MAP<STRING, INT>"
    )
    frame = installed.createDataFrame([{**row, "more": {"x": 1}}], schema)
    frame.write.format("tidings").options(url=broker.url, staging=str(tmp_path / "s")).mode(
        "append"
    ).save()
    (event,) = log_of(broker)
    assert dict(event.notification) == {
        "symbol": "DIS",
        "size": 2**40,
        "price": 0.1,
        "is_open": True,
        "at": at,
        "raw": b"\x01",
        "tags": frozenset({"us", "media"}),
        "order": {"id": 7, "by": "me"},
        "order.id": 7,
        "order.by": "me",
        "more": {"x": 1},
        "more.x": 1,
    }
    assert event.notification.value["tags"] == ["us", "media"]
    assert list((tmp_path / "s").iterdir()) == []


def test_what_is_read_can_be_published_again_as_it_was(
    installed: Any, broker: BrokerProcess, tmp_path: Path
) -> None:
    said = [
        Notification({"n": 2**70, "at": datetime(2026, 11, 15, tzinfo=UTC), "tags": {1, "x"}}),
        Notification.from_json('{"n":1,"order":{"b":[5,4,5],"a":null,"c":{"d":1.10}},"o":[[1]]}'),
        Notification.from_json('{"specversion":"1.0","id":"7","time":"2026-11-15T12:00:00Z"}'),
        Notification.of_bytes(b"GIF89a", "image/gif", {"n": 6}),
    ]
    from tidings.client import connect_sync

    with connect_sync(broker.url) as client:
        for each in said:
            client.publish(each)
    reading = installed.read.format("tidings").options(url=broker.url, until="paris:4")
    generic = reading.load()
    as_json = reading.schema("tick BIGINT, attributes STRING").load()
    columns = "tick BIGINT, body STRING, content BINARY, content_type STRING"
    whole = reading.schema(f"{columns}, attributes MAP<STRING,VARIANT>").load()
    for past in (generic, as_json.selectExpr("tick", "attributes AS event"), whole):
        past = past.orderBy("tick")
        past = past.select("event") if "event" in past.columns else past
        past.coalesce(1).write.format("tidings").mode("append").options(
            url=broker.url, staging=str(tmp_path / "s")
        ).save()
    log = [event.notification for event in log_of(broker)]
    first, by_map, by_json, by_body = (log[at : at + 4] for at in range(0, 16, 4))
    assert first == by_json == by_body == said
    assert [n.attributes for n in by_map] == [n.attributes for n in said]
    assert by_map[0] == said[0]
    assert by_map[1].value == {
        "n": 1,
        "order": {"b": [5, 4, 5], "a": None, "c": {"d": 1.1}},
        "o": [[1]],
    }


def test_a_row_that_is_no_notification_is_a_dead_letter(
    installed: Any, broker: BrokerProcess, tmp_path: Path
) -> None:
    (tmp_path / "feed").mkdir()
    (tmp_path / "feed" / "1.txt").write_text('{"number": 1}\n[2]\n{"number": 3}\n')
    rows = installed.readStream.text(str(tmp_path / "feed")).selectExpr("value AS event")
    with pytest.raises(Exception, match=r"row 2 of partition 0 is no notification.*deadLetters"):
        publish_all(rows, broker, tmp_path)
    assert log_of(broker) == []
    publish_all(rows, broker, tmp_path, deadLetters=str(tmp_path / "dead"))
    assert numbers(broker) == Counter([1, 3])
    (file,) = (tmp_path / "dead").iterdir()
    letter = json.loads(file.read_text())
    assert (letter["partition"], letter["row"], letter["content"]) == (0, 2, {"event": "[2]"})
    assert "expected a JSON object" in letter["reason"]


def test_a_time_beyond_all_times_is_a_dead_letter_alone(
    installed: Any, broker: BrokerProcess, tmp_path: Path
) -> None:
    rows = installed.sql(
        "SELECT n AS number, IF(n = 2, timestamp_seconds(300000000000), timestamp_seconds(n)) AS at"
        " FROM VALUES 1, 2, 3 AS t(n)"
    )
    writer = rows.coalesce(1).write.format("tidings").mode("append").option("url", broker.url)
    with pytest.raises(Exception, match=r"row 2 of partition 0 is no notification.*11476-08-15"):
        writer.save()
    writer.option("deadLetters", str(tmp_path / "dead")).save()
    assert numbers(broker) == Counter([1, 3])
    (file,) = (tmp_path / "dead").iterdir()
    letter = json.loads(file.read_text())
    assert (letter["row"], letter["content"]["number"]) == (2, 2)
    assert "11476-08-15 05:20:00" in letter["content"]["at"]
    assert "date value out of range" in letter["reason"]


def test_a_map_with_a_key_twice_is_a_dead_letter_alone(tmp_path: Path) -> None:
    twice = pa.array([[("a", 1)], [("a", 1), ("a", 2)], []], pa.map_(pa.string(), pa.int64()))
    columns = {"number": pa.array([1, 2, 3]), "more": twice}
    schema = StructType().add("number", LongType()).add("more", MapType(StringType(), LongType()))
    options = writing({"staging": str(tmp_path / "s"), "deadLetters": str(tmp_path / "dead")})
    writer = StreamWriter(options, schema, overwrite=False)
    staged = writer._stage(iter([pa.record_batch(columns)]), str(tmp_path / "s"), "query", 7)
    assert staged.count == 2
    (file,) = (tmp_path / "dead").iterdir()
    letter = json.loads(file.read_text())
    assert (letter["row"], letter["content"]) == (2, {"number": 2, "more": [["a", 1], ["a", 2]]})
    assert "'a'" in letter["reason"]


def test_a_broker_that_is_away_fails_the_query_which_then_goes_on(
    installed: Any, broker: BrokerProcess, tmp_path: Path
) -> None:
    feed = Feed(tmp_path / "feed")
    feed.add(20)
    publish_all(feed.rows(installed), broker, tmp_path)
    broker.kill()
    feed.add(20)
    with pytest.raises(Exception, match="no broker can be reached"):
        publish_all(feed.rows(installed), broker, tmp_path, timeout=0.5)
    broker.start()
    publish_all(feed.rows(installed), broker, tmp_path)
    assert numbers(broker) == once(40)


def freeze_amid(broker: BrokerProcess) -> None:
    """Take the processor from a broker as soon as it has kept some of what comes."""
    end = monotonic() + PATIENCE
    while not log_of(broker):
        assert monotonic() < end
    broker.signal(signal.SIGSTOP)


def test_a_broker_that_goes_away_amid_a_batch_is_told_the_rest_of_it_later(
    installed: Any, broker: BrokerProcess, tmp_path: Path
) -> None:
    feed = Feed(tmp_path / "feed")
    feed.add(MANY)
    query = publishing(feed.rows(installed), broker, tmp_path, timeout=1)
    freeze_amid(broker)
    with pytest.raises(Exception, match=f"batch 0 will go on behind [0-9]+ of {MANY} rows"):
        query.awaitTermination(PATIENCE)
    broker.signal(signal.SIGCONT)
    publish_all(feed.rows(installed), broker, tmp_path)
    assert numbers(broker) == once(MANY)
    assert list((tmp_path / "checkpoint" / "tidings").glob("*/rows/*")) == []


def test_a_job_that_the_broker_leaves_says_how_much_is_published(
    installed: Any, broker: BrokerProcess, tmp_path: Path
) -> None:
    rows = installed.range(MANY).withColumnRenamed("id", "number")
    said = {"url": broker.url, "timeout": 1, "staging": str(tmp_path / "staging")}
    words = f"[0-9]+ of {MANY} rows are published: the job, run again, would publish them twice"
    with ThreadPoolExecutor() as pool:
        freezing = pool.submit(freeze_amid, broker)
        with pytest.raises(Exception, match=words):
            rows.write.format("tidings").mode("append").options(**said).save()
        freezing.result()
    assert list((tmp_path / "staging").iterdir()) == []


def test_rows_that_the_broker_finds_too_large_can_become_dead_letters(
    installed: Any, tmp_path: Path
) -> None:
    (tmp_path / "feed").mkdir()
    lines = [json.dumps({"number": n, "text": "x" * n}) for n in (1, 5000, 2)]
    (tmp_path / "feed" / "1.txt").write_text("\n".join(lines))
    rows = installed.readStream.text(str(tmp_path / "feed")).selectExpr("value AS event")
    with running(tmp_path / "broker", config="[limits]\nframe = 4096\n") as broker:
        with pytest.raises(Exception, match=r"a row has 5,0\d\d bytes, and broker paris takes"):
            publish_all(rows, broker, tmp_path)
        options = {"maxEventBytes": 3000, "deadLetters": str(tmp_path / "dead")}
        publish_all(rows, broker, tmp_path, **options)
        assert numbers(broker) == Counter([1, 2])
    (file,) = (tmp_path / "dead").iterdir()
    assert json.loads(file.read_text())["row"] == 2


@pytest.mark.parametrize(
    ("column", "options", "words"),
    [
        ("DATE '2026-11-15'", {}, "column x is DATE, which no attribute can be; cast it"),
        ("1", {"url": "tidings://a:1,b:1"}, "names several brokers"),
        ("1", {"path": "/x"}, "option path: .*use the option url"),
        ("1", {"stagging": "/x"}, "there is no option 'stagging'"),
        ("1", {"staging": "s3://x/y"}, "option staging: 's3://x/y' is no folder"),
    ],
)
def test_what_cannot_be_is_said(
    installed: Any, broker: BrokerProcess, column: str, options: dict[str, str], words: str
) -> None:
    writer = installed.sql(f"SELECT {column} AS x").write.format("tidings").mode("append")
    with pytest.raises(Exception, match=words):
        writer.options(**{"url": broker.url, **options}).save()


# -- killed ------------------------------------------------------------------------------------


def test_a_session_killed_between_staging_and_commit_publishes_every_row_once(
    installed: Any, broker: BrokerProcess, tmp_path: Path
) -> None:
    feed = Feed(tmp_path / "feed")
    for _ in range(3):
        feed.add(40)
    arguments = [str(feed.folder), broker.url, str(tmp_path / "checkpoint")]
    killed = subprocess.Popen(
        [sys.executable, str(DYING), *arguments], start_new_session=True, stderr=subprocess.PIPE
    )
    _, said = killed.communicate(timeout=PATIENCE)
    assert killed.returncode == -signal.SIGKILL, said.decode()
    assert len(log_of(broker)) == 40
    assert len(list((tmp_path / "checkpoint" / "tidings").glob("*/rows/*"))) == 1
    assert not (tmp_path / "checkpoint" / "commits" / "1").exists()
    publish_all(feed.rows(installed), broker, tmp_path)
    assert numbers(broker) == once(120)


COMMIT = """
import os, pickle, signal, sys
from tidings.spark.format.staging import Staging

events, room = Staging.events, int(sys.argv[2])

def dying(self, files, *, skip=0):
    for number, event in enumerate(events(self, files, skip=skip)):
        if number == room:
            os.kill(os.getpid(), signal.SIGKILL)
        yield event

Staging.events = dying
with open(sys.argv[1], "rb") as file:
    writer, messages = pickle.load(file)
writer.commit(messages, 7)
"""


def test_a_commit_killed_at_any_moment_is_finished_by_the_next_in_another_order(
    broker: BrokerProcess, tmp_path: Path
) -> None:
    count, draw = 60_000, random.Random(5)
    schema = StructType().add("number", LongType())
    options = writing({"url": broker.url, "staging": str(tmp_path / "staging"), "timeout": "5"})
    writer = StreamWriter(options, schema, overwrite=False)
    published = []
    for room in (0, 15_000, 1, 20_000, count):  # this many rows are taken before it is killed
        rows = draw.sample(range(count), count)  # as if tasks had run again
        batches = [pa.record_batch({"number": rows[i : i + 9000]}) for i in range(0, count, 9000)]
        staged = [writer._stage(iter([b]), options.staging or "", "query", 7) for b in batches]
        (tmp_path / "commit").write_bytes(pickle.dumps((writer, staged)))
        process = subprocess.run(
            [sys.executable, "-c", COMMIT, str(tmp_path / "commit"), str(room)], timeout=PATIENCE
        )
        assert process.returncode == (0 if room == count else -signal.SIGKILL)
        published.append(len(log_of(broker)))
    assert 0 == published[0] < published[1] < published[3] < count, "it was killed in between"
    assert numbers(broker) == once(count)
    writer.commit(staged, 7)  # Spark may not have heard of it
    assert numbers(broker) == once(count)
    with pytest.raises(Exception, match="batch 7 of this query was published, and now comes"):
        writer.commit(staged, 6)
