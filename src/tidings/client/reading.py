"""A reading: one subscription's place in the streams, and what it was told of. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Final

from tidings.client.event import Event, Source
from tidings.events import Filter
from tidings.node.messages import Event as NodeEvent
from tidings.node.requests import Cursor, Progress, Refused, Since, Subscribe


class Reading:
    """Follows a subscription over all connections, by its position.

    The position is the vector of ticks up to which it was told everything. Events carry the
    position they were told at; most of it is shared among them: as long as events come from one
    stream, only its tick differs.

    Nothing is acknowledged that the program has not acknowledged, except silence: once all
    events are, so is all that lies behind the last of them.
    """

    def __init__(
        self,
        filter: Filter,
        *,
        durable: str | None = None,
        since: Since = None,
        most: int = 10_000,
        told: int = 0,
        now: float = 0.0,
    ) -> None:
        self.source: Source = self
        """What events are acknowledged to."""
        self.filter: Final = filter
        self.durable: Final = durable
        self.most: Final = most
        self.inbox: deque[Event] = deque()
        """What the program has not taken yet."""
        self.id = ""
        """Under which the broker knows it now; empty while it does not."""
        self.is_started = False
        """The broker has accepted it once, or has told more than there is room for."""
        self.is_live = False
        self.is_held = False
        """It was given up for a while, since its inbox is full."""
        self.missed = 0
        self.ending: Refused | None = None
        """Why it has ended, if the broker has ended it."""
        self._since = since
        # Of a stream that could not be reached so far, it wants what came after this.
        self._begun = now if since is None else since if isinstance(since, float) else 0.0
        self._is_placed = False
        """Whether it was told anything, so that its position says more than `since`."""
        # A cursor counts as told: what it says of a stream holds until more is heard of that one.
        self._others: Cursor = dict(since) if isinstance(since, dict) else {}
        self._stream = ""
        self._tick = 0
        self._told = told
        self._acknowledged = 0
        self._done: Cursor | None = None
        self._is_due = False
        self.unsaid = 0
        """So many events were acknowledged since the broker was told."""

    # -- position ------------------------------------------------------------------------------

    @property
    def position(self) -> Cursor:
        """The last tick told of each stream."""
        return {**self._others, self._stream: self._tick} if self._stream else self._others

    def request(self, id: str) -> Subscribe:
        """What to ask a broker for, under a new id: all behind the position."""
        self.id = id
        self.is_held = self.is_live = False
        self._is_due = self._done is not None  # the last acknowledgement may have been lost
        if self._is_placed:
            return Subscribe(id, self.filter, self.durable, self.position, self._begun)
        return Subscribe(id, self.filter, self.durable, self._since)

    def gone(self, *, is_held: bool = False) -> None:
        """The broker no longer knows it; perhaps since it was told to hold it."""
        self.id = ""
        self.is_live = False
        self.is_held = is_held
        self.is_started |= is_held

    def deliver(self, event: NodeEvent) -> bool:
        """Take an event; False if there is no room, and it must be told again later."""
        if len(self.inbox) >= self.most:
            if self.durable is not None or not self.is_live:
                return False
            self.missed += 1
            self._move(event)
        else:
            self.take(event)
        return True

    def take(self, event: NodeEvent) -> None:
        """Take an event, room or not."""
        self._move(event)
        self._told += 1
        self.inbox.append(Event(event, self._others, self._told, self.source))

    @property
    def is_crowded(self) -> bool:
        """Whether the program should read before more comes; there is still some room."""
        return self.most // 2 < len(self.inbox) < self.most

    def _move(self, event: NodeEvent) -> None:
        self._is_placed = True
        if event.stream != self._stream:
            self._others = self.position
            self._stream = event.stream
        self._tick = event.tick

    def progress(self, news: Progress) -> None:
        """It was told all up to here."""
        self._is_placed = True
        self._merge(news.cursor)
        self.is_live = news.is_live
        if self._acknowledged == self._told:
            self._acknowledge_all()

    def _merge(self, cursor: Mapping[str, int]) -> None:
        position = self.position
        ahead = {s: t for s, t in cursor.items() if t > position.get(s, -1)}
        if ahead:
            self._others, self._stream = {**position, **ahead}, ""

    # -- acknowledgements ----------------------------------------------------------------------

    def acknowledge(self, event: Event) -> None:
        """Everything up to this event is done with."""
        if event.sequence <= self._acknowledged:
            return
        self.unsaid += event.sequence - self._acknowledged
        self._acknowledged = event.sequence
        if event.sequence == self._told:
            self._acknowledge_all()
        else:
            self._done, self._is_due = event.position, True

    def _acknowledge_all(self) -> None:
        position = self.position
        if position != self._done:
            self._done, self._is_due = position, True

    @property
    def is_due(self) -> bool:
        """Whether there is an acknowledgement that the broker has not been told."""
        return self._is_due and self.durable is not None

    def acknowledgement(self) -> Cursor:
        """What to tell the broker, which is then told."""
        assert self._done is not None
        self._is_due, self.unsaid = False, 0
        return self._done
