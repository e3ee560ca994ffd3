"""What a broker refuses of the rows that a sink publishes: each is a letter, whatever is killed."""

from __future__ import annotations

import json
import os
import pickle
import re
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime
from math import nan
from operator import itemgetter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    DoubleType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampType,
    VariantType,
)

from tests.client.brokers import BrokerProcess
from tests.spark.brokers import log_of, running
from tidings.client import connect_sync
from tidings.events import TidingsError
from tidings.spark.format.options import writing
from tidings.spark.format.sink import BatchWriter, Staged, StreamWriter, _Writer
from tidings.spark.format.staging import Staging
from tidings.spark.format.variants import encode

pytestmark = pytest.mark.slow

PATIENCE = 60.0
NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
COLUMNS = StructType().add("number", LongType()).add("a", LongType()).add("b", LongType())


@pytest.fixture(scope="module")
def narrow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker that refuses whatever has a third attribute."""
    folder = tmp_path_factory.mktemp("narrow")
    with running(folder / "broker", config="[limits]\nattributes = 2\n") as found:
        yield found


@pytest.fixture
def strict(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker that takes only what was advertised."""
    with running(tmp_path / "broker", config='[routing]\nadvertisements = "covering"\n') as found:
        yield found


def rows(pattern: str) -> pa.RecordBatch:
    """A row for each letter, numbered; the broker refuses those with an x."""
    count = len(pattern)
    b = [1 if letter == "x" else None for letter in pattern]
    return pa.record_batch({"number": [*range(count)], "a": [1] * count, "b": pa.array(b, "int64")})


def staged(writer: _Writer, pattern: str, folder: Path, query: str, batch: int) -> list[Staged]:
    return [writer._stage(iter([rows(pattern)]), str(folder), query, batch)]


def places(pattern: str, letter: str) -> list[int]:
    return [n for n, found in enumerate(pattern) if found == letter]


def published(broker: BrokerProcess, after: int = 0) -> list[int]:
    return [e.notification["number"] for e in log_of(broker) if e.tick > after]


def last(broker: BrokerProcess) -> int:
    return max((e.tick for e in log_of(broker)), default=0)


def letters(files: Iterator[Path] | Sequence[Path]) -> list[int]:
    """The rows of all letters, as the broker was told of them."""
    found = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    assert all("at most 2 attributes" in letter["reason"] for letter in found)
    return sorted(letter["content"]["number"] for letter in found)


COMMIT = """
import os, pickle, signal, sys
from tidings.spark.format import sink
from tidings.spark.letters import DeadLetters

add, room = DeadLetters.add, [int(sys.argv[2])]

def dying(self, *about):
    room[0] -= 1
    if room[0] < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    add(self, *about)

DeadLetters.add = dying
sink._AT_ONCE = 3
with open(sys.argv[1], "rb") as file:
    writer, messages, batch = pickle.load(file)
writer.commit(messages, batch)
"""


@pytest.mark.parametrize(
    ("pattern", "room"),
    [
        ("...x......", 0),
        ("...xxxx..x", 3),  # the fourth is refused behind three that are written down
        ("..xxxxxxxx", 4),  # nothing is kept behind what is written down
        ("x.xxx.x.x.", 0),
    ],
)
@pytest.mark.parametrize("dies", ["driver", "driver and broker"])
def test_rows_refused_to_who_was_killed_before_they_were_written_down_are_letters(
    narrow: BrokerProcess,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    pattern: str,
    room: int,
    dies: str,
) -> None:
    said = {"url": narrow.url, "staging": str(tmp_path / "s"), "deadLetters": str(tmp_path / "d")}
    writer = StreamWriter(writing(said), COLUMNS, overwrite=False)
    query, begin = tmp_path.name, last(narrow)
    # The broker has not counted what it refuses at the end: the numbers are given again.
    writer.commit([*staged(writer, ".xx", tmp_path / "s", query, 6)], 6)
    messages = staged(writer, pattern, tmp_path / "s", query, 7)
    (tmp_path / "commit").write_bytes(pickle.dumps((writer, messages, 7)))
    program = [sys.executable, "-c", COMMIT, str(tmp_path / "commit"), str(room)]
    assert subprocess.run(program, timeout=PATIENCE).returncode == -signal.SIGKILL
    if dies == "driver and broker":
        narrow.kill()
        narrow.start()
    monkeypatch.setattr("tidings.spark.format.sink._AT_ONCE", 3)
    writer.commit([*messages], 7)
    assert published(narrow, begin) == [0, *places(pattern, ".")]
    found = (tmp_path / "d").glob(f"{query}-7-broker-*.jsonl")
    # One that was written down before, but not by the name of the file, may come twice.
    assert sorted(set(letters([*found]))) == places(pattern, "x")


