"""History, then live: brokers that keep little, a lake that has the rest, and nothing twice."""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import tidings
from tests.client.brokers import PROGRAM, program
from tests.network.brokers import HASTY, ODD, PATIENCE, Network, eventually
from tests.spark.brokers import Here
from tidings.client import ClientClosed, CursorTooOld, Event, PlainClient
from tidings.events import Notification
from tidings.lakes.history import History, read, served
from tidings.lakes.lake import Gap, Lake, LakeError
from tidings.lakes.layout import Archived
from tidings.protocol.cursors import read_cursor
from tidings.spark.archiving.archive import archive


@contextmanager
def here(folder: Path, **options: str) -> Iterator[Here]:
    broker = Here(folder, **options)
    try:
        yield broker
    finally:
        broker.stop()


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Here]:
    with here(tmp_path) as broker:
        yield broker


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path / "lake")


def publish(broker: Here, *numbers: int) -> None:
    """Each in a batch of its own, since whole batches are let go of."""
    with tidings.connect_sync(broker.url) as client:
        for n in numbers:
            client.publish({"n": n, "even": n % 2 == 0})


def archived(broker: Here, lake: Lake) -> None:
    archive(broker.url, lake, until="live")


def connected(broker: Here) -> PlainClient:
    return tidings.connect_sync(broker.url)


def numbers(events: list[Event]) -> list[int]:
    return [event["n"] for event in events]


def heard(broker: Here, lake: Lake, filter: str = "TRUE", **where: Any) -> list[int]:
    with connected(broker) as client, History(client, lake, filter, **where) as events:
        return numbers(list(events.until_live()))


# -- one after the other -----------------------------------------------------------------------


@pytest.fixture
def split(broker: Here, lake: Lake) -> tuple[Here, Lake]:
    """Ten events in the lake, the last of which the broker still has, and five later ones."""
    publish(broker, *range(1, 11))
    archived(broker, lake)
    broker.trim()
    publish(broker, *range(11, 16))
    return broker, lake


def test_what_brokers_no_longer_keep_comes_from_the_lake(
    split: tuple[Here, Lake],
) -> None:
    broker, lake = split
    assert heard(broker, lake, since="begin") == list(range(1, 16))
    assert heard(broker, lake, "even = TRUE", since="begin") == list(range(2, 15, 2))
    assert heard(broker, lake, "n IN (1, 3, 12)", since="begin") == [1, 3, 12]
    assert heard(broker, lake, since="paris:4") == list(range(5, 16))
    assert heard(broker, lake, since="paris:12") == [13, 14, 15]
    for event in lake.events("n IN (1, 6, 10)"):
        n = event.notification["n"]
        assert heard(broker, lake, since=event.time) == list(range(n, 16))
    assert heard(broker, lake, since="-1h") == list(range(1, 16))
    assert heard(broker, lake, since="paris:15") == []


def test_what_was_published_is_heard_exactly_from_either(broker: Here, lake: Lake) -> None:
    said = [
        Notification.from_json('{"n":1,"order":{"b":[5,4,5],"a":null},"price":1.10}'),
        Notification.from_json('{"n":-9.0,"order":1}'),
        Notification.of_bytes(b"GIF89a", "image/gif", {"n": 3}),
        Notification.from_json('{"n":-9}'),
    ]
    with connected(broker) as client:
        for each in said:
            client.publish(each)
    archived(broker, lake)
    broker.trim()
    with connected(broker) as client:
        client.publish(said[0])
        with History(client, lake, "EXISTS n", since="begin") as events:
            heard = list(events.until_live())
    assert [event.notification for event in heard] == [*said, said[0]]
    assert [event.body for event in heard] == [n.body for n in [*said, said[0]]]
    assert heard[0].value == heard[4].value


def test_events_have_the_same_times_and_cursors_from_either(
    split: tuple[Here, Lake],
) -> None:
    broker, lake = split
    first = next(lake.events("n = 3"))
    with connected(broker) as client, History(client, lake, "TRUE", since=first.time) as events:
        told = list(events.until_live())
    assert [e.time for e in told[:8]] == [e.time for e in lake.events("n >= 3")]
    assert [e.cursor for e in told] == [f"paris:{n}" for n in range(3, 16)]
    for event in told[::5]:
        assert heard(broker, lake, since=event.cursor) == list(range(event["n"] + 1, 16))


