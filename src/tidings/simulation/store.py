"""A store in memory that forgets in a crash what was not kept, and may be damaged."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from itertools import takewhile
from random import Random
from typing import Any, Final

from tidings.delivery.erased import Eraser
from tidings.protocol.epochs import stream_name
from tidings.protocol.host import Damaged, Read, Records, Span, Unreadable
from tidings.protocol.messages import Event

_RAISE: Final = "~"
"""Stands in the place of a key where an epoch begins."""
_ERASE: Final = "~erased"
"""Stands in the place of a key where events have made room for others of their ticks."""


class MemoryStore:
    """What a node stores and logs.

    A node with a log commits: all of a transaction survives a crash, or nothing. What another one
    writes survives once it is synced; later writes may, in order. Only damage takes away what was
    kept: see `go_back`.
    """

    def __init__(self, name: str, *, is_fragile: bool = False) -> None:
        """A fragile one can go back; for that it remembers all that was ever written."""
        self.content: dict[str, Any] = {}
        self.logs: dict[str, list[Event]] = {name: []}
        """By stream; the last one is the current."""
        self.ever: dict[str, list[Event]] = {name: []}
        """The same with what is lost: the only content that a tick may ever have."""
        self.firsts: dict[str, int] = {name: 1}
        """Each log is kept from this tick on."""
        self.failures: list[bool] = []
        """The next commits fail: whether what they were to keep is kept all the same."""
        self._spoilt: set[tuple[str, int]] = set()
        self._name = name
        self._unsynced: list[tuple[str, Any]] = []
        self._journal: list[list[tuple[str, Any]]] | None = [] if is_fragile else None

    @property
    def stream(self) -> str:
        """The current one."""
        return list(self.logs)[-1]

    @property
    def log(self) -> list[Event]:
        """That of the current stream."""
        return self.logs[self.stream]

    def write(self, key: str, value: Any) -> None:
        """Remember to keep a value; None forgets the key."""
        self._unsynced.append((key, value))

    def sync(self) -> None:
        """Keep all that was written so far."""
        self._keep_written(len(self._unsynced))

    def crash(self, random: Random) -> None:
        """Some of what was not synced is kept, the rest is gone."""
        self._keep_written(random.randint(0, len(self._unsynced)))

    def written(self) -> dict[str, Any]:
        """All values, those among them that are yet to be synced."""
        found = dict(self.content) | dict(self._unsynced)
        return {k: v for k, v in found.items() if v is not None}

    def commit(self, values: Mapping[str, Any], events: Sequence[Event]) -> None:
        """Keep values and events; `Damaged` if these do not follow on what the log has."""
        stream, last = list(self.spans().items())[-1]
        for event in events:
            if event.stream != stream or event.tick != last.last + 1 or event.time < last.time:
                raise Damaged(f"{event.stream}:{event.tick} cannot follow on {last}")
            last = Span(last.first, event.tick, event.time)
        self._keep([*values.items(), *(("", event) for event in events)])

    def raise_epoch(self, stream: str) -> None:
        """Close the current stream, and begin this one."""
        self._keep([(_RAISE, stream)])

    def go_back(self, commits: int, *, is_noticed: bool = True) -> None:
        """Lose the last commits though they were synced, as if restored from an older copy.

        A store that notices begins a new epoch, higher than any that it ever had.
        """
        assert self._journal is not None
        epochs = len(self.ever)
        del self._journal[max(0, len(self._journal) - commits) :]
        self.content, self.logs = {}, {self._name: []}
        for commit in self._journal:
            for key, value in commit:
                self._apply(key, value)
        if is_noticed:
            for epoch in range(len(self.logs) + 1, epochs + 2):
                stream = stream_name(self._name, epoch)
                self._journal.append([(_RAISE, stream)])
                self._apply(_RAISE, stream)
        for stream, log in self.logs.items():
            self.firsts[stream] = min(self.firsts.get(stream, 1), len(log) + 1)

    def spans(self) -> dict[str, Span]:
        """What of each log is kept."""
        return {
            stream: Span(self.firsts.get(stream, 1), len(log), log[-1].time if log else 0.0)
            for stream, log in self.logs.items()
        }

    def read(self, read: Read) -> Records | Unreadable:
        """What a node asked to read."""
        stream, since, log = read.stream, read.since, self.logs[read.stream]
        if read.after > 0.0:
            since = bisect_left(log, read.after, key=lambda event: event.time)
        since = upto = max(since, self.firsts[stream] - 1)
        while (stream, upto + 1) in self._spoilt:
            upto += 1
        if upto > since:
            return Unreadable(read.number, since, upto)
        wanted, spoilt = log[since : since + read.limit], self._spoilt
        events = tuple(takewhile(lambda event: (stream, event.tick) not in spoilt, wanted))
        return Records(read.number, since, since + len(events), events)

    def spoil(self, ticks: range) -> None:
        """Damage what the disk holds of these ticks of the current stream."""
        self._spoilt.update((self.stream, tick) for tick in ticks if tick <= len(self.log))

    def has(self, stream: str, tick: int) -> bool:
        """Whether an event can be read."""
        return tick >= self.firsts[stream] and (stream, tick) not in self._spoilt

    def erase(self, stream: str, ticks: range, eraser: Eraser) -> None:
        """Put tombstones in the places of what is to be erased among these ticks."""
        log = [event for tick in ticks for event in self.logs[stream][tick - 1 : tick]]
        erased = [eraser.tombstone(event) for event in log if eraser.matches(event)]
        if erased:
            self._keep([(_ERASE, erased)])

    def trim(self, stream: str, first: int) -> None:
        """Keep a log from this tick on only."""
        self.firsts[stream] = max(self.firsts[stream], min(first, len(self.logs[stream]) + 1))

    def _keep_written(self, number: int) -> None:
        self._keep(self._unsynced[:number])
        self._unsynced.clear()

    def _keep(self, kept: list[tuple[str, Any]]) -> None:
        for key, value in kept:
            self._apply(key, value)
            if not key:
                self._remember(value)
        if kept and self._journal is not None:
            self._journal.append(kept)

    def _apply(self, key: str, value: Any) -> None:
        if not key:
            self.log.append(value)
        elif key == _RAISE:
            self.logs[value] = []
            self.ever.setdefault(value, [])
            self.firsts.setdefault(value, 1)
        elif key == _ERASE:
            for event in value:
                self.logs[event.stream][event.tick - 1] = event
        elif value is None:
            self.content.pop(key, None)
        else:
            self.content[key] = value

    def _remember(self, event: Event) -> None:
        """No tick gets a second content."""
        ever = self.ever[event.stream]
        if event.tick <= len(ever):
            raise AssertionError(f"{event.stream}:{event.tick} is given out a second time")
        ever.append(event)