def test_a_great_many_refusals_are_written_down_without_reading_rows_again(
    narrow: BrokerProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = {"url": narrow.url, "staging": str(tmp_path / "s"), "deadLetters": str(tmp_path / "d")}
    writer = StreamWriter(writing(said), COLUMNS, overwrite=False)
    pattern, begin, reads = "x.xx" * 800, last(narrow), []
    events = Staging.events

    def counted(self: Staging, files: Sequence[str], *, skip: int = 0) -> Any:
        reads.append(skip)
        return events(self, files, skip=skip)

    monkeypatch.setattr(Staging, "events", counted)
    writer.commit([*staged(writer, pattern, tmp_path / "s", tmp_path.name, 0)], 0)
    assert reads == [0]
    assert published(narrow, begin) == places(pattern, ".")
    assert letters([*(tmp_path / "d").iterdir()]) == places(pattern, "x")


@pytest.mark.parametrize("kind", [StreamWriter, BatchWriter])
def test_refused_rows_without_dead_letters_are_where_the_error_says(
    narrow: BrokerProcess, tmp_path: Path, kind: type[StreamWriter] | type[BatchWriter]
) -> None:
    options = writing({"url": narrow.url, "staging": str(tmp_path / "s")})
    writer = kind(options, COLUMNS, overwrite=False)
    if isinstance(writer, StreamWriter):
        messages = [*staged(writer, ".x.", tmp_path / "s", tmp_path.name, 7)]
        about: tuple[Any, ...] = (messages, 7)
    else:
        messages = [writer.write(iter([rows(".x.")]))]
        about = (messages,)
    with pytest.raises(TidingsError, match=r"has refused 1 of 3 rows, the last since") as problem:
        writer.commit(*about)
    writer.abort(*about)  # as Spark does
    where = re.search(r"They are in (\S+);", str(problem.value))
    assert where is not None
    assert letters([*Path(where[1]).parent.glob(Path(where[1]).name)]) == [1]


def test_rows_that_were_not_advertised_are_refused_and_the_option_is_named(
    strict: BrokerProcess, tmp_path: Path
) -> None:
    said = {"url": strict.url, "staging": str(tmp_path / "s")}

    def publish(**more: str) -> None:
        writer = BatchWriter(writing({**said, **more}), COLUMNS, overwrite=False)
        writer.commit([writer.write(iter([rows("..x")]))])

    with pytest.raises(TidingsError, match=r"3 of 3 rows.*advertise it first, with the option adv"):
        publish()
    with pytest.raises(TidingsError, match=r"1 of 3 rows.*; advertise it first\. They are in"):
        publish(advertise="NOT EXISTS b")
    assert published(strict) == [0, 1]
    publish(advertise="EXISTS number")
    assert published(strict) == [0, 1, 0, 1, 2]


def test_rows_are_reported_with_their_key(narrow: BrokerProcess, tmp_path: Path) -> None:
    said = {"url": narrow.url, "staging": str(tmp_path / "s"), "key": "number, price"}
    schema = StructType().add("number", LongType()).add("price", DoubleType()).add("a", LongType())
    columns = {"number": [7, 8, 9], "price": [1.5, nan, None], "a": [1, 1, 1]}

    def publish(**more: str) -> None:
        writer = BatchWriter(writing({**said, **more}), schema, overwrite=False)
        writer.commit([writer.write(iter([pa.record_batch(columns)]))])

    with pytest.raises(TidingsError, match=r"partition 0 \(number 8, price nan\) is no notif"):
        publish()
    publish(deadLetters=str(tmp_path / "d"))
    found = [line for file in (tmp_path / "d").iterdir() for line in file.read_text().splitlines()]
    keys = [(letter["row"], letter["key"]) for letter in map(json.loads, found)]
    assert sorted(keys, key=itemgetter(0)) == [
        (1, {"number": 7, "price": 1.5}),  # refused by the broker
        (2, {"number": 8, "price": "nan"}),
    ]
    with pytest.raises(TidingsError, match="option key: 'id' is none of number, price, a"):
        publish(key="id")


def test_rows_that_the_broker_refuses_are_known_by_their_task_and_all_their_columns(
    narrow: BrokerProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also by those that are not published: what was read can be written as it is."""
    folders = {"staging": str(tmp_path / "s"), "deadLetters": str(tmp_path / "d")}
    said = {"url": narrow.url, "key": "id, time", **folders}
    schema = StructType().add("id", StringType()).add("time", TimestampType())
    schema = schema.add("attributes", MapType(StringType(), VariantType()))
    writer = BatchWriter(writing(said), schema, overwrite=False)
    value, names = encode(1)

    def task(partition: int, pattern: str) -> Staged:
        held = [(name, {"value": value, "metadata": names}) for name in "abc"]
        found = [
            {"id": f"paris:{n}", "time": NOON, "attributes": held if letter == "x" else held[:2]}
            for n, letter in enumerate(pattern)
        ]
        monkeypatch.setattr(
            TaskContext, "get", lambda: SimpleNamespace(partitionId=lambda: partition)
        )
        columns = to_arrow_schema(schema, timezone="UTC")
        return writer.write(iter([pa.RecordBatch.from_pylist(found, columns)]))

    writer.commit([task(1, ".x"), task(0, ".."), task(2, "x.x")])
    (file,) = (tmp_path / "d").iterdir()
    found = [json.loads(line) for line in file.read_text().splitlines()]
    places = [(each["partition"], each["row"], each["key"]["id"]) for each in found]
    assert places == [(1, 2, "paris:1"), (2, 1, "paris:0"), (2, 3, "paris:2")]
    assert {each["key"]["time"] for each in found} == {"2026-11-15T12:00:00Z"}


def test_a_batch_leaves_nothing_at_the_broker_but_its_rows(
    narrow: BrokerProcess, tmp_path: Path
) -> None:
    def publishers() -> list[str]:
        with connect_sync(narrow.url, name="later") as client:
            client.publish({"number": 0})  # what the broker was told before is on its disk then
        path = f"file:{narrow.folder / 'store' / 'broker.db'}?mode=ro"
        with closing(sqlite3.connect(path, uri=True, timeout=30)) as connection:
            found = connection.execute("SELECT key FROM state WHERE key LIKE 'publisher:%'")
            return [key for (key,) in found]

    before = publishers()
    options = writing({"url": narrow.url, "staging": str(tmp_path / "s")})
    writer = BatchWriter(options, COLUMNS, overwrite=False)
    writer.commit([writer.write(iter([rows("...")]))])
    assert publishers() == before
    assert [*(tmp_path / "s").iterdir()] == []


def test_who_says_no_folder_shares_none_with_others() -> None:
    writer = BatchWriter(writing({}), COLUMNS, overwrite=False)
    assert writer._folder.endswith(f"-{os.getuid()}")
