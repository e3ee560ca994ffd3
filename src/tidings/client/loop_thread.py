"""A thread with an event loop, in which programs without asyncio have asyncio work done."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, Final, TypeVar

from tidings.client.errors import ClientClosed
from tidings.events import TidingsError

_T = TypeVar("_T")
_LAST_WORDS: Final = 1.0
"""Seconds that are left to what was asked while the thread was stopped."""


class LoopThread:
    """Runs coroutines and callbacks for other threads, from `start` to `stop`.

    Before and after, `ClientClosed` says that nothing can be done.
    """

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        """Held while something is begun, or nothing more can be."""

    @property
    def is_running(self) -> bool:
        """Whether it was started, and not stopped."""
        return self._thread is not None

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        if self._loop is None or self._thread is None:
            raise ClientClosed("the client is not open: use `with`, or open it")
        return self._loop

    def start(self) -> bool:
        """Start it; False if that was done before, even if it was stopped since."""
        if self._loop is not None:
            return False
        self._loop = _new_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="tidings client", daemon=True
        )
        self._thread.start()
        return True

    def stop(self) -> None:
        """Stop it, once what was begun has had a moment to end."""
        with self._lock:
            thread, self._thread = self._thread, None
        if self._loop is None or thread is None:
            return
        self._loop.call_soon_threadsafe(self._loop.stop)
        thread.join()
        self._loop.run_until_complete(_answered())
        self._loop.close()

    def run(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Have it do something, and wait for that."""
        try:
            self.check_caller()
        except TidingsError:
            work.close()
            raise
        future = self.begin(work)
        try:
            return future.result()
        except BaseException:  # an interrupt, perhaps
            future.cancel()
            raise

    def begin(self, work: Coroutine[Any, Any, _T]) -> Future[_T]:
        """Have it do something, and do not wait."""
        with self._lock:
            try:
                return asyncio.run_coroutine_threadsafe(work, self.loop)
            except ClientClosed:
                work.close()
                raise

    def call_soon(self, callback: Callable[[], None]) -> None:
        """Have it call something, and do not wait."""
        with self._lock:
            self.loop.call_soon_threadsafe(callback)

    def check_caller(self) -> None:
        """`TidingsError` to a caller in this very thread, who would wait for itself for ever."""
        if threading.current_thread() is self._thread:
            raise TidingsError(
                "a callback cannot wait for the client that calls it; have another thread do this"
            )


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:  # there is none for every platform
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


async def _answered() -> None:
    """Let what was asked at the last moment hear that the client is closed."""
    await asyncio.sleep(0)
    others = asyncio.all_tasks() - {asyncio.current_task()}
    if others:
        _, left = await asyncio.wait(others, timeout=_LAST_WORDS)
        for task in left:
            task.cancel()
