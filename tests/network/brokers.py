"""Brokers as processes of their own, to be killed; and what their logs hold."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from time import monotonic
from types import TracebackType

from tests.broker.store.logs import log_in
from tests.network.proxy import Proxy
from tidings.broker.operations.status import Status, ask
from tidings.broker.store.seals import unseal
from tidings.events import TidingsError
from tidings.protocol.addresses import Address
from tidings.protocol.messages import Event
from tidings.protocol.records import unpack_value

PATIENCE = 30.0
"""Seconds until a test gives up: none of them waits that long unless something is wrong."""

USUAL = (sys.executable, "-m", "tidings.cli")
"""The program that brokers are started with,"""
ODD = (sys.executable, str(Path(__file__).with_name("odd_broker.py")))
"""or one that is somewhat different: see there."""

Links = Sequence[tuple[str, str]]

LINE: Links = (("a", "b"), ("b", "c"))
RING: Links = (("a", "b"), ("b", "c"), ("c", "d"), ("d", "a"))
STAR: Links = (("a", "b"), ("a", "c"), ("a", "d"), ("b", "c"))
"""With a link that is not needed."""
MESH: Links = (("a", "b"), ("b", "c"), ("c", "d"), ("d", "e"), ("e", "a"), ("b", "e"))

HASTY = """
drain = 2
[limits]
silence = 1
[routing]
beat = 0.2
silence = 1.0
progress = 0.2
"""
"""Like the usual settings, in fast motion."""


async def eventually(
    condition: Callable[[], object], what: str = "", *, within: float = PATIENCE
) -> None:
    """Wait until something holds."""
    end = monotonic() + within
    while not condition():
        assert monotonic() < end, f"not within {within:g} seconds: {what or condition}"
        await asyncio.sleep(0.01)


class BrokerProcess:
    """`tidings up` with a configuration of its own."""

    def __init__(self, folder: Path, name: str, configuration: str, *, port: int) -> None:
        self.name, self.port, self.folder = name, port, folder
        self.store = folder / name
        self.program: Sequence[str] = USUAL
        self._process: subprocess.Popen[bytes] | None = None
        self.configuration = folder / f"{name}.toml"
        self.configuration.write_text(configuration)

    @property
    def url(self) -> str:
        return f"tidings://127.0.0.1:{self.port}"

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def said(self) -> str:
        """All that it has written to stderr."""
        return (self.folder / f"{self.name}.err").read_text(errors="replace")

    @property
    def memory(self) -> int:
        """The bytes it has in memory."""
        assert self._process is not None
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith("VmRSS"))
        return int(line.split()[1]) << 10

    def launch(self) -> None:
        """Start it; it may not be up yet."""
        out = self.folder / f"{self.name}.out"
        with open(out, "wb") as stdout, open(self.folder / f"{self.name}.err", "ab") as stderr:
            self._process = subprocess.Popen(
                [*self.program, "up", "--config", str(self.configuration)],
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
            )

    async def start(self) -> None:
        self.launch()
        await self.ready()

    async def ready(self) -> None:
        """Wait until it is up."""
        out = self.folder / f"{self.name}.out"
        await eventually(
            lambda: b"listens on" in out.read_bytes() or not self.is_running, f"{self.name} up"
        )
        assert self.is_running, f"{self.name} does not start: {self.said}"

    def kill(self) -> None:
        """As if its power had failed."""
        assert self.is_running, f"{self.name} has ended by itself: {self.said}"
        self._signal(signal.SIGKILL)

    def stop(self) -> int:
        """Ask it to end; its exit code."""
        assert self.is_running, f"{self.name} has ended by itself: {self.said}"
        return self._signal(signal.SIGTERM)

    def freeze(self, *, go_on: bool = False) -> None:
        """Take the processor from it, or give it back."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGCONT if go_on else signal.SIGSTOP)

    def _signal(self, number: int) -> int:
        assert self._process is not None
        self._process.send_signal(number)
        code = self._process.wait(PATIENCE)
        self._process = None
        return code

    def clean_up(self) -> None:
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.kill()
            self._process.wait()

    async def status(self) -> Status:
        return await ask(Address("127.0.0.1", self.port))

    def log(self) -> list[Event]:
        """What it has kept; it may be running."""
        return log_in(self.store, self.name, timeout=PATIENCE)

    def known(self) -> dict[str, int]:
        """How far each stream is, as far as it has on its disk."""
        path = f"file:{self.store / 'broker.db'}?mode=ro"
        with closing(sqlite3.connect(path, uri=True, timeout=PATIENCE)) as connection:
            query = "SELECT key, value FROM state WHERE key LIKE 'stream:%'"
            rows = connection.execute(query).fetchall()
            (last,) = connection.execute("SELECT MAX(last) FROM log").fetchone()
        found = {key.removeprefix("stream:"): unpack_value(unseal(v, key))[0] for key, v in rows}
        return {**found, self.name: last or 0}

    def saved(self, durable: str) -> dict[str, int]:
        """How far a durable subscription is on its disk."""
        path = f"file:{self.store / 'broker.db'}?mode=ro"
        key = f"cursor:local/{durable}"
        with closing(sqlite3.connect(path, uri=True, timeout=PATIENCE)) as connection:
            query = "SELECT value FROM state WHERE key = ?"
            (sealed,) = connection.execute(query, (key,)).fetchone()
        found: dict[str, int] = unpack_value(unseal(sealed, key))
        return found


