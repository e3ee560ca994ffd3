"""The border: what one client asks, held to the limits before the node hears of it.

Whatever names a client may choose are put behind its principal's, so that nobody can take the
session or the durable subscription of somebody else.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic, time
from typing import Any, Final

import msgspec

from tidings.broker.configuration import Limits
from tidings.broker.connection import Connection
from tidings.broker.copying import Copies
from tidings.broker.host import Host
from tidings.node import (
    Acknowledge,
    Advertise,
    Attach,
    Detach,
    Drained,
    Full,
    Publish,
    Refused,
    Renew,
    Request,
    Subscribe,
    Unadvertise,
    Unsubscribe,
    Watch,
)
from tidings.node.wire import SESSION, Copy, Ping, Pong

_LARGEST: Final = 1 << 62
"""No client gets so far by counting, and beyond 64 bits the numbers could not be written."""
_LEFT_OUT: Final = "it was refused before; the broker no longer knows why"
_BURST: Final = 1.0
"""A client may be so many seconds ahead of its rate."""


class Border:
    """One client's session on one connection."""

    def __init__(
        self, connection: Connection, host: Host, *, principal: str, name: str, limits: Limits
    ) -> None:
        self.session = f"{principal}/{name}"
        self._standing: set[str] = set()
        """The ids of its watches and advertisements."""
        self._principal = principal
        self._connection = connection
        self._host = host
        self._counts = host.counts
        self._limits = limits
        self._copies = Copies(connection, host.copier)
        self._ahead = 0.0
        self._paid_at = monotonic()
        self._handlers: dict[type, Callable[[Any], None]] = {
            Publish: self._publish,
            Acknowledge: self._acknowledge,
            Renew: self._pass_on,
            Subscribe: self._subscribe,
            Watch: self._begin,
            Advertise: self._begin,
            Unsubscribe: self._end,
            Unadvertise: self._end,
            Attach: self._attach,
            Detach: self._detach,
            Copy: self._copy,
            Ping: self._ping,
            Pong: _ignore,
        }
        connection.label = self.session
        connection.receive = self.receive
        connection.lost = self._lost
        connection.filled = self._filled
        connection.drained = self._drained

    def open(self) -> None:
        """Take the session, from whoever has it."""
        before = self._host.sessions.get(self.session)
        if isinstance(before, Connection):
            self._host.handle(Request(self.session, Detach()))
            before.lost = lambda: None
            before.farewell("this session goes on in another connection", id=SESSION)
        self._host.sessions[self.session] = self._connection

    def receive(self, messages: list[Any], size: int) -> None:
        """Do what the client asks."""
        handlers, connection, host = self._handlers, self._connection, self._host
        for message in messages:
            handler = handlers.get(message.__class__)
            if handler is None:
                connection.refuse(f"a client has no business to say {type(message).__name__}")
                return
            handler(message)
        host.took(size, hold=connection.hold, resume=connection.go_on)

    def _filled(self) -> None:
        """It is sent no more events; and asked for nothing more, its answers can't pile up."""
        self._connection.hold()
        self._host.handle(Full(self.session))

    def _drained(self) -> None:
        self._connection.go_on()
        self._host.handle(Drained(self.session))
        self._copies.go_on()

    def _lost(self) -> None:
        if self._host.sessions.get(self.session) is self._connection:
            del self._host.sessions[self.session]
            self._host.handle(Request(self.session, Detach()))

    def _pass_on(self, body: Any) -> None:
        self._host.handle(Request(self.session, body, time()))

    def _refuse(self, id: str, reason: str, *, is_passing: bool = False) -> None:
        self._counts.refused += 1
        self._host.post(self._connection, Refused(id, reason, is_passing=is_passing))

    # -- publishing ----------------------------------------------------------------------------

    def _publish(self, body: Publish) -> None:
        notifications = body.notifications
        if not 0 < body.number < _LARGEST:
            self._connection.refuse(f"publications are numbered from 1, not {body.number}")
            return
        if not notifications:
            self._host.remember(self.session, body.number, _LEFT_OUT)
            return
        self._counts.published += len(notifications)
        trouble = self._host.trouble
        if trouble is not None:
            for number in range(body.number, body.number + len(notifications)):
                self._refuse_publication(number, trouble, is_passing=True)
            return
        if self._limits.publish_rate is not None:
            self._slow_down(len(notifications), self._limits.publish_rate)
        most = self._limits.attributes
        for notification in notifications:
            if len(notification.attributes) > most:
                self._publish_some(body)
                return
        self._host.handle(Request(self.session, body, time()))

    def _publish_some(self, body: Publish) -> None:
        """Leave out what is above the limit; the others keep their numbers."""
        most = self._limits.attributes
        first, run = body.number, []
        for number, notification in enumerate(body.notifications, body.number):
            if len(notification.attributes) <= most:
                run.append(notification)
                continue
            self._refuse_publication(
                number, f"a notification has at most {most} attributes, not {len(notification)}"
            )
            if run:
                self._pass_on(Publish(first, tuple(run)))
            first, run = number + 1, []
        if run:
            self._pass_on(Publish(first, tuple(run)))

    def _refuse_publication(self, number: int, reason: str, *, is_passing: bool = False) -> None:
        self._host.remember(self.session, number, reason)
        self._refuse(str(number), reason, is_passing=is_passing)

    def _slow_down(self, events: int, rate: int) -> None:
        """Read the next request when it is time for it: nothing is lost by being fast."""
        now = monotonic()
        self._ahead = max(0.0, self._ahead - (now - self._paid_at)) + events / rate
        self._paid_at = now
        if self._ahead > _BURST:
            self._connection.hold_for(self._ahead - _BURST)

    # -- all else ------------------------------------------------------------------------------

    def _has_room(self, id: str, more: int = 1) -> bool:
        most = self._limits.subscriptions
        session = self._host.node.sessions.get(self.session)
        readers = 0 if session is None else len(session.readers)
        if readers + len(self._standing) + more <= most:
            return True
        self._refuse(
            id,
            f"a session has at most {most} subscriptions, watches and advertisements; "
            "end one first, or join several by OR",
        )
        return False

    def _begin(self, body: Any) -> None:
        if body.id in self._standing or self._has_room(body.id):
            self._standing.add(body.id)
            self._pass_on(body)

    def _subscribe(self, body: Subscribe) -> None:
        if self._has_room(body.id):
            if body.durable is not None:
                body = msgspec.structs.replace(body, durable=f"{self._principal}/{body.durable}")
            self._pass_on(body)

    def _acknowledge(self, body: Acknowledge) -> None:
        if body.durable is not None:
            body = msgspec.structs.replace(body, durable=f"{self._principal}/{body.durable}")
        self._pass_on(body)

    def _end(self, body: Any) -> None:
        self._standing.discard(body.id)
        self._pass_on(body)

    def _attach(self, body: Attach) -> None:
        self._standing.clear()
        for refusal in self._host.remembered(self.session):
            self._host.post(self._connection, refusal)
        if self._has_room("attach", len(body.subscriptions) + len(body.advertisements)):
            self._standing.update(body.advertisements)
            self._pass_on(body)

    def _detach(self, body: Detach) -> None:
        self._pass_on(body)
        if body.forget:
            self._host.forget(self.session)
        self._connection.close()

    def _copy(self, body: Copy) -> None:
        """Whoever may subscribe to everything may have a copy, and so far everybody may."""
        refusal = self._copies.ask(body)
        if refusal is not None:
            self._refuse(body.id, refusal)

    def _ping(self, body: Ping) -> None:
        self._host.post(self._connection, Pong(body.number))


def _ignore(_: Any) -> None:
    """A pong says only that somebody is there."""
