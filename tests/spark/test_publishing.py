"""Deliveries published by tasks: each once, also if a task is run again. Without Spark."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from errno import ENOSPC
from itertools import pairwise
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
from pyspark.sql.types import StructType

from tests.client.brokers import BrokerProcess
from tests.spark.brokers import Here, log_of, running
from tests.spark.delivered import published
from tidings.client import connect_sync
from tidings.client.plain import PlainClient
from tidings.delivery import refusals
from tidings.events import Notification, TidingsError
from tidings.lakes.lake import Lake
from tidings.spark.archiving.archive import archive
from tidings.spark.bulk import publishing
from tidings.spark.bulk.judging import Judged, Table
from tidings.spark.bulk.publishing import ROOM, Delivering, StretchPublisher, lanes
from tidings.spark.bulk.registrations import ALL, original, registration
from tidings.spark.format.options import reading
from tidings.spark.format.reader import StreamReader
from tidings.spark.streams.stretch import Stretch

pytestmark = pytest.mark.slow


class Served:
    """A broker with events that are wanted, and the table of who wants them."""

    def __init__(self, broker: BrokerProcess | Here, folder: Path, events: int, names: int) -> None:
        with connect_sync(broker.url) as client:
            client.advertise("TRUE")
            client.publish_each(registration(f"desk-{n:05}", f"n >= {n}") for n in range(names))
            client.publish_each({"n": n % (2 * names), "text": "x" * 20} for n in range(events))
        lake = Lake(folder / "table", filter=ALL)
        archive(broker.url, lake, until="live")
        self.start, self.end = names, names + events
        self.cursor = lake.held()
        self.letters = folder / "letters"
        self.options = {
            "url": broker.url,
            "subscriptions": str(lake.path),
            "deliver": "true",
            "deadLetters": str(self.letters),
            "timeout": "10",
        }
        self.wanted = Counter(
            (f"paris:{e.tick}", f"desk-{n:05}")
            for e in log_of(broker)
            for n in range(min(e.notification.get("n", -1) + 1, names))
        )

    def task(self, start: int | None = None, end: int | None = None) -> Delivering:
        stretch = Stretch("paris", start or self.start, end or self.end, {})
        return lanes([Judged(stretch, self.cursor)], "test", broker="paris")[0]

    def run(self, task: Delivering, **more: str) -> dict[str, Any]:
        options = reading({**self.options, **more}, is_stream=True)
        (batch,) = StreamReader(options, StructType()).read(task)
        return dict(batch.to_pylist()[0])


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with running(tmp_path / "broker") as found:
        yield found


def test_a_task_delivers_what_is_wanted_and_again_nothing(
    broker: BrokerProcess, tmp_path: Path
) -> None:
    served = Served(broker, tmp_path, events=300, names=20)
    middle = served.start + 200
    counts = [served.run(served.task(end=middle)), served.run(served.task(start=middle))]
    assert published(broker) == served.wanted
    assert [c["events"] for c in counts] == [200, 100]
    assert sum(c["delivered"] for c in counts) == len(served.wanted)
    assert sum(c["matched"] for c in counts) == len({id for id, _ in served.wanted}) == 300
    mean = sum(c["times"] for c in counts) / 300
    assert abs(mean - log_of(broker)[middle].time) < 60
    for task in (served.task(end=middle), served.task(start=middle)):
        served.run(task)  # Spark may not have heard that it was done
    assert published(broker) == served.wanted
    assert not served.letters.exists()


def test_what_is_delivered_is_exactly_what_was_published(
    broker: BrokerProcess, tmp_path: Path
) -> None:
    said = [
        Notification.from_json('{"n":0,"order":{"b":[5,4,5],"a":null}}'),
        Notification.from_json('{"x":1.10,"n":0}'),
        Notification.of_bytes(b"GIF89a", "image/gif", {"n": 0}),
    ]
    served = Served(broker, tmp_path, events=0, names=1)
    with connect_sync(broker.url) as client:
        client.publish_many(said)
    served.run(served.task(end=served.start + len(said)))
    log = [event.notification for event in log_of(broker)]
    assert [original(each) for each in log if "tidings.for" in each] == said


def test_stretches_of_a_batch_have_lanes_whose_numbers_rise() -> None:
    def batch(*ticks: int, stream: str = "paris") -> list[Judged]:
        pairs = pairwise(ticks)
        return [Judged(Stretch(stream, a, b, {}), {}) for a, b in pairs]

    last: dict[str, int] = {}
    for stretches in (
        batch(0, 20, 40, 45) + batch(0, 7, stream="rome"),
        batch(45, 50) + batch(7, 27, 29, stream="rome"),
        batch(50, 70, 71),
    ):
        found = lanes(stretches, "x", broker="paris")
        assert len({task.session for task in found}) == len(found)
        assert found == lanes(stretches, "x", broker="paris")
        for task in found:
            stretch = task.judged.stretch
            first = ROOM * stretch.start + 1
            assert first > last.get(task.session, 0)
            last[task.session] = ROOM * stretch.end
    assert len(last) == 5


def test_deliveries_are_advertised(tmp_path: Path) -> None:
    with running(tmp_path / "broker", config='[routing]\nadvertisements = "covering"\n') as broker:
        served = Served(broker, tmp_path, events=10, names=2)
        assert served.run(served.task())["refused"] == 0
        assert published(broker) == served.wanted


TASK = """
import pickle, sys
from pyspark.sql.types import StructType
from tidings.spark.format.options import reading
from tidings.spark.format.reader import StreamReader
with open(sys.argv[1], "rb") as file:
    task, options = pickle.load(file)
