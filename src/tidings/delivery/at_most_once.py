"""At most once: what is published flows to all that want it now, and is kept nowhere.

The papers' experiments run this. A session outlives its connection, and its wishes a crash: they
are leased, stored and renewed. An event that was under way when something broke is gone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from math import inf
from operator import attrgetter
from typing import Any

from tidings.events import Filter
from tidings.protocol.digest import count, summary
from tidings.protocol.host import (
    Declined,
    Deliver,
    Drained,
    Full,
    Records,
    Reply,
    Sync,
    Trimmed,
    Unreadable,
)
from tidings.protocol.messages import Event, Heard
from tidings.protocol.parts import (
    Delivery,
    Kernel,
    Neighbour,
    Port,
    Session,
    Shelf,
    Single,
    Table,
    Wants,
)
from tidings.protocol.requests import (
    Accepted,
    Acknowledge,
    Advertise,
    Answer,
    Attach,
    Detach,
    Publish,
    Refused,
    Renew,
    Resend,
    Subscribe,
    Unadvertise,
    Unsubscribe,
)

_BY_ORDER = attrgetter("order")


def _ignore(*_: Any) -> None:
    """It does not matter here."""


@dataclass(slots=True, eq=False)
class Client:
    """What is known of a session's client."""

    subscriptions: dict[str, Filter] = field(default_factory=dict)
    """By the client's own ids."""
    is_connected: bool = False
    expires: float = inf


