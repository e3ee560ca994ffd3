"""The host: the order of effects, commits that are shared, and stores that fail."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.broker.peers import configured, connected, eventually, on_loop
from tidings.broker.host import Host
from tidings.broker.operations.metrics import Metrics
from tidings.broker.server import Broker
from tidings.broker.store import SQLiteStore, StoreError
from tidings.events import Filter, Notification
from tidings.node import Node, Settings
from tidings.protocol.host import Declined, Deliver, Request, Span
from tidings.protocol.messages import Event
from tidings.protocol.requests import Accepted, Attach, Detach, Publish, Refused, Subscribe
from tidings.protocol.runs import unpack_runs


class Disk(SQLiteStore):
    """A store that can be held up, and can fail."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, "paris", ballast=0)
        self.may_go_on = threading.Event()
        self.may_go_on.set()
        self.failures = self.read_failures = 0
        self.commits: list[int] = []
        self.contents: list[dict[str, Any]] = []
        """What was stored after each commit."""

    def commit(
        self, values: Mapping[str, Any], events: Sequence[Event], publishers: Sequence[str] = ()
    ) -> None:
        self.may_go_on.wait()
        if self.failures:
            self.failures -= 1
            raise StoreError("the disk is on fire")
        super().commit(values, events, publishers)
        self.commits.append(len(events))
        self.contents.append(self.content())

    def read(self, *args: Any, **options: Any) -> tuple[int, int, tuple[Event, ...]]:
        if self.read_failures:
            self.read_failures -= 1
            raise StoreError("the disk is on fire")
        return super().read(*args, **options)


class Ear:
    """Hears what a session is sent."""

    def __init__(self) -> None:
        self.frames: list[list[Any]] = []
        self.is_full = False

    def send(self, messages: list[Any]) -> None:
        self.frames.append(messages)

    @property
    def heard(self) -> list[Any]:
        return [message for frame in self.frames for message in frame]


def make(stored: dict[str, Any], logs: dict[str, Span]) -> Node:
    return Node("paris", Settings(), stored=stored, logs=logs)


@asynccontextmanager
async def hosted(folder: Path) -> AsyncIterator[tuple[Host, Disk]]:
    disk = Disk(folder)
    stored = disk.content()
    node = make(stored, disk.spans())
    host = Host(node, disk, Metrics(), make)
    host.start(())
    await host.commits.settle(10)
    disk.commits.clear()
    try:
        yield host, disk
    finally:
        disk.may_go_on.set()
        await host.close()


def attach(host: Host, session: str) -> Ear:
    host.sessions[session] = ear = Ear()
    host.handle(Request(session, Attach()))
    return ear


def publish(host: Host, number: int, count: int = 1) -> None:
    events = tuple(Notification({"n": number + i}) for i in range(count))
    host.handle(Request("writer", Publish(number, events), 1.0))


def numbers(ear: Ear) -> list[object]:
    return [m.event.notification["n"] for m in ear.heard if isinstance(m, Deliver)]


def kept(ear: Ear) -> list[int]:
    """Up to which numbers it was told that all is kept."""
    return [m.number for m in ear.heard if isinstance(m, Accepted) and m.id == "publish"]


@on_loop
async def test_nothing_is_said_before_it_is_kept(tmp_path: Path) -> None:
    async with hosted(tmp_path) as (host, disk):
        writer, reader = attach(host, "writer"), attach(host, "reader")
        host.handle(Request("reader", Subscribe("s", Filter.parse("n > 0"))))
        await eventually(lambda: Accepted("s", cursor={"paris": 0}) in reader.heard)
        disk.may_go_on.clear()
        publish(host, 1)
        attach(host, "late")  # answered without a commit, but not before what was there before
        for _ in range(20):
            await asyncio.sleep(0.001)
        late = host.sessions["late"]
        assert isinstance(late, Ear)
        assert numbers(reader) == late.heard == []
        assert 1 not in kept(writer)
        assert disk.spans()["paris"].last == 0
        disk.may_go_on.set()
        await eventually(lambda: numbers(reader) == [1])
        assert disk.spans()["paris"].last == 1
        assert 1 in kept(writer)
        assert late.heard


