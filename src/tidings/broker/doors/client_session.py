"""A client's session at the broker: what it asks, held to the limits before the node hears of it.

Whatever names a client may choose are put behind its principal's, so that nobody can take the
session or the durable subscription of somebody else.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from time import monotonic, time
from typing import Any, Final

import msgspec

from tidings.broker.configuration import ClientLimits
from tidings.broker.copying import Copies
from tidings.broker.doors.connection import Connection
from tidings.broker.doors.decoding import UnreadableFilter
from tidings.broker.host import Host
from tidings.delivery.batch import together
from tidings.delivery.copies import (
    BULK,
    FOR,
    ORDINARY,
    addressee,
    copies_for,
    is_of_copies_only,
    is_owned,
)
from tidings.delivery.erased import RESERVED
from tidings.events import Filter, Notification, Schema
from tidings.protocol.host import Declined, Drained, Full, Request
from tidings.protocol.requests import (
    LONGEST_ID,
    Acknowledge,
    Adjust,
    Advertise,
    Attach,
    Detach,
    Erase,
    ListDurables,
    Publish,
    Refused,
    Renew,
    Subscribe,
    Unadvertise,
    Unsubscribe,
    Warned,
    Watch,
)
from tidings.protocol.wire import Copy, Ping, Pong

_LARGEST: Final = 1 << 62
"""A number that no client reaches by counting; beyond 64 bits, it could not be written."""
_UNADVERTISED: Final = (
    "brokers here route by advertisements, and no advertisement of yours overlaps this: so it is "
    "not known here who wants it. Advertise first what you could publish"
)
_NUMBERS: Final = count(1)
_LONGEST_NAME: Final = 256
"""Characters that the name of a durable or a bulk subscription may have."""
_MOST_ELSEWHERE: Final = 64
"""Brokers that a client may name as those that may have kept something."""
_LONGEST_ID: Final = 64
"""Characters of the id of an erasure, which every tombstone has."""
_LONGEST_REASON: Final = 1_000
"""Characters of what the record of an erasure says of it."""
_BURST: Final = 1.0
"""Seconds by which a client may be ahead of its rate."""


class ClientSession:
    """One client's session on one connection."""

    def __init__(
        self,
        connection: Connection,
        host: Host,
        *,
        principal: str,
        name: str,
        limits: ClientLimits,
        may_deliver: bool,
        schema: Schema | None,
        may_erase: bool,
    ) -> None:
        """`schema` says which attributes there are, if that is known."""
        self.name = f"{principal}/{name}"
        """The name under which it publishes."""
        self.session = f"{self.name}#{next(_NUMBERS)}"
        """The name with a number, which tells this session from earlier ones of that name."""
        self._watched: dict[str, Filter] = {}
        """The filter of each of its watches, by id."""
        self._principal = principal
        self._may_deliver, self._may_erase = may_deliver, may_erase
        self._schema = schema
        self._connection = connection
        self._host = host
        self._metrics = host.metrics
        self._limits = limits
        self._copies = Copies(connection, host.copier)
        self._ahead = 0.0
        self._paid_at = monotonic()
        self._handlers: dict[type, Callable[[Any], None]] = {
            Publish: self._publish,
            Acknowledge: lambda body: self._pass_on(self._owned(body)),
            Renew: self._pass_on,
            Subscribe: self._subscribe,
            Watch: self._watch,
            Advertise: self._advertise,
            Unsubscribe: lambda body: self._end(self._owned(body)),
            Unadvertise: self._unadvertise,
            Attach: self._attach,
            Detach: self._detach,
            Copy: self._copy,
            ListDurables: self._inquire,
            Adjust: lambda body: self._pass_on(self._owned(body)),
            Erase: self._erase,
            Ping: lambda body: host.post(connection, Pong(body.number)),
            Pong: lambda _: None,  # it says only that somebody is there
        }
        connection.label = self.name
        connection.receive = self.receive
        connection.lost = self._lost
        connection.filled = self._filled
        connection.drained = self._drained

    def open(self) -> None:
        """Listen to it. Another session that has its name keeps it until this one is attached."""
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
        del self._host.sessions[self.session]
        self._host.handle(Request(self.session, Detach()))

    def _pass_on(self, body: Any) -> None:
        self._host.handle(Request(self.session, body, time()))

    def _refuse(self, id: str, reason: str, *, is_passing: bool = False) -> None:
        self._metrics.refused += 1
        self._host.post(self._connection, Refused(id, reason, is_passing=is_passing))

    # -- publishing ----------------------------------------------------------------------------

    def _publish(self, body: Publish) -> None:
        notifications = body.notifications
        if not 0 < body.number < _LARGEST:
            self._connection.refuse(f"publications are numbered from 1, not {body.number}")
            return
        if not notifications:
            self._pass_on(body)
            return
        if body.ids and not _is_possible(body):
            self._connection.refuse(
                f"each of several publications has an id of up to {LONGEST_ID:,} characters, or an "
                "empty one"
            )
            return
        self._metrics.published += len(notifications)
        trouble = self._host.trouble
        if trouble is not None:
            for number in range(body.number, body.number + len(notifications)):
                self._refuse_publication(number, trouble, is_passing=True)
            return
        if self._limits.publish_rate is not None:
            self._slow_down(len(notifications), self._limits.publish_rate)
        most = self._limits.attributes
        for notification in notifications:
            attributes = notification.attributes
            if len(attributes) > most or not _OURS.isdisjoint(attributes):
                self._publish_some(body)
                return
        self._host.handle(Request(self.session, body, time()))

    def _publish_some(self, body: Publish) -> None:
        """Leave out what may not be published; the others keep their numbers."""
        if body.is_whole:
            self._publish_none(body)
            return
        begin = 0
        for index, notification in enumerate(body.notifications):
            objection = self._objection(notification)
            if objection is not None:
                self._refuse_publication(body.number + index, objection)
                self._pass_on_part(body, begin, index)
                begin = index + 1
        self._pass_on_part(body, begin, len(body.notifications))

    def _pass_on_part(self, body: Publish, begin: int, end: int) -> None:
        if begin < end:
            number, said = body.number + begin, body.notifications[begin:end]
            ids = body.ids[begin:end]
            part = msgspec.structs.replace(body, number=number, notifications=said, ids=ids)
            self._pass_on(part)

    def _publish_none(self, body: Publish) -> None:
        """Something in it may not be published, and it is to be kept as a whole."""
        count = len(body.notifications)
        found = map(self._objection, body.notifications)
        index, objection = next((i, each) for i, each in enumerate(found) if each is not None)
        for number in range(body.number, body.number + count):
            self._refuse_publication(number, together(count, index, objection))

    def _objection(self, notification: Notification) -> str | None:
        """Why a notification may not be published, if so."""
        most, attributes = self._limits.attributes, notification.attributes
        if len(attributes) > most:
            return f"a notification has at most {most} attributes, not {len(attributes)}"
        for name in RESERVED:
            if name in attributes:
                return (
                    f"only brokers publish the attribute {name}, where events were erased: give "
                    "yours another name"
                )
        if FOR in attributes and not self._may_deliver:
            return self._no_deliverer()
        bulk = attributes.get(BULK)
        if isinstance(bulk, str) and not is_owned(self._principal, bulk):
            own = addressee(self._principal, "NAME")
            return (
                f"the bulk subscription {bulk[:64]!r} is not yours: those of {self._principal} are "
                f"called {own}" + (", without any `/`" if own == "NAME" else "")
            )
        return None

    def _no_deliverer(self) -> str:
        return (
            f"{self._principal} may not publish copies for bulk subscribers, which have the "
            f"attribute {FOR}; to let it, the broker's configuration has to name it: "
            f'deliverers = ["{self._principal}"]'
        )

    def _refuse_publication(self, number: int, reason: str, *, is_passing: bool = False) -> None:
        self._host.handle(Declined(self.session, number, reason))
        self._refuse(str(number), reason, is_passing=is_passing)

    def _slow_down(self, events: int, rate: int) -> None:
        """Read the next request when it is time for it: nothing is lost by being fast."""
        now = monotonic()
        self._ahead = max(0.0, self._ahead - (now - self._paid_at)) + events / rate
        self._paid_at = now
        if self._ahead > _BURST:
            self._connection.hold_for(self._ahead - _BURST)

    # -- all else ------------------------------------------------------------------------------

    def _is_readable(self, id: str, filter: Filter) -> bool:
        if isinstance(filter, UnreadableFilter):
            self._refuse(id, filter.reason)
            return False
        return True

    def _begin(self, body: Any) -> None:
        if self._is_readable(body.id, body.filter):
            self._pass_on(body)

    def _advertise(self, body: Advertise) -> None:
        if not self._is_readable(body.id, body.filter):
            return
        if not self._may_deliver and is_of_copies_only(body.filter):
            self._refuse(body.id, self._no_deliverer())
        else:
            self._begin(body)
            self._end_watches()

    def _unadvertise(self, body: Unadvertise) -> None:
        self._end(body)
        self._end_watches()

    def _watch(self, body: Watch) -> None:
        """Answer it if this broker knows who wants that; bulk subscribers do not count."""
        if not self._is_readable(body.id, body.filter):
            return
        if not self._is_advertised(body.filter):
            self._refuse(body.id, _UNADVERTISED)
            return
        self._begin(Watch(body.id, body.filter.intersect(ORDINARY)))
        self._watched[body.id] = body.filter

    def _is_advertised(self, filter: Filter) -> bool:
        """Whether this broker hears of those who want what the client may publish of this.

        Where brokers route by advertisements, others tell it only what overlaps one of its own
        clients': without that it would say that nobody wants it, and could not know.
        """
        node = self._host.node
        session = node.sessions.get(self.session)
        if not node.exchange.is_advertised or session is None:
            return True
        return any(ad.overlaps(filter) for ad in session.advertisements.values())

    def _end_watches(self) -> None:
        """End those of which the client has taken back all advertisements."""
        for id in [id for id, filter in self._watched.items() if not self._is_advertised(filter)]:
            self._refuse(id, _UNADVERTISED)
            self._end(Unsubscribe(id))

    def _subscribe(self, body: Subscribe) -> None:
        if not self._is_readable(body.id, body.filter):
            return
        self._watched.pop(body.id, None)
        if body.bulk is not None:
            name = addressee(self._principal, body.bulk)
            if not (body.bulk and len(name) <= _LONGEST_NAME and is_owned(self._principal, name)):
                self._refuse(body.id, f"{name[:64]!r} is no name of a bulk subscription of yours")
                return
            wanted = body.filter.intersect(copies_for(name))
            body = msgspec.structs.replace(body, filter=wanted, bulk=name)
        elif is_of_copies_only(body.filter):
            self._refuse(
                body.id,
                f"a filter on {FOR} asks for copies for bulk subscribers; each is told only to a "
                "client that listens under a name of its own: subscribe(bulk=NAME), or --bulk NAME",
            )
            return
        if body.durable is not None and len(body.durable) > _LONGEST_NAME:
            self._refuse(
                body.id,
                f"a durable subscription's name has at most {_LONGEST_NAME} characters, "
                f"not {len(body.durable)}",
            )
            return
        self._warn(body.id, body.filter)
        self._pass_on(self._owned(body))

    def _warn(self, id: str, filter: Filter) -> None:
        """Say of a filter that it asks for attributes which the schema does not know."""
        if self._schema is None:
            return
        names = {name for each in filter.conjunctions for name in each.constraints}
        unknown = self._schema.unknown(names - {FOR, BULK})
        if unknown is not None:
            self._host.post(self._connection, Warned(id, unknown))

    def _inquire(self, body: ListDurables) -> None:
        """Everybody is told of their own."""
        self._pass_on(msgspec.structs.replace(body, principal=self._principal))

    def _owned(self, body: Any) -> Any:
        """The request with the name of its durable subscription behind the principal's."""
        if body.durable is None:
            return body
        return msgspec.structs.replace(body, durable=f"{self._principal}/{body.durable}")

    def _end(self, body: Any) -> None:
        self._watched.pop(body.id, None)
        self._pass_on(body)

    def _attach(self, body: Attach) -> None:
        self._watched.clear()
        wanted, advertised = (
            {id: filter for id, filter in said.items() if self._is_readable(id, filter)}
            for said in (body.subscriptions, body.advertisements)
        )
        self._pass_on(
            msgspec.structs.replace(
                body, name=self.name, subscriptions=wanted, advertisements=advertised
            )
        )

    def _detach(self, body: Detach) -> None:
        self._pass_on(body)
        self._connection.close()

    def _copy(self, body: Copy) -> None:
        """A client that may subscribe to everything may have a copy. So far, every client may."""
        refusal = self._copies.ask(body)
        if refusal is not None:
            self._refuse(body.id, refusal)

    def _erase(self, body: Erase) -> None:
        if not self._is_readable(body.id, body.filter):
            return
        if not self._may_erase:
            self._refuse(
                body.id,
                f"{self._principal} may not erase events; to let it, the broker's configuration "
                f'has to name it: erasers = ["{self._principal}"]',
            )
        elif len(body.id) > _LONGEST_ID or len(body.reason) > _LONGEST_REASON:
            self._refuse(
                body.id[:_LONGEST_ID],
                f"the id of an erasure has at most {_LONGEST_ID} characters, and the reason "
                f"{_LONGEST_REASON:,}",
            )
        else:
            self._pass_on(body)


def _is_possible(body: Publish) -> bool:
    """Whether these can be ids, and brokers that there are."""
    return (
        len(body.ids) == len(body.notifications)
        and max(map(len, body.ids)) <= LONGEST_ID
        and len(body.elsewhere) <= _MOST_ELSEWHERE
    )


_OURS: Final = frozenset({FOR, BULK, *RESERVED})
"""Attributes that mean something here."""
