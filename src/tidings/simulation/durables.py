"""Durable subscriptions as their owners keep them, checked against what brokers have saved.

One broker knows by a name who has a durable subscription, its filter and what was acknowledged;
which one that is changes when it is taken at another. Whoever takes it goes on from there, after
any crash of the brokers, of its client or of all.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tidings.delivery.names import Saved
from tidings.events import Filter
from tidings.protocol.cursors import merged
from tidings.protocol.requests import Cursor, Subscribe
from tidings.simulation.courses import Course, Start

if TYPE_CHECKING:
    from tidings.simulation.guarantees import Guarantees
    from tidings.simulation.simulation import Simulation


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
    name: str
    tenures: dict[str, Tenure]
    """By owner, those that the broker may know; under no name, that it knows none."""
    latest: Tenure
    places: set[str] = field(default_factory=set)
    """The nodes where it was ever let in."""
    is_wild: bool = False
    """It has begun in several places, or in a store that went back: nothing is expected of it."""
    _pending: list[tuple[Course, Cursor]] = field(default_factory=list)
    _remembered: dict[str, Durable] = field(default_factory=dict)

    @classmethod
    def made(cls, checks: Guarantees, name: str, filter: Filter) -> Durable:
        """One that no broker knows yet."""
        unknown = Tenure(filter)
        return cls(checks, name, {"": unknown}, unknown)

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
        self.latest.sent = merged(self.latest.sent, cursor)
        self._pending.append((course, cursor))

    def confirm(self, course: Course) -> None:
        """The broker has answered the oldest that it has not."""
        for number, (whose, cursor) in enumerate(self._pending):
            if whose is course:
                del self._pending[number]
                self.latest.confirmed = merged(self.latest.confirmed, cursor)
                return

    def taken(self, course: Course, simulation: Simulation, body: Subscribe) -> None:
        """The broker is about to be asked for it by somebody, or by its owner again."""
        self._pending.clear()
        node = simulation.nodes.get(course.at)
        if node is None:
            return
        saved = node.from_log.subscriptions.saved.get(self.name)
        course.is_over = body.heard is not None and (saved is None or saved.owner != body.owner)
        if body.heard is not None:
            return
        course.is_unlike = (  # anew each time: what made it so may be lost in a crash
            saved is not None and saved.filter != body.filter and not body.replace
        )
        if not self.checks.is_watching or self.checks.is_damaged or self.is_wild:
            if not course.is_unlike:  # all else is anybody's guess
                self._take(course, saved, body)
            return
        before = self.tenures.get("" if saved is None else saved.owner)
        if before is None:
            self.checks.fail(f"{course.at} says that {saved} has {self.name}")
            before = Tenure(body.filter, course.start)
        if saved is None:
            now = Tenure(body.filter, course.start)
            course.position = dict(course.start.exact)
        else:
            self._check_saved(course.at, before, saved.cursor)
            if course.is_unlike:
                return
            now = self._after(before, course, saved.cursor, body)
        now.course = course
        assert now.start is not None
        course.start = now.start
        known = {o: self.tenures[o] for o in self._owners(simulation) if o in self.tenures}
        self.tenures = {**known, "" if saved is None else saved.owner: before, body.owner: now}
        self.latest = now

    def _take(self, course: Course, saved: Saved | None, body: Subscribe) -> None:
        """Somebody has it now, whoever had it before, and nothing is known of what was kept."""
        course.position, start = _position(saved.cursor if saved else {}, body), self.latest.start
        if saved is not None and (body.since is None or isinstance(body.since, dict)):
            if self.is_wild:  # there are several, and this is not the one that was taken last
                course.start = Start(saved.begun, {}, exact=dict(course.position))
            elif start is not None:
                course.start = replace(start, exact=dict(course.position))
        self.latest = Tenure(body.filter, course.start, course, is_cut=True)

    def _owners(self, simulation: Simulation) -> list[str]:
        """Who may have it after a crash, which leaves nothing of what is yet to be committed."""
        owners, is_unknown = [], True
        for at in simulation.stores:
            had = simulation.versions(at, f"durable:{self.name}")
            gone = simulation.versions(at, f"gone:{self.name}")
            owners += [str(stored[2]) for stored in had if stored is not None]
            owners += [str(stored[5]) for stored in gone if stored is not None]
            is_forgotten = any(stored is None or not stored[0] for stored in gone)
            is_unknown = is_unknown and None in had and is_forgotten
        return [*owners, ""] if is_unknown else owners

    def _after(self, before: Tenure, course: Course, cursor: Cursor, body: Subscribe) -> Tenure:
        """How it goes on, or begins anew."""
        assert before.start is not None
        course.position = _position(cursor, body)
        if body.since is not None and not isinstance(body.since, dict):
            return Tenure(body.filter, course.start)
        if body.since is not None or body.filter != before.filter:
            return Tenure(body.filter, replace(before.start, exact=dict(course.position)))
        kept = {s: [t for t in ticks if t <= cursor.get(s, -1)] for s, ticks in before.kept.items()}
        sent, confirmed = dict(before.sent), dict(before.confirmed)
        return replace(before, kept=kept, sent=sent, confirmed=confirmed)

    def refused(self, course: Course, reason: str, home: str) -> None:
        """A broker refuses it."""
        if "may live at" in reason and home == "here":
            self.checks.fail(f"{course.name} was to begin here: {reason}")

    def forgotten(self, course: Course) -> None:
        """The broker is about to be told to forget it, by somebody who has it or had it once."""
        if self.is_had_by(course):
            self.tenures[""] = Tenure(self.latest.filter)

    def gone(self, course: Course) -> None:
        """The broker says that it has forgotten it: no crash brings it back."""
        if self.is_had_by(course) and not self.checks.is_damaged:
            self.latest = Tenure(course.filter)
            self.tenures = {"": self.latest}

    def _check_saved(self, at: str, tenure: Tenure, saved: Cursor) -> None:
        """What the broker has saved was acknowledged, or is where it began."""
        assert tenure.start is not None
        for stream, tick in saved.items():
            highest = self.checks.truth.bounds(tenure.start, stream)[1]
            if tick > max(tenure.sent.get(stream, 0), highest):
                self.checks.fail(
                    f"{at} has saved {stream}:{tick} for {self.name}, which has "
                    f"acknowledged {tenure.sent} only"
                )
        for stream, tick in tenure.confirmed.items():
            if saved.get(stream, 0) < tick:
                self.checks.fail(f"{at} has forgotten {stream}:{tick} of {self.name}")

    def check(self) -> None:
        """At rest: all that was kept in all lives of its owners is exactly what it wants."""
        tenure = self.latest
        if tenure.start is None or tenure.is_cut or self.is_wild:
            return
        for stream in self.checks.truth.streams:
            lowest, highest = self.checks.truth.bounds(tenure.start, stream)
            end = self.checks.truth.end(stream)
            gone = self.checks.logs.may_be_gone
            kept = [t for t in tenure.kept.get(stream, []) if t <= end and not gone(stream, t)]
            right = self.checks.truth.matching(tenure.filter, stream, int(lowest))
            needed = [t for t in right if t > highest]
            if kept != right[len(right) - len(kept) :] or len(kept) < len(needed):
                self.checks.fail(f"{self.name} has kept {kept} of {stream}, but wants {right}")


def _position(saved: Cursor, body: Subscribe) -> Cursor:
    """Where it goes on; a cursor that is asked for lacks what is to stay as it was."""
    if isinstance(body.since, dict):
        return {**saved, **body.since}
    return dict(saved) if body.since is None else {}
