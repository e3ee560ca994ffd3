"""Receipts: who waits for what becomes of a publication."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from tidings.client.errors import PublishRefused
from tidings.events import TidingsError

OnRefused = Callable[[int, TidingsError], object]
"""Is told which notification (from 0) was refused, and why."""


class Receipt:
    """For one notification."""

    __slots__ = ("future",)

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.future: Final[asyncio.Future[int]] = loop.create_future()

    def kept(self, number: int) -> None:
        """It is on disk."""
        if not self.future.done():
            self.future.set_result(number)

    def failed(self, problem: TidingsError) -> None:
        """It is not, and will not be."""
        if not self.future.done():
            self.future.set_exception(problem)


class Many:
    """For many notifications that are published together; `future` is done when all are settled."""

    def __init__(self, loop: asyncio.AbstractEventLoop, on_refused: OnRefused | None) -> None:
        self.future: Final[asyncio.Future[None]] = loop.create_future()
        self.kept = 0
        self.problem: TidingsError | None = None
        self._on_refused = on_refused
        self._open = 1

    def receipt(self, index: int) -> _One:
        """For the next of them."""
        self._open += 1
        return _One(self, index)

    def close(self) -> None:
        """There are no more."""
        self.settle()

    def settle(self) -> None:
        """One more is settled."""
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


class _One:
    __slots__ = ("_index", "_many")

    def __init__(self, many: Many, index: int) -> None:
        self._many = many
        self._index = index

    def kept(self, number: int) -> None:
        self._many.kept += 1
        self._many.settle()

    def failed(self, problem: TidingsError) -> None:
        self._many.fail(self._index, problem, is_final=not isinstance(problem, PublishRefused))
