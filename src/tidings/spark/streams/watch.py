"""A watch: where the streams end, asked of a broker again and again in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from contextlib import suppress
from typing import Final

from tidings.client import Login
from tidings.client.loop_thread import LoopThread
from tidings.events import TidingsError
from tidings.spark.streams.places import Ends, ends_promised_to

_PAUSES: Final = (0.05, 1.0)
"""Seconds between two questions; longer each time that there is nothing new."""
_PATIENCE: Final = 10.0
"""Seconds for an answer: then it is asked again, since a stream may have gone."""


class EndsWatch:
    """Knows where the streams end and below which times, as of a moment ago; use it with `with`.

    A broker that goes away is waited for. `TidingsError` if it is not there at the beginning, or
    does not let us in.
    """

    def __init__(self, login: Login) -> None:
        """The login's timeout is how long the broker is waited for at the beginning."""
        self._login = login
        self._ends: Ends | None = None
        self._news = threading.Event()
        self._thread = LoopThread()
        self._watching: Future[None]

    def __enter__(self) -> EndsWatch:
        self._thread.start()
        self._watching = self._thread.begin(self._watch())
        self._watching.add_done_callback(lambda _: self._news.set())
        return self

    def __exit__(self, *_: object) -> None:
        self._watching.cancel()
        self._thread.stop()

    def ends(self) -> Ends | None:
        """Where the streams end that can be reached; None if that is not known yet."""
        if self._watching.done():
            self._watching.result()  # why it has ended
        return self._ends

    def wait(self, seconds: float) -> None:
        """Until there is something new, but not longer than this."""
        self._news.wait(seconds)
        self._news.clear()

    async def _watch(self) -> None:
        client, pause = await self._login.client(), _PAUSES[0]
        try:
            while True:
                before = found = self._ends
                with suppress(TidingsError, TimeoutError):
                    async with asyncio.timeout(_PATIENCE):
                        found = self._ends = await ends_promised_to(client)
                if found is not None and (before is None or found.ticks != before.ticks):
                    pause = _PAUSES[0]
                    self._news.set()
                else:
                    pause = min(2 * pause, _PAUSES[1])
                await asyncio.sleep(pause)
        finally:
            await client.close(within=1.0)
