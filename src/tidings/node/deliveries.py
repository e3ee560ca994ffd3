"""Deliveries: what makes a node lose nothing, once it has a log.

Publications go to the log before they go anywhere else. They then flow to whoever wants them, and
as long as no link on the way has been interrupted, all of them arrive. After an interruption the
streams that come by that link are told anew (`Streams`), all the way down, and every node with
readers fetches what it may have missed from the log of the stream's own node. The fetch travels
behind all that the node wants, so what is published after it was answered flows by itself again.
That is also how a reader begins, now or in the past, and why its start is a definite tick.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from tidings.delivery import Flow, Known, Log, Publishers, Reader, Ways
from tidings.delivery.copies import FOR, as_told
from tidings.delivery.readers import UNKNOWN
from tidings.events import Filter, Notification
from tidings.node.archive import Archive, damaged, size
from tidings.node.holdings import Holdings
from tidings.node.homes import Homes
from tidings.node.ports import Neighbour, Session
from tidings.protocol.epochs import broker_of, comes_after, epoch_of, stream_name
from tidings.protocol.host import Append, Damaged, Deliver, Raise, Reply, Span, Store, Sync
from tidings.protocol.messages import (
    BEGIN,
    NOW,
    Doubt,
    Event,
    Fetch,
    Fetched,
    Heard,
    Path,
    Silence,
    Streams,
)
from tidings.protocol.requests import (
    Accepted,
    Acknowledge,
    Answer,
    Attach,
    Cursor,
    Doubtful,
    Missed,
    Progress,
    Publish,
    Refused,
    Subscribe,
    Unsubscribe,
)

if TYPE_CHECKING:
    from tidings.node.node import Node

_STRANGERS: Final = 1_000
"""A cursor that was noted elsewhere names no more streams of which the node has never heard."""
_LONGEST: Final = 128
"""Characters of such a stream's name; those of brokers are shorter."""
_DOUBTED: Final = 5
"""Beats for which several nodes of one name must be told of: one may just have moved."""
_TAKEN: Final = "somebody else has taken this durable subscription over"


class Saved(NamedTuple):
    """A durable subscription in the store."""

    filter: Filter
    cursor: Cursor
    """What was acknowledged."""
    begun: float
    """From when on it wants all of a stream that the cursor lacks."""
    owner: str = ""
    """Who took it last: only they may go on where they were, and acknowledge."""
    doubts: int = 0
    """How many there were when it was acknowledged last: see `Doubtful`."""


