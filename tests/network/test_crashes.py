"""Brokers and clients are killed under load; at the end everything is accounted for."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from random import Random

import pytest

from tests.network.brokers import HASTY, LINE, MESH, RING, STAR, Links, Network
from tests.network.load import Load, populate

SEEDS = range(int(os.environ.get("TIDINGS_SEEDS", "1")))
NETWORKS = {"line": LINE, "ring": RING, "star": STAR}
if len(SEEDS) > 1:
    NETWORKS["mesh"] = MESH

REDUCTIONS = ("simple", "identity", "covering", "merging", "imperfect:1.5", "flooding")

pytestmark = pytest.mark.slow


async def strike(network: Network, load: Load, *, strikes: int) -> None:
    """Kill brokers at random moments, one or two at a time, and start them again."""
    chance = load.chance
    for _ in range(strikes):
        await load.more(chance.randint(20, 600))
        victims = chance.sample(sorted(network.brokers), k=chance.choice((1, 1, 2)))
        frozen = []
        for name in victims:
            match chance.choice(("kill", "kill", "kill", "stop", "freeze")):
                case "kill":
                    network[name].kill()
                case "stop":
                    assert network[name].stop() == 0
                case "freeze":
                    network[name].freeze()
                    frozen.append(name)
            await load.more(chance.randint(0, 50), within=0.3)
        await load.more(chance.randint(0, 400), within=1.0)
        chance.shuffle(victims)
        for name in frozen:
            network[name].freeze(go_on=True)
        dead = [name for name in victims if name not in frozen]
        if chance.random() < 0.5:
            await network.start(dead)
        else:
            for name in dead:
                await network[name].start()


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("links", NETWORKS.values(), ids=NETWORKS)
def test_nothing_is_lost_or_repeated_whichever_brokers_are_killed(
    links: Links, seed: int, tmp_path: Path
) -> None:
    chance = Random(f"{links} {seed}")

    async def run() -> None:
        routing = f'subscriptions = "{chance.choice(REDUCTIONS)}"\n'
        if chance.random() < 0.4:
            routing += f'advertisements = "{chance.choice(REDUCTIONS)}"\n'
        settings = HASTY + routing
        async with (
            Network(tmp_path, links, settings=settings) as network,
            Load(network, chance) as load,
        ):
            await network.agreed()
            await populate(load, list(network.brokers), publishers=3, readers=6)
            late = asyncio.create_task(_come_late(network, load))
            await strike(network, load, strikes=3)
            await late
            await load.settle()
            load.check()

    asyncio.run(run())


async def _come_late(network: Network, load: Load) -> None:
    """Readers that begin while others publish and brokers die."""
    for durable in (False, True):
        await load.more(load.chance.randint(100, 800), within=5.0)
        await load.reader(load.chance.choice(sorted(network.brokers)), durable=durable)


@pytest.mark.parametrize("seed", SEEDS)
def test_clients_that_are_killed_go_on_where_they_were(seed: int, tmp_path: Path) -> None:
    chance = Random(f"clients {seed}")

    async def run() -> None:
        async with Network(tmp_path, LINE) as network, Load(network, chance) as load:
            await network.agreed()
            at = chance.choice("abc")
            heard = [await load.reader_process(chance.choice("abc")) for _ in range(2)]
            load.publisher_process(at)
            await load.publisher(chance.choice("abc"))
            for _ in range(3):
                await load.more(chance.randint(50, 400))
                load.kill_reader(chance.choice(heard).name)
                if chance.random() < 0.7:
                    load.kill_publisher(0, at)
                if chance.random() < 0.4:
                    victim = chance.choice("abc")
                    network[victim].kill()
                    await network[victim].start()
            await load.more(200)
            await load.settle()
            load.check()

    asyncio.run(run())


@pytest.mark.parametrize("seed", SEEDS)
def test_a_network_that_is_killed_as_a_whole_comes_back_in_any_order(
    seed: int, tmp_path: Path
) -> None:
    chance = Random(f"whole {seed}")

    async def run() -> None:
        async with Network(tmp_path, STAR) as network, Load(network, chance) as load:
            await network.agreed()
            await populate(load, list(network.brokers), publishers=3, readers=5)
            await load.more(chance.randint(100, 600))
            order = sorted(network.brokers)
            for name in order:
                network[name].kill()
            chance.shuffle(order)
            for name in order:
                await network[name].start()
            await load.more(chance.randint(100, 600))
            await load.settle()
            load.check()

    asyncio.run(run())