def test_a_snapshot_says_where_to_go_on(split: tuple[Here, Lake]) -> None:
    broker, lake = split
    events, cursor = read(lake.snapshot(), served(lake, "TRUE"), {"paris": 7}, None, None)
    publish(broker, 16)
    archived(broker, lake)  # it does not move on under whoever reads it
    assert [event.tick for event in events] == [8, 9, 10]
    assert cursor == {"paris": 10}
    with connected(broker) as client, client.subscribe("TRUE", since=cursor) as following:
        assert numbers(list(following.until_live())) == list(range(11, 17))


def test_what_the_lake_gets_while_it_is_read_is_read_there(
    split: tuple[Here, Lake],
) -> None:
    broker, lake = split
    with connected(broker) as client, History(client, lake, "TRUE", since="begin") as events:
        told = [events.get()["n"] for _ in range(5)]
        archived(broker, lake)
        broker.trim()  # so that the place where it would have gone on is gone
        publish(broker, 16)
        assert told + numbers(list(events.until_live())) == list(range(1, 17))


def test_what_neither_has_is_named_and_can_be_left_out(split: tuple[Here, Lake]) -> None:
    broker, lake = split
    broker.trim()
    told: list[Event] = []
    lost = r"ticks 11 to 14 of paris are no longer kept, and .* holds it up to tick 10; does"
    with (
        connected(broker) as client,
        History(client, lake, "TRUE", since="begin") as events,
        pytest.raises(CursorTooOld, match=lost) as problem,
    ):
        told.extend(events.until_live())
    assert numbers(told) == list(range(1, 11))
    found = problem.value
    assert (found.stream, found.position, found.cursor) == ("paris", 10, "paris:14")
    assert heard(broker, lake, since=found.cursor) == [15]
    # What is missing is no business of somebody who asks for what came later. (Of the moment of
    # the first one that is kept, nobody can tell.)
    publish(broker, 16)
    with connected(broker) as client, client.subscribe("TRUE", since="begin") as kept:
        first, later = (event.time for event in kept.until_live())
    assert heard(broker, lake, since=later) == [16]
    with pytest.raises(CursorTooOld):
        heard(broker, lake, since=first)


def test_gaps_of_the_lake_are_known_where_they_matter(
    split: tuple[Here, Lake],
) -> None:
    broker, lake = split
    broker.trim()
    archive(broker.url, lake, until="live", on_gap="continue")
    gap = Gap("paris", 10, 14)
    assert lake.gaps() == [gap]
    with connected(broker) as client:
        early, last = next(lake.events("n = 4")).time, next(lake.events("n = 15")).time
        for since, gaps in (
            ("begin", [gap]),
            ("paris:12", [gap]),
            ("paris:14", []),
            (early, [gap]),
            (last, [gap]),  # what is missing may be of the same moment
        ):
            assert History(client, lake, "TRUE", since=since).gaps() == gaps, since
        publish(broker, 16)
        archived(broker, lake)
        after = next(lake.events("n = 16")).time
        assert last < after
        assert History(client, lake, "TRUE", since=after).gaps() == []
    assert heard(broker, lake, since="begin") == [*range(1, 11), 15, 16]


def test_a_lake_that_came_too_late_for_the_first_events_lacks_them(
    broker: Here, lake: Lake
) -> None:
    publish(broker, 1, 2, 3, 4)
    broker.trim()
    publish(broker, 5)
    archived(broker, lake)
    gap = Gap("paris", 0, 3)
    assert lake.gaps() == [gap]
    broker.trim()
    publish(broker, 6)
    with connected(broker) as client:
        for since, gaps in (("begin", [gap]), ("paris:2", [gap]), ("paris:3", []), ("-1h", [gap])):
            with History(client, lake, "TRUE", since=since) as events:
                assert events.gaps() == gaps, since
                assert numbers(list(events.until_live())) == [4, 5, 6]


def test_a_lake_of_something_else_is_refused(broker: Here, tmp_path: Path) -> None:
    publish(broker, 1, 2, 3, 4)
    lake = Lake(tmp_path / "even", filter="even = TRUE")
    archived(broker, lake)
    with connected(broker) as client:
        with pytest.raises(LakeError, match="holds only even = TRUE, and so not all of n > 1"):
            History(client, lake, "n > 1", since="begin")
        with History(client, lake, "even = TRUE AND n > 2", since="begin") as events:
            assert numbers(list(events.until_live())) == [4]


