"""A node's own streams, what it says in them, and their logs.

Of a log the latest events are in memory, and of the rest the numbers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Final, TypeAlias

from tidings.events import Notification
from tidings.protocol.epochs import broker_of, epoch_of, stream_name
from tidings.protocol.messages import Event, More

TAIL: Final = 4_096
"""The latest events that are kept in memory, where readers catch up without a pause."""
BYTES: Final = 16 << 20
"""Bytes of events that are kept in memory at most."""

Said: TypeAlias = tuple[Notification, bool, str]
"""What is to be kept, whether it goes to everybody, and its id or nothing."""


class Log:
    """What is kept of a stream: the ticks from `first` to `last`.

    >>> log = Log(first=1, last=40, time=7.0)
    >>> log.recent(30) is None, log.recent(40)
    (True, [])
    """

    def __init__(self, *, first: int, last: int, time: float, tail: int = TAIL) -> None:
        self.first, self.last = first, last
        self.begun = last
        """Where it ended when this node started."""
        self.time = time
        """Of the last event."""
        self._tail: deque[Event] = deque()
        self._parts: deque[tuple[int, int]] = deque()
        """How many events were appended together, and their size."""
        self._longest, self._size = tail, 0

    def extend(self, events: Sequence[Event], size: int = 0) -> None:
        """The next events of the stream, and about how many bytes they are."""
        assert events[0].tick == self.last + 1
        self.last, self.time = events[-1].tick, events[-1].time
        self._tail.extend(events)
        self._parts.append((len(events), size))
        self._size += size
        while self._parts and (
            len(self._tail) - self._parts[0][0] > self._longest or self._size > BYTES
        ):
            count, gone = self._parts.popleft()
            self._size -= gone
            for _ in range(count):
                self._tail.popleft()

    def recent(self, since: int) -> list[Event] | None:
        """All events behind `since`; None if the older ones must be read."""
        skipped = len(self._tail) - (self.last - since)
        if skipped < 0:
            return None
        return list(islice(self._tail, skipped, None))

    def tick_before(self, time: float) -> int | None:
        """The last tick before a time; None if that must be looked up in the store."""
        if time > self.time:
            return self.last
        if not self._tail or self._tail[0].time >= time:
            return None if self.first <= self.last - len(self._tail) else self.first - 1
        tick = max(e.tick for e in self._tail if e.time < time)
        return max(tick, self.first - 1)  # what was trimmed may be in memory still

    def audit(self) -> Iterator[str]:
        """Whatever cannot be true of it."""
        tail = [event.tick for event in self._tail]
        if tail != list(range(self.last - len(tail) + 1, self.last + 1)):
            yield f"the end of the log is {tail[:1]} to {tail[-1:]}, not {self.last}"
        if self._tail and self._tail[-1].time != self.time:
            yield f"the last event is of {self._tail[-1].time}, not of {self.time}"
        counted = sum(count for count, _ in self._parts), sum(size for _, size in self._parts)
        if counted != (len(tail), self._size):
            yield f"{len(tail)} events of {self._size} bytes are counted as {counted}"
        if not 1 <= self.first <= self.last + 1:
            yield f"the log is from {self.first} to {self.last}"

    def amend(self, change: Callable[[Event], Event]) -> None:
        """Put other events in the places of those in memory: of the same ticks and times."""
        self._tail = deque(map(change, self._tail))

    def trim(self, first: int) -> None:
        """What comes before this tick is no longer kept."""
        self.first = max(self.first, first)


def size(notification: Notification) -> int:
    """About how many bytes it takes; exact enough to keep messages small."""
    if notification.packed is not None:
        return len(notification.packed)
    return 16 * len(notification.attributes) + sum(
        len(v) for v in notification.attributes.values() if isinstance(v, str | bytes)
    )


class OwnStream:
    """A stream of which the node has the log, in all its epochs, under a name.

    A node publishes under its own name. It may have other streams besides, of what it knows rather
    than of what its clients say; each has epochs of its own.

    >>> paris = OwnStream("paris", {"paris": Log(first=1, last=3, time=5.0)})
    >>> [event] = paris.say([(Notification({"n": 1}), False, "")], time=4.0)
    >>> event.stream, event.tick, event.time
    ('paris', 4, 5.0)
    >>> paris.silence(), paris.silence(), paris.following
    (4, None, 'paris~2')
    """

    __slots__ = ("_logs", "name", "stream", "told")

    def __init__(self, name: str, logs: dict[str, Log]) -> None:
        """`logs` are those of all its epochs, and perhaps of other streams."""
        self.name = name
        self._logs = logs
        self.stream = max((s for s in logs if broker_of(s) == name), key=epoch_of)
        """That of the current epoch. All before it are closed: they end there for ever."""
        self.told = self.log.last
        """Up to here, neighbours know that they have all they want."""

    @property
    def log(self) -> Log:
        """That of the current epoch."""
        return self._logs[self.stream]

    @property
    def following(self) -> str:
        """What the stream of the next epoch is called."""
        return stream_name(self.name, epoch_of(self.stream) + 1)

    def say(self, said: Iterable[Said], time: float) -> list[Event]:
        """Put this into the log as the next events."""
        log, stream = self.log, self.stream
        moment = max(time, log.time)
        events = [
            Event(stream, tick, notification, flood, moment, More(id) if id else None)
            for tick, (notification, flood, id) in enumerate(said, log.last + 1)
        ]
        if events:
            log.extend(events, sum([size(event.notification) for event in events]))
        return events

    def raise_epoch(self) -> None:
        """Close the current stream, and begin the following one."""
        self._logs[self.following] = Log(first=1, last=0, time=self.log.time)
        self.stream, self.told = self.following, 0

    def silence(self) -> int | None:
        """Up to where nothing more is to be expected, if that is news to the neighbours."""
        last = self.log.last
        if last <= self.told:
            return None
        self.told = last
        return last
