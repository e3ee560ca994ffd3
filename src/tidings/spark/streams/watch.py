"""A watch: where the streams end, asked of a broker again and again in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from typing import Final

import uvloop

from tidings.client.login import Login
from tidings.events import TidingsError
from tidings.protocol.requests import Cursor
from tidings.spark.streams.places import ends_known_to

_PAUSES: Final = (0.05, 1.0)
"""Seconds between two questions; longer each time that there is nothing new."""
_PATIENCE: Final = 10.0
"""Seconds for an answer: then it is asked again, since a stream may have gone."""


class Watch:
    """Knows where the streams end, as of a moment ago; use it with `with`.

    A broker that goes away is waited for. `TidingsError` if it is not there at the beginning, or
    does not let us in.
    """

    def __init__(self, login: Login) -> None:
        """The broker's timeout is how long it is waited for at the beginning."""
        self._login = login
        self._ends: Cursor | None = None
        self._failure: BaseException | None = None
        self._news = threading.Event()
        self._is_closed = False
        self._over: asyncio.Future[None] | None = None
        self._loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="tidings-watch", daemon=True)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_closed = True
        with suppress(RuntimeError):  # it has ended by itself
            self._loop.call_soon_threadsafe(self._look)
        self._thread.join()

    def ends(self) -> Cursor | None:
        """The last tick of each stream that can be reached; None if that is not known yet."""
        if self._failure is not None:
            raise self._failure
        return self._ends

    def wait(self, seconds: float) -> None:
        """Until there is something new, but not longer than this."""
        self._news.wait(seconds)
        self._news.clear()

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
                runner.get_loop().run_until_complete(self._watch())
        except BaseException as problem:
            self._failure = problem
        finally:
            self._news.set()

    def _look(self) -> None:
        if self._is_closed and self._over is not None and not self._over.done():
            self._over.set_result(None)

    async def _watch(self) -> None:
        login, pause = self._login, _PAUSES[0]
        self._over = over = asyncio.get_running_loop().create_future()
        self._look()
        dialling = asyncio.ensure_future(login.client().open())
        await asyncio.wait([dialling, over], return_when=asyncio.FIRST_COMPLETED)
        if not dialling.done():
            dialling.cancel()
            return
        client = dialling.result()
        try:
            while not over.done():
                asked = asyncio.ensure_future(ends_known_to(client))
                await asyncio.wait(
                    [asked, over], timeout=_PATIENCE, return_when=asyncio.FIRST_COMPLETED
                )
                if asked.done() and self._understood(asked):
                    pause = _PAUSES[0]
                else:
                    pause = min(2 * pause, _PAUSES[1])
                asked.cancel()
                await asyncio.wait([asked])
                await asyncio.wait([over], timeout=pause)
        finally:
            await client.close(within=1.0)

    def _understood(self, asked: asyncio.Future[Cursor]) -> bool:
        """Whether an answer says something new."""
        try:
            found = asked.result()
        except TidingsError:
            return False
        if found == self._ends:
            return False
        self._ends = found
        self._news.set()
        return True
