"""Copying: a client is handed the broker's log as it is stored, a piece at a time.

Nothing is decoded on the way, and the node has no part in it: what is committed does not change.
Only copies for bulk subscribers, which concern no other client, come as blanks: a reader of a log
must see each tick, and learns of such a tick no more than that there is a copy, and who made it.
A thread reads the pieces, so that other clients do not wait for the disk. If a client does not take
what it is sent, its next piece is read only when it has.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, Final, TypeAlias

from msgspec.structs import replace

from tidings.broker.outlet import Outlet
from tidings.broker.store import Disk, LogDamageError
from tidings.delivery.copies import FOR
from tidings.delivery.logs import damaged
from tidings.events import Notification
from tidings.protocol.records import pack_notification
from tidings.protocol.requests import Refused
from tidings.protocol.runs import Run, repack, unpack_runs
from tidings.protocol.wire import Copied, Copy

_log = logging.getLogger(__name__)

_PIECE: Final = 1 << 20
"""Bytes of the log in an answer, about."""
_MOST: Final = 64
"""Requests of one client that may wait for their answers."""

_Piece: TypeAlias = tuple[int, int, tuple[bytes, ...]]
"""What `Disk.copy` returns: (since, upto, blocks)."""

_BLANK: Final = pack_notification(Notification({FOR: True}))
"""What stands for a copy for a bulk subscriber."""
_SIGN: Final = FOR.encode()
"""Bytes that are in every block with such a copy."""


def blanked(block: bytes, stream: str) -> bytes:
    """A block of a log in which there is nothing of copies for bulk subscribers but their ticks."""
    if _SIGN not in block:
        return block
    return repack(_blanked(run, stream) for run in unpack_runs(block))


def _blanked(run: Run, stream: str) -> Run:
    is_copy = [FOR in event.notification.attributes for event in run.each(stream)]
    rows = [_BLANK if blank else row for blank, row in zip(is_copy, run.rows, strict=True)]
    if run.more is None:
        return replace(run, rows=rows)
    more = [None if blank else each for blank, each in zip(is_copy, run.more, strict=True)]
    return replace(run, rows=rows, more=more)


class Copier:
    """Reads pieces of a broker's logs, in a thread."""

    def __init__(self, store: Disk, broker: str) -> None:
        self.broker = broker
        self.erasures = 0
        """How often something was erased: what was read before that is to be read again."""
        self._store = store
        self._loop = asyncio.get_running_loop()
        self._thread = ThreadPoolExecutor(1, "tidings-copy")
        self._is_closed = False

    def last(self, stream: str) -> int | None:
        """The last tick of a stream on the disk; None if this broker has no such stream."""
        span = self._store.spans().get(stream)
        return None if span is None else span.last

    def read(self, request: Copy, copies: Copies) -> None:
        """Read what is asked for; `copies.was_read` is told."""
        if self._is_closed:
            return
        work = self._thread.submit(self._read, request)
        work.add_done_callback(partial(self._from_thread, request, copies))

    def _read(self, request: Copy) -> _Piece:
        stream, after = request.stream, request.after
        since, upto, blocks = self._store.copy(stream, after, upto=request.upto, size=_PIECE)
        return since, upto, tuple([blanked(block, stream) for block in blocks])

    def _from_thread(self, request: Copy, copies: Copies, work: Future[_Piece]) -> None:
        if not self._loop.is_closed() and not work.cancelled():
            self._loop.call_soon_threadsafe(copies.was_read, request, work)

    async def close(self) -> None:
        """Read nothing more; what is being read is waited for."""
        self._is_closed = True
        await asyncio.to_thread(self._thread.shutdown, cancel_futures=True)


class Copies:
    """What one client has asked for, answered in turn."""

    def __init__(self, outlet: Outlet, copier: Copier) -> None:
        self._outlet = outlet
        self._copier = copier
        self._waiting: deque[Copy] = deque()
        self._answer: tuple[Any, Copy] | None = None
        self._erasures = 0
        """How often something had been erased when the last piece was read."""
        self._is_reading = False

    def ask(self, request: Copy) -> str | None:
        """Answer this when its turn comes; or at once, why that cannot be."""
        if self._copier.last(request.stream) is None:
            return (
                f"this is the broker {self._copier.broker}, which has no log of {request.stream!r}"
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
        outlet = self._outlet
        if outlet.is_full or outlet.is_closing:
            return
        if self._answer is not None:
            (answer, request), self._answer = self._answer, None
            if self._erasures == self._copier.erasures:
                outlet.send([answer])
            else:
                self._waiting.appendleft(request)
        if self._waiting and not self._is_reading and not outlet.is_full:
            self._is_reading, self._erasures = True, self._copier.erasures
            self._copier.read(self._waiting.popleft(), self)

    def was_read(self, request: Copy, work: Future[_Piece]) -> None:
        """Called in the event loop."""
        self._is_reading = False
        problem = work.exception()
        if problem is not None:
            _log.error("cannot copy the log: %s", problem)
            self._answer = self._not_said(request, problem), request
        else:
            self._answer = self._said(request, *work.result()), request
        self.go_on()

    def _not_said(self, request: Copy, problem: BaseException) -> Refused:
        if not isinstance(problem, LogDamageError):
            return Refused(request.id, f"the log cannot be read: {problem}")
        stream, since, upto = request.stream, problem.since, problem.upto
        reason = f"{damaged(stream, since, upto)}; continue from {stream}:{upto}"
        return Refused(request.id, reason, {stream: upto}, stream, request.after)

    def _said(self, request: Copy, since: int, upto: int, blocks: tuple[bytes, ...]) -> Any:
        stream, last = request.stream, self._copier.last(request.stream)
        assert last is not None
        if since > request.after:
            reason = (
                f"tick {request.after + 1} of {stream} is no longer kept; "
                f"continue from {stream}:{since}"
            )
            return Refused(request.id, reason, {stream: since}, stream, request.after)
        if request.after > last:
            reason = (
                f"{stream} ends at tick {last}, before tick {request.after}: what came behind that "
                f"was lost by its broker; continue from {stream}:{last}"
            )
            return Refused(request.id, reason, {stream: last}, stream, request.after)
        return Copied(request.id, blocks, upto, max(last, upto))