def test_copies_for_bulk_subscribers_are_left_out_with_a_lake_that_lacks_them(
    broker: Here, lake: Lake
) -> None:
    with connected(broker) as client:
        client.publish({"n": 1})
        client.publish({"n": 1, "tidings.for": {"desk"}, "tidings.id": "paris:1"})
        archived(broker, lake)
        client.publish({"n": 2, "tidings.for": {"desk"}, "tidings.id": "paris:1"})
        client.publish({"n": 3})
        assert heard(broker, lake, "n > 0", since="begin") == [1, 3]
        if not lake.filter.covers(tidings.Filter.all()):
            with pytest.raises(LakeError, match="holds only"):
                History(client, lake, "tidings.for CONTAINS 'desk'", since="begin")


@pytest.mark.parametrize("durable", [None, "desk"])
def test_a_lake_may_know_brokers_that_were_gone_before_this_one_came(
    broker: Here, lake: Lake, durable: str | None
) -> None:
    """Their streams are in its cursor, which no broker has ever heard of."""
    early = datetime(2026, 1, 1, tzinfo=UTC)
    old = [Archived("atlantis", n, early, tidings.Notification({"n": n})) for n in (1, 2)]
    lake.append(old, writer="tests", version=1)
    publish(broker, 3)
    archived(broker, lake)
    publish(broker, 4)
    with (
        connected(broker) as client,
        History(client, lake, "TRUE", since="begin", durable=durable) as events,
    ):
        for n in (1, 2, 3, 4):
            event = events.get(30)
            assert event["n"] == n
            event.ack_soon()
        assert read_cursor(events.cursor)["atlantis"] == 2
    if durable is not None:
        publish(broker, 5)
        assert heard(broker, lake, durable=durable) == [5]
    with connected(broker) as client, pytest.raises(tidings.SubscriptionRefused, match="'atlantis"):
        client.subscribe("TRUE", since="atlantis:2,paris:1")


def test_an_empty_lake_is_no_hindrance(broker: Here, lake: Lake) -> None:
    publish(broker, 1, 2)
    assert heard(broker, lake, since="begin") == [1, 2]
    assert heard(broker, lake, since="-1h") == [1, 2]
    assert heard(broker, lake, since="paris:1") == [2]


def test_what_was_missed_before_it_went_back_to_the_lake_is_still_missed(
    tmp_path: Path, lake: Lake
) -> None:
    room, more = 10_000, 7
    last = room + more + 3
    with ExitStack() as reader:
        with here(tmp_path) as broker:
            address = broker.url.removeprefix("tidings://")
            client = reader.enter_context(connected(broker))
            events = reader.enter_context(History(client, lake, "TRUE", since="begin"))
            assert list(events.until_live()) == []
            with connected(broker) as other:
                other.publish_each({"n": n} for n in range(1, room + more + 1))
            asyncio.run(eventually(lambda: events.missed == more))
        # What comes next is published, archived and let go of while the reader is cut off.
        with here(tmp_path) as broker:
            publish(broker, last - 2, last - 1)
            archived(broker, lake)
            publish(broker, last)
            broker.trim()
        with here(tmp_path, listen=address):
            told = [events.get(PATIENCE)["n"] for _ in range(room + 3)]
            assert told == [*range(1, room + 1), last - 2, last - 1, last]
            assert events.missed == more
            reader.close()


# -- durable ones ------------------------------------------------------------------------------


def test_one_that_is_closed_tells_no_more(split: tuple[Here, Lake]) -> None:
    broker, lake = split
    with connected(broker) as client:
        events = History(client, lake, "TRUE", since="begin")
        events.get()
        events.close()
        assert not list(events)
        with pytest.raises(ClientClosed):
            events.get()
        events = History(client, lake, "n < 0", since="begin")
        told: list[BaseException] = []

        def wait() -> None:
            try:
                events.get()
            except BaseException as problem:
                told.append(problem)

        thread = threading.Thread(target=wait)
        thread.start()
        while events._live is None:  # it is in the lake
            pass
        events.close()
        thread.join()
        assert isinstance(told[0], ClientClosed)


