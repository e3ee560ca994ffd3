"""`tidings demo`: four brokers on this machine, a market, and people who listen to it.

london ──── paris          Two feeds publish, in paris and in rome; desks in all four cities
  │           │            listen. On the way, one broker is killed with SIGKILL and comes
berlin ───── rome          back: at the end every desk must have heard exactly what it asked
                           for, each event once and in order, or the demonstration fails.

Meanwhile all of it lands in a lake, which at the end is asked what a desk has asked for live.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any, Final

from rich.console import Console
from rich.live import Live

from tidings.broker.operations.status import Status, ask
from tidings.cli.demo.chronicle import Chronicle
from tidings.cli.demo.stage import question, reply, scene, summary
from tidings.client import Client, Event, connect
from tidings.events import Filter, Notification, TidingsError
from tidings.protocol.addresses import Address
from tidings.workloads.market import ticker

LINKS: Final = (("paris", "london"), ("london", "berlin"), ("berlin", "rome"), ("rome", "paris"))
FEEDS: Final = {
    "paris": ("NYSE", "NASDAQ", "PAR"),
    "rome": ("XETRA", "AMS", "LSE", "MIL"),
}
VICTIM: Final = "berlin"
RECORDED_AT: Final = "paris"
"""The broker from which the lake takes everything."""
ASKED: Final = 0
"""The number of the desk whose question is asked of history, too."""
_PATIENCE: Final = 30.0
"""Seconds for brokers to come up, and for the last events to arrive."""
_REFRESH: Final = 4
"""Looks at the brokers in a second."""


@dataclass
class Desk:
    """One who listens, and what it was to hear and has heard."""

    name: str
    at: str
    filter: Filter
    durable: bool = False
    expected: list[dict[str, Any]] = field(default_factory=list)
    heard: list[Event] = field(default_factory=list)
    is_connected: bool = False

    @property
    def is_right(self) -> bool:
        """Whether it heard just what was to be heard: all of it, once, in the streams' order."""
        heard = sorted(_text(event) for event in self.heard)
        ticks: dict[str, int] = {}
        for event in self.heard:
            if event.tick <= ticks.get(event.stream, 0):
                return False
            ticks[event.stream] = event.tick
        return heard == sorted(map(_text, self.expected))


def desks() -> list[Desk]:
    """Who listens where, and to what."""
    return [
        Desk("falling media", "london", Filter.parse("tags CONTAINS 'media' AND change < 0")),
        Desk("chips", "berlin", Filter.parse("tags CONTAINS 'chips'"), durable=True),
        Desk("large trades", "rome", Filter.parse("volume > 2000"), durable=True),
        Desk("Disney below 112", "berlin", Filter.parse("symbol = 'DIS' AND price < 112")),
        Desk("oil in Europe", "paris", Filter.parse("symbol IN ('SHEL', 'ENI') AND change > 0")),
    ]