list(StreamReader(reading(options, is_stream=True), StructType()).read(task))
"""


def test_a_task_killed_at_any_moment_is_finished_by_the_next(
    broker: BrokerProcess, tmp_path: Path
) -> None:
    import pickle

    served, draw, kills = Served(broker, tmp_path, events=30_000, names=3), random.Random(7), 0
    (tmp_path / "task").write_bytes(pickle.dumps((served.task(), served.options)))
    with connect_sync(broker.url) as client, client.subscribe("TRUE", bulk="desk-00000") as heard:
        while True:
            process = subprocess.Popen([sys.executable, "-c", TASK, str(tmp_path / "task")])
            skipped, end = draw.randrange(100), monotonic() + 60
            while process.poll() is None and kills < 3:
                assert monotonic() < end
                try:
                    heard.get(timeout=0.05)
                except TimeoutError:
                    continue
                skipped -= 1
                if skipped < 0:
                    break
            if kills == 3 or process.poll() is not None:
                break
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
            kills += 1
            if kills == 2:
                broker.kill()
                broker.start()
            while heard.waiting:
                heard.get()
    assert process.wait(60) == 0
    assert kills >= 2
    assert published(broker) == served.wanted


def test_what_is_too_large_is_a_dead_letter_with_its_id(tmp_path: Path) -> None:
    with running(tmp_path / "broker", config="[limits]\nframe = 4096\n") as broker:
        served = Served(broker, tmp_path, events=400, names=400)
        counts = served.run(served.task())
        assert counts["refused"] > 50
        (file,) = served.letters.iterdir()
        letters = [json.loads(line) for line in file.read_text().splitlines()]
        lost = Counter((letter["id"], letter["names"]) for letter in letters)
        sizes = Counter(id for id, _ in served.wanted)
        assert all(sizes[id] == names for id, names in lost)
        gone = {id for id, _ in lost}
        assert published(broker) == Counter({p: 1 for p in served.wanted if p[0] not in gone})
        assert counts["delivered"] == len(published(broker))
        assert "the broker takes" in letters[0]["reason"]
        served.run(served.task())
        assert len(file.read_text().splitlines()) == len(letters), "they are not begun anew"
        assert sum(published(broker).values()) + sum(n for _, n in lost) == len(served.wanted)


@pytest.mark.parametrize("fails", ["task", "task and broker"])
def test_what_was_refused_to_a_task_that_failed_is_a_dead_letter_of_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    count, read = 3_000, publishing.read_rows
    with running(tmp_path / "broker", config="[limits]\nattributes = 5\n") as broker:
        with connect_sync(broker.url) as client:
            client.publish(registration("all", "EXISTS n"))
            # A delivery has three attributes more.
            client.publish_each(
                {"n": n, "a": 1, "b": 1} if n % 3 == 0 else {"n": n} for n in range(count)
            )
        served = Served(broker, tmp_path, events=0, names=0)
        task = served.task(start=1, end=1 + count)

        def failing(*about: Any) -> Iterator[Any]:
            for rows in read(*about):
                yield rows.between(0, 2_501)
                for _ in range(1_000):
                    heard.get(timeout=60)
                raise TidingsError("the stream's broker is away")

        with connect_sync(broker.url) as client, client.subscribe("TRUE", bulk="all") as heard:
            monkeypatch.setattr(publishing, "read_rows", failing)
            with pytest.raises(TidingsError, match="is away"):
                served.run(task)
            monkeypatch.undo()
        if fails == "task and broker":
            broker.kill()
            broker.start()
        counts = served.run(task)
        assert (counts["delivered"], counts["refused"]) == (2_000, 1_000)
        assert served.run(task) == counts, "Spark may not have heard that it was done"
        files = [file.read_text().splitlines() for file in served.letters.iterdir()]
        letters = {json.loads(line)["id"] for lines in files for line in lines}
        reached = {id for id, _ in published(broker)}
        assert (len(reached), len(letters)) == (2_000, 1_000)
        assert len(reached | letters) == count


@pytest.mark.parametrize(("first", "then"), [(4_096, 1 << 20), (1 << 20, 4_096)])
def test_what_is_too_large_now_may_be_taken_later_and_the_others_keep_their_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: int, then: int
) -> None:
    count, send = 3_000, StretchPublisher._send
    with running(tmp_path / "broker") as broker:
        with connect_sync(broker.url) as client:
            client.publish(registration("all", "EXISTS n"))
            client.publish_each({"n": n, "text": "x" * 60 * (99 - n % 100)} for n in range(count))
        served = Served(broker, tmp_path, events=0, names=0)
        task = served.task(start=1, end=1 + count)

        def sent(self: StretchPublisher) -> None:
            send(self)
            while self._under_way:
                self._wait()
            raise TidingsError("it fails when all of a list is kept")

        broker.stop()
        broker.start(config=f"[limits]\nframe = {first}\n")
        monkeypatch.setattr(StretchPublisher, "_send", sent)
        with pytest.raises(TidingsError, match="it fails"):
            served.run(task)
        monkeypatch.undo()
        broker.stop()
        broker.start(config=f"[limits]\nframe = {then}\n")
        counts = served.run(task)
        files = [file.read_text().splitlines() for file in served.letters.iterdir()]
        letters = {json.loads(line)["id"] for lines in files for line in lines}
        reached = published(broker)
        assert set(reached.values()) == {1}
        assert not letters & {id for id, _ in reached}
        assert len(letters) + len(reached) == count
        assert (counts["delivered"], counts["refused"]) == (len(reached), len(letters))


def test_a_task_that_cannot_write_its_letters_leaves_no_client_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running(tmp_path / "broker", config="[limits]\nattributes = 3\n") as broker:
        served = Served(broker, tmp_path, events=1, names=1)
        before = threading.active_count()

        def full(_: int) -> None:
            raise OSError(ENOSPC, "there is no room")

        monkeypatch.setattr("tidings.spark.letters.os.fsync", full)
        with pytest.raises(OSError, match="there is no room"):
            served.run(served.task())
        assert threading.active_count() == before


def test_a_broker_remembers_more_refusals_than_a_task_may_have_to_write_down() -> None:
    assert publishing._UNDER_WAY * publishing._AT_ONCE <= refusals.EACH


def test_what_is_no_longer_kept_fails_the_task_or_is_passed_over(tmp_path: Path) -> None:
    from tidings.broker.store import SQLiteStore

    with running(tmp_path / "broker") as broker:
        served = Served(broker, tmp_path, events=50, names=2)
        with connect_sync(broker.url) as client:
            for _ in range(3):
                client.publish_each({"n": 1} for _ in range(50))
        end = served.end + 150
        before = served.run(served.task(end=served.start + 30))["delivered"]  # and then was killed
        broker.stop()
        store = SQLiteStore(broker.folder / "store", broker.name)
        first = store.trim(before=log_of(broker)[120].time)
        store.close()
        broker.start()
        with pytest.raises(TidingsError, match="no longer kept"):
            served.run(served.task(end=end))
        counts = served.run(served.task(end=end), onGap="continue")
        assert counts["delivered"] == 2 * (end - first + 1)
        found = published(broker)
        assert len(found) == counts["delivered"] + before, "nothing is taken for delivered before"
        assert set(found.values()) == {1}


def test_a_task_whose_log_is_lost_fails_or_ends(broker: BrokerProcess, tmp_path: Path) -> None:
    import shutil

    served = Served(broker, tmp_path, events=50, names=2)
    broker.stop()
    shutil.rmtree(broker.folder / "store")
    broker.start()
    with pytest.raises(TidingsError, match="stream paris ends at tick 0, before tick"):
        served.run(served.task())
    counts = served.run(served.task(), onGap="continue")
    assert (counts["delivered"], published(broker)) == (0, {})


def test_numbers_that_would_belong_to_the_next_stretch_are_not_used(
    broker: BrokerProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = Served(broker, tmp_path, events=2_100, names=1_001)
    monkeypatch.setattr("tidings.spark.bulk.publishing.ROOM", 1)
    with pytest.raises(TidingsError, match="more deliveries of an event than numbers"):
        served.run(served.task(start=served.start + 1_000))


def test_a_broker_that_stays_away_is_told(broker: BrokerProcess, tmp_path: Path) -> None:
    served = Served(broker, tmp_path, events=10, names=2)
    broker.kill()
    with pytest.raises(TidingsError, match="no broker can be reached"):
        served.run(served.task(), timeout="0.3")
    threading.Timer(0.5, broker.start).start()
    served.run(served.task())
    assert published(broker) == served.wanted


def test_a_broker_that_goes_away_before_anything_is_delivered_is_told(
    broker: BrokerProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = Served(broker, tmp_path, events=10, names=2)
    opened, closed = PlainClient.open, PlainClient.close

    def freezing(client: PlainClient) -> PlainClient:
        opened(client)
        broker.signal(signal.SIGSTOP)
        return client

    def waking(client: PlainClient) -> None:
        broker.signal(signal.SIGCONT)
        closed(client)

    with monkeypatch.context() as amid:
        amid.setattr(PlainClient, "open", freezing)
        amid.setattr(PlainClient, "close", waking)
        with pytest.raises(TidingsError, match=r"has not answered within 0\.3 seconds"):
            served.run(served.task(), timeout="0.3")
    served.run(served.task())
    assert published(broker) == served.wanted


def test_another_table_is_not_the_one_an_offset_names(tmp_path: Path) -> None:
    offsets = []
    for name in ("a", "b"):
        Lake(tmp_path / name, filter=ALL)
        offsets.append({"subscriptions": Table(str(tmp_path / name)).now()})
    assert Table(str(tmp_path / "a")).cursor_of(offsets[0]) == {}
    for wrong in (offsets[1], {}):
        with pytest.raises(TidingsError, match="belongs to other subscriptions"):
            Table(str(tmp_path / "a")).cursor_of(wrong)


def test_numbers_that_are_left_out_are_not_given(broker: BrokerProcess) -> None:
    with connect_sync(broker.url, name="numbered") as client:
        assert client.publish({"n": 0}).number == 1
        client.leave_out(1_000)
        assert client.publish_soon([], on_refused=None).result() == 0
        assert client.publish({"n": 1}).number == 1_001
        client.leave_out(7)
        assert client.publish({"n": 2}).number == 1_002
        assert client.kept == 1_002
    with connect_sync(broker.url, name="numbered") as client:
        assert client.kept == 1_002
    assert [e.notification["n"] for e in log_of(broker)] == [0, 1, 2]
