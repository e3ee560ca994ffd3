"""Courses: what a subscription was told, checked event by event against the streams themselves.

The slow and plain truth about a subscription is its filter, applied to every event of every log
from where it began. A course knows up to where in each stream that has been told; whatever comes
next must be the next event that matches, and no progress may pass over one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tidings.events import Filter
from tidings.node import Event
from tidings.node.requests import Cursor, Since

if TYPE_CHECKING:
    from tidings.simulation.guarantees import Guarantees
    from tidings.simulation.simulation import Simulation


@dataclass
class Start:
    """Where a subscription begins: at a time, or where it found the streams.

    That is between what its broker has heard of them when it is asked for, and all there is when
    it is accepted.
    """

    time: float
    lowest: Cursor | None = None
    highest: Cursor | None = None

    @classmethod
    def now(cls, simulation: Simulation, at: str) -> Start:
        """Asked for now."""
        lowest, node = lengths(simulation), simulation.nodes.get(at)
        if node is not None and node.deliveries is not None:
            heard = {s: flow.upto for s, flow in node.deliveries.flows.items() if flow.upto >= 0}
            lowest |= heard
        return cls(simulation.now, lowest=lowest)


@dataclass
class Durable:
    """A durable subscription: what its owner keeps of it is what it has acknowledged."""

    checks: Guarantees
    at: str
    name: str
    filter: Filter
    start: Start | None = None
    owner: Course | None = None
    sent: Cursor = field(default_factory=dict)
    confirmed: Cursor = field(default_factory=dict)
    kept: dict[str, list[int]] = field(default_factory=dict)
    is_cut: bool = False
    """Something was no longer in the log when it wanted it."""
    _pending: list[tuple[Course, Cursor]] = field(default_factory=list)
    _remembered: dict[str, Durable] = field(default_factory=dict)

    def give_to(self, durables: dict[str, Durable]) -> None:
        """Whoever remembers it is its owner, and nobody else."""
        self._remembered.pop(self.name, None)
        self._remembered = durables
        durables[self.name] = self

    def acknowledge(self, course: Course, cursor: Cursor) -> None:
        """Its owner tells the broker."""
        self.sent |= cursor
        self._pending.append((course, cursor))

    def confirm(self, course: Course) -> None:
        """The broker has answered the oldest that it has not."""
        for number, (whose, cursor) in enumerate(self._pending):
            if whose is course:
                del self._pending[number]
                self.confirmed |= {s: max(t, self.confirmed.get(s, 0)) for s, t in cursor.items()}
                return

    def taken(self, course: Course, simulation: Simulation, since: Since) -> None:
        """The broker is about to be asked for it by somebody, or by its owner again."""
        self._pending.clear()
        node = simulation.nodes.get(self.at)
        if node is None or node.deliveries is None or isinstance(since, dict):
            return
        saved = node.deliveries.saved.get(self.name)
        self.owner = course
        if saved is None or since is not None or self.start is None:
            if self.confirmed:
                self.checks.fail(f"{self.at} has forgotten what was acknowledged of {self.name}")
            self.start, self.sent, self.kept = course.start, {}, {}
            return
        self._check_saved(saved[1])
        course.start = self.start
        course.position = dict(saved[1])
        self.kept = {
            s: [t for t in ticks if t <= saved[1].get(s, -1)] for s, ticks in self.kept.items()
        }

    def _check_saved(self, saved: Cursor) -> None:
        """What the broker has saved was acknowledged, or is where it began."""
        assert self.start is not None
        for stream, tick in saved.items():
            _, highest = self.checks.bounds(self.start, stream)
            if tick > max(self.sent.get(stream, 0), highest):
                self.checks.fail(
                    f"{self.at} has saved {stream}:{tick} for {self.name}, which has "
                    f"acknowledged {self.sent} only"
                )
        for stream, tick in self.confirmed.items():
            if saved.get(stream, 0) < tick:
                self.checks.fail(f"{self.at} has forgotten {stream}:{tick} of {self.name}")

    def check(self) -> None:
        """At rest: all that was kept in all lives of its owners is exactly what it wants."""
        if self.start is None or self.owner is None or self.is_cut:
            return
        for stream in self.checks.streams:
            lowest, highest = self.checks.bounds(self.start, stream)
            kept = self.kept.get(stream, [])
            right = self.checks.matching(self.filter, stream, int(lowest))
            needed = [t for t in right if t > highest]
            if kept != right[len(right) - len(kept) :] or len(kept) < len(needed):
                self.checks.fail(f"{self.name} has kept {kept} of {stream}, but wants {right}")


class Course:
    """One subscription as it is told."""

    def __init__(self, checks: Guarantees, name: str, filter: Filter, start: Start) -> None:
        self.checks, self.name, self.filter, self.start = checks, name, filter, start
        self.position: Cursor = {}
        self.missed = 0
        """What the broker has said it did not send, and what has not turned up as missing yet."""
        self.durable: Durable | None = None
        self.slack = 0

    def copy(self) -> Course:
        """One that begins where this is."""
        course = Course(self.checks, f"{self.name}, again", self.filter, self.start)
        course.position = dict(self.position)
        return course

    def accepted(self) -> None:
        """From here on it hears everything."""
        if self.start.lowest is not None and self.start.highest is None:
            self.start.highest = lengths(self.checks.simulation)

    def heard(self, event: Event) -> None:
        """The next that matches, and nothing else."""
        stream, tick = event.stream, event.tick
        log = self.checks.simulation.stores[stream].log
        what = f"{self.name} hears {stream}:{tick}"
        if tick > len(log) or log[tick - 1] != event:
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
        if self.durable is not None and self.durable.owner is self:
            self.durable.kept.setdefault(stream, []).append(tick)

    def told(self, cursor: Cursor) -> None:
        """There was nothing more up to here."""
        for stream, tick in cursor.items():
            self._pass(stream, tick, f"{self.name} is told that it is at {stream}:{tick}")
            self.position[stream] = max(tick, self.position.get(stream, tick))

    def skip(self, cursor: Cursor) -> None:
        """What lies before this is no longer kept."""
        for stream, tick in cursor.items():
            first = self.checks.simulation.stores[stream].first
            position = self.position.get(stream)
            if position is not None and position < first - 1 <= tick:
                gone = self.checks.matching(self.filter, stream, position, first - 1)
                if gone and self.durable is not None:
                    self.durable.is_cut = True
                self.position[stream] = first - 1
        self.told(cursor)

    def check(self) -> None:
        """At rest: nothing is missing."""
        for stream in self.checks.streams:
            end = len(self.checks.simulation.stores[stream].log)
            self._pass(stream, end, f"{self.name} is at rest at {stream}:{end}")
            self.position[stream] = end
        if self.missed > self.slack and not self.checks.is_trimmed:
            self.checks.fail(f"{self.name} is told of {self.missed} events too many to be missed")

    def _pass(self, stream: str, tick: int, what: str) -> None:
        """Nothing may be passed over, but what the broker said it did not send."""
        position: float | None = self.position.get(stream)
        if position is None:
            lowest, position = self.checks.bounds(self.start, stream)
            if self.missed:  # of these, nobody knows whether it had begun
                upto = int(min(position, tick))
                self.slack += len(self.checks.matching(self.filter, stream, int(lowest), upto))
        if position >= tick:
            return
        passed = self.checks.matching(self.filter, stream, int(position), tick)
        if len(passed) > self.missed:
            self.checks.fail(f"{what}, but has not heard {passed} since {position}")
        self.missed -= len(passed)


def lengths(simulation: Simulation) -> Cursor:
    """How long all streams are."""
    return {name: len(store.log) for name, store in simulation.stores.items()}
