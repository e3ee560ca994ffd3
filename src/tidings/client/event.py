"""Events, as a subscriber gets them: what happened, and where it stands in its stream."""

from __future__ import annotations

from collections.abc import Awaitable, Generator, Iterator, Mapping
from datetime import datetime
from typing import Any, Final, Protocol

from tidings.events import Notification
from tidings.events.values import moment
from tidings.protocol.cursors import cursor_text
from tidings.protocol.messages import Event as NodeEvent
from tidings.protocol.requests import Cursor


class Acknowledger(Protocol):
    """The subscription that an event came by."""

    def acknowledge(self, event: Event) -> Awaitable[None]:
        """Everything up to this event is never told again, once this was awaited."""

    def acknowledge_soon(self, event: Event) -> None:
        """Everything up to this event need not be told again."""


class Event(Mapping[str, Any]):
    """A notification that a subscription was told of: a mapping of its attributes."""

    __slots__ = ("_event", "_others", "_source", "sequence")

    def __init__(
        self, event: NodeEvent, others: Cursor, sequence: int, source: Acknowledger
    ) -> None:
        self._event = event
        self._others = others
        self._source = source
        self.sequence: Final = sequence
        """Its number among the events that its subscription was told in this process, from 1."""

    @property
    def notification(self) -> Notification:
        """What was published."""
        return self._event.notification

    @property
    def stream(self) -> str:
        """The stream it belongs to, named after the broker where it was published."""
        return self._event.stream

    @property
    def tick(self) -> int:
        """Its number in its stream."""
        return self._event.tick

    @property
    def id(self) -> str:
        """Stream and tick, like `paris:17`: no other event has the same."""
        return f"{self._event.stream}:{self._event.tick}"

    @property
    def time(self) -> datetime:
        """When its broker took it, in UTC; cut to microseconds, so `since` it includes it."""
        return moment(self._event.time)

    @property
    def seconds(self) -> float:
        """When its broker took it, in seconds since 1970 and not cut."""
        return self._event.time

    @property
    def cursor(self) -> str:
        """The subscription's position up to and with this event, for `since`."""
        return cursor_text(self.position)

    @property
    def position(self) -> Cursor:
        """The subscription's position up to and with this event: for each stream a tick."""
        return {**self._others, self._event.stream: self._event.tick}

    def ack(self) -> Awaitable[None]:
        """Everything the subscription got up to this event is done with: never tell it again.

        `await event.ack()` returns when the broker has it on disk: then none of it comes again,
        whatever crashes. Many may be under way at once, and share a commit. With the plain client,
        `event.ack()` returns then. `SubscriptionRefused` if somebody else has the name by now.
        """
        return self._source.acknowledge(self)

    def ack_soon(self) -> None:
        """As `ack`, but without waiting: the broker is told within a fifth of a second.

        Far cheaper than `ack` for each event by itself. After a crash, what the broker was not
        told by then comes again. `Client.flush` waits until all of it is on disk.
        """
        self._source.acknowledge_soon(self)

    def __getitem__(self, name: str) -> Any:
        return self._event.notification[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._event.notification)

    def __len__(self) -> int:
        return len(self._event.notification)

    def __contains__(self, name: object) -> bool:
        return name in self._event.notification

    def __eq__(self, other: object) -> bool:
        """Whether it is the same event; or, of another mapping, whether it says the same."""
        if isinstance(other, Event):
            return self.stream == other.stream and self.tick == other.tick
        return dict(self) == other if isinstance(other, Mapping) else NotImplemented

    def __hash__(self) -> int:
        return hash((self.stream, self.tick))

    def __repr__(self) -> str:
        return f"<Event {self.id} {dict(self)!r}>"


class _Done:
    """Something to await that is done already."""

    def __await__(self) -> Generator[None, None, None]:
        return
        yield


DONE: Final = _Done()
