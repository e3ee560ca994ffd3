"""Reading: how readers come into the flows of streams, and go on where these were interrupted.

As long as no link on the way has been interrupted, all that is wanted arrives by itself. After an
interruption the streams that come by that link are told anew, all the way down, and every node
with readers fetches what it may have missed from the log of the stream's own node. The fetch
travels behind all that the node wants, so what is published after it was answered flows by itself
again. That is also how a reader begins, now or in the past, and why its start is a definite tick.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import partial

import msgspec

from tidings.delivery.copies import FOR, as_told
from tidings.delivery.doubts import Doubts
from tidings.delivery.fetching import Fetching
from tidings.delivery.logs import damaged
from tidings.delivery.readers import UNKNOWN, Client, Flow, Reader
from tidings.delivery.stages import AWAY, FETCHING, FOLLOWING, HELD, PROBING, WAITING, Stage, Turn
from tidings.delivery.standing import Standing
from tidings.delivery.streams import Reached
from tidings.delivery.telling import Starts, Telling
from tidings.events import Filter
from tidings.protocol.digest import count
from tidings.protocol.epochs import broker_of, comes_after, epoch_of
from tidings.protocol.host import Deliver
from tidings.protocol.messages import BEGIN, NOW, Event, Fetched
from tidings.protocol.parts import Kernel, Neighbour, Session, Version, Wants
from tidings.protocol.requests import Refused


class Reading:
    """The readers of a node, and the flows that they follow."""

    def __init__(
        self,
        kernel: Kernel,
        wants: Wants,
        reached: Reached,
        fetching: Fetching,
        doubts: Doubts,
        starts: Starts,
        ends: Mapping[str, int],
    ) -> None:
        """`ends` are the last ticks of the node's own streams."""
        self._kernel, self._wants = kernel, wants
        self._reached, self._fetching, self._starts = reached, fetching, starts
        self.clients: dict[str, Client] = {}
        """By session."""
        self.flows = {stream: _own_flow(stream, last) for stream, last in ends.items()}
        self.readers: dict[Reader, None] = {}
        self._by_filter: dict[Filter, dict[Reader, None]] = {}
        self._standing = Standing(reached, fetching)
        self.telling = Telling(kernel, reached, doubts, starts, self.flows, self.clients)

    def flow(self, stream: str) -> Flow:
        """A stream as it comes here."""
        flow = self.flows.get(stream)
        if flow is None:
            flow = self.flows[stream] = Flow(stream)
        return flow

    def begin_own(self, stream: str) -> None:
        """The node has a new stream, in which nothing is yet."""
        self.flows[stream] = _own_flow(stream, 0)

    # -- delivering ----------------------------------------------------------------------------

    def notify(self, event: Event, filters: Iterable[Filter]) -> None:
        """Deliver an event of a flow to the readers that follow it."""
        if FOR in event.notification.attributes:
            self._notify_addressees(event, filters)
            return
        stream, tick, by_filter = event.stream, event.tick, self._by_filter
        told: dict[str, list[str]] = {}
        for filter_ in filters:
            for reader in by_filter.get(filter_, ()):
                if reader.stages.get(stream) is FOLLOWING and tick > reader.positions[stream]:
                    ids = told.get(reader.session)
                    if ids is None:
                        told[reader.session] = [reader.id]
                    else:
                        ids.append(reader.id)
        for name, ids in told.items():
            client = self.clients[name]
            if client.is_full:
                for id in ids:
                    client.readers[id].missed += 1
            else:
                self._kernel.emit(Deliver(name, event, tuple(ids)))

    def _notify_addressees(self, event: Event, filters: Iterable[Filter]) -> None:
        """Deliver a copy for bulk subscribers: to each of them as if it were for nobody else."""
        stream = event.stream
        for filter_ in filters:
            for reader in self._by_filter.get(filter_, ()):
                if reader.follows(stream) and event.tick > reader.positions[stream]:
                    told = _as_told(event, reader)
                    if told is not None and self.clients[reader.session].is_full:
                        reader.missed += 1
                    elif told is not None:
                        self._kernel.emit(Deliver(reader.session, told, (reader.id,)))

    # -- beginning -----------------------------------------------------------------------------

    def add(self, reader: Reader) -> None:
        """Begin to read. It is accepted once it has begun in every stream that is there."""
        client = self.clients[reader.session]
        self.readers[reader] = self.telling.starting[reader] = None
        client.readers[reader.id] = reader
        self._by_filter.setdefault(reader.filter, {})[reader] = None
        self._wants.want(client.session, {reader.filter: 1}, {})
        streams = self._reached.ways.streams
        self.follow_epochs(reader, streams)
        for stream in list(streams):
            if reader in self.readers:  # it may have been refused in the last one
                self.begin(reader, stream)
        if not reader.is_live:
            # What the node's own log answers comes first: it may refuse where this begins.
            self._kernel.soon(partial(self._accept, reader))

    def _accept(self, reader: Reader) -> None:
        if reader in self.readers:
            self.telling.state(reader)

    def follow_epochs(self, reader: Reader, streams: Iterable[str]) -> None:
        """A reader with a position in a node's stream wants all of the one that comes after it.

        To be called for all streams that turn up together: a place that is found by its time in
        one of them says nothing about the others.
        """
        new = [
            s
            for s in streams
            if epoch_of(s) > 1 and s not in reader.positions and s not in reader.timed
        ]
        if not new:
            return
        begun = [s for s in new if comes_after(s, reader.positions)]
        reader.timed.update(set(new).difference(begun))
        for stream in begun:
            reader.positions[stream] = 0
            reader.begins(stream, 0)

    def begin(self, reader: Reader, stream: str) -> None:
        """Bring a reader into a stream, or back into it."""
        flow, position = self.flow(stream), reader.positions.get(stream)
        stage = self._entrance(reader, flow)
        if stage is FETCHING:
            since, after = (BEGIN, reader.begun) if position is None else (position, 0.0)
            self._fetch_for(reader, flow, Turn.ENTER, since, after=after)
        elif stage is FOLLOWING:
            self._follow(reader, flow, Turn.ENTER, flow.upto)
        else:
            self._standing.turn(reader, flow, Turn.ENTER, stage)
            self._probe(flow)

    def _entrance(self, reader: Reader, flow: Flow) -> Stage:
        """How a reader gets into a stream; an earlier one of its node comes first."""
        if self._standing.has_earlier(reader, flow.stream):
            return HELD
        position = reader.positions.get(flow.stream)
        if position is None and not reader.begins_now:
            return FETCHING
        if not self._is_covered(flow, reader.filter):
            return WAITING if position is None else FETCHING
        return FOLLOWING if position is None or position == flow.upto else FETCHING

    def _release(self, reader: Reader) -> None:
        """Bring a reader into the streams that were held back for others."""
        for stream in self._standing.released(reader):
            self.begin(reader, stream)

    def _is_covered(self, flow: Flow, filter: Filter) -> bool:
        """Whether a flow holds all that the filter matches, so that a reader may just follow it.

        That nothing had to be told for it says so, unless that was because nobody advertises it:
        then events that were advertised before may still be on their way to others.
        """
        if self._reached.is_own(flow.stream):
            return True
        via = self._reached.ways.via(flow.stream)
        if via is None or not flow.is_live or flow.told != via.told:
            return False
        if not self._wants.is_advertised:
            return True
        return any(told.covers(filter) for told in self._wants.told(via))

    def _follow(self, reader: Reader, flow: Flow, turn: Turn, position: int) -> None:
        reader.begins(flow.stream, position)
        reader.positions[flow.stream] = position
        is_stopped = reader.durable is not None and self._is_stopped(reader)
        self._standing.turn(reader, flow, turn, AWAY if is_stopped else FOLLOWING)
        if HELD in reader.stages.values():
            self._release(reader)
        self.telling.state(reader)

    # -- ending --------------------------------------------------------------------------------

    def remove(self, reader: Reader) -> None:
        """Its client wants it no longer."""
        self._forget(reader)
        self._wants.want(self.clients[reader.session].session, {}, {reader.filter: 1})

    def left(self, session: Session) -> None:
        client = self.clients.pop(session.name, None)
        for reader in [] if client is None else list(client.readers.values()):
            self._forget(reader)

    def _forget(self, reader: Reader) -> None:
        del self.readers[reader]
        client = self.clients.get(reader.session)
        if client is not None:
            del client.readers[reader.id]
        self.telling.starting.pop(reader, None)
        self._starts.ended(reader)
        same = self._by_filter[reader.filter]
        del same[reader]
        if not same:
            del self._by_filter[reader.filter]
        self._standing.forget(reader, self.flows.values())

    def end(self, reader: Reader, reason: str, *, is_passing: bool = False) -> None:
        """It may not go on; or not for now."""
        self.telling.missed(reader)
        self.remove(reader)
        self.telling.reply(reader, Refused(reader.id, reason, is_passing=is_passing))

    def _end_too_old(self, reader: Reader, message: Fetched, position: int) -> None:
        """What comes next for a reader is no longer kept, cannot be read, or is not what it was."""
        self._end_at(reader, message.stream, position, message.place, _too_old(message, position))

    def _end_at(self, reader: Reader, stream: str, position: int, since: int, reason: str) -> None:
        """A reader cannot go on from its position in a stream, but from another tick."""
        cursor = {**self.telling.cursor(reader), stream: since}
        self.telling.missed(reader)
        self.remove(reader)
        reason = f"{reason}; continue from {stream}:{since}"
        self.telling.reply(reader, Refused(reader.id, reason, cursor, stream, position))

    # -- slow readers --------------------------------------------------------------------------

    def full(self, client: Client) -> None:
        """Those of its readers that may miss nothing stay where they are, and fetch it later."""
        client.is_full = True
        for reader in client.readers.values():
            if reader.durable is not None:
                self._stop(reader)

    def drained(self, client: Client) -> None:
        """Go on; a reader that has missed something is told so."""
        client.is_full = False
        for reader in list(client.readers.values()):
            self.telling.missed(reader)
            self._start(reader)

    def pause(self, reader: Reader, *, is_paused: bool) -> None:
        """Tell a durable reader nothing, or go on where it was."""
        reader.is_paused = is_paused
        if is_paused:
            self._stop(reader)
        elif not self.clients[reader.session].is_full:
            self._start(reader)

    def _is_stopped(self, reader: Reader) -> bool:
        return reader.is_paused or self.clients[reader.session].is_full

    def _stop(self, reader: Reader) -> None:
        """It follows nothing any more, and stays where it is."""
        for flow in [f for s, f in self.flows.items() if reader.follows(s)]:
            reader.positions[flow.stream] = self.telling.position(reader, flow.stream)
            self._standing.turn(reader, flow, Turn.FILL, AWAY)
        self.telling.state(reader)

    def _start(self, reader: Reader) -> None:
        """Bring it back into all streams."""
        for stream in list(self._reached.ways.streams):
            if reader in self.readers and reader.stage(stream) in (AWAY, HELD):
                self.begin(reader, stream)

    # -- interruptions -------------------------------------------------------------------------

    def anew(self, streams: list[str]) -> None:
        """The flows of these streams have been interrupted: go on where they were."""
        reached = self._reached
        reachable = [s for s in streams if s in reached.ways.streams]
        for reader in self.readers:
            self.follow_epochs(reader, reachable)
        flows = [self.flow(stream) for stream in streams]
        for flow in flows:
            self._check_identity(flow)
        # First of all: what is fetched depends on whether its node knows that it went back.
        reached.tell_heard({stream: reached.known.get(stream, 0) for stream in streams})
        for flow in flows:
            self.resume(flow)
        reached.tell_all(streams)
        for reader in list(self.readers):
            self._release(reader)
            self.telling.state(reader)

    def resume(self, flow: Flow) -> None:
        """Ask for whatever may be missing in a flow."""
        self._fetching.forget(flow.fetch)
        self._fetching.forget(flow.probe)
        flow.fetch = flow.probe = 0
        flow.is_live = is_own = self._reached.is_own(flow.stream)  # nothing of it can be missing
        is_reachable = flow.stream in self._reached.ways.streams
        for reader in list(self.readers):
            self._interrupt(reader, flow, is_reachable=is_reachable)
        if is_reachable:
            if not is_own and any(reader.follows(flow.stream) for reader in self.readers):
                flow.fetch = self._fetching.ask(flow.stream, flow.upto)
            self._probe(flow)

    def _interrupt(self, reader: Reader, flow: Flow, *, is_reachable: bool) -> None:
        """What a reader has asked for is lost; who follows waits for the gap to be filled."""
        stage = reader.stage(flow.stream)
        if stage in (WAITING, PROBING):
            stage = WAITING if is_reachable else AWAY
        elif stage is FETCHING:
            stage = AWAY
        self._standing.turn(reader, flow, Turn.BREAK, stage)
        if is_reachable and stage in (AWAY, HELD):
            self.begin(reader, flow.stream)

    def _check_identity(self, flow: Flow) -> None:
        """Under the name of a stream comes another one: no position in the old one holds in it."""
        identity = self._reached.ways.way(flow.stream).identity
        if not identity or identity == flow.identity:
            return
        if flow.identity:
            for reader in [r for r in self.readers if flow.stream in r.positions]:
                position = self.telling.position(reader, flow.stream)
                if reader.follows(flow.stream):
                    self._standing.turn(reader, flow, Turn.RENAME, AWAY)
                if position > 0:
                    reason = _another(flow.stream, position)
                    self._end_at(reader, flow.stream, position, 0, reason)
            flow.upto, flow.complete = UNKNOWN, 0.0
            self._reached.known[flow.stream] = 0
        flow.identity = identity

    def look_after(self, now: float, patience: float) -> None:
        """Ask again what was not answered for too long."""
        late = self._fetching.late(now, patience)
        for flow in [f for f in self.flows.values() if late & self._questions(f)]:
            self.resume(flow)
        self.telling.mend()

    def _questions(self, flow: Flow) -> set[int]:
        numbers = {r.fetches[flow.stream] for r in self.readers if flow.stream in r.fetches}
        return {flow.fetch, flow.probe, *numbers}

    # -- fetching ------------------------------------------------------------------------------

    def _fetch_for(
        self, reader: Reader, flow: Flow, turn: Turn, since: int, *, after: float = 0.0
    ) -> None:
        """Ask for what lies behind a tick, or is not older than a time, if its client reads."""
        stream, is_stopped = flow.stream, self._is_stopped(reader)
        self._standing.turn(reader, flow, turn, AWAY if is_stopped else FETCHING)
        if not is_stopped:
            asked = self._fetching.ask(stream, since, reader.filter, after=after, reader=reader)
            reader.fetches[stream] = asked

    def _probe(self, flow: Flow) -> None:
        """Ask a stream where it is, for all that begin now."""
        if flow.waiting and not flow.probe and flow.stream in self._reached.ways.streams:
            for reader in list(flow.waiting):
                self._standing.turn(reader, flow, Turn.PROBE, PROBING)
            flow.probe = self._fetching.ask(flow.stream, NOW)

    def fetched(self, message: Fetched) -> None:
        """Something has been asked for, and this is the answer."""
        asked = self._fetching.answered(message.number)
        if asked is None:
            return  # somebody has lost interest, or the flow was interrupted meanwhile
        reader, told = asked
        flow = self.flow(message.stream)
        if reader is not None:
            self._fetched_for(reader, flow, message, told)
        elif message.number == flow.fetch:
            self._filled(flow, message, told)
        elif message.number == flow.probe:
            flow.probe = 0
            self._lives(flow, message.upto, told)
            for waiting in list(flow.probing):
                self._follow(waiting, flow, Turn.REACH, message.upto)
            self._probe(flow)

    def _lives(self, flow: Flow, upto: int, told: Version) -> None:
        """The way is open, and told what was wanted; unless readers wait for a gap to be filled,
        the flow goes on from here."""
        if flow.is_live:
            flow.upto = max(flow.upto, upto)
            flow.told = max(flow.told, told)
        elif not flow.fetch:
            flow.is_live, flow.upto, flow.told = True, upto, told

    def _fetched_for(self, reader: Reader, flow: Flow, message: Fetched, told: Version) -> None:
        if message.lost:
            position = message.since if message.is_damaged else 0
            self._lost(reader, message, reader.positions.get(flow.stream, position))
            return
        reader.unreached.discard(flow.stream)
        reader.begins(flow.stream, message.since)
        for event in message.events:
            if (own := _as_told(event, reader)) is not None:
                self._kernel.emit(Deliver(reader.session, own, (reader.id,)))
        reader.positions[flow.stream] = message.upto
        if message.is_live:
            self._lives(flow, message.upto, told)
            self._follow(reader, flow, Turn.REACH, message.upto)
            return
        self.telling.part(reader, flow.stream, message.upto)
        self.telling.state(reader)
        self._fetch_for(reader, flow, Turn.PART, message.upto)

    def _lost(self, reader: Reader, message: Fetched, position: int) -> None:
        """What comes next is no longer kept; a live reader goes on if it has only just begun."""
        stream = message.stream
        has_begun = reader.durable is not None or stream not in reader.unreached
        if has_begun or message.is_damaged or position > message.since:
            self._end_too_old(reader, message, position)
        else:
            reader.lost += message.since - position
            reader.positions[stream] = message.since
            self.telling.missed(reader)
            self._fetch_for(reader, self.flow(stream), Turn.PART, message.since)

    def _filled(self, flow: Flow, message: Fetched, told: Version) -> None:
        """(A part of) what an interrupted flow is lacking for those that follow it."""
        flow.fetch = 0
        if message.lost and message.since < flow.upto:
            self._went_back(flow, message)
            return
        if message.lost:
            self._lose(flow, message)
        for event in message.events:
            if event.tick > flow.upto:
                self.notify(event, self._wants.filters(event.notification))
        flow.upto = message.upto
        if message.is_live:
            flow.is_live, flow.told = True, told
        else:
            flow.fetch = self._fetching.ask(flow.stream, flow.upto)

    def _lose(self, flow: Flow, message: Fetched) -> None:
        """What an interrupted flow is lacking is no longer kept, or cannot be read."""
        before, flow.upto = flow.upto, message.place
        for reader in self._followers(flow):
            position = max(reader.positions[flow.stream], before)
            if message.place <= position:
                continue  # it is ahead of the flow, and lacks nothing
            if reader.durable is not None or message.is_damaged:
                self._end_too_old(reader, message, position)
                continue
            reader.positions[flow.stream] = message.place
            reader.lost += message.place - position
            if not self.clients[reader.session].is_full:
                self.telling.missed(reader)

    def _went_back(self, flow: Flow, message: Fetched) -> None:
        """A stream ends before what has come of it: those that follow it are told."""
        for reader in self._followers(flow):
            self._end_too_old(reader, message, self.telling.position(reader, flow.stream))
        flow.upto = UNKNOWN
        self._reached.known[flow.stream] = message.upto
        self._probe(flow)

    def advertised(self, neighbour: Neighbour, *, has_grown: bool) -> list[str]:
        """More is advertised by a neighbour: the streams of which readers may hear more.

        Its flows begin anew if what is wanted of it has grown by that. If not, it may have been
        told the same for another reader a moment ago: then those that do not hold that yet do.
        """
        ways = self._reached.ways
        streams = [s for s in ways.streams if ways.via(s) is neighbour]
        return [s for s in streams if has_grown or self.flow(s).told != neighbour.told]

    def is_ahead(self, flow: Flow, tick: int) -> bool:
        """Whether anybody here is ahead of what has come by; they go on from there."""
        ahead = [r for r in self._followers(flow) if r.positions[flow.stream] > tick]
        for reader in ahead:
            reader.positions[flow.stream] = tick
        return bool(ahead) or flow.upto > tick

    def _followers(self, flow: Flow) -> list[Reader]:
        return [reader for reader in self.readers if reader.follows(flow.stream)]

    # -- auditing ------------------------------------------------------------------------------

    def audit(self, sessions: Collection[Session]) -> Iterator[str]:
        """Whatever cannot be true of it."""
        yield from self._audit_flows()
        yield from self.telling.audit(self.flows, self.clients)
        readers = self.readers
        if sum(len(client.readers) for client in self.clients.values()) != len(readers):
            yield "a session has a reader that is not there, or lacks one"
        if sum(len(same) for same in self._by_filter.values()) != len(readers):
            yield "there are readers without a filter, or filters without a reader"
        if not self.telling.starting.keys() <= readers.keys():
            yield "somebody starts who is not there"
        for session in sessions:
            client = self.clients.get(session.name)
            if client is None:
                yield f"{session.name} is no client"
                continue
            for id, reader in client.readers.items():
                if reader not in readers or (reader.session, reader.id) != (session.name, id):
                    yield f"{session.name} does not have the reader {id}"
                else:
                    yield from self._audit_reader(reader, client)
            wanted = count({id: reader.filter for id, reader in client.readers.items()})
            if self._wants.wanted(session) != wanted:
                yield f"what {session.name} wants is not in the table"

    def _audit_flows(self) -> Iterator[str]:
        followed = {s for reader in self.readers for s in reader.stages if reader.follows(s)}
        for stream, flow in self.flows.items():
            if flow.stream != stream:
                yield f"flow {stream} is that of {flow.stream}"
            if any(number and number not in self._fetching for number in (flow.fetch, flow.probe)):
                yield f"flow {stream} waits for what was not asked"
            if flow.is_live and flow.fetch:
                yield f"flow {stream} is live, and lacks something"
            yield from self._standing.audit_flow(flow, self.readers)
            is_reachable = stream in self._reached.ways.streams
            if is_reachable and stream in followed and not (flow.is_live or flow.fetch):
                yield f"nobody asks for what flow {stream} lacks"

    def _audit_reader(self, reader: Reader, client: Client) -> Iterator[str]:
        what = f"reader {reader.id} of {reader.session}"
        if reader not in self._by_filter.get(reader.filter, {}):
            yield f"{what} is not known by its filter"
        for stream, position in reader.positions.items():
            if self._reached.is_own(stream) and position > self.flow(stream).upto:
                yield f"{what} is ahead of the log"
        streams = self._reached.ways.streams
        if reader in self.telling.starting:
            if reader.positions.keys() >= streams:
                yield f"{what} has started, and was not accepted"
        elif reader.is_live is not all(map(reader.follows, streams)):
            yield f"{what} was not told that it is live, or that it is not"
        yield from self._standing.audit(reader, self.flows, is_full=self._is_stopped(reader))


def _as_told(event: Event, reader: Reader) -> Event | None:
    """An event as a reader is told it; None if it is a copy for somebody else."""
    if FOR not in event.notification.attributes:
        return event
    own = as_told(event.notification, reader.addressee)
    return None if own is None else msgspec.structs.replace(event, notification=own)


def _own_flow(stream: str, last: int) -> Flow:
    return Flow(stream, is_live=True, upto=last)


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
