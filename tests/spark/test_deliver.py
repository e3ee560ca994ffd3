"""Bulk subscriptions served by Spark: against the broker's log and what the offsets say."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from tests.client.brokers import BrokerProcess, program
from tests.spark.brokers import log_of, running
from tests.spark.delivered import offsets, published, wanted
from tidings.client import connect_sync
from tidings.events import Notification, TidingsError
from tidings.spark.bulk.bulk import Keeper
from tidings.spark.bulk.registrations import cancellation, deliveries, original, registration
from tidings.spark.delivering.deliver import deliver
from tidings.spark.delivering.lock import locked
from tidings.spark.delivering.tally import DeliverReport

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("deliver")]

PATIENCE = 120.0
NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)


def until(condition: Callable[[], Any], what: str = "it does not happen") -> Any:
    end = monotonic() + PATIENCE
    while not (found := condition()):
        assert monotonic() < end, what
        threading.Event().wait(0.05)
    return found


class Deliverer:
    """`deliver` in a thread of its own."""

    def __init__(self, spark: Any, broker: BrokerProcess, folder: Path, **options: Any) -> None:
        self.report = DeliverReport()
        self._end = threading.Event()
        self._problem: BaseException | None = None
        self._thread = threading.Thread(
            target=self._run, args=(spark, broker.url, folder), kwargs=options
        )

    def _run(self, spark: Any, url: str, folder: Path, **options: Any) -> None:
        try:
            deliver(spark, url, folder, progress=self._told, stop=self._end, **options)
        except BaseException as problem:
            self._problem = problem

    def _told(self, report: DeliverReport) -> None:
        self.report = report

    def __enter__(self) -> Deliverer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join(PATIENCE)
        assert self._problem is None, self._problem

    def check(self) -> bool:
        assert self._thread.is_alive(), self._problem
        return True


def commits(checkpoint: Path) -> list[int]:
    return [int(p.name) for p in (checkpoint / "commits").glob("*") if p.name.isdecimal()]


def forget_the_last_commit(checkpoint: Path) -> int:
    last = max(commits(checkpoint))
    for name in (f"{last}", f".{last}.crc"):
        (checkpoint / "commits" / name).unlink()
    return last


def has_judged(checkpoint: Path, broker: BrokerProcess) -> bool:
    """Whether the batches that are done reach behind the last event that is no delivery."""
    done = commits(checkpoint)
    begun = offsets(checkpoint) if done else []
    ours = ("tidings.for", "tidings.bulk")
    last = max(e.tick for e in log_of(broker) if not any(o in e.notification for o in ours))
    return bool(done) and begun[max(done)]["cursor"].get("paris", 0) >= last


def test_events_are_delivered_to_who_wants_them_by_the_table_their_offset_names(
    spark: Any, tmp_path: Path
) -> None:
    place, checkpoint = tmp_path / "deliver", tmp_path / "deliver" / "checkpoint"
    with running(tmp_path / "broker") as broker, connect_sync(broker.url) as client:
        client.publish_each(registration(f"many-{n}", "n = 7") for n in range(1_200))
        client.publish(registration("odd", "odd"))
        client.publish_each([Notification({"tidings.bulk": "bad", "filter": "n = = 1"})])
        with (
            Deliverer(spark, broker, place) as deliverer,
            client.subscribe("TRUE", bulk="low", durable="low") as low,
            client.subscribe("TRUE") as others,
        ):
            until(lambda: deliverer.check() and deliverer.report.subscriptions == 1_201)
            until(lambda: deliverer.check() and (checkpoint / "commits" / "0").exists())
            assert deliverer.report.refused == 1
            assert "expected" in deliverer.report.why
            n = 0
            for change in (
                registration("low", "n < 1000"),
                registration("low", "n < 1000 AND odd"),
                cancellation("odd"),
                registration("all", "TRUE"),
            ):
                client.publish(change)
                for _ in range(2):
                    client.publish_each({"n": n + i, "odd": i % 2 == 1} for i in range(100))
                    n += 100
                    before = deliverer.report.batches
                    until(lambda b=before: deliverer.check() and deliverer.report.batches > b)
            until(lambda: deliverer.check() and has_judged(checkpoint, broker))
            found, log, begun = published(broker), log_of(broker), offsets(checkpoint)
            assert found == wanted(log, begun)
            assert set(found.values()) == {1}
            # Each of the tables was in force for something, and more than one for "low".
            assert {name for _, name in found} >= {"many-7", "odd", "low", "all"}
            assert len({b["subscriptions"]["cursor"].get("paris", 0) for b in begun}) >= 4
            heard = [low.get(timeout=5) for _ in range(sum(w == "low" for _, w in found))]
            by_id = {e["tidings.id"]: original(e.notification) for e in heard}
            assert by_id == {i: log[int(i[6:]) - 1].notification for i, w in found if w == "low"}
            # Nobody but the addressee hears of a copy, and it does not see for whom else it is.
            assert {name for e in heard for name in e["tidings.for"]} == {"low"}
            ordinary = [e for e in log if "tidings.for" not in e.notification]
            told = [others.get(timeout=5)]
            while told[-1].tick < ordinary[-1].tick:
                told.append(others.get(timeout=5))
            assert [e.tick for e in told] == [e.tick for e in ordinary if e.tick >= told[0].tick]
            for filter_ in ("TRUE", "n >= 0 OR EXISTS tidings.for"):  # one is copied, one told
                reading = {"url": broker.url, "since": "begin", "filter": filter_}
                rows = spark.read.format("tidings").options(**reading).load().select("tick")
                ticks = {row.tick for row in rows.collect()}
                assert not ticks & {e.tick for e in log if "tidings.for" in e.notification}
                assert ticks >= {e.tick for e in ordinary if "n" in e.notification}
            assert deliverer.report.matched == len({i for i, _ in found})
            assert deliverer.report.delivered == len(found)
            assert deliverer.report.latency is not None
        # As if Spark had been killed before it wrote that the last batch is done; and the table
        # has changed since.
        client.publish(registration("late", "TRUE"))
        last = forget_the_last_commit(checkpoint)
        with Deliverer(spark, broker, place) as deliverer:
            until(lambda: deliverer.check() and (checkpoint / "commits" / f"{last}").exists())
            assert published(broker) == wanted(log_of(broker), offsets(checkpoint))
            client.publish({"n": 5})
            until(lambda: deliverer.check() and has_judged(checkpoint, broker))
            until(lambda: published(broker) == wanted(log_of(broker), offsets(checkpoint)))
            assert sum(name == "late" for _, name in published(broker)) == 1


def test_an_inbox_takes_each_delivery_once(spark: Any, tmp_path: Path) -> None:
    from deltalake import DeltaTable

    def rows() -> list[dict[str, Any]]:
        return DeltaTable(tmp_path / "inbox").to_pyarrow_table().to_pylist()

    place, checkpoint = tmp_path / "deliver", tmp_path / "deliver" / "checkpoint-inbox"
    with running(tmp_path / "broker") as broker, connect_sync(broker.url) as client:
        client.publish_each(registration(f"desk-{n}", f"n < {10 * n}") for n in range(6))
        for round in range(2):
            with Deliverer(spark, broker, place, inbox=tmp_path / "inbox") as deliverer:
                until(lambda: deliverer.check() and (checkpoint / "commits" / "0").exists())
                client.publish_each({"n": n} for n in range(100))
                until(lambda: deliverer.check() and has_judged(checkpoint, broker))
            found = Counter((row["id"], row["name"]) for row in rows())
            log = log_of(broker)
            assert found == wanted(log, offsets(checkpoint))
            assert len(found) == 150 * (round + 1)
            forget_the_last_commit(checkpoint)
        for row in rows():
            event = log[int(row["id"].partition(":")[2]) - 1]
            assert Notification.from_json(row["event"]) == event.notification
            assert abs(row["time"].timestamp() - event.time) < 1e-5


# -- killed ------------------------------------------------------------------------------------


@contextmanager
def command(broker: BrokerProcess, place: Path) -> Iterator[subprocess.Popen[bytes]]:
    """`tidings pipeline deliver` in a group of processes of its own."""
    arguments = ["pipeline", "deliver", "--lake", str(place), "--master", "local[2]"]
    process = subprocess.Popen(
        [sys.executable, "-m", "tidings.cli", *arguments, "--url", broker.url],
        start_new_session=True,
        stderr=subprocess.PIPE,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate(timeout=60)


def test_each_name_hears_of_each_event_once_though_all_is_killed(tmp_path: Path) -> None:
    place, checkpoint = tmp_path / "deliver", tmp_path / "deliver" / "checkpoint"
    enough, kills, was_in_a_batch = threading.Event(), 0, False
    with running(tmp_path / "broker") as broker:

        def publish() -> None:
            with connect_sync(broker.url, name="feed") as client:
                while not enough.wait(0.1):
                    client.publish_each({"n": n} for n in range(300))

        with connect_sync(broker.url) as client:
            client.publish_each(registration(f"desk-{n}", f"n < {n}") for n in range(0, 300, 30))
        publisher = threading.Thread(target=publish)
        publisher.start()
        try:
            while not was_in_a_batch:
                assert kills < 5, "it was never killed in a batch"
                with command(broker, place) as process, Ear(broker) as ear:
                    ear.hears_more(process)
                    broker.kill()  # what is under way must then be sent again
                    broker.start()
                    ear.hears_more(process)
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
                kills += 1
                was_in_a_batch = len(offsets(checkpoint)) > max(commits(checkpoint), default=-1) + 1
        finally:
            enough.set()
            publisher.join()
        with command(broker, place) as process:
            until(lambda: process.poll() is None and has_judged(checkpoint, broker))
            os.killpg(process.pid, signal.SIGTERM)  # Java gets it, too, as systemd does it
            _, said = process.communicate(timeout=PATIENCE)
            assert process.returncode == 0, said.decode()
            assert b"Traceback" not in said, said.decode()
            assert b" delivered to 10 subscriptions, in " in said, said.decode()
        found = published(broker)
        assert found == wanted(log_of(broker), offsets(checkpoint))
        assert len(found) > 1_000


def wait_for(told: bytes, process: subprocess.Popen[bytes]) -> None:
    """Until it says this on stderr, where it says something every ten seconds."""
    assert process.stderr is not None
    end = monotonic() + PATIENCE
    for line in process.stderr:
        if told in line:
            return
        assert monotonic() < end, line
    raise AssertionError("it has ended")


def test_it_says_from_when_on_it_delivers(tmp_path: Path) -> None:
    with running(tmp_path / "broker") as broker, connect_sync(broker.url) as client:
        client.publish(registration("all", "TRUE"))
        client.publish({"n": 0})  # before, so nobody hears of it
        for told in (b"delivering what is published from now on\n", b"going on where it was\n"):
            with command(broker, tmp_path / "deliver") as process:
                wait_for(told, process)
                client.publish({"n": 1})
                last = f"paris:{log_of(broker)[-1].tick}"
                until(lambda last=last: published(broker)[last, "all"])
                os.killpg(process.pid, signal.SIGTERM)
                process.communicate(timeout=PATIENCE)
            client.publish({"n": 2})
        log, found = log_of(broker), published(broker).elements()
        heard = [log[int(id.partition(":")[2]) - 1].notification["n"] for id, _ in found]
    assert sorted(heard) == [1, 1, 2]


class Ear:
    """Hears when something is delivered to the one who wants most."""

    def __init__(self, broker: BrokerProcess) -> None:
        self._client = connect_sync(broker.url)

    def __enter__(self) -> Ear:
        self._heard = self._client.open().subscribe("TRUE", bulk="desk-270", queue=1_000_000)
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def hears_more(self, process: subprocess.Popen[bytes]) -> None:
        """Wait until more is delivered than was before."""
        while self._heard.waiting:
            self._heard.get(timeout=0)

        def hears() -> bool:
            assert process.poll() is None, "it has ended"
            with suppress(TimeoutError):
                return bool(self._heard.get(timeout=0.1))
            return False

        until(hears)


# -- a broker that is away -----------------------------------------------------------------------


def is_waiting(caplog: pytest.LogCaptureFixture) -> bool:
    return "trying again" in caplog.text


def test_it_waits_for_a_broker_that_is_away_when_it_begins(
    spark: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with running(tmp_path / "broker") as broker:
        with connect_sync(broker.url) as client:
            client.publish(registration("desk-7", "n < 5"))
        broker.kill()
        with Deliverer(spark, broker, tmp_path / "deliver") as deliverer:
            until(lambda: deliverer.check() and is_waiting(caplog))
            broker.start()
            until(lambda: deliverer.check() and deliverer.report.subscriptions == 1)


def test_it_can_be_stopped_while_it_waits_for_a_broker(
    spark: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stop, reports = threading.Event(), []
    away = threading.Thread(
        target=lambda: reports.append(
            deliver(spark, "tidings://127.0.0.1:1", tmp_path / "deliver", stop=stop)
        ),
        daemon=True,
    )
    away.start()
    until(lambda: away.is_alive() and is_waiting(caplog))
    stop.set()
    away.join(60)
    assert [report.events for report in reports] == [0]
    told = "trying again for 120 seconds: no broker can be reached at 127.0.0.1:1: "
    assert caplog.messages[0].startswith(told)
    assert caplog.messages[0].endswith("\nIs it running? This starts one: tidings up")


def test_batches_are_counted_while_filters_are_parsed(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark tells of the last batches only: whoever does not look in time misses some."""
    parsing, parsed, follow = threading.Event(), threading.Event(), Keeper.follow

    def slowly(keeper: Keeper) -> None:
        if keeper.known.count:
            parsing.set()
            parsed.wait(PATIENCE)
        follow(keeper)

    monkeypatch.setattr(Keeper, "follow", slowly)
    with running(tmp_path / "broker") as broker, connect_sync(broker.url) as client:
        client.publish(registration("all", "TRUE"))
        with Deliverer(spark, broker, tmp_path / "deliver") as deliverer:
            try:
                until(lambda: deliverer.check() and deliverer.report.batches)
                client.publish(registration("more", "TRUE"))
                until(lambda: deliverer.check() and parsing.is_set())
                client.publish({"n": 1})
                until(lambda: deliverer.check() and deliverer.report.delivered)
            finally:
                parsed.set()