class Network:
    """Brokers and the links between them; `async with` starts all, and leaves none behind.

    With `proxied`, the second of each link is reached by the first through a proxy.
    """

    def __init__(
        self,
        folder: Path,
        links: Links,
        *,
        settings: str = HASTY,
        proxied: bool = False,
        program: Sequence[str] = USUAL,
        roles: Mapping[tuple[str, str], str] | None = None,
    ) -> None:
        """`roles` say what the second broker is to the first, where it is no peer."""
        self.links = links
        self._roles = roles or {}
        self._program = program
        names = sorted({name for link in links for name in link})
        ports = dict(zip(names, free_ports(len(names)), strict=True))
        self.proxies = {link: Proxy(ports[link[1]]) for link in links} if proxied else {}
        self._ports = ports
        self.folder, self._settings = folder, settings
        self.brokers: dict[str, BrokerProcess] = {}

    def _text(self, name: str) -> str:
        lines = [
            f'name = "{name}"',
            f'listen = "127.0.0.1:{self._ports[name]}"',
            f'store = "{name}"',
            self._settings,
            "[neighbours]",
        ]
        for one, other in self.links:
            if name == one:
                proxy = self.proxies.get((one, other))
                port = self._ports[other] if proxy is None else proxy.port
                lines.append(self._neighbour(name, other, port))
            elif name == other:
                is_hidden = (one, other) in self.proxies
                lines.append(self._neighbour(name, one, None if is_hidden else self._ports[one]))
        return "\n".join(lines)

    def _neighbour(self, name: str, other: str, port: int | None) -> str:
        where = [] if port is None else [f'address = "127.0.0.1:{port}"']
        role = self._roles.get((name, other))
        what = [] if role is None else [f'role = "{role}"']
        return f"{other} = {{{', '.join(where + what)}}}"

    async def __aenter__(self) -> Network:
        for proxy in self.proxies.values():
            await proxy.start()
        for name, port in self._ports.items():
            self.brokers[name] = broker = BrokerProcess(
                self.folder, name, self._text(name), port=port
            )
            broker.program = self._program
        await self.start(self.brokers)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for broker in self.brokers.values():
            broker.clean_up()
        for proxy in self.proxies.values():
            await proxy.stop()

    def __getitem__(self, name: str) -> BrokerProcess:
        return self.brokers[name]

    async def start(self, names: Iterable[str]) -> None:
        names = list(names)
        for name in names:
            self.brokers[name].launch()
        for name in names:
            await self.brokers[name].ready()

    async def agreed(self) -> None:
        """Wait until every running broker knows a way from every other one."""
        running = {b.name for b in self.brokers.values() if b.is_running}
        end = monotonic() + PATIENCE
        while True:
            known = {}
            for name in running:
                with suppress(TidingsError):
                    known[name] = set((await self.brokers[name].status()).streams)
            if all(known.get(name) == running for name in running):
                return
            assert monotonic() < end, f"the brokers do not agree: {known}"
            await asyncio.sleep(0.02)

    def logs(self) -> dict[str, list[Event]]:
        return {name: broker.log() for name, broker in self.brokers.items()}

    def check_calm(self) -> None:
        """No broker has met with something it did not expect."""
        for broker in self.brokers.values():
            assert "Traceback" not in broker.said, f"{broker.name}: {broker.said}"


def free_ports(count: int) -> list[int]:
    """Ports that nobody uses, and that nobody is given by chance while a broker is down."""
    found: list[int] = []
    choice = random.SystemRandom()
    while len(found) < count:
        port = choice.randrange(10_000, 32_000)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            if port not in found:
                found.append(port)
    return found
