"""The archive: answers fetches of a node's own stream, from memory or from its log on disk."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from tidings.delivery import Log
from tidings.events import Notification
from tidings.node.host import Read, Records, Span
from tidings.node.messages import BEGIN, NOW, Event, Fetch, Fetched

if TYPE_CHECKING:
    from tidings.node.node import Node

_READ: Final = 4_096
"""So many events are read from the log at a time,"""
_PART: Final = 1 << 17
"""and about so many bytes of them are sent at a time: a slow link has other things to carry."""
_RESTS: Final = 8
"""What was read for so many readers is kept while they take it."""


class Archive:
    """A node's log, and whoever waits for something to be read from it.

    An answer goes to the neighbour that asked, or `back` if the node itself did.
    """

    def __init__(self, node: Node, span: Span, back: Callable[[Fetched], None]) -> None:
        self._node = node
        self._back = back
        self.log: Log[Event] = Log(first=span.first, last=span.last, time=span.time)
        self.reads: dict[int, Fetch] = {}
        """What is being read, and for whom."""
        self._rests: dict[int, tuple[Event, ...]] = {}
        """What was read and not sent yet, by the tick behind which it begins."""
        self._answers: deque[Fetched] = deque()
        """What the node itself asked for, and has not taken yet."""
        self._is_taken = False
        """Whether somebody takes it, one after the other."""
        self.read_limit, self.part_limit = _READ, _PART
        self._number = 0

    def answer(self, fetch: Fetch) -> None:
        """Answer from the end of the log that is in memory, or have the log read."""
        log = self.log
        since = fetch.since
        if fetch.after > log.time:
            since = log.last
        elif fetch.after > 0.0:
            tick = log.tick_before(fetch.after)
            since = BEGIN if tick is None else tick
        if since == NOW:
            since = log.last
        elif since == BEGIN and fetch.after <= 0.0:
            since = log.first - 1
        if since != BEGIN and not log.first - 1 <= since <= log.last:
            edge = log.first - 1 if since < log.first else log.last
            self._send_back(fetch, edge, edge, (), lost=True)
            return
        recent = None if since == BEGIN else log.recent(since)
        if recent is not None:
            self._send_part(fetch, since, log.last, recent)
            return
        rest = self._rests.pop(since, None)
        if rest is not None:
            self._send_part(fetch, since, rest[-1].tick, rest)
            return
        self._number += 1
        self.reads[self._number] = fetch
        self._node.emit(Read(self._number, max(since, 0), fetch.after, self.read_limit))

    def records(self, input: Records) -> None:
        """What was to be read from the log has been."""
        fetch = self.reads.pop(input.number, None)
        if fetch is None:
            return
        if fetch.after <= 0.0 and 0 <= fetch.since < input.since:  # trimmed meanwhile
            self._send_back(fetch, input.since, input.since, (), lost=True)
        else:
            self._send_part(fetch, input.since, input.upto, input.events)

    def _send_part(self, fetch: Fetch, since: int, upto: int, events: Sequence[Event]) -> None:
        wanted = self._chooser(fetch)
        chosen: list[Event] = []
        bytes_ = 0
        for number, event in enumerate(events, start=1):
            if wanted(event):
                chosen.append(event)
                bytes_ += size(event.notification)
                if bytes_ > self.part_limit:
                    upto = event.tick
                    self._keep_rest(upto, events[number:])
                    break
        self._send_back(fetch, since, upto, tuple(chosen))

    def _keep_rest(self, since: int, events: Sequence[Event]) -> None:
        """Whoever got a part will ask for the next one."""
        if events and self.log.recent(since) is None:
            self._rests[since] = tuple(events)
            while len(self._rests) > _RESTS:
                del self._rests[next(iter(self._rests))]

    def _chooser(self, fetch: Fetch) -> Callable[[Event], bool]:
        filter_ = fetch.filter
        if filter_ is not None:
            return lambda event: filter_.matches(event.notification)
        tables, advertisements = self._node.subscriptions, self._node.advertisements
        neighbour = self._node.neighbours[fetch.path[-1]]
        # What is no longer advertised is not asked for by any table, but may have been wanted.
        ads = None
        if advertisements is not None and advertisements.has(neighbour):
            ads = advertisements.told(neighbour)

        def wants(event: Event) -> bool:
            notification = event.notification
            return (
                event.flood
                or neighbour in tables.holders(tables.filters(notification))
                or (ads is not None and not any(ad.matches(notification) for ad in ads))
            )

        return wants

    def _send_back(
        self, fetch: Fetch, since: int, upto: int, events: tuple[Event, ...], *, lost: bool = False
    ) -> None:
        is_live = upto == self.log.last and not lost
        answer = Fetched(fetch.stream, fetch.number, fetch.path, since, upto, events, is_live, lost)
        if fetch.path:
            self._node.send(self._node.neighbours[fetch.path[-1]], answer)
        else:
            self._answers.append(answer)
            if not self._is_taken:
                self._take()

    def _take(self) -> None:
        """Give the node its answers. It asks for the next part when it has one, which is given when
        it is done with that: else it would be within as many calls as there are parts."""
        self._is_taken = True
        try:
            while self._answers:
                self._back(self._answers.popleft())
        finally:
            self._is_taken = False


def size(notification: Notification) -> int:
    """About how many bytes it takes; exact enough to keep messages small."""
    if notification.packed is not None:
        return len(notification.packed)
    return 16 * len(notification.attributes) + sum(
        len(v) for v in notification.attributes.values() if isinstance(v, str | bytes)
    )
