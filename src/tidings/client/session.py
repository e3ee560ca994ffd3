"""The session: all that a client wants of its broker, over any number of connections. Pure.

Messages go in and come out; sockets, clocks and tasks are the host's. A connection is gone
when `lost` is called; `connected` then asks a broker, the same or another, for all of it again.
Nothing is asked for twice over one connection, so every message that does arrive counts.

Subscriptions that are asked for again get a new id: what was under way for the old one is not
mistaken for something new.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from tidings.client.copying import Copying
from tidings.client.outbox import Outbox, OutboxLimits, Publication
from tidings.client.reading import BY_NAME, Reading
from tidings.events import Filter
from tidings.protocol.requests import (
    Accepted,
    Acknowledge,
    Adjust,
    Advertise,
    Attach,
    Cursor,
    Doubtful,
    Durables,
    Erase,
    Erasure,
    Interest,
    ListDurables,
    Missed,
    Progress,
    Refused,
    RequestBody,
    Resend,
    Since,
    Unadvertise,
    Unsubscribe,
    Warned,
    Watch,
)
from tidings.protocol.wire import Copied, Copy, Delivery, Ping, Pong

Request: TypeAlias = RequestBody | Copy | Ping | Pong

_ACKNOWLEDGED: Final = "acknowledge "
"""What the id of an answer to an acknowledgement begins with."""
_HEADS: Final = 1_024
"""Bytes of a frame that are for what is around a notification."""


@dataclass(slots=True, eq=False)
class Standing:
    """An advertisement, or a watch for interest."""

    id: str
    filter: Filter
    is_settled: bool = False
    refusal: Refused | None = None
    is_wanted: bool | None = None
    """Of a watch: whether somebody wants what the filter matches, once that is known."""


@dataclass(slots=True, eq=False)
class DurableRequest:
    """What a broker is to do with a durable subscription that is not read here, or tell of all.

    It notes how far the subscription is, which has its events from elsewhere; or forgets it, sets
    it to another place, or pauses it.
    """

    request: Acknowledge | Unsubscribe | Adjust | ListDurables
    found: Durables | None = None
    """What there is, if that was asked."""
    is_settled: bool = False
    number: int = 0
    """The number in the broker's answer."""
    refusal: Refused | None = None


class Erasing:
    """An erasure that was asked for, until the broker has answered it in full."""

    __slots__ = ("answer", "is_settled", "refusal", "request")

    def __init__(self, request: Erase) -> None:
        self.request: Final = request
        self.is_settled = False
        self.answer = Erasure(request.id, is_done=False)
        """What is done so far."""
        self.refusal: Refused | None = None


