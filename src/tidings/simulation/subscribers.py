"""Subscribers: programs that rely on a node with a log.

A subscriber talks to its broker over a connection on which nothing is overtaken, but which breaks
whenever either of them crashes, with all that is on it. It attaches again under the same name,
reads on from where it was, and publishes again what was not accepted. If it crashes itself, it
forgets all but the names of its durable subscriptions, and comes back as a new instance. It may
also be taken for dead: then it goes on as a zombie beside the instance that comes after it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

import msgspec

from tidings.events import Filter, Notification
from tidings.protocol import (
    Accepted,
    Acknowledge,
    Advertise,
    Attach,
    Deliver,
    Detach,
    Doubtful,
    Drained,
    Full,
    Interest,
    Missed,
    Progress,
    Publish,
    Refused,
    Reply,
    Request,
    Resend,
    Subscribe,
    Unadvertise,
    Unsubscribe,
    Watch,
)
from tidings.protocol.requests import Home, RequestBody, Since
from tidings.simulation.courses import Course, Durable, Start

if TYPE_CHECKING:
    from tidings.simulation.guarantees import Guarantees
    from tidings.simulation.simulation import Simulation

_LATENCY: Final = 0.05
"""A connection takes up to so many seconds."""
_PAUSE: Final = 0.3
"""A lost connection is tried again so often."""


class Reading:
    """One subscription of a subscriber, in one of its lives."""

    def __init__(self, id: str, course: Course, since: Since, durable: Durable | None) -> None:
        self.id, self.course, self.since, self.durable = id, course, since, durable
        self.owner = ""
        self.replace = False
        self.home: Home = ""
        self.begun = -1.0 if since is None else since if isinstance(since, float) else 0.0
        self.is_live = False
        self.is_accepted = self.is_placed = False
        self.noted: dict[str, int] = {}
        """Where it was when it acknowledged something."""


class Subscriber:
    """A program, and its broker for all its lives."""

    def __init__(self, simulation: Simulation, name: str, at: str, checks: Guarantees) -> None:
        self.simulation, self.name, self.at, self.checks = simulation, name, at, checks
        self.life = 0
        self.is_alive = self.is_connected = self.is_full = False
        self.durables: dict[str, Durable] = {}
        """What it remembers for ever: the names of durable subscriptions it has."""
        self._connection = self._attempts = self._epoch = 0
        self._up = self._down = 0.0
        self._forget()

    def _forget(self) -> None:
        self.readings: dict[str, Reading] = {}
        self._over: set[str] = set()
        """The subscriptions that have ended for the broker, too."""
        self.advertisements: dict[str, Filter] = {}
        self.watches: dict[str, tuple[Filter, bool | None]] = {}
        self.outbox: dict[int, Notification] = {}
        """Published and not yet accepted; sent once the broker has said what it has."""
        self._unsent: list[dict[str, Any]] = []
        """To be published, as soon as the broker has said which numbers are taken."""
        self._number = self._epoch = 0
        self._ids = 0
        self._is_attached = False

    @property
    def instance(self) -> str:
        """The process."""
        return f"{self.name}.{self.life}"

    @property
    def session(self) -> str:
        """The process over one of its connections."""
        return f"{self.instance}.{self._connection}"

    # -- lives and connections -----------------------------------------------------------------

    def begin(self) -> None:
        """A new life: with what is durable, and nothing else."""
        self.life += 1
        self.is_alive = True
        for name, durable in list(self.durables.items()):
            self._add(durable.latest.filter, name, None)
        self.connect()

    def crash(self) -> None:
        """It vanishes; its broker's host notices."""
        self._hang_up()
        self.is_alive = False
        self._forget()

    def split(self) -> Subscriber:
        """It is cut off, and a new life begins without it; what it was is returned, a zombie."""
        zombie = Subscriber(self.simulation, self.name, self.at, self.checks)
        zombie.life, zombie.is_alive = self.life, True
        zombie._connection, zombie._attempts = self._connection + 1, self._attempts
        zombie._epoch, zombie._number = self._epoch, self._number
        zombie.outbox, zombie._unsent = self.outbox, self._unsent
        self.crash()
        self.begin()
        return zombie

    def hang_up(self) -> None:
        """The connection breaks, and is soon made again."""
        if self.is_connected:
            self._hang_up()
            self.simulation.at(self.simulation.now + _PAUSE, self.connect)

    def _hang_up(self) -> None:
        if self.is_connected:
            session = self.session
            self._break()
            self.simulation.hear(self.at, Request(session, Detach()))

    def _break(self) -> None:
        del self.simulation.lines[self.session]
        self._connection += 1
        self.is_connected = self.is_full = self._is_attached = False

    def broken(self) -> None:
        """The broker has crashed."""
        self._break()
        self.simulation.at(self.simulation.now + _PAUSE, self.connect)

    def connect(self, *_: Any) -> None:
        """Say everything anew, if the broker is there."""
        if not self.is_alive or self.is_connected:
            return
        if self.at not in self.simulation.nodes:
            self.simulation.at(self.simulation.now + _PAUSE, self.connect)
            return
        self.is_connected = True
        self.simulation.lines[self.session] = self
        self._attach()

    def _attach(self) -> None:
        self._is_attached = False
        self._attempts += 1
        self._ask(
            Attach(
                name=self.name, instance=self.instance, epoch=self._epoch, attempt=self._attempts
            )
        )
        for id, filter_ in self.advertisements.items():
            self._ask(Advertise(id, filter_))
        for reading in list(self.readings.values()):
            self._resume(reading)
        for id, (filter_, _) in self.watches.items():
            self.watches[id] = (filter_, None)
            self._ask(Watch(id, filter_))

    def _resume(self, reading: Reading) -> None:
        course = reading.course
        reading.is_live = False
        name = None if reading.durable is None else reading.durable.name
        wanted = Subscribe(reading.id, course.filter, name, owner=reading.owner)
        if reading.is_placed:
            if course.start.is_now and not reading.is_accepted:
                course.start.again(Start.now(self.simulation, self.at))
            heard = dict(course.position)
            self._ask(msgspec.structs.replace(wanted, begun=reading.begun, heard=heard))
            return
        is_now = course.asked.is_now
        course.start = Start.now(self.simulation, self.at) if is_now else course.asked
        again = msgspec.structs.replace(
            wanted, since=reading.since, replace=reading.replace, home=reading.home
        )
        self._ask(again)

    # -- what it does --------------------------------------------------------------------------

    def subscribe(
        self,
        filter: Filter,
        durable: str | None,
        since: Since,
        *,
        replace: bool = False,
        home: Home = "",
    ) -> None:
        """Begin to read; or begin anew, of a durable subscription that it has."""
        if not self.is_alive:
            return
        reading = self._add(filter, durable, since)
        reading.replace, reading.home = replace, home
        self._ask_for(reading)

    def _ask_for(self, reading: Reading) -> None:
        if self.is_connected:
            self._resume(reading)

    def take_over(self, other: Subscriber) -> None:
        """Read on under another's durable name."""
        for name in sorted(other.durables.keys() - self.durables.keys()):
            durable = other.durables[name]
            self._ask_for(self._add(durable.latest.filter, name, None))
            return

    def read_on(self, id: str) -> None:
        """Give back the cursor of one subscription to a second one that is to be its equal."""
        before = self.readings.get(id)
        if before is None or not before.is_accepted or before.begun < 0.0:
            return  # only whoever has been told when it began can give that back
        if before.course.position:
            course = before.course.copy()
            reading = Reading(self._next_id(), course, dict(course.position), None)
            reading.begun, reading.is_placed = before.begun, True
            self.readings[reading.id] = reading
            self._ask_for(reading)

    def _add(self, filter: Filter, name: str | None, since: Since) -> Reading:
        durable = None
        if name is not None:
            durable = self.checks.durable(self.at, name, filter)
            durable.give_to(self.durables)
        if since is None:
            start = Start.now(self.simulation, self.at)
        elif isinstance(since, float):
            start = Start.at(self.simulation, since)
        else:
            start = Start.at(self.simulation, 0.0, None if since == "begin" else since)
        course = Course(self.checks, self.at, f"{self.session} with {filter}", filter, start)
        course.durable = durable
        if durable is None:  # what a cursor says counts as told
            course.position = dict(start.exact)
        reading = Reading(self._next_id(), course, since, durable)
        reading.owner = f"{self.instance}.{reading.id}"
        self.readings[reading.id] = reading
        return reading

    def unsubscribe(self, id: str, *, forget: bool) -> None:
        """Read no further."""
        reading = self.readings.get(id)
        if reading is not None and reading.is_accepted and self._is_attached:
            del self.readings[id]
            if reading.durable is not None and reading.durable.name in self.durables:
                del self.durables[reading.durable.name]
            self._ask(Unsubscribe(id, forget=forget), reading)

    def acknowledge(self, *, late: bool) -> None:
        """Acknowledge all that was heard, or only what was when this was done the last time."""
        for reading in self.readings.values():
            if reading.durable is not None and reading.is_accepted and self._is_attached:
                heard, reading.noted = reading.noted, dict(reading.course.position)
                cursor = heard if late else reading.noted
                sent = reading.durable.latest.sent
                cursor = {s: t for s, t in cursor.items() if t > sent.get(s, 0)}
                if reading.durable.is_had_by(reading.course) and cursor:
                    reading.durable.acknowledge(reading.course, cursor)
                    self._ask(Acknowledge(reading.id, cursor))

    def publish(self, notifications: Iterable[dict[str, Any]]) -> None:
        """Say what happened; each with who says it, and its number."""
        if self.is_alive:
            self._unsent.extend(notifications)
            if self._is_attached:
                self._publish()

    def _publish(self) -> None:
        first, batch = self._number + 1, []
        for each in self._unsent:
            self._number += 1
            batch.append(Notification({**each, "by": self.instance, "n": self._number}))
            self.outbox[self._number] = batch[-1]
        self._unsent = []
        if batch:
            self.checks.said(self.at, self.instance, range(first, self._number + 1))
            self._ask(Publish(first, tuple(batch)))

    def advertise(self, id: str, filter: Filter) -> None:
        """Say what will be published."""
        self.advertisements[id] = filter
        self._ask(Advertise(id, filter))

    def unadvertise(self, id: str) -> None:
        """Take it back."""
        if self.advertisements.pop(id, None) is not None:
            self._ask(Unadvertise(id))

    def watch(self, id: str, filter: Filter) -> None:
        """Want to know whether somebody wants this."""
        self.watches[id] = (filter, None)
        self._ask(Watch(id, filter))

    def unwatch(self, id: str) -> None:
        """Want to know it no longer."""
        if self.watches.pop(id, None) is not None:
            self._ask(Unsubscribe(id))

    def stall(self) -> None:
        """It does not read."""
        if self._is_attached and not self.is_full:
            self.is_full = True
            self.simulation.hear(self.at, Full(self.session))

    def drain(self) -> None:
        """It has read all there was."""
        if self.is_full:
            self.is_full = False
            self.simulation.hear(self.at, Drained(self.session))

    def _next_id(self) -> str:
        self._ids += 1
        return f"s{self._ids}"

    # -- the connection ------------------------------------------------------------------------

    def _ask(self, body: RequestBody, reading: Reading | None = None) -> None:
        if self.is_connected:
            sim = self.simulation
            self._up = max(self._up, sim.now + sim.random.random() * _LATENCY)
            sim.at(self._up, self._arrive, self._connection, (body, reading))

    def _arrive(self, connection: int, asked: tuple[RequestBody, Reading | None]) -> None:
        if connection != self._connection:
            return
        body, left = asked
        if isinstance(body, Subscribe):
            self._over.discard(body.id)
        if isinstance(body, Unsubscribe) and body.forget and left is not None and left.durable:
            left.durable.forgotten(left.course)
        time = self.simulation.time(self.at)
        self.simulation.hear(self.at, Request(self.session, body, time))
        if isinstance(body, Unsubscribe):
            self._over.add(body.id)

    def admitted(self, body: Subscribe) -> None:
        """The broker is about to do what it was asked for, or to say why not."""
        reading = self.readings.get(body.id)
        if reading is not None and reading.durable is not None:
            if body.heard is None:
                reading.durable.give_to(self.durables)
            reading.durable.taken(reading.course, self.simulation, body)

    def meant(self, effect: Deliver | Reply) -> None:
        """The broker has decided to send something, which is kept back until a commit is over."""
        if isinstance(effect, Reply) and isinstance(effect.answer, Refused):
            self._over.add(effect.answer.id)
            if (refused := self.readings.get(effect.answer.id)) and refused.durable:
                refused.durable.refused(refused.course, effect.answer.reason, refused.home)
            if effect.answer.id.isdigit():
                self.checks.refused(self.instance, int(effect.answer.id))
        elif isinstance(effect, Deliver) and not self._over.isdisjoint(effect.ids):
            self.checks.fail(f"{self.session} is sent something for {effect.ids}, which has ended")

    def told(self, effect: Deliver | Reply) -> None:
        """The broker sends something."""
        sim = self.simulation
        self.checks.sent(self.at, self.instance, effect)
        self._down = max(self._down, sim.now + sim.random.random() * _LATENCY)
        sim.at(self._down, self._hear, self._connection, effect)

    def _hear(self, connection: int, effect: Deliver | Reply) -> None:
        if connection != self._connection:
            return
        if isinstance(effect, Deliver):
            for id in effect.ids:
                reading = self.readings.get(id)
                if reading is not None:
                    reading.is_placed = True
                    reading.course.heard(effect.event)
            return
        match effect.answer:
            case Accepted(id="attach"):
                self._attached(effect.answer)
            case Accepted(id="publish"):
                self._kept(effect.answer.number)
            case Accepted():
                self._accepted(effect.answer)
            case Refused(id="session"):
                self.crash()
            case Refused():
                self._refused(effect.answer)
            case Resend():
                self._attach()
            case Progress():
                self._progress(effect.answer)
            case Missed():
                if effect.answer.id in self.readings:
                    reading = self.readings[effect.answer.id]
                    reading.is_placed = True
                    reading.course.missed(effect.answer)
            case Doubtful():
                self.checks.fail(f"{self.session} is told of a doubt, and nothing was damaged")
            case Interest():
                if effect.answer.id in self.watches:
                    filter_ = self.watches[effect.answer.id][0]
                    self.watches[effect.answer.id] = (filter_, effect.answer.is_wanted)

    def _attached(self, answer: Accepted) -> None:
        if self._epoch and self._epoch != answer.epoch:
            self.checks.fail(f"{self.instance} is given epoch {answer.epoch}, not {self._epoch}")
        self._kept(answer.number)
        self._epoch, self._number = answer.epoch, max(self._number, answer.number)
        self._is_attached = True
        for later in sorted(self.outbox):
            self._ask(Publish(later, (self.outbox[later],)))
        self._publish()

    def _kept(self, number: int) -> None:
        for kept in [n for n in self.outbox if n <= number]:
            del self.outbox[kept]

    def _accepted(self, answer: Accepted) -> None:
        kind, _, name = answer.id.rpartition(" ")
        reading = self.readings.get(name)
        if reading is None:
            return
        if kind == "acknowledge" and reading.durable is not None:
            reading.durable.confirm(reading.course)
        elif not kind:
            reading.begun, reading.is_placed = answer.begun, True
            if not reading.is_accepted:
                reading.is_accepted = True
                reading.course.accepted(answer.cursor or {})
            reading.course.told(answer.cursor or {})

    def _refused(self, answer: Refused) -> None:
        reading = self.readings.pop(answer.id, None)
        if reading is None:
            return
        if answer.cursor is not None:  # no longer kept: go on where it says
            reading.course.skip(answer.cursor)
            reading.id = self._next_id()
            reading.is_accepted = reading.is_placed = True
            self.readings[reading.id] = reading
            self._ask_for(reading)
        elif reading.durable is not None:
            if reading.course.is_unlike and "replace" not in answer.reason:
                self.checks.fail(f"{self.session} is refused another filter by: {answer.reason}")
            if reading.durable.is_had_by(reading.course):
                self.checks.fail(f"{self.session} is refused: {answer.reason}")
            if all(other.durable is not reading.durable for other in self.readings.values()):
                self.durables.pop(reading.durable.name, None)

    def _progress(self, answer: Progress) -> None:
        if answer.id:
            readings = [r for r in (self.readings.get(answer.id),) if r is not None]
            for reading in readings:
                reading.is_live = answer.is_live
        else:
            readings = [r for r in self.readings.values() if r.is_live]
        for reading in readings:
            reading.is_placed = True
            reading.course.told(answer.cursor)
