"""A broker that has lost the end of its log, and two brokers of one name: everybody is told."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

import tidings
from tests.broker.store.test_continuity import believe, synced
from tests.network.brokers import HASTY, PATIENCE, USUAL, BrokerProcess, Network, free_ports
from tidings.broker.store.backup import renew
from tidings.client import StreamWentBack, Subscription
from tidings.protocol.cursors import read_cursor

pytestmark = pytest.mark.slow


async def numbers(events: Subscription, count: int) -> list[int]:
    return [int((await events.get(PATIENCE))["n"]) for _ in range(count)]


def restore(broker: BrokerProcess, copy: Path) -> None:
    """Put an older store in the place of a broker's."""
    shutil.rmtree(broker.store)
    shutil.copytree(copy, broker.store)


def test_whoever_is_beyond_the_end_of_a_restored_store_is_told_and_others_go_on(
    tmp_path: Path,
) -> None:
    async def run() -> None:
        async with Network(tmp_path, (("a", "b"),)) as network:
            await network.agreed()
            here, there = network["a"], network["b"]
            async with tidings.connect(there.url, wait=PATIENCE) as client:
                live = await client.subscribe("n > 0")
                durable = await client.subscribe("n > 0", durable="desk")
                slow = await client.subscribe("n > 0", durable="slow")
                async with tidings.connect(here.url, wait=PATIENCE) as writer:
                    await writer.publish_each({"n": n} for n in range(1, 6))
                await (await slow.get(PATIENCE)).ack()
                await slow.close()
                assert here.stop() == 0
                shutil.copytree(here.store, tmp_path / "yesterday")
                await here.start()
                async with tidings.connect(here.url, wait=PATIENCE) as writer:
                    await writer.publish_each({"n": n} for n in range(6, 11))
                assert await numbers(live, 10) == list(range(1, 11))
                assert await numbers(durable, 10) == list(range(1, 11))
                assert here.stop() == 0
                restore(here, tmp_path / "yesterday")
                await here.start()
                goes_on: list[str] = []
                for events in (live, durable):
                    with pytest.raises(StreamWentBack, match="which ends at 5") as told:
                        await events.get(PATIENCE)
                    assert (told.value.stream, told.value.position) == ("a", 10)
                    assert read_cursor(told.value.cursor)["a"] == 5
                    goes_on.append(told.value.cursor)
                async with (
                    client.subscribe("n > 0", since=goes_on[0]) as live,
                    client.subscribe("n > 0", durable="desk", since=goes_on[1]) as durable,
                    client.subscribe("n > 0", durable="slow") as slow,
                    tidings.connect(here.url, wait=PATIENCE) as writer,
                    writer.subscribe("n > 0", since="a:2") as behind,
                ):
                    await writer.publish_each({"n": n} for n in range(100, 103))
                    assert await numbers(live, 3) == [100, 101, 102]
                    assert await numbers(durable, 3) == [100, 101, 102]
                    assert await numbers(slow, 7) == [2, 3, 4, 5, 100, 101, 102]
                    assert await numbers(behind, 6) == [3, 4, 5, 100, 101, 102]
                    assert read_cursor(live.cursor)["a~2"] == 3
                status = await here.status()
                assert (status.stream, status.last) == ("a~2", 3)
                assert "a~2" in status.warnings[0]
            network.check_calm()

    asyncio.run(run())


def set_back(broker: BrokerProcess, copy: Path) -> None:
    """Let its disk be as it was, down to what files are: nothing there tells of it."""
    for name in ("broker.db", "mark"):
        (broker.store / name).write_bytes((copy / name).read_bytes())
    for name in ("broker.db-wal", "broker.db-shm"):
        (broker.store / name).unlink(missing_ok=True)
    believe(broker.store)


def test_a_broker_whose_disk_was_set_back_hears_of_it_from_others_and_begins_an_epoch(
    tmp_path: Path,
) -> None:
    async def run() -> None:
        async with Network(tmp_path, (("a", "b"),)) as network:
            await network.agreed()
            here, there = network["a"], network["b"]
            async with tidings.connect(there.url, wait=PATIENCE) as client:
                live = await client.subscribe("n > 0")
                async with tidings.connect(here.url, wait=PATIENCE) as writer:
                    await writer.publish_each({"n": n} for n in range(1, 6))
                assert here.stop() == 0
                shutil.copytree(here.store, tmp_path / "yesterday")
                await here.start()
                async with tidings.connect(here.url, wait=PATIENCE) as writer:
                    await writer.publish_each({"n": n} for n in range(6, 11))
                assert await numbers(live, 10) == list(range(1, 11))
                assert here.stop() == 0
                set_back(here, tmp_path / "yesterday")
                await here.start()
                with pytest.raises(StreamWentBack, match="which ends at 5") as told:
                    await live.get(PATIENCE)
                status = await here.status()
                assert status.stream == "a~2"
                assert "ends at tick 5 here, but was heard up to 10 elsewhere" in status.warnings[0]
                async with (
                    client.subscribe("n > 0", since=told.value.cursor) as live,
                    tidings.connect(here.url, wait=PATIENCE) as writer,
                ):
                    await writer.publish({"n": 100})
                    event = await live.get(PATIENCE)
                    assert (event.id, event["n"]) == ("a~2:1", 100)
                here.kill()
                await here.start()
                assert (await here.status()).stream == "a~2"

    asyncio.run(run())


