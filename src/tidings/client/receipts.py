"""Receipts: who waits for what becomes of a publication, and how they are told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

from tidings.client.errors import OutcomeUnknown, PublishRefused, PublishRefusedForNow
from tidings.client.outbox import UNKNOWN, Publication
from tidings.events import TidingsError
from tidings.protocol.requests import Refused

OnRefused = Callable[[int, TidingsError], object]
"""Called with the index (from 0) of a notification that was refused, and the error."""


class Waiting(Protocol):
    """Who waits for one publication."""

    def kept(self, number: int) -> None:
        """It is on disk, with this number."""

    def failed(self, problem: TidingsError) -> None:
        """It is not, and will not be."""


def settle(publication: Publication, refusal: Refused | None) -> None:
    """Tell its receipt what became of a publication: it is kept if it was not refused."""
    if refusal is None:
        publication.receipt.kept(publication.number)
    elif refusal.id == UNKNOWN:
        publication.receipt.failed(OutcomeUnknown(refusal.reason))
    else:
        error = PublishRefusedForNow if refusal.is_passing else PublishRefused
        publication.receipt.failed(error(refusal.reason))


class Receipt:
    """Who waits for one notification; `future` has its number when it is kept."""

    __slots__ = ("future",)

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.future: Final[asyncio.Future[int]] = loop.create_future()

    def kept(self, number: int) -> None:
        if not self.future.done():
            self.future.set_result(number)

    def failed(self, problem: TidingsError) -> None:
        if not self.future.done():
            self.future.set_exception(problem)


class Many:
    """Who waits for many notifications together; `future` is done when all are settled."""

    def __init__(self, loop: asyncio.AbstractEventLoop, on_refused: OnRefused | None) -> None:
        self.future: Final[asyncio.Future[None]] = loop.create_future()
        self.kept = 0
        self.problem: TidingsError | None = None
        self._on_refused = on_refused
        self._open = 1

    def receipt(self, index: int) -> _OneOfMany:
        """For the next of them, which has this index."""
        self._open += 1
        return _OneOfMany(self, index)

    def close(self) -> None:
        self.settle()

    def settle(self) -> None:
        self._open -= 1
        if self._open == 0 and not self.future.done():
            if self.problem is not None:
                self.future.set_exception(self.problem)
            else:
                self.future.set_result(None)

    def fail(self, index: int, problem: TidingsError, *, is_final: bool) -> None:
        """One of them is refused."""
        if self._on_refused is None or is_final:
            self.problem = self.problem or problem
        else:
            self._on_refused(index, problem)
        self.settle()


class _OneOfMany:
    __slots__ = ("_index", "_many")

    def __init__(self, many: Many, index: int) -> None:
        self._many = many
        self._index = index

    def kept(self, number: int) -> None:
        self._many.kept += 1
        self._many.settle()

    def failed(self, problem: TidingsError) -> None:
        self._many.fail(self._index, problem, is_final=not isinstance(problem, PublishRefused))
