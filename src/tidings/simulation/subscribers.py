"""Subscribers: programs that rely on a node with a log.

A subscriber talks to its broker over a connection on which nothing is overtaken, but which breaks
whenever either of them crashes, with all that is on it. It attaches again under the same session,
reads on from where it was, and publishes again what was not accepted. If it crashes itself, it
forgets all but the names of its durable subscriptions, and comes back as a new session.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from tidings.events import Filter, Notification
from tidings.node import (
    Accepted,
    Acknowledge,
    Advertise,
    Attach,
    Deliver,
    Detach,
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
from tidings.node.requests import RequestBody, Since
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
        self.is_live = False
        self.is_accepted = False
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
        self._connection = 0
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
        self.number = 0
        self._ids = 0
        self._is_attached = False

    @property
    def session(self) -> str:
        return f"{self.name}.{self.life}"

    # -- lives and connections -----------------------------------------------------------------

    def begin(self) -> None:
        """A new life: with what is durable, and nothing else."""
        self.life += 1
        self.is_alive = True
        self.simulation.lines[self.session] = self
        for name, durable in list(self.durables.items()):
            self._add(durable.filter, name, None)
        self.connect()

    def crash(self) -> None:
        """It vanishes; its broker's host notices."""
        self._hang_up()
        self.is_alive = False
        del self.simulation.lines[self.session]
        self._forget()

    def hang_up(self) -> None:
        """The connection breaks, and is soon made again."""
        if self.is_connected:
            self._hang_up()
            self.simulation.at(self.simulation.now + _PAUSE, self.connect)

    def _hang_up(self) -> None:
        if self.is_connected:
            self._break()
            self.simulation.hear(self.at, Request(self.session, Detach()))

    def _break(self) -> None:
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
        self._attach()

    def _attach(self) -> None:
        self._is_attached = False
        self._ask(Attach())
        for id, filter_ in self.advertisements.items():
            self._ask(Advertise(id, filter_))
        for id, reading in list(self.readings.items()):
            if reading.durable is not None and reading.durable.name not in self.durables:
                del self.readings[id]  # somebody else has it now
            else:
                self._resume(reading)
        for id, (filter_, _) in self.watches.items():
            self.watches[id] = (filter_, None)
            self._ask(Watch(id, filter_))

    def _resume(self, reading: Reading) -> None:
        course, since = reading.course, reading.since
        if reading.is_accepted or course.position:
            since = dict(course.position)
            course.missed = 0  # it reads again what it was not sent
        elif course.start.lowest is not None:
            course.start = Start.now(self.simulation, self.at)
        reading.is_live = False
        name, begun = None, course.start.time
        if reading.durable is not None:  # in another life, perhaps: its broker knows
            name, begun = reading.durable.name, 0.0
        self._ask(Subscribe(reading.id, course.filter, name, since, begun))

    # -- what it does --------------------------------------------------------------------------

    def subscribe(self, filter: Filter, durable: str | None, since: Since) -> None:
        """Begin to read."""
        if not self.is_alive or (durable is not None and durable in self.durables):
            return
        self._ask_for(self._add(filter, durable, since))

    def _ask_for(self, reading: Reading) -> None:
        if self.is_connected:
            self._resume(reading)

    def take_over(self, other: Subscriber) -> None:
        """Read on under another's durable name."""
        for name in other.durables.keys() - self.durables.keys():
            durable = other.durables[name]
            self._ask_for(self._add(durable.filter, name, None))
            return

    def read_on(self, id: str) -> None:
        """Give back the cursor of one subscription to a second one that is to be its equal."""
        before = self.readings.get(id)
        if before is not None and before.course.position:
            course = before.course.copy()
            reading = Reading(self._next_id(), course, dict(course.position), None)
            self.readings[reading.id] = reading
            self._ask_for(reading)

    def _add(self, filter: Filter, name: str | None, since: Since) -> Reading:
        durable = None
        if name is not None:
            durable = self.checks.durable(self.at, name, filter)
            durable.give_to(self.durables)
        if isinstance(since, float):
            start = Start(time=since)
        elif since == "begin":
            start = Start(time=0.0)
        else:
            start = Start.now(self.simulation, self.at)
        course = Course(self.checks, f"{self.session} with {filter}", filter, start)
        course.durable = durable
        reading = Reading(self._next_id(), course, since, durable)
        self.readings[reading.id] = reading
        return reading

    def unsubscribe(self, id: str, *, forget: bool) -> None:
        """Read no further."""
        reading = self.readings.get(id)
        if reading is not None and reading.is_accepted and self._is_attached:
            del self.readings[id]
            if reading.durable is not None and reading.durable.name in self.durables:
                del self.durables[reading.durable.name]
                if forget:
                    self.checks.forget(reading.durable)
            self._ask(Unsubscribe(id, forget=forget))

    def acknowledge(self, *, late: bool) -> None:
        """Acknowledge all that was heard, or only what was when this was done the last time."""
        for reading in self.readings.values():
            if reading.durable is not None and reading.is_accepted and self._is_attached:
                heard, reading.noted = reading.noted, dict(reading.course.position)
                cursor = heard if late else reading.noted
                cursor = {s: t for s, t in cursor.items() if t > reading.durable.sent.get(s, 0)}
                if reading.durable.owner is reading.course and cursor:
                    reading.durable.acknowledge(reading.course, cursor)
                    self._ask(Acknowledge(reading.id, cursor))

    def publish(self, notifications: Iterable[dict[str, Any]]) -> None:
        """Say what happened; each with who says it, and its number."""
        if not self.is_alive:
            return
        first, batch = self.number + 1, []
        for each in notifications:
            self.number += 1
            batch.append(Notification({**each, "by": self.session, "n": self.number}))
            self.outbox[self.number] = batch[-1]
        if self._is_attached:
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

    def _ask(self, body: RequestBody) -> None:
        if self.is_connected:
            sim = self.simulation
            self._up = max(self._up, sim.now + sim.random.random() * _LATENCY)
            sim.at(self._up, self._arrive, self._connection, body)

    def _arrive(self, connection: int, body: RequestBody) -> None:
        if connection != self._connection:
            return
        if isinstance(body, Subscribe):
            reading = self.readings.get(body.id)
            if reading is not None and reading.durable is not None:
                if reading.durable.name not in self.durables:
                    del self.readings[body.id]  # somebody else has taken it over meanwhile
                    return
                reading.durable.taken(reading.course, self.simulation, since=body.since)
            self._over.discard(body.id)
        self.simulation.hear(self.at, Request(self.session, body, self.simulation.now))
        if isinstance(body, Unsubscribe):
            self._over.add(body.id)

    def told(self, effect: Deliver | Reply) -> None:
        """The broker sends something."""
        sim = self.simulation
        self.checks.sent(self.at, self.session, effect)
        if isinstance(effect, Reply) and isinstance(effect.answer, Refused):
            self._over.add(effect.answer.id)
        elif isinstance(effect, Deliver) and not self._over.isdisjoint(effect.ids):
            self.checks.fail(f"{self.session} is sent something for {effect.ids}, which has ended")
        self._down = max(self._down, sim.now + sim.random.random() * _LATENCY)
        sim.at(self._down, self._hear, self._connection, effect)

    def _hear(self, connection: int, effect: Deliver | Reply) -> None:
        if connection != self._connection:
            return
        if isinstance(effect, Deliver):
            for id in effect.ids:
                reading = self.readings.get(id)
                if reading is not None:
                    reading.course.heard(effect.event)
            return
        match effect.answer:
            case Accepted(id="attach"):
                self._attached(effect.answer.number)
            case Accepted(id="publish"):
                self._kept(effect.answer.number)
            case Accepted(id=id):
                self._accepted(id)
            case Refused():
                self._refused(effect.answer)
            case Resend():
                self._attach()
            case Progress():
                self._progress(effect.answer)
            case Missed():
                if effect.answer.id in self.readings:
                    self.readings[effect.answer.id].course.missed += effect.answer.count
            case Interest():
                if effect.answer.id in self.watches:
                    filter_ = self.watches[effect.answer.id][0]
                    self.watches[effect.answer.id] = (filter_, effect.answer.is_wanted)

    def _attached(self, number: int) -> None:
        self._kept(number)
        self._is_attached = True
        for later in sorted(self.outbox):
            self._ask(Publish(later, (self.outbox[later],)))

    def _kept(self, number: int) -> None:
        for kept in [n for n in self.outbox if n <= number]:
            del self.outbox[kept]

    def _accepted(self, id: str) -> None:
        kind, _, name = id.rpartition(" ")
        reading = self.readings.get(name)
        if reading is None:
            return
        if kind == "acknowledge" and reading.durable is not None:
            reading.durable.confirm(reading.course)
        elif not kind and not reading.is_accepted:
            reading.is_accepted = True
            reading.course.accepted()

    def _refused(self, answer: Refused) -> None:
        reading = self.readings.pop(answer.id, None)
        if reading is None:
            return
        if answer.cursor is not None:  # no longer kept: go on where it says
            reading.course.skip(answer.cursor)
            reading.id = self._next_id()
            reading.is_accepted = True
            self.readings[reading.id] = reading
            self._ask_for(reading)
        elif reading.durable is not None and self.durables.get(reading.durable.name):
            if reading.durable.owner is reading.course:
                self.checks.fail(f"{self.session} is refused: {answer.reason}")
            del self.durables[reading.durable.name]

    def _progress(self, answer: Progress) -> None:
        if answer.id:
            readings = [r for r in (self.readings.get(answer.id),) if r is not None]
            for reading in readings:
                reading.is_live = answer.is_live
        else:
            readings = [r for r in self.readings.values() if r.is_live]
        for reading in readings:
            reading.course.told(answer.cursor)
