"""Subscriptions: who may begin to read what, and what is kept of those that are to last.

A *durable* subscription is kept under its name: its filter, who has it, and the cursor up to
which it was acknowledged. Where it begins is on disk before anything is delivered, so a client that
comes back does not begin behind that.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final

from msgspec.structs import replace

from tidings.delivery.doubts import Doubts
from tidings.delivery.homes import Errand, Homes, Keeper
from tidings.delivery.logs import Logs
from tidings.delivery.names import Names, Saved
from tidings.delivery.readers import Reader
from tidings.delivery.reading import Reading
from tidings.delivery.streams import Reached, some
from tidings.delivery.surveys import Surveys
from tidings.delivery.telling import Starts
from tidings.events import Filter
from tidings.protocol.host import Reply, Sync
from tidings.protocol.messages import Move
from tidings.protocol.parts import Kernel, Session
from tidings.protocol.requests import (
    Accepted,
    Acknowledge,
    Adjust,
    Answer,
    Cursor,
    Doubtful,
    Refused,
    Subscribe,
    Unsubscribe,
)

_STRANGERS: Final = 1_000
"""Streams that a cursor from elsewhere may name, of which the node has never heard."""
_TAKEN: Final = "somebody else has taken this durable subscription over"
_SET: Final = "this durable subscription was set to another place; subscribe again to go on there"
_DOUBTED: Final = "this broker's store went back: it asks whether the subscription lives elsewhere"
_UNKNOWN: Final = "no broker knows this durable subscription any more: it was forgotten"


class Subscriptions(Starts, Keeper):
    """The durable subscriptions of a node, and all that begin to read."""

    def __init__(
        self, kernel: Kernel, reached: Reached, logs: Logs, doubts: Doubts, *, margin: float
    ) -> None:
        """`margin` is in seconds: clocks differ by less."""
        self._kernel, self._reached, self._logs, self._doubts = kernel, reached, logs, doubts
        self._margin = margin
        self.names = Names(kernel, logs)
        self._durable: dict[str, Reader] = {}
        """By name, those that are being read."""
        self.homes = Homes(kernel, reached, self)
        self.surveys = Surveys(kernel, reached, self.names, self._durable)
        self._reading: Reading

    def bind(self, reading: Reading) -> None:
        """To be called once: they need each other."""
        self._reading = reading

    def restore(self, stored: Mapping[str, Any]) -> None:
        """Take up what an earlier node had stored."""
        self.names.restore(stored)

    @property
    def saved(self) -> dict[str, Saved]:
        """The durable subscriptions that live here, by name."""
        return self.names.saved

    # -- what nobody uses ----------------------------------------------------------------------

    def pass_day(self) -> None:
        """A durable subscription that is open is used."""
        for name in self._durable:
            self.names.holdings.use(name)

    def forget_unused(self) -> None:
        """Forget what nobody has used for too long."""
        self.names.holdings.forgotten += self.names.drop_unused()

    # -- subscribing ---------------------------------------------------------------------------

    def subscribe(self, session: Session, body: Subscribe, time: float) -> None:
        """Begin to read, or refuse it, once it is known where the name lives."""
        reading = self._reading
        before = reading.clients[session.name].readers.get(body.id)
        if before is not None:
            reading.remove(before)
        self.homes.cancel(session, body.id)
        if body.durable is None or self.names.has(body.durable) or body.home == "here":
            self.admit(session, body, time)
        else:
            self.homes.seek(session, body, time)

    def admit(self, session: Session, body: Subscribe, time: float) -> None:
        saved = self.saved.get(body.durable or "")
        refusal = _unlike(saved, body) or self._misplaced(saved, body)
        if refusal is not None:
            self._reply(session.name, Refused(body.id, refusal))
            return
        known = self._doubts_known(saved, body)
        if known is not None and known != self._doubts.count:
            self._reply(session.name, Doubtful(body.id, self._doubts.count))
        reader = Reader(session.name, body.id, body.filter)
        reader.addressee = body.bulk or ""
        reader.wants_times = body.times
        _place(reader, body, saved, time, self._margin)
        if body.durable is not None:
            self._take(reader, body.durable, saved, body)
        self._reading.add(reader)

    def _misplaced(self, saved: Saved | None, body: Subscribe) -> str | None:
        """Why a subscription cannot begin where it is to, if so."""
        before = {} if saved is None else saved.cursor
        if body.heard is not None:
            return self._invented(body.heard, before, most=_STRANGERS)
        if isinstance(body.since, dict):
            return self._invented(body.since, before, most=_STRANGERS if body.is_noted else 0)
        return None

    def _invented(self, cursor: Cursor, before: Cursor, *, most: int) -> str | None:
        return self._reached.invented(cursor, before, besides=self._reading.flows, most=most)

    def _doubts_known(self, saved: Saved | None, body: Subscribe) -> int | None:
        """How many doubts there were when a reader got where it is; None if it begins now."""
        if body.heard is not None:
            return body.doubts
        return None if saved is None or body.since is not None else saved.doubts

    def _take(self, reader: Reader, name: str, saved: Saved | None, body: Subscribe) -> None:
        """Give a durable subscription to a reader, from the one that has it."""
        self._end(name, _TAKEN)
        reader.durable, reader.is_paused = name, saved is not None and saved.is_paused
        self._durable[name] = reader
        if saved is None or body.since is not None:
            positions = dict(reader.positions)
            if reader.begins_now:  # one that comes back must not begin later, by any clock
                ends = {stream: log.last for stream, log in self._logs.logs.items()}
                positions = {**self._reached.known, **ends}
            owner, doubts = body.owner, self._doubts.count
            is_alone = body.home == "here"
            epoch = self.names.next_epoch(name, is_alone=is_alone) if saved is None else saved.epoch
            now = Saved(reader.filter, positions, reader.begun, owner, doubts, epoch)
            self.names.take(name, now._replace(is_paused=reader.is_paused))
            reader.starts = {}
        else:
            self.names.take(name, saved._replace(filter=reader.filter, owner=body.owner))

    def doubt_names(self) -> None:
        """The store has gone back: names may have been given away since. Who reads one asks again,
        and goes on once that is known."""
        for name, reader in list(self._durable.items()):
            if self._reading.clients[reader.session].session.is_own:
                self.names.take(name, self.saved[name])  # a node's own are given to nobody
            else:
                self._reading.end(reader, _DOUBTED, is_passing=True)

    # -- what other nodes ask ------------------------------------------------------------------

    def withheld(self, message: Move) -> str | None:
        saved = self.names.known(message.durable)
        if message.owner is not None and saved.owner != message.owner:
            return _TAKEN
        return None if message.filter is None else _other_filter(saved.filter, message.filter)

    def given(self, name: str, to: str) -> None:
        self._end(name, f"{_TAKEN}, at broker {to}")

    # -- what reading tells --------------------------------------------------------------------

    def started(self, reader: Reader) -> None:
        if reader.durable is not None and reader.starts is not None:
            saved = self.saved[reader.durable]
            cursor = _later(saved.cursor, reader.starts)
            self.names.save(reader.durable, saved._replace(cursor=cursor))

    def ended(self, reader: Reader) -> None:
        if reader.durable is not None:
            del self._durable[reader.durable]

    # -- unsubscribing -------------------------------------------------------------------------

    def unsubscribe(self, session: Session, body: Unsubscribe, _: float) -> None:
        """Read no further; with `forget`, not even later."""
        if body.durable is not None:
            self._wherever(session, body)
            return
        waited = self.homes.cancel(session, body.id)
        if waited is not None and body.forget:
            owner = "" if waited.heard is None else waited.owner  # else it would have taken it
            self._wherever(session, replace(body, durable=waited.durable, owner=owner))
            return
        reader = self._reading.clients[session.name].readers.get(body.id)
        if reader is not None:
            self._reading.remove(reader)
            if body.forget and reader.durable is not None:
                self._forget(reader.durable)
        self._reply(session.name, Accepted(body.id))

    def adjust(self, session: Session, body: Adjust, _: float) -> None:
        """Change a durable subscription, wherever it lives."""
        self._wherever(session, body)

    def _wherever(self, session: Session, body: Acknowledge | Errand) -> None:
        """Do what is wanted with a name, here or wherever it lives."""
        if self.names.has(body.durable or ""):
            self.carry_out(session, body)
        else:
            self.homes.seek(session, body, 0.0)

    def carry_out(self, session: Session, body: Acknowledge | Errand) -> None:
        if isinstance(body, Acknowledge):
            self._acknowledge(session, body)
        elif body.durable not in self.saved and isinstance(body, Unsubscribe):
            self._reply(session.name, Accepted(body.id, 0))
        elif (refusal := self.done(body)) is not None:
            self._reply(session.name, Refused(body.id, refusal))
        else:
            self._reply(session.name, Accepted(body.id, 1))

    def done(self, body: Errand) -> str | None:
        name = body.durable or ""
        saved = self.saved.get(name)
        if saved is None:
            return _UNKNOWN
        if isinstance(body, Unsubscribe):
            if body.owner and body.owner != saved.owner:
                return None  # somebody else has it now
            self._end(name, "this durable subscription was forgotten")
            self._forget(name)
            return None
        if isinstance(body.since, dict):
            refusal = self._invented(body.since, saved.cursor, most=0)
            if refusal is not None:
                return refusal
        self._adjust(name, saved, body)
        return None

    def _adjust(self, name: str, saved: Saved, body: Adjust) -> None:
        if body.since is not None:
            self._end(name, _SET)
            cursor = {**saved.cursor, **body.since} if isinstance(body.since, dict) else {}
            begun = saved.begun
            if not isinstance(body.since, dict):
                begun = 0.0 if body.since == "begin" else float(body.since)
            # Nobody has it any more who was told something beyond that.
            saved = saved._replace(cursor=cursor, begun=begun, owner="")
        if body.is_paused is not None:
            saved = saved._replace(is_paused=body.is_paused)
            reader = self._durable.get(name)
            if reader is not None:
                self._reading.pause(reader, is_paused=body.is_paused)
        self.names.save(name, saved)

    def _end(self, name: str, reason: str) -> None:
        """Whoever reads it reads no further."""
        reader = self._durable.get(name)
        if reader is not None:
            self._reading.end(reader, reason)

    def _forget(self, name: str) -> None:
        self.names.forget(name)
        self._kernel.emit(Sync())

    # -- acknowledging -------------------------------------------------------------------------

    def acknowledge(self, session: Session, body: Acknowledge, _: float) -> None:
        """Save how far a durable subscription has been dealt with."""
        is_read = body.id in self._reading.clients[session.name].readers
        if not is_read and body.durable is not None:
            self._wherever(session, body)
        elif is_read or not self.homes.join(session, body):
            self._acknowledge(session, body)

    def _acknowledge(self, session: Session, body: Acknowledge) -> None:
        id = f"acknowledge {body.id}"
        reader = self._reading.clients[session.name].readers.get(body.id)
        name = body.durable if reader is None else reader.durable
        saved = None if name is None else self.saved.get(name)
        is_elsewhere = reader is None and (saved is None or saved.owner != body.owner)
        if name is None or saved is None or is_elsewhere:
            reason = "only a durable subscription of this session can be acknowledged"
            self._reply(session.name, Refused(id, reason))
            return
        if reader is None:
            refusal = self._invented(body.cursor, saved.cursor, most=_STRANGERS)
        else:
            foreign = body.cursor.keys() - reader.positions.keys() - saved.cursor.keys()
            refusal = _nowhere(foreign) if foreign else None
        if refusal is not None:
            self._reply(session.name, Refused(id, refusal))
            return
        doubts = saved.doubts if reader is None else self._doubts.count
        cursor = _later(saved.cursor, body.cursor)
        self.names.save(name, saved._replace(cursor=cursor, doubts=doubts))
        self._reply(session.name, Accepted(id, body.number))

    def _reply(self, session: str, answer: Answer) -> None:
        self._kernel.emit(Reply(session, answer))

    # -- auditing ------------------------------------------------------------------------------

    def audit(self, readers: Collection[Reader]) -> Iterator[str]:
        """Whatever cannot be true of them."""
        yield from self.homes.audit()
        yield from self.names.audit()
        yield from self.surveys.audit()
        if sum(reader.durable is not None for reader in readers) != len(self._durable):
            yield "durable subscriptions and those who have them differ in number"
        for name, reader in self._durable.items():
            saved = self.saved.get(name)
            if reader.durable != name or saved is None or reader not in readers:
                yield f"reader {reader.id} of {reader.session} does not have {name}"
            elif saved.filter is not reader.filter and saved.filter != reader.filter:
                yield f"reader {reader.id} of {reader.session} has another filter than {name}"
            elif saved.is_paused is not reader.is_paused:
                yield f"reader {reader.id} of {reader.session} is paused, and {name} is not"
        if any(reader.is_paused and reader.durable is None for reader in readers):
            yield "a reader is paused that is not durable"


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


def _unlike(saved: Saved | None, body: Subscribe) -> str | None:
    """Why a durable subscription cannot be what is asked for, if so."""
    if body.durable is None:
        return None
    if saved is None:
        return None if body.heard is None else _UNKNOWN
    if body.heard is not None:
        return None if saved.owner == body.owner else _TAKEN
    return None if body.replace else _other_filter(saved.filter, body.filter)


def _other_filter(saved: Filter, wanted: Filter) -> str | None:
    if saved == wanted:
        return None
    return (
        f"this durable subscription hears {saved}, not {wanted}; with replace=True "
        "(--replace) it hears the new filter behind what was acknowledged under the old one"
    )


def _nowhere(streams: Iterable[str]) -> str:
    return f"this subscription is nowhere in {some(streams)}, so it has nothing to acknowledge"
