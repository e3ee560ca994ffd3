"""Copying: a client is handed the broker's log as it is stored, a piece at a time.

Nothing is decoded on the way, and the node has no part in it: what is committed does not change.
A piece is read by a thread of its own, so that nobody else waits for the disk, and a client that
does not take what it is sent has the next piece read only when it has.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from tidings.node import Refused
from tidings.node.wire import Copied, Copy

if TYPE_CHECKING:
    from tidings.broker.connection import Connection
    from tidings.broker.store import Store

_log = logging.getLogger(__name__)

_PIECE: Final = 1 << 20
"""About so many bytes are in an answer."""
_MOST: Final = 64
"""So many requests of a client may wait for their answers."""

_Piece: TypeAlias = tuple[int, int, tuple[bytes, ...]]


class Copier:
    """Reads pieces of one log, in a thread."""

    def __init__(self, store: Store, stream: str) -> None:
        self.stream = stream
        self._store = store
        self._loop = asyncio.get_running_loop()
        self._thread = ThreadPoolExecutor(1, "tidings-copy")
        self._is_closed = False

    @property
    def last(self) -> int:
        """The last tick on the disk."""
        return self._store.span().last

    def read(self, request: Copy, copies: Copies) -> None:
        """Read what is asked for; `copies.was_read` is told."""
        if self._is_closed:
            return
        work = self._thread.submit(self._store.copy, request.after, upto=request.upto, size=_PIECE)
        work.add_done_callback(partial(self._from_thread, request, copies))

    def _from_thread(self, request: Copy, copies: Copies, work: Future[_Piece]) -> None:
        if not self._loop.is_closed() and not work.cancelled():
            self._loop.call_soon_threadsafe(copies.was_read, request, work)

    async def close(self) -> None:
        """Read nothing more; what is being read is waited for."""
        self._is_closed = True
        await asyncio.to_thread(self._thread.shutdown, cancel_futures=True)


class Copies:
    """What one client has asked for, answered in turn."""

    def __init__(self, connection: Connection, copier: Copier) -> None:
        self._connection = connection
        self._copier = copier
        self._waiting: deque[Copy] = deque()
        self._answer: Any = None
        self._is_reading = False

    def ask(self, request: Copy) -> str | None:
        """Answer this when its turn comes; or at once, why that cannot be."""
        if request.stream != self._copier.stream:
            return (
                f"this is the broker {self._copier.stream}, which has no log of {request.stream!r}"
            )
        if request.after < 0:
            return f"ticks are counted from 1: nothing lies behind {request.after}"
        if len(self._waiting) >= _MOST:
            return f"at most {_MOST} requests to copy may wait for their answers"
        self._waiting.append(request)
        self.go_on()
        return None

    def go_on(self) -> None:
        """Answer the next, if the client has room for it."""
        connection = self._connection
        if connection.is_full or connection.is_closing:
            return
        if self._answer is not None:
            answer, self._answer = self._answer, None
            connection.send([answer])
        if self._waiting and not self._is_reading and not connection.is_full:
            self._is_reading = True
            self._copier.read(self._waiting.popleft(), self)

    def was_read(self, request: Copy, work: Future[_Piece]) -> None:
        """Called in the event loop."""
        self._is_reading = False
        problem = work.exception()
        if problem is not None:
            _log.error("cannot copy the log: %s", problem)
            self._answer = Refused(request.id, f"the log cannot be read: {problem}")
        else:
            self._answer = self._said(request, *work.result())
        self.go_on()

    def _said(self, request: Copy, since: int, upto: int, blocks: tuple[bytes, ...]) -> Any:
        stream, last = self._copier.stream, self._copier.last
        if since > request.after:
            reason = (
                f"tick {request.after + 1} of {stream} is no longer kept; "
                f"continue from {stream}:{since}"
            )
            return Refused(request.id, reason, {stream: since}, stream, request.after)
        if request.after > last:
            reason = (
                f"{stream} ends at tick {last}, before tick {request.after}; "
                f"continue from {stream}:{last}"
            )
            return Refused(request.id, reason, {stream: last}, stream, request.after)
        return Copied(request.id, blocks, upto, max(last, upto))
