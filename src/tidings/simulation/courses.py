"""Courses: what a subscription was told, checked event by event against the streams themselves.

The slow and plain truth about a subscription is its filter, applied to every event of every stream
from where it began. A course knows up to where in each stream that has been told; whatever comes
next must be the next event that matches, and no progress may pass over one. While nodes are
damaged a course may be told anything; but then it must be told that this may be so.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tidings.events import Filter
from tidings.protocol.epochs import broker_of, comes_after
from tidings.protocol.messages import Event
from tidings.protocol.requests import Cursor, Missed

if TYPE_CHECKING:
    from tidings.simulation.durables import Durable
    from tidings.simulation.guarantees import Guarantees
    from tidings.simulation.simulation import Simulation
    from tidings.simulation.truth import Logs


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
    def now(cls, simulation: Simulation, logs: Logs, at: str) -> Start:
        """Asked for now."""
        time = simulation.time(at)
        lowest, node = logs.lengths(), simulation.nodes.get(at)
        stored = simulation.stores[at].content
        if node is not None:
            flows = node.from_log.reading.flows
            heard = {s: flow.upto for s, flow in flows.items() if flow.upto >= 0}
            known = dict(node.from_log.reached.known)
            lowest = logs.before(time - simulation.settings.margin)
            lowest |= {s: min(heard.get(s, t), known.get(s, t)) for s, t in (heard | known).items()}
        heard_of = frozenset(k.removeprefix("stream:") for k in stored if k.startswith("stream:"))
        return cls(time, lowest, is_now=True, known=heard_of)

    def again(self, later: Start) -> None:
        """It was not accepted, and is asked for again: its broker may know less than before."""
        self.lowest = {s: min(t, later.lowest.get(s, 0)) for s, t in self.lowest.items()}


class Course:
    """One subscription as it is told."""

    def __init__(
        self, checks: Guarantees, at: str, owner: str, filter: Filter, start: Start
    ) -> None:
        self.checks, self.at, self.owner = checks, at, owner
        self.filter, self.start = filter, start
        self.asked = start
        """Where it was to begin, whatever was known of it; a crash may make that unknown again."""
        self.begun = checks.simulation.now
        """When it was asked for."""
        self.position: Cursor = {}
        self.durable: Durable | None = None
        self.is_unlike = False
        """It is a durable one that hears something else, and must be refused."""
        self.is_over = False
        """It is a durable one that somebody else has taken or forgotten, and must be refused."""
        self.mistake = ""
        """What was not as it must be, while nodes were damaged."""
        self.is_doubted = False
        """It was told that something may be wrong with what it has heard."""

    @property
    def name(self) -> str:
        """Whose it is, and what it wants."""
        return f"{self.owner} with {self.filter}"

    def copy(self) -> Course:
        """One that begins where this is."""
        course = Course(self.checks, self.at, f"{self.owner}, again,", self.filter, self.start)
        course.position = dict(self.position)
        return course

    def accepted(self, cursor: Cursor) -> None:
        """From here on it hears everything.

        If the clocks differ by more than they may, the streams of a broker of which its own has
        never heard begin when they like. A damaged node may know streams for others than they are:
        then it begins where the node says.
        """
        if self.checks.is_damaged:
            self.position = {**cursor, **self.position}
        start, simulation = self.start, self.checks.simulation
        if not self.checks.is_watching or not start.is_now or start.highest is not None:
            return
        stores = simulation.stores
        start.highest = {s: len(ever) for each in stores.values() for s, ever in each.ever.items()}
        if simulation.skew > simulation.settings.margin:
            heard_of = {broker_of(s) for s in (self.at, *start.known, *cursor)}
            start.unheard = frozenset(stores.keys() - heard_of)

    def heard(self, event: Event) -> None:
        """The next that matches, and nothing else."""
        stream, tick = event.stream, event.tick
        if self.checks.is_watching:
            self._check_heard(event, f"{self.name} hears {stream}:{tick}")
        self.position[stream] = tick
        if self.durable is not None and self.durable.is_had_by(self):
            self.durable.latest.kept.setdefault(stream, []).append(tick)

    def _check_heard(self, event: Event, what: str) -> None:
        stream, tick = event.stream, event.tick
        if not self.checks.truth.is_true(event):
            self._fail(f"{what}, which is not in the log")
        if self.checks.logs.is_gone(event, self.begun):
            self._fail(f"{what}, which was erased before it began")
        if not self.filter.matches(event.notification):
            self._fail(f"{what}, which it does not want")
        position = self.position.get(stream)
        if position is not None and tick <= position:
            self._fail(f"{what}, but is at {position} already")
        if position is None and tick <= self.checks.truth.bounds(self.start, stream)[0]:
            self._fail(f"{what}, which was there before it began")
        self._pass(stream, tick - 1, what)
        if self.start.is_now:  # one from the past begins in all epochs at once
            self._check_earlier(stream, what)

    def _check_earlier(self, stream: str, what: str) -> None:
        """An epoch is read to its end before the next one."""
        for earlier in self.position.keys() & self.checks.truth.streams:
            if comes_after(stream, [earlier]):
                self._pass(earlier, self.checks.truth.end(earlier), what)

    def told(self, cursor: Cursor) -> None:
        """There was nothing more up to here."""
        for stream, tick in cursor.items():
            if self.checks.is_watching:
                if stream not in self.checks.truth.streams:
                    self._fail(f"{self.name} is told of {stream}, which is no stream")
                self._pass(stream, tick, f"{self.name} is told that it is at {stream}:{tick}")
            self.position[stream] = max(tick, self.position.get(stream, tick))

    def missed(self, said: Missed) -> None:
        """Exactly as many were not sent, or more of what is no longer kept or was lost."""
        self.is_doubted = self.is_doubted or self.checks.is_damaged
        if self.checks.is_watching:
            self._check_missed(said)
        for stream, tick in said.cursor.items():
            self.position[stream] = max(tick, self.position.get(stream, tick))

    def _check_missed(self, said: Missed) -> None:
        least, gone = 0, 0
        most = self.checks.logs.lost(self.filter) + self.checks.logs.erased_of(self.filter)
        for stream, tick in said.cursor.items():
            lowest, highest = self._behind(stream)
            gone += self.checks.gone(stream, self.position.get(stream, 0), tick)
            most += len(self._matching(stream, lowest, tick))
            least += len(self._matching(stream, highest, tick))
        if not (said.count <= most and least <= said.count + said.lost):
            self._fail(f"{self.name} has missed {least} to {most} events, and is told {said}")
        if said.lost > gone:
            self._fail(f"{self.name} is told {said}, and {gone} ticks are no longer kept")

    def skip(self, cursor: Cursor) -> None:
        """What lies before this, and was not told, is no longer kept or cannot be read; or what
        lies behind it is lost."""
        self.is_doubted = self.is_doubted or self.checks.is_damaged
        for stream, tick in cursor.items():
            end = self.checks.truth.end(stream)
            if self.position.get(stream, 0) > end >= tick:
                self.position[stream] = tick
            if self.checks.is_watching:
                self._check_skipped(stream, tick)
            self.position[stream] = max(tick, self.position.get(stream, tick))

    def _check_skipped(self, stream: str, tick: int) -> None:
        passed = self._matching(stream, self._behind(stream)[1], tick)
        there = [t for t in passed if self.checks.logs.can_be_read(stream, t)]
        if there:
            self._fail(f"{self.name} is to go on at {stream}:{tick}, behind {there}")
        if passed and self.durable is not None:
            self.durable.latest.is_cut = True

    def check(self) -> None:
        """At rest: nothing is missing."""
        for stream in self.checks.truth.streams:
            end = self.checks.truth.end(stream)
            if self.position.get(stream, 0) > end:
                self._fail(f"{self.name} is at {self.position} at rest: it was not told")
            self._pass(stream, end, f"{self.name} is at rest at {stream}:{end}")
            self.position[stream] = end

    def excuse(self) -> None:
        """What was wrong while nodes were damaged is forgiven if it was told, or not kept."""
        is_told = self.is_doubted or self.checks.simulation.settings.at_most_once
        if self.mistake and not is_told:
            self.checks.fail(f"{self.mistake}; and nobody has told it that this may be so")
        if is_told:
            self.position = self.checks.truth.lengths()
        self.mistake, self.is_doubted = "", False

    def _fail(self, what: str) -> None:
        if self.checks.is_damaged:
            self.mistake = self.mistake or what
        else:
            self.checks.fail(what)

    def _pass(self, stream: str, tick: int, what: str) -> None:
        """Nothing may be passed over."""
        position = self._behind(stream)[1]
        passed = self._matching(stream, position, tick)
        if passed:
            self._fail(f"{what}, but has not heard {passed} since {position}")

    def _behind(self, stream: str) -> tuple[float, float]:
        """Where it is: not before the first tick, and not behind the second."""
        if stream in self.position:
            return self.position[stream], self.position[stream]
        return self.checks.truth.bounds(self.start, stream)

    def _matching(self, stream: str, since: float, upto: int) -> list[int]:
        if since >= upto:
            return []
        return self.checks.truth.matching(self.filter, stream, int(since), upto)
