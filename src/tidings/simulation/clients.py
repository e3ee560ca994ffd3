"""Clients: programs that rely on a broker, in virtual time.

A client talks to its broker over a connection on which nothing is overtaken, but which breaks
whenever either of them crashes, with all that is on it. It attaches again under the same name,
reads on from where it was, and publishes again what was not accepted. If it crashes itself, it
forgets all but the names of its durable subscriptions, and comes back as a new instance. It may
also be taken for dead: then it goes on as a zombie beside the instance that comes after it.

Where events are delivered at most once there is less to rely on. The connection takes no time, all
that a client wants lasts as long as its lease, and what it publishes is sent once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import inf
from typing import TYPE_CHECKING, Any, Final

import msgspec

from tidings.events import Filter, Notification
from tidings.protocol.digest import summary
from tidings.protocol.host import Deliver, Drained, Full, Reply, Request
from tidings.protocol.messages import Event
from tidings.protocol.requests import (
    SESSION,
    Accepted,
    Acknowledge,
    Advertise,
    Answer,
    Attach,
    Cursor,
    Detach,
    Doubtful,
    Erase,
    Erasure,
    Home,
    Interest,
    Missed,
    Progress,
    Publish,
    Refused,
    Renew,
    RequestBody,
    Resend,
    Since,
    Subscribe,
    Unadvertise,
    Unsubscribe,
    Watch,
)
from tidings.simulation.courses import Course
from tidings.simulation.durables import Durable

if TYPE_CHECKING:
    from tidings.simulation.simulation import Simulation

_LATENCY: Final = 0.05
"""Seconds that a connection takes at most."""
_PAUSE: Final = 0.3
"""Seconds after which a lost connection is tried again."""
_AGAIN: Final = 0.7
"""Seconds after which something is asked for again that was refused for now."""


class Reading:
    """One subscription of a client, in one of its lives."""

    def __init__(self, id: str, course: Course, since: Since, durable: Durable | None) -> None:
        self.id, self.course, self.since, self.durable = id, course, since, durable
        self.owner = ""
        self.replace = False
        self.home: Home = ""
        self.begun = -1.0 if since is None else since if isinstance(since, float) else 0.0
        self.doubts: int | None = None
        self.is_live = False
        self.is_accepted = self.is_placed = False
        self.is_leaving: bool | None = None
        """It ends when it has been accepted; and is to be forgotten then, if true."""
        self.noted: Cursor = {}
        """Where it was when it last acknowledged something late."""
        self.complete: dict[str, float] = {}
        """The time below which it was told that it has heard everything of a stream."""


class Client:
    """A program at one broker, for all its lives; made by `Simulation.client`."""

    def __init__(self, simulation: Simulation, name: str, at: str) -> None:
        self.simulation, self.name, self.at = simulation, name, at
        self.checks = simulation.guarantees
        self.is_logged = not simulation.settings.at_most_once
        self.life = 0
        self.is_alive = self.is_connected = self.is_full = False
        self.is_known = False
        """Its broker has accepted the session, and means to go on with it."""
        self.heard: list[Event] = []
        """What it was told, in order, in all its lives."""
        self.keeps = True
        """Whether it keeps what it hears; a client in a long run may only count it."""
        self.count = self.published = 0
        self.refused: list[Refused] = []
        self.erasures: dict[str, Erasure] = {}
        """What it was told of those that it has asked for, by id."""
        self.durables: dict[str, Durable] = {}
        """What it remembers for ever: the names of durable subscriptions it has."""
        self._connection = self._attempts = 0
        self._epochs: dict[str, int] = {}
        """By broker."""
        self._up = self._down = 0.0
        self._forget()

    def _forget(self) -> None:
        self._erasing: dict[str, Erase] = {}
        """What it has asked for, until it is done."""
        self.readings: dict[str, Reading] = {}
        self._over: set[str] = set()
        """The subscriptions and watches that have ended for the broker, too."""
        self.advertisements: dict[str, Filter] = {}
        self.watches: dict[str, tuple[Filter, bool | None]] = {}
        self.outbox: dict[int, Notification] = {}
        """Published and not yet accepted; sent once the broker has said what it has."""
        self._left_out: set[int] = set()
        """Numbers that were refused: they are not sent again, and the broker is told so."""
        self._forgetting: dict[str, Reading] = {}
        """The broker has been told to forget these, and has not answered yet."""
        self._offered: dict[str, Filter] = {}
        """The advertisements that have come to the broker over this connection."""
        self.last: Cursor = {}
        """The last tick heard of each stream, where events are delivered at most once."""
        self._unsent: list[Notification] = []
        """To be published, as soon as the broker has said which numbers are taken."""
        self._number = 0
        self._epochs = {}
        self._ids = 0
        self._is_attached = False

    @property
    def subscriptions(self) -> dict[str, Filter]:
        return {id: reading.course.filter for id, reading in self.readings.items()}

    @property
    def instance(self) -> str:
        """The process."""
        return f"{self.name}.{self.life}"

    @property
    def _epoch(self) -> int:
        """What its broker gave it when it attached, or 0."""
        return self._epochs.get(self.at, 0)

    @property
    def session(self) -> str:
        """The process over one of its connections; at most once, a session outlives these."""
        return f"{self.instance}.{self._connection}" if self.is_logged else self.instance

    # -- lives and connections -----------------------------------------------------------------

    def begin(self) -> None:
        """A new life: with what is durable, and nothing else."""
        self.life += 1
        self.is_alive = True
        for name, durable in list(self.durables.items()):
            self._add(durable.latest.filter, name, None)
        self.connect()
        lease = self.simulation.settings.lease
        if not self.is_logged and lease < inf:
            self.simulation.at(self.simulation.now + lease / 3, self._renew, self.life)

    def crash(self) -> None:
        """It vanishes. The host of a broker with a log notices; else its lease runs out."""
        self._hang_up(is_noticed=self.is_logged)
        self.is_alive = False
        self._forget()

    def close(self) -> None:
        """It leaves in good order."""
        self._hang_up(is_noticed=True)
        self.is_alive = False
        self._forget()

    def split(self) -> Client:
        """It is cut off, and a new life begins without it; what it was is returned, a zombie."""
        zombie = Client(self.simulation, self.name, self.at)
        zombie.life, zombie.is_alive = self.life, True
        zombie._connection, zombie._attempts = self._connection + 1, self._attempts
        zombie._epochs, zombie._number = self._epochs, self._number
        zombie.outbox, zombie._unsent = self.outbox, self._unsent
        zombie._left_out = self._left_out
        self.crash()
        self.begin()
        return zombie

    def hang_up(self) -> None:
        """The connection breaks, and is soon made again."""
        if self.is_connected:
            self._hang_up(is_noticed=self.is_logged)
            self.simulation.at(self.simulation.now + _PAUSE, self.connect)

    def hop(self, node: str) -> None:
        """The connection breaks, which its broker notices later, and it goes on at another one.

        Of what was sent and not answered nobody can say whether it is kept: it is not sent again.
        """
        if not self.is_alive or not self.is_logged or node == self.at:
            return
        self._hang_up(is_noticed=True)
        self.at = node
        self.outbox.clear()
        self._left_out.clear()
        for reading in self.readings.values():
            reading.course.at = node
        self.simulation.at(self.simulation.now + _PAUSE, self.connect)

    def _hang_up(self, *, is_noticed: bool) -> None:
        if self.is_connected:
            session = self.session
            self._break()
            if is_noticed:
                self.simulation.hear(self.at, Request(session, Detach()))

    def _break(self) -> None:
        self.simulation.lines.pop(self.session, None)
        self._connection += 1
        self._forgetting.clear()
        self.is_connected = self.is_full = self.is_known = self._is_attached = False

    def broken(self) -> None:
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
        if not self.is_logged:
            self._ask(Attach(self.subscriptions, dict(self.advertisements), dict(self.last)))
            return
        self._ask(
            Attach(
                name=self.name, instance=self.instance, epoch=self._epoch, attempt=self._attempts
            )
        )
        for id, filter_ in self.advertisements.items():
            self._ask(Advertise(id, filter_))
        for erase in self._erasing.values():
            self._ask(erase)
        for reading in list(self.readings.values()):
            self._resume(reading)
        for id, (filter_, _) in self.watches.items():
            self.watches[id] = (filter_, None)
            self._ask(Watch(id, filter_))

    def _renew(self, life: int, _: Any) -> None:
        """Say that it is still there."""
        if self.is_alive and self.life == life:
            self._ask(Renew(summary(self.subscriptions, self.advertisements)))
            lease = self.simulation.settings.lease
            self.simulation.at(self.simulation.now + lease / 3, self._renew, life)

    # -- subscriptions -------------------------------------------------------------------------

    def subscribe(
        self,
        filter: Filter | str,
        *,
        durable: str | None = None,
        since: Since = None,
        replace: bool = False,
        home: Home = "",
    ) -> str:
        """Begin to read, or begin anew where it has the durable one; its id."""
        reading = self._add(_filter(filter), durable, since)
        reading.replace, reading.home = replace, home
        self._ask_for(reading)
        return reading.id

    def want(self, filters: Iterable[Filter | str]) -> None:
        """Subscribe to all of these in a single message."""
        for each in filters:
            self._add(_filter(each), None, None)
        if self.is_connected:
            self._attach()

    def _ask_for(self, reading: Reading) -> None:
        if self.is_connected:
            self._resume(reading)

    def _resume(self, reading: Reading) -> None:
        """Ask for what a subscription has not heard."""
        course = reading.course
        if not self.is_logged:
            self._ask(Subscribe(reading.id, course.filter))
            return
        reading.is_live = False
        name = None if reading.durable is None else reading.durable.name
        wanted = Subscribe(
            reading.id, course.filter, name, owner=reading.owner, doubts=reading.doubts, times=True
        )
        if reading.is_placed:
            if course.start.is_now and not reading.is_accepted:
                course.start.again(self.checks.begin(self.at))
            heard = dict(course.position)
            self._ask(msgspec.structs.replace(wanted, begun=reading.begun, heard=heard))
            return
        course.start = self.checks.begin(self.at) if course.asked.is_now else course.asked
        again = msgspec.structs.replace(
            wanted, since=reading.since, replace=reading.replace, home=reading.home
        )
        self._ask(again)

    def take_over(self, other: Client) -> None:
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
            durable = self.checks.durable(name, filter)
            durable.give_to(self.durables)
        start = self.checks.begin(self.at, since)
        course = Course(self.checks, self.at, self.session, filter, start)
        course.durable = durable
        if durable is None:  # what a cursor says counts as told
            course.position = dict(start.exact)
        reading = Reading(self._next_id(), course, since, durable)
        reading.owner = f"{self.instance}.{reading.id}"
        self.readings[reading.id] = reading
        return reading

    def unsubscribe(self, id: str, *, forget: bool = False) -> None:
        """Read no further, as soon as the broker has said that it does."""
        reading = self.readings.get(id)
        if reading is None:
            return
        if self.is_logged and not (reading.is_accepted and self._is_attached):
            reading.is_leaving = forget
            return
        del self.readings[id]
        if reading.durable is not None and reading.durable.name in self.durables:
            del self.durables[reading.durable.name]
        self._ask(Unsubscribe(id, forget=forget), reading)

    def acknowledge(self, *, late: bool) -> None:
        """Acknowledge all that was heard; or late, what was heard when it was late the last time,
        which may have been acknowledged since."""
        for reading in self.readings.values():
            if reading.durable is not None and reading.is_accepted and self._is_attached:
                cursor = dict(reading.course.position)
                if late:
                    cursor, reading.noted = reading.noted, cursor
                if reading.durable.is_had_by(reading.course) and cursor:
                    reading.durable.acknowledge(reading.course, cursor)
                    self._ask(Acknowledge(reading.id, cursor))

    # -- all else that it does -----------------------------------------------------------------

    def publish(self, *events: Notification | Mapping[str, Any]) -> None:
        if not self.is_alive:
            return
        # Of what is kept, one is told from another that is equal.
        is_said = not self.is_logged
        found = [e if is_said and isinstance(e, Notification) else Notification(e) for e in events]
        self.published += len(found)
        self._unsent += found
        if self._is_attached or not self.is_logged:
            self._publish()

    def _publish(self) -> None:
        first, batch = self._number + 1, tuple(self._unsent)
        self._number += len(batch)
        self._unsent = []
        if batch and self.is_logged:
            numbered = dict(enumerate(batch, first))
            self.outbox |= numbered
            self.checks.said(self.at, self.instance, numbered)
        if batch:
            self._ask(Publish(first, batch))

    def erase(self, filter: Filter | str, *, is_dry: bool = False) -> str:
        """Have something erased at all brokers that can be reached; the id of that."""
        body = Erase(f"erase-{self.name}-{len(self.erasures)}", _filter(filter), "", is_dry)
        self.erasures[body.id] = Erasure(body.id, is_done=False)
        self._erasing[body.id] = body
        self.checks.logs.asks(body)
        self._ask(body)
        return body.id

    def advertise(self, filter: Filter | str, *, id: str = "") -> str:
        """Say what will be published; the id is for `unadvertise`."""
        id = id or self._next_id()
        self.advertisements[id] = _filter(filter)
        self._ask(Advertise(id, self.advertisements[id]))
        return id

    def unadvertise(self, id: str) -> None:
        if self.advertisements.pop(id, None) is not None:
            self._ask(Unadvertise(id))

    def watch(self, filter: Filter | str, *, id: str) -> None:
        """Want to know whether somebody wants this."""
        self.watches[id] = (_filter(filter), None)
        self._ask(Watch(id, self.watches[id][0]))

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
        """Say something to the broker; what was published at most once is gone if it is away."""
        if not self.is_connected:
            return
        sim = self.simulation
        if not self.is_logged:
            sim.ask(self, body)
            return
        self._up = max(self._up, sim.now + sim.random.random() * _LATENCY)
        sim.carry(self._up, self._arrive, self._connection, (body, reading))

    def _arrive(self, connection: int, asked: tuple[RequestBody, Reading | None]) -> None:
        if connection != self._connection:
            return
        body, left = asked
        if isinstance(body, Subscribe | Watch):
            self._over.discard(body.id)
        if isinstance(body, Unsubscribe) and body.forget and left is not None and left.durable:
            left.durable.forgotten(left.course)
            if body.id not in self._over:
                self._forgetting[body.id] = left
        self._note_offers(body)
        self.simulation.ask(self, body)
        if isinstance(body, Unsubscribe):
            self._over.add(body.id)

    def _note_offers(self, body: RequestBody) -> None:
        """What may be published is decided when it comes to the broker."""
        match body:
            case Attach():
                self._offered = {}
            case Advertise(id, filter_):
                self._offered[id] = filter_
            case Unadvertise(id):
                self._offered.pop(id, None)
            case Publish():
                self.checks.came(self.at, self.instance, body, self._offered.values())

    def admitted(self, body: Subscribe) -> None:
        """The broker is about to do what it was asked for, or to say why not."""
        reading = self.readings.get(body.id)
        if reading is not None and reading.durable is not None:
            if body.heard is None:
                reading.durable.give_to(self.durables)
            reading.durable.taken(reading.course, self.simulation, body)

    def meant(self, effect: Deliver | Reply) -> None:
        """The broker has decided to send something, which is kept back until a commit is over."""
        if isinstance(effect, Deliver):
            if not self._over.isdisjoint(effect.ids):
                self.checks.fail(
                    f"{self.session} is sent something for {effect.ids}, which is over"
                )
            return
        match effect.answer:
            case Accepted(id="attach"):
                self.is_known = True
            case Interest(id=id) if id in self._over:
                self.checks.fail(f"{self.session} is told of interest in {id}, which is over")
            case Refused(id=id, reason=reason):
                self.is_known = self.is_known and id != SESSION
                self._over.add(id)
                if (refused := self.readings.get(id)) and refused.durable:
                    home = "" if refused.is_placed else refused.home
                    refused.durable.refused(refused.course, reason, home)
                if id.isdigit():
                    self.checks.refused(self.instance, int(id))

    def told(self, effect: Deliver | Reply) -> None:
        """The broker sends something."""
        sim = self.simulation
        if self.is_logged:
            self.checks.sent(self.at, self.instance, effect)
            self._down = max(self._down, sim.now + sim.random.random() * _LATENCY)
            sim.carry(self._down, self._hear, self._connection, effect)
        elif effect.__class__ is Deliver:
            self._hear(self._connection, effect)
        else:
            self.meant(effect)
            sim.at(sim.now, self._hear, self._connection, effect)

    def _hear(self, connection: int, effect: Deliver | Reply) -> None:
        if connection != self._connection:
            return
        if isinstance(effect, Reply):
            self._answered(effect.answer)
            return
        self.count += 1
        if self.keeps:
            self.heard.append(effect.event)
        self.simulation.trace_heard(self, effect.event)
        if not self.is_logged:
            self.checks.heard(self, effect.event)
            self.last[effect.event.stream] = effect.event.tick
        for id in effect.ids:
            reading = self.readings.get(id)
            if reading is not None:
                reading.is_placed = True
                self.checks.in_time(reading, effect.event)
                reading.course.heard(effect.event)

    # -- answers -------------------------------------------------------------------------------

    def _answered(self, answer: Answer) -> None:
        match answer:
            case Accepted(id="attach"):
                self._attached(answer)
            case Accepted(id="publish"):
                self._kept(answer.number)
            case Erasure():
                self.checks.logs.erased(answer)
                self.erasures[answer.id] = answer
                if answer.is_done:
                    self._erasing.pop(answer.id, None)
            case Accepted():
                self._accepted(answer)
            case Refused(id="session"):
                self._superseded()
            case Refused():
                self.refused.append(answer)
                if answer.id.isdigit():
                    self._left(int(answer.id))
                else:
                    self._refused(answer)
            case Resend():
                self._attach()
            case Progress():
                self._progress(answer)
            case Missed(id=id) if id in self.readings:
                self.readings[id].is_placed = True
                self.readings[id].course.missed(answer)
            case Doubtful(id=id):
                self.checks.doubted(self)
                if id in self.readings:
                    self.readings[id].doubts = answer.doubts
                    self.readings[id].course.is_doubted = True
            case Interest(id=id) if id in self.watches:
                self.watches[id] = (self.watches[id][0], answer.is_wanted)

    def _attached(self, answer: Accepted) -> None:
        self._is_attached = True
        if not self.is_logged:
            return
        if self._epoch and self._epoch != answer.epoch:
            if not self.checks.is_older(self.at):
                epochs = f"{answer.epoch}, not {self._epoch}"
                self.checks.fail(f"{self.instance} is given epoch {epochs}")
            self.outbox.clear()  # nobody can say what of it is kept
        self._kept(answer.number)
        self._epochs[self.at], self._number = answer.epoch, max(self._number, answer.number)
        self._left_out = {number for number in self._left_out if number > answer.number}
        for later in sorted(self.outbox.keys() | self._left_out):
            self._ask(Publish(later, (self.outbox[later],) if later in self.outbox else ()))
        self._publish()

    def _superseded(self) -> None:
        """Another one has its name; or a damaged node thinks so."""
        if not self.checks.is_damaged:
            self.crash()
            return
        for reading in self.readings.values():
            reading.course.is_doubted = True
        self._epochs = {}
        self.hang_up()

    def _kept(self, number: int) -> None:
        kept = [n for n in self.outbox if n <= number]
        self.checks.believed(self.at, self.instance, kept)
        for each in kept:
            del self.outbox[each]

    def _left(self, number: int) -> None:
        """A publication was refused."""
        if self.is_logged:
            self.checks.declined(self.at, self.instance, number)
            self.outbox.pop(number, None)
            self._left_out.add(number)

    def _accepted(self, answer: Accepted) -> None:
        kind, _, name = answer.id.rpartition(" ")
        reading = self.readings.get(name)
        forgotten = self._forgetting.pop(answer.id, None)
        if forgotten is not None and forgotten.durable is not None:
            forgotten.durable.gone(forgotten.course)
        if reading is None or not self.is_logged:
            return
        if kind == "acknowledge" and reading.durable is not None:
            reading.durable.confirm(reading.course)
        elif not kind:
            if reading.course.is_over:
                self.checks.fail(f"{reading.course.name} goes on, which is not its own any more")
            reading.begun, reading.is_placed = answer.begun, True
            reading.doubts = answer.doubts
            if not reading.is_accepted:
                reading.is_accepted = True
                reading.course.accepted(answer.cursor or {})
            reading.course.told(answer.cursor or {})
            if reading.is_leaving is not None:
                self.unsubscribe(reading.id, forget=reading.is_leaving)

    def _refused(self, answer: Refused) -> None:
        reading = self.readings.pop(answer.id, None)
        if reading is None:
            return
        if answer.is_passing and reading.is_leaving is None:
            self.readings[reading.id] = reading
            again = self.simulation.now + _AGAIN
            self.simulation.at(again, self._try_again, self._connection, reading)
            return
        if answer.cursor is not None:  # no longer kept: go on where it says
            reading.course.skip(answer.cursor)
            reading.id = self._next_id()
            reading.is_accepted = reading.is_placed = True
            self.readings[reading.id] = reading
            self._ask_for(reading)
        elif self.checks.is_damaged and not answer.is_passing:
            self._begin_anew(reading)
        elif reading.durable is not None:
            is_moved = ", at broker" in answer.reason
            if reading.course.is_unlike and not is_moved and "replace" not in answer.reason:
                self.checks.fail(f"{self.session} is refused another filter by: {answer.reason}")
            is_free = reading.durable.is_wild or is_moved
            is_free = is_free or answer.is_passing
            if reading.durable.is_had_by(reading.course) and not is_free:
                self.checks.fail(f"{self.session} is refused: {answer.reason}")
            if all(other.durable is not reading.durable for other in self.readings.values()):
                self.durables.pop(reading.durable.name, None)

    def _try_again(self, connection: int, reading: Reading) -> None:
        """What could not be done for now."""
        if connection == self._connection and self.readings.get(reading.id) is reading:
            self._ask_for(reading)

    def _begin_anew(self, reading: Reading) -> None:
        """A damaged node does not know it any more."""
        if reading.durable is None:
            self.subscribe(reading.course.filter)
        elif reading.durable.is_had_by(reading.course):
            self.subscribe(reading.course.filter, durable=reading.durable.name)

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
            self.checks.completed(reading, answer.complete)


def _filter(filter: Filter | str) -> Filter:
    return Filter.parse(filter) if isinstance(filter, str) else filter
