"""A proxy between two brokers: the wire that a test can cut, choke or make slow."""

from __future__ import annotations

import asyncio
from contextlib import suppress

_CHUNK = 1 << 14


class Proxy:
    """Passes on what comes, until something happens to it; `mend` puts it right again."""

    def __init__(self, target: int) -> None:
        self.target = target
        self.port = 0
        self.delay = 0.0
        """Seconds by which everything is late."""
        self.rate: float | None = None
        """Bytes a second, in each direction."""
        self.passed = 0
        self._is_cut = self._is_choked = False
        self._server: asyncio.Server | None = None
        self._wires: set[_Wire] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, limit=_CHUNK)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        self.cut()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    # -- what can happen to a wire -------------------------------------------------------------

    def cut(self) -> None:
        """End all connections; new ones are ended at once."""
        self._is_cut = True
        self.drop()

    def drop(self) -> None:
        """End all connections; new ones may be made."""
        for wire in self._wires:
            wire.end()

    def choke(self) -> None:
        """Pass nothing on, without a word, as a firewall does that drops packets."""
        self._is_choked = True
        for wire in self._wires:
            wire.open.clear()

    def forget(self) -> None:
        """Pass nothing on, by the connections that there are; new ones work."""
        self.choke()
        self._wires.clear()
        self._is_choked = False

    def mend(self) -> None:
        """Let everything through."""
        self._is_cut = self._is_choked = False
        self.delay, self.rate = 0.0, None
        for wire in self._wires:
            wire.open.set()

    # -- passing on ----------------------------------------------------------------------------

    async def _accept(self, near: asyncio.StreamReader, out: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        wire = _Wire(out)
        if self._is_choked:
            wire.open.clear()
        self._wires.add(wire)
        try:
            await wire.open.wait()
            if self._is_cut:
                return
            far, far_out = await asyncio.open_connection("127.0.0.1", self.target, limit=_CHUNK)
            wire.writers.append(far_out)
            if self._is_cut:
                return
            await wire.both(
                self._pass_on(wire, near, far_out),
                self._pass_on(wire, far, out),
            )
        except (OSError, asyncio.CancelledError):
            pass  # it is closed either way
        finally:
            wire.end()
            self._wires.discard(wire)
            self._tasks.discard(task)

    async def _pass_on(
        self, wire: _Wire, source: asyncio.StreamReader, target: asyncio.StreamWriter
    ) -> None:
        with suppress(OSError):
            while True:
                # First: a choked wire takes no more than what the kernel keeps for it.
                await wire.open.wait()
                chunk = await source.read(_CHUNK)
                if not chunk:
                    return
                if pause := self.delay + (len(chunk) / self.rate if self.rate else 0.0):
                    await asyncio.sleep(pause)
                await wire.open.wait()
                self.passed += len(chunk)
                target.write(chunk)
                await target.drain()


class _Wire:
    """One connection through the proxy."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self.writers = [writer]
        self.open = asyncio.Event()
        self.open.set()

    def end(self) -> None:
        self.open.set()
        for writer in self.writers:
            writer.transport.abort()

    async def both(self, *ways: object) -> None:
        """Until one of them ends."""
        tasks = [asyncio.ensure_future(way) for way in ways]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
