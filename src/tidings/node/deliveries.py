"""Deliveries: what makes a node lose nothing, once it has a log.

Publications go to the log before they go anywhere else. They then flow to whoever wants them, and
as long as no link on the way has been interrupted, all of them arrive. After an interruption the
streams that come by that link are told anew (`Streams`), all the way down, and every node with
readers fetches what it may have missed from the log of the stream's own node. The fetch travels
behind all that the node wants, so what is published after it was answered flows by itself again.
That is also how a reader begins, now or in the past, and why its start is a definite tick.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from tidings.delivery import Flow, Log, Reader, Ways
from tidings.events import Filter, Notification
from tidings.node.archive import Archive, size
from tidings.node.host import Append, Deliver, Reply, Span, Store, Sync
from tidings.node.messages import BEGIN, NOW, Event, Fetch, Fetched, Silence, Streams
from tidings.node.ports import Neighbour, Session
from tidings.node.requests import (
    Accepted,
    Acknowledge,
    Answer,
    Cursor,
    Missed,
    Progress,
    Publish,
    Refused,
    Subscribe,
    Unsubscribe,
)

if TYPE_CHECKING:
    from tidings.node.node import Node

_REMEMBERED: Final = 7 * 24 * 3600.0
"""A publisher that has been away for longer than this can't count on its numbers any more."""

Saved: TypeAlias = tuple[Filter, Cursor, float]
"""A durable subscription in the store: its filter, what was acknowledged, and when it began."""


