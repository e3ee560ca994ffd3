"""The host of a node: tells it what happens, and has its effects carried out by `Commits`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from math import inf
from time import monotonic, time
from typing import Any, Final, Protocol, TypeAlias

import msgspec

from tidings.broker.commits import Commits
from tidings.broker.copying import Copier
from tidings.broker.erasing import LogEraser
from tidings.broker.operations.metrics import Metrics
from tidings.broker.outlet import Outlet
from tidings.broker.store import Disk, LogDamageError
from tidings.events import TidingsError
from tidings.node import Node
from tidings.protocol.host import (
    Append,
    Connect,
    Deliver,
    Disconnect,
    Effect,
    EraseLog,
    Input,
    LinkDown,
    LogErased,
    Raise,
    Read,
    Recall,
    Recalled,
    Records,
    Reply,
    Send,
    Span,
    Store,
    Sync,
    Trimmed,
    Unreadable,
    Wake,
    Woken,
)
from tidings.protocol.messages import Event
from tidings.protocol.requests import ACCESS, SESSION, Accepted, Missed, Refused

_log = logging.getLogger(__name__)

Make: TypeAlias = Callable[[dict[str, Any], dict[str, Span]], Node]
"""Makes a node, in the place of one that was damaged, of what is stored and logged."""

_RETRY: Final = 1.0
_TRIES: Final = 5
"""Times that the log is read, a second apart, before a reader is told that it cannot be."""


_Found: TypeAlias = tuple[int, int, tuple[Event, ...]]


class Linker(Protocol):
    """What connects to neighbours."""

    def meet(self, name: str, address: str) -> None:
        """There is another neighbour, or one that there was is one again."""

    def part(self, name: str) -> None:
        """It is a neighbour no longer."""

    def begin(self) -> None:
        """Nobody is a neighbour but those that were configured."""


class Host:
    """A node, its store, and the connections to whoever it talks to.

    `sessions` and `links` say which connection leads to whom; an effect for somebody who is not
    there is dropped. A message goes to the connection that stood when the node wanted it sent.
    Each connection of a client is a session of its own.
    """

    def __init__(self, node: Node, store: Disk, metrics: Metrics, make: Make) -> None:
        """`make` is called for another node when this one is not to be trusted any more."""
        self._make = make
        self.node = node
        self.store = store
        self.metrics = metrics
        self.sessions: dict[str, Outlet] = {}
        self.links: dict[str, Outlet] = {}
        self.linker: Linker | None = None
        self.raised = store.raised
        """Why the current epoch has begun, if that was when the store was opened, or later."""
        self._attached: set[str] = set()
        """The sessions that the node has accepted."""
        self.commits = commits = Commits(
            store, metrics, read=self._begin_read, distrust=self._distrust
        )
        self._replacing: asyncio.Task[None] | None = None
        """While the node is not to be trusted, and another is being made."""
        self._neighbours: tuple[str, ...] = ()
        self._loop = asyncio.get_running_loop()
        self._is_closed = False
        self._timer: asyncio.TimerHandle | None = None
        self._firsts = {stream: span.first for stream, span in store.spans().items()}
        self._reader = ThreadPoolExecutor(2, "tidings-read")
        self.copier = Copier(store, node.name)
        self.eraser = LogEraser(store)
        self._performers: dict[type, Callable[[Any], None]] = {
            Deliver: self._deliver,
            Send: self._send,
            Connect: self._connect,
            Disconnect: self._disconnect,
            Reply: self._reply,
            Wake: lambda effect: self._wake_by(effect.at),
            Store: commits.store,
            Append: commits.append,
            Raise: self._raise,
            Sync: commits.sync,
            Read: commits.read,
            EraseLog: commits.read,
            Recall: commits.read,
        }

    def start(self, neighbours: Iterable[str]) -> None:
        """The first thing to call. Nobody can be reached yet."""
        self._neighbours = tuple(neighbours)
        self._start_node()

    def _start_node(self) -> None:
        self._wake_by(inf)
        if self.linker is not None:
            self.linker.begin()
        self._perform(self.node.start(monotonic(), time()))
        for name in self._neighbours:
            if name not in self.links:
                self.handle(LinkDown(name))

    def handle(self, input: Input) -> None:
        if self._is_closed or self._replacing is not None:
            return
        try:
            effects = self.node.handle(input, monotonic())
        except Exception as problem:
            self._distrust(problem)
        else:
            self._perform(effects)

    # -- a node that is not to be trusted ------------------------------------------------------

    def _distrust(self, problem: Exception) -> None:
        """Have another node take the place of this one, as after a crash: see `protocol.host`."""
        if self._is_closed or self._replacing is not None:
            return
        _log.error("what the broker remembers is damaged; it begins anew", exc_info=problem)
        self.metrics.replaced += 1
        self._replacing = self._loop.create_task(self._replace())

    async def _replace(self) -> None:
        self._hang_up()
        while not await self.commits.settle(_RETRY):
            continue  # what was to be kept may yet be
        while (stored := await self._content()) is None:
            await asyncio.sleep(_RETRY)
        self.node = await asyncio.to_thread(self._make, stored, self.store.spans())
        self._hang_up()  # on those who have come meanwhile
        self._replacing = None
        self._start_node()

    async def _content(self) -> dict[str, Any] | None:
        try:
            return await asyncio.to_thread(self.store.content)
        except TidingsError as problem:
            _log.error("cannot read the store: %s", problem)
            return None

    def _hang_up(self) -> None:
        """Clients attach again, and say where they are."""
        for outlet in list(self.sessions.values()):
            outlet.close()

    def post(self, outlet: Outlet, message: Any) -> None:
        """Send this, too, behind all that the node wants sent so far."""
        self.commits.out(outlet, message)
        self.commits.gathered(1)

    def dismiss(self, outlet: Outlet, refusal: Refused) -> None:
        """Say why, behind all that is to be said before, and close."""
        self.commits.end(outlet)
        self.post(outlet, refusal)

    def took(self, size: int, *, hold: Callable[[], None], resume: Callable[[], None]) -> None:
        """This many bytes of input have been handled; if that was too much for now, hold back."""
        commits = self.commits
        commits.bundle.size += size
        if commits.is_congested:
            hold()
            commits.when_free(resume)

    @property
    def last(self) -> int:
        """The last tick of the node's current stream that is kept."""
        return self.commits.last

    @property
    def first(self) -> int:
        """The first one."""
        *_, span = self.store.spans().values()
        return span.first

    @property
    def trouble(self) -> str | None:
        """Why nothing can be published now, if that is so."""
        return self.commits.trouble or self.store.trouble

    # -- effects -------------------------------------------------------------------------------

    def _perform(self, effects: list[Effect]) -> None:
        performers = self._performers
        for effect in effects:
            performers[effect.__class__](effect)
        if effects:
            self.commits.gathered(len(effects))

    def _deliver(self, effect: Deliver) -> None:
        outlet = self.sessions.get(effect.session)
        if outlet is not None:
            self.metrics.delivered += 1
            self.commits.out(outlet, effect)

    def _send(self, effect: Send) -> None:
        outlet = self.links.get(effect.neighbour)
        if outlet is not None:
            self.commits.out(outlet, effect.packet)

    def _connect(self, effect: Connect) -> None:
        assert self.linker is not None, "nobody dials"
        self.linker.meet(effect.neighbour, effect.address)

    def _disconnect(self, effect: Disconnect) -> None:
        assert self.linker is not None, "nobody dials"
        self.linker.part(effect.neighbour)

    def _reply(self, effect: Reply) -> None:
        outlet = self.sessions.get(effect.session)
        if outlet is None:
            return
        answer = effect.answer
        if answer.__class__ is Accepted and answer.id == "publish":
            waiting = self.commits.bundle.out.get(outlet)
            if waiting and waiting[-1].__class__ is Accepted and waiting[-1].id == "publish":
                kept = (*waiting[-1].kept, *answer.kept)
                waiting[-1] = msgspec.structs.replace(answer, kept=kept)  # it speaks for both
                return
        elif answer.__class__ is Accepted and answer.id == "attach":
            self._attached.add(effect.session)
        elif answer.__class__ is Refused:
            self.metrics.refused += 1
            if answer.id in (SESSION, ACCESS):
                _log.warning("refused session %r: %s", effect.session, answer.reason)
                self._attached.discard(effect.session)
                self.commits.end(outlet)
        elif answer.__class__ is Missed:
            self.metrics.missed += answer.count
        self.commits.out(outlet, answer)

    def _raise(self, effect: Raise) -> None:
        _log.error("%s", effect.reason)
        self.raised = effect.reason
        self.commits.raise_epoch(effect)

    # -- time ----------------------------------------------------------------------------------

    def _wake_by(self, at: float) -> None:
        """Wake the node then, or in time for its next check, whatever it remembers of that."""
        if self._timer is not None:
            self._timer.cancel()
        seconds = min(max(0.0, at - monotonic()), self.node.settings.check)
        self._timer = None
        if seconds < inf:
            self._timer = self._loop.call_later(seconds, self._woken)

    def _woken(self) -> None:
        self._wake_by(inf)
        self.handle(Woken(time()))

    # -- the log -------------------------------------------------------------------------------

    def _begin_read(self, effect: Read | Recall | EraseLog, tries: int = 1) -> None:
        if self._is_closed:
            return
        node = self.node
        if isinstance(effect, EraseLog):
            self.eraser.begin(effect, partial(self._was_erased, node))
        elif isinstance(effect, Recall):
            looked = self._reader.submit(lambda: (self.store.content(), self.store.spans()))
            looked.add_done_callback(
                partial(self._from_thread, self._was_recalled, (node, effect.number))
            )
        else:
            work = self._reader.submit(
                self.store.read,
                effect.stream,
                effect.since,
                after=effect.after,
                limit=effect.limit,
            )
            work.add_done_callback(
                partial(self._from_thread, self._was_read, (node, effect, tries))
            )

    def _from_thread(
        self, done: Callable[[Any, Future[Any]], None], about: object, work: Future[Any]
    ) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(done, about, work)

    def _was_recalled(
        self, asked: tuple[Node, int], work: Future[tuple[dict[str, Any], dict[str, Span]]]
    ) -> None:
        node, number = asked
        if work.cancelled() or node is not self.node:
            return
        problem = work.exception()
        if problem is not None:
            _log.error("cannot read the store: %s", problem)  # the node will ask again
            return
        self._attached &= self.sessions.keys()
        there = {name: self.sessions[name].is_full for name in self._attached}
        self.handle(Recalled(number, *work.result(), there, frozenset(self.links)))

    def _was_erased(self, node: Node, answer: LogErased) -> None:
        self.copier.erasures += 1
        if node is self.node:
            self.handle(answer)

    def _was_read(self, asked: tuple[Node, Read, int], work: Future[_Found]) -> None:
        node, effect, tries = asked
        if work.cancelled() or node is not self.node:
            return  # the host was closed before, or nobody waits for it any more
        problem = work.exception()
        if problem is None:
            self.handle(Records(effect.number, *work.result()))
            return
        _log.error("cannot read the store: %s", problem)
        if isinstance(problem, LogDamageError):
            self.handle(Unreadable(effect.number, problem.since, problem.upto))
        elif tries < _TRIES:
            self._loop.call_later(_RETRY, self._begin_read, effect, tries + 1)
        else:  # nobody knows how much of it
            span = self.store.spans()[effect.stream]
            since = max(effect.since, span.first - 1)
            self.handle(Unreadable(effect.number, since, max(since, span.last)))

    async def trim(
        self, *, before: float | None, size: int | None, upto: Mapping[str, int] | None = None
    ) -> None:
        """Let go of events older than a time, and of the oldest above a size: see `Disk.trim`."""
        await asyncio.to_thread(self.store.trim, before=before, size=size, upto=upto)
        for stream, span in self.store.spans().items():
            if span.first > self._firsts.get(stream, 1):
                _log.info("events of %s before %d are no longer kept", stream, span.first)
                self._firsts[stream] = span.first
                self.handle(Trimmed(stream, span.first))

    async def close(self) -> None:
        """Do nothing more. What was committed is kept."""
        self._is_closed = True
        if self._replacing is not None:
            self._replacing.cancel()
        if self._timer is not None:
            self._timer.cancel()
        await self.commits.close()
        await asyncio.to_thread(self._reader.shutdown, cancel_futures=True)
        await self.copier.close()
        await self.eraser.close()
        await asyncio.to_thread(self.store.close)
