"""Clients as processes of their own, to be killed. They write down what they know as it happens.

    python -m tests.network.actors publish URL NAME FILE
    python -m tests.network.actors read URL NAME FILE FILTER

What is in the file before a crash is true: a reader writes an event down before it acknowledges
it, and a publisher writes what it is about to publish before it does.
"""

from __future__ import annotations

import asyncio
import random
import signal
import subprocess
import sys
from pathlib import Path

import tidings
from tests.network.accounts import Heard, Life, Published
from tidings.protocol.cursors import read_cursor

ROOT = Path(__file__).parents[2]


class Actor:
    """Such a process, with the file it writes."""

    def __init__(self, *arguments: str, file: Path) -> None:
        self.file = file
        self._before = len(self.lines)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.network.actors", *arguments],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
        )

    def kill(self) -> None:
        assert self._process.poll() is None, "the client has ended by itself"
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """Let it finish what it does."""
        assert self._process.poll() is None, "the client has ended by itself"
        self._process.send_signal(signal.SIGTERM)
        assert self._process.wait(30) == 0

    @property
    def is_at_work(self) -> bool:
        """Whether it has done something in this life."""
        assert self._process.poll() is None, "the client has ended by itself"
        return len(self.lines) > self._before

    def clean_up(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    @property
    def lines(self) -> list[list[str]]:
        """What it has written; the last line may have been cut off by its death."""
        text = self.file.read_text() if self.file.exists() else ""
        return [line.split() for line in text[: text.rfind("\n") + 1].splitlines()]


class PublisherProcess(Actor):
    def __init__(self, url: str, name: str, folder: Path) -> None:
        super().__init__(
            "publish", url, name, str(folder / f"{name}.txt"), file=folder / f"{name}.txt"
        )
        self.name = name

    def published(self) -> Published:
        found = Published(self.name)
        for word, number in self.lines:
            if word == "trying":
                found.begun = max(found.begun, int(number))
            else:
                found.accepted = max(found.accepted, int(number))
        return found


class ReaderProcess(Actor):
    def __init__(self, url: str, heard: Heard, folder: Path) -> None:
        file = folder / f"{heard.name}-{len(heard.lives)}.txt"
        super().__init__("read", url, heard.name, str(file), str(heard.wanted), file=file)
        self._heard = heard
        self.life = Life()
        heard.lives.append(self.life)

    def note(self) -> None:
        """Take down what it has heard so far."""
        self.life.heard.clear()
        for word, *rest in self.lines:
            if word == "heard":
                self.life.hear(rest[0], int(rest[1]))
            else:
                cursor = read_cursor(rest[0]) if rest else {}
                self.life.acknowledged = cursor


# -- in the process ----------------------------------------------------------------------------


async def publish(url: str, name: str, file: str) -> None:
    chance = random.Random(name)
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    with open(file, "ab", buffering=0) as notes:
        async with tidings.connect(url, name=name, wait=30) as client:
            await client.advertise("EXISTS by")
            number = client.kept
            while not stopped.is_set():
                burst = range(number + 1, number + 1 + chance.randint(1, 20))
                number = burst[-1]
                notes.write(b"trying %d\n" % number)
                said = [{"by": name, "n": n, "v": chance.randrange(100)} for n in burst]
                await asyncio.gather(*map(client.publish, said))
                notes.write(b"kept %d\n" % number)
                await asyncio.sleep(0.002)


async def read(url: str, name: str, file: str, filter: str) -> None:
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    with open(file, "ab", buffering=0) as notes:
        async with (
            tidings.connect(url, wait=30) as client,
            client.subscribe(filter, durable=name, since=None) as events,
        ):
            notes.write(b"kept\n")

            async def go_on() -> None:
                async for event in events:
                    notes.write(b"heard %s %d\n" % (event.stream.encode(), event.tick))
                    event.ack_soon()
                    if event.sequence % 50 == 0:
                        await event.ack()
                        notes.write(b"kept %s\n" % event.cursor.encode())

            reading = asyncio.create_task(go_on())
            waiting = asyncio.create_task(stopped.wait())
            await asyncio.wait([reading, waiting], return_when=asyncio.FIRST_COMPLETED)
            waiting.cancel()
            if reading.done():
                reading.result()
            reading.cancel()


if __name__ == "__main__":
    what, *arguments = sys.argv[1:]
    asyncio.run({"publish": publish, "read": read}[what](*arguments))
