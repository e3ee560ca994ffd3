"""The host of a node: tells it what happens, and has its effects carried out by a `Pipeline`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from time import monotonic, time
from typing import TYPE_CHECKING, Any, Final

from tidings.broker.copying import Copier
from tidings.broker.counts import Counts
from tidings.broker.pipeline import Outlet, Pipeline
from tidings.broker.refusals import Refusals
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
_DIGITS: Final = 19
"""No number of a publication has more; other ids are what clients make them."""


class Host:
    """A node, its store, and the connections to whoever it talks to.

    `sessions` and `links` say which connection leads to whom; an effect for somebody who is not
    there is dropped. A message goes to the connection that stood when the node wanted it sent.
    """

    def __init__(self, node: Node, store: disk.Store, counts: Counts, refusals: Refusals) -> None:
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
        self._refusals = refusals
        self._timer: asyncio.TimerHandle | None = None
        self._reader = ThreadPoolExecutor(2, "tidings-read")
        self.copier = Copier(store, node.name)
        self._performers: dict[type, Callable[[Any], None]] = {
            Deliver: self._deliver,
            Send: self._send,
            Reply: self._reply,
            Wake: self._wake,
            Store: self._store,
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
            if answer.id.isdecimal() and len(answer.id) <= _DIGITS:
                number = int(answer.id)
                self._store_all(self._refusals.add(effect.session, number, answer.reason))
        elif answer.__class__ is Missed:
            self.counts.missed += answer.count
        self.pipeline.out(outlet, answer)

    def _store(self, effect: Store) -> None:
        self.pipeline.store(effect)
        kind, _, session = effect.key.partition(":")
        if kind == "publisher":  # what was refused is stored, and forgotten, with what is kept
            if effect.value is None:
                self._store_all(self._refusals.forget(session))
            else:
                self._store_all(self._refusals.kept(session, effect.value[0]))

    def _store_all(self, changes: list[Store]) -> None:
        for change in changes:
            self.pipeline.store(change)
        if changes:
            self.pipeline.gathered(len(changes))

    # -- refusals ------------------------------------------------------------------------------

    def remember(self, session: str, number: int, reason: str) -> None:
        """A publication is not passed on to the node. If the answer is lost and a later one kept,
        the client would take both for kept: it is told again when it comes back."""
        if number > self._published(session):  # else it was decided before
            self._store_all(self._refusals.add(session, number, reason))

    def remembered(self, session: str) -> list[Refused]:
        """What to tell a session that comes back, before it hears what is kept.

        What was refused behind that is forgotten: its client will send it again, or leave it out.
        """
        self._store_all(self._refusals.forget(session, above=self._published(session)))
        return self._refusals.of(session)

    def forget(self, session: str) -> None:
        """A session has left for good."""
        self._store_all(self._refusals.forget(session))

    def _published(self, session: str) -> int:
        deliveries = self.node.deliveries
        return 0 if deliveries is None else deliveries.published(session)

    # -- time ----------------------------------------------------------------------------------

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
