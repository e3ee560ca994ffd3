"""A belt: items go from a thread, which waits while there is no room, to a task of asyncio."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any, Final

_ROOM: Final = 4_096
"""Items that wait to be taken over by the other thread."""


class Belt:
    """Carries items from one thread to the event loop of another."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._items: deque[Any] = deque()
        self._room = threading.Semaphore(_ROOM)
        self._news = asyncio.Event()
        self._is_told = self._is_ended = self._is_stopped = False

    def put(self, item: Any) -> bool:
        """Hand one over, and wait while there is no room; False if items are no longer taken."""
        self._room.acquire()
        if self._is_stopped:
            return False
        self._items.append(item)
        self._tell()
        return True

    def end(self) -> None:
        """There are no more."""
        self._is_ended = True
        self._is_told = False
        self._tell()

    def stop(self) -> None:
        """Items are no longer taken."""
        self._is_stopped = True
        self._room.release()

    def _tell(self) -> None:
        if not self._is_told:
            self._is_told = True
            with suppress(RuntimeError):  # the loop is closed: items are no longer taken
                self._loop.call_soon_threadsafe(self._news.set)

    async def items(self) -> AsyncIterator[Any]:
        """What was handed over."""
        while True:
            self._news.clear()
            self._is_told = False  # before looking: what comes later is told anew
            while self._items:
                item = self._items.popleft()
                self._room.release()
                yield item
            if self._is_ended and not self._items:
                return
            await self._news.wait()
