"""A copying: how much of a broker's log has come, over any number of connections. Pure."""

from __future__ import annotations

from collections import deque
from typing import Final

from tidings.protocol.requests import Refused
from tidings.protocol.wire import Copied, Copy

_AHEAD: Final = 2
"""Answers that may wait for the program before no further one is asked for."""


class Copying:
    """Asks for the log piece by piece, the next one as soon as one has come.

    So a broker reads while the program is at work, and little is in memory however slow that is.
    """

    def __init__(self, stream: str, after: int, upto: int) -> None:
        self.stream: Final = stream
        self.upto: Final = upto
        self.id = ""
        """Of the request that is under way; empty while there is none."""
        self.inbox: deque[Copied] = deque()
        self.position = after
        """All up to here has come."""
        self.is_done = after >= upto
        self.ending: Refused | None = None
        """Why it has ended, if the broker has refused to go on."""

    @property
    def is_due(self) -> bool:
        """Whether there is something to ask for."""
        is_over = self.is_done or self.ending is not None
        return not (self.id or is_over) and len(self.inbox) < _AHEAD

    def request(self, id: str) -> Copy:
        """What to ask for, under a new id."""
        self.id = id
        return Copy(id, self.stream, self.position, self.upto)

    def came(self, answer: Copied) -> None:
        """The broker has answered."""
        self.id = ""
        self.inbox.append(answer)
        # A piece without anything in it is the end, too: else it would be asked for for ever.
        self.is_done = answer.upto >= min(self.upto, answer.last) or answer.upto <= self.position
        self.position = max(self.position, answer.upto)

    def gone(self) -> None:
        """The request was lost with its connection."""
        self.id = ""

    def refused(self, refusal: Refused) -> None:
        """The broker has refused to go on."""
        self.id, self.ending = "", refusal