class Session:
    """What a client has asked for, what it was told, and what is still to be said."""

    def __init__(self, limits: OutboxLimits | None = None, *, instance: str = "") -> None:
        """`instance` tells this process from others that come under its name, if any can."""
        self._instance = instance
        self._attempts = 0
        self.outbox: Final = Outbox(limits or OutboxLimits())
        self.broker = ""
        """The name of the broker, while there is a connection."""
        self.settled: list[tuple[Publication, Refused | None]] = []
        """Publications whose fate is known; the host takes them, and clears the list."""
        self.changed: set[Reading | Standing | DurableRequest | Erasing | Copying] = set()
        """What else has changed; the host takes it, and clears the set."""
        self.pongs = 0
        """The last `Ping` that was answered over this connection."""
        self.is_confused = False
        """The broker does not know this session: a new connection is needed."""
        self._readings: dict[str, Reading] = {}
        """The readings that the broker knows, by its id for them."""
        self._ebbing: dict[str, Reading] = {}
        """Readings that were given up for a while, by id, until the broker says that it knows."""
        self._all: dict[Reading, None] = {}
        self._advertisements: dict[str, Standing] = {}
        self._watches: dict[str, Standing] = {}
        self._durables: dict[str, DurableRequest] = {}
        self._erasings: dict[str, Erasing] = {}
        self._copyings: dict[Copying, None] = {}
        self.waiting: dict[Reading, Refused] = {}
        """Readings that are refused for now: the host has them asked for again, before long."""
        self._urgent: set[Reading] = set()
        """Readings whose acknowledgements somebody waits for."""
        self._requests: list[Request] = []
        self._count = 0
        self._pings = 0

    # -- connections ---------------------------------------------------------------------------

    def connected(self, broker: str, *, frame: int = 1 << 24) -> None:
        """There is a connection: ask for everything. `frame` is what the broker takes, in bytes."""
        self.outbox.largest = max(frame - _HEADS, frame // 2)
        self.broker, self.pongs, self.is_confused = broker, 0, False
        self._attempts += 1
        epoch = self.outbox.epoch(broker)
        self._requests = [Attach(instance=self._instance, epoch=epoch, attempt=self._attempts)]
        for ad in self._advertisements.values():
            self._requests.append(Advertise(ad.id, ad.filter))
        for watch in self._watches.values():
            self._requests.append(Watch(watch.id, watch.filter))
        for reading in self._all:
            if not reading.is_held:
                self._ask(reading)
            elif reading.is_due:
                self._urgent.add(reading)
        self._requests += [each.request for each in self._durables.values()]
        self._requests += [each.request for each in self._erasings.values()]
        for copying in self._copyings:
            self.copy_on(copying)

    def lost(self) -> None:
        """The connection is gone, and all that was under way with it."""
        self.broker = ""
        self._requests.clear()
        self._readings.clear()
        self._ebbing.clear()
        self.waiting.clear()
        for reading in self._all:
            reading.lost()
        for copying in self._copyings:
            copying.gone()
        self.outbox.lost()

    def outgoing(self) -> list[list[Request]]:
        """What to send now, frame by frame."""
        if not self.broker:
            return []
        for reading in self._urgent:
            self._acknowledge(reading)
        self._urgent.clear()
        frames: list[list[Request]] = [list(f) for f in self.outbox.frames()]
        if self._requests:
            frames.insert(0, self._requests)
            self._requests = []
        return frames

    # -- what the program asks for -------------------------------------------------------------

    def advertise(self, filter: Filter) -> Standing:
        standing = Standing(self._next("a"), filter)
        self._advertisements[standing.id] = standing
        self._say(Advertise(standing.id, filter))
        return standing

    def unadvertise(self, filter: Filter) -> bool:
        """Take one advertisement of this filter back; False if there is none."""
        for id, standing in self._advertisements.items():
            if standing.filter == filter:
                del self._advertisements[id]
                self._say(Unadvertise(id))
                return True
        return False

    def watch(self, filter: Filter) -> Standing:
        """Ask whether somebody wants this."""
        standing = Standing(self._next("w"), filter)
        self._watches[standing.id] = standing
        self._say(Watch(standing.id, filter))
        return standing

    def unwatch(self, standing: Standing) -> None:
        """Ask no longer."""
        if self._watches.pop(standing.id, None) is not None:
            self._say(Unsubscribe(standing.id))

    def copy(self, copying: Copying) -> None:
        """Want a part of the broker's log, until `uncopy`."""
        self._copyings[copying] = None
        self.copy_on(copying)

    def uncopy(self, copying: Copying) -> None:
        """Want it no longer; a piece that is on its way is dropped."""
        self._copyings.pop(copying, None)

    def copy_on(self, copying: Copying) -> None:
        """Ask for the next piece of a log, if it is time for that."""
        if self.broker and copying.is_due:
            self._requests.append(copying.request(self._next("c")))

    def subscribe(self, reading: Reading) -> None:
        """Want to be told of events."""
        self._all[reading] = None
        if self.broker:
            self._ask(reading)

    def unsubscribe(self, reading: Reading, *, forget: bool = False) -> None:
        """Want it no longer; what was acknowledged is told first."""
        self._all.pop(reading, None)
        if not reading.id and forget and self.broker and reading.durable is not None:
            self._ask(
                reading
            )  # only the reader that has a durable subscription can have it forgotten
        if reading.id:
            if not forget:
                self._acknowledge(reading)
            del self._readings[reading.id]
            self._say(Unsubscribe(reading.id, forget))
            reading.gone()

    def acknowledge(self, durable: str, cursor: Cursor, owner: str) -> DurableRequest:
        """Tell the broker how far a durable subscription is that is not read now."""
        return self._of_durable(Acknowledge(self._next("k"), cursor, durable, owner))

    def forget(self, durable: str) -> DurableRequest:
        """Have the broker forget a durable subscription, even one that another client reads."""
        return self._of_durable(Unsubscribe(self._next("k"), forget=True, durable=durable))

    def adjust(
        self, durable: str, *, since: Since = None, is_paused: bool | None = None
    ) -> DurableRequest:
        """Have a durable subscription set to another place, paused, or let go on."""
        return self._of_durable(Adjust(self._next("k"), durable, since, is_paused))

    def list_durables(self) -> DurableRequest:
        """Ask which durable subscriptions there are."""
        return self._of_durable(ListDurables(self._next("k")))

    def _of_durable(
        self, request: Acknowledge | Unsubscribe | Adjust | ListDurables
    ) -> DurableRequest:
        asked = DurableRequest(request)
        self._durables[request.id] = asked
        self._say(request)
        return asked

    def erase(self, request: Erase) -> Erasing:
        """Have events erased; it is asked for again in each connection until it is answered."""
        asked = self._erasings[request.id] = Erasing(request)
        self._say(request)
        return asked

    def forget_erasure(self, asked: Erasing) -> None:
        """Wait for the answer no longer; what the broker has begun goes on."""
        self._erasings.pop(asked.request.id, None)

    def taken(self, reading: Reading) -> None:
        """The program has taken events: if that was waited for, ask for more."""
        if reading.is_held and len(reading.inbox) <= reading.most // 2:
            reading.is_held = False
            self._ask_again(reading)

    def say_acknowledgements(self) -> None:
        """Tell the broker what was acknowledged."""
        for reading in self._all:
            self._acknowledge(reading)
        self._urgent.clear()

    def hurry(self, reading: Reading) -> None:
        """Tell the broker with the next frames what was acknowledged of this one."""
        self._urgent.add(reading)

    def ping(self) -> int:
        """Ask for an answer once all that was said before is taken in; returns its number."""
        self._pings += 1
        self._say(Ping(self._pings))
        return self._pings

    def try_again(self) -> None:
        """Ask for what was refused for now."""
        waiting, self.waiting = self.waiting, {}
        for reading in waiting:
            if reading.is_due and (reading.is_held or reading.id):
                self._urgent.add(reading)
            self._ask_again(reading)

    def _ask_again(self, reading: Reading) -> None:
        is_known = bool(reading.id) or reading in self._ebbing.values()
        if self.broker and reading in self._all and not reading.is_held and not is_known:
            self._ask(reading)

    def _ask(self, reading: Reading) -> None:
        id = self._next("s")
        self._readings[id] = reading
        self._requests.append(reading.request(id))
        if reading.is_due:  # an acknowledgement may have been lost, and be waited for
            self._urgent.add(reading)

    def _acknowledge(self, reading: Reading) -> None:
        if self.broker and reading.is_due:
            self._requests.append(reading.acknowledgement())

    def _say(self, request: Request) -> None:
        if self.broker:  # else `connected` will say all that is still wanted
            self._requests.append(request)

    def _next(self, kind: str) -> str:
        self._count += 1
        return f"{kind}{self._count}"

    # -- what the broker says ------------------------------------------------------------------

    def receive(self, messages: Iterable[Any]) -> None:
        for message in messages:
            if isinstance(message, Delivery):
                for id in message.ids:
                    self._deliver(id, message)
            else:
                self._hear(message)

    def _deliver(self, id: str, message: Delivery) -> None:
        reading = self._readings.get(id)
        if reading is None:
            reading = self._ebbing.get(id)
            if reading is None or reading not in self._all:
                return  # unsubscribed meanwhile
            reading.take(message.event)  # it was on its way, and would only have to come again
        elif not reading.deliver(message.event):
            # Give it up until the program has read. Not to read from the socket would hold up
            # all else that comes by it, perhaps the very answer that the program waits for.
            self._acknowledge(reading)
            self._ebbing[id] = self._readings.pop(id)
            self._say(Unsubscribe(id))
            reading.gone(is_held=True)
            reading.take(message.event)
        self.changed.add(reading)

    def _hear(self, message: Any) -> None:
        match message:
            case Accepted(id="publish", number=number, kept=kept):
                self.settled += self.outbox.accepted(number, kept)
            case Accepted(id="attach", number=number, epoch=epoch, kept=kept):
                self.settled += self.outbox.attached(self.broker, number, epoch, kept)
            case Accepted():
                self._accepted(message)
            case Progress(id=""):
                for each in self._readings.values():
                    if each.is_live:
                        each.progress(message)
                        self.changed.add(each)
            case Progress(id=id):
                if reading := self._readings.get(id):
                    reading.progress(message)
                    self.changed.add(reading)
            case Copied(id=id):
                if copying := self._copying(id):
                    copying.came(message)
                    self.copy_on(copying)
                    self.changed.add(copying)
            case Erasure(id=id):
                self._erased(id, message)
            case Refused(id=id):
                self._refused(id, message)
            case Missed(id=id):
                if reading := self._readings.get(id) or self._ebbing.get(id):
                    reading.skipped(message)
                    self.changed.add(reading)
            case Doubtful(id=id):
                if reading := self._readings.get(id):
                    reading.doubt(message)
                    self.changed.add(reading)
            case Warned(id=id, reason=reason):
                if reading := self._readings.get(id):
                    reading.warnings.setdefault(reason)
            case Interest(id=id, is_wanted=is_wanted):
                if watch := self._watches.get(id):
                    watch.is_wanted = is_wanted
                    self.changed.add(watch)
            case Durables(id=id):
                if asked := self._durables.pop(id, None):
                    asked.is_settled, asked.found = True, message
                    self.changed.add(asked)
            case Ping(number=number):
                self._say(Pong(number))
            case Pong(number=number):
                self.pongs = max(self.pongs, number)
            case Resend():
                self.is_confused = True

    def _accepted(self, answer: Accepted) -> None:
        id = answer.id
        begun = None if answer.cursor is None else self._ebbing.get(id)  # it was given up before
        if reading := self._readings.get(id) or begun:
            reading.accepted(answer)
            self.changed.add(reading)
        elif reading := self._ebbing.pop(id, None):
            self._ask_again(reading)
        elif reading := self._acknowledging(id):
            reading.kept = max(reading.kept, answer.number)
            self.changed.add(reading)
        elif asked := self._durables.pop(id.removeprefix(_ACKNOWLEDGED), None):
            asked.is_settled, asked.number = True, answer.number
            self.changed.add(asked)
        elif standing := self._advertisements.get(id) or self._watches.get(id):
            standing.is_settled = True
            self.changed.add(standing)

    def _refused(self, id: str, refusal: Refused) -> None:
        if id.isdecimal():
            self.settled += self.outbox.refused(int(id), refusal)
        elif refusal.is_passing and id.startswith(_ACKNOWLEDGED):
            self._unkept(id, refusal)
        elif reading := self._reading(id):
            if refusal.is_passing and reading in self._all and reading.waits():
                self.waiting[reading] = refusal
            else:
                self._end(reading, refusal)
        elif asked := self._durables.pop(id.removeprefix(_ACKNOWLEDGED), None):
            asked.is_settled, asked.refusal = True, refusal
            self.changed.add(asked)
        elif standing := self._advertisements.pop(id, None) or self._watches.pop(id, None):
            standing.is_settled, standing.refusal = True, refusal
            self.changed.add(standing)
        elif erasing := self._erasings.pop(id, None):
            erasing.is_settled, erasing.refusal = True, refusal
            self.changed.add(erasing)
        elif copying := self._copying(id):
            copying.refused(refusal)
            self.changed.add(copying)

    def _unkept(self, id: str, refusal: Refused) -> None:
        """An acknowledgement cannot be kept for now: say it again."""
        if reading := self._acknowledging(id):
            reading.unkept()
            self.waiting[reading] = refusal
        elif asked := self._durables.pop(id.removeprefix(_ACKNOWLEDGED), None):
            asked.is_settled, asked.refusal = True, refusal
            self.changed.add(asked)

    def _erased(self, id: str, answer: Erasure) -> None:
        erasing = self._erasings.get(id)
        if erasing is None:
            return
        erasing.answer, erasing.is_settled = answer, answer.is_done
        if answer.is_done:
            del self._erasings[id]
        self.changed.add(erasing)

    def _reading(self, id: str) -> Reading | None:
        """Which reading is over if something of this id is refused."""
        if id.startswith(_ACKNOWLEDGED + BY_NAME):
            return self._acknowledging(id)
        return self._readings.pop(id, None) or self._ebbing.pop(id, None)

    def _end(self, reading: Reading, refusal: Refused) -> None:
        self._all.pop(reading, None)
        reading.gone()
        reading.ending = refusal
        self.changed.add(reading)

    def _acknowledging(self, id: str) -> Reading | None:
        """Whose acknowledgement an answer is for, if it is for one."""
        if not id.startswith(_ACKNOWLEDGED):
            return None
        id = id.removeprefix(_ACKNOWLEDGED)
        if not id.startswith(BY_NAME):
            return self._readings.get(id) or self._ebbing.get(id)
        name = id.removeprefix(BY_NAME)
        return next((reading for reading in self._all if reading.durable == name), None)

    def _copying(self, id: str) -> Copying | None:
        return next((copying for copying in self._copyings if copying.id == id), None)
