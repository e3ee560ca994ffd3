"""Erasing: what is to be gone from the broker's logs, one log after the other, in a thread.

It begins when all that was accepted before is on the disk. Meanwhile commits and reads go on; they
wait for each other for a moment only, as the store works in small pieces.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Final

from tidings.broker.store import Disk, Erased
from tidings.delivery.erased import Eraser
from tidings.protocol.host import EraseLog, LogErased

_log = logging.getLogger(__name__)

_RETRY: Final = 1.0
"""Seconds after which an erasure that has failed goes on."""
_TRIES: Final = 5
"""Times that it is tried before it is told that it has failed."""


class LogEraser:
    """Erases in the logs of a store."""

    def __init__(self, store: Disk) -> None:
        self._store = store
        self._loop = asyncio.get_running_loop()
        self._thread = ThreadPoolExecutor(1, "tidings-erase")
        self._is_closed = False

    def begin(self, effect: EraseLog, done: Callable[[LogErased], None], tries: int = 1) -> None:
        """Erase in a log, and tell when it is done."""
        if self._is_closed:
            return
        work = self._thread.submit(self._erase, effect)
        work.add_done_callback(partial(self._from_thread, effect, done, tries))

    def _erase(self, effect: EraseLog) -> Erased:
        eraser = Eraser(effect.filter, effect.id)
        return self._store.erase(effect.stream, eraser, upto=effect.upto, is_dry=effect.is_dry)

    def _from_thread(
        self, effect: EraseLog, done: Callable[[LogErased], None], tries: int, work: Future[Erased]
    ) -> None:
        if not self._loop.is_closed() and not work.cancelled():
            self._loop.call_soon_threadsafe(self._was_erased, effect, done, tries, work)

    def _was_erased(
        self, effect: EraseLog, done: Callable[[LogErased], None], tries: int, work: Future[Erased]
    ) -> None:
        problem = work.exception()
        if problem is None:
            done(_told(effect, work.result()))
            return
        _log.error("cannot erase in the log: %s", problem)
        if tries < _TRIES:
            self._loop.call_later(_RETRY, self.begin, effect, done, tries + 1)
        else:
            done(LogErased(effect.number, 0, 0, f"{effect.stream}: {problem}"))

    async def close(self) -> None:
        """Erase nothing more; what is being erased is waited for."""
        self._is_closed = True
        await asyncio.to_thread(self._thread.shutdown, cancel_futures=True)


def _told(effect: EraseLog, found: Erased) -> LogErased:
    places = ", ".join(f"{first} to {last}" for first, last in found.damaged)
    problem = f"ticks {places} of {effect.stream} are damaged: what they hold is not known"
    return LogErased(effect.number, found.erased, found.last, problem if places else "")
