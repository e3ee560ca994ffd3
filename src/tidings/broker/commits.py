"""Commits: effects in order, with one commit for as many as possible.

      effects ──▶ bundle ─┬── nothing to sync: out at once
                          └── commit in a thread ──▶ out when it is done
                                 (meanwhile the next bundle gathers)

Everything that happens in one turn of the event loop goes into one bundle. While a bundle is being
committed the next one gathers, whether or not it needs a commit itself: what the node wants said
after something was synced is never said before. So a slow disk makes larger bundles, and a quiet
broker answers after a single commit. All that goes to one connection at a time is one frame.

This is the hot path: no task, no future and no `await` for an event, only for a commit.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from time import monotonic
from typing import Any, Final

from tidings.broker.operations.metrics import Metrics
from tidings.broker.outlet import Outlet
from tidings.broker.store import Disk, DisorderError
from tidings.protocol.host import Append, EraseLog, Raise, Read, Recall, Store, Sync
from tidings.protocol.messages import Event

_log = logging.getLogger(__name__)

# A bundle above either bound is committed before more is read from any connection.
_MOST_BYTES: Final = 1 << 20
"""Bytes of input behind a bundle."""
_MOST_EFFECTS: Final = 50_000
"""Effects in a bundle."""
_LAZY: Final = 0.1
"""Seconds after which a value that was stored without a sync is committed, at the latest."""
_RETRY: Final = 1.0
"""Seconds until a commit that has failed is tried again."""


@dataclass(slots=True)
class Bundle:
    """Effects that are carried out together."""

    values: dict[str, Any] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    publishers: list[str] = field(default_factory=list)
    """The name under which each of the events was published."""
    before: list[tuple[dict[str, Any], list[Event], list[str]]] = field(default_factory=list)
    """Values and events of earlier epochs: each is kept, then the next epoch begins."""
    must_sync: bool = False
    out: dict[Outlet, list[Any]] = field(default_factory=dict)
    ended: list[Outlet] = field(default_factory=list)
    reads: list[Read | Recall | EraseLog] = field(default_factory=list)
    effects: int = 0
    size: int = 0
    """Bytes of the input that its effects follow from."""


class Commits:
    """Gathers what is to be stored, said and read, and does it when its time has come."""

    def __init__(
        self,
        store: Disk,
        metrics: Metrics,
        *,
        read: Callable[[Read | Recall | EraseLog], None],
        distrust: Callable[[Exception], None],
    ) -> None:
        """`read` is called for what is to be read or erased, once everything before it is kept.

        `distrust` is called if what is to be kept cannot be true, and has been dropped with all
        that follows it.
        """
        self.bundle = Bundle()
        """What gathers now."""
        *_, span = store.spans().values()
        self.last = span.last
        """The last tick of the current stream that is kept."""
        self.trouble: str | None = None
        """Why the last commit has failed, while it is tried again."""
        self._store = store
        self._metrics = metrics
        self._read = read
        self._distrust = distrust
        self._loop = asyncio.get_running_loop()
        self._committing: Bundle | None = None
        self._is_flush_due = self._is_closed = False
        self._waiting: list[Callable[[], None]] = []
        self._settled: list[asyncio.Future[None]] = []
        self._lazy: asyncio.TimerHandle | None = None
        self._writer = ThreadPoolExecutor(1, "tidings-commit")

    # -- gathering -----------------------------------------------------------------------------

    def out(self, outlet: Outlet, message: Any) -> None:
        """Send this, behind all that is to be sent so far."""
        out = self.bundle.out
        messages = out.get(outlet)
        if messages is None:
            out[outlet] = [message]
        else:
            messages.append(message)

    def end(self, outlet: Outlet) -> None:
        """Close this once it was sent what it is to be sent so far."""
        self.bundle.ended.append(outlet)

    def store(self, effect: Store) -> None:
        """Keep a value; that is in no hurry unless a sync follows."""
        self.bundle.values[effect.key] = effect.value

    def append(self, effect: Append) -> None:
        self.bundle.events.extend(effect.events)
        self.bundle.publishers.extend([effect.publisher] * len(effect.events))
        self.bundle.must_sync = True

    def raise_epoch(self, _: Raise) -> None:
        """Whatever is kept from now on is of the next epoch."""
        bundle = self.bundle
        bundle.before.append((bundle.values, bundle.events, bundle.publishers))
        bundle.values, bundle.events, bundle.publishers = {}, [], []
        bundle.must_sync = True

    def sync(self, _: Sync) -> None:
        """Whatever follows waits for what came before."""
        self.bundle.must_sync = True

    def read(self, effect: Read | Recall | EraseLog) -> None:
        """Read the log, or erase in it, once it holds what came before."""
        self.bundle.reads.append(effect)

    def gathered(self, effects: int) -> None:
        """Have the effects that were handed in carried out at the end of this turn of the loop."""
        self.bundle.effects += effects
        if not self._is_flush_due:
            self._is_flush_due = True
            self._loop.call_soon(self.flush)

    # -- holding back --------------------------------------------------------------------------

    @property
    def is_congested(self) -> bool:
        """Whether more is waiting than should be: take nothing more, and `when_free`."""
        return self.bundle.size > _MOST_BYTES or self.bundle.effects > _MOST_EFFECTS

    def when_free(self, resume: Callable[[], None]) -> None:
        """Call this once what is waiting has become less."""
        self._waiting.append(resume)

    @property
    def is_committing(self) -> bool:
        """Whether a commit is under way, or being tried again."""
        return self._committing is not None

    def _resume(self) -> None:
        if self._waiting and not self.is_congested:
            waiting, self._waiting = self._waiting, []
            for resume in waiting:
                resume()

    # -- carrying out --------------------------------------------------------------------------

    def flush(self) -> None:
        """Let go of the bundle, unless the one before it is still being committed."""
        self._is_flush_due = False
        if self._committing is not None or self._is_closed:
            return
        bundle, self.bundle = self.bundle, Bundle()
        if bundle.must_sync:
            self._commit(bundle)
            self._resume()  # the next bundle may gather meanwhile
            return
        if bundle.values:  # nothing waits for them: they need not be written at once
            self.bundle.values, bundle.values = bundle.values, {}
            if self._lazy is None:
                self._lazy = self._loop.call_later(_LAZY, self._commit_lazily)
        self._release(bundle)

    def _commit_lazily(self) -> None:
        self._lazy = None
        if self.bundle.values:
            self.bundle.must_sync = True
            self.flush()

    def _commit(self, bundle: Bundle) -> None:
        if self._is_closed:
            return
        self._committing = bundle
        work = self._writer.submit(self._write, bundle)
        work.add_done_callback(partial(self._from_thread, bundle, monotonic()))

    def _write(self, bundle: Bundle) -> None:
        """In the thread. What of it is done need not be done again if the rest fails."""
        while bundle.before:
            values, events, publishers = bundle.before[0]
            if values or events:
                self._store.commit(values, events, publishers)
                bundle.before[0] = ({}, [], [])
            self._store.raise_epoch()
            del bundle.before[0]
        self._store.commit(bundle.values, bundle.events, bundle.publishers)

    def _from_thread(self, bundle: Bundle, begun: float, work: Future[None]) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._committed, bundle, begun, work)

    def _committed(self, bundle: Bundle, begun: float, work: Future[None]) -> None:
        if work.cancelled():
            return  # it was closed before it was begun
        problem = work.exception()
        if isinstance(problem, DisorderError):
            self._committing, self.bundle = None, Bundle()
            self._distrust(problem)
            self._release(Bundle())
            return
        if problem is not None:
            # What is in the bundle was told to no one, so nothing is lost by trying again.
            if self.trouble is None:
                _log.error("cannot write to the store: %s", problem)
            self.trouble = f"the broker cannot write to its store: {problem}"
            self._loop.call_later(_RETRY, self._commit, bundle)
            return
        self.trouble = self._committing = None
        self._metrics.committed(monotonic() - begun)
        self._metrics.kept += len(bundle.events)
        *_, span = self._store.spans().values()
        self.last = span.last
        self._release(bundle)
        self.flush()

    def _release(self, bundle: Bundle) -> None:
        """Carry out what is left of a bundle once everything before it is kept."""
        for outlet, messages in bundle.out.items():
            try:
                outlet.send(messages)
            except Exception as problem:
                # One that can't be told must not keep others from being told. It will ask again.
                _log.exception("a message can't be sent")
                outlet.cut_off(f"can't be told something: {problem}")
        for outlet in bundle.ended:
            outlet.close()
        for each in bundle.reads:
            self._read(each)
        self._resume()
        if self._settled and self.is_settled:
            settled, self._settled = self._settled, []
            for future in settled:
                if not future.done():
                    future.set_result(None)

    # -- the end -------------------------------------------------------------------------------

    @property
    def is_settled(self) -> bool:
        """Whether nothing waits to be kept or said."""
        bundle = self.bundle
        return self._committing is None and not (bundle.values or bundle.must_sync or bundle.out)

    async def settle(self, within: float) -> bool:
        """Wait until nothing waits to be kept or said; whether that came about in time."""
        if self.bundle.values:
            self.bundle.must_sync = True
        self.flush()
        if self.is_settled:
            return True
        future = self._loop.create_future()
        self._settled.append(future)
        try:
            async with asyncio.timeout(within):
                await future
        except TimeoutError:
            return False
        return True

    async def close(self) -> None:
        """Carry out nothing more; a commit that is under way is waited for."""
        self._is_closed = True
        if self._lazy is not None:
            self._lazy.cancel()
        await asyncio.to_thread(self._writer.shutdown, cancel_futures=True)
