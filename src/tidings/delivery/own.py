"""Own streams: what a node says itself, each under a name, with its log, its ticks and its silence.

A node publishes under its own name. It may have other streams besides, of what it knows rather
than of what its clients say; each has epochs of its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from tidings.delivery.log import Log, size
from tidings.events import Notification
from tidings.protocol.epochs import broker_of, epoch_of, stream_name
from tidings.protocol.messages import Event, More

Said: TypeAlias = tuple[Notification, bool, str]
"""What is to be kept, whether it goes to everybody, and its id or nothing."""


class OwnStream:
    """A stream of which the node has the log, in all its epochs.

    >>> paris = OwnStream("paris", {"paris": Log(first=1, last=3, time=5.0)})
    >>> [event] = paris.say([(Notification({"n": 1}), False, "")], time=4.0)
    >>> event.stream, event.tick, event.time
    ('paris', 4, 5.0)
    >>> paris.silence(), paris.silence(), paris.following
    (4, None, 'paris~2')
    """

    __slots__ = ("_logs", "name", "stream", "told")

    def __init__(self, name: str, logs: dict[str, Log[Event]]) -> None:
        """`logs` are those of all its epochs, and perhaps of other streams."""
        self.name = name
        self._logs = logs
        self.stream = max((s for s in logs if broker_of(s) == name), key=epoch_of)
        """That of the current epoch. All before it are closed: they end there for ever."""
        self.told = self.log.last
        """Up to here, neighbours know that they have all they want."""

    @property
    def log(self) -> Log[Event]:
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
