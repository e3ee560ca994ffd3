"""Brokers whose stores were damaged or restored while they were down, and brokers that were not."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

import tidings
from tests.network.brokers import PATIENCE, BrokerProcess, free_ports
from tidings.broker.store import SQLiteStore
from tidings.protocol.host import Span


@pytest.fixture
def paris(tmp_path: Path) -> Iterator[BrokerProcess]:
    (port,) = free_ports(1)
    lines = f'name = "paris"\nlisten = "127.0.0.1:{port}"\nstore = "paris"\n'
    process = BrokerProcess(tmp_path, "paris", lines, port=port)
    yield process
    process.clean_up()


async def publish(broker: BrokerProcess, numbers: range) -> None:
    async with tidings.connect(broker.url, wait=PATIENCE) as client:
        for number in numbers:
            await client.publish({"n": number})


def spans(broker: BrokerProcess) -> dict[str, Span]:
    with closing(SQLiteStore(broker.store, "paris", ballast=0)) as store:
        return store.spans()


def flip_a_bit(store: Path) -> None:
    wal = store / "broker.db-wal"
    content = bytearray(wal.read_bytes())
    content[len(content) // 2] ^= 1
    wal.write_bytes(content)


def cut_off(store: Path) -> None:
    os.truncate(store / "broker.db-wal", (store / "broker.db-wal").stat().st_size // 2)


def remove(store: Path) -> None:
    (store / "broker.db-wal").unlink()


def restore_the_database(store: Path) -> None:
    remove(store)
    shutil.copy2(store.with_name("backup") / "broker.db", store / "broker.db")


def restore_all(store: Path) -> None:
    shutil.rmtree(store)
    shutil.copytree(store.with_name("backup"), store)


def restore_all_in_place(store: Path) -> None:
    remove(store)
    shutil.copytree(store.with_name("backup"), store, dirs_exist_ok=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    "damage",
    [flip_a_bit, cut_off, remove, restore_the_database, restore_all, restore_all_in_place],
    ids=lambda function: function.__name__,
)
def test_a_broker_whose_store_went_back_says_so_and_begins_an_epoch(
    paris: BrokerProcess, damage: Callable[[Path], None]
) -> None:
    async def run() -> None:
        await paris.start()
        await publish(paris, range(20))
        assert paris.stop() == 0
        shutil.copytree(paris.store, paris.store.with_name("backup"))
        await paris.start()
        await publish(paris, range(20, 60))
        paris.kill()
        damage(paris.store)
        assert "WARNING" not in paris.said
        await paris.start()
        assert paris.stop() == 0

    asyncio.run(run())
    found = spans(paris)
    assert list(found) == ["paris", "paris~2"]
    assert 20 <= found["paris"].last < 60
    assert found["paris~2"] == Span()
    assert "It cannot be proved that the log goes on where it ended" in paris.said
    assert f"So paris~2 begins, and paris is closed at tick {found['paris'].last}" in paris.said


@pytest.mark.slow
def test_a_broker_that_is_killed_under_load_goes_on_in_its_epoch(paris: BrokerProcess) -> None:
    chance = random.Random(5)

    async def load() -> None:
        async with tidings.connect(paris.url, wait=PATIENCE) as client:
            while True:
                await asyncio.gather(*(client.publish({"n": n}) for n in range(10)))

    async def run() -> None:
        await paris.start()
        task = asyncio.create_task(load())
        for _ in range(20):
            await asyncio.sleep(chance.random() * 0.3)
            paris.kill()
            await paris.start()
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        assert paris.stop() == 0

    asyncio.run(run())
    assert list(spans(paris)) == ["paris"]
    assert "proved" not in paris.said