class Deliveries:
    """The logs, the readers and the flows of one node."""

    def __init__(
        self,
        node: Node,
        logs: Mapping[str, Span],
        *,
        identities: Mapping[str, str],
        instance: str,
    ) -> None:
        """`identities` are those of its streams that an earlier node has stored."""
        self._node = node
        self.archive = Archive(node, logs, self._fetched)
        self._identities = {stream: identities.get(stream, instance) for stream in logs}
        self._is_new = self._identities != identities
        self.ways = Ways(node.name, self._identities, instance=instance)
        self.flows: dict[str, Flow] = {s: _own_flow(s, span.last) for s, span in logs.items()}
        self.doubles: dict[str, dict[str, Path]] = {}
        """The names that several nodes have, and by instance the way to each."""
        self._suspected: dict[str, int] = {}
        """For how many beats it has looked so."""
        self.readers: dict[Reader, None] = {}
        self.saved: dict[str, Saved] = {}
        """Durable subscriptions, by name; those in `_durable` are being read."""
        self._durable: dict[str, Reader] = {}
        self.holdings = Holdings(node)
        self.publishers = Publishers()
        self.known = Known()
        self.homes = Homes(
            node, self.ways, self.known, holds=self.saved.__contains__, admit=self._admit
        )
        self._by_filter: dict[Filter, dict[Reader, None]] = {}
        self._starting: dict[Reader, None] = {}
        self._order = 0
        self._number = node.incarnation << 32
        """Answers to what an earlier node of this name asked may still be on their way."""
        self._asked: dict[int, tuple[Reader | None, int]] = {}
        """For whom something is being fetched, and how much its neighbour had been told before."""
        self._since: dict[int, float] = {}
        """When it was first noticed that something had been asked and not answered."""
        self._silent_since = self.log.last
        self.doubts: dict[str, int] = {}
        """How often each node has found something damaged, as far as it is known."""

    @property
    def log(self) -> Log[Event]:
        """The node's current stream."""
        return self.archive.log

    @property
    def stream(self) -> str:
        """The name of that."""
        return self.archive.stream

    def is_own(self, stream: str) -> bool:
        """Whether the node has the log of a stream."""
        return stream in self.archive.logs

    def restore(self, stored: dict[str, Any]) -> None:
        """Take up what an earlier node had stored."""
        if self._is_new:
            self._node.emit(Store("identities", self._identities))
            self._node.emit(Sync())
        for key, value in stored.items():
            kind, _, name = key.partition(":")
            if kind == "durable":
                filter_, begun, owner, doubts = value
                cursor = dict(stored.get(f"cursor:{name}", {}))
                self.saved[name] = Saved(filter_, cursor, begun, owner, doubts)
            elif kind == "publisher":
                self.publishers.restore(name, value)
            elif kind == "stream":
                self.known.restore(name, value)
            elif kind == "doubts":
                self.doubts = dict(value)
        self.holdings.restore(stored, self.saved)
        self._forget_unused()

    # -- what nobody uses ----------------------------------------------------------------------

    def pass_hour(self) -> None:
        """The node has run for another hour; once a day, forget what nobody uses."""
        if not self.holdings.pass_hour():
            return
        for name in self._durable:
            self.holdings.use(name)
        for session in self._node.sessions.values():
            name = session.publisher
            if self.publishers.use(name, day=self.holdings.day):
                self._node.emit(Store(f"publisher:{name}", self.publishers[name]))
        self._forget_unused()

    def _forget_unused(self) -> None:
        for name in self.holdings.expired(self.holdings.durables):
            self._forget_durable(name)
            self.holdings.forgotten.append(name)
        for name in self.holdings.expired(self.publishers.ages):
            self.forget_publisher(name)

    def _forget_durable(self, name: str) -> None:
        self.saved.pop(name, None)
        self.holdings.forget(name)
        self._node.emit(Store(f"durable:{name}", None))
        self._node.emit(Store(f"cursor:{name}", None))

    def kept(self) -> dict[str, Any]:
        """All that is stored of it, if what is known is right."""
        found: dict[str, Any] = {"doubts": dict(self.doubts)} if self.doubts else {}
        for name, saved in self.saved.items():
            found[f"durable:{name}"] = _about(saved)
            found[f"cursor:{name}"] = saved.cursor
        for name, known in self.publishers.items():
            found[f"publisher:{name}"] = tuple(known)
        return found

    def look_after(self, now: float, patience: float) -> None:
        """Ask again what was not answered for too long, and say how far the own stream is."""
        self._silent_since = UNKNOWN
        self._since = {n: min(self._since.get(n, now), now) for n in self._asked}
        late = {n for n, at in self._since.items() if now - at >= patience}
        waiting = [f for f in self.flows.values() if late & {f.fetch, f.probe, *self._fetches(f)}]
        for flow in waiting:
            self._resume(flow)
        self.homes.anew(list(self.ways.streams))
        for session in self._node.sessions.values():
            told = session.progress.items()
            session.progress = {s: t for s, t in told if s in self.flows and t <= self._upto(s)}

    def _upto(self, stream: str) -> int:
        return self.flows[stream].upto

    def _fetches(self, flow: Flow) -> Iterator[int]:
        return (r.fetches[flow.stream] for r in self.readers if flow.stream in r.fetches)

    # -- publishing ----------------------------------------------------------------------------

    def publish(
        self,
        session: Session,
        body: Publish,
        time: float,
        check: Callable[[Session, Notification], bool | None],
    ) -> None:
        """Keep what is new, then let it flow. `check` says whether all are to hear it, or None."""
        last = self.publishers[session.publisher].number
        tick, moment = self.log.last, max(time, self.log.time)
        events: list[Event] = []
        for number, notification in enumerate(body.notifications, body.number):
            if number <= last:
                continue
            last = number
            flood = check(session, notification)
            if flood is None:
                reason = "no advertisement of yours matches this; advertise it first"
                self._reply(session.name, Refused(str(number), reason))
                continue
            tick += 1
            events.append(Event(self.stream, tick, notification, flood, moment))
        if events:
            self.log.extend(events, sum(size(e.notification) for e in events))
            kept = self.publishers.keep(session.publisher, last, day=self.holdings.day)
            self._node.emit(Append(tuple(events)))
            self._node.emit(Store(f"publisher:{session.publisher}", kept))
            self._node.emit(Sync())
            self._reply(session.name, Accepted("publish", last))
            own = self.flows[self.stream]
            tables = self._node.subscriptions
            found = tables.filters_of([event.notification for event in events])
            for event, filters in zip(events, found, strict=True):
                own.upto = event.tick
                self._pass_on(event, None, own, filters)
        else:
            self._reply(session.name, Accepted("publish", last))

    def claim(self, name: str, body: Attach) -> int | None:
        """The epoch of whoever attaches under a name, on disk before it is told; None: fenced."""
        before = self.publishers[name]
        day = self.holdings.day
        epoch = self.publishers.claim(name, body.instance, body.epoch, day=day)
        if self.publishers[name] is not before:
            self._node.emit(Store(f"publisher:{name}", self.publishers[name]))
            self._node.emit(Sync())
        return epoch

    def forget_publisher(self, name: str) -> None:
        """It has left for good, and will not send anything again."""
        if self.publishers.forget(name):
            self._node.emit(Store(f"publisher:{name}", None))

    def event(self, neighbour: Neighbour, event: Event) -> None:
        """An event comes by a neighbour; by another than its stream's way, it is a straggler."""
        if self.ways.via(event.stream) == neighbour.name:
            self._hear(event.stream, event.tick)
            filters = self._node.subscriptions.filters(event.notification)
            self._pass_on(event, neighbour, self._flow(event.stream), filters)

    def _pass_on(
        self, event: Event, source: Neighbour | None, flow: Flow, filters: list[Filter]
    ) -> None:
        # Clients first: a neighbour may be given up by what it is sent, and then they are told how
        # far the flow is.
        if flow.is_live and (event.tick > flow.upto or source is None):
            flow.upto = event.tick
            self._notify(event, filters)
        node = self._node
        if node.neighbours:
            targets = node.subscriptions.holders(filters)
            for neighbour in node.neighbours.values():
                if neighbour is not source and (
                    neighbour in targets or (event.flood and node.subscriptions.has(neighbour))
                ):
                    node.send_event(neighbour, event)

    def _notify(self, event: Event, filters: Iterable[Filter]) -> None:
        """Deliver an event of a flow to the readers that follow it."""
        if FOR in event.notification.attributes:
            self._notify_addressees(event, filters)
            return
        stream, tick, by_filter = event.stream, event.tick, self._by_filter
        told: dict[str, list[str]] = {}
        for filter_ in filters:
            for reader in by_filter.get(filter_, ()):
                if stream in reader.follows and tick > reader.positions[stream]:
                    ids = told.get(reader.session)
                    if ids is None:
                        told[reader.session] = [reader.id]
                    else:
                        ids.append(reader.id)
        for name, ids in told.items():
            session = self._node.sessions[name]
            if session.is_full:
                for id in ids:
                    session.readers[id].missed += 1
            else:
                self._node.emit(Deliver(name, event, tuple(ids)))

    def _notify_addressees(self, event: Event, filters: Iterable[Filter]) -> None:
        """Deliver a copy for bulk subscribers: to each of them as if it were for nobody else."""
        stream = event.stream
        for filter_ in filters:
            for reader in self._by_filter.get(filter_, ()):
                if stream in reader.follows and event.tick > reader.positions[stream]:
                    own = as_told(event.notification, reader.addressee)
                    if own is None:
                        continue
                    if self._node.sessions[reader.session].is_full:
                        reader.missed += 1
                    else:
                        self._deliver(reader, event, own)

    def _deliver(self, reader: Reader, event: Event, said: Notification) -> None:
        told = msgspec.structs.replace(event, notification=said)
        self._node.emit(Deliver(reader.session, told, (reader.id,)))

    # -- subscribing ---------------------------------------------------------------------------

    def subscribe(self, session: Session, body: Subscribe, time: float) -> None:
        """Begin to read. It is accepted once it has started in every stream that is there."""
        if body.id in session.readers:
            self._close(session.readers[body.id])
        self.homes.cancel(session, body.id)
        is_known = body.durable is None or body.durable in self.saved
        if is_known or body.heard is not None or body.home == "here":
            self._admit(session, body, time)
        else:
            self.homes.seek(session, body, time)

    def _admit(self, session: Session, body: Subscribe, time: float) -> None:
        saved = self.saved.get(body.durable or "")
        refusal = _unlike(saved, body) or self._misplaced(saved, body)
        if refusal is not None:
            self._reply(session.name, Refused(body.id, refusal))
            return
        self._order += 1
        known = self._doubts_known(saved, body)
        if known is not None and known != self._doubts:
            self._reply(session.name, Doubtful(body.id, self._doubts))
        reader = Reader(session.name, body.id, body.filter, self._order)
        reader.addressee = body.bulk or ""
        _place(reader, body, saved, time, self._node.settings.margin)
        if body.durable is not None:
            self._take(reader, body.durable, saved, body)
        self.readers[reader] = self._starting[reader] = None
        session.readers[body.id] = reader
        self._by_filter.setdefault(body.filter, {})[reader] = None
        self._node.want(session, {body.filter: 1}, {})
        self._follow_epochs(reader, self.ways.streams)
        for stream in list(self.ways.streams):
            if reader in self.readers:  # it may have been refused in the last one
                self._begin(reader, stream)
        if reader in self.readers:
            self._tell_state(reader)

    def _misplaced(self, saved: Saved | None, body: Subscribe) -> str | None:
        """Why a subscription cannot begin where it is to, if so."""
        before = {} if saved is None else saved.cursor
        if body.heard is not None:
            return self._invented(body.heard, before, most=_STRANGERS)
        if isinstance(body.since, dict):
            return self._invented(body.since, before, most=_STRANGERS if body.is_noted else 0)
        return None

    def _invented(self, cursor: Cursor, before: Cursor, *, most: int) -> str | None:
        """Why a cursor cannot be, which names streams that nobody has heard of; if so.

        With what was saved before, it may name so many of them, but none if that is 0.
        """
        heard_of = {broker_of(s) for s in (*self.known, *self.flows, *self.ways.streams)}
        strange = [s for s in {**before, **cursor} if broker_of(s) not in heard_of]
        new = [s for s in strange if s not in before]
        is_long = any(len(stream) > _LONGEST for stream in new)
        return _strange(new) if new and (len(strange) > most or is_long) else None

    def _doubts_known(self, saved: Saved | None, body: Subscribe) -> int | None:
        """How many doubts there were when a reader got where it is; None if it begins now."""
        if body.heard is not None:
            return body.doubts
        return None if saved is None or body.since is not None else saved.doubts

    def _take(self, reader: Reader, name: str, saved: Saved | None, body: Subscribe) -> None:
        """Give a durable subscription to a reader, from whoever has it.

        Where it begins is saved before anything is delivered: whoever comes back must not begin
        behind that.
        """
        before = self._durable.get(name)
        if before is not None:
            self._end(before, _TAKEN)
        reader.durable = name
        self._durable[name] = reader
        if saved is None or body.since is not None:
            positions = dict(reader.positions)
            if reader.begins_now:  # whoever comes back must not begin later, by any clock
                positions = {**self.known, **{s: log.last for s, log in self.archive.logs.items()}}
            taken = Saved(reader.filter, positions, reader.begun, body.owner, self._doubts)
            self._save(name, taken)
            reader.starts = {}
        elif (saved.filter, saved.owner) != (reader.filter, body.owner):
            self._save(name, saved._replace(filter=reader.filter, owner=body.owner))
        else:
            self.holdings.use(name)

    def _follow_epochs(self, reader: Reader, streams: Iterable[str]) -> None:
        """Whoever has a position in a node's stream wants all of the one that comes after it.

        To be called for all streams that turn up together: a place that is found by its time in
        one of them says nothing about the others.
        """
        new = [
            s
            for s in streams
            if epoch_of(s) > 1 and s not in reader.positions and s not in reader.timed
        ]
        begun = [s for s in new if comes_after(s, reader.positions)]
        reader.timed.update(set(new).difference(begun))
        for stream in begun:
            reader.positions[stream] = 0
            reader.begins(stream, 0)

    def _begin(self, reader: Reader, stream: str) -> None:
        """Bring a reader into a stream, or back into it."""
        flow = self._flow(stream)
        position = reader.positions.get(stream)
        if position is None and not reader.begins_now:
            self._fetch_for(reader, stream, BEGIN, after=reader.begun)
        elif not self._is_covered(flow, reader.filter):
            if position is None:
                flow.waiting[reader] = None
                self._probe(flow)
            else:
                self._fetch_for(reader, stream, position)
        elif position is None or position == flow.upto:
            self._follow(reader, flow, flow.upto)
        else:
            self._fetch_for(reader, stream, position)

    def _is_covered(self, flow: Flow, filter: Filter) -> bool:
        """Whether a flow holds all that the filter matches, so that a reader may just follow it.

        That nothing had to be told for it says so, unless that was because nobody advertises it:
        then events that were advertised before may still be on their way to others.
        """
        node = self._node
        if self.is_own(flow.stream):
            return True
        via = node.neighbours.get(self.ways.via(flow.stream) or "")
        if via is None or not flow.is_live or flow.told != via.told:
            return False
        if node.advertisements is None:
            return True
        return any(told.covers(filter) for told in node.subscriptions.told(via))

    def _follow(self, reader: Reader, flow: Flow, position: int) -> None:
        reader.begins(flow.stream, position)
        reader.positions[flow.stream] = position
        if reader.durable is None or not self._node.sessions[reader.session].is_full:
            reader.follows.add(flow.stream)
        self._tell_state(reader)

    def _tell_state(self, reader: Reader) -> None:
        """Accept a reader that has started everywhere; tell it whether it is live."""
        reachable = self.ways.streams
        if reader in self._starting:
            if not reader.positions.keys() >= reachable:
                return
            del self._starting[reader]
            self._begin_out_of_reach(reader)
            if reader.durable is not None and reader.starts is not None:
                saved = self.saved[reader.durable]
                cursor = _later(saved.cursor, reader.starts)
                self._save(reader.durable, saved._replace(cursor=cursor))
            self._tell_missed(reader)
            accepted = Accepted(
                reader.id, cursor=self.cursor(reader), begun=reader.begun, doubts=self._doubts
            )
            self._reply(reader.session, accepted)
        is_live = reader.follows >= reachable
        if is_live is not reader.is_live:
            reader.is_live = is_live
            self._tell_missed(reader)
            self._reply(reader.session, Progress(reader.id, self.cursor(reader), is_live))

    def _begin_out_of_reach(self, reader: Reader) -> None:
        """What begins now begins behind what was heard of a stream that cannot be reached."""
        if reader.begins_now:
            reader.begins_now = False
            for stream, tick in self.known.items():
                if stream not in reader.positions:
                    reader.begins(stream, tick)
                    reader.positions[stream] = tick
                    reader.unreached.add(stream)

    def cursor(self, reader: Reader) -> Cursor:
        """Where a reader is in each stream."""
        return {s: self._position(reader, s) for s in reader.positions}

    def _position(self, reader: Reader, stream: str) -> int:
        position = reader.positions[stream]
        return max(position, self._flow(stream).upto) if stream in reader.follows else position

    def unsubscribe(self, session: Session, body: Unsubscribe) -> None:
        """Read no further; with `forget`, not even later."""
        if body.durable is not None:
            self._reply(session.name, Accepted(body.id, int(self._drop(body.durable))))
            return
        self.homes.cancel(session, body.id)
        reader = session.readers.get(body.id)
        if reader is not None:
            self._close(reader)
            if body.forget and reader.durable is not None:
                self._forget_durable(reader.durable)
                self._node.emit(Sync())
        self._reply(session.name, Accepted(body.id))

    def _drop(self, name: str) -> bool:
        """Forget a durable subscription, whoever reads it; whether there was one."""
        reader = self._durable.get(name)
        if reader is not None:
            self._end(reader, "this durable subscription was forgotten")
        if name not in self.saved:
            return False
        self._forget_durable(name)
        self._node.emit(Sync())
        return True

    def close(self, session: Session) -> None:
        """A client is gone; its durable subscriptions wait for it in the store."""
        self.homes.close(session)
        for reader in list(session.readers.values()):
            self._forget(reader)

    def _close(self, reader: Reader) -> None:
        self._forget(reader)
        self._node.want(self._node.sessions[reader.session], {}, {reader.filter: 1})

    def _forget(self, reader: Reader) -> None:
        del self.readers[reader], self._node.sessions[reader.session].readers[reader.id]
        self._starting.pop(reader, None)
        if reader.durable is not None:
            del self._durable[reader.durable]
        same = self._by_filter[reader.filter]
        del same[reader]
        if not same:
            del self._by_filter[reader.filter]
        for flow in self.flows.values():
            flow.waiting.pop(reader, None)
            flow.probing.pop(reader, None)
        for number in reader.fetches.values():
            self._asked.pop(number, None)

    def _end(self, reader: Reader, reason: str) -> None:
        self._tell_missed(reader)
        self._close(reader)
        self._reply(reader.session, Refused(reader.id, reason))

    def _end_too_old(self, reader: Reader, message: Fetched, position: int) -> None:
        """What comes next for a reader is no longer kept, cannot be read, or is not what it was."""
        self._end_at(reader, message.stream, position, message.place, _too_old(message, position))

    def _end_at(self, reader: Reader, stream: str, position: int, since: int, reason: str) -> None:
        """A reader cannot go on from its position in a stream, but from another tick."""
        cursor = {**self.cursor(reader), stream: since}
        self._tell_missed(reader)
        self._close(reader)
        reason = f"{reason}; continue from {stream}:{since}"
        self._reply(reader.session, Refused(reader.id, reason, cursor, stream, position))

    def acknowledge(self, session: Session, body: Acknowledge) -> None:
        """Save how far a durable subscription has been dealt with."""
        reader = session.readers.get(body.id)
        name = body.durable if reader is None else reader.durable
        saved = None if name is None else self.saved.get(name)
        is_elsewhere = reader is None and (saved is None or saved.owner != body.owner)
        if name is None or saved is None or is_elsewhere:
            reason = "only a durable subscription of this session can be acknowledged"
            self._reply(session.name, Refused(f"acknowledge {body.id}", reason))
            return
        if reader is None:
            refusal = self._invented(body.cursor, saved.cursor, most=_STRANGERS)
        else:
            foreign = body.cursor.keys() - reader.positions.keys() - saved.cursor.keys()
            refusal = _nowhere(foreign) if foreign else None
        if refusal is not None:
            self._reply(session.name, Refused(f"acknowledge {body.id}", refusal))
            return
        doubts = saved.doubts if reader is None else self._doubts
        cursor = _later(saved.cursor, body.cursor)
        self._save(name, saved._replace(cursor=cursor, doubts=doubts))
        self._reply(session.name, Accepted(f"acknowledge {body.id}", body.number))

    def _save(self, name: str, saved: Saved) -> None:
        """The cursor has a key of its own: it changes often, and the filter may be long."""
        before, self.saved[name] = self.saved.get(name), saved
        self.holdings.use(name)
        if before is None or before._replace(cursor=saved.cursor) != saved:
            self._node.emit(Store(f"durable:{name}", _about(saved)))
        if before is None or before.cursor != saved.cursor:
            self._node.emit(Store(f"cursor:{name}", saved.cursor))
        self._node.emit(Sync())

    # -- slow readers --------------------------------------------------------------------------

    def full(self, session: Session) -> None:
        """Those of its readers that may miss nothing stay where they are, and fetch it later."""
        session.is_full = True
        for reader in session.readers.values():
            if reader.durable is not None:
                for stream in reader.follows:
                    reader.positions[stream] = self._position(reader, stream)
                reader.follows.clear()
                self._tell_state(reader)

    def drained(self, session: Session) -> None:
        """Go on; whoever has missed something is told so."""
        session.is_full = False
        for reader in list(session.readers.values()):
            self._tell_missed(reader)
            for stream in list(self.ways.streams):
                flow = self._flow(stream)
                if reader in self.readers and not (
                    stream in reader.follows
                    or stream in reader.fetches
                    or reader in flow.waiting
                    or reader in flow.probing
                ):
                    self._begin(reader, stream)

    def _tell_missed(self, reader: Reader) -> None:
        """No cursor may pass over what was missed before that was said."""
        if reader.missed or reader.lost:
            cursor = self.cursor(reader)
            self._reply(reader.session, Missed(reader.id, reader.missed, cursor, reader.lost))
            reader.missed = reader.lost = 0

    # -- ways ----------------------------------------------------------------------------------

    def opened(self, neighbour: Neighbour) -> None:
        """A link has (re)opened: what was known by it is void, and all is told anew."""
        self.closed(neighbour)
        self._tell_ways(neighbour, None)
        self._tell_doubts(neighbour)

    def closed(self, neighbour: Neighbour) -> None:
        """A link is gone."""
        self._anew(self.ways.lost(neighbour.name))

    def told_ways(self, neighbour: Neighbour, message: Streams) -> None:
        """Streams come by a neighbour, or come anew, or no longer."""
        for stream, tick in message.ticks.items():
            self._hear(stream, tick)
        self._anew(self.ways.told(neighbour.name, message.ways))

    def advertised(self, neighbour: Neighbour, *, has_grown: bool) -> None:
        """More is advertised by a neighbour, so that readers may hear more by it than before.

        Its flows begin anew if what is wanted of it has grown by that. If not, it may have been
        told the same for another reader a moment ago: then those that do not hold that yet do.
        """
        streams = [s for s in self.ways.streams if self.ways.via(s) == neighbour.name]
        self._anew([s for s in streams if has_grown or self._flow(s).told != neighbour.told])

    def repaired(self, neighbour: Neighbour) -> None:
        """It was not sent all it wanted, for its table was wrong: let it fetch."""
        self.doubt()
        self._tell_ways(neighbour, None)

    def _tell_ways(self, neighbour: Neighbour, streams: list[str] | None) -> None:
        if self._node.subscriptions.has(neighbour) and neighbour.link.peer:
            ways = self.ways.to_tell(neighbour.name, streams)
            ticks = {s: self._length(s) for s, way in ways.items() if way.path}
            self._node.send(neighbour, Streams(neighbour.view, ways, ticks))

    def _length(self, stream: str) -> int:
        """How far a stream is, as far as was heard here."""
        own = self.archive.logs.get(stream)
        return self.known.get(stream, 0) if own is None else own.last

    def _anew(self, streams: list[str]) -> None:
        """The flows of these streams have been interrupted: go on where they were."""
        if not streams:
            return
        reachable = [s for s in streams if self.ways.via(s) is not None]
        for reader in self.readers:
            self._follow_epochs(reader, reachable)
        flows = [self._flow(stream) for stream in streams]
        for flow in flows:
            self._check_identity(flow)
        # First of all: what is fetched depends on whether its node knows that it went back.
        self._tell_heard({stream: self.known.get(stream, 0) for stream in streams})
        for flow in flows:
            self._resume(flow)
        for neighbour in self._node.neighbours.values():
            self._tell_ways(neighbour, streams)
        for reader in list(self.readers):
            self._tell_state(reader)
        self.homes.anew(streams)

    def _resume(self, flow: Flow) -> None:
        for number in (flow.fetch, flow.probe):
            self._asked.pop(number, None)
        flow.break_off()
        flow.is_live = is_own = self.is_own(flow.stream)  # here nothing can be missing of it
        is_reachable = self.ways.via(flow.stream) is not None
        if not is_reachable:
            flow.waiting.clear()
        is_followed = False
        for reader in list(self.readers):
            self._asked.pop(reader.fetches.pop(flow.stream, 0), None)
            if flow.stream in reader.follows:
                is_followed = True
            elif is_reachable and reader not in flow.waiting:
                self._begin(reader, flow.stream)
        if is_reachable:
            if is_followed and not is_own:
                flow.fetch = self._ask(flow.stream, flow.upto, None)
            self._probe(flow)

    def _check_identity(self, flow: Flow) -> None:
        """Under the name of a stream comes another one: no position in the old one holds in it."""
        identity = self.ways.way(flow.stream).identity
        if not identity or identity == flow.identity:
            return
        if flow.identity:
            for reader in [r for r in self.readers if flow.stream in r.positions]:
                position = self._position(reader, flow.stream)
                reader.follows.discard(flow.stream)
                if position > 0:
                    reason = _another(flow.stream, position)
                    self._end_at(reader, flow.stream, position, 0, reason)
            flow.upto = UNKNOWN
            self.known[flow.stream] = 0
        flow.identity = identity

    def _flow(self, stream: str) -> Flow:
        flow = self.flows.get(stream)
        if flow is None:
            flow = self.flows[stream] = Flow(stream)
        return flow

    # -- how far streams are -------------------------------------------------------------------

    def _hear(self, stream: str, tick: int) -> None:
        """Another stream has got so far. That there is one is on disk before anything is done."""
        if not self.is_own(stream) and self.known.hear(stream, tick):
            self._note()
            self._node.emit(Sync())

    def _note(self) -> None:
        """Store how far all streams are, if that has changed; it may be lost in a crash."""
        for stream, stored in self.known.changes().items():
            self._node.emit(Store(f"stream:{stream}", stored))

    # -- fetching ------------------------------------------------------------------------------

    def _fetch_for(self, reader: Reader, stream: str, since: int, *, after: float = 0.0) -> None:
        if not self._node.sessions[reader.session].is_full:
            number = self._ask(stream, since, reader.filter, after=after, reader=reader)
            if number in self._asked:  # else it has been answered at once
                reader.fetches[stream] = number

    def _probe(self, flow: Flow) -> None:
        """Ask a stream where it is, for all that begin now."""
        if flow.waiting and not flow.probe and self.ways.via(flow.stream) is not None:
            flow.probing, flow.waiting = flow.waiting, {}
            flow.probe = self._ask(flow.stream, NOW, None)

    def _ask(
        self,
        stream: str,
        since: int,
        filter_: Filter | None,
        *,
        after: float = 0.0,
        reader: Reader | None = None,
    ) -> int:
        self._number += 1
        number = self._number
        if number in self._asked:
            raise Damaged(f"{number} has been asked already")
        way = self.ways.via(stream)
        assert way is not None
        via = self._node.neighbours.get(way)
        self._asked[number] = (reader, -1 if via is None else via.told)
        path = () if via is None else (self._node.name,)
        fetch = Fetch(stream, since, after, filter_, number, path)
        if via is None:
            if reader is not None:
                reader.fetches[stream] = number
            self.archive.answer(fetch)
        else:
            self._node.send(via, fetch)
        return number

    def fetch(self, neighbour: Neighbour, message: Fetch) -> None:
        """Pass a fetch on, or answer it if the stream is this node's own."""
        if message.path[-1:] != (neighbour.name,):
            return  # nobody could be answered
        if self.is_own(message.stream):
            self.archive.answer(message)
            return
        via = self._node.neighbours.get(self.ways.via(message.stream) or "")
        if via is not None and via is not neighbour:
            path = (*message.path, self._node.name)
            self._node.send(via, msgspec.structs.replace(message, path=path))

    def fetched(self, message: Fetched) -> None:
        """Pass an answer back on the way that the fetch came by, or take it."""
        self._hear(message.stream, message.upto)
        path = message.path[:-1]
        if not path:
            self._fetched(message)
            return
        neighbour = self._node.neighbours.get(path[-1])
        if neighbour is not None:
            self._node.send(neighbour, msgspec.structs.replace(message, path=path))

    def _fetched(self, message: Fetched) -> None:
        asked = self._asked.pop(message.number, None)
        if asked is None:
            return  # somebody has lost interest, or the flow was interrupted meanwhile
        reader, told = asked
        flow = self._flow(message.stream)
        if reader is not None:
            self._fetched_for(reader, flow, message, told)
        elif message.number == flow.fetch:
            self._filled(flow, message, told)
        elif message.number == flow.probe:
            flow.probe = 0
            self._lives(flow, message.upto, told)
            for waiting in list(flow.probing):
                self._follow(waiting, flow, message.upto)
            flow.probing = {}
            self._probe(flow)

    def _lives(self, flow: Flow, upto: int, told: int) -> None:
        """The way is open, and told what was wanted; unless readers wait for a gap to be filled,
        the flow goes on from here."""
        if flow.is_live:
            flow.upto = max(flow.upto, upto)
            flow.told = max(flow.told, told)
        elif not flow.fetch:
            flow.is_live, flow.upto, flow.told = True, upto, told

    def _fetched_for(self, reader: Reader, flow: Flow, message: Fetched, told: int) -> None:
        reader.fetches.pop(flow.stream, None)
        if message.lost:
            position = message.since if message.is_damaged else 0
            self._lost(reader, message, reader.positions.get(flow.stream, position))
            return
        reader.unreached.discard(flow.stream)
        reader.begins(flow.stream, message.since)
        for event in message.events:
            if FOR not in event.notification.attributes:
                self._node.emit(Deliver(reader.session, event, (reader.id,)))
            elif (own := as_told(event.notification, reader.addressee)) is not None:
                self._deliver(reader, event, own)
        reader.positions[flow.stream] = message.upto
        if message.is_live:
            self._lives(flow, message.upto, told)
            self._follow(reader, flow, message.upto)
            return
        if reader not in self._starting:
            cursor = {flow.stream: message.upto}
            self._reply(reader.session, Progress(reader.id, cursor, False))
        self._tell_state(reader)
        self._fetch_for(reader, flow.stream, message.upto)

    def _lost(self, reader: Reader, message: Fetched, position: int) -> None:
        """What comes next is no longer kept; a live reader goes on if it has only just begun."""
        stream = message.stream
        has_begun = reader.durable is not None or stream not in reader.unreached
        if has_begun or message.is_damaged or position > message.since:
            self._end_too_old(reader, message, position)
        else:
            reader.lost += message.since - position
            reader.positions[stream] = message.since
            self._tell_missed(reader)
            self._fetch_for(reader, stream, message.since)

    def _filled(self, flow: Flow, message: Fetched, told: int) -> None:
        """(A part of) what an interrupted flow is lacking for those that follow it."""
        flow.fetch = 0
        if message.lost and message.since < flow.upto:
            self._went_back(flow, message)
            return
        if message.lost:
            self._lose(flow, message)
        for event in message.events:
            if event.tick > flow.upto:
                self._notify(event, self._node.subscriptions.filters(event.notification))
        flow.upto = message.upto
        if message.is_live:
            flow.is_live, flow.told = True, told
        else:
            flow.fetch = self._ask(flow.stream, flow.upto, None)

    def _lose(self, flow: Flow, message: Fetched) -> None:
        """What an interrupted flow is lacking is no longer kept, or cannot be read."""
        before, flow.upto = flow.upto, message.place
        for reader in [r for r in self.readers if flow.stream in r.follows]:
            position = max(reader.positions[flow.stream], before)
            if message.place <= position:
                continue  # it is ahead of the flow, and lacks nothing
            if reader.durable is not None or message.is_damaged:
                self._end_too_old(reader, message, position)
                continue
            reader.positions[flow.stream] = message.place
            reader.lost += message.place - position
            if not self._node.sessions[reader.session].is_full:
                self._tell_missed(reader)

    # -- streams that go back ------------------------------------------------------------------

    def _went_back(self, flow: Flow, message: Fetched) -> None:
        """A stream ends before what has come of it: whoever follows it is told."""
        for reader in [r for r in self.readers if flow.stream in r.follows]:
            self._end_too_old(reader, message, self._position(reader, flow.stream))
        flow.upto = UNKNOWN
        self.known[flow.stream] = message.upto
        self._probe(flow)

    def _tell_heard(self, upto: dict[str, int], besides: Neighbour | None = None) -> None:
        """Let the nodes of these streams know how far they were heard."""
        by_way: dict[Neighbour, dict[str, int]] = {}
        for stream, tick in upto.items():
            via = self._node.neighbours.get(self.ways.via(stream) or "")
            if via is not None and via is not besides and tick > 0:
                by_way.setdefault(via, {})[stream] = tick
        for via, heard in by_way.items():
            self._node.send(via, Heard(heard))

    def heard(self, neighbour: Neighbour | None, message: Heard) -> None:
        """Streams were heard so far. Beyond the end of its own, this node must have been before:
        its store went back, and the ticks behind that end must not be given out again."""
        self._tell_heard(dict(message.upto), besides=neighbour)
        tick = message.upto.get(self.stream, 0)
        if tick > self.log.last:
            self._raise(tick)

    def _raise(self, known: int) -> None:
        """Begin a stream of the next epoch. Readers go over to it; no tick is used twice."""
        before, last = self.stream, self.log.last
        stream = stream_name(self._node.name, epoch_of(before) + 1)
        self._node.emit(Raise(stream, _raised(before, last, known, stream)))
        self._identities[stream] = self.ways.instance
        self._node.emit(Store("identities", dict(self._identities)))
        self._node.emit(Sync())
        self.archive.begin(stream)
        self.ways.begin(stream, self._identities[stream])
        self.flows[stream] = _own_flow(stream, 0)
        self._silent_since = 0
        for neighbour in self._node.neighbours.values():
            self._tell_ways(neighbour, [stream])
        for reader in list(self.readers):
            self._follow_epochs(reader, [stream])
            self._begin(reader, stream)
            self._tell_state(reader)

    # -- silence -------------------------------------------------------------------------------

    def silence(self, neighbour: Neighbour, message: Silence) -> None:
        """Nothing more is to be expected up to these ticks."""
        upto = {s: t for s, t in message.upto.items() if self.ways.via(s) == neighbour.name}
        for stream, tick in upto.items():
            self._hear(stream, tick)
            flow = self._flow(stream)
            if flow.is_live:
                self._check_ahead(flow, tick)
                flow.upto = tick
        self._tell_silence(upto, besides=neighbour)

    def _check_ahead(self, flow: Flow, tick: int) -> None:
        """Nobody here is ahead of what has come by: whoever seems to be goes on from there."""
        ahead = [r for r in self.readers if flow.stream in r.follows]
        ahead = [r for r in ahead if r.positions[flow.stream] > tick]
        for reader in ahead:
            reader.positions[flow.stream] = tick
        if ahead or flow.upto > tick:
            self.doubt()

    # -- doubts --------------------------------------------------------------------------------

    def doubt(self) -> None:
        """What readers anywhere were told may lack events, or repeat some: let them know."""
        name = self._node.name
        self._doubts_are({**self.doubts, name: self.doubts.get(name, 0) + 1})

    def told_doubts(self, neighbour: Neighbour, message: Doubt) -> None:
        """Something was damaged elsewhere, and may have kept from us what we want."""
        news = {n: c for n, c in message.found.items() if c > self.doubts.get(n, 0)}
        if news:
            self._doubts_are({**self.doubts, **news}, besides=neighbour)

    def _doubts_are(self, doubts: dict[str, int], besides: Neighbour | None = None) -> None:
        self.doubts = doubts
        self._node.emit(Store("doubts", dict(doubts)))
        self._node.emit(Sync())
        for neighbour in self._node.neighbours.values():
            if neighbour is not besides:
                self._tell_doubts(neighbour)
        for reader in self.readers:
            self._reply(reader.session, Doubtful(reader.id, self._doubts))

    def _tell_doubts(self, neighbour: Neighbour) -> None:
        if self.doubts and self._node.subscriptions.has(neighbour):
            self._node.send(neighbour, Doubt(dict(self.doubts)))

    @property
    def _doubts(self) -> int:
        return sum(self.doubts.values())

    def beat(self) -> None:
        """Now and then: tell neighbours and clients how far everything is."""
        self.known.passed(self._node.settings.progress, reachable=self.ways.streams)
        self._note()
        self._look_for_doubles()
        if self.log.last > self._silent_since:
            self._silent_since = self.log.last
            self._tell_silence({self.stream: self.log.last})
        cursor = {s: f.upto for s, f in self.flows.items() if f.is_live}
        for session in self._node.sessions.values():
            if session.readers and not session.is_full:
                news = {s: t for s, t in cursor.items() if t > session.progress.get(s, -1)}
                if news:
                    session.progress.update(news)
                    self._reply(session.name, Progress("", news, True))

    def _look_for_doubles(self) -> None:
        found = self.ways.doubles()
        self._suspected = {name: self._suspected.get(name, 0) + 1 for name in found}
        self.doubles = {n: ways for n, ways in found.items() if self._suspected[n] > _DOUBTED}

    def _tell_silence(self, upto: dict[str, int], besides: Neighbour | None = None) -> None:
        if upto:
            for neighbour in self._node.neighbours.values():
                if neighbour is not besides and self._node.subscriptions.has(neighbour):
                    self._node.send(neighbour, Silence(upto))

    def _reply(self, session: str, answer: Answer) -> None:
        self._node.emit(Reply(session, answer))