@on_loop
async def test_what_comes_during_a_commit_shares_the_next_one_and_one_frame(
    tmp_path: Path,
) -> None:
    async with hosted(tmp_path) as (host, disk):
        writer, reader = attach(host, "writer"), attach(host, "reader")
        host.handle(Request("reader", Subscribe("s", Filter.parse("n > 0"))))
        await host.commits.settle(10)
        frames = len(reader.frames)
        disk.may_go_on.clear()
        publish(host, 1)
        await eventually(lambda: host.commits.is_committing)
        for number in range(2, 102):
            publish(host, number)
            await asyncio.sleep(0)
        disk.may_go_on.set()
        assert await host.commits.settle(10)
        assert disk.commits == [1, 100]
        assert numbers(reader) == list(range(1, 102))
        assert len(reader.frames) == frames + 2
        assert [m.number for m in writer.heard if m.id == "publish"] == [1, 101]


@pytest.mark.slow
@on_loop
async def test_a_commit_that_fails_is_tried_again_and_nothing_is_said_meanwhile(
    tmp_path: Path,
) -> None:
    async with hosted(tmp_path) as (host, disk):
        writer = attach(host, "writer")
        await host.commits.settle(10)
        disk.failures = 1
        publish(host, 1, count=5)
        await eventually(lambda: host.trouble)
        assert "the disk is on fire" in (host.trouble or "")
        assert 5 not in kept(writer)
        await eventually(lambda: 5 in kept(writer))
        assert host.trouble is None
        assert disk.spans()["paris"].last == 5


@pytest.mark.parametrize("failures", [2, 1_000], ids=["for a while", "for good"])
@on_loop
async def test_a_reader_waits_for_a_disk_that_fails_for_a_while_and_is_told_if_for_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failures: int
) -> None:
    monkeypatch.setattr("tidings.broker.host._RETRY", 0.0)
    async with hosted(tmp_path) as (host, _):
        attach(host, "writer")
        publish(host, 1, count=5)
        assert await host.commits.settle(10)
    async with hosted(tmp_path) as (host, disk):
        reader = attach(host, "reader")
        disk.read_failures = failures
        host.handle(Request("reader", Subscribe("s", Filter.parse("n > 0"), since="begin")))
        if failures < 5:
            await eventually(lambda: numbers(reader) == [1, 2, 3, 4, 5])
            return
        await eventually(lambda: any(isinstance(m, Refused) for m in reader.heard))
        (refusal,) = [m for m in reader.heard if isinstance(m, Refused)]
        assert "ticks 1 to 5 of paris cannot be read" in refusal.reason
        assert refusal.cursor == {"paris": 5}
        assert host.trouble is None


@on_loop
async def test_an_answer_goes_to_the_connection_that_has_asked(tmp_path: Path) -> None:
    async with hosted(tmp_path) as (host, disk):
        before = attach(host, "writer")
        await host.commits.settle(10)
        disk.may_go_on.clear()
        publish(host, 1)
        after = host.sessions["writer"] = Ear()
        disk.may_go_on.set()
        await host.commits.settle(10)
        assert 1 in kept(before)
        assert after.heard == []


@on_loop
async def test_the_log_knows_under_which_name_each_event_was_published(tmp_path: Path) -> None:
    async with hosted(tmp_path) as (host, disk):
        disk.may_go_on.clear()
        for name in ("ann", "bob"):
            host.sessions[name] = Ear()
            host.handle(Request(name, Attach(name=f"{name}'s")))
        for number, name in enumerate(["ann", "ann", "bob", "ann"], start=1):
            said = (Notification({"by": name}), Notification({"by": name}))
            host.handle(Request(name, Publish(2 * number, said), 1.0))
        disk.may_go_on.set()
        await eventually(lambda: disk.spans()["paris"].last == 8)
        _, _, blocks = disk.copy("paris", 0, upto=8, size=1 << 20)
        runs = [run for block in blocks for run in unpack_runs(block)]
        assert [run.publisher for run in runs] == ["ann's", "bob's", "ann's"]
        for run in runs:
            assert {f"{e.notification['by']}'s" for e in run.each("paris")} == {run.publisher}


