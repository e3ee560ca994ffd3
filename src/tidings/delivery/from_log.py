"""From a log: what is published is kept first, and then loses nothing on its way to readers.

Publications go to the log before they go anywhere else. They then flow to all that want them;
`reading` says how readers come into these flows and go on where they were interrupted, and
`subscriptions` what is kept of readers that are to last.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from tidings.delivery.ages import HOUR
from tidings.delivery.doubts import SHELF as DOUBTS
from tidings.delivery.doubts import Doubts
from tidings.delivery.erasing import Erasing
from tidings.delivery.fetching import Fetching
from tidings.delivery.holdings import HOURS, USED
from tidings.delivery.log import OwnStream
from tidings.delivery.logs import Logs
from tidings.delivery.names import CURSORS, DURABLES, GONE
from tidings.delivery.promises import RESERVED, Promises
from tidings.delivery.publishing import Publishing
from tidings.delivery.quotas import Quota
from tidings.delivery.readers import UNKNOWN, Client, Flow
from tidings.delivery.reading import Reading
from tidings.delivery.streams import HEARD, IDENTITIES, Reached
from tidings.delivery.subscriptions import Subscriptions
from tidings.events import Filter
from tidings.protocol.digest import count, summary
from tidings.protocol.host import (
    Declined,
    Drained,
    Full,
    LogErased,
    Raise,
    Recalled,
    Records,
    Reply,
    Span,
    Sync,
    Trimmed,
    Unreadable,
)
from tidings.protocol.messages import (
    Charge,
    Charged,
    Doubt,
    EraseAt,
    ErasedAt,
    Event,
    Fetch,
    Fetched,
    Heard,
    Inquire,
    Inquired,
    Move,
    Moved,
    Seek,
    Silence,
    Sought,
    Streams,
    Survey,
    Surveyed,
)
from tidings.protocol.parts import Delivery, Kernel, Neighbour, Session, Shelf, Single, Step, Wants
from tidings.protocol.requests import (
    SESSION,
    Accepted,
    Acknowledge,
    Adjust,
    Advertise,
    Answer,
    Attach,
    Detach,
    Doubtful,
    Erase,
    ListDurables,
    Publish,
    Refused,
    Renew,
    Resend,
    Subscribe,
    Unadvertise,
    Unsubscribe,
)


class FromLog(Delivery):
    """The logs, the readers and the publishers of one node."""

    def __init__(
        self,
        kernel: Kernel,
        wants: Wants,
        stored: Mapping[str, Any],
        logs: Mapping[str, Span],
        *,
        instance: str,
        quota: Quota,
        enforce: bool,
        margin: float,
        progress: float,
    ) -> None:
        """`logs` are those of the node's own streams in all their epochs, first of the one that
        clients publish in. Refuse what was not advertised if `enforce`. Clocks differ by less than
        `margin`, and neighbours and clients are told after each `progress` how far the streams
        are; both in seconds.
        """
        self._kernel, self._wants = kernel, wants
        self._progress = progress
        promises = Promises(RESERVED.found(stored, 0.0))
        self.logs = Logs(kernel, wants, logs, promises, self._answered)
        self.reached = Reached(kernel, wants, self.logs, stored, instance=instance)
        self.doubts = Doubts(kernel, wants, self._tell_doubts)
        self.fetching = Fetching(kernel, self.reached, self.logs)
        self.subscriptions = Subscriptions(
            kernel, self.reached, self.logs, self.doubts, margin=margin
        )
        ends = {stream: span.last for stream, span in logs.items()}
        self.reading = Reading(
            kernel, wants, self.reached, self.fetching, self.doubts, self.subscriptions, ends
        )
        self.subscriptions.bind(self.reading)
        held, flow = self.subscriptions.names.holdings, self.let_flow
        self.publishing = Publishing(
            *(kernel, wants, self.logs, self.reached, held, self.clients, quota, flow),
            enforce=enforce,
        )
        self.publishers = self.publishing.publishers
        self.erasing = Erasing(kernel, wants, self.reached, self.logs, flow)
        self._owners: dict[str, Client] = {}
        """Who has each name under which is published."""

    @property
    def stream(self) -> str:
        """What clients publish in now."""
        return self.logs.published.stream

    @property
    def clients(self) -> dict[str, Client]:
        """By session."""
        return self.reading.clients

    # -- what it is ----------------------------------------------------------------------------

    def inputs(self) -> Mapping[type, Callable[[Any], None]]:
        return {
            Declined: self.publishing.declined,
            Full: self._full,
            Drained: self._drained,
            Records: self.logs.records,
            Unreadable: self.logs.unreadable,
            Trimmed: self.logs.trimmed,
            LogErased: self.erasing.erased,
            Heard: partial(self._heard, None),
        }

    def messages(self) -> Mapping[type, Callable[[Any, Any], None]]:
        return {
            Event: self._event,
            Streams: self._told_ways,
            Silence: self._silence,
            Heard: self._heard,
            Fetch: self.fetching.fetch,
            Fetched: self._fetched,
            Seek: self.subscriptions.homes.asked,
            Sought: self.subscriptions.homes.told,
            Move: self.subscriptions.homes.wanted,
            Moved: self.subscriptions.homes.moved,
            Charge: self.subscriptions.homes.charged,
            Charged: self.subscriptions.homes.charged,
            Survey: self.subscriptions.surveys.asked,
            Surveyed: self.subscriptions.surveys.told,
            Inquire: self.publishing.inquiries.asked,
            Inquired: self.publishing.inquiries.told,
            EraseAt: self.erasing.asked,
            ErasedAt: self.erasing.told,
            Doubt: self.doubts.told,
        }

    def requests(self) -> Mapping[type, Callable[[Session, Any, float], None]]:
        return {
            Publish: self.publishing.publish,
            Subscribe: self._subscribe,
            Unsubscribe: self.subscriptions.unsubscribe,
            Acknowledge: self.subscriptions.acknowledge,
            ListDurables: self.subscriptions.surveys.list_durables,
            Adjust: self.subscriptions.adjust,
            Advertise: self._advertise,
            Unadvertise: self._advertise,
            Renew: self._renew,
            Erase: self._erase,
            Detach: self._detach,
        }

    def steps(self) -> Sequence[Step]:
        return [self.publishing.quotas.step]

    def saved(self) -> Collection[Shelf[Any] | Single[Any]]:
        own = (DURABLES, CURSORS, GONE, HEARD, IDENTITIES, DOUBTS, HOURS, USED, RESERVED)
        return *self.publishing.saved(), *own

    def kept(self) -> Mapping[str, Any]:
        reserved = self.logs.promises.reserved
        own = {RESERVED.kind: reserved} if reserved else {}
        names = self.subscriptions.names.kept()
        return own | self.doubts.kept() | names | self.publishing.kept()

    def start(self, stored: Mapping[str, Any], time: float) -> None:
        self.reached.start()
        self.subscriptions.restore(stored)
        self.doubts.restore(stored)
        self.publishing.restore(stored)
        self._forget_unused()
        self._kernel.every(self._progress, self._beat)
        self._kernel.every(HOUR, self._pass_hour)

    # -- sessions ------------------------------------------------------------------------------

    def attach(self, key: str, body: Attach) -> None:
        """Give a session its name, from the one that has it; unless it is fenced."""
        name = body.name or key
        owner = self._owners.get(name)
        if owner is not None and owner.instance == body.instance and owner.attempt > body.attempt:
            self._answer(key, Refused(SESSION, "this process has attached again meanwhile"))
            return
        epoch = self.publishing.claim(name, body)
        if epoch is None:
            self._answer(key, Refused(SESSION, "another process has taken this name over"))
            return
        if owner is not None and owner.session.name != key:
            self._kernel.close_session(owner.session)
            reason = "another process has come under this name"
            if owner.instance == body.instance:
                reason = "this session goes on in another connection"
            self._answer(owner.session.name, Refused(SESSION, reason))
        session = self._kernel.open_session(key)
        self._kernel.parts.attached(session)
        client = self.clients[key]
        client.publisher, self._owners[name] = name, client
        client.instance, client.attempt = body.instance, body.attempt
        session.advertisements = dict(body.advertisements)
        self._wants.become(session, {}, count(session.advertisements))
        known = self.publishing.resume(key, name)
        self._answer(key, Accepted("attach", known.number, epoch, kept=known.kept))
        for id, filter_ in body.subscriptions.items():
            wanted = Subscribe(id, filter_, since=body.cursor)
            self.subscriptions.subscribe(session, wanted, 0.0)

    def _subscribe(self, session: Session, body: Subscribe, time: float) -> None:
        client = self.clients[session.name]
        if body.times and not client.wants_times:
            client.wants_times = True
            self._promise()  # so that it hears of a time as soon as it is live
        self.subscriptions.subscribe(session, body, time)

    def came(self, session: Session) -> None:
        self.clients[session.name] = Client(session)

    def attached(self, session: Session) -> None:
        self.subscriptions.homes.close(session)
        self.subscriptions.surveys.close(session)
        self.publishing.inquiries.close(session)
        client = self.clients.get(session.name)
        is_full = client is not None and client.is_full
        self.reading.left(session)
        self.came(session)
        self.clients[session.name].is_full = is_full

    def left(self, session: Session) -> None:
        """Its durable subscriptions wait for it in the store."""
        self.subscriptions.homes.close(session)
        self.subscriptions.surveys.close(session)
        self.publishing.inquiries.close(session)
        client = self.clients.get(session.name)
        if client is not None and self._owners.get(client.publisher) is client:
            del self._owners[client.publisher]
        self.reading.left(session)

    def _detach(self, session: Session, body: Detach, time: float) -> None:
        name = self.clients[session.name].publisher
        self._kernel.close_session(session)
        if body.forget:
            self.publishing.forget(name)

    def _advertise(self, session: Session, body: Advertise | Unadvertise, time: float) -> None:
        after = body.filter if isinstance(body, Advertise) else None
        before = session.advertisements.pop(body.id, None)
        if after is not None:
            session.advertisements[body.id] = after
        if before != after:
            added = {} if after is None else {after: 1}
            self._wants.advertise(session, added, {} if before is None else {before: 1})
        self._answer(session.name, Accepted(body.id))

    def _renew(self, session: Session, body: Renew, time: float) -> None:
        if body.digest != summary({}, session.advertisements):
            self._answer(session.name, Resend())

    def _erase(self, session: Session, body: Erase, time: float) -> None:
        self.erasing.erase(session, self.clients[session.name].publisher, body, time)

    # -- what nobody uses ----------------------------------------------------------------------

    def _pass_hour(self) -> None:
        """The node has run for another hour; once a day, forget what nobody uses."""
        is_next_day = self.subscriptions.names.holdings.pass_hour()
        self.publishing.pass_hour()
        if not is_next_day:
            return
        self.subscriptions.pass_day()
        for client in self.clients.values():
            self.publishing.use(client.publisher)
        self._forget_unused()

    def _forget_unused(self) -> None:
        self.subscriptions.forget_unused()
        self.publishing.forget_unused()

    # -- events --------------------------------------------------------------------------------

    def let_flow(self, events: Sequence[Event]) -> None:
        """Events of an own stream are kept: on to all that want them."""
        if events:
            own = self.reading.flows[events[0].stream]
            found = self._wants.filters_of([event.notification for event in events])
            for event, filters in zip(events, found, strict=True):
                self._pass_on(event, None, own, filters)

    def _event(self, neighbour: Neighbour, event: Event) -> None:
        """An event comes by a neighbour; by another than its stream's way, it is a straggler."""
        if self.reached.ways.via(event.stream) is neighbour:
            self.reached.hear(event.stream, event.tick)
            filters = self._wants.filters(event.notification)
            self._pass_on(event, neighbour, self.reading.flow(event.stream), filters)

    def _pass_on(
        self, event: Event, source: Neighbour | None, flow: Flow, filters: list[Filter]
    ) -> None:
        if flow.is_live and (event.tick > flow.upto or source is None):
            flow.upto = event.tick
            self.reading.notify(event, filters)
        kernel, wants = self._kernel, self._wants
        if kernel.neighbours:
            targets = wants.holders(filters)
            for neighbour in kernel.neighbours.values():
                if neighbour is not source and (
                    neighbour in targets or (event.flood and wants.is_told(neighbour))
                ):
                    kernel.pass_on(neighbour, event)

    # -- ways ----------------------------------------------------------------------------------

    def opened(self, neighbour: Neighbour) -> None:
        """What was known by it is void, and all is told anew."""
        self.closed(neighbour)
        self.reached.tell(neighbour)
        self.doubts.tell(neighbour)

    def closed(self, neighbour: Neighbour) -> None:
        self._anew(self.reached.ways.lost(neighbour))

    def _told_ways(self, neighbour: Neighbour, message: Streams) -> None:
        """Streams come by a neighbour, or come anew, or no longer."""
        if not neighbour.sees(message.view):
            return
        for stream, tick in message.ticks.items():
            self.reached.hear(stream, tick)
        self._anew(self.reached.ways.told(neighbour, message.ways))

    def advertised(self, neighbour: Neighbour, *, has_grown: bool) -> None:
        self._anew(self.reading.advertised(neighbour, has_grown=has_grown))

    def repaired(self, neighbour: Neighbour) -> None:
        """It was not sent all it wanted, for its table was wrong: let it fetch."""
        self.doubts.add()
        self.reached.tell(neighbour)

    def _anew(self, streams: list[str]) -> None:
        """The flows of these streams have been interrupted."""
        if streams:
            self.reading.anew(streams)
            self.subscriptions.homes.anew(streams)
            self.subscriptions.surveys.anew(streams)
            self.erasing.anew(streams)

    def _fetched(self, neighbour: Neighbour, message: Fetched) -> None:
        """An answer comes, for this node or for one behind it."""
        self.reached.hear(message.stream, message.upto)
        if not self.reached.passed_back(message):
            self._answered(message)

    def _answered(self, message: Fetched) -> None:
        self.reading.fetched(message)

    # -- streams that go back ------------------------------------------------------------------

    def _heard(self, neighbour: Neighbour | None, message: Heard) -> None:
        """Streams were heard so far. Beyond the end of its own, this node must have been before:
        its store went back, and the ticks behind that end must not be given out again."""
        self.reached.tell_heard(dict(message.upto), besides=neighbour)
        for own in self.logs.own.values():
            tick = message.upto.get(own.stream, 0)
            if tick > own.log.last:
                self._raise(own, tick)

    def _raise(self, own: OwnStream, known: int) -> None:
        """Begin the next epoch of a stream. Readers go over to it; no tick is used twice."""
        stream = own.following
        self._kernel.emit(Raise(stream, _raised(own.stream, own.log.last, known, stream)))
        self.reached.begin(own)
        self.reading.begin_own(stream)
        self.reached.tell_all([stream])
        self.subscriptions.doubt_names()
        for reader in list(self.reading.readers):
            self.reading.follow_epochs(reader, [stream])
            self.reading.begin(reader, stream)
            self.reading.telling.state(reader)

    # -- silence -------------------------------------------------------------------------------

    def _silence(self, neighbour: Neighbour, message: Silence) -> None:
        """Nothing more is to be expected up to these ticks."""
        ways = self.reached.ways
        upto = {s: t for s, t in message.upto.items() if ways.via(s) is neighbour}
        for stream, tick in upto.items():
            self.reached.hear(stream, tick)
            flow = self.reading.flow(stream)
            if flow.is_live:
                if self.reading.is_ahead(flow, tick):
                    self.doubts.add()
                flow.upto = tick
                flow.complete = max(flow.complete, message.complete.get(stream, 0.0))
        complete = {s: time for s, time in message.complete.items() if s in upto}
        self._tell_silence(upto, complete, besides=neighbour)

    def _tell_silence(
        self, upto: dict[str, int], complete: dict[str, float], besides: Neighbour | None = None
    ) -> None:
        """Say it behind all that was passed on."""
        if upto:
            for neighbour in self._kernel.neighbours.values():
                if neighbour is not besides and self._wants.is_told(neighbour):
                    self._kernel.send(neighbour, Silence(upto, complete))

    def _beat(self) -> None:
        """Now and then: tell neighbours and clients how far everything is."""
        self.reached.beat(self._progress)
        silences = {own.stream: own.silence() for own in self.logs.own.values()}
        upto = {s: tick for s, tick in silences.items() if tick is not None}
        complete = self._promise()
        upto |= {stream: self.logs.logs[stream].last for stream in complete}
        self._tell_silence(upto, complete)
        self.reading.telling.progress()
        self.publishing.inquiries.again()

    def _promise(self) -> dict[str, float]:
        """The times below which the node's own streams are complete from now on.

        If nobody is told, none: what is promised has to be on disk, once a second.
        """
        logs, neighbours = self.logs, self._kernel.neighbours.values()
        is_told = any(self._wants.is_told(each) and each.is_open for each in neighbours)
        if not is_told and not any(client.wants_times for client in self.clients.values()):
            return {}
        reservation = logs.promises.move(self._kernel.time)
        if reservation is not None:
            self._kernel.emit(reservation)
            self._kernel.emit(Sync())
        if not logs.promises.below:
            return {}  # nobody has told the time
        complete = {stream: logs.complete(stream) for stream in logs.logs}
        for stream, time in complete.items():
            self.reading.flows[stream].complete = time
        return complete

    # -- doubts --------------------------------------------------------------------------------

    def doubted(self) -> None:
        self.doubts.add()

    def _tell_doubts(self) -> None:
        for reader in self.reading.readers:
            self._answer(reader.session, Doubtful(reader.id, self.doubts.count))

    # -- clients that do not read --------------------------------------------------------------

    def _full(self, input: Full) -> None:
        client = self.clients.get(input.session)
        if client is not None:
            self.reading.full(client)

    def _drained(self, input: Drained) -> None:
        client = self.clients.get(input.session)
        if client is not None:
            self.reading.drained(client)

    def _answer(self, session: str, answer: Answer) -> None:
        self._kernel.emit(Reply(session, answer))

    # -- auditing ------------------------------------------------------------------------------

    def digest_told(self, neighbour: Neighbour) -> int | None:
        return self.reached.ways.digest_told(neighbour)

    def digest_held(self, neighbour: Neighbour) -> int | None:
        return self.reached.ways.digest_held(neighbour)

    def standing(self, session: Session, *, besides: str) -> int:
        readers, ads = self.reading.clients[session.name].readers, session.advertisements
        pending = self.subscriptions.homes.pending(session.name)
        return len(readers) + pending + len(ads) - (besides in readers) - (besides in ads)

    def size(self, session: Session) -> int:
        client = self.clients.get(session.name)
        return 0 if client is None else len(client.readers)

    def look_after(self, patience: float) -> None:
        for own in self.logs.own.values():
            own.told = UNKNOWN
        self.reading.look_after(self._kernel.now, patience)
        streams = list(self.reached.ways.streams)
        self.subscriptions.homes.anew(streams)
        self.subscriptions.surveys.anew(streams)
        self.erasing.anew(streams)

    def audit(self, sessions: Collection[Session]) -> Iterator[str]:
        yield from self.logs.audit()
        yield from self.reached.audit()
        yield from self.fetching.audit()
        yield from self._audit_names()
        for stream, log in self.logs.logs.items():
            own = self.reading.flows.get(stream)
            if own is None or not own.is_live or own.upto != log.last:
                yield f"the node's own flow of {stream} is not where its log is"
        yield from self.reading.audit(sessions)
        yield from self.publishing.audit(self.clients)
        yield from self.subscriptions.audit(self.reading.readers)
        yield from self.erasing.audit()

    def _audit_names(self) -> Iterator[str]:
        sessions = self._kernel.sessions
        if self.clients.keys() != sessions.keys():
            yield f"{sorted(self.clients)} are clients, of {sorted(sessions)}"
        for name, client in self.clients.items():
            if sessions.get(name) is not client.session:
                yield f"client {name} has the session of {client.session.name}"
        clients = [client for client in self.clients.values() if not client.session.is_own]
        if len(self._owners) != len(clients):
            yield f"{len(clients)} sessions have {len(self._owners)} names"
        for client in clients:
            session = client.session
            if self._owners.get(client.publisher) is not client:
                yield f"{session.name} does not have the name {client.publisher}"
            if self.publishers[client.publisher].instance != client.instance:
                yield f"{client.publisher} is not {client.instance}"
            advertised = self._wants.advertised_by(session)
            if advertised is not None and advertised != count(session.advertisements):
                yield f"what {session.name} advertises is not in the table"

    def recall(self) -> None:
        self.logs.recall()

    def recalled(self, found: Recalled) -> None:
        self.logs.recalled(found.logs)
        for client in list(self.clients.values()):
            session = client.session
            is_full = found.sessions.get(session.name)
            if session.is_own:
                continue
            if is_full is None:
                self._kernel.close_session(session)
            elif is_full and not client.is_full:
                self.reading.full(client)
            elif client.is_full and not is_full:
                self.reading.drained(client)
        for name in found.sessions.keys() - self.clients.keys():
            self._answer(name, Resend())


def _raised(before: str, last: int, known: int, stream: str) -> str:
    return (
        f"{before} ends at tick {last} here, but was heard up to {known} elsewhere: the store went "
        f"back without a trace. {before} is closed at {last}, and {stream} begins. Events behind "
        f"{last} that were published before are lost here; readers that are ahead are told"
    )
