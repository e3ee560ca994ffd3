"""What acknowledging costs a durable subscription that is read through the client library.

The same events are read again and again from one broker, and each is acknowledged: told later
(`ack_soon`), awaited one by one, and awaited with many under way, which share commits. The runs
take turns, so that whatever else the machine does befalls all of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import TypeAlias

import uvloop

import tidings
from bench.broker.servers import CROWDS_CORE, broker, pin
from bench.report import Target, console, save, short, show, show_targets

_UNDER_WAY = (256, 4_096)
"""Acknowledgements that are awaited at the same time."""
_LATER = "told later"
_SHARE = 0.5
"""What awaiting each, with the most under way, leaves of the rate of telling them later."""


async def _later(events: tidings.Subscription, count: int) -> None:
    for _ in range(count):
        (await events.get()).ack_soon()


async def _awaited(events: tidings.Subscription, count: int, under_way: int) -> None:
    """Await each acknowledgement; `under_way` of them at a time."""
    begun: asyncio.Queue[Awaitable[None] | None] = asyncio.Queue(under_way - 1)

    async def wait() -> None:
        while (acknowledgement := await begun.get()) is not None:
            await acknowledgement

    waiting = asyncio.create_task(wait())
    for _ in range(count):
        await begun.put((await events.get()).ack())
    await begun.put(None)
    await waiting


async def _one_by_one(events: tidings.Subscription, count: int) -> None:
    for _ in range(count):
        await (await events.get()).ack()


Way: TypeAlias = Callable[[tidings.Subscription, int], Awaitable[None]]
Rates: TypeAlias = dict[str, list[float]]


def _ways(single: int, many: int) -> dict[str, tuple[Way, int]]:
    """How events are acknowledged, and how many of them are read for it."""
    ways: dict[str, tuple[Way, int]] = {_LATER: (_later, many)}
    for number in _UNDER_WAY:
        ways[f"awaited, {number} under way"] = partial(_awaited, under_way=number), many
    ways["awaited one by one"] = _one_by_one, single
    return ways


async def _rates(port: int, ways: dict[str, tuple[Way, int]], rounds: int) -> Rates:
    """Events a second of each way, in each round."""
    rates: Rates = {way: [] for way in ways}
    most = max(count for _, count in ways.values())
    async with tidings.connect(f"tidings://127.0.0.1:{port}") as client:
        await client.publish_each({"symbol": "DIS", "price": n / 8} for n in range(most))
        for _ in range(rounds):
            for way, (read, count) in ways.items():
                async with client.subscribe("EXISTS price", durable=way, since="begin") as found:
                    begun = perf_counter()
                    await read(found, count)
                    await client.flush()
                    rates[way].append(count / (perf_counter() - begun))
    return rates


def run(*, quick: bool, full: bool = False, out: Path) -> int:
    console.rule("acknowledging: a durable subscription through the client library")
    many, single, rounds = (20_000, 100, 2) if quick else (100_000, 1_000, 9 if full else 5)
    ways = _ways(single, many)
    pin(CROWDS_CORE)
    try:
        with broker() as server, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            rates = runner.run(_rates(server.port, ways, rounds))
    finally:
        pin(None)
    shares = {way: _share(found, rates[_LATER]) for way, found in rates.items()}
    show(
        f"Events read and acknowledged, median of {rounds} rounds",
        ["", "events/s", "least", "most", "of told later"],
        [
            [way, *map(short, (median(found), min(found), max(found))), f"{shares[way]:.3f} ×"]
            for way, found in rates.items()
        ],
    )
    most = f"awaited, {_UNDER_WAY[-1]} under way"
    targets = [Target(f"rate: {most}, of told later", shares[most], _SHARE, " ×")]
    show_targets(targets)
    save(out, "acknowledging", {"rates": rates}, targets)
    return 0


def _share(some: list[float], others: list[float]) -> float:
    """The median of pairs that were taken side by side."""
    return median(one / other for one, other in zip(some, others, strict=True))