@on_loop
async def test_settling_takes_no_longer_than_it_may(tmp_path: Path) -> None:
    async with hosted(tmp_path) as (host, disk):
        attach(host, "writer")
        disk.may_go_on.clear()
        publish(host, 1)
        assert not await host.commits.settle(0.05)
        disk.may_go_on.set()
        assert await host.commits.settle(10)


def refused(content: Mapping[str, Any], session: str = "writer") -> set[int]:
    keys = (key.rpartition(":") for key in content)
    return {int(number) for kind, _, number in keys if kind == f"refused:{session}"}


@on_loop
async def test_a_refusal_is_on_disk_with_a_later_number_and_not_before(tmp_path: Path) -> None:
    async with hosted(tmp_path) as (host, disk):
        attach(host, "writer")
        publish(host, 1)
        host.handle(Declined("writer", 2, "too wide"))
        await host.commits.settle(10)
        assert refused(disk.content()) == set()
        disk.may_go_on.clear()
        publish(host, 3)
        await eventually(lambda: host.commits.is_committing)
        assert refused(disk.content()) == set()
        disk.may_go_on.set()
        await host.commits.settle(10)
        assert refused(disk.content()) == {2}
    async with hosted(tmp_path) as (host, disk):
        outlet = attach(host, "writer")
        await host.commits.settle(10)
        assert outlet.heard[0] == Refused("2", "too wide")
        assert (outlet.heard[1].id, outlet.heard[1].number) == ("attach", 3)
        host.handle(Request("writer", Detach(forget=True)))
        await host.commits.settle(10)
        assert not {"publisher:writer", "refused:writer:2"} & disk.content().keys()
        again = attach(host, "writer")
        await host.commits.settle(10)
        assert again.heard == [Accepted("attach")]


@pytest.mark.parametrize("seed", range(5))
@on_loop
async def test_whenever_the_power_fails_what_was_refused_before_what_is_kept_is_known(
    tmp_path: Path, seed: int
) -> None:
    chance = Random(seed)
    wide = {number for number in range(2, 200) if chance.random() < 0.3}
    async with hosted(tmp_path) as (host, disk):
        attach(host, "writer")
        for number in range(1, 200):
            if number + 1 in wide:  # the border may be ahead of the node
                host.handle(Declined("writer", number + 1, "too wide"))
            if number not in wide:
                publish(host, number)
            if chance.random() < 0.1:
                await host.commits.settle(10)
        await host.commits.settle(10)
        assert len(disk.contents) > 5
        for content in disk.contents:
            kept = content.get("publisher:writer", (0,))[0]
            assert refused(content) == {number for number in wide if number <= kept}


@on_loop
async def test_what_a_publisher_was_refused_is_forgotten_with_its_numbers(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    stored = {"publisher:old": (3, 9, 0, ""), "refused:old:2": "too wide"}
    recent = {"publisher:new": (3, 10, 0, ""), "refused:new:2": "too wide", "hours": 100 * 24}
    disk.commit({**stored, **recent}, [])
    disk.close()
    async with hosted(tmp_path) as (_, disk):
        assert disk.content().keys() - {"incarnation", "identities"} == recent.keys()


@on_loop
async def test_publications_are_refused_by_the_broker_while_the_store_is_in_trouble(
    tmp_path: Path,
) -> None:
    async with Broker(configured(tmp_path)) as broker, connected(broker) as peer:
        await peer.attach("ann")
        broker.host.commits.trouble = "the disk is full"
        peer.publish(1, {"n": 1}, {"n": 2})
        assert await peer.until(Refused) == Refused("1", "the disk is full", is_passing=True)
        assert await peer.until(Refused) == Refused("2", "the disk is full", is_passing=True)
        broker.host.commits.trouble = None
        await peer.published(3, {"n": 3})
        assert broker.host.last == 1


@on_loop
async def test_the_log_is_trimmed_and_readers_are_told(tmp_path: Path) -> None:
    text = "[retention]\nage = '1s'\n"
    async with Broker(configured(tmp_path, text)) as broker, connected(broker) as peer:
        await peer.attach("ann")
        for number in (1, 2, 3):
            await peer.published(number, {"n": number})
        await broker.host.trim(before=1e12, size=None)
        assert broker.host.first == 3  # the last batch stays
        await peer.subscribe("n > 0", since="begin")
        assert await peer.deliveries(1) == [{"n": 3}]