class Brokers:
    """Broker processes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        names = dict.fromkeys(name for link in LINKS for name in link)
        self.ports = dict(zip(names, _free_ports(len(names)), strict=True))
        self._processes: dict[str, asyncio.subprocess.Process] = {}
        for name, port in self.ports.items():
            neighbours = [b if a == name else a for a, b in LINKS if name in (a, b)]
            lines = [
                f'name = "{name}"',
                f'listen = "127.0.0.1:{port}"',
                f'store = "{name}"',
                "[neighbours]",
                *(f'{n} = "127.0.0.1:{self.ports[n]}"' for n in neighbours),
            ]
            (folder / f"{name}.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")

    async def start(self, *names: str) -> None:
        """Start brokers, and wait until they are up."""
        for name in names:
            with open(self._folder / f"{name}.log", "ab") as log:
                self._processes[name] = await asyncio.create_subprocess_exec(
                    *(sys.executable, "-m", "tidings.cli", "up"),
                    *("--config", str(self._folder / f"{name}.toml")),
                    stdout=asyncio.subprocess.PIPE,
                    stderr=log,
                    start_new_session=True,  # Ctrl-C is for the demonstration, which stops them
                )
        for name in names:
            out = self._processes[name].stdout
            assert out is not None
            async with asyncio.timeout(_PATIENCE):
                line = await out.readline()
            if not line:
                complaint = (self._folder / f"{name}.log").read_text(errors="replace")
                raise TidingsError(f"the broker {name} does not start:\n{complaint}")

    async def kill(self, name: str) -> None:
        """Kill a broker, as if its power had failed."""
        process = self._processes.pop(name)
        os.kill(process.pid, signal.SIGKILL)
        await process.wait()

    async def stop(self) -> None:
        """Ask all of them to end."""
        for process in self._processes.values():
            with suppress(ProcessLookupError):
                process.terminate()
        for process in self._processes.values():
            await process.wait()

    def url(self, name: str) -> str:
        """Where a client finds a broker."""
        return f"tidings://127.0.0.1:{self.ports[name]}"

    async def status(self, name: str) -> Status | None:
        """What a broker says of itself; None if it can't."""
        if name not in self._processes:
            return None
        with suppress(TidingsError):
            return await ask(Address("127.0.0.1", self.ports[name]), within=1.0)
        return None


