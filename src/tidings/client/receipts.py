"""Receipts: what a program has of what it published: its number, and where it is kept."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import overload

import msgspec

from tidings.events import TidingsError
from tidings.events.values import moment
from tidings.protocol.cursors import cursor_text
from tidings.protocol.requests import Kept


class Receipt(msgspec.Struct, frozen=True):
    """A notification is on its broker's disk.

    `subscribe(…, since=receipt)` reads one's own write: it begins with this event in its stream,
    and in all others with what was kept at that moment or later, by the clock of each broker. It
    may begin with some that its broker kept in the same moment before.

    >>> receipt = Receipt(3, "paris", 17, 1763200000.5)
    >>> receipt.id, receipt.cursor, receipt.time.year
    ('paris:17', 'paris:17', 2025)
    """

    number: int
    """Its number among those published under the client's name, from 1."""
    stream: str = ""
    """The stream it is in; empty if its broker no longer knows, as it was sent again later."""
    tick: int = 0
    """Its number in that stream."""
    seconds: float = 0.0
    """When its broker kept it, in seconds since 1970."""
    maybe_twice: bool = False
    """Whether another broker, which could not be asked, may have kept it, too."""

    @property
    def id(self) -> str:
        """Stream and tick, as `Event.id` of those who hear it."""
        return f"{self.stream}:{self.tick}" if self.stream else ""

    @property
    def time(self) -> datetime:
        """When its broker kept it, in UTC."""
        return moment(self.seconds)

    @property
    def cursor(self) -> str:
        """The place right behind it: whoever has come so far in its stream has heard it."""
        return cursor_text(self.position)

    @property
    def position(self) -> dict[str, int]:
        """The place right behind it."""
        return {self.stream: self.tick} if self.stream else {}

    def beginning(self) -> float:
        """Where a subscription begins that is to hear it; `TidingsError` if nobody knows."""
        if not self.stream:
            raise TidingsError(
                f"it is no longer known where publication {self.number} is kept, as it was told "
                "in an answer that got lost; give a time or a cursor as since"
            )
        return self.seconds


class Receipts(Sequence[Receipt]):
    """All that was published together: a sequence of receipts, which takes little room.

    >>> receipts = Receipts(7, 3, [Kept(7, 3, "paris", 40, 5.0)])
    >>> len(receipts), receipts[1].id, receipts.first.tick, receipts.last.number
    (3, 'paris:41', 40, 9)
    """

    __slots__ = ("_count", "_is_unsure", "_number", "_runs")

    def __init__(
        self, number: int, count: int, runs: Sequence[Kept], *, is_unsure: bool = False
    ) -> None:
        """`count` publications from a number on, and where they are kept, as far as is known.

        They may all be kept twice if that `is_unsure`.
        """
        self._number, self._count, self._runs = number, count, tuple(runs)
        self._is_unsure = is_unsure

    @property
    def first(self) -> Receipt:
        """That of the first."""
        return self[0]

    @property
    def last(self) -> Receipt:
        """That of the last."""
        return self[-1]

    @property
    def cursor(self) -> str:
        """The place right behind the last of them: see `Receipt.cursor`."""
        return self.last.cursor

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> Receipt: ...

    @overload
    def __getitem__(self, index: slice) -> list[Receipt]: ...

    def __getitem__(self, index: int | slice) -> Receipt | list[Receipt]:
        if isinstance(index, slice):
            return [self._at(each) for each in range(self._count)[index]]
        return self._at(range(self._count)[index])

    def _at(self, index: int) -> Receipt:
        return receipt_of(self._number + index, self._runs, is_unsure=self._is_unsure)

    def __repr__(self) -> str:
        return (
            f"<{self._count} receipts from {self.first!r} on>" if self._count else "<no receipts>"
        )


def receipt_of(number: int, runs: Sequence[Kept], *, is_unsure: bool = False) -> Receipt:
    """The receipt of a publication, if some of these runs are about it."""
    for run in runs:
        if run.number <= number <= run.last:
            stream, tick = run.place(number)
            return Receipt(number, stream, tick, run.time, run.is_maybe_twice or is_unsure)
    return Receipt(number, maybe_twice=is_unsure)


def beginning_of(since: Receipt | Receipts) -> float:
    """Where a subscription begins that is to hear all of this."""
    return since.beginning() if isinstance(since, Receipt) else since.first.beginning()
