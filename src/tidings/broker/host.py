"""The host of a node: tells it what happens, and has its effects carried out by a `Pipeline`."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from time import monotonic, time
from typing import TYPE_CHECKING, Any, Final

from tidings.broker.copying import Copier
from tidings.broker.counts import Counts
from tidings.broker.pipeline import Outlet, Pipeline
from tidings.node import (
    Accepted,
    Append,
    Deliver,
    Effect,
    Event,
    Input,
    LinkDown,
    Missed,
    Node,
    Read,
    Records,
    Refused,
    Reply,
    Send,
    Store,
    Sync,
    Trimmed,
    Wake,
    Woken,
)

if TYPE_CHECKING:
    from tidings.broker import store as disk

_log = logging.getLogger(__name__)

_RETRY: Final = 1.0
_REMEMBERED: Final = 1_000
"""So many refusals are remembered for a session, and so many sessions with refusals."""


class Host:
    """A node, its store, and the connections to whoever it talks to.

    `sessions` and `links` say which connection leads to whom; an effect for somebody who is not
    there is dropped. A message goes to the connection that stood when the node wanted it sent.
    """

    def __init__(self, node: Node, store: disk.Store, counts: Counts) -> None:
        self.node = node
        self.store = store
        self.counts = counts
        self.sessions: dict[str, Outlet] = {}
        self.links: dict[str, Outlet] = {}
        self.first = store.span().first
        """The first tick of the node's own log that is kept."""
        self.pipeline = pipeline = Pipeline(store, counts, read=self._begin_read)
        self._loop = asyncio.get_running_loop()
        self._is_closed = False
        self._refusals: dict[str, deque[Refused]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._reader = ThreadPoolExecutor(2, "tidings-read")
        self.copier = Copier(store, node.name)
        self._performers: dict[type, Callable[[Any], None]] = {
            Deliver: self._deliver,
            Send: self._send,
            Reply: self._reply,
            Wake: self._wake,
            Store: pipeline.store,
            Append: pipeline.append,
            Sync: pipeline.sync,
            Read: pipeline.read,
        }

    def start(self, neighbours: Iterable[str]) -> None:
        """The first thing to call. Nobody can be reached yet."""
        self._perform(self.node.start(monotonic(), time()))
        for name in neighbours:
            self.handle(LinkDown(name))

    def handle(self, input: Input) -> None:
        """Something has happened."""
        if not self._is_closed:
            self._perform(self.node.handle(input, monotonic()))

    def post(self, outlet: Outlet, message: Any) -> None:
        """Send this, too, behind all that the node wants sent so far."""
        self.pipeline.out(outlet, message)
        self.pipeline.gathered(1)

    def took(self, size: int, *, hold: Callable[[], None], resume: Callable[[], None]) -> None:
        """So many bytes of input have been handled; if that was too much for now, hold back."""
        pipeline = self.pipeline
        pipeline.batch.size += size
        if pipeline.is_congested:
            hold()
            pipeline.when_free(resume)

    @property
    def last(self) -> int:
        """The last tick of the node's own log that is kept."""
        return self.pipeline.last

    @property
    def trouble(self) -> str | None:
        """Why nothing can be published now, if that is so."""
        return self.pipeline.trouble or self.store.trouble

    # -- effects -------------------------------------------------------------------------------

    def _perform(self, effects: list[Effect]) -> None:
        performers = self._performers
        for effect in effects:
            performers[effect.__class__](effect)
        if effects:
            self.pipeline.gathered(len(effects))

    def _deliver(self, effect: Deliver) -> None:
        outlet = self.sessions.get(effect.session)
        if outlet is not None:
            self.counts.delivered += 1
            self.pipeline.out(outlet, effect)

    def _send(self, effect: Send) -> None:
        outlet = self.links.get(effect.neighbour)
        if outlet is not None:
            self.pipeline.out(outlet, effect.packet)

    def _reply(self, effect: Reply) -> None:
        outlet = self.sessions.get(effect.session)
        if outlet is None:
            return
        answer = effect.answer
        if answer.__class__ is Accepted and answer.id == "publish":
            waiting = self.pipeline.batch.out.get(outlet)
            if waiting and waiting[-1].__class__ is Accepted and waiting[-1].id == "publish":
                waiting[-1] = answer  # it speaks for all before it
                return
        elif answer.__class__ is Refused:
            self.counts.refused += 1
            self.remember(effect.session, answer)
        elif answer.__class__ is Missed:
            self.counts.missed += answer.count
        self.pipeline.out(outlet, answer)

    def remember(self, session: str, refusal: Refused) -> None:
        """A publication was refused. If the answer is lost with its connection and a later one was
        kept, the client would take both for kept: it is told again when it comes back."""
        if refusal.id.isdecimal():
            refusals = self._refusals.setdefault(session, deque(maxlen=_REMEMBERED))
            refusals.append(refusal)
            while len(self._refusals) > _REMEMBERED:
                del self._refusals[next(iter(self._refusals))]

    def remembered(self, session: str) -> Iterable[Refused]:
        """What was refused lately."""
        return self._refusals.get(session, ())

    def _wake(self, effect: Wake) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(max(0.0, effect.at - monotonic()), self._woken)

    def _woken(self) -> None:
        self._timer = None
        self.handle(Woken())

    # -- the log -------------------------------------------------------------------------------

    def _begin_read(self, effect: Read) -> None:
        if not self._is_closed:
            work = self._reader.submit(
                self.store.read, effect.since, after=effect.after, limit=effect.limit
            )
            work.add_done_callback(partial(self._from_thread, effect))

    def _from_thread(self, effect: Read, work: Future[tuple[int, int, tuple[Event, ...]]]) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._was_read, effect, work)

    def _was_read(self, effect: Read, work: Future[tuple[int, int, tuple[Event, ...]]]) -> None:
        if work.cancelled():
            return  # the host was closed before
        problem = work.exception()
        if problem is not None:
            _log.error("cannot read the store: %s", problem)
            self._loop.call_later(_RETRY, self._begin_read, effect)
        else:
            self.handle(Records(effect.number, *work.result()))

    async def trim(
        self, *, before: float | None, size: int | None, upto: int | None = None
    ) -> None:
        """Let go of events that are older, or more than so many bytes; of none behind a tick."""
        first = await asyncio.to_thread(self.store.trim, before=before, size=size, upto=upto)
        if first != self.first:
            _log.info("events before %d are no longer kept", first)
            self.first = first
            self.handle(Trimmed(first))

    async def close(self) -> None:
        """Do nothing more. What was committed is kept."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        await self.pipeline.close()
        await asyncio.to_thread(self._reader.shutdown, cancel_futures=True)
        await self.copier.close()
        await asyncio.to_thread(self.store.close)
