"""Real brokers, a real lake, and `kill -9` of either side."""

from __future__ import annotations

import logging
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

import tidings
from tests.client.brokers import BrokerProcess
from tidings.broker.store import SQLiteStore
from tidings.client import Login
from tidings.events import Filter
from tidings.lakes.lake import Gap, Lake, LakeError
from tidings.spark.archiving import archive as archiving
from tidings.spark.archiving.archive import ArchiveReport, GapError, archive
from tidings.spark.archiving.haul import Haul, Hauled, OwnHands
from tidings.spark.streams.watch import EndsWatch

pytestmark = pytest.mark.slow


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    folder = tmp_path / "paris"
    folder.mkdir()
    broker = BrokerProcess(folder)
    broker.start()
    yield broker
    broker.stop()


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path / "lake")


def publish(broker: BrokerProcess, numbers: range) -> None:
    with tidings.connect_sync(broker.url) as client:
        client.publish_each({"n": n, "even": n % 2 == 0, "text": f"number {n}"} for n in numbers)


def log(broker: BrokerProcess, filter: str = "TRUE") -> list[tuple[str, Any, Any]]:
    """What the broker itself has, in its order."""
    with (
        tidings.connect_sync(broker.url) as client,
        client.subscribe(filter, since="begin") as events,
    ):
        return [(e.id, e.time, e.notification) for e in events.until_live()]


def archived(lake: Lake) -> list[tuple[str, Any, Any]]:
    return [(e.id, e.time, e.notification) for e in lake.events()]


def test_what_was_published_is_archived_and_then_what_follows(
    broker: BrokerProcess, lake: Lake
) -> None:
    publish(broker, range(1_000))
    reports: list[ArchiveReport] = []
    report = archive(broker.url, lake, batch=300, until="live", progress=reports.append)
    assert report.events == 1_000
    assert [r.events for r in reports][:3] == [300, 600, 900]
    assert reports[-1] == report
    assert lake.held() == {"paris": 1_000}
    publish(broker, range(1_000, 1_500))
    assert archive(broker.url, lake, until="paris:1500").events == 500
    assert archive(broker.url, lake, until="live").events == 0
    assert archived(lake) == log(broker)


def test_a_number_of_thousands_of_digits_is_archived_like_any_other(
    broker: BrokerProcess, lake: Lake
) -> None:
    with tidings.connect_sync(broker.url) as client:
        client.publish({"a": 10**5000})
    archive(broker.url, lake, until="live")
    assert [e.notification["a"] for e in lake.events("a > 5")] == [10**5000]
    assert archived(lake) == log(broker)


def test_only_what_the_filter_matches_is_archived_but_all_is_held(
    broker: BrokerProcess, tmp_path: Path
) -> None:
    publish(broker, range(100))
    lake = Lake(tmp_path / "few", filter="n < 10 AND even")
    archive(broker.url, lake, until="paris:100")
    assert lake.held() == {"paris": 100}
    assert archived(lake) == log(broker, "n < 10 AND even")
    assert len(archived(lake)) == 5


def test_it_commits_in_time_and_stops_when_told_to(broker: BrokerProcess, lake: Lake) -> None:
    stop = threading.Event()
    news: list[ArchiveReport] = []
    heard = threading.Event()

    def progress(report: ArchiveReport) -> None:
        news.append(report)
        if report.events:
            heard.set()

    def run() -> None:
        news.append(archive(broker.url, lake, every=0.2, stop=stop, progress=progress))

    thread = threading.Thread(target=run)
    thread.start()
    publish(broker, range(10))
    assert heard.wait(10)
    publish(broker, range(10, 20))
    stop.set()
    thread.join(10)
    assert not thread.is_alive()
    held = news[-1].events
    assert held in range(1, 21)
    assert archived(lake) == log(broker)[:held]
    archive(broker.url, lake, until="live")
    assert archived(lake) == log(broker)


