"""Brokers whose overlay has them meet others, and part from them, while they run."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from tests.broker.peers import configured, connected, eventually, on_loop
from tests.overlay.moving import Moving
from tidings.broker.server import Broker
from tidings.node import Node

QUICK = "[routing]\nbeat = 0.1\nsilence = 0.5\npause = 0.1\nprogress = 0.1\n"


@pytest.fixture
def overlays(monkeypatch: pytest.MonkeyPatch) -> dict[str, Moving]:
    """The latest overlay of each broker. London lets rome in."""
    found: dict[str, Moving] = {}

    def overlay(node: Node) -> Moving:
        found[node.name] = Moving(guests=["rome"] if node.name == "london" else [])
        return found[node.name]

    monkeypatch.setattr(Node, "_overlay", overlay)
    return found


def pair(folder: Path) -> tuple[Broker, Broker]:
    """Two brokers that know nothing of each other."""
    london, rome = (Broker(configured(folder, QUICK, name=name)) for name in ("london", "rome"))
    return london, rome


def linked(a: Broker, b: Broker) -> bool:
    return all(
        [(link.is_up, link.is_in_tree) for link in broker.status().links] == [(True, True)]
        for broker in (a, b)
    )


@on_loop
async def test_a_broker_meets_another_parts_from_it_and_meets_it_again(
    tmp_path: Path, overlays: dict[str, Moving]
) -> None:
    london, rome = pair(tmp_path)
    async with london, rome, connected(london) as ann, connected(rome) as bob:
        await ann.attach("ann")
        await ann.subscribe("n > 0")
        await bob.attach("bob")
        for number in (1, 3, 5):
            overlays["rome"].move("london", str(london.address))
            await eventually(lambda: linked(london, rome))
            await bob.published(number, {"n": number})
            assert await ann.deliveries(1) == [{"n": number}]
            overlays["rome"].move(None)
            await eventually(lambda: not rome.status().links and not london.links.is_up("rome"))
            await bob.published(number + 1, {"n": number + 1})
            overlays["rome"].move("london", str(london.address))
            assert await ann.deliveries(1) == [{"n": number + 1}]


@on_loop
async def test_whoever_was_parted_from_is_refused_until_it_is_met(
    tmp_path: Path, overlays: dict[str, Moving], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    london, rome = pair(tmp_path)
    async with london, rome:
        overlays["rome"].move("london", str(london.address))
        await eventually(lambda: linked(london, rome))
        overlays["london"].part("rome")
        await eventually(lambda: "rome is no neighbour of london" in caplog.text)
        await eventually(lambda: "cannot link with london" in caplog.text)
        assert not london.status().links
        assert [link.is_up for link in rome.status().links] == [False]


@on_loop
async def test_a_node_that_takes_the_place_of_a_damaged_one_has_met_nobody(
    tmp_path: Path, overlays: dict[str, Moving]
) -> None:
    london, rome = pair(tmp_path)
    async with london, rome:
        overlays["rome"].move("london", str(london.address))
        await eventually(lambda: linked(london, rome))
        rome.host._distrust(ValueError("the test says so"))
        await eventually(lambda: rome.metrics.replaced and not rome.links.is_up("london"))
        assert rome.status().links == ()
        overlays["rome"].move("london", str(london.address))
        await eventually(lambda: linked(london, rome))


@on_loop
async def test_an_address_that_is_none_is_told_and_harms_nobody(
    tmp_path: Path, overlays: dict[str, Moving], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    london, rome = pair(tmp_path)
    async with london, rome:
        overlays["rome"].move("london", "nowhere")
        await eventually(lambda: "cannot link with london at nowhere" in caplog.text)
        overlays["rome"].move("london", str(london.address))
        await eventually(lambda: linked(london, rome))
        assert rome.metrics.replaced == 0
