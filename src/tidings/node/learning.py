"""Learning: how a node that merges by what is known of the events gets to know it.

Statistics are events. The node subscribes to them as a client would, in a session of its own; so
they come by the same tables, with the same promises, and only what is delivered to this session
does not leave the node. With a log the subscription is a durable one: what was published while the
broker was down is heard afterwards. What was learnt last is stored, and is there again at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import inf
from typing import TYPE_CHECKING, Final

from tidings.events import TidingsError
from tidings.node.ports import Session
from tidings.protocol.host import Deliver, Effect, Reply, Store, Sync
from tidings.protocol.messages import Event
from tidings.protocol.requests import Acknowledge, Cursor, Progress, Refused, Subscribe
from tidings.routing import Statistics
from tidings.routing.statistics import WANTED

if TYPE_CHECKING:
    from tidings.node.node import Node

SESSION: Final = "tidings.statistics"
"""The name of the session, and of the durable subscription. Those of clients are different."""
_ID: Final = "1"
_KEY: Final = "statistics"
_SAVED: Final = 60.0
"""While nothing is learnt, how far it has listened is saved so often."""


class Learning:
    """The session by which a node hears statistics. `apply` is told of what is new."""

    def __init__(self, node: Node, apply: Callable[[Statistics], None]) -> None:
        self._node = node
        self._apply = apply
        self.session = Session(SESSION, 0)
        self.session.is_connected = True
        self.known: Statistics | None = None
        self.ignored = 0
        """Events that should have been statistics, and were not."""
        self._news: Statistics | None = None
        self._heard: Cursor = {}
        """How far it has listened since that was saved."""
        self._is_due = False
        self._save_at = -inf
        self._resume_at: Cursor | None = None

    def start(self, stored: object, time: float) -> None:
        """Know again what was known, and listen. `time` is the time of day."""
        if isinstance(stored, str):
            try:
                self.known = Statistics.parse(stored)
            except TidingsError:  # of another version
                self.ignored += 1
            else:
                self._apply(self.known)
        self._node.sessions[SESSION] = self.session
        if self._node.deliveries is None:
            self.session.subscriptions[_ID] = WANTED
            self.renew()
        else:
            wanted = Subscribe(_ID, WANTED, durable=SESSION, replace=True)
            self._node.deliveries.subscribe(self.session, wanted, time)

    def renew(self) -> None:
        """Want just what it wants, whatever has happened to the tables."""
        held = self._node.subscriptions.wanted.get(self.session, {})
        if held != {WANTED: 1}:
            removed = {f: n for f, n in held.items() if f != WANTED}
            added = {} if WANTED in held else {WANTED: 1}
            self._node.want(self.session, added, removed)

    def audit(self) -> Iterator[str]:
        """Whatever cannot be true of it."""
        if self._node.sessions.get(SESSION) is not self.session:
            yield "nobody listens to statistics"
        if self._node.subscriptions.statistics != self.known:
            yield "what is known of the events is not what was learnt"
        is_due = self._node.deliveries is not None and self._resume_at is None
        if is_due and _ID not in self.session.readers:
            yield "statistics are not subscribed to"

    # -- listening -------------------------------------------------------------------------------

    def takes(self, effect: Effect) -> bool:
        """Whether this was for its session; if so it has been dealt with."""
        if not isinstance(effect, Deliver | Reply) or effect.session != SESSION:
            return False
        if isinstance(effect, Deliver):
            self._hear(effect.event)
        elif isinstance(effect.answer, Progress):
            self._heard_up_to(effect.answer.cursor)
        elif isinstance(effect.answer, Refused) and effect.answer.cursor is not None:
            self._resume_at = effect.answer.cursor  # some of it is no longer kept
        return True

    def _hear(self, event: Event) -> None:
        try:
            self._news = Statistics.of(event.notification)
        except TidingsError:
            self.ignored += 1
        self._heard_up_to({event.stream: event.tick})
        self._is_due = True

    def _heard_up_to(self, cursor: Cursor) -> None:
        for stream, tick in cursor.items():
            self._heard[stream] = max(tick, self._heard.get(stream, 0))

    def settle(self, now: float) -> None:
        """After each input: take in what came with it, all at once."""
        if not (self._heard or self._resume_at):
            return
        news, self._news = self._news, None
        if news is not None and news != self.known:
            self._node.emit(Store(_KEY, news.text()))
            self._node.emit(Sync())
            self.known = news
            self._apply(news)
        self._listen_on(now)

    def _listen_on(self, now: float) -> None:
        deliveries = self._node.deliveries
        if deliveries is None:
            self._heard.clear()
        elif self._resume_at is not None:
            since, self._resume_at = self._resume_at, None
            again = Subscribe(_ID, WANTED, durable=SESSION, since=since, replace=True)
            deliveries.subscribe(self.session, again, 0.0)
        elif (
            self._is_due or not now < self._save_at <= now + _SAVED
        ) and _ID in self.session.readers:
            heard, self._heard = self._heard, {}
            self._is_due, self._save_at = False, now + _SAVED
            deliveries.acknowledge(self.session, Acknowledge(_ID, heard))
