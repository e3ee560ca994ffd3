"""Copying the log of a real broker, which is killed meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from typing import Any

import pytest

import tidings
from tests.client.brokers import BrokerProcess
from tidings.broker.store import SQLiteStore
from tidings.client.copying import Copying
from tidings.client.session import Session
from tidings.protocol.requests import Attach, Refused
from tidings.protocol.wire import Copied, Copy

Run = Callable[[Any], Any]


async def numbers(client: tidings.Client, **where: int) -> list[int]:
    found: list[int] = []
    async for rows in client.copy("paris", **where):
        assert len(rows.ticks) == len(rows.times) == len(rows.records)
        assert [t - 1 for t in rows.ticks] == [r["n"] for r in rows.records]
        found += rows.ticks
    return found


def test_a_copy_is_all_between_two_ticks(broker: BrokerProcess, run: Run) -> None:
    async def main() -> None:
        async with tidings.connect(broker.url) as client:
            assert await numbers(client) == []
            await client.publish_each({"n": n} for n in range(1_000))
            assert await numbers(client) == list(range(1, 1_001))
            assert await numbers(client, after=17, upto=40) == list(range(18, 41))
            assert await numbers(client, after=1_000, upto=2_000) == []
            assert await numbers(client, after=40, upto=40) == []
            with pytest.raises(tidings.RequestRefused, match="no log of 'rome'"):
                async for _ in client.copy("rome"):
                    pass
            with pytest.raises(tidings.StreamWentBack) as caught:
                async for _ in client.copy("paris", after=5_000):
                    pass
            assert (caught.value.cursor, caught.value.stream) == ("paris:1000", "paris")

    run(main())


@pytest.mark.slow
def test_what_is_no_longer_kept_is_told_with_where_to_go_on(
    broker: BrokerProcess, run: Run
) -> None:
    async def publish() -> None:
        async with tidings.connect(broker.url) as client:
            for n in range(3):
                await client.publish({"n": n})

    run(publish())
    broker.stop()
    store = SQLiteStore(broker.folder / "store", broker.name)
    first = store.trim(before=1e12)
    store.close()
    broker.start()

    async def main() -> None:
        async with tidings.connect(broker.url) as client:
            with pytest.raises(tidings.CursorTooOld) as caught:
                await numbers(client)
            assert caught.value.cursor == f"paris:{first - 1}"
            assert await numbers(client, after=first - 1) == list(range(first, 4))

    run(main())


@pytest.mark.slow
def test_nothing_is_lost_or_repeated_when_the_broker_is_killed(
    broker: BrokerProcess, run: Run
) -> None:
    count = 60_000
    text = "x" * 200  # so that it takes several pieces

    async def main() -> None:
        async with tidings.connect(broker.url) as client:
            await client.publish_each({"n": n, "text": text} for n in range(count))
        async with tidings.connect(broker.url) as client:
            found: list[int] = []
            kills = 0
            async for rows in client.copy("paris"):
                found += rows.ticks
                if len(found) > (kills + 1) * count // 4 and kills < 2:
                    kills += 1
                    await asyncio.to_thread(broker.kill)
                    await asyncio.to_thread(broker.start)
            assert kills == 2
            assert found == list(range(1, count + 1))

    run(main())


def test_a_copy_that_is_given_up_leaves_the_client_as_it_was(
    broker: BrokerProcess, run: Run
) -> None:
    async def main() -> None:
        async with tidings.connect(broker.url) as client:
            await client.publish_each({"n": n} for n in range(1_000))
            async with aclosing(client.copy("paris")) as copy:
                async for rows in copy:
                    assert rows.ticks[0] == 1
                    break
            assert (await client.publish({"n": 1_000})).number == 1_001
            assert await numbers(client) == list(range(1, 1_002))
            assert not client._host.session._copyings

    run(main())


def test_the_next_piece_is_asked_for_once_the_program_keeps_up() -> None:
    session = Session()
    session.connected("paris")
    copying = Copying("paris", 0, 100)
    session.copy(copying)
    assert session.outgoing() == [[Attach(attempt=1), Copy("c1", "paris", 0, 100)]]
    session.receive([Copied("c1", (b"",), 10, 1_000)])
    assert session.outgoing() == [[Copy("c2", "paris", 10, 100)]]
    session.receive([Copied("c2", (b"",), 20, 1_000)])
    assert session.outgoing() == []  # two pieces wait
    copying.inbox.popleft()
    session.copy_on(copying)
    session.copy_on(copying)
    assert session.outgoing() == [[Copy("c3", "paris", 20, 100)]]
    session.lost()
    session.connected("paris")
    assert session.outgoing() == [[Attach(attempt=2), Copy("c4", "paris", 20, 100)]]
    session.receive([Copied("c3", (b"late",), 30, 1_000)])
    assert copying.position == 20
    session.receive([Copied("c4", (), 20, 20)])  # the log ends here
    assert copying.is_done
    assert session.outgoing() == []


def test_a_refusal_ends_a_copy() -> None:
    session = Session()
    session.connected("paris")
    copying = Copying("rome", 0, 100)
    session.copy(copying)
    session.outgoing()
    refusal = Refused("c1", "this is paris")
    session.receive([refusal])
    assert copying.ending == refusal
    session.lost()
    session.connected("paris")
    assert session.outgoing() == [[Attach(attempt=2)]]
