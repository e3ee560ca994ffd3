"""Hierarchies of real brokers: what is wanted goes upwards only, and events arrive exactly."""

from __future__ import annotations

import asyncio
import os
import subprocess
from pathlib import Path
from random import Random

import pytest

import tidings
from tests.network.brokers import PATIENCE, USUAL, Links, Network
from tests.network.load import Load, populate
from tests.network.test_crashes import strike
from tidings.broker.operations.status import LinkStatus

pytestmark = pytest.mark.slow

LINKS: Links = (("root", "east"), ("root", "west"))
ROLES = {
    ("root", "east"): "child",
    ("root", "west"): "child",
    ("east", "root"): "parent",
    ("west", "root"): "parent",
}


async def link(network: Network, broker: str, neighbour: str) -> LinkStatus:
    links = {each.name: each for each in (await network[broker].status()).links}
    return links[neighbour]


async def holds(network: Network, broker: str, neighbour: str, filters: int) -> None:
    """Wait until a broker knows of this many filters that a neighbour wants."""
    async with asyncio.timeout(PATIENCE):
        while (await link(network, broker, neighbour)).subscriptions != filters:
            await asyncio.sleep(0.05)


def test_what_clients_want_goes_upwards_only_and_all_hear_exactly_that(tmp_path: Path) -> None:
    async def run() -> None:
        async with Network(tmp_path, LINKS, roles=ROLES) as network:
            await network.agreed()
            assert (await link(network, "east", "root")).role == "parent"
            assert (await link(network, "root", "east")).role == "child"
            clients = {
                name: await tidings.connect(broker.url, wait=PATIENCE)
                for name, broker in network.brokers.items()
            }
            wanted = {"east": ("n < 10", "n > 90"), "west": ("n > 50",), "root": ("n = 5",)}
            heard = {
                name: [await clients[name].subscribe(text) for text in texts]
                for name, texts in wanted.items()
            }
            await holds(network, "root", "east", 2)
            await holds(network, "root", "west", 1)
            for child in ("east", "west"):
                await holds(network, child, "root", 1)  # "everything", whatever is wanted there
            for at, name in enumerate(("east", "west", "root")):
                await clients[name].publish_each({"n": n} for n in range(at, 100, 3))
            numbers = {"n < 10": 10, "n > 90": 9, "n > 50": 49, "n = 5": 1}
            for name, texts in wanted.items():
                for text, events in zip(texts, heard[name], strict=True):
                    found = [(await events.get(PATIENCE))["n"] for _ in range(numbers[text])]
                    assert len(set(found)) == len(found)
                    for at in range(3):
                        one = [n for n in found if n % 3 == at]
                        assert one == sorted(one), "in the order of their publisher"
            await asyncio.sleep(1.0)
            for subscriptions in heard.values():
                for events in subscriptions:
                    with pytest.raises(TimeoutError):
                        await events.get(0.01)
            for client in clients.values():
                await client.close()
            network.check_calm()

    asyncio.run(run())


def test_nothing_is_lost_or_repeated_whichever_brokers_are_killed(tmp_path: Path) -> None:
    chance = Random("hierarchy")
    links = (*LINKS, ("west", "coast"))
    roles = ROLES | {("west", "coast"): "child", ("coast", "west"): "parent"}

    async def run() -> None:
        async with (
            Network(tmp_path, links, roles=roles) as network,
            Load(network, chance) as load,
        ):
            await network.agreed()
            await populate(load, list(network.brokers), publishers=3, readers=6)
            await strike(network, load, strikes=3)
            await load.settle()
            load.check()

    asyncio.run(run())


@pytest.mark.parametrize(
    ("roles", "said"),
    [
        (
            {("root", "east"): "child"},
            "east has root as its peer, and root has east as its child",
        ),
        (
            {("root", "east"): "child", ("east", "root"): "child"},
            "east has root as its child, and root has east as its child",
        ),
        (
            {("root", "west"): "child", ("west", "root"): "parent"},
            "east agrees on a tree with its neighbours, and root does not",
        ),
    ],
)
def test_a_neighbour_with_another_idea_of_the_hierarchy_is_refused(
    roles: dict[tuple[str, str], str], said: str, tmp_path: Path
) -> None:
    async def run() -> None:
        async with Network(tmp_path, LINKS, roles=roles) as network:
            root = network["root"]
            async with asyncio.timeout(PATIENCE):
                while not any(said in each for each in (await root.status()).warnings):
                    await asyncio.sleep(0.05)
                while said not in root.said or "cannot link with root" not in network["east"].said:
                    await asyncio.sleep(0.05)
            assert not (await link(network, "root", "east")).is_up
            shown = await asyncio.to_thread(
                subprocess.run,
                [*USUAL, "network", "--url", root.url],
                capture_output=True,
                text=True,
                env={**os.environ, "COLUMNS": "400"},
            )
            assert said in shown.stdout
            assert "child" in shown.stdout

    asyncio.run(run())