def test_small_files_are_joined_while_it_goes_on(
    broker: BrokerProcess, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archiving, "_JOIN", 4)
    stop = threading.Event()
    commits = threading.Semaphore(0)
    thread = threading.Thread(
        target=archive,
        args=[broker.url, lake],
        kwargs={"every": 0.0, "stop": stop, "progress": lambda _: commits.release()},
    )
    thread.start()
    for first in range(0, 50, 10):
        publish(broker, range(first, first + 10))
        assert commits.acquire(timeout=30)
    end = monotonic() + 30
    while len(lake.snapshot().files()) > 3:
        assert thread.is_alive()
        assert monotonic() < end
    stop.set()
    thread.join(30)
    archive(broker.url, lake, until="live")
    assert archived(lake) == log(broker)


def test_small_files_are_joined_by_those_who_come_again_and_again(
    broker: BrokerProcess, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archiving, "_JOIN", 4)
    for first in range(0, 60, 10):
        publish(broker, range(first, first + 10))
        archive(broker.url, lake, until="live")
        assert len(lake.snapshot().files()) <= 5
    assert archived(lake) == log(broker)


def test_a_lake_that_is_deleted_while_it_is_filled_is_not_filled_any_more(
    broker: BrokerProcess, lake: Lake
) -> None:
    publish(broker, range(500))
    is_gone = threading.Event()

    def delete(_: ArchiveReport) -> None:
        shutil.rmtree(lake.path)
        is_gone.set()

    def go_on() -> None:
        is_gone.wait()
        publish(broker, range(500, 600))

    publisher = threading.Thread(target=go_on)
    publisher.start()
    with pytest.raises(LakeError, match="there is no lake here"):
        archive(broker.url, lake, every=0.1, until="paris:600", progress=delete)
    publisher.join()
    assert not lake.path.exists()


ARCHIVE = """
import sys
from tidings.spark.archiving.archive import archive
from tidings.lakes.lake import Lake
archive(
    sys.argv[1], Lake(sys.argv[2]), batch=2_000, every=0.2, wait=30,
    progress=lambda report: print(report.events, flush=True),
)
"""


def archiver(broker: BrokerProcess, lake: Lake) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", ARCHIVE, broker.url, str(lake.path)],
        stdout=subprocess.PIPE,
        text=True,
    )


def test_each_event_is_archived_once_whoever_is_killed(broker: BrokerProcess, lake: Lake) -> None:
    numbers, enough = count(), threading.Event()

    def until_enough() -> Iterator[dict[str, int]]:
        for n in numbers:
            yield {"n": n}
            if n % 50 == 49 and enough.wait(0.01):  # some thousand a second
                return

    def publish_all() -> None:
        with tidings.connect_sync(broker.url, wait=30) as client:
            client.publish_each(until_enough())

    publisher = threading.Thread(target=publish_all)
    publisher.start()
    try:
        for killed in ("archiver", "broker", "both"):
            process = archiver(broker, lake)
            assert process.stdout is not None
            assert process.stdout.readline()  # a commit
            if killed != "archiver":
                broker.kill()
                broker.start()
            if killed == "broker":
                assert process.stdout.readline()
            process.send_signal(signal.SIGKILL)
            process.wait()
            process.stdout.close()
            ticks = [e.tick for e in lake.events()]
            assert ticks == list(range(1, len(ticks) + 1))
            assert lake.held()["paris"] == len(ticks) > 0
    finally:
        enough.set()
        publisher.join()
    archive(broker.url, lake, until="live")
    assert archived(lake) == log(broker)
    assert [e.notification["n"] for e in lake.events()] == list(range(next(numbers)))


def trimmed(broker: BrokerProcess) -> int:
    """Let the broker forget what it can; the last tick that it no longer keeps."""
    broker.stop()
    store = SQLiteStore(broker.folder / "store", broker.name)
    first = store.trim(before=1e12)
    store.close()
    broker.start()
    return first - 1