def test_two_do_not_deliver_from_the_same_folder(spark: Any, tmp_path: Path) -> None:
    with (
        locked(tmp_path / "deliver"),
        pytest.raises(TidingsError, match=f"is in use: process {os.getpid()} delivers from it"),
    ):
        deliver(spark, "tidings://127.0.0.1:1", tmp_path / "deliver")


# -- the command -------------------------------------------------------------------------------


def test_a_bulk_subscription_prints_the_events_as_they_were(tmp_path: Path) -> None:
    """Without Spark: what it would publish is published here."""
    with (
        running(tmp_path / "broker") as broker,
        connect_sync(broker.url) as client,
        client.subscribe("EXISTS tidings.bulk") as registrations,
    ):
        listener = program("subscribe", "n < 5", "--bulk", "desk-7", "--count=1", url=broker.url)
        assert dict(registrations.get(30)) == {"tidings.bulk": "desk-7", "filter": "n < 5"}
        event = Notification({"n": 1, "tags": ["a", "b"]})
        for id in ("paris:90", "paris:91"):
            client.publish_each(deliveries(event, ["desk-7", "x"], id=id, time=NOON))
        out, err = listener.communicate(timeout=60)
        assert (out, err) == (event.to_json() + "\n", "1 event\n")
        again = program(
            *("subscribe", "--bulk", "desk-7", "--with-meta", "--until", "now"), url=broker.url
        )
        out, _ = again.communicate(timeout=60)
        said = json.loads(out)  # the other one: what was printed is acknowledged
        assert (said["id"], said["time"]) == ("paris:91", "2026-11-16T12:00:00Z")
        assert Notification(said["event"]) == event
        client.publish({"tidings.for": {"desk-7"}, "tidings.time": "noon", "n": 2})  # a stranger's
        again = program(
            *("subscribe", "--bulk", "desk-7", "--with-meta", "--until", "now"), url=broker.url
        )
        said = json.loads(again.communicate(timeout=60)[0])
        assert (said["id"], said["event"]) == (f"paris:{log_of(broker)[-1].tick}", {"n": 2})
        cancel = program("subscribe", "--bulk", "desk-7", "--cancel", url=broker.url)
        assert cancel.communicate(timeout=60)[1] == "desk-7 is cancelled\n"
        assert dict(registrations.get(30)) == {"tidings.bulk": "desk-7", "cancelled": True}
        (tmp_path / "f.tsv").write_text("a\tn = 1\nb\tn = 2\n")
        many = program("subscribe", "--filters", str(tmp_path / "f.tsv"), url=broker.url)
        out, err = many.communicate(timeout=60)
        assert (many.returncode, err) == (0, "2 subscriptions registered\n")
        names = [registrations.get(30)["tidings.bulk"] for _ in range(2)]
        assert names == ["a", "b"]
        for arguments in (
            ["subscribe"],
            ["subscribe", "n = 1", "--cancel"],
            ["subscribe", "n = 1", "--bulk", "a", "--durable", "b"],
            ["subscribe", "n = = 1", "--bulk", "a"],
            ["subscribe", "n = 1", "--bulk", ""],
        ):
            process = program(*arguments, url=broker.url)
            out, err = process.communicate(timeout=60)
            assert (process.returncode, out) == (2, ""), err
            assert "Traceback" not in err
        process = program("subscribe", "n = = 1", "--bulk", "a", url=broker.url)
        assert "expected a constant" in process.communicate(timeout=60)[1]
        assert len(log_of(broker)) == 7
