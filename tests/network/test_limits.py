"""Limits of what clients leave behind: counted on disk, freed by name, and shown."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import tidings
from tests.network.brokers import BrokerProcess, free_ports
from tidings.broker.store import SQLiteStore
from tidings.broker.tokens import hashed

pytestmark = pytest.mark.slow

TOKENS = {name: f"tidings_{name}" for name in ("desk", "lab")}


def broker_with(folder: Path, text: str) -> BrokerProcess:
    [port] = free_ports(1)
    head = f'name = "paris"\nlisten = "127.0.0.1:{port}"\nstore = "paris"\n'
    tokens = "".join(f'{name} = "{hashed(token)}"\n' for name, token in TOKENS.items())
    return BrokerProcess(folder, "paris", f"{head}{text}\n[tokens]\n{tokens}", port=port)


def command(broker: BrokerProcess, whose: str, *arguments: str) -> tuple[int, str]:
    """`tidings` with arguments, for a principal: its exit code, and all that it says."""
    done = subprocess.run(
        [sys.executable, "-m", "tidings.cli", *arguments, "--url", broker.url],
        env={**os.environ, "COLUMNS": "200", "TIDINGS_TOKEN": TOKENS[whose]},
        capture_output=True,
        text=True,
        timeout=60,
    )
    return done.returncode, " ".join((done.stdout + done.stderr).split())


def change(broker: BrokerProcess, values: dict[str, Any]) -> None:
    """Write to the store of a broker that does not run."""
    with closing(SQLiteStore(str(broker.store), broker.name)) as store:
        store.commit(values, ())


def test_a_principal_has_a_thousand_durable_subscriptions_also_after_a_crash(
    tmp_path: Path,
) -> None:
    broker = broker_with(tmp_path, "")

    async def subscribe(client: tidings.Client, name: str) -> None:
        async with client.subscribe("n > 0", durable=name):
            pass

    async def run() -> None:
        await broker.start()
        async with tidings.connect(broker.url, token=TOKENS["desk"]) as desk:
            async with asyncio.TaskGroup() as group:
                for number in range(1_000):
                    group.create_task(subscribe(desk, f"d{number}"))
            with pytest.raises(tidings.SubscriptionRefused, match=r"all the 1000 .*\[limits\]"):
                await subscribe(desk, "one-more")
            await subscribe(desk, "d7")  # one that is there may be read
        broker.kill()
        await broker.start()
        async with (
            tidings.connect(broker.url, token=TOKENS["desk"]) as desk,
            tidings.connect(broker.url, token=TOKENS["lab"]) as lab,
        ):
            with pytest.raises(tidings.SubscriptionRefused, match="tidings durables forget"):
                await subscribe(desk, "one-more")
            await subscribe(lab, "its-own")
            assert not await desk.forget("its-own")  # it is the lab's
            assert await desk.forget("d7")
            assert not await desk.forget("d7")
            await subscribe(desk, "one-more")

    try:
        asyncio.run(run())
        code, said = command(broker, "desk", "network")
        assert code == 0
        assert "desk paris 1000 1000 0 10000" in said
        assert "lab paris 1 1000 0 10000" in said
    finally:
        broker.clean_up()


def test_what_nobody_uses_is_shown_and_goes(tmp_path: Path) -> None:
    broker = broker_with(tmp_path, "[limits]\ndurables = 2")

    async def run() -> None:
        await broker.start()
        async with tidings.connect(broker.url, token=TOKENS["desk"]) as desk:
            for name in ("idle", "gone"):
                async with desk.subscribe("TRUE", durable=name):
                    pass
        broker.kill()
        days = {"hours": 100 * 24, "used:desk/idle": 40, "used:desk/gone": 9}
        change(broker, days)
        await broker.start()
        await asyncio.to_thread(check)

    def check() -> None:
        _, said = command(broker, "desk", "network")
        assert "desk paris 1 2 0 10000" in said
        assert "nobody has used these durable subscriptions of desk for 60 days" in said
        assert "forgotten: idle" in said
        assert "they are forgotten: desk/idle" in broker.said
        assert "has used for 90 days: desk/gone" in broker.said
        code, said = command(broker, "desk", "subscribe", "--durable", "gone", "--forget")
        assert (code, "paris knows no durable subscription 'gone'" in said) == (2, True)
        code, said = command(broker, "desk", "subscribe", "--durable", "idle", "--forget")
        assert (code, "idle is forgotten" in said) == (0, True)

    try:
        asyncio.run(run())
    finally:
        broker.clean_up()


def test_a_cursor_of_invented_streams_is_refused(tmp_path: Path) -> None:
    broker = broker_with(tmp_path, "")

    async def run() -> None:
        await broker.start()
        many = {f"stream-{n}": 1 for n in range(100_000)}
        async with tidings.connect(broker.url, token=TOKENS["desk"]) as desk:
            for durable in (None, "d"):
                with pytest.raises(tidings.SubscriptionRefused, match="and 99997 more: a cursor"):
                    await desk.subscribe("TRUE", durable=durable, since=many)
        said = await asyncio.to_thread(
            command, broker, "desk", "subscribe", "TRUE", "--since", "pariss:17"
        )
        assert (said[0], "has never heard of 'pariss'" in said[1]) == (2, True)

    try:
        asyncio.run(run())
    finally:
        broker.clean_up()


def test_who_may_have_no_more_names_is_told_when_it_connects(tmp_path: Path) -> None:
    broker = broker_with(tmp_path, "[limits]\npublishers = 1")

    async def run() -> None:
        await broker.start()
        async with tidings.connect(broker.url, token=TOKENS["desk"], name="a") as client:
            await client.publish({"n": 1})
        with pytest.raises(tidings.AccessDenied, match=r"\[limits\] publishers"):
            await tidings.connect(broker.url, token=TOKENS["desk"], name="b")
        async with tidings.connect(broker.url, token=TOKENS["desk"]) as client:
            with pytest.raises(tidings.PublishRefused, match="published under 1 names"):
                await client.publish({"n": 2})
        async with tidings.connect(broker.url, token=TOKENS["lab"], name="b") as client:
            await client.publish({"n": 3})

    try:
        asyncio.run(run())
    finally:
        broker.clean_up()