def _own_flow(stream: str, last: int) -> Flow:
    flow = Flow(stream)
    flow.is_live, flow.upto = True, last
    return flow


def _raised(before: str, last: int, known: int, stream: str) -> str:
    return (
        f"{before} ends at tick {last} here, but was heard up to {known} elsewhere: the store went "
        f"back without a trace. {before} is closed at {last}, and {stream} begins. Events behind "
        f"{last} that were published before are lost here; whoever is ahead is told"
    )


def _place(
    reader: Reader, body: Subscribe, saved: Saved | None, time: float, margin: float
) -> None:
    """Find out where to begin."""
    before = {} if saved is None else saved.cursor
    reader.begun = body.begun if saved is None else saved.begun
    if body.heard is not None:
        reader.positions = {**before, **body.heard}
        reader.begins_now = saved is None and body.begun < 0.0
    elif isinstance(body.since, dict):
        reader.positions = {**before, **body.since}
    elif body.since is not None:
        reader.begun = 0.0 if body.since == "begin" else float(body.since)
    elif saved is not None:
        reader.positions = dict(before)
    else:
        reader.begins_now = True
    if reader.begins_now:
        reader.begun = max(0.0, time - margin)


def _later(one: Cursor, other: Cursor) -> Cursor:
    """In each stream, the later of two positions."""
    return {**one, **{s: t for s, t in other.items() if t > one.get(s, -1)}}


