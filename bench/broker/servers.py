"""Servers: start a broker of any kind on loopback in a folder of its own, and see what it costs."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from bench.processes import family, used

_PATIENCE = 60.0
_PAUSE, _IDLE = 0.5, 0.05
"""A server that uses less than this share of a core for this many seconds is idle."""
_READY = re.compile(r"listens on tidings://[^ ]*:(\d+)")

BROKERS_CORE, CROWDS_CORE = 0, 1


class NotInstalledError(Exception):
    """A server that the benchmark would compare with is missing; says how to get it."""


class Server:
    """A running server: a process and all that it has started."""

    def __init__(self, process: subprocess.Popen[bytes], port: int, log: Path) -> None:
        self.process = process
        self.port = port
        self.log = log

    @property
    def cpu(self) -> float:
        """Seconds of CPU so far, of all its processes and threads."""
        return used(self.process.pid)

    @property
    def resident(self) -> int:
        """Bytes in memory."""
        return sum(member.resident for member in family(self.process.pid).values())

    def settle(self) -> None:
        """Wait until it has nothing left to do, such as starting up or compiling."""
        until, before = time.monotonic() + _PATIENCE, self.cpu
        while time.monotonic() < until:
            time.sleep(_PAUSE)
            now = self.cpu
            if now - before <= _IDLE * _PAUSE:
                return
            before = now

    def tail(self) -> str:
        """The end of what it has printed."""
        return self.log.read_text(encoding="utf-8", errors="replace")[-2_000:]


def pin(core: int | None) -> None:
    """Keep this process, and what it starts, on one core; None: on any."""
    every = range(os.cpu_count() or 1)
    os.sched_setaffinity(0, every if core is None or core not in every else {core})


@contextmanager
def running(
    command: Sequence[str],
    folder: Path,
    *,
    port: int = 0,
    core: int | None = None,
    environment: Mapping[str, str] | None = None,
) -> Iterator[Server]:
    """The server that a command starts, until the end of the block.

    With a port, it is ready once it listens there; else it prints where it does, as ours do.
    """
    log = folder / "log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(environment or {})},
            preexec_fn=lambda: pin(core),
            start_new_session=True,
        )
    server = Server(process, port, log)
    try:
        _wait(server)
        yield server
    finally:
        _end(process)


def _wait(server: Server) -> None:
    until = time.monotonic() + _PATIENCE
    while time.monotonic() < until:
        if server.process.poll() is not None:
            raise RuntimeError(f"{server.process.args!r} has ended: {server.tail()}")
        if server.port:
            try:
                socket.create_connection(("127.0.0.1", server.port), 1).close()
            except OSError:
                pass
            else:
                return
        elif found := _READY.search(server.tail()):
            server.port = int(found[1])
            return
        time.sleep(0.05)
    raise RuntimeError(f"{server.process.args!r} is not ready: {server.tail()}")


def _end(process: subprocess.Popen[bytes]) -> None:
    """Its whole group, which it leads."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
            process.wait(15)
        except subprocess.TimeoutExpired:
            continue
        except ProcessLookupError:
            return


def program(name: str, package: str) -> str:
    """Where a program is; `NotInstalledError` if it isn't."""
    places = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"])
    found = shutil.which(name, path=places)
    if found is None:
        raise NotInstalledError(f"there is no {name}: install it with `apt-get install {package}`")
    return found


def free_port() -> int:
    """One that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


# -- ours --------------------------------------------------------------------------------------


@contextmanager
def broker(
    *,
    name: str = "bench",
    neighbours: Mapping[str, int] | None = None,
    core: int | None = BROKERS_CORE,
) -> Iterator[Server]:
    """One broker with a new store. A neighbour's port is 0 if it is the one that dials.

    The store is in the temporary folder: `TMPDIR` can name one on the disk to be measured.
    """
    with tempfile.TemporaryDirectory(prefix="tidings-bench-") as place:
        folder = Path(place)
        links = "".join(
            f'{each} = "127.0.0.1:{port}"\n' if port else f"{each} = {{}}\n"
            for each, port in (neighbours or {}).items()
        )
        (folder / "tidings.toml").write_text(
            f'name = "{name}"\nlisten = "127.0.0.1:0"\nstore = "store"\ndrain = 1\n'
            f"[neighbours]\n{links}"
            "[limits]\nsubscriptions = 1000000\ndurables = 1000000\nsilence = 3600\n",
            encoding="utf-8",
        )
        own = [sys.executable, "-m", "tidings.cli", "up", "--config", "tidings.toml"]
        with running(own, folder, core=core) as server:
            yield server


@contextmanager
def chain(brokers: int) -> Iterator[list[Server]]:
    """This many brokers in a row, the first of them `b0`; on any core."""
    with (
        broker(name="b0", neighbours={"b1": 0} if brokers > 1 else {}, core=None) as first,
        _rest([first], brokers) as servers,
    ):
        yield servers


@contextmanager
def _rest(servers: list[Server], brokers: int) -> Iterator[list[Server]]:
    at = len(servers)
    if at == brokers:
        yield servers
        return
    neighbours = {f"b{at - 1}": servers[-1].port}
    if at + 1 < brokers:
        neighbours[f"b{at + 1}"] = 0
    with (
        broker(name=f"b{at}", neighbours=neighbours, core=None) as server,
        _rest([*servers, server], brokers) as whole,
    ):
        yield whole