def test_a_copy_that_is_put_back_by_rsync_uses_no_tick_again(tmp_path: Path) -> None:
    async def run() -> None:
        async with Network(tmp_path, (("a", "b"),)) as network:
            broker = network["a"]
            async with tidings.connect(broker.url, wait=PATIENCE) as client:
                await client.publish_each({"n": n} for n in range(1, 6))
            assert broker.stop() == 0
            shutil.copytree(broker.store, tmp_path / "yesterday")
            synced(broker.store, tmp_path / "yesterday")
            await broker.start()
            async with tidings.connect(broker.url, wait=PATIENCE) as client:
                await client.publish_each({"n": n} for n in range(6, 11))
            assert broker.stop() == 0
            synced(tmp_path / "yesterday", broker.store)
            await broker.start()
            async with tidings.connect(broker.url, wait=PATIENCE) as client:
                await client.publish_each({"n": n} for n in range(100, 103))
                with pytest.raises(StreamWentBack, match="which ends at 5"):
                    await client.subscribe("n > 0", since="a:8")
                events = await client.subscribe("n > 0", since="a:5")
                told = [await events.get(PATIENCE) for _ in range(3)]
                assert [event.id for event in told] == ["a~2:1", "a~2:2", "a~2:3"]

    asyncio.run(run())


def test_after_a_store_was_renewed_its_readers_are_told_wherever_they_are(tmp_path: Path) -> None:
    async def run() -> None:
        async with Network(tmp_path, (("a", "b"),)) as network:
            await network.agreed()
            here, there = network["a"], network["b"]
            async with (
                tidings.connect(here.url, wait=PATIENCE) as near,
                tidings.connect(there.url, wait=PATIENCE) as far,
            ):
                readers = [await client.subscribe("n > 0") for client in (near, far)]
                await near.publish_each({"n": n} for n in range(1, 6))
                for events in readers:
                    assert await numbers(events, 5) == [1, 2, 3, 4, 5]
                assert here.stop() == 0
                renew(here.store)
                await here.start()
                while "b" not in (await here.status()).streams:
                    await asyncio.sleep(0.05)
                for client, events in zip((near, far), readers, strict=True):
                    with pytest.raises(StreamWentBack) as told:
                        await events.get(PATIENCE)
                    assert (told.value.stream, told.value.position) == ("a", 5)
                    await client.publish({"n": 100})
                    events = await client.subscribe("n > 0", since=told.value.cursor)
                    assert (await events.get(PATIENCE))["n"] == 100

    asyncio.run(run())


def test_a_copy_of_a_log_is_told_that_the_stream_went_back(tmp_path: Path) -> None:
    async def run() -> None:
        async with Network(tmp_path, (("a", "b"),)) as network:
            broker = network["a"]
            async with tidings.connect(broker.url, wait=PATIENCE) as client:
                await client.publish_each({"n": n} for n in range(1, 6))
            broker.stop()
            shutil.copytree(broker.store, tmp_path / "yesterday")
            restore(broker, tmp_path / "yesterday")
            await broker.start()
            async with tidings.connect(broker.url, wait=PATIENCE) as client:
                await client.publish({"n": 100})
                copied = [rows.ticks async for rows in client.copy("a", after=2)]
                assert [tick for ticks in copied for tick in ticks] == [3, 4, 5]
                assert [rows.ticks async for rows in client.copy("a~2")] == [[1]]
                with pytest.raises(StreamWentBack, match="lost by its broker"):
                    await anext(client.copy("a", after=9))

    asyncio.run(run())


# -- two of one name ---------------------------------------------------------------------------


def configuration(name: str, port: int, dials: dict[str, int], awaits: Iterable[str]) -> str:
    neighbours = [f'{other} = "127.0.0.1:{there}"' for other, there in dials.items()]
    neighbours += [f"{other} = {{}}" for other in awaits]
    head = [f'name = "{name}"', f'listen = "127.0.0.1:{port}"', f'store = "{name}"']
    return "\n".join([*head, HASTY, "[neighbours]", *neighbours])


@asynccontextmanager
async def in_a_row(tmp_path: Path, *names: str) -> AsyncIterator[list[BrokerProcess]]:
    """Brokers, each of which is dialled by the ones beside it that come from the ends."""
    ports = free_ports(len(names))
    middle = len(names) // 2
    brokers: list[BrokerProcess] = []
    for at, (name, port) in enumerate(zip(names, ports, strict=True)):
        beside = [b for b in (at - 1, at + 1) if 0 <= b < len(names)]
        inner = {b for b in beside if abs(b - middle) < abs(at - middle)}
        dials = {names[b]: ports[b] for b in inner}
        awaits = {names[b] for b in beside if b not in inner}
        folder = tmp_path / str(at)
        folder.mkdir()
        text = configuration(name, port, dials, awaits)
        brokers.append(BrokerProcess(folder, name, text, port=port))
    try:
        for broker in brokers:
            await broker.start()
        yield brokers
    finally:
        for broker in brokers:
            broker.clean_up()


