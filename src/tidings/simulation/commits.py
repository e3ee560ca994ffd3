"""Commits: what a node with a log wants done, carried out as a broker does it.

      effects ──▶ batch ──┬── nothing to sync: out at once
                          └── commit, which takes a while ──▶ out when it is over
                                 (meanwhile the next batch gathers)

The order is that of `tidings.broker.commits`: at most one commit is under way, nothing that
follows a `Sync` is said before it is kept, and what is read is read from the disk, behind all that
was said. A commit that fails is tried again, with nobody told; part of it, or all, may have reached
the disk. The disk is written at some moment while a commit is under way, which others may see, and
a crash then leaves all of a transaction or nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from tidings.protocol.host import (
    Append,
    Damaged,
    Effect,
    EraseLog,
    Raise,
    Read,
    Recall,
    Store,
    Sync,
)
from tidings.protocol.messages import Event
from tidings.simulation.store import MemoryStore

_LAZY: Final = 0.1
"""Seconds after which what is stored without a sync is committed."""
_RETRY: Final = 1.0
"""Seconds after which a commit that failed is tried again."""


@dataclass(slots=True)
class Transaction:
    """What is kept as a whole or not at all: values and events, or the beginning of an epoch."""

    raises: str = ""
    """The stream that begins, if that is what it does."""
    values: dict[str, Any] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)

    def write(self, store: MemoryStore) -> None:
        """Keep it; `Damaged` if it cannot follow on what is kept."""
        if self.raises:
            store.raise_epoch(self.raises)
        else:
            store.commit(self.values, self.events)


@dataclass(slots=True)
class Batch:
    """Effects that are carried out together."""

    transactions: list[Transaction] = field(default_factory=lambda: [Transaction()])
    """To be written, in order; the last one gathers."""
    must_sync: bool = False
    out: list[Effect] = field(default_factory=list)
    reads: list[Effect] = field(default_factory=list)
    last: int | None = None
    """The node crashes within this effect; the first is the commit, this one or a later."""


class Commits:
    """The commits of one node, until it crashes."""

    def __init__(
        self,
        store: MemoryStore,
        random: Random,
        *,
        seconds: Callable[[], float],
        later: Callable[[float, Callable[[], None]], None],
        carry_out: Callable[[list[Effect]], None],
        distrust: Callable[[Damaged], None],
        crash: Callable[[], None],
    ) -> None:
        """A commit takes up to `seconds`; `later` has something done after some seconds.

        `carry_out` is given what may be said, or read; `distrust` is told if what is to be kept
        cannot be true; `crash` ends the node.
        """
        self._store = store
        self._random = random
        self._seconds = seconds
        self._later = later
        self._carry_out = carry_out
        self._distrust = distrust
        self._crash = crash
        self._batch = Batch()
        self._committing: Batch | None = None
        self._is_flush_due = self._is_lazy_due = self._is_over = False

    # -- gathering -----------------------------------------------------------------------------

    def gather(self, effects: list[Effect]) -> None:
        """The node wants this done; a flush follows when all that happens now has happened."""
        batch = self._batch
        for effect in effects:
            if isinstance(effect, Store):
                batch.transactions[-1].values[effect.key] = effect.value
            elif isinstance(effect, Append):
                batch.transactions[-1].events.extend(effect.events)
                batch.must_sync = True
            elif isinstance(effect, Raise):
                batch.transactions += [Transaction(effect.stream), Transaction()]
                batch.must_sync = True
            elif isinstance(effect, Sync):
                batch.must_sync = True
            elif isinstance(effect, Read | Recall | EraseLog):
                batch.reads.append(effect)
            else:
                batch.out.append(effect)
        if effects and not self._is_flush_due:
            self._is_flush_due = True
            self._later(0.0, self._flush)

    def crash_within(self, effect: int) -> None:
        """The node crashes while this effect of the batch that gathers is carried out.

        The first is the next commit, whenever that is.
        """
        self._batch.last = effect

    def spare(self) -> None:
        """The node does not crash that was about to."""
        for batch in self._batches():
            batch.last = None

    def stop(self) -> None:
        """The node has crashed: nothing more is written or said."""
        self._is_over = True

    @property
    def is_settled(self) -> bool:
        """Whether nothing waits to be said."""
        batch = self._batch
        return self._committing is None and not (batch.must_sync or batch.out or batch.reads)

    def versions(self, key: str) -> list[Any]:
        """All values of a key that a crash may leave; None if it may leave none."""
        written = [
            t.values[key] for b in self._batches() for t in b.transactions if key in t.values
        ]
        return [self._store.content.get(key), *written]

    def events(self, stream: str) -> list[Event]:
        """Those of a stream that are yet to be kept."""
        rows = (t.events for batch in self._batches() for t in batch.transactions)
        return [event for row in rows for event in row if event.stream == stream]

    def _batches(self) -> list[Batch]:
        return [self._batch] if self._committing is None else [self._committing, self._batch]

    # -- carrying out --------------------------------------------------------------------------

    def _flush(self) -> None:
        """Let go of the batch, unless the one before it is still being committed."""
        self._is_flush_due = False
        if self._committing is not None or self._is_over:
            return
        batch, self._batch = self._batch, Batch()
        if batch.must_sync:
            self._committing = batch
            self._commit()
            return
        if batch.transactions[-1].values:  # nothing waits for them
            self._batch.transactions = batch.transactions
            if not self._is_lazy_due:
                self._is_lazy_due = True
                self._later(_LAZY, self._commit_lazily)
        if batch.last == 1:
            batch.last, self._batch.last = None, 1
        self._release(batch)

    def _commit_lazily(self) -> None:
        self._is_lazy_due = False
        if self._batch.transactions[-1].values:
            self._batch.must_sync = True
            self._flush()

    def _commit(self) -> None:
        """Write one transaction after the other, or only some of them if the commit is to fail."""
        batch, random = self._committing, self._random
        if self._is_over or batch is None:
            return
        takes = random.random() * self._seconds()
        number, end = len(batch.transactions), self._committed
        if self._store.failures:
            end, is_kept = self._failed, self._store.failures.pop(0)
            number = random.randrange(number) + is_kept if number else 0
        for moment in sorted(random.random() for _ in range(number)):
            self._later(takes * moment, self._write)
        if batch.last == 1:
            self._later(takes * random.random(), self._crash_here)
        self._later(takes, end)

    def _write(self) -> None:
        """What is written need not be written again if the rest fails."""
        if self._is_over or self._committing is None:
            return
        try:
            self._committing.transactions.pop(0).write(self._store)
        except Damaged as problem:
            self._distrust(problem)

    def _crash_here(self) -> None:
        if not self._is_over and self._committing is not None and self._committing.last == 1:
            self._crash()

    def _failed(self) -> None:
        """Nobody has been told of what is in the batch, so nothing is lost by trying again."""
        self._later(_RETRY, self._commit)

    def _committed(self) -> None:
        batch = self._committing
        if self._is_over or batch is None:
            return
        self._committing = None
        self._release(batch)
        if not self._is_over:
            self._flush()

    def _release(self, batch: Batch) -> None:
        """Carry out what is left of a batch once everything before it is kept."""
        effects = [*batch.out, *batch.reads]
        if batch.last is None:
            self._carry_out(effects)
        else:
            self._carry_out(effects[: max(0, batch.last - 1 - batch.must_sync)])
            self._crash()