def test_a_durable_one_goes_on_from_the_lake_where_it_was(
    split: tuple[Here, Lake],
) -> None:
    broker, lake = split

    def some(count: int, **where: Any) -> list[int]:
        with (
            connected(broker) as client,
            History(client, lake, "TRUE", durable="desk", **where) as events,
        ):
            told = []
            for _ in range(count):
                event = events.get(PATIENCE)
                event.ack()
                told.append(event["n"])
            return told

    assert some(3, since="begin") == [1, 2, 3]
    assert some(4) == [4, 5, 6, 7]  # the broker has none of them
    assert some(5) == [8, 9, 10, 11, 12]
    assert some(1) == [13]
    publish(broker, 16)
    archived(broker, lake)
    broker.trim()
    publish(broker, 17)
    assert some(4) == [14, 15, 16, 17]


@pytest.mark.parametrize(("often", "first"), [(1e9, 3), (-1.0, 4)], ids=["too soon", "told"])
def test_a_durable_one_that_is_killed_in_the_lake_begins_there_again(
    split: tuple[Here, Lake], monkeypatch: pytest.MonkeyPatch, often: float, first: int
) -> None:
    """Behind what it has acknowledged, as far as the broker was told of that."""
    broker, lake = split
    monkeypatch.setattr("tidings.lakes.history._OFTEN", often)
    with connected(broker) as client:
        events = History(client, lake, "TRUE", since="paris:2", durable="desk")
        events.get().ack_soon()  # and then it is gone, without a word
    with connected(broker) as client, History(client, lake, "TRUE", durable="desk") as events:
        assert numbers(list(events.until_live())) == list(range(first, 16))


# -- all at once -------------------------------------------------------------------------------


class Feed(threading.Thread):
    """Publishes numbers until it is told to stop."""

    def __init__(self, url: str, name: str) -> None:
        super().__init__()
        self._url, self._name = url, name
        self.count = 0
        self.stop = threading.Event()

    def run(self) -> None:
        with tidings.connect_sync(self._url, wait=PATIENCE) as client:
            while not self.stop.is_set():
                some = range(self.count, self.count + 10)
                client.publish_each({"n": n, "at": self._name, "x": bytes(400)} for n in some)
                self.count += 10


