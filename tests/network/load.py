"""Load: publishers and readers in this process, which note what they do for the accounts."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from random import Random
from time import time

import tidings
from tests.network.accounts import END, Heard, Life, Published, check_heard, check_published
from tests.network.actors import PublisherProcess, ReaderProcess
from tests.network.brokers import PATIENCE, Network, eventually

FILTERS = ("v < 50", "v BETWEEN 20 AND 70", "by = 'p0' OR v > 80", "EXISTS n", "v IN (1, 2, 3)")


class Load:
    """All who publish and listen in a network; `async with` ends them."""

    def __init__(self, network: Network, chance: Random) -> None:
        self.network, self.chance = network, chance
        self.published: list[Published] = []
        self.heard: list[Heard] = []
        self.publishers: list[PublisherProcess] = []
        self.readers: dict[str, tuple[ReaderProcess, Heard, str]] = {}
        self._stopped = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._feeds: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Load:
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in (*self._tasks, *self._feeds):
            task.cancel()
        await asyncio.gather(*self._tasks, *self._feeds, return_exceptions=True)
        for process in [*self.publishers, *(r[0] for r in self.readers.values())]:
            process.clean_up()

    @property
    def accepted(self) -> int:
        """How many publications are known to be kept."""
        return sum(p.accepted for p in self.published)

    def _check(self) -> None:
        for task in (*self._tasks, *self._feeds):
            if task.done():
                task.result()

    async def more(self, count: int, *, within: float = PATIENCE) -> bool:
        """Wait until this many more are kept; whether that came about in time."""
        wanted = self.accepted + count
        try:
            async with asyncio.timeout(within):
                while self.accepted < wanted:
                    self._check()
                    await asyncio.sleep(0.005)
        except TimeoutError:
            return False
        return True

    # -- who is there --------------------------------------------------------------------------

    async def publisher(self, at: str) -> Published:
        """Somebody who publishes from now on."""
        found = Published(f"p{len(self.published)}")
        self.published.append(found)
        started = asyncio.Event()
        self._feeds.append(asyncio.create_task(self._publish(at, found, started)))
        await asyncio.wait_for(started.wait(), PATIENCE)
        return found

    async def _publish(self, at: str, found: Published, started: asyncio.Event) -> None:
        chance = Random(self.chance.random())
        url = self.network[at].url
        async with tidings.connect(url, name=found.name, wait=PATIENCE) as client:
            await client.advertise("EXISTS by")
            started.set()
            while not self._stopped.is_set():
                burst = range(found.begun + 1, found.begun + 1 + chance.randint(1, 30))
                found.begun = burst[-1]
                size = chance.choice((0, 0, 0, 10, 1_000, 10_000))
                said = [
                    {"by": found.name, "n": n, "v": chance.randrange(100), "x": bytes(size)}
                    for n in burst
                ]
                assert await client.publish_each(said) == len(said)
                found.accepted = burst[-1]
                await asyncio.sleep(0.003)

    async def reader(self, at: str, *, durable: bool) -> Heard:
        """Somebody who listens from now on."""
        name = f"r{len(self.heard)}"
        found = Heard(name, self.chance.choice(FILTERS), [Life()])
        started = asyncio.Event()
        task = asyncio.create_task(self._read(at, found, started, durable=durable))
        self._tasks.append(task)
        await asyncio.wait(
            [task, asyncio.create_task(started.wait())],
            timeout=PATIENCE,
            return_when=asyncio.FIRST_COMPLETED,
        )
        self._check()
        assert started.is_set(), f"{name} has not begun"
        self.heard.append(found)
        return found

    async def _read(self, at: str, found: Heard, started: asyncio.Event, *, durable: bool) -> None:
        url, life, chance = self.network[at].url, found.life, Random(self.chance.random())
        async with tidings.connect(url, wait=PATIENCE) as client:
            found.known, found.asked_at = self.network[at].known(), time()
            name = found.name if durable else None
            # What has no room in a small queue is fetched again, where nothing may be missed.
            queue = chance.choice((100, 10_000)) if durable else 10_000
            async with client.subscribe(found.wanted, durable=name, queue=queue) as events:
                found.after = {p.name: p.begun for p in self.published}
                started.set()
                async for event in events:
                    life.hear(event.stream, event.tick)
                    life.missed = events.missed
                    if chance.random() < 0.9:  # the next one says it, too
                        event.ack_soon()
                    if chance.random() < 0.02:
                        await event.ack()
                    if queue < 10_000 and chance.random() < 0.05:
                        await asyncio.sleep(0.005)

    def publisher_process(self, at: str) -> PublisherProcess:
        found = PublisherProcess(self.network[at].url, f"q{len(self.publishers)}", self.folder)
        self.publishers.append(found)
        return found

    @property
    def folder(self) -> Path:
        return self.network.folder

    async def reader_process(self, at: str) -> Heard:
        """A process that listens from before anything is published."""
        heard = Heard(f"s{len(self.readers)}", self.chance.choice(FILTERS))
        process = ReaderProcess(self.network[at].url, heard, self.folder)
        self.readers[heard.name] = (process, heard, at)
        await eventually(lambda: process.lines, f"{heard.name} begins")
        return heard

    def kill_reader(self, name: str) -> None:
        """Kill it, and start another life at once."""
        process, heard, at = self.readers[name]
        process.kill()
        process.note()
        self.readers[name] = (ReaderProcess(self.network[at].url, heard, self.folder), heard, at)

    def kill_publisher(self, place: int, at: str) -> None:
        old = self.publishers[place]
        old.kill()
        self.publishers[place] = PublisherProcess(self.network[at].url, old.name, self.folder)

    # -- the end -------------------------------------------------------------------------------

    async def settle(self) -> None:
        """Publish no more, and wait until everybody has heard the end of every stream."""
        self._stopped.set()
        for process in self.publishers:
            await eventually(lambda process=process: process.is_at_work)
            process.stop()
        await asyncio.wait_for(asyncio.gather(*self._feeds), PATIENCE)
        for name in self.network.brokers:
            async with tidings.connect(self.network[name].url, wait=PATIENCE) as client:
                await client.advertise(f"EXISTS {END}")
                await client.publish({END: name, "v": -1})
        ends = {name: broker.log()[-1].tick for name, broker in self.network.brokers.items()}

        def lacking() -> dict[str, dict[str, int]]:
            self._check()
            for process, _, _ in self.readers.values():
                process.note()
            everybody = [*self.heard, *(r[1] for r in self.readers.values())]
            found = {
                h.name: {
                    s: (h.life.heard.get(s) or [0])[-1]
                    for s, tick in ends.items()
                    if (h.life.heard.get(s) or [0])[-1] < tick
                }
                for h in everybody
            }
            return {name: streams for name, streams in found.items() if streams}

        try:
            await eventually(lambda: not lacking())
        except AssertionError:
            raise AssertionError(f"of {ends}, these have come so far only: {lacking()}") from None

    def check(self) -> None:
        """Account for everything."""
        logs = self.network.logs()
        published = [*self.published, *(p.published() for p in self.publishers)]
        check_published(logs, published)
        for heard in (*self.heard, *(r[1] for r in self.readers.values())):
            check_heard(logs, heard)
        self.network.check_calm()


async def populate(load: Load, places: Sequence[str], *, publishers: int, readers: int) -> None:
    """Readers of both kinds and publishers, here and there."""
    for number in range(readers):
        await load.reader(load.chance.choice(places), durable=number % 2 == 0)
    for at in load.chance.sample(list(places), k=publishers):
        await load.publisher(at)
