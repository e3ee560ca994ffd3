"""Erasing in a network of real brokers, of which some are killed in the middle."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from pathlib import Path
from typing import Any

import pytest

import tidings
from tests.network.brokers import HASTY, LINE, PATIENCE, Network
from tests.network.test_copies import TOKENS, Secure
from tidings.broker.store.check import check
from tidings.delivery.erased import ERASED, ERASURE

WANTED = "customer = 'c-7'"
SECRET, OTHER = b"the secret of c-7", b"the secret of c-3"


def whole(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """A test that is a coroutine."""

    @wraps(test)
    def run(*about: Any, **more: Any) -> None:
        asyncio.run(test(*about, **more))

    return run


def orders(count: int, by: str) -> list[dict[str, Any]]:
    return [
        {"customer": f"c-{n % 10}", "n": n, "by": by, "text": f"the secret of c-{n % 10}"}
        for n in range(count)
    ]


def bytes_of(network: Network, name: str) -> bytes:
    return b"".join(path.read_bytes() for path in network[name].store.iterdir())


async def publish(network: Network, count: int) -> None:
    for name, broker in network.brokers.items():
        async with tidings.connect(broker.url, wait=PATIENCE) as client:
            await client.publish_each(orders(count, name))


async def history(url: str, count: int) -> list[dict[str, Any]]:
    """This many events, from the beginning on; and that there is none of an erased one."""
    found: list[dict[str, Any]] = []
    async with (
        tidings.connect(url, wait=PATIENCE) as client,
        client.subscribe("EXISTS by OR EXISTS tidings.erased", since="begin") as events,
    ):
        async with asyncio.timeout(PATIENCE):
            async for event in events:
                if ERASURE not in event:
                    found.append(dict(event))
                if len(found) == count:
                    break
    assert not any(said.get("customer") == "c-7" or ERASED in said for said in found)
    return found


@whole
async def test_afterwards_it_is_gone_from_all_brokers_and_from_their_disks(tmp_path: Path) -> None:
    async with Network(tmp_path, LINE) as network:
        await network.agreed()
        await publish(network, 200)
        told: list[tidings.Erasure] = []
        async with (
            tidings.connect(network["b"].url, wait=PATIENCE) as client,
            tidings.connect(network["c"].url, wait=PATIENCE) as other,
            other.subscribe(f"EXISTS {ERASURE}") as records,
        ):
            before = await client.erase(WANTED, dry_run=True)
            answer = await client.erase(WANTED, reason="request 4711", told=told.append)
            record = await records.get(PATIENCE)
        assert before.erased == answer.erased == {"a": 20, "b": 20, "c": 20}
        assert answer.is_complete
        assert told[-1] == answer
        assert (record.id, record[ERASURE], record["erased"], record["reason"]) == (
            *(answer.record, answer.id, 60, "request 4711"),
        )
        for name in "abc":
            assert SECRET not in bytes_of(network, name)
            assert OTHER in bytes_of(network, name)
            assert len(await history(network[name].url, 540)) == 540
        network.check_calm()


@whole
async def test_a_cursor_from_before_goes_on_exactly_where_it_was(tmp_path: Path) -> None:
    async with Network(tmp_path, LINE) as network:
        await network.agreed()
        await publish(network, 100)
        async with tidings.connect(network["c"].url, wait=PATIENCE) as client:
            async with client.subscribe("EXISTS by", durable="d", since="begin") as events:
                heard = [await events.get(PATIENCE) for _ in range(120)]
                await heard[-1].ack()
            await client.erase(WANTED)
            rest: list[tidings.Event] = []
            async with client.subscribe("EXISTS by", durable="d") as events:
                while (
                    len({e.id for e in (*heard, *rest) if e.get("customer", "c-7") != "c-7"}) < 270
                ):
                    rest.append(await events.get(PATIENCE))
        assert not {event.id for event in heard} & {event.id for event in rest}
        assert len({event.id for event in rest}) == len(rest)
        assert not any(event.get("customer") == "c-7" for event in rest)


@pytest.mark.slow
@pytest.mark.parametrize("victim", ["a", "b"])
@whole
async def test_killed_in_the_middle_it_is_finished_when_it_is_back(
    tmp_path: Path, victim: str
) -> None:
    async with Network(tmp_path, LINE) as network:
        await network.agreed()
        await publish(network, 30_000)
        async with tidings.connect(network["a"].url, wait=PATIENCE) as client:
            begun = asyncio.Event()
            erasing = asyncio.create_task(client.erase(WANTED, told=lambda _: begun.set()))
            await asyncio.wait_for(begun.wait(), PATIENCE)
            assert not erasing.done()
            network[victim].kill()
            await network.start([victim])
            await network.agreed()
            answer = await asyncio.wait_for(erasing, 2 * PATIENCE)
            if not answer.is_complete:
                assert set(answer.unreached) <= {"b", "c"}
                answer = await client.erase(WANTED)
            assert answer.is_complete
        for name in "abc":
            assert SECRET not in bytes_of(network, name)
        assert len(await history(network["c"].url, 3 * 27_000)) == 3 * 27_000
        for broker in network.brokers.values():
            assert broker.stop() == 0
            assert check(broker.store).problems == ()


@whole
async def test_a_broker_that_is_down_is_named(tmp_path: Path) -> None:
    async with Network(tmp_path, LINE, settings=HASTY) as network:
        await network.agreed()
        await publish(network, 50)
        network["c"].kill()
        async with tidings.connect(network["a"].url, wait=PATIENCE) as client:
            while "c" not in (answer := await client.erase(WANTED)).unreached:
                await asyncio.sleep(0.1)  # its neighbours have not noticed yet
            assert not answer.is_complete
            await network.start(["c"])
            await network.agreed()
            assert (await client.erase(WANTED)).erased["c"] == 5
        assert SECRET not in bytes_of(network, "c")


class Guarded(Secure):
    """Only `lab` may erase."""

    def _text(self, name: str) -> str:
        return f'erasers = ["lab"]\n{super()._text(name)}'


@pytest.mark.slow
@whole
async def test_only_those_erase_that_the_configuration_names(tmp_path: Path) -> None:
    async with Guarded(tmp_path, [("a", "b")]) as network:
        await network.linked()
        async with network.client("a", "desk") as desk, network.client("b", "lab") as lab:
            await desk.publish({"customer": "c-7"})
            with pytest.raises(tidings.RequestRefused, match=r'erasers = \["desk"\]'):
                await desk.erase(WANTED)
            assert (await lab.erase(WANTED)).erased["a"] == 1
    assert "lab" in TOKENS


@pytest.mark.parametrize("name", [ERASED, ERASURE])
@whole
async def test_nobody_publishes_what_only_brokers_say(tmp_path: Path, name: str) -> None:
    async with (
        Network(tmp_path, [("a", "b")]) as network,
        tidings.connect(network["a"].url, wait=PATIENCE) as client,
    ):
        with pytest.raises(tidings.PublishRefused, match=f"only brokers publish .* {name}"):
            await client.publish({name: "erase-1", "n": 1})
        await client.publish({"n": 2})


@whole
async def test_what_an_erased_event_was_is_copied_to_nobody(tmp_path: Path) -> None:
    async with Network(tmp_path, [("a", "b")]) as network:
        async with tidings.connect(network["a"].url, wait=PATIENCE) as client:
            await client.publish_each(orders(20, "a"))
            await client.erase(WANTED)
            rows = [piece async for piece in client.copy("a", upto=20)]
        records = [record for piece in rows for record in piece.records]
        assert [tick for piece in rows for tick in piece.ticks] == list(range(1, 21))
        assert [set(record) for record in records if ERASED in record] == [{ERASED}] * 2
        assert not any(record.get("customer") == "c-7" for record in records)