class Deliveries:
    """The log, the readers and the flows of one node."""

    def __init__(self, node: Node, span: Span) -> None:
        self._node = node
        self.archive = Archive(node, span, self._fetched)
        self.ways = Ways(node.name)
        own = Flow(node.name)
        own.is_live, own.upto = True, span.last
        self.flows: dict[str, Flow] = {node.name: own}
        self.readers: dict[Reader, None] = {}
        self.saved: dict[str, Saved] = {}
        """Durable subscriptions, by name; those in `_durable` are being read."""
        self._durable: dict[str, Reader] = {}
        self._published: dict[str, tuple[int, float]] = {}
        """The last number of every publisher that was here, and when that was."""
        self._by_filter: dict[Filter, dict[Reader, None]] = {}
        self._starting: dict[Reader, None] = {}
        self._order = 0
        self._number = node.incarnation << 32
        """Answers to what an earlier node of this name asked may still be on their way."""
        self._asked: dict[int, tuple[Reader | None, int]] = {}
        """For whom something is being fetched, and how much its neighbour had been told before."""
        self._silent_since = span.last

    @property
    def log(self) -> Log[Event]:
        """The node's own stream."""
        return self.archive.log

    def restore(self, stored: dict[str, Any]) -> None:
        """Take up what an earlier node had stored."""
        for key, value in stored.items():
            kind, _, name = key.partition(":")
            if kind == "durable":
                filter_, begun = value
                self.saved[name] = (filter_, dict(stored.get(f"cursor:{name}", {})), begun)
            elif kind == "publisher":
                if value[1] > self.log.time - _REMEMBERED:
                    self._published[name] = value
                else:
                    self._node.emit(Store(key, None))

    # -- publishing ----------------------------------------------------------------------------

    def publish(
        self,
        session: Session,
        body: Publish,
        time: float,
        check: Callable[[Session, Notification], bool | None],
    ) -> None:
        """Keep what is new, then let it flow. `check` says whether all are to hear it, or None."""
        last = self.published(session.name)
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
            events.append(Event(self._node.name, tick, notification, flood, moment))
        if events:
            self.log.extend(events, sum(size(e.notification) for e in events))
            self._published[session.name] = (last, self.log.time)
            self._node.emit(Append(tuple(events)))
            self._node.emit(Store(f"publisher:{session.name}", self._published[session.name]))
            self._node.emit(Sync())
            self._reply(session.name, Accepted("publish", last))
            own = self.flows[self._node.name]
            tables = self._node.subscriptions
            found = tables.filters_of([event.notification for event in events])
            for event, filters in zip(events, found, strict=True):
                own.upto = event.tick
                self._pass_on(event, None, own, filters)
        else:
            self._reply(session.name, Accepted("publish", last))

    def published(self, session: str) -> int:
        """The last number of a publisher that was kept."""
        return self._published.get(session, (0, 0.0))[0]

    def forget_publisher(self, session: str) -> None:
        """It has left for good, and will not send anything again."""
        if self._published.pop(session, None) is not None:
            self._node.emit(Store(f"publisher:{session}", None))

    def event(self, neighbour: Neighbour, event: Event) -> None:
        """An event comes by a neighbour; by another than its stream's way, it is a straggler."""
        if self.ways.via(event.stream) == neighbour.name:
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

    # -- subscribing ---------------------------------------------------------------------------

    def subscribe(self, session: Session, body: Subscribe, time: float) -> None:
        """Begin to read. It is accepted once it has started in every stream that is there."""
        if body.id in session.readers:
            self._close(session.readers[body.id])
        self._order += 1
        reader = Reader(session.name, body.id, body.filter, self._order)
        now = self._place(reader, body, time)
        if reader.durable is not None and reader.durable not in self.saved:
            # Before anything is delivered: whoever comes back must not begin behind that.
            self._save(reader.durable, reader.filter, dict(reader.positions), reader.begun)
            reader.starts = {}
        self.readers[reader] = self._starting[reader] = None
        session.readers[body.id] = reader
        self._by_filter.setdefault(body.filter, {})[reader] = None
        self._node.want(session, {body.filter: 1}, {})
        for stream in list(self.ways.streams):
            if reader in self.readers:  # it may have been refused in the last one
                self._begin(reader, stream, now=now)
        if reader in self.readers:
            self._tell_state(reader)

    def _place(self, reader: Reader, body: Subscribe, time: float) -> bool:
        """Find out where to begin; whether that is now, in all streams that can be reached."""
        since, saved = body.since, None
        if body.durable is not None:
            reader.durable = body.durable
            before = self._durable.get(body.durable)
            if before is not None:
                self._end(before, "somebody else has taken this durable subscription over")
            self._durable[body.durable] = reader
            saved = self.saved.get(body.durable)
        if since is None and saved is not None:
            reader.positions, reader.begun = dict(saved[1]), saved[2]
        elif since is None:
            reader.begun = time
            return True
        elif since == "begin":
            reader.begun = 0.0
        elif isinstance(since, dict):
            reader.positions, reader.begun = dict(since), body.begun
            if saved is not None:  # what the cursor lacks is where it was
                reader.positions, reader.begun = {**saved[1], **since}, saved[2]
        else:
            reader.begun = float(since)
        return False

    def _begin(self, reader: Reader, stream: str, *, now: bool = False) -> None:
        """Bring a reader into a stream, or back into it."""
        flow = self._flow(stream)
        position = reader.positions.get(stream)
        if position is None and not now:
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
        if flow.stream == node.name:
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
            if reader.durable is not None and reader.starts is not None:
                _, acknowledged, _ = self.saved.get(reader.durable, (None, {}, 0.0))
                cursor = {**reader.starts, **acknowledged}
                self._save(reader.durable, reader.filter, cursor, reader.begun)
            self._reply(reader.session, Accepted(reader.id))
        is_live = reader.follows >= reachable
        if is_live is not reader.is_live:
            reader.is_live = is_live
            self._tell_missed(reader)
            self._reply(reader.session, Progress(reader.id, self.cursor(reader), is_live))

    def cursor(self, reader: Reader) -> Cursor:
        """Where a reader is in each stream."""
        return {s: self._position(reader, s) for s in reader.positions}

    def _position(self, reader: Reader, stream: str) -> int:
        position = reader.positions[stream]
        return max(position, self._flow(stream).upto) if stream in reader.follows else position

    def unsubscribe(self, session: Session, body: Unsubscribe) -> None:
        """Read no further; with `forget`, not even later."""
        reader = session.readers.get(body.id)
        if reader is not None:
            self._close(reader)
            if body.forget and reader.durable is not None:
                self.saved.pop(reader.durable, None)
                self._node.emit(Store(f"durable:{reader.durable}", None))
                self._node.emit(Store(f"cursor:{reader.durable}", None))
                self._node.emit(Sync())
        self._reply(session.name, Accepted(body.id))

    def close(self, session: Session) -> None:
        """A client is gone; its durable subscriptions wait for it in the store."""
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
        """What comes next for a reader is no longer kept."""
        stream = message.stream
        cursor = {**self.cursor(reader), stream: message.since}
        self._tell_missed(reader)
        self._close(reader)
        reason = _too_old(message, position)
        self._reply(reader.session, Refused(reader.id, reason, cursor, stream, position))

    def acknowledge(self, session: Session, body: Acknowledge) -> None:
        """Save how far a durable subscription has been dealt with."""
        reader = session.readers.get(body.id)
        if reader is not None and reader.durable is not None:
            name = reader.durable
            saved = self.saved.get(name, (reader.filter, {}, reader.begun))
            self._move(name, (reader.filter, *saved[1:]), body.cursor)
        elif body.durable in self.saved and body.durable not in self._durable:
            self._move(body.durable, self.saved[body.durable], body.cursor)
        else:
            reason = "only a durable subscription of this session can be acknowledged"
            self._reply(session.name, Refused(f"acknowledge {body.id}", reason))
            return
        self._reply(session.name, Accepted(f"acknowledge {body.id}"))

    def _move(self, name: str, saved: Saved, ahead: Cursor) -> None:
        filter_, cursor, begun = saved
        later = {s: t for s, t in ahead.items() if t > cursor.get(s, 0)}
        self._save(name, filter_, {**cursor, **later}, begun)

    def _save(self, name: str, filter_: Filter, cursor: Cursor, begun: float) -> None:
        """The cursor has a key of its own: it changes often, and the filter may be long."""
        before = self.saved.get(name)
        if before is None or (before[0], before[2]) != (filter_, begun):
            self._node.emit(Store(f"durable:{name}", (filter_, begun)))
        self.saved[name] = (filter_, cursor, begun)
        self._node.emit(Store(f"cursor:{name}", cursor))
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
        if reader.missed:
            self._reply(reader.session, Missed(reader.id, reader.missed))
            reader.missed = 0

    # -- ways ----------------------------------------------------------------------------------

    def opened(self, neighbour: Neighbour) -> None:
        """A link has (re)opened: what was known by it is void, and all is told anew."""
        self.closed(neighbour)
        self._tell_ways(neighbour, None)

    def closed(self, neighbour: Neighbour) -> None:
        """A link is gone."""
        self._anew(self.ways.lost(neighbour.name))

    def told_ways(self, neighbour: Neighbour, message: Streams) -> None:
        """Streams come by a neighbour, or come anew, or no longer."""
        self._anew(self.ways.told(neighbour.name, message.paths))

    def renew(self, neighbour: Neighbour) -> None:
        """What is wanted of this neighbour has grown for another reason than a new reader."""
        self._anew([s for s in self.ways.streams if self.ways.via(s) == neighbour.name])

    def repaired(self, neighbour: Neighbour) -> None:
        """It was not sent all it wanted, for its table was wrong: let it fetch."""
        self._tell_ways(neighbour, None)

    def _tell_ways(self, neighbour: Neighbour, streams: list[str] | None) -> None:
        if self._node.subscriptions.has(neighbour) and neighbour.link.peer:
            paths = self.ways.to_tell(neighbour.name, streams)
            self._node.send(neighbour, Streams(neighbour.view, paths))

    def _anew(self, streams: list[str]) -> None:
        """The flows of these streams have been interrupted: go on where they were."""
        if not streams:
            return
        for stream in streams:
            self._resume(self._flow(stream))
        for neighbour in self._node.neighbours.values():
            self._tell_ways(neighbour, streams)
        for reader in list(self.readers):
            self._tell_state(reader)

    def _resume(self, flow: Flow) -> None:
        for number in (flow.fetch, flow.probe):
            self._asked.pop(number, None)
        flow.break_off()
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
            if is_followed:
                flow.fetch = self._ask(flow.stream, flow.upto, None)
            self._probe(flow)

    def _flow(self, stream: str) -> Flow:
        flow = self.flows.get(stream)
        if flow is None:
            flow = self.flows[stream] = Flow(stream)
        return flow

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
        if message.stream == self._node.name:
            self.archive.answer(message)
            return
        via = self._node.neighbours.get(self.ways.via(message.stream) or "")
        if via is not None and via is not neighbour:
            path = (*message.path, self._node.name)
            self._node.send(via, msgspec.structs.replace(message, path=path))

    def fetched(self, message: Fetched) -> None:
        """Pass an answer back on the way that the fetch came by, or take it."""
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
            self._end_too_old(reader, message, reader.positions.get(flow.stream, 0))
            return
        reader.begins(flow.stream, message.since)
        for event in message.events:
            self._node.emit(Deliver(reader.session, event, (reader.id,)))
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

    def _filled(self, flow: Flow, message: Fetched, told: int) -> None:
        """(A part of) what an interrupted flow is lacking for those that follow it."""
        flow.fetch = 0
        if message.lost:
            for reader in [r for r in self.readers if flow.stream in r.follows]:
                position = self._position(reader, flow.stream)
                if flow.upto < message.since <= position:
                    continue  # it is ahead of the flow, and lacks nothing
                if reader.durable is not None:
                    self._end_too_old(reader, message, position)
                else:
                    gone = max(1, message.since - position)
                    self._reply(reader.session, Missed(reader.id, gone))
                    reader.positions[flow.stream] = message.since
            flow.upto = message.since
        for event in message.events:
            if event.tick > flow.upto:
                self._notify(event, self._node.subscriptions.filters(event.notification))
        flow.upto = message.upto
        if message.is_live:
            flow.is_live, flow.told = True, told
        else:
            flow.fetch = self._ask(flow.stream, flow.upto, None)

    # -- silence -------------------------------------------------------------------------------

    def silence(self, neighbour: Neighbour, message: Silence) -> None:
        """Nothing more is to be expected up to these ticks."""
        upto = {s: t for s, t in message.upto.items() if self.ways.via(s) == neighbour.name}
        for stream, tick in upto.items():
            flow = self._flow(stream)
            if flow.is_live:
                flow.upto = max(flow.upto, tick)
        self._tell_silence(upto, besides=neighbour)

    def beat(self) -> None:
        """Now and then: tell neighbours and clients how far everything is."""
        if self.log.last > self._silent_since:
            self._silent_since = self.log.last
            self._tell_silence({self._node.name: self.log.last})
        cursor = {s: f.upto for s, f in self.flows.items() if f.is_live}
        for session in self._node.sessions.values():
            if session.readers and not session.is_full:
                news = {s: t for s, t in cursor.items() if t > session.progress.get(s, -1)}
                if news:
                    session.progress.update(news)
                    self._reply(session.name, Progress("", news, True))

    def _tell_silence(self, upto: dict[str, int], besides: Neighbour | None = None) -> None:
        if upto:
            for neighbour in self._node.neighbours.values():
                if neighbour is not besides and self._node.subscriptions.has(neighbour):
                    self._node.send(neighbour, Silence(upto))

    def _reply(self, session: str, answer: Answer) -> None:
        self._node.emit(Reply(session, answer))


def _too_old(message: Fetched, position: int) -> str:
    return (
        f"this cursor is at tick {position} of {message.stream}, "
        f"which is kept from tick {message.since + 1} on only"
        if position < message.since
        else f"this cursor is at tick {position} of {message.stream}, which ends at {message.since}"
    ) + f"; continue from {message.stream}:{message.since}"