class AtMostOnce(Delivery):
    """Delivers and passes on what comes, unless it or a later event of its stream was here."""

    def __init__(
        self,
        kernel: Kernel,
        wants: Wants,
        *,
        enforce: bool,
        lease: float,
        memory: float,
    ) -> None:
        """Refuse what was not advertised if `enforce`. A session lives as long as its `lease`,
        and the last tick of a stream is remembered for `memory`, in seconds.
        """
        self._kernel, self._wants = kernel, wants
        self._enforce, self._lease, self._memory = enforce, lease, memory
        self.clients: dict[str, Client] = {}
        """By session."""
        self._shelf = Shelf[tuple[dict[str, Filter], dict[str, Filter]]]("session")
        self._heard: dict[str, int] = {}
        self._heard_before: dict[str, int] = {}

    def inputs(self) -> Mapping[type, Callable[[Any], None]]:
        """Nothing is read from any log, and a client that does not read misses what it misses."""
        ignored = (Declined, Drained, Full, Heard, Records, Trimmed, Unreadable)
        return dict.fromkeys(ignored, _ignore)

    def messages(self) -> Mapping[type, Callable[[Any, Any], None]]:
        return {Event: self._event}

    def requests(self) -> Mapping[type, Callable[[Session, Any, float], None]]:
        return {
            Publish: self._publish,
            Subscribe: self._want,
            Unsubscribe: self._want,
            Advertise: self._advertise,
            Unadvertise: self._advertise,
            Acknowledge: _ignore,  # nothing is durable
            Renew: self._renew,
            Detach: self._detach,
        }

    def saved(self) -> Collection[Shelf[Any] | Single[Any]]:
        return (self._shelf,)

    def start(self, stored: Mapping[str, Any], time: float) -> None:
        for name, (subscriptions, advertisements) in self._shelf.found(stored):
            session = self._kernel.open_session(name)
            self._become(session, subscriptions, advertisements)
        self._kernel.every(self._memory, self._forget_streams)

    def _forget_streams(self) -> None:
        self._heard_before, self._heard = self._heard, {}

    # -- sessions ------------------------------------------------------------------------------

    def attach(self, key: str, body: Attach) -> None:
        session = self._kernel.open_session(key)
        self.clients[key].is_connected = True
        self.asked(session)
        self._kernel.parts.attached(session)
        for stream, tick in body.cursor.items():
            self._heard[stream] = max(tick, self._last_tick(stream))
        self._become(session, dict(body.subscriptions), dict(body.advertisements))
        self._store(session)
        self._answer(session, Accepted("attach"))

    def came(self, session: Session) -> None:
        self.clients[session.name] = client = Client(is_connected=session.is_own)
        if not session.is_own and self._lease < inf:
            client.expires = self._kernel.now + self._lease
            self._kernel.at(client.expires, partial(self._lease_over, session))

    def asked(self, session: Session) -> None:
        """A client that says something is there."""
        if not session.is_own:
            self.clients[session.name].expires = self._kernel.now + self._lease

    def _become(
        self, session: Session, subscriptions: dict[str, Filter], advertisements: dict[str, Filter]
    ) -> None:
        self.clients[session.name].subscriptions = subscriptions
        session.advertisements = advertisements
        self._wants.become(session, count(subscriptions), count(advertisements))

    def _want(self, session: Session, body: Subscribe | Unsubscribe, time: float) -> None:
        subscriptions = self.clients[session.name].subscriptions
        self._change(self._wants.want, session, subscriptions, body)

    def _advertise(self, session: Session, body: Advertise | Unadvertise, time: float) -> None:
        self._change(self._wants.advertise, session, session.advertisements, body)

    def _change(
        self,
        change: Callable[[Session, Table, Table], None],
        session: Session,
        filters: dict[str, Filter],
        body: Subscribe | Unsubscribe | Advertise | Unadvertise,
    ) -> None:
        before, after = filters.get(body.id), None
        if isinstance(body, Subscribe | Advertise):
            after = filters[body.id] = body.filter
        else:
            filters.pop(body.id, None)
        if before != after:
            self._store(session)
            added = {} if after is None else {after: 1}
            change(session, added, {} if before is None else {before: 1})
        self._answer(session, Accepted(body.id))

    def _renew(self, session: Session, body: Renew, time: float) -> None:
        client = self.clients[session.name]
        said = summary(client.subscriptions, session.advertisements)
        if not (client.is_connected and body.digest == said and self._is_sound(session)):
            self._answer(session, Resend())

    def _is_sound(self, session: Session) -> bool:
        wanted = count(self.clients[session.name].subscriptions)
        advertised = self._wants.advertised_by(session)
        return self._wants.wanted(session) == wanted and (
            advertised is None or advertised == count(session.advertisements)
        )

    def _detach(self, session: Session, body: Detach, time: float) -> None:
        self._kernel.close_session(session)

    def _lease_over(self, session: Session) -> None:
        client = self.clients.get(session.name)
        if client is None or self._kernel.sessions.get(session.name) is not session:
            return
        if self._kernel.now >= client.expires:
            self._kernel.close_session(session)
        else:
            self._kernel.at(client.expires, partial(self._lease_over, session))

    def left(self, session: Session) -> None:
        self.clients.pop(session.name, None)
        self._kernel.emit(self._shelf.drop(session.name))

    def _store(self, session: Session) -> None:
        if not session.is_own:
            content = (
                dict(self.clients[session.name].subscriptions),
                dict(session.advertisements),
            )
            self._kernel.emit(self._shelf.put(session.name, content))
            self._kernel.emit(Sync())

    def _answer(self, session: Session, answer: Answer) -> None:
        self._kernel.emit(Reply(session.name, answer))

    # -- events --------------------------------------------------------------------------------

    def _publish(self, session: Session, body: Publish, time: float) -> None:
        for number, notification in enumerate(body.notifications, body.number):
            flood = self._wants.is_for_all(session, notification, enforce=self._enforce)
            if flood is None:
                reason = "no advertisement of yours matches this; advertise it first"
                self._answer(session, Refused(str(number), reason))
            else:
                self._route(Event(session.name, number, notification, flood), session)

    def _event(self, neighbour: Neighbour, event: Event) -> None:
        self._route(event, neighbour)

    def _last_tick(self, stream: str) -> int:
        tick = self._heard.get(stream)
        return self._heard_before.get(stream, 0) if tick is None else tick

    def _route(self, event: Event, source: Port) -> None:
        if event.tick <= self._last_tick(event.stream):
            return
        self._heard[event.stream] = event.tick
        wanted_by = self._wants.match(event.notification)
        if event.flood:
            neighbours = self._kernel.neighbours.values()
            wanted_by.update(n for n in neighbours if self._wants.is_told(n))
        ordered = sorted(wanted_by, key=_BY_ORDER) if len(wanted_by) > 1 else wanted_by
        for port in ordered:
            if isinstance(port, Session):
                if self.clients[port.name].is_connected:
                    self._kernel.emit(Deliver(port.name, event))
            elif port is not source:
                self._kernel.pass_on(port, event)

    # -- auditing ------------------------------------------------------------------------------

    def mend(self) -> bool:
        """A client whose wishes are damaged is told so when it renews them; the node is not."""
        for session in self._kernel.sessions.values():
            if session.is_own:
                wanted = count(self.clients[session.name].subscriptions)
                self._wants.become(session, wanted, {})
        return True

    def look_after(self, patience: float) -> None:
        now = self._kernel.now
        if self._lease == inf:
            return
        for session in [s for s in self._kernel.sessions.values() if not s.is_own]:
            client = self.clients[session.name]
            client.expires = min(client.expires, now + self._lease)
            if now >= client.expires:
                self._kernel.close_session(session)

    def audit(self, sessions: Collection[Session]) -> Iterator[str]:
        if self.clients.keys() != self._kernel.sessions.keys():
            yield f"{sorted(self.clients)} are clients, of {sorted(self._kernel.sessions)}"

    def kept(self) -> Mapping[str, Any]:
        sessions = self._kernel.sessions.values()
        return {
            self._shelf.key(s.name): (self.clients[s.name].subscriptions, s.advertisements)
            for s in sessions
            if not s.is_own
        }
