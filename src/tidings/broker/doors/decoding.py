"""Decoding: frames become messages, on the loop if that is quick, else in a thread.

A filter may take seconds to bring into its canonical form, and all other clients would wait. How
long it takes is not known in advance, so it is tried with a small budget of work first.
"""

from __future__ import annotations

from concurrent.futures import Executor, Future
from typing import Any, Final

from tidings.events import Filter
from tidings.events.work import TooMuchWorkError, limited
from tidings.protocol.records import UNREADABLE, unread
from tidings.protocol.wire import MessageDecoder

_QUICK: Final = 10_000
"""Steps of work on the filters of a frame that are done on the loop."""


class UnreadableFilter(Filter):
    """Stands where a client has sent a filter that is none, or is above a limit."""

    __slots__ = ("reason",)

    def __init__(self, reason: str) -> None:
        super().__init__()
        self.reason = reason


class ClientDecoder(MessageDecoder):
    """Decodes what clients say.

    A filter that cannot be read is for the session to refuse: it should not end the connection,
    on which the client would come back and say it again.
    """

    def filter(self, text: object) -> Filter:
        try:
            return super().filter(text)
        except UNREADABLE as problem:
            return UnreadableFilter(str(unread("a filter", problem)))


class Decoding:
    """How the frames of a connection are decoded."""

    def __init__(self, decoder: MessageDecoder, threads: Executor) -> None:
        self._decoder = decoder
        self._threads = threads

    def at_once(self, payload: bytes) -> list[Any] | None:
        """The messages, or None if that would take long; `WireError` if they cannot be read."""
        try:
            with limited(_QUICK):
                return self._decoder.decode(payload)
        except TooMuchWorkError:
            return None

    def apart(self, payload: bytes) -> Future[list[Any]]:
        """The messages, once a thread has read them."""
        return self._threads.submit(self._decoder.decode, payload)
