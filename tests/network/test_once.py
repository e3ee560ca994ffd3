"""Brokers are killed and frozen while a client publishes with ids: each is kept once, somewhere."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from pathlib import Path
from random import Random

import pytest

import tidings
from tests.network.brokers import LINE, PATIENCE, Network, eventually

SEEDS = range(int(os.environ.get("TIDINGS_SEEDS", "1")))

pytestmark = pytest.mark.slow


def addresses(network: Network, *names: str) -> str:
    hosts = [network.brokers[name].url.removeprefix("tidings://") for name in names]
    return "tidings://" + ",".join(hosts)


def logged(network: Network) -> Counter[tuple[str, int]]:
    """How often each event of each id is in some log."""
    events = (event.notification for b in network.brokers.values() for event in b.log())
    return Counter((event["id"], event["n"]) for event in events)


async def kept(
    client: tidings.Client, id: str, count: int
) -> tidings.Receipt | tidings.Receipts | None:
    """Publish something until it is kept, as a program would."""
    while True:
        try:
            if count == 1:
                return await client.publish({"id": id, "n": 0}, id=id)
            return await client.publish_many([{"id": id, "n": n} for n in range(count)], id=id)
        except tidings.PublishRefusedForNow:
            continue


def test_what_the_killed_broker_has_kept_the_next_one_does_not_keep_again(tmp_path: Path) -> None:
    async def run() -> None:
        async with Network(tmp_path, LINE) as network:
            await network.agreed()
            a = network.brokers["a"]
            async with tidings.connect(addresses(network, "a", "c"), wait=PATIENCE) as client:
                assert client._host._connection is not None
                client._host._connection.receive = lambda _: None  # no answer arrives
                work = asyncio.create_task(kept(client, "x", 1))
                bold = asyncio.create_task(client.publish({"id": "y", "n": 0}, id="y"))
                await eventually(lambda: len(a.log()) == 2)
                a.kill()
                await eventually(lambda: client.broker == "c")
                with pytest.raises(tidings.PublishRefusedForNow, match="a may have kept it"):
                    await bold
                again = await client.publish({"id": "y", "n": 0}, id="y", maybe_twice=True)
                assert (again.stream, again.maybe_twice) == ("c", True)
                await a.start()
                receipt = await work
                assert isinstance(receipt, tidings.Receipt)
                assert (receipt.id, receipt.maybe_twice) == ("a:1", False)
            assert logged(network) == {("x", 0): 1, ("y", 0): 2}

    asyncio.run(run())


@pytest.mark.parametrize("seed", SEEDS)
def test_each_id_is_kept_once_whichever_brokers_are_killed(tmp_path: Path, seed: int) -> None:
    chance = Random(f"once {seed}")
    counts = {f"e{n}": chance.choice((1, 1, 1, 5)) for n in range(400)}

    async def run() -> None:
        async with Network(tmp_path, LINE) as network:
            await network.agreed()
            url = addresses(network, "a", "b", "c")
            receipts = {}
            async with tidings.connect(url, wait=PATIENCE) as client:

                async def some(ids: list[str]) -> None:
                    for id in ids:
                        receipts[id] = await kept(client, id, counts[id])
                        await asyncio.sleep(0)

                ids = list(counts)
                work = asyncio.gather(*(some(ids[n::20]) for n in range(20)))
                while not work.done() and len(receipts) < 360:
                    before = len(receipts)
                    await eventually(lambda before=before: len(receipts) > before + 30)
                    broker = network.brokers[client.broker or "a"]
                    if chance.random() < 0.7:
                        broker.kill()
                        await asyncio.sleep(chance.random())
                        await broker.start()
                    else:
                        broker.freeze()
                        await asyncio.sleep(1.0 + chance.random())
                        broker.freeze(go_on=True)
                await work
            assert logged(network) == {(id, n): 1 for id in ids for n in range(counts[id])}
            for id, receipt in receipts.items():
                first = receipt if isinstance(receipt, tidings.Receipt) else receipt.first
                assert not first.maybe_twice
                if first.stream:
                    log = network.brokers[first.stream].log()
                    together = log[first.tick - 1 : first.tick - 1 + counts[id]]
                    assert [event.notification["id"] for event in together] == [id] * counts[id]

    asyncio.run(run())