def test_what_follows_on_a_stretch_whose_broker_was_away_waits_for_it(
    broker: BrokerProcess, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds: list[list[Haul]] = []

    class Unlucky(OwnHands):
        width = 2

        def haul(self, tasks: Sequence[Haul], stop: threading.Event) -> list[Hauled]:
            found = super().haul(tasks, stop)
            rounds.append([*tasks])
            if len(rounds) == 1:
                found[0].discard(lake.path)
                found[0] = Hauled(tasks[0].stretch.start, away="nobody is there")
            return found

    monkeypatch.setattr("tidings.spark.archiving.archive.OwnHands", Unlucky)
    publish(broker, range(1_000))
    assert archive(broker.url, lake, batch=500, until="live").events == 1_000
    assert len(rounds[0]) == 2, "the second one was brought in the same round"
    assert lake.held() == {"paris": 1_000}
    assert archived(lake) == log(broker)


@pytest.mark.parametrize("width", [1, 3], ids=["alone", "with stretches that follow"])
def test_a_gap_is_an_error_or_noted(
    broker: BrokerProcess, lake: Lake, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setattr(OwnHands, "width", width)
    publish(broker, range(100))
    archive(broker.url, lake, until="live")
    before = archived(lake)
    publish(broker, range(100, 200))
    publish(broker, range(200, 210))
    lost = trimmed(broker)
    assert lost > 100
    with pytest.raises(GapError, match=f"holds paris up to 100, but .* from {lost + 1} on only"):
        archive(broker.url, lake, until="live", batch=60)
    assert archived(lake) == before
    assert lake.gaps() == []
    archive(broker.url, lake, until="live", batch=60, on_gap="continue")
    assert lake.gaps() == [Gap("paris", 100, lost)]
    assert lake.held() == {"paris": 210}
    assert archived(lake) == before + log(broker)


def promised(broker: BrokerProcess, *, count: int = 1) -> list[float]:
    """So many times that a broker promises one after another."""
    found = set[float]()
    end = monotonic() + 30
    with (
        tidings.connect_sync(broker.url) as client,
        client.subscribe(Filter.none(), times=True) as silence,
    ):
        while len(found) < count:
            found |= set(silence.complete.values())
            assert monotonic() < end
    return sorted(found)


def test_an_idle_archive_tells_up_to_which_time_all_is_in_the_lake(
    broker: BrokerProcess, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archiving, "_SILENCE", 0.0)
    publish(broker, range(10))
    stop = threading.Event()
    thread = threading.Thread(
        target=archive, args=[broker.url, lake], kwargs={"stop": stop, "every": 0.1}
    )
    thread.start()
    try:
        for last in (10, 20):  # each time after a silence
            end = monotonic() + 30
            while True:
                view = lake.snapshot()
                events = list(view.events())
                below = view.complete().get("paris", 0.0)
                if len(events) == last and below > events[-1].time.timestamp():
                    break
                assert monotonic() < end
            assert view.held() == {"paris": last}
            publish(broker, range(10))
            later = [e[1].timestamp() for e in log(broker)[last:]]
            assert len(later) == 10
            assert below <= later[0]
    finally:
        stop.set()
        thread.join(30)
    assert lake.complete()["paris"] >= below


def test_an_idle_archive_makes_no_commit_for_each_promise(
    broker: BrokerProcess, lake: Lake
) -> None:
    stop, reports = threading.Event(), list[ArchiveReport]()
    publish(broker, range(10))
    thread = threading.Thread(
        target=archive,
        args=[broker.url, lake],
        kwargs={"stop": stop, "progress": reports.append},
    )
    thread.start()
    promises = promised(broker, count=5)
    stop.set()
    thread.join(30)
    assert [report.events for report in reports] == [10, 10], "the events, and a time at the end"
    assert lake.complete()["paris"] >= promises[-4]


def test_what_is_archived_and_ends_says_up_to_which_time(broker: BrokerProcess, lake: Lake) -> None:
    publish(broker, range(10))
    promised(broker)
    archive(broker.url, lake, until="live")
    before = lake.complete()["paris"]
    publish(broker, range(10))
    archive(broker.url, lake, until="paris:15")
    assert lake.complete()["paris"] <= log(broker)[15][1].timestamp()
    _, later = promised(broker, count=2)
    archive(broker.url, lake, until="live")
    assert lake.complete()["paris"] > before
    assert lake.complete()["paris"] > later - 1e-6


def test_that_a_broker_is_away_is_told_with_what_starts_one(
    broker: BrokerProcess, lake: Lake, caplog: pytest.LogCaptureFixture
) -> None:
    publish(broker, range(3))
    stop, told = threading.Event(), logging.Handler()
    told.emit = lambda _: stop.set()  # type: ignore[method-assign]
    logging.getLogger("tidings.spark").addHandler(told)
    nobody = Login("tidings://127.0.0.1:1", timeout=0.1)
    hauling = archiving.Rounds(lake, nobody, OwnHands(), 100, "fail", lambda _: None)
    try:
        with EndsWatch(Login(broker.url)) as watch:
            hauling.follow(watch, "live", 0.0, stop)
    finally:
        logging.getLogger("tidings.spark").removeHandler(told)
    assert caplog.messages[0].startswith("trying again: ")
    assert caplog.messages[0].endswith("This starts one: tidings up")


def test_a_new_lake_begins_with_what_is_kept_and_knows_what_is_not(
    broker: BrokerProcess, lake: Lake, caplog: pytest.LogCaptureFixture
) -> None:
    publish(broker, range(100))
    publish(broker, range(100, 110))
    lost = trimmed(broker)
    assert lost > 0
    with caplog.at_level(logging.WARNING, "tidings.spark"):
        archive(broker.url, lake, until="live")
    assert f"paris is kept from {lost + 1} on only; the lake begins there" in caplog.messages
    assert lake.gaps() == [Gap("paris", 0, lost)]
    assert lake.held() == {"paris": 110}
    assert archived(lake) == log(broker)
    publish(broker, range(110, 120))
    publish(broker, range(120, 130))
    trimmed(broker)
    with pytest.raises(GapError, match="holds paris up to 110"):
        archive(broker.url, lake, until="live")  # a later one is an error as ever


def test_another_broker_of_the_same_name_is_told_from_the_one_that_was_archived(
    broker: BrokerProcess, lake: Lake, tmp_path: Path
) -> None:
    publish(broker, range(10))
    archive(broker.url, lake, until="live")
    folder = tmp_path / "impostor"
    folder.mkdir()
    impostor = BrokerProcess(folder)
    impostor.start()
    try:
        publish(impostor, range(3))
        with pytest.raises(LakeError, match="not the paris that was archived before"):
            archive(impostor.url, lake, until="live", on_gap="continue")
    finally:
        impostor.stop()
    assert len(archived(lake)) == 10


def test_streams_of_a_network_are_archived_and_a_gap_of_one_costs_the_other_nothing(
    lake: Lake, tmp_path: Path
) -> None:
    for city in ("paris", "rome"):
        (tmp_path / city).mkdir()
    paris = BrokerProcess(tmp_path / "paris", config="[neighbours]\nrome = {}\n")
    paris.start()
    dial = f'[neighbours]\nparis = "127.0.0.1:{paris.port}"\n'
    rome = BrokerProcess(tmp_path / "rome", name="rome", config=dial)
    rome.start()
    try:
        publish(paris, range(50))
        publish(rome, range(70))
        archive(paris.url, lake, until="paris:50,rome:70")
        for numbers in (range(100, 150), range(150, 160)):
            publish(rome, numbers)
            publish(paris, numbers)
        lost = trimmed(rome)
        archive(paris.url, lake, until="paris:110,rome:130", on_gap="continue", batch=20)
        last = max(event.time.timestamp() for event in lake.events())
        end = monotonic() + 60
        while min(lake.complete().get(city, 0.0) for city in ("paris", "rome")) <= last:
            assert monotonic() < end
            archive(paris.url, lake, until="live")
    finally:
        rome.stop()
        paris.stop()
    assert lake.gaps() == [Gap("rome", 70, lost)]
    assert lake.held() == {"paris": 110, "rome": 130}
    found = list(lake.events())
    assert [e.tick for e in found if e.stream == "paris"] == list(range(1, 111))
    kept = [*range(1, 71), *range(lost + 1, 131)]
    assert [e.tick for e in found if e.stream == "rome"] == kept