class Demonstration:
    """The whole play, and what is to be shown of it."""

    def __init__(
        self, network: Brokers, chronicle: Chronicle, *, rate: float, seconds: float | None
    ) -> None:
        self.network, self.chronicle = network, chronicle
        self.rate, self.seconds = rate, seconds
        self.desks = desks()
        self.published = dict.fromkeys(FEEDS, 0)
        self.status: dict[str, Status | None] = {}
        self.news: list[tuple[float, str]] = []
        self.begun = monotonic()
        self._stopped = asyncio.Event()

    @property
    def elapsed(self) -> float:
        return monotonic() - self.begun

    def say(self, what: str) -> None:
        """Something worth telling has happened."""
        self.news.append((self.elapsed, what))

    def stop(self) -> None:
        """Publish no more, and come to an end."""
        self._stopped.set()

    async def play(self, show: Callable[[], None]) -> bool:
        """Play it; whether every desk heard just what it was to hear."""
        await self.network.start(*self.network.ports)
        self.say("four brokers are up, and agree on a tree among themselves")
        self.chronicle.start()
        async with asyncio.TaskGroup() as tasks:
            started = [asyncio.Event() for _ in self.desks]
            sitting = [
                tasks.create_task(self._listen(d, e))
                for d, e in zip(self.desks, started, strict=True)
            ]
            for event in started:
                await event.wait()
            others = [
                tasks.create_task(self._look(show)),
                tasks.create_task(self._interfere()),
            ]
            feeds = [tasks.create_task(self._feed(city)) for city in FEEDS]
            await self._pause(self.seconds)
            self._stopped.set()
            for feed in feeds:
                await feed
            await others[1]
            await self._arrived()
            await asyncio.to_thread(self.chronicle.finish)
            for task in (*sitting, *others):
                task.cancel()
        show()
        return all(desk.is_right for desk in self.desks)

    async def _feed(self, city: str) -> None:
        """Publish what happens on some exchanges; wait with the next until the last is on disk."""
        async with connect(self.network.url(city), name=f"feed-{city}") as client:
            due = monotonic()
            for number, trade in enumerate(ticker(FEEDS[city], seed=len(city))):
                if self._stopped.is_set():
                    return
                await client.publish({**trade, "number": number})
                self.published[city] += 1
                for desk in self.desks:
                    if desk.filter.matches(Notification(trade)):
                        desk.expected.append({**trade, "number": number})
                due += len(FEEDS) / self.rate
                await asyncio.sleep(max(0.0, due - monotonic()))

    async def _listen(self, desk: Desk, started: asyncio.Event) -> None:
        def changed(is_connected: bool, _: str) -> None:
            desk.is_connected = is_connected

        client: Client
        async with connect(self.network.url(desk.at), wait=_PATIENCE, on_status=changed) as client:
            name = desk.name.replace(" ", "-") if desk.durable else None
            async with client.subscribe(desk.filter, durable=name) as events:
                started.set()
                async for event in events:
                    desk.heard.append(event)
                    await event.ack()

    async def _look(self, show: Callable[[], None]) -> None:
        while True:
            for name in self.network.ports:
                self.status[name] = await self.network.status(name)
            show()
            await asyncio.sleep(1 / _REFRESH)

    async def _interfere(self) -> None:
        """Kill a broker in the middle, and start it again."""
        length = self.seconds if self.seconds is not None else 60.0
        if await self._pause(0.35 * length):
            return
        await self.network.kill(VICTIM)
        self.say(f"{VICTIM} was killed (SIGKILL); the others take another way")
        await self._pause(0.25 * length)
        await self.network.start(VICTIM)
        self.say(f"{VICTIM} is back; its desks fetch what they missed")
        self.chronicle.prepare(self.desks[ASKED].filter)

    async def _pause(self, seconds: float | None) -> bool:
        """Whether the end has come meanwhile."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stopped.wait()
        return self._stopped.is_set()

    async def _arrived(self) -> None:
        """Wait until every desk has heard what was published, or cannot be expected to any more."""
        end = monotonic() + _PATIENCE
        while monotonic() < end:
            if all(len(d.heard) >= len(d.expected) for d in self.desks):
                return
            await asyncio.sleep(0.05)


def demonstrate(out: Console, *, seconds: float | None, rate: float) -> bool:
    """Run the demonstration; whether it went as it must."""
    with tempfile.TemporaryDirectory(prefix="tidings-demo-") as folder:
        network = Brokers(Path(folder))
        chronicle = Chronicle(Path(folder) / "lake", network.url(RECORDED_AT))
        demonstration = Demonstration(network, chronicle, rate=rate, seconds=seconds)
        try:
            went_well = asyncio.run(_demonstrate(out, demonstration))
            signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C does from now on
            with suppress(KeyboardInterrupt):
                went_well = _look_back(out, demonstration) and went_well
            return went_well
        finally:
            chronicle.close()


def _look_back(out: Console, demonstration: Demonstration) -> bool:
    """Ask history what a desk heard live; whether that is the same."""
    desk = demonstration.desks[ASKED]
    out.print(question(demonstration, desk))
    answer = demonstration.chronicle.ask(desk.filter)
    out.print(reply(demonstration, desk, answer))
    return answer is None or answer.ids == {event.id for event in desk.heard}


async def _demonstrate(out: Console, demonstration: Demonstration) -> bool:
    logging.getLogger("tidings").addHandler(logging.NullHandler())  # it is on the stage
    network, seconds = demonstration.network, demonstration.seconds
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, demonstration.stop)
    out.print("Starting four brokers on this machine…" + ("" if seconds else " Ctrl-C ends it."))
    try:
        if out.is_terminal:
            with Live(console=out, auto_refresh=False, screen=False) as live:
                went_well = await demonstration.play(
                    lambda: live.update(scene(demonstration), refresh=True)
                )
        else:
            went_well = await demonstration.play(_Teller(out, demonstration))
    finally:
        await network.stop()
    out.print(summary(demonstration))
    return went_well


class _Teller:
    """Prints only what is new, where there is no terminal."""

    def __init__(self, out: Console, demonstration: Demonstration) -> None:
        self._out, self._demonstration = out, demonstration
        self._told = 0

    def __call__(self) -> None:
        news = self._demonstration.news
        for moment, what in news[self._told :]:
            self._out.print(f"{moment:5.1f} s  {what}")
        self._told = len(news)


def _text(event: Mapping[str, Any]) -> str:
    """A text that is the same for equal events, in whichever order their attributes come."""
    return Notification({name: event[name] for name in sorted(event)}).to_json()


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()
