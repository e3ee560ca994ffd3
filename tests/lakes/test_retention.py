"""A broker that lets go only of what a lake holds: a real broker, a real lake, files that break."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import tidings
from tests.broker.peers import PATIENCE, configured, connected, eventually, on_loop
from tests.client.brokers import BrokerProcess
from tidings.broker.configuration import Configuration
from tidings.broker.operations.prometheus import Exporter
from tidings.broker.operations.status import LakeStatus, ask
from tidings.broker.server import Broker
from tidings.client import Client
from tidings.events import Notification, TidingsError
from tidings.lakes import committed
from tidings.lakes.committed import Committed
from tidings.lakes.lake import Lake, LakeError
from tidings.lakes.layout import Archived
from tidings.protocol.addresses import Address
from tidings.protocol.wire import Welcome
from tidings.spark.archiving.archive import archive


def keeper(tmp_path: Path) -> Broker:
    """A broker that keeps nothing for long, but for the lake."""
    text = f"[retention]\nage = 0.000001\nlake = '{tmp_path / 'lake'}'\n"
    found = configured(tmp_path, text, name="paris")
    return Broker(found, archived=Committed(tmp_path / "lake", "paris"))


async def publish(client: Client, count: int) -> None:
    """Each in a batch of its own, since whole batches are let go of."""
    for number in range(count):
        await client.publish({"n": number})


@on_loop
async def test_what_the_lake_lacks_is_kept_and_the_rest_let_go_of(tmp_path: Path) -> None:
    async with keeper(tmp_path) as broker:
        url = f"tidings://{broker.address}"
        async with tidings.connect(url) as client:
            assert client.lake == str(tmp_path / "lake")
            await publish(client, 10)
            await broker.trim()
            assert broker.host.first == 1, "there is no lake yet"
            lake = Lake(tmp_path / "lake")
            await broker.trim()
            assert broker.host.first == 1, "it is empty"
            await asyncio.to_thread(archive, url, lake, until="live")
            assert lake.held()["paris"] == 10
            await publish(client, 10)
            await broker.trim()
            assert broker.host.first == 11
            status = await ask(broker.address)
            assert status.lake is not None
            assert (status.lake.upto, status.lake.trouble) == (10, None)
            await asyncio.to_thread(archive, url, lake, until="live")
            assert [e.tick for e in lake.events()] == list(range(1, 21))
            await broker.trim()
            assert broker.host.first == 20, "the last batch stays in any case"


@on_loop
async def test_age_and_size_still_say_what_may_go(tmp_path: Path) -> None:
    text = f"[retention]\nage = '1h'\nlake = '{tmp_path / 'lake'}'\n"
    lake = Lake(tmp_path / "lake")
    configuration = configured(tmp_path, text, name="paris")
    async with Broker(configuration, archived=Committed(lake.path, "paris")) as broker:
        url = f"tidings://{broker.address}"
        async with tidings.connect(url) as client:
            await publish(client, 5)
        await asyncio.to_thread(archive, url, lake, until="live")
        await broker.trim()
        assert broker.host.first == 1


@on_loop
async def test_while_the_lake_cannot_be_read_nothing_goes_and_it_is_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "tidings")
    lake = Lake(tmp_path / "lake")
    async with keeper(tmp_path) as broker:
        url = f"tidings://{broker.address}"
        async with tidings.connect(url) as client:
            await publish(client, 10)
            await asyncio.to_thread(archive, url, lake, until="live")
            os.rename(lake.path, tmp_path / "elsewhere")
            for _ in range(3):
                await broker.trim()
            assert broker.host.first == 1
            await client.publish({"n": 10})  # that is no trouble for those who publish
        said = [r.getMessage() for r in caplog.records if "let go of" in r.getMessage()]
        assert len(said) == 1
        assert f"{lake.path}: there is no lake here" in said[0]
        status = await ask(broker.address)
        assert status.trouble is None
        assert status.lake is not None
        assert "there is no lake" in (status.lake.trouble or "")

        os.rename(tmp_path / "elsewhere", lake.path)
        await broker.trim()
        assert broker.host.first == 11
        assert (await ask(broker.address)).lake == LakeStatus(str(lake.path), 10, None)
        next(lake.path.glob("_delta_log/*.json")).write_bytes(b"{")
        await broker.trim()
        found = (await ask(broker.address)).lake
        assert found is not None
        assert found.trouble is not None


@on_loop
async def test_a_lake_of_another_stream_with_this_name_frees_nothing(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "lake")
    lake.append([], writer="archive", version=1, held={"paris": 500})
    async with keeper(tmp_path) as broker:
        async with tidings.connect(f"tidings://{broker.address}") as client:
            await publish(client, 10)
        await broker.trim()
        # No tick that the lake has is given out again: the next epoch is soon on disk.
        await eventually(lambda: broker.status().stream == "paris~2")
        status = await ask(broker.address)
        assert "heard up to 500 elsewhere" in status.warnings[0]
        assert broker.host.store.spans()["paris"].first == 1


@on_loop
async def test_a_new_lake_in_the_place_of_the_old_one_is_asked_itself(tmp_path: Path) -> None:
    asked = Committed(tmp_path / "lake", "paris")
    Lake(tmp_path / "lake").append([], writer="archive", version=1, held={"paris": 7})
    assert asked() == {"paris": 7}
    shutil.rmtree(tmp_path / "lake")
    Lake(tmp_path / "lake")
    assert asked() == {}


def watched_syncs(
    folder: Path, monkeypatch: pytest.MonkeyPatch, *, first: Callable[[], None] | None = None
) -> list[Path]:
    """What is synced from now on, as seen from a folder; before the first, something happens."""
    synced: list[Path] = []
    sync = committed.synced
    happens = iter([] if first is None else [first])

    def watched(path: Path) -> None:
        for happen in happens:
            happen()
        sync(path)
        synced.append(path.relative_to(folder))

    monkeypatch.setattr(committed, "synced", watched)
    return synced


def test_a_new_lake_in_the_place_of_the_old_one_is_synced_from_its_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = Committed(tmp_path, "paris")
    for upto in (7, 8, 9):
        Lake(tmp_path).append([], writer="archive", version=upto, held={"paris": upto})
    assert asked() == {"paris": 9}
    shutil.rmtree(tmp_path)
    Lake(tmp_path).append([], writer="archive", version=1, held={"paris": 1})
    synced = watched_syncs(tmp_path, monkeypatch)
    assert asked() == {"paris": 1}
    assert Path("_delta_log", f"{1:020}.json") in synced


def test_what_may_be_let_go_of_is_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced = watched_syncs(tmp_path, monkeypatch)
    lake, asked = Lake(tmp_path / "a lake"), Committed(tmp_path / "a lake", "paris")
    for version in (1, 2):
        event = Archived("paris", version, datetime.now(UTC), Notification({"n": version}))
        lake.append([event], writer="me", version=version)
        assert asked() == {"paris": version}
    files = {p.relative_to(tmp_path) for p in lake.path.rglob("*") if p.suffix != ".tmp"}
    assert {p for p in files if p.suffix in (".parquet", ".json")} <= set(synced)
    assert {p.parent for p in files if p.suffix == ".parquet"} <= set(synced)
    assert Path("a lake") in synced, "a day's folder is an entry there"
    synced.clear()
    assert asked() == {"paris": 2}
    assert synced == [], "what was synced once need not be again"


def filled(folder: Path, count: int) -> Lake:
    """A lake with a file for each event."""
    lake, now = Lake(folder), datetime.now(UTC)
    for tick in range(1, count + 1):
        event = Archived("paris", tick, now, Notification({"n": tick}))
        lake.append([event], writer="me", version=tick)
    return lake


@pytest.mark.parametrize("age", [0, 10_000])
@pytest.mark.parametrize("left", [0, None], ids=["shortened", "missing"])
def test_a_file_that_the_lake_still_counts_on_must_be_there(
    tmp_path: Path, left: int | None, age: int
) -> None:
    lake, asked = filled(tmp_path, 3), Committed(tmp_path, "paris")
    for commit in lake.path.glob("_delta_log/*.json"):
        os.utime(commit, (commit.stat().st_mtime - age,) * 2)
    lost = lake.path / lake.snapshot().files()[1]
    lost.unlink() if left is None else os.truncate(lost, left)
    for _ in range(2):
        with pytest.raises(LakeError, match=f"{lost.name}: it was written with .* bytes, but"):
            asked()


def test_a_lake_that_goes_while_it_is_looked_at_is_no_longer_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, sync = tmp_path / "lake", committed.synced
    _, asked = filled(folder, 3), Committed(folder, "paris")

    def last(path: Path) -> None:
        sync(path)
        if path == folder:
            folder.rename(tmp_path / "elsewhere")

    monkeypatch.setattr(committed, "synced", last)
    with pytest.raises(LakeError, match="there is no lake here"):
        asked()


def test_a_file_that_is_lost_after_the_first_look_is_missed_when_it_is_to_be_synced(
    tmp_path: Path,
) -> None:
    lake, asked = filled(tmp_path, 1), Committed(tmp_path, "paris")
    assert asked() == {"paris": 1}
    event = Archived("paris", 2, datetime.now(UTC), Notification({"n": 2}))
    before = {*lake.snapshot().files()}
    lake.append([event], writer="me", version=2)
    (added,) = {*lake.snapshot().files()} - before
    (lake.path / added).unlink()
    for _ in range(2):
        with pytest.raises(LakeError, match=f"{added}: it was written with .* is not here"):
            asked()


@pytest.mark.parametrize("moment", ["before", "between"])
def test_a_file_that_was_joined_with_others_may_be_gone_and_theirs_is_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    lake, asked = filled(tmp_path, 3), Committed(tmp_path, "paris")
    before = {*lake.snapshot().files()}

    def join() -> None:
        assert lake.compact(keep=timedelta(0))["deleted"] == len(before)

    if moment == "before":
        join()
    synced = watched_syncs(tmp_path, monkeypatch, first=join if moment == "between" else None)
    assert asked() == {"paris": 3}
    assert before.isdisjoint(lake.snapshot().files())
    assert {Path(file) for file in lake.snapshot().files()} <= {*synced}


@on_loop
async def test_clients_and_metrics_are_told_of_the_lake(tmp_path: Path) -> None:
    async with keeper(tmp_path) as broker:
        async with connected(broker) as peer:
            welcome = await peer.greet("ann")
            assert isinstance(welcome, Welcome)
            assert welcome.lake == str(tmp_path / "lake")
        exporter = Exporter(broker.metrics, broker.status)
        await eventually(lambda: broker.lake is not None and broker.lake.trouble)
        shown = exporter._response(b"GET /metrics HTTP/1.1\r\n\r\n").decode()
        assert "\ntidings_lake_trouble 1.0\n" in shown
        Lake(tmp_path / "lake")
        await broker.trim()
        shown = exporter._response(b"GET /metrics HTTP/1.1\r\n\r\n").decode()
        assert "\ntidings_lake_trouble 0.0\n" in shown
        assert "\ntidings_lake_lag_events 0.0\n" in shown


def test_a_lake_is_seen_from_the_configuration_and_needs_somebody_to_ask() -> None:
    found = Configuration.parse("retention.lake = 'quotes'", file="/etc/tidings/paris.toml")
    assert found.retention.lake == "/etc/tidings/quotes"
    with pytest.raises(TidingsError, match="nobody says how far the lake /etc/tidings/quotes is"):
        Broker(found)


@pytest.mark.slow
def test_a_broker_of_its_own_trims_by_the_lake(tmp_path: Path) -> None:
    """As an operator runs it: the trim at its start is enough to see it."""
    config = "[retention]\nage = 0.000001\nlake = 'quotes'\n"
    broker = BrokerProcess(tmp_path, config=config)
    lake = Lake(tmp_path / "quotes")
    broker.start()
    try:
        for half in range(2):
            with tidings.connect_sync(broker.url) as client:
                assert client.lake == str(lake.path)
                for number in range(5):
                    client.publish({"n": 5 * half + number})
            if half == 0:
                archive(broker.url, lake, until="live")
        broker.stop()
        broker.start()

        async def trimmed() -> None:
            async with asyncio.timeout(PATIENCE):
                while (await ask(Address("127.0.0.1", broker.port))).first != 6:
                    await asyncio.sleep(0.05)

        asyncio.run(trimmed())
    finally:
        broker.stop()
