"""The disk: what the host of a node asks of whatever outlives a crash."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from tidings.protocol.host import Span
from tidings.protocol.messages import Event


class Eraser(Protocol):
    """What is to be erased, and what takes its place."""

    def matches(self, event: Event) -> bool:
        """Whether an event is to be erased."""

    def has_erased(self, event: Event) -> bool:
        """Whether an event is what stands in the place of one that this has erased."""

    def is_erased(self, event: Event) -> bool:
        """Whether an event stands in the place of one that was erased, by whomever."""

    def tombstone(self, event: Event) -> Event:
        """What stands in the place of an event: one of the same tick and time."""


class Erased(NamedTuple):
    """What an erasure has found in a log."""

    erased: int
    """The events that are erased by it, now or before; or that would be."""
    last: int = 0
    """The last tick where something is erased, by whatever erasure."""
    damaged: tuple[tuple[int, int], ...] = ()
    """Ticks that cannot be read, from the first to the last: nobody knows what is in them."""


class Disk(Protocol):
    """A broker's values and logs, as its host sees them.

    Any method may raise `StoreError`, whose text is a sentence. Any thread may call any method;
    a read waits for no commit.
    """

    @property
    def trouble(self) -> str | None:
        """A sentence that says why nothing new should be accepted; None if all is well."""

    @property
    def raised(self) -> str | None:
        """What was wrong when the store was opened, if an epoch was begun for it, in sentences."""

    def content(self) -> dict[str, Any]:
        """All values, by their keys."""

    def spans(self) -> dict[str, Span]:
        """What is kept of each stream of the broker, in order of epochs.

        The last one is the current stream; the others are closed, and end there for ever. A
        closed stream of which nothing is kept any more has a span that is empty, at its end.
        """

    def commit(
        self, values: Mapping[str, Any], events: Sequence[Event], publishers: Sequence[str] = ()
    ) -> None:
        """Set values (None forgets one) and append events: all of it, and for good, or nothing.

        Events are of the current stream, and follow on what it has. `publishers` are the names
        under which each was published, if they are known. A commit that raises may be
        tried again, alone or together with what follows it; not one that raises `DisorderError`.
        """

    def raise_epoch(self) -> str:
        """Close the current stream where it ends, and begin the next one, which is returned.

        Its epoch is higher than any this store knows of.
        """

    def read(
        self, stream: str, since: int, *, after: float = 0.0, limit: int
    ) -> tuple[int, int, tuple[Event, ...]]:
        """All of a stream in (since, upto], as (since, upto, events); see `Read`.

        The returned `since` is above the given one if what lies between is no longer kept.
        There may be somewhat more or fewer events than `limit`, but none only if none are left.
        Where the log is damaged it ends before that; `LogDamageError` if it would begin there.
        """

    def copy(
        self, stream: str, after: int, *, upto: int, size: int
    ) -> tuple[int, int, tuple[bytes, ...]]:
        """A stream behind a tick, undecoded: (since, upto, blocks), each block as `pack` made it.

        There are about `size` bytes, or as many as there are up to the given tick. The returned
        `since` is above the given one if what lies between is no longer kept. The first block may
        begin before it, and the returned `upto`, the end of the last one, may be above the given.
        Where the log is damaged it ends before that; `LogDamageError` if it would begin there.
        """

    def trim(
        self,
        *,
        before: float | None = None,
        size: int | None = None,
        upto: Mapping[str, int] | None = None,
    ) -> int:
        """Forget events older than a time, and the oldest above a size.

        Closed streams go first. If `upto` is given, nothing goes that lies behind its tick for
        a stream, and nothing of a stream that it does not name. Whole rows go, and never the
        last of the current stream, so that no tick is used twice. The first tick that is kept
        of the current stream is returned. To be called from time to time even if nothing is to
        be forgotten: it also mends `trouble` where it can.
        """

    def erase(self, stream: str, eraser: Eraser, *, upto: int, is_dry: bool = False) -> Erased:
        """Put tombstones in the places of events up to a tick; or only count these, if `is_dry`.

        Afterwards nothing of them is left in the files of the store, also of those that were
        trimmed before, and that would survive a crash. If it raises, some may be erased, and it
        may be tried again. It takes a while, in which all else goes on.
        """

    def close(self) -> None:
        """Let go of everything; a second time is no error."""
