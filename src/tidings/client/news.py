"""News: tasks wait for something to change, until there can be no more news of anything."""

from __future__ import annotations

import asyncio

from tidings.events import TidingsError


class News:
    """Who waits for news of what.

    News says only that something may have changed: a task that waited looks for itself, and waits
    again if it is not what it hoped for.
    """

    def __init__(self) -> None:
        self.end: TidingsError | None = None
        """Why there is no more news; None while there may be."""
        self._waiting: dict[object, list[asyncio.Future[None]]] = {}

    async def wait(self, thing: object) -> None:
        """Wait until there may be news of this, or an end; raise the end if it has come before."""
        self.check()
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(thing, []).append(future)
        await future

    def check(self) -> None:
        """Raise the reason why there is no more news, if there is none."""
        if self.end is not None:
            raise self.end.with_traceback(None)

    def tell(self, thing: object) -> None:
        """There may be news of this."""
        for future in self._waiting.pop(thing, ()):
            if not future.done():
                future.set_result(None)

    def tell_all(self) -> None:
        """There may be news of everything."""
        for thing in list(self._waiting):
            self.tell(thing)

    def close(self, problem: TidingsError) -> TidingsError:
        """There is no more news. The first reason counts, and is returned."""
        self.end = self.end or problem
        self.tell_all()
        return self.end