@pytest.mark.slow
def test_whoever_begins_whenever_hears_all_of_it_once_while_everything_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two brokers that keep 100 kB of what the lake has; feeds, an archiver, and readers."""
    monkeypatch.setenv("ODD_TRIM", "0.05")
    settings = HASTY.replace(
        "drain = 2", 'drain = 2\nretention.size = "100kB"\nretention.lake = "lake"'
    )

    async def run() -> None:
        async with Network(tmp_path, (("a", "b"),), settings=settings, program=ODD) as network:
            await network.agreed()
            await _all_at_once(network, Lake(tmp_path / "lake"))
            network.check_calm()

    asyncio.run(run())


async def _all_at_once(network: Network, lake: Lake) -> None:
    feeds = [Feed(network[name].url, name) for name in "ab"]
    enough = threading.Event()
    archiver = asyncio.create_task(
        asyncio.to_thread(archive, network["a"].url, lake, stop=enough, every=0.2)
    )
    readers: list[asyncio.Task[list[Event]]] = []
    choice = random.Random(7)
    try:
        for feed in feeds:
            feed.start()
        for _ in range(6):
            size = lake.held().get("a", 0)
            await eventually(lambda size=size: lake.held().get("a", 0) > size + 300)
            since = choice.choice(["begin", "-1h", "a:7,b:150"])
            url = network[choice.choice("ab")].url
            readers.append(asyncio.create_task(asyncio.to_thread(_read, url, lake, since, feeds)))
        first = min(network[name].log()[0].tick for name in "ab")
        assert first > 100, "nothing was let go of, so this has shown nothing"
    finally:
        for feed in feeds:
            feed.stop.set()
        for feed in feeds:
            await asyncio.to_thread(feed.join)
    for reader in readers:
        events = await reader
        begin = {"a": 8, "b": 151} if events[0].tick > 1 else {"a": 1, "b": 1}
        for feed, name in zip(feeds, "ab", strict=True):
            ticks = [e.tick for e in events if e.stream == name]
            assert ticks == list(range(begin[name], feed.count + 1)), name
    enough.set()
    await archiver


def _read(url: str, lake: Lake, since: str, feeds: list[Feed]) -> list[Event]:
    """All of it, up to the end of both feeds."""
    with (
        tidings.connect_sync(url, wait=PATIENCE) as client,
        History(client, lake, "EXISTS n", since=since) as events,
    ):
        told: list[Event] = []
        place: dict[str, int] = {}
        while any(f.is_alive() for f in feeds) or [
            f for f, s in zip(feeds, "ab", strict=True) if place.get(s, 0) < f.count
        ]:
            with suppress(TimeoutError):
                told.append(events.get(0.5))
                place[told[-1].stream] = told[-1].tick
        assert place == read_cursor(told[-1].cursor)
        return told


# -- the command -------------------------------------------------------------------------------


def finished(*arguments: str, url: str) -> subprocess.CompletedProcess[str]:
    process = program(*arguments, url=url)
    out, err = process.communicate(timeout=60)
    return subprocess.CompletedProcess(PROGRAM, process.returncode, out, err)


def lines(text: str) -> list[int]:
    return [json.loads(line).get("event", json.loads(line))["n"] for line in text.splitlines()]


@pytest.mark.slow
def test_subscribe_since_tells_what_the_lake_has_and_then_what_happens(
    split: tuple[Here, Lake], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    broker, lake = split
    since = ("subscribe", "n > 0", "--since", "begin")
    from_lake = (*since, "--lake", str(lake.path))
    done = finished(*from_lake, "--until", "now", url=broker.url)
    assert lines(done.stdout) == list(range(1, 16))
    assert "15 events" in done.stderr
    done = finished(*from_lake, "--count", "12", "--with-meta", url=broker.url)
    assert lines(done.stdout) == list(range(1, 13))
    meta = [json.loads(line) for line in done.stdout.splitlines()]
    assert [m["cursor"] for m in meta] == [m["id"] for m in meta]
    done = finished(*from_lake, "--until", meta[6]["time"], url=broker.url)
    assert lines(done.stdout) == list(range(1, 8))
    done = finished(*from_lake, "--durable", "desk", "--count", "4", url=broker.url)
    assert lines(done.stdout) == [1, 2, 3, 4]
    monkeypatch.setenv("TIDINGS_LAKE", str(lake.path))
    durable = ("subscribe", "n > 0", "--durable", "desk")
    done = finished(*durable, "--until", "now", url=broker.url)
    assert lines(done.stdout) == list(range(5, 16))

    live = program(*since, url=broker.url)
    assert live.stdout is not None
    told = [json.loads(live.stdout.readline())["n"] for _ in range(15)]
    publish(broker, 16)
    told.append(json.loads(live.stdout.readline())["n"])
    assert told == list(range(1, 17))
    live.terminate()
    live.communicate(timeout=30)

    missing = finished(*since, "--lake", str(tmp_path / "none"), url=broker.url)
    assert missing.returncode == 2
    assert "none: there is no lake here" in missing.stderr
    assert not (tmp_path / "none").exists()


@pytest.mark.slow
def test_subscribe_finds_the_lake_of_the_broker_and_tells_of_gaps(tmp_path: Path) -> None:
    broker = Here(tmp_path, f"retention.lake = '{tmp_path / 'lake'}'")
    try:
        since = ("subscribe", "n > 0", "--since", "begin", "--until", "now")
        publish(broker, 1, 2, 3)
        done = finished(*since, url=broker.url)
        assert lines(done.stdout) == [1, 2, 3]
        assert f"only what brokers still keep: {tmp_path / 'lake'}: there is no" in done.stderr
        lake = Lake(tmp_path / "lake")
        archived(broker, lake)
        publish(broker, 4, 5, 6)
        broker.trim()
        done = finished(*since, url=broker.url)
        assert done.returncode == 2
        assert lines(done.stdout) == [1, 2, 3]
        assert "To go on with what is still kept: --since paris:5" in done.stderr
        archive(broker.url, lake, until="live", on_gap="continue")
        done = finished(*since, url=broker.url)
        assert lines(done.stdout) == [1, 2, 3, 6]
        assert "the lake lacks ticks 4 to 5 of paris" in done.stderr
    finally:
        broker.stop()