async def warned(brokers: Iterable[BrokerProcess]) -> str:
    """The first warning that one of these brokers shows and has logged."""
    async with asyncio.timeout(PATIENCE):
        while True:
            for broker in brokers:
                for warning in (await broker.status()).warnings:
                    if warning in broker.said:
                        return warning
            await asyncio.sleep(0.1)


def test_two_neighbours_of_one_name_are_named_and_do_not_take_turns(tmp_path: Path) -> None:
    async def run() -> None:
        async with in_a_row(tmp_path, "paris", "rome", "paris") as (first, rome, other):
            assert "two brokers are named paris" in await warned([rome])
            assert "another broker paris is linked with rome already" in first.said + other.said
            assert rome.said.count("linked with paris") == 1

    asyncio.run(run())


def test_two_far_brokers_of_one_name_are_noticed_between_them(tmp_path: Path) -> None:
    async def run() -> None:
        names = ("paris", "rome", "oslo", "bern", "paris")
        async with in_a_row(tmp_path, *names) as (first, rome, oslo, bern, other):
            said = await warned([rome, oslo, bern])
            assert "several brokers are named paris" in said
            assert "paris → rome" in said
            assert "paris → bern" in said
            async with tidings.connect(rome.url, wait=PATIENCE) as client:
                events = await client.subscribe("TRUE")
                async with tidings.connect(other.url, wait=PATIENCE) as writer:
                    await writer.publish_each({"n": n} for n in range(100, 110))
                async with tidings.connect(first.url, wait=PATIENCE) as writer:
                    await writer.publish({"n": 1})
                assert (await events.get(PATIENCE))["n"] == 1, "it is not mixed up with the other"
                first.kill()
                with pytest.raises(StreamWentBack, match="another one has its name") as told:
                    await events.get(PATIENCE)
                since = told.value.cursor
                async with client.subscribe("TRUE", since=since) as events:
                    assert await numbers(events, 10) == list(range(100, 110))

    asyncio.run(run())


def test_two_brokers_that_would_both_be_the_root_of_the_tree_are_named(tmp_path: Path) -> None:
    """Each of them has a tree of its own, so nothing else is heard from one by the other."""

    async def run() -> None:
        names = ("anna", "bert", "cora", "anna")
        async with in_a_row(tmp_path, *names) as (_, bert, cora, _):
            said = await warned([bert, cora])
            assert "several brokers are named anna" in said
            shown = await shows(bert, "several brokers are named anna")
            assert "anna → bert and anna → cora → bert" in shown
            assert "anna → bert → cora and anna → cora" in shown

    asyncio.run(run())


def test_a_root_that_starts_again_is_not_taken_for_two(tmp_path: Path) -> None:
    """However long it is remembered after it was heard for the last time."""

    async def run() -> None:
        slow = HASTY.replace("silence = 1.0", "silence = 5.0")
        async with Network(tmp_path, (("a", "b"), ("b", "c")), settings=slow) as network:
            await network.agreed()
            for _ in range(2):
                network["a"].kill()
                await network["a"].start()
                await asyncio.sleep(3)  # more than ten beats, while the one before is remembered
            for broker in network.brokers.values():
                assert (await broker.status()).warnings == ()
                assert "named" not in broker.said

    asyncio.run(run())


async def shows(broker: BrokerProcess, text: str) -> str:
    """What `tidings network` prints, once this is in it."""
    command = [*USUAL, "network", "--url", broker.url]
    async with asyncio.timeout(PATIENCE):
        while True:
            done = await asyncio.to_thread(
                subprocess.run,
                command,
                capture_output=True,
                text=True,
                env={**os.environ, "COLUMNS": "400"},
            )
            if text in done.stdout:
                return done.stdout
            await asyncio.sleep(0.2)


def test_a_neighbour_that_was_cut_off_by_its_power_comes_back_at_once(tmp_path: Path) -> None:
    """Its old connection is still open here, and says nothing."""

    async def run() -> None:
        async with in_a_row(tmp_path, "paris", "rome") as (first, rome):
            await warm(rome, "paris")
            first.freeze()
            second = BrokerProcess(
                tmp_path / "1",
                "paris",
                configuration("paris", free_ports(1)[0], {"rome": rome.port}, ()),
                port=first.port,
            )
            second.launch()
            try:
                await eventually_linked(rome, 2)
            finally:
                second.clean_up()

    asyncio.run(run())


async def warm(broker: BrokerProcess, neighbour: str) -> None:
    async with asyncio.timeout(PATIENCE):
        while f"linked with {neighbour}" not in broker.said:
            await asyncio.sleep(0.05)


async def eventually_linked(broker: BrokerProcess, times: int) -> None:
    async with asyncio.timeout(PATIENCE):
        while broker.said.count("linked with paris") < times:
            await asyncio.sleep(0.05)
