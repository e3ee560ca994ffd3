"""Fetching: questions to the node that has a stream's log, and their answers, hop by hop."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from tidings.delivery.logs import Logs
from tidings.delivery.readers import Reader
from tidings.delivery.streams import Reached
from tidings.events import Filter
from tidings.protocol.host import Damaged
from tidings.protocol.messages import Fetch
from tidings.protocol.parts import UNTOLD, Kernel, Neighbour, Version


class Fetching:
    """What this node has asked for, and has not been answered yet."""

    def __init__(self, kernel: Kernel, reached: Reached, logs: Logs) -> None:
        self._kernel, self._reached, self._logs = kernel, reached, logs
        self._number = kernel.incarnation << 32
        """Answers to what an earlier node of this name asked may still be on their way."""
        self._asked: dict[int, tuple[Reader | None, Version]] = {}
        """For whom something is being fetched, and what its neighbour had been told before."""
        self._since: dict[int, float] = {}
        """When it was first noticed that something had been asked and not answered."""

    def __contains__(self, number: int) -> bool:
        return number in self._asked

    def __len__(self) -> int:
        return len(self._asked)

    def is_for(self, number: int, reader: Reader) -> bool:
        """Whether something is being fetched for this reader."""
        asked = self._asked.get(number)
        return asked is not None and asked[0] is reader

    def ask(
        self,
        stream: str,
        since: int,
        filter: Filter | None = None,
        *,
        after: float = 0.0,
        reader: Reader | None = None,
    ) -> int:
        """Ask for what lies behind a tick, or is not older than a time; the question's number."""
        self._number += 1
        number = self._number
        if number in self._asked:
            raise Damaged(f"{number} has been asked already")
        via = self._reached.ways.via(stream)
        self._asked[number] = (reader, UNTOLD if via is None else via.told)
        if via is None:
            assert self._reached.is_own(stream)
            fetch = Fetch(stream, since, after, filter, number, ())
            self._kernel.soon(partial(self._logs.answer, fetch))
        else:
            path = (self._kernel.name,)
            self._kernel.send(via, Fetch(stream, since, after, filter, number, path))
        return number

    def answered(self, number: int) -> tuple[Reader | None, Version] | None:
        """Who waits for an answer that has come; None if nobody does any more."""
        return self._asked.pop(number, None)

    def forget(self, number: int) -> None:
        """Nobody waits for that any more; an unknown number is no error."""
        self._asked.pop(number, None)

    def late(self, now: float, patience: float) -> set[int]:
        """What was not answered for too long."""
        self._since = {n: min(self._since.get(n, now), now) for n in self._asked}
        return {n for n, at in self._since.items() if now - at >= patience}

    def fetch(self, neighbour: Neighbour, message: Fetch) -> None:
        """Somebody asks for what lies in a log."""
        if not self._reached.passed_on(neighbour, message):
            self._logs.answer(message)

    def audit(self) -> Iterator[str]:
        """Whatever cannot be true of it."""
        if any(number > self._number for number in self._asked):
            yield f"{sorted(self._asked)} have been asked, and {self._number} was the last"
