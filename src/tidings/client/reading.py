"""A reading: one subscription's place in the streams, and what it was told of. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Mapping
from typing import Final, NamedTuple

from msgspec.structs import replace

from tidings.client.event import DONE, Acknowledger, Event
from tidings.events import Filter
from tidings.protocol.messages import Event as NodeEvent
from tidings.protocol.requests import (
    Accepted,
    Acknowledge,
    Cursor,
    Doubtful,
    Home,
    Missed,
    Progress,
    Refused,
    Since,
    Subscribe,
)

_TRIES: Final = 10
"""How often a subscription that has not begun is asked for, while it is refused for now."""
BY_NAME: Final = "durable "
"""What the id of an acknowledgement begins with while the broker does not know the reading."""


class Told(NamedTuple):
    """What a program was told before its subscription began, by a lake for example.

    It is not told again, and a durable subscription stays where it is until it is acknowledged.
    """

    position: Mapping[str, int] = {}
    """The cursor up to which the program was told everything."""
    events: int = 0
    """How many events that were."""
    owner: str = ""
    """A random text that stands for the reader that has a durable subscription, until another one
    takes it."""


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
        told: Told = Told(),  # noqa: B008 - it cannot change
        replace: bool = False,
        is_noted: bool = False,
        home: Home = "",
        bulk: str | None = None,
        times: bool = False,
    ) -> None:
        self.source: Acknowledger = self
        """What events are acknowledged to."""
        self.filter: Final = filter
        self.durable: Final = durable
        self.most: Final = most
        self.inbox: deque[Event] = deque()
        """What the program has not taken yet."""
        self.id = ""
        """The id under which the broker knows it now; empty while it does not."""
        self.is_started = False
        """The broker has accepted it once, or has told more than there is room for."""
        self.is_live = False
        self.is_held = False
        """It was given up for a while, since its inbox is full."""
        self.missed = 0
        """Events that it was not told of, since the program did not read."""
        self.lost_ticks = 0
        """Ticks that were no longer kept: some of them may have been events for it."""
        self.ending: Refused | None = None
        """Why it has ended, if the broker has ended it."""
        self.warnings: dict[str, None] = {}
        """What the broker finds odd about it, each said once."""
        self.tries = 0
        """How often it was refused for now, since it was accepted last."""
        self.doubted = 0
        """How often it was said that what it was told may be wrong."""
        self._doubts: int | None = None
        self._since = since
        self.owner: Final = told.owner
        self._replace, self._is_noted, self._home = replace, is_noted, home
        self._bulk, self._times = bulk, times
        self.complete: Mapping[str, float] = {}
        """The time below which it was told everything of a stream, if it asks for that."""
        # Below 0: what it was not told of begins now, as long as no broker has accepted it.
        self._begun = -1.0 if since is None else since if isinstance(since, float) else 0.0
        self._is_placed = bool(told.position)
        """Whether it was told anything, so that its position says more than `since`."""
        # A cursor counts as told: what it says of a stream holds until more is heard of that one.
        self._others: Cursor = dict(since) if isinstance(since, dict) else {}
        self._others.update(told.position)
        self._stream = ""
        self._tick = 0
        self._sequence = told.events
        """Of the last event that it was told."""
        self._acknowledged = 0
        self._done: Cursor | None = None
        self._is_due = False
        self.unsaid = 0
        """Events acknowledged since the broker was told."""
        self.kept = 0
        """The number of the last event whose acknowledgement the broker has on disk."""

    # -- position ------------------------------------------------------------------------------

    @property
    def position(self) -> Cursor:
        """The last tick told of each stream."""
        return {**self._others, self._stream: self._tick} if self._stream else self._others

    def request(self, id: str) -> Subscribe:
        """What to ask a broker for, under a new id: all behind the position."""
        self.id = id
        self.is_held = self.is_live = False
        wanted = Subscribe(
            id, self.filter, self.durable, owner=self.owner, bulk=self._bulk, times=self._times
        )
        if self._is_placed:
            position = self.position
            return replace(wanted, begun=self._begun, heard=position, doubts=self._doubts)
        return replace(
            wanted,
            since=self._since,
            replace=self._replace,
            is_noted=self._is_noted,
            home=self._home,
        )

    def accepted(self, answer: Accepted) -> None:
        """It has started: from now on it is told everything."""
        self.is_started = True
        self.tries = 0
        if answer.cursor is not None:
            self._is_placed, self._begun = True, answer.begun
            self._doubts = answer.doubts
            self._merge(answer.cursor)

    def doubt(self, news: Doubtful) -> None:
        """What it was told so far may lack events, or repeat some."""
        self.doubted += 1
        self._doubts = news.doubts

    def waits(self) -> bool:
        """It was refused for now: whether to ask again. Once begun it goes on as soon as it can."""
        self.tries += 1
        self.lost()
        return self.is_started or self._is_placed or self.tries < _TRIES

    def gone(self, *, is_held: bool = False) -> None:
        """The broker no longer knows it; perhaps since it was told to hold it."""
        self.id = ""
        self.is_live = False
        self.is_held = is_held
        self.is_started |= is_held

    def lost(self) -> None:
        """The connection is gone, and perhaps the last acknowledgement with it."""
        self.gone(is_held=self.is_held)
        self.unkept()

    def unkept(self) -> None:
        """The last acknowledgement may have been for nothing."""
        self._is_due = self._done is not None

    def deliver(self, event: NodeEvent) -> bool:
        """Take an event; False if there is no room, and it must be told again later."""
        if len(self.inbox) >= self.most:
            # Given up before it was accepted, one that begins now would begin later.
            is_live = self.is_live or self._begun < 0.0
            if self.durable is not None or not is_live:
                return False
            self.missed += 1
            self._move(event)
        else:
            self.take(event)
        return True

    def take(self, event: NodeEvent) -> None:
        """Take an event, room or not."""
        self._move(event)
        self._sequence += 1
        self.inbox.append(Event(event, self._others, self._sequence, self.source))

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
        if self._times and news.complete:  # anew, as another thread may read the one before
            self.complete = {**self.complete, **news.complete}
        if self._acknowledged == self._sequence:
            self._acknowledge_all()

    def skipped(self, news: Missed) -> None:
        """It was not told all up to here, and will not be."""
        self._is_placed = True
        self._merge(news.cursor)
        self.missed += news.count
        self.lost_ticks += news.lost

    def _merge(self, cursor: Mapping[str, int]) -> None:
        position = self.position
        ahead = {s: t for s, t in cursor.items() if t > position.get(s, -1)}
        if ahead:
            self._others, self._stream = {**position, **ahead}, ""

    # -- acknowledgements ----------------------------------------------------------------------

    def acknowledge(self, event: Event) -> Awaitable[None]:
        """What `acknowledge_soon` does: a pure reading cannot wait."""
        self.acknowledge_soon(event)
        return DONE

    def acknowledge_soon(self, event: Event) -> None:
        """Everything up to this event is done with."""
        if event.sequence <= self._acknowledged:
            return
        self.unsaid += event.sequence - self._acknowledged
        self._acknowledged = event.sequence
        if event.sequence == self._sequence:
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

    def acknowledgement(self) -> Acknowledge:
        """What to tell the broker, which is then told; by name while it does not know the id."""
        assert self._done is not None
        assert self.durable is not None
        self._is_due, self.unsaid = False, 0
        if self.id:
            return Acknowledge(self.id, self._done, number=self._acknowledged)
        name, number = self.durable, self._acknowledged
        return Acknowledge(f"{BY_NAME}{name}", self._done, name, self.owner, number)
