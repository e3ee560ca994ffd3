"""Disks that are full, stores that cannot be opened, clocks that go back, logs that are trimmed."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import tidings
from tests.network.brokers import (
    HASTY,
    LINE,
    ODD,
    PATIENCE,
    BrokerProcess,
    Network,
    eventually,
    free_ports,
)
from tidings.broker.store import SQLiteStore
from tidings.client import CursorTooOld, PublishRefused
from tidings.protocol.cursors import read_cursor


def broker(
    folder: Path, name: str = "a", more: str = "", store: Path | None = None
) -> BrokerProcess:
    (port,) = free_ports(1)
    lines = f'name = "{name}"\nlisten = "127.0.0.1:{port}"\nstore = "{store or name}"\n{more}'
    found = BrokerProcess(folder, name, lines, port=port)
    if store is not None:
        found.store = store
    return found


@pytest.fixture
def processes() -> Iterator[list[BrokerProcess]]:
    """Whatever is put here is not left behind."""
    found: list[BrokerProcess] = []
    yield found
    for each in found:
        each.clean_up()


# -- a full disk -------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=96m", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("only root can make a small disk")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.mark.slow
def test_a_broker_with_a_full_disk_keeps_what_it_has_taken_and_takes_no_more(
    tmp_path: Path, small_disk: Path, processes: list[BrokerProcess]
) -> None:
    filler = small_disk / "filler"
    filler.write_bytes(random.randbytes(50 << 20))
    process = broker(tmp_path, store=small_disk / "store")
    processes.append(process)

    async def run() -> None:
        await process.start()
        heard: list[int] = []
        async with (
            tidings.connect(process.url, wait=PATIENCE) as client,
            tidings.connect(process.url, wait=PATIENCE) as publisher,
            client.subscribe("EXISTS n", durable="desk", since="begin") as events,
        ):

            async def read() -> None:
                async for event in events:
                    heard.append(event["n"])
                    await event.ack()

            reading = asyncio.create_task(read())
            kept, reasons = await _fill(publisher)
            assert reasons
            assert "disk" in reasons[0]
            assert "full" in reasons[0]
            assert (await process.status()).trouble == reasons[-1]
            await eventually(lambda: heard == kept, "all that was accepted is heard")

            process.kill()  # and a broker can start on a full disk
            await process.start()
            with pytest.raises(PublishRefused, match="disk"):
                await publisher.publish({"n": -1})

            filler.unlink()
            await _until_accepted(publisher, 1_000_000)
            kept.append(1_000_000)
            assert (await process.status()).trouble is None
            await eventually(lambda: heard == kept)
            reading.cancel()
        assert [e.notification["n"] for e in process.log()] == kept
        assert process.stop() == 0
        assert "Traceback" not in process.said

    asyncio.run(run())


async def _fill(client: tidings.Client) -> tuple[list[int], list[str]]:
    """Publish until nothing more is taken: what is kept, and why the rest is not."""
    kept: list[int] = []
    reasons: list[str] = []

    async def one(number: int) -> None:
        try:
            await client.publish({"n": number, "x": random.randbytes(50_000)})
            kept.append(number)
        except PublishRefused as refusal:
            reasons.append(str(refusal))

    for first in range(0, 10_000, 20):
        await asyncio.wait_for(
            asyncio.gather(*(one(n) for n in range(first, first + 20))), PATIENCE
        )
        if len(reasons) >= 100:
            return sorted(kept), reasons
    raise AssertionError("the disk is never full")


async def _until_accepted(client: tidings.Client, number: int) -> None:
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                await client.publish({"n": number})
                return
            except PublishRefused:
                await asyncio.sleep(0.05)


# -- stores that cannot be opened --------------------------------------------------------------


def _complaint(process: BrokerProcess) -> str:
    """What it says as it refuses to start."""
    done = subprocess.run(
        [sys.executable, "-m", "tidings.cli", "up", "--config", str(process.configuration)],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode not in (0, 1), done
    assert done.stdout == ""
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1, done.stderr
    return lines[0]


@pytest.mark.slow
def test_what_cannot_be_a_store_is_said_in_a_sentence(
    tmp_path: Path, processes: list[BrokerProcess]
) -> None:
    process = broker(tmp_path)
    processes.append(process)

    async def run() -> None:
        await process.start()
        async with tidings.connect(process.url, wait=PATIENCE) as client:
            await client.publish_each({"n": n} for n in range(1000))

    asyncio.run(run())
    assert "in use" in _complaint(broker(tmp_path, "a"))
    assert process.stop() == 0

    assert "belongs to broker 'a'" in _complaint(broker(tmp_path, "b", store=process.store))

    database = process.store / "broker.db"
    whole = database.read_bytes()
    database.write_bytes(whole[: len(whole) // 2])
    assert "damaged" in _complaint(process)
    database.write_bytes(b"no database" * 1000)
    assert "damaged" in _complaint(process) or "not a store" in _complaint(process)
    database.write_bytes(whole[:-3000] + bytes(3000))
    database.unlink()
    database.mkdir()
    assert str(database) in _complaint(process)
    database.rmdir()

    database.write_bytes(whole)
    asyncio.run(process.start())
    assert len(process.log()) == 1000


@pytest.mark.slow
@pytest.mark.parametrize("where", ["file", "folder"])
def test_a_store_that_cannot_be_written_is_said_in_a_sentence(where: str, tmp_path: Path) -> None:
    if where == "file":
        (tmp_path / "a").write_text("not a folder")
        assert str(tmp_path / "a") in _complaint(broker(tmp_path))
        return
    folder = tmp_path / "a"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "ro,size=1m", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("root can write everywhere, and only root can mount something read-only")
    try:
        assert "Read-only" in _complaint(broker(tmp_path))
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


# -- clocks ------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_clock_that_is_set_back_changes_no_order(
    tmp_path: Path, processes: list[BrokerProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = tmp_path / "clock"
    monkeypatch.setenv("ODD_CLOCK", str(clock))
    process = broker(tmp_path)
    process.program = ODD
    processes.append(process)

    async def run() -> None:
        await process.start()
        async with (
            tidings.connect(process.url, wait=PATIENCE) as client,
            client.subscribe("EXISTS n") as live,
        ):
            await client.publish_each({"n": n} for n in range(100))
            middle = datetime.now(UTC)
            await client.publish_each({"n": n} for n in range(100, 200))
            clock.write_text("-3600")
            await client.publish_each({"n": n} for n in range(200, 300))
            heard = [await live.get(PATIENCE) for _ in range(300)]
            assert [e["n"] for e in heard] == list(range(300))
            times = [e.time for e in heard]
            assert times == sorted(times)

            # After a restart the store knows what time it was.
            process.kill()
            await process.start()
            await client.publish_each({"n": n} for n in range(300, 400))
            heard = [await live.get(PATIENCE) for _ in range(100)]
            assert [e["n"] for e in heard] == list(range(300, 400))
            assert times[-1] <= heard[0].time <= heard[-1].time

            since: list[tuple[datetime | timedelta | str, int]] = [
                (middle, 100), (times[150], 100), (timedelta(minutes=30), 0), ("begin", 0),
                (timedelta(hours=2), 0), (heard[-1].time + timedelta(seconds=1), 400),
            ]  # fmt: skip
            for start, first in since:
                async with client.subscribe("EXISTS n", since=start) as events:
                    got = [e["n"] async for e in events.until_live()]
                    assert got == list(range(got[0] if got else 400, 400))
                    assert (got[0] if got else 400) <= max(first, 150), start
                    assert (got[0] if got else 400) >= first, start

            # The clock is right again, and later than ever.
            clock.unlink()
            await client.publish({"n": 400})
            last = await live.get(PATIENCE)
            assert last["n"] == 400
            assert last.time > heard[-1].time
        assert [e.notification["n"] for e in process.log()] == list(range(401))

    asyncio.run(run())


# -- retention ---------------------------------------------------------------------------------


@pytest.mark.slow
def test_what_is_told_of_one_stream_before_another_is_found_too_old_is_not_lost(
    tmp_path: Path,
) -> None:
    async def run() -> None:
        async with Network(tmp_path, LINE) as network:
            for name in "abc":
                async with tidings.connect(network[name].url, wait=PATIENCE) as client:
                    for n in range(1, 4):
                        await client.publish({"n": n})
            network["b"].stop()  # which answers behind `a` itself, and before `c`
            with closing(SQLiteStore(network["b"].store, "b")) as store:
                assert store.trim(before=1e12) == 3
            await network["b"].start()
            await network.agreed()
            async with tidings.connect(network["a"].url) as client:
                told: list[str] = []

                async def hear(since: str) -> None:
                    async with client.subscribe("TRUE", since=since) as events:
                        while some := await events.take(or_live=True):
                            told.extend(event.id for event in some)

                with pytest.raises(CursorTooOld) as problem:
                    await hear("a:0,b:0")  # so that it does not begin before `c` has answered
                assert (problem.value.stream, problem.value.position) == ("b", 0)
                await hear(problem.value.cursor)
                assert sorted(told) == ["a:1", "a:2", "a:3", "b:3", "c:1", "c:2", "c:3"]

    asyncio.run(run())


@pytest.mark.slow
def test_a_log_is_trimmed_under_load_and_old_cursors_are_told_where_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ODD_TRIM", "0.05")
    settings = HASTY.replace("drain = 2", 'drain = 2\nretention.size = "1MB"')

    async def run() -> None:
        async with Network(tmp_path, (("a", "b"),), settings=settings, program=ODD) as network:
            await network.agreed()
            await _trim(network["a"], network["b"])
            network.check_calm()

    asyncio.run(run())


async def _trim(there: BrokerProcess, here: BrokerProcess) -> None:
    """Somebody publishes much there, and others read it here."""
    stopped = asyncio.Event()
    accepted = 0

    async def publish() -> None:
        nonlocal accepted
        async with tidings.connect(there.url, name="feed", wait=PATIENCE) as client:
            while not stopped.is_set():
                some = range(accepted + 1, accepted + 21)
                await client.publish_each({"n": n, "x": bytes(1000)} for n in some)
                accepted += 20
                await asyncio.sleep(0.002)

    async with (
        tidings.connect(here.url, wait=PATIENCE) as client,
        client.subscribe("EXISTS n") as live,
    ):
        rare = await client.subscribe("n = 1 OR EXISTS late", durable="rare")
        feed = asyncio.create_task(publish())
        assert (await (await rare.get(PATIENCE)).ack()) is None
        first = await live.get(PATIENCE)
        await eventually(lambda: accepted > 3000)
        await eventually(lambda: there.log()[0].tick > 1000, "trimmed")

        # All of what is kept, without a gap, however fast it goes at the other end.
        # (Trimming may overtake a reader on a busy machine; then it is told, and tries again.)
        whole = 0
        for _ in range(50):
            with suppress(CursorTooOld):
                async with client.subscribe("EXISTS n", since="begin") as events:
                    got = [e["n"] async for e in events.until_live()]
                    assert got == list(range(got[0], got[0] + len(got)))
                    whole += 1
            if whole == 10:
                break
        assert whole

        with pytest.raises(CursorTooOld) as refusal:
            async with client.subscribe("EXISTS n", since=first.cursor) as events:
                await events.get(PATIENCE)
        # Where it can go on may be gone, too, when one tries: then that is said again.
        following = None
        problem = refusal.value
        for _ in range(20):
            cursor = problem.cursor
            try:
                async with client.subscribe("EXISTS n", since=cursor) as events:
                    following = await events.get(PATIENCE)
                break
            except CursorTooOld as again:
                problem = again
        assert following is not None
        assert f"a:{following.tick - 1}" in cursor.split(",")

        # Who is there and wants nothing of all that is not behind, and can come back.
        stopped.set()
        await feed
        await eventually(lambda: _tick(rare.cursor) >= accepted, "silence is told")
        await client.flush()
        await rare.close()
        async with client.subscribe("n = 1 OR EXISTS late", durable="rare") as rare:
            async with tidings.connect(there.url) as other:
                await other.publish({"late": True})
            assert "late" in await rare.get(PATIENCE)

        heard = [first["n"]] + [(await live.get(PATIENCE))["n"] for _ in range(accepted - 1)]
        assert heard == list(range(1, accepted + 1))
    log = there.log()
    assert log[-1].tick == accepted + 1
    assert sum(len(e.notification.get("x", b"")) for e in log) < 3 << 20


def _tick(cursor: str) -> int:
    return read_cursor(cursor).get("a", 0)
