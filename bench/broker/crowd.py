"""The crowd: a publisher and many subscribers in one process, as cheap as Python can be.

What is published is encoded before the clock starts, and what is heard is taken apart in C (or
counted). So nearly all that is measured is the broker; a real client costs more.
"""

from __future__ import annotations

import gc
import select
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Protocol

_CHUNK = 1 << 18


class Ear(Protocol):
    """What one connection makes of the bytes that it is sent."""

    def hear(self, chunk: bytes) -> tuple[int, int]:
        """How many events these bytes completed, and how many of them were wanted."""

    def due(self, now: float) -> bytes:
        """What to say to the broker by now, if anything."""


@dataclass(frozen=True)
class Batch:
    """Some events as the publisher sends them, and how many times the broker is to send them."""

    data: bytes
    events: int
    sent: int


@dataclass(frozen=True)
class Run:
    """What it took to send some batches and hear all that they should bring about."""

    events: int
    seconds: float
    sent: int
    """How many times the broker has sent an event,"""
    wanted: int
    """and how many of those were wanted."""
    bytes: int
    """What the broker has sent, in all."""
    clients: float
    """Seconds of CPU of this process."""
    broker: float = 0.0
    """Seconds of CPU of the broker."""
    missing: int = 0
    """How many of those that should have come have not."""


class Crowd:
    """Connections that are open and have said what they want to hear."""

    def __init__(self, publisher: tuple[socket.socket, Ear]) -> None:
        self._poll = select.epoll()
        self._ears: dict[int, tuple[socket.socket, Ear]] = {}
        self._publisher = publisher[0]
        self.join(*publisher)

    def join(self, line: socket.socket, ear: Ear) -> None:
        """One more connection."""
        line.setblocking(False)
        self._ears[line.fileno()] = (line, ear)
        self._poll.register(line.fileno(), select.EPOLLIN)

    def leave(self) -> None:
        """All of them."""
        for line, _ in self._ears.values():
            line.close()
        self._poll.close()

    def run(
        self,
        batches: Sequence[Batch],
        *,
        ahead: int,
        cpu: Callable[[], float] = lambda: 0.0,
        patience: float = 60.0,
        pause: float = 0.0,
    ) -> Run:
        """Publish the batches as fast as they are heard, at most `ahead` of them too early.

        It ends when all has been heard, or nothing has been for `patience` seconds. Meanwhile
        `due` of each connection is asked every `pause` seconds, if that is above 0.
        """
        expected = list(accumulate((b.sent for b in batches), initial=0))
        sent = wanted = size = at = 0
        left = b""
        poll, ears, publisher = self._poll, self._ears, self._publisher
        fd = publisher.fileno()
        gc.collect()
        gc.freeze()
        gc.disable()
        began, mine, theirs = time.monotonic(), time.process_time(), cpu()
        last = began
        next_due = began + pause if pause else float("inf")
        try:
            while sent < expected[-1] or left or at < len(batches):
                if not left and at < len(batches) and sent >= expected[max(0, at - ahead)]:
                    left = batches[at].data
                    at += 1
                if left:
                    try:
                        left = left[publisher.send(left) :]
                    except BlockingIOError:
                        poll.modify(fd, select.EPOLLIN | select.EPOLLOUT)
                may_send = at < len(batches) and sent >= expected[max(0, at - ahead)]
                ready = poll.poll(0 if may_send and not left else 0.02)
                for which, events in ready:
                    if events & select.EPOLLOUT:
                        poll.modify(which, select.EPOLLIN)
                        continue
                    line, ear = ears[which]
                    try:
                        chunk = line.recv(_CHUNK)
                    except BlockingIOError:
                        continue
                    if not chunk:
                        raise RuntimeError("the broker has closed a connection")
                    size += len(chunk)
                    new, of_use = ear.hear(chunk)
                    sent += new
                    wanted += of_use
                now = time.monotonic()
                if ready:
                    last = now
                elif now - last > patience:
                    break
                if now >= next_due:
                    next_due = now + pause
                    self._say_due(now)
            seconds = time.monotonic() - began
            return Run(
                sum(b.events for b in batches[:at]),
                seconds,
                sent,
                wanted,
                size,
                time.process_time() - mine,
                cpu() - theirs,
                expected[-1] - sent,
            )
        finally:
            gc.enable()
            gc.unfreeze()

    def _say_due(self, now: float) -> None:
        for line, ear in self._ears.values():
            data = ear.due(now)
            if data:
                line.setblocking(True)
                line.sendall(data)
                line.setblocking(False)