def _about(saved: Saved) -> tuple[Filter, float, str, int]:
    """What is stored of it apart from the cursor."""
    return saved.filter, saved.begun, saved.owner, saved.doubts


def _unlike(saved: Saved | None, body: Subscribe) -> str | None:
    """Why a durable subscription cannot be what is asked for, if so."""
    if body.durable is None:
        return None
    if saved is None:
        if body.heard is None:
            return None
        return (
            "this broker does not know this durable subscription (any more); it lives at the "
            "broker where it began, unless it was forgotten"
        )
    if body.heard is not None and saved.owner != body.owner:
        return _TAKEN
    if saved.filter == body.filter or body.replace:
        return None
    return (
        f"this durable subscription hears {saved.filter}, not {body.filter}; with replace=True "
        "(--replace) it hears the new filter behind what was acknowledged under the old one"
    )


def _strange(streams: Iterable[str]) -> str:
    return (
        f"this broker has never heard of {_some(streams)}: a cursor names streams, which are "
        "called as their brokers are. Leave out what is wrong or gone for good; if a broker is "
        "new, wait until there is a way from it"
    )


def _nowhere(streams: Iterable[str]) -> str:
    return f"this subscription is nowhere in {_some(streams)}, so it has nothing to acknowledge"


def _some(streams: Iterable[str]) -> str:
    """Some names, shortened, and how many more there are.

    >>> _some(["d", "a", "c", "b" * 40])
    "'a', 'bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb…', 'c' and 1 more"
    """
    found = sorted(streams)
    named = ", ".join(repr(s if len(s) <= 32 else f"{s[:32]}…") for s in found[:3])
    return f"{named} and {len(found) - 3} more" if len(found) > 3 else named


def _too_old(message: Fetched, position: int) -> str:
    if message.is_damaged:
        return damaged(message.stream, position, message.upto)
    place = f"this cursor is at tick {position} of {message.stream}, which"
    if position < message.since:
        return f"{place} is kept from tick {message.since + 1} on only"
    return f"{place} ends at {message.upto}: what came behind that was lost by its broker"


def _another(stream: str, position: int) -> str:
    return (
        f"this cursor is at tick {position} of a stream {stream} that is gone; another one has its "
        f"name: the broker {broker_of(stream)} came back with an empty store, or is another broker"
    )
