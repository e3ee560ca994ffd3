"""Make the samples anew: `python -m tests.samples.make`. Only ever for a new format.

A sample is what brokers, clients and lakes of a format have written. It is kept as it is, so that
whatever is changed later must still read it.

    format-2/store/        the store of the broker paris, after the conversation and two restarts
    format-2/lake/         a lake with the log of paris
    format-2/client.json   what a client and paris have said to each other, frame by frame
    format-2/link.json     what rome, which has dialled, and paris have said to each other
"""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.broker.peers import configured, connected, eventually
from tests.broker.store.logs import log_in
from tests.samples.said import FILTER, FIRST, SAID, events, told
from tidings.broker.server import Broker
from tidings.broker.store import SQLiteStore
from tidings.lakes.lake import Gap, Lake
from tidings.lakes.layout import Archived
from tidings.protocol.addresses import Address
from tidings.protocol.requests import Acknowledge, Detach, Progress, Renew, Unsubscribe
from tidings.protocol.wire import (
    LENGTH,
    UNLIMITED,
    Copied,
    Copy,
    MessageDecoder,
    Ping,
    Pong,
    Splitter,
)

FOLDER = Path(__file__).with_name("format-2")
_CHUNK = 1 << 16
_PASSING = shutil.ignore_patterns("ballast", "lock", "*-wal", "*-shm")
"""Files that are not what a store consists of."""


class Recorder:
    """Passes on what two ends say, and notes each frame: its bytes, and what it says."""

    def __init__(self, target: Address) -> None:
        self._target = target
        self._decode = MessageDecoder(UNLIMITED).decode
        self.frames: list[dict[str, Any]] = []

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[Address]:
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        async with server:
            yield Address(*server.sockets[0].getsockname()[:2])

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there = await asyncio.open_connection(*self._target)
        await asyncio.gather(
            self._pass_on("dialler", reader, there[1]), self._pass_on("listener", there[0], writer)
        )

    async def _pass_on(
        self, by: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        splitter = Splitter(1 << 28)
        with suppress(ConnectionError):
            while chunk := await reader.read(_CHUNK):
                for payload in splitter.feed(chunk):
                    frame = len(payload).to_bytes(LENGTH, "big") + payload
                    says = [told(message) for message in self._decode(payload)]
                    self.frames.append({"by": by, "bytes": frame.hex(), "says": says})
                writer.write(chunk)
        writer.close()

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(self.frames, indent=1, ensure_ascii=False) + "\n")


async def converse(broker: Broker, path: Path) -> None:
    """A client's conversation, with all that clients say in the ordinary course of things."""
    recorder = Recorder(broker.address)
    async with recorder.listening() as address, connected(address) as peer:
        await peer.attach("ann")
        await peer.subscribe(FILTER, id="mine", durable="orders", times=True, home="here")
        await peer.published(1, *SAID[:FIRST])
        await peer.deliveries(5)
        while "paris" not in (await peer.until(Progress)).complete:
            pass
        peer.say(Acknowledge("mine", {"paris": 4}, number=1), Renew(0), Ping(7))
        await peer.until(Pong)
        peer.say(Copy("log", "paris", 0, 100))
        await peer.until(Copied)
        await peer.subscribe("TRUE", id="all", since="begin")
        await peer.deliveries(FIRST)
        peer.say(Unsubscribe("all"), Ping(8))
        await peer.until(Pong)
        peer.say(Detach())
        await peer.rest()
    recorder.write(path)


async def cross(paris: Broker, folder: Path, path: Path) -> None:
    """A link, an event that crosses it each way, and one that is fetched."""
    recorder = Recorder(paris.address)
    async with recorder.listening() as address:
        text = f'[neighbours]\nparis = "{address}"\n[routing]\nprogress = 0.1\n'
        rome = Broker(configured(folder, text, name="rome"))
        async with rome, connected(rome) as there, connected(paris) as here:
            await eventually(lambda: paris.links.is_up("rome") and rome.links.is_up("paris"))
            await there.attach("bob")
            await there.subscribe("n > 3", since="begin")
            await there.deliveries(FIRST - 3)
            await here.attach("cleo")
            await here.published(1, *SAID[FIRST:])
            await there.deliveries(len(SAID) - FIRST)
            await here.subscribe("EXISTS rome")
            await there.published(1, {"rome": 1})
            await here.deliveries(1)
            await asyncio.sleep(0.5)  # for a few beats
    recorder.write(path)


async def make_store(folder: Path, made: Path) -> None:
    """All that brokers write, in a store whose log has two epochs."""
    store = folder / "paris"
    text = "[neighbours]\nrome = {}\n[routing]\nprogress = 0.1\n"
    async with Broker(configured(folder, text, name="paris")) as paris:
        await converse(paris, made / "client.json")
        await cross(paris, folder, made / "link.json")
    disk = SQLiteStore(store, "paris")
    disk.raise_epoch()
    disk.close()
    async with Broker(configured(folder, text, name="paris")) as paris, connected(paris) as here:
        await here.attach("cleo")
        await here.published(len(SAID) - FIRST + 1, {"n": 11})
    shutil.copytree(store, made / "store", ignore=_PASSING)


def make_lake(made: Path) -> None:
    """The first epoch of the log, in two commits."""
    log = [e for e in log_in(made / "store", "paris") if e.stream == "paris"]
    rows = [
        Archived(e.stream, e.tick, datetime.fromtimestamp(e.time, UTC), e.notification) for e in log
    ]
    lake = Lake(made / "lake")
    lake.append(rows[:FIRST], "archiver", 1, gaps=[Gap("rome", 3, 5)])
    lake.append(rows[FIRST:], "archiver", 2, held={"rome": 9})


def main() -> None:
    with TemporaryDirectory() as folder:
        made = Path(folder) / "made"
        made.mkdir()
        asyncio.run(make_store(Path(folder), made))
        assert len(log_in(made / "store", "paris")) == len(events()) + 1
        make_lake(made)
        shutil.rmtree(FOLDER, ignore_errors=True)
        shutil.copytree(made, FOLDER, ignore=_PASSING)


if __name__ == "__main__":
    main()
