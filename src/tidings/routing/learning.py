"""Learning: how a node that merges by what is known of the events gets to know it.

Statistics are events. The node subscribes to them as a client would, in a session of its own; so
they come by the same tables, with the same promises, and only what is delivered to this session
does not leave the node. The subscription is durable where the node has a log: what was published
while it was down is heard afterwards. What was learnt last is stored, and is there again at once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from math import inf
from typing import Any, Final

from tidings.events import TidingsError
from tidings.protocol.host import Deliver, Reply, Sync
from tidings.protocol.messages import Event
from tidings.protocol.parts import Kernel, Part, Session, Shelf, Single
from tidings.protocol.requests import Acknowledge, Cursor, Progress, Refused, Subscribe
from tidings.routing import Statistics
from tidings.routing.exchange import Exchange
from tidings.routing.statistics import WANTED

SESSION: Final = "tidings.statistics"
"""The name of the node's session and of its durable subscription; no client's has it."""
_ID: Final = "1"
_SAVED: Final = 60.0
"""Seconds between two saves of how far it has listened, while nothing is learnt."""


class Learning(Part):
    """The session by which a node hears statistics."""

    def __init__(self, kernel: Kernel, exchange: Exchange, *, is_durable: bool) -> None:
        self._kernel, self._exchange = kernel, exchange
        self._is_durable = is_durable
        self._shelf = Single[str | None]("statistics")
        self.session: Session | None = None
        self.known: Statistics | None = None
        self.ignored = 0
        """Events that should have been statistics, and were not."""
        self._news: Statistics | None = None
        self._heard: Cursor = {}
        """The positions that it has listened up to and has not saved."""
        self._is_due = False
        self._save_at = -inf
        self._resume_at: Cursor | None = None

    def saved(self) -> Collection[Shelf[Any] | Single[Any]]:
        return (self._shelf,)

    def kept(self) -> Mapping[str, Any]:
        return {} if self.known is None else {self._shelf.kind: self.known.text()}

    def start(self, stored: Mapping[str, Any], time: float) -> None:
        """Know again what was known, and listen."""
        text = self._shelf.found(stored, None)
        if text is not None:
            try:
                self.known = Statistics.parse(text)
            except TidingsError:  # of another version
                self.ignored += 1
            else:
                self._exchange.learn(self.known)
        self.session = self._kernel.open_own(SESSION, self._told)
        self._listen(time)

    def _listen(self, time: float, since: Cursor | None = None) -> None:
        assert self.session is not None
        durable = SESSION if self._is_durable else None
        wanted = Subscribe(_ID, WANTED, durable=durable, since=since, replace=True, home="here")
        self._kernel.ask(self.session, wanted, time)

    def audit(self, sessions: Collection[Session]) -> Iterator[str]:
        if self._kernel.sessions.get(SESSION) is not self.session:
            yield "nobody listens to statistics"
        if self._exchange.subscriptions.statistics != self.known:
            yield "what is known of the events is not what was learnt"
        session = self.session if self._resume_at is None else None
        if session is not None and self._exchange.wanted(session) != {WANTED: 1}:
            yield "statistics are not subscribed to"

    # -- listening -------------------------------------------------------------------------------

    def _told(self, effect: Deliver | Reply) -> None:
        if isinstance(effect, Deliver):
            self._hear(effect.event)
        elif isinstance(effect.answer, Progress):
            self._heard_up_to(effect.answer.cursor)
        elif isinstance(effect.answer, Refused) and effect.answer.cursor is not None:
            self._resume_at = effect.answer.cursor  # some of it is no longer kept

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

    def settle(self) -> bool:
        """After each input: take in what came with it, all at once."""
        if not (self._heard or self._resume_at):
            return False
        news, self._news = self._news, None
        is_new = news is not None and news != self.known
        if news is not None and is_new:
            self._kernel.emit(self._shelf.put(news.text()))
            self._kernel.emit(Sync())
            self.known = news
            self._exchange.learn(news)
        return self._note_how_far() or is_new

    def _note_how_far(self) -> bool:
        """Save how far was listened, if that is due; whether anything was asked."""
        now = self._kernel.now
        if not self._is_durable:
            self._heard.clear()
        elif self._resume_at is not None:
            since, self._resume_at = self._resume_at, None
            self._heard = {}  # it lies behind what was lost
            self._listen(0.0, since)
            return True
        elif self._is_due or not now < self._save_at <= now + _SAVED:
            heard, self._heard = self._heard, {}
            self._is_due, self._save_at = False, now + _SAVED
            assert self.session is not None
            self._kernel.ask(self.session, Acknowledge(_ID, heard), 0.0)
            return True
        return False
