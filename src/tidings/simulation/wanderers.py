"""Wanderers: programs that publish with ids, at one broker after the other, in virtual time.

A wanderer is the session of the real client. It leaves its broker at any moment: what it has sent
there may still be on the way, and is read before the broker notices that it has left. What it was
not told the fate of, it sends to the next. What is refused for now it publishes again, until it is
kept. So whatever breaks, each id is kept once in the end, in some log.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from tidings.client.outbox import UNKNOWN, OutboxLimits, Publication
from tidings.client.receipts import Receipts
from tidings.client.session import Session
from tidings.events import Notification
from tidings.protocol.host import Deliver, Reply, Request
from tidings.protocol.messages import Event
from tidings.protocol.requests import SESSION, Accepted, Attach, Detach, Refused
from tidings.simulation.guarantees import Violation

if TYPE_CHECKING:
    from tidings.simulation.simulation import Simulation

_LATENCY: Final = 0.4
"""Seconds that a connection takes at most: much may be in its buffers."""
_UNNOTICED: Final = 2.0
"""Seconds until a broker notices that a wanderer has left, at most."""
_PAUSE: Final = 0.3
_LIMITS: Final = OutboxLimits(count=64, frames=3, most=4)


class Line:
    """A connection of a wanderer to a broker."""

    def __init__(self, wanderer: Wanderer, at: str, session: str) -> None:
        self.wanderer, self.at, self.session = wanderer, at, session
        self.is_known = False
        """Its broker has accepted the session, and means to go on with it."""
        self.is_full = False
        self.is_up = True
        """The broker has neither crashed nor noticed that it was left."""
        self.up = self.down = 0.0

    def admitted(self, _: Any) -> None:
        """A wanderer does not subscribe."""

    def meant(self, effect: Deliver | Reply) -> None:
        """The broker has decided to say something."""
        match effect:
            case Reply(answer=Accepted(id="attach")):
                self.is_known = True
            case Reply(answer=Refused(id=id)) if id == SESSION:
                self.is_known = False

    def told(self, effect: Deliver | Reply) -> None:
        """The broker says something, which arrives unless the wanderer leaves before."""
        sim = self.wanderer.simulation
        self.down = max(self.down, sim.now + sim.random.random() * _LATENCY)
        sim.carry(self.down, self.wanderer.hear, self, effect)

    def broken(self) -> None:
        """The broker has crashed, with all that was in its buffers."""
        self.close()
        if self.wanderer.line is self:
            self.wanderer.leave()

    def close(self) -> None:
        """Nothing arrives any more."""
        self.is_up = False
        self.wanderer.simulation.lines.pop(self.session, None)


class Wanderer:
    """A program that is at one of several brokers at a time."""

    def __init__(self, simulation: Simulation, name: str) -> None:
        self.simulation, self.name = simulation, name
        self.session = Session(_LIMITS)
        self.line: Line | None = None
        self.kept: dict[str, Receipts] = {}
        """Where everything is, by id."""
        self.bold: set[str] = set()
        """The ids of what was published although it may be kept twice."""
        self.published: dict[str, int] = {}
        """How many events were published together, by id."""
        self.again: list[str] = []
        """What was refused for now."""
        self._connections = 0

    # -- connections ---------------------------------------------------------------------------

    def go(self, at: str) -> None:
        """Leave the broker, and come to this one; to another life of the same one, too."""
        self.leave()
        self._arrive_at(at)

    def leave(self) -> None:
        """Leave the broker, which does not notice at once; come back somewhere soon."""
        sim, line, self.line = self.simulation, self.line, None
        if line is None:
            return
        self.session.lost()
        if line.is_up:
            notices = max(line.up, sim.now + sim.random.random() * _UNNOTICED)
            sim.carry(notices, self._noticed, line)
        sim.at(sim.now + _PAUSE, self.come_back)

    def come_back(self, *_: Any) -> None:
        """If it is nowhere, go to a broker that is there."""
        sim = self.simulation
        if self.line is None:
            self._arrive_at(sim.random.choice(sorted(sim.stores)))
        if self.line is None:
            sim.at(sim.now + _PAUSE, self.come_back)

    def _arrive_at(self, at: str) -> None:
        if self.line is None and at in self.simulation.nodes:
            self._connections += 1
            self.line = Line(self, at, f"{self.name}#{self._connections}")
            self.simulation.lines[self.line.session] = self.line  # type: ignore[assignment]
            self.session.connected(at)
            self._say()

    def _noticed(self, line: Line, _: Any) -> None:
        if line.is_up:
            line.close()
            self.simulation.hear(line.at, Request(line.session, Detach()))

    def _say(self) -> None:
        line, sim = self.line, self.simulation
        if line is None:
            return
        for frame in self.session.outgoing():
            for body in frame:
                line.up = max(line.up, sim.now + sim.random.random() * _LATENCY)
                sim.carry(line.up, self._said, line, body)

    def _said(self, line: Line, body: Any) -> None:
        """Something arrives at a broker, even if the wanderer has left it meanwhile."""
        if line.is_up:
            if isinstance(body, Attach):
                body = msgspec.structs.replace(body, name=self.name)
            sim = self.simulation
            sim.hear(line.at, Request(line.session, body, sim.time(line.at)))

    def hear(self, line: Line, effect: Deliver | Reply) -> None:
        """A broker's word has arrived."""
        if line is not self.line or isinstance(effect, Deliver):
            return
        if isinstance(effect.answer, Refused) and effect.answer.id == SESSION:
            self.leave()
            return
        self.session.receive([effect.answer])
        if self.session.is_confused:
            self.leave()
        settled, self.session.settled = self.session.settled, []
        for publication, refusal in settled:
            self._settled(line, publication, refusal)
        self._say()

    # -- publishing ----------------------------------------------------------------------------

    def publish(self, id: str, count: int = 1, *, is_bold: bool = False) -> None:
        """Publish something, which may be kept twice if it is bold; again, if it was refused."""
        self.published[id] = count
        if is_bold:
            self.bold.add(id)
        said = [Notification({"id": id, "n": n}) for n in range(count)]
        ids = tuple(f"{id}/{n}" for n in range(count))
        self.session.outbox.add(*said, receipt=id, ids=ids, maybe_twice=is_bold)
        self._say()

    def _settled(self, line: Line, publication: Publication, refusal: Refused | None) -> None:
        id = publication.receipt
        if refusal is None:
            found = Receipts(
                *(publication.number, publication.count, publication.where),
                is_unsure=publication.is_unsure,
            )
            if id in self.kept and found.first.stream and id not in self.bold:
                self._check(found.first == self.kept[id].first, f"{id} has two receipts")
            self.kept[id] = found
            return
        self._check(refusal.id != UNKNOWN, f"nobody knows what has become of {id}")
        self.again.append(id)

    def retry(self) -> None:
        """Publish again what was refused for now."""
        due, self.again = self.again, []
        for id in due:
            self.publish(id, self.published[id], is_bold=id in self.bold)

    # -- what must hold ------------------------------------------------------------------------

    def check(self, *, is_over: bool) -> None:
        """Each id is kept once at most, and as a whole; and if it was acknowledged, it is kept."""
        places = self._places()
        for id, count in self.published.items():
            found = places.get(id, [])
            wholes = _wholes(found, count)
            self._check(wholes is not None, f"{id} is kept in part: {found}")
            receipts = self.kept.get(id)
            if receipts is not None and receipts.first.stream:
                place = (receipts.first.stream, receipts.first.tick)
                self._check(place in (wholes or ()), f"{id} is not at {place}, but at {wholes}")
            if id in self.bold:
                is_said = receipts is None or receipts.first.maybe_twice
                self._check(len(wholes or ()) < 2 or is_said, f"{id} is kept at {wholes}: unsaid")
            else:
                self._check(len(wholes or ()) < 2, f"{id} is kept at {wholes}")
                is_marked = receipts is not None and receipts.first.maybe_twice
                self._check(not is_marked, f"{id} may be kept twice, and was not to be")
            if receipts is not None or is_over:
                self._check(bool(wholes), f"{id} is not kept")

    def _places(self) -> dict[str, list[Event]]:
        """What is kept of this wanderer, in the order of each log."""
        found: dict[str, list[Event]] = {}
        for store in self.simulation.stores.values():
            for event in (event for log in store.logs.values() for event in log):
                id = event.notification.attributes.get("id")
                if isinstance(id, str) and id in self.published:
                    found.setdefault(id, []).append(event)
        return found

    def _check(self, holds: bool, what: str) -> None:
        if not holds:
            raise Violation(f"at {self.simulation.now:.3f} s: {what}")


def _wholes(events: Sequence[Event], count: int) -> list[tuple[str, int]] | None:
    """Where events that are published together begin; None if some are missing or apart."""
    if len(events) % count:
        return None
    found = []
    for begin in range(0, len(events), count):
        first = events[begin]
        for n, event in enumerate(events[begin : begin + count]):
            if (event.stream, event.tick) != (first.stream, first.tick + n):
                return None
            if event.notification["n"] != n:
                return None
        found.append((first.stream, first.tick))
    return found
