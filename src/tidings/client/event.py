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
    """What a subscription was told of: a mapping of what was published, exactly as it was said.

    An object's values are also there under the dotted names that filters have for them.
    """

    __slots__ = ("_event", "_others", "_said", "_source", "sequence")

    def __init__(
        self, event: NodeEvent, others: Cursor, sequence: int, source: Acknowledger
    ) -> None:
        self._event = event
        self._others = others
        self._source = source
        self._said: dict[str, Any] | None = None
        self.sequence: Final = sequence
        """Its number among the events that its subscription was told in this process, from 1."""

    @property
    def notification(self) -> Notification:
        """What was published, as filters see it: flat names, sets instead of lists."""
        return self._event.notification

    @property
    def body(self) -> bytes:
        """Exactly what was published: JSON without the space around its values, or the bytes."""
        return self._event.notification.body

    @property
    def content_type(self) -> str:
        """`application/json`, or what the publisher said of its bytes."""
        return self._event.notification.content_type

    @property
    def value(self) -> Any:
        """The JSON value that was published, or the bytes."""
        return self._event.notification.value

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
        said = self._mapping()
        return said[name] if name in said else self._event.notification[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._mapping())

    def __len__(self) -> int:
        return len(self._mapping())

    def __contains__(self, name: object) -> bool:
        return name in self._mapping() or name in self._event.notification

    def _mapping(self) -> dict[str, Any]:
        """What was published; made when it is first asked for."""
        if self._said is None:
            self._said = self._event.notification.said()
        return self._said

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
