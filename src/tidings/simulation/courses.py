"""Courses: what a subscription was told, checked event by event against the streams themselves.

The slow and plain truth about a subscription is its filter, applied to every event of every log
from where it began. A course knows up to where in each stream that has been told; whatever comes
next must be the next event that matches, and no progress may pass over one.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tidings.events import Filter
from tidings.protocol import Event, Missed, Subscribe
from tidings.protocol.epochs import broker_of
from tidings.protocol.requests import Cursor

if TYPE_CHECKING:
    from tidings.simulation.guarantees import Guarantees
    from tidings.simulation.simulation import Simulation


@dataclass
class Start:
    """Where a subscription begins: at a time, by the clock of each stream, or now.

    Now is between what its broker has heard of each stream when it is asked for, and all there is
    when it is accepted. Of a stream that the broker has never heard of, it may be earlier by the
    margin of the nodes.
    """

    time: float
    lowest: Cursor
    """It begins nowhere before this."""
    is_now: bool = False
    highest: Cursor | None = None
    """All there was when it was accepted, if it begins now."""
    known: frozenset[str] = frozenset()
    """The streams that its broker had heard of when it was asked for."""
    unheard: frozenset[str] = frozenset()
    """Brokers of which its own had not heard when it was accepted, if their clocks decide."""
    exact: Cursor = field(default_factory=dict)
    """Where it begins for certain."""

    @classmethod
    def at(cls, simulation: Simulation, time: float, exact: Cursor | None = None) -> Start:
        """At a time; and behind a cursor, as far as that goes."""
        return cls(time, before(simulation, time), exact=dict(exact or {}))

    @classmethod
    def now(cls, simulation: Simulation, at: str) -> Start:
        """Asked for now."""
        time = simulation.time(at)
        lowest, node = lengths(simulation), simulation.nodes.get(at)
        stored = simulation.stores[at].content
        if node is not None:
            flows = node.from_log.reading.flows
            heard = {s: flow.upto for s, flow in flows.items() if flow.upto >= 0}
            known = dict(node.from_log.reached.known)
            lowest = before(simulation, time - simulation.settings.margin)
            lowest |= {s: min(heard.get(s, t), known.get(s, t)) for s, t in (heard | known).items()}
        heard_of = frozenset(k.removeprefix("stream:") for k in stored if k.startswith("stream:"))
        return cls(time, lowest, is_now=True, known=heard_of)

    def again(self, later: Start) -> None:
        """It was not accepted, and is asked for again: its broker may know less than before."""
        self.lowest = {s: min(t, later.lowest.get(s, 0)) for s, t in self.lowest.items()}


@dataclass
class Tenure:
    """A durable subscription from when somebody took it until somebody else has."""

    filter: Filter
    start: Start | None = None
    """None if it is not known to the broker."""
    course: Course | None = None
    sent: Cursor = field(default_factory=dict)
    confirmed: Cursor = field(default_factory=dict)
    kept: dict[str, list[int]] = field(default_factory=dict)
    """What was heard and acknowledged by those who had it before, and heard by who has it."""
    is_cut: bool = False
    """Something was no longer in the log when it wanted it."""


@dataclass
class Durable:
    """A durable subscription: what its owner keeps of it is what it has acknowledged.

    If its broker crashes just when somebody takes it, it may be theirs or not: the broker knows
    who has it.
    """

    checks: Guarantees
    at: str
    name: str
    tenures: dict[str, Tenure]
    """By owner, those that the broker may know; under no name, that it knows none."""
    latest: Tenure
    _pending: list[tuple[Course, Cursor]] = field(default_factory=list)
    _remembered: dict[str, Durable] = field(default_factory=dict)

    @classmethod
    def made(cls, checks: Guarantees, at: str, name: str, filter: Filter) -> Durable:
        """One that no broker knows yet."""
        unknown = Tenure(filter)
        return cls(checks, at, name, {"": unknown}, unknown)

    def give_to(self, durables: dict[str, Durable]) -> None:
        """Whoever remembers it is its owner, and nobody else."""
        self._remembered.pop(self.name, None)
        self._remembered = durables
        durables[self.name] = self

    def is_had_by(self, course: Course) -> bool:
        """Whether this was the last to take it."""
        return self.latest.course is course

    def acknowledge(self, course: Course, cursor: Cursor) -> None:
        """Its owner tells the broker."""
        self.latest.sent |= cursor
        self._pending.append((course, cursor))

    def confirm(self, course: Course) -> None:
        """The broker has answered the oldest that it has not."""
        for number, (whose, cursor) in enumerate(self._pending):
            if whose is course:
                del self._pending[number]
                known = self.latest.confirmed
                known |= {s: max(t, known.get(s, 0)) for s, t in cursor.items()}
                return

    def taken(self, course: Course, simulation: Simulation, body: Subscribe) -> None:
        """The broker is about to be asked for it by somebody, or by its owner again."""
        self._pending.clear()
        node = simulation.nodes.get(self.at)
        if node is None or body.heard is not None:
            return
        saved = node.from_log.subscriptions.saved.get(self.name)
        before = self.tenures.get("" if saved is None else saved.owner)
        if before is None:
            self.checks.fail(f"{self.at} says that {saved} has {self.name}")
        course.is_unlike = False  # what made it so may be lost in a crash
        if saved is None:
            now = Tenure(body.filter, course.start)
            course.position = dict(course.start.exact)
        else:
            self._check_saved(before, saved.cursor)
            if saved.filter != body.filter and not body.replace:
                course.is_unlike = True
                return
            now = self._after(before, course, saved.cursor, body)
        now.course = course
        assert now.start is not None
        course.start = now.start
        known = {o: self.tenures[o] for o in self._owners(simulation) if o in self.tenures}
        self.tenures = {**known, "" if saved is None else saved.owner: before, body.owner: now}
        self.latest = now

    def _owners(self, simulation: Simulation) -> list[str]:
        """Who may have it after a crash, which leaves nothing of what is yet to be committed."""
        versions = simulation.commits[self.at].versions(f"durable:{self.name}")
        return ["" if stored is None else str(stored[2]) for stored in versions]

    def _after(self, before: Tenure, course: Course, cursor: Cursor, body: Subscribe) -> Tenure:
        """How it goes on, or begins anew."""
        assert before.start is not None
        course.position = dict(cursor)
        if isinstance(body.since, dict):  # what it lacks is as it was
            course.position = {**cursor, **body.since}
        elif body.since is not None:
            course.position = {}
            return Tenure(body.filter, course.start)
        if body.since is not None or body.filter != before.filter:
            return Tenure(body.filter, replace(before.start, exact=dict(course.position)))
        kept = {s: [t for t in ticks if t <= cursor.get(s, -1)] for s, ticks in before.kept.items()}
        sent, confirmed = dict(before.sent), dict(before.confirmed)
        return replace(before, kept=kept, sent=sent, confirmed=confirmed)

    def refused(self, course: Course, reason: str, home: str) -> None:
        """The broker refuses it; if that is for another one, it does not know it itself."""
        is_elsewhere, is_unsure = "lives at broker" in reason, "may live at" in reason
        if not is_elsewhere and not is_unsure:
            return
        if self.checks.has_made(self.at, self.name):
            self.checks.fail(f"{self.at} has {self.name}, and says: {reason}")
        if home == "here" or (is_unsure and home != "sure"):
            self.checks.fail(f"{course.name} was to begin {home or 'anywhere'}: {reason}")
        if self.is_had_by(course):  # a crash has made it unknown again
            self.latest = self.tenures.setdefault("", Tenure(course.filter))

    def forgotten(self, course: Course) -> None:
        """The broker is about to be told to forget it, by somebody who has it or had it once."""
        if self.is_had_by(course):
            self.tenures[""] = Tenure(self.latest.filter)

    def _check_saved(self, tenure: Tenure, saved: Cursor) -> None:
        """What the broker has saved was acknowledged, or is where it began."""
        assert tenure.start is not None
        for stream, tick in saved.items():
            highest = self.checks.bounds(tenure.start, stream)[1]
            if tick > max(tenure.sent.get(stream, 0), highest):
                self.checks.fail(
                    f"{self.at} has saved {stream}:{tick} for {self.name}, which has "
                    f"acknowledged {tenure.sent} only"
                )
        for stream, tick in tenure.confirmed.items():
            if saved.get(stream, 0) < tick:
                self.checks.fail(f"{self.at} has forgotten {stream}:{tick} of {self.name}")

    def check(self) -> None:
        """At rest: all that was kept in all lives of its owners is exactly what it wants."""
        tenure = self.latest
        if tenure.start is None or tenure.is_cut:
            return
        for stream in self.checks.streams:
            lowest, highest = self.checks.bounds(tenure.start, stream)
            end = len(self.checks.simulation.log(stream))
            kept = [t for t in tenure.kept.get(stream, []) if t <= end]
            right = self.checks.matching(tenure.filter, stream, int(lowest))
            needed = [t for t in right if t > highest]
            if kept != right[len(right) - len(kept) :] or len(kept) < len(needed):
                self.checks.fail(f"{self.name} has kept {kept} of {stream}, but wants {right}")


class Course:
    """One subscription as it is told."""

    def __init__(
        self, checks: Guarantees, at: str, name: str, filter: Filter, start: Start
    ) -> None:
        self.checks, self.at, self.name = checks, at, name
        self.filter, self.start = filter, start
        self.asked = start
        """Where it was to begin, whatever was known of it; a crash may make that unknown again."""
        self.position: Cursor = {}
        self.durable: Durable | None = None
        self.is_unlike = False
        """It is a durable one that hears something else, and must be refused."""

    def copy(self) -> Course:
        """One that begins where this is."""
        course = Course(self.checks, self.at, f"{self.name}, again", self.filter, self.start)
        course.position = dict(self.position)
        return course

    def accepted(self, cursor: Cursor) -> None:
        """From here on it hears everything.

        If the clocks differ by more than they may, the streams of a broker of which its own has
        never heard begin when they like.
        """
        start, simulation = self.start, self.checks.simulation
        if not start.is_now or start.highest is not None:
            return
        stores = simulation.stores
        start.highest = {s: len(ever) for each in stores.values() for s, ever in each.ever.items()}
        if simulation.skew > simulation.settings.margin:
            heard_of = {broker_of(s) for s in (self.at, *start.known, *cursor)}
            start.unheard = frozenset(stores.keys() - heard_of)

    def heard(self, event: Event) -> None:
        """The next that matches, and nothing else."""
        stream, tick = event.stream, event.tick
        what = f"{self.name} hears {stream}:{tick}"
        if not self.checks.is_true(event):
            self.checks.fail(f"{what}, which is not in the log")
        if not self.filter.matches(event.notification):
            self.checks.fail(f"{what}, which it does not want")
        position = self.position.get(stream)
        if position is not None and tick <= position:
            self.checks.fail(f"{what}, but is at {position} already")
        if position is None and tick <= self.checks.bounds(self.start, stream)[0]:
            self.checks.fail(f"{what}, which was there before it began")
        self._pass(stream, tick - 1, what)
        self.position[stream] = tick
        if self.durable is not None and self.durable.is_had_by(self):
            self.durable.latest.kept.setdefault(stream, []).append(tick)

    def told(self, cursor: Cursor) -> None:
        """There was nothing more up to here."""
        for stream, tick in cursor.items():
            self._pass(stream, tick, f"{self.name} is told that it is at {stream}:{tick}")
            self.position[stream] = max(tick, self.position.get(stream, tick))

    def missed(self, said: Missed) -> None:
        """Exactly so many were not sent, or more of what is no longer kept or was lost."""
        least, most = 0, self.checks.lost(self.filter)
        for stream, tick in said.cursor.items():
            lowest, highest = self._behind(stream)
            most += len(self._matching(stream, lowest, tick))
            least += len(self._matching(stream, highest, tick))
            self.position[stream] = max(tick, self.position.get(stream, tick))
        if not (said.count <= most and least <= said.count + said.lost):
            self.checks.fail(f"{self.name} has missed {least} to {most} events, and is told {said}")

    def skip(self, cursor: Cursor) -> None:
        """What lies before this, and was not told, is no longer kept or cannot be read; or what
        lies behind it is lost."""
        for stream, tick in cursor.items():
            end = len(self.checks.simulation.log(stream))
            if self.position.get(stream, 0) > end >= tick:
                self.position[stream] = tick
            passed = self._matching(stream, self._behind(stream)[1], tick)
            there = [t for t in passed if self.checks.can_be_read(stream, t)]
            if there:
                self.checks.fail(f"{self.name} is to go on at {stream}:{tick}, behind {there}")
            if passed and self.durable is not None:
                self.durable.latest.is_cut = True
            self.position[stream] = max(tick, self.position.get(stream, tick))

    def check(self) -> None:
        """At rest: nothing is missing."""
        for stream in self.checks.streams:
            end = len(self.checks.simulation.log(stream))
            if self.position.get(stream, 0) > end:
                self.checks.fail(f"{self.name} is at {self.position} at rest: it was not told")
            self._pass(stream, end, f"{self.name} is at rest at {stream}:{end}")
            self.position[stream] = end

    def _pass(self, stream: str, tick: int, what: str) -> None:
        """Nothing may be passed over."""
        position = self._behind(stream)[1]
        passed = self._matching(stream, position, tick)
        if passed:
            self.checks.fail(f"{what}, but has not heard {passed} since {position}")

    def _behind(self, stream: str) -> tuple[float, float]:
        """Where it is: not before the first tick, and not behind the second."""
        if stream in self.position:
            return self.position[stream], self.position[stream]
        return self.checks.bounds(self.start, stream)

    def _matching(self, stream: str, since: float, upto: int) -> list[int]:
        if since >= upto:
            return []
        return self.checks.matching(self.filter, stream, int(since), upto)


def lengths(simulation: Simulation) -> Cursor:
    """How long all streams are."""
    return {stream: len(simulation.log(stream)) for stream in simulation.streams}


def before(simulation: Simulation, time: float) -> Cursor:
    """How long all streams were at a time, by the clock of each."""
    stores = simulation.stores.values()
    evers = {stream: ever for each in stores for stream, ever in each.ever.items()}
    return {stream: sum(e.time < time for e in ever) for stream, ever in evers.items()}
