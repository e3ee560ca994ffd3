"""A broker whose memory is damaged throws it away, and goes on with what is on its disk."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import tidings
from tests.broker.peers import configured, eventually, on_loop
from tidings.broker.server import Broker
from tidings.node import Node

QUICK = """
[routing]
beat = 0.1
silence = 0.5
progress = 0.1
pause = 0.2
check = 0.3
check_most = 0.3
"""


def break_position(node: Node) -> None:
    node.from_log.logs.log.last += 3


def lose_session(node: Node) -> None:
    node.sessions.clear()


def stop_reading(node: Node) -> None:
    for client in node.from_log.clients.values():
        client.is_full = True


def lose_timers(node: Node) -> None:
    node._timers._queue.clear()
    node._wake_at = 0.0


DAMAGE = {
    "the end of the log": break_position,
    "the sessions": lose_session,
    "who reads": stop_reading,
    "the timers": lose_timers,
}


@pytest.mark.parametrize("what", DAMAGE)
@on_loop
async def test_a_damaged_broker_delivers_again(tmp_path: Path, what: str) -> None:
    async with Broker(configured(tmp_path, QUICK, name="paris")) as broker:
        url = f"tidings://{broker.address}"
        async with tidings.connect(url) as client, client.subscribe("n > 0") as events:
            await client.publish({"n": 1})
            assert (await events.get())["n"] == 1
            DAMAGE[what](broker.host.node)
            last = await heard_again(client, events)
            for n in range(last + 1, last + 4):
                await client.publish({"n": n})
            assert [(await events.get())["n"] for _ in range(3)] == [last + 1, last + 2, last + 3]


async def heard_again(client: tidings.Client, events: tidings.Subscription) -> int:
    """Publish until something is heard, and all that was; the last of it."""
    last, n = 1, 2
    await client.publish({"n": n})
    while last < n:
        try:
            async with asyncio.timeout(0.3):
                last = (await events.get())["n"]
        except TimeoutError:
            n += 1
            await client.publish({"n": n})
    return last


@on_loop
async def test_readers_are_told_that_a_broker_was_damaged(tmp_path: Path) -> None:
    async with Broker(configured(tmp_path, QUICK, name="paris")) as broker:
        url = f"tidings://{broker.address}"
        async with tidings.connect(url) as client, client.subscribe("n > 0") as events:
            await client.publish({"n": 1})
            assert (await events.get())["n"] == 1
            assert events.doubted == 0
            node = broker.host.node
            break_position(node)
            await client.publish({"n": 2})  # it cannot be appended to the log on disk
            await eventually(lambda: broker.host.node is not node)
            assert (await events.get())["n"] == 2
            await eventually(lambda: events.doubted == 1)
            assert broker.metrics.replaced == 1


@on_loop
async def test_a_sound_broker_stays_as_it_is(tmp_path: Path) -> None:
    async with (
        Broker(
            configured(tmp_path / "a", f"{QUICK}[neighbours]\nlondon = {{}}\n", name="paris")
        ) as broker,
        Broker(
            configured(
                tmp_path / "b",
                f'{QUICK}[neighbours]\nparis = "{broker.address}"\n',
                name="london",
            )
        ) as other,
    ):
        node = other.host.node
        await eventually(lambda: other.links.is_up("paris"))
        url = f"tidings://{other.address}"
        async with (
            tidings.connect(url, name="desk") as client,
            client.subscribe("n > 0", durable="d") as events,
            client.subscribe("n > 5"),
        ):
            for n in range(1, 20):
                await client.publish({"n": n})
                event = await events.get()
                assert event["n"] == n
                await event.ack()
            due = node._timers._due
            compared = [due["Node._compare"]]
            while len(compared) < 4:
                await eventually(lambda: due["Node._compare"] > compared[-1])
                compared.append(due["Node._compare"])
            await eventually(lambda: node._recollection is None)
            assert (other.host.node, other.metrics.replaced) == (node, 0)
            assert broker.metrics.replaced == 0
            assert events.doubted == 0
