"""Links between brokers are cut, choked and slow; they heal by themselves, and nothing is lost."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from random import Random

import pytest

import tidings
from tests.network.brokers import LINE, MESH, PATIENCE, RING, Links, Network, eventually
from tests.network.load import Load, populate

SEEDS = range(int(os.environ.get("TIDINGS_SEEDS", "1")))
NETWORKS = {"line": LINE, "ring": RING}
if len(SEEDS) > 1:
    NETWORKS["mesh"] = MESH

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("links", NETWORKS.values(), ids=NETWORKS)
def test_nothing_is_lost_whatever_happens_to_links(links: Links, seed: int, tmp_path: Path) -> None:
    chance = Random(f"partitions {links} {seed}")

    async def run() -> None:
        async with (
            Network(tmp_path, links, proxied=True) as network,
            Load(network, chance) as load,
        ):
            await network.agreed()
            await populate(load, list(network.brokers), publishers=2, readers=5)
            for _ in range(3):
                for proxy in chance.sample(list(network.proxies.values()), k=chance.randint(1, 2)):
                    match chance.choice(("cut", "drop", "choke", "forget", "delay")):
                        case "delay":
                            proxy.delay = 0.05
                        case what:
                            getattr(proxy, what)()
                await load.more(chance.randint(50, 1000), within=2.0)
                for proxy in network.proxies.values():
                    proxy.mend()
                await load.more(chance.randint(50, 300), within=2.0)
            await network.agreed()
            await load.settle()
            load.check()

    asyncio.run(run())


def test_a_reader_hears_nothing_again_that_was_heard_of_before_it_began(
    tmp_path: Path,
) -> None:
    async def run() -> None:
        async with Network(tmp_path, LINE) as network:
            await network.agreed()
            async with (
                tidings.connect(network["a"].url) as reader,
                reader.subscribe("EXISTS n") as events,
                tidings.connect(network["c"].url) as client,
            ):
                await client.publish_each({"n": n} for n in range(10))
                for n in range(10):
                    assert (await events.get(PATIENCE))["n"] == n
            network["c"].kill()
            async with (
                tidings.connect(network["a"].url, wait=PATIENCE) as client,
                client.subscribe("EXISTS n") as live,
                client.subscribe("EXISTS n", durable="desk", home="here") as durable,
            ):
                network["a"].kill()  # so that the client has to say where it was
                await network["a"].start()
                await eventually(lambda: client.is_connected)
                await network["c"].start()
                async with tidings.connect(network["c"].url) as other:
                    await network.agreed()
                    await other.publish({"n": 10})
                for events in (live, durable):
                    assert (await events.get(PATIENCE))["n"] == 10

    asyncio.run(run())


def test_a_dead_connection_is_replaced_even_if_much_waits_for_it(tmp_path: Path) -> None:
    """The wire takes nothing more, and nobody says so; a new connection would work."""

    async def run() -> None:
        async with Network(tmp_path, (("a", "b"),), proxied=True) as network:
            await network.agreed()
            async with (
                tidings.connect(network["a"].url) as publisher,
                tidings.connect(network["b"].url) as reader,
                reader.subscribe("EXISTS n", durable="desk") as events,
            ):
                network.proxies["a", "b"].forget()
                await publisher.publish_each({"n": n, "x": bytes(1 << 16)} for n in range(200))
                for n in range(200):
                    assert (await events.get(PATIENCE))["n"] == n

    asyncio.run(run())


def test_a_neighbour_that_takes_nothing_holds_nobody_up(tmp_path: Path) -> None:
    """Its link is full, and stays open; what it lacks waits in the log, not in memory."""
    size = 20_000
    # So patient that nobody is taken for dead: only the backlog says that this goes nowhere.
    patient = "[limits]\nsilence = 60\n[routing]\nsilence = 60\nbacklog = 200\nbeat = 0.2\n"
    links = (("a", "b"), ("a", "c"))

    async def run() -> None:
        async with (
            Network(tmp_path, links, settings=patient, proxied=True) as network,
            tidings.connect(network["a"].url, wait=PATIENCE) as publisher,
            tidings.connect(network["b"].url, wait=PATIENCE) as one,
            tidings.connect(network["c"].url, wait=PATIENCE) as other,
        ):
            await network.agreed()
            async with (
                one.subscribe("EXISTS n", durable="one") as there,
                other.subscribe("EXISTS n", durable="other") as here,
            ):

                async def pass_by(first: int, last: int, *readers: tidings.Subscription) -> None:
                    for start in range(first, last, 500):
                        some = range(start, start + 500)
                        await publisher.publish_each({"n": n, "x": bytes(size)} for n in some)
                        for n in some:
                            for events in readers:
                                assert (await events.get(PATIENCE))["n"] == n

                await pass_by(0, 1_500, there, here)
                before = network["a"].memory
                network.proxies["a", "b"].choke()
                await pass_by(1_500, 3_500, here)
                grown = network["a"].memory - before
                assert grown < 2_000 * size * 0.6, f"{grown >> 20} MiB more"
                network.proxies["a", "b"].mend()
                for n in range(1_500, 2_000):
                    assert (await there.get(PATIENCE))["n"] == n

    asyncio.run(run())


def test_a_slow_link_delivers_slowly(tmp_path: Path) -> None:
    """What takes longer than a neighbour's silence may last still arrives."""

    async def run() -> None:
        async with Network(tmp_path, (("a", "b"),), proxied=True) as network:
            await network.agreed()
            async with tidings.connect(network["a"].url) as publisher:
                large = bytes(10_000)
                await publisher.publish_each({"n": n, "x": large} for n in range(200))
            network.proxies["a", "b"].rate = 500_000.0
            async with (
                tidings.connect(network["b"].url) as reader,
                reader.subscribe("EXISTS n", durable="desk", since="begin") as events,
            ):
                for n in range(200):
                    assert (await events.get(PATIENCE))["n"] == n

    asyncio.run(run())
