"""Guarantees: what must hold for publishers and subscribers of nodes with a log, whatever breaks.

- What was accepted is in the log, once, in the order of its publisher, after any crash.
- A subscription hears of every stream exactly what matches, from where it began, in order: see
  `courses`. What a client did not read is counted; what it acknowledged it is not told again, and
  what it did not, it is.
- Progress passes over nothing, and a cursor given back continues where it was.
- At rest nothing is being fetched, nobody waits, all who read are told that they are live, and
  whoever watches knows whether somebody is interested.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from math import inf
from typing import NoReturn

from tidings.events import Filter
from tidings.node import Accepted, Deliver, Event, Refused, Reply
from tidings.simulation.courses import Durable, Start
from tidings.simulation.properties import Violation
from tidings.simulation.simulation import Simulation
from tidings.simulation.subscribers import Subscriber

_PERFECT = ("simple", "identity", "covering", "merging")


class Guarantees:
    """The checks of one simulation; `Violation` says what does not hold."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.is_trimmed = False
        """Logs have been trimmed: how much a live subscription has missed is not known exactly."""
        self._durables: dict[tuple[str, str], Durable] = {}
        self._accepted: dict[tuple[str, str], int] = {}
        self._refused: dict[str, set[int]] = {}

    @property
    def streams(self) -> Iterable[str]:
        return self.simulation.topology.nodes

    def fail(self, what: str) -> NoReturn:
        """It does not hold."""
        raise Violation(f"at {self.simulation.now:.3f} s: {what}")

    # -- publishing ----------------------------------------------------------------------------

    def sent(self, at: str, session: str, effect: Deliver | Reply) -> None:
        """A broker tells a client something; whether that arrives or not, it must be true."""
        if isinstance(effect, Deliver):
            self.passed(effect.event)
            return
        match effect.answer:
            case Accepted(id="publish" | "attach", number=number):
                known = self._accepted.get((at, session), 0)
                self._accepted[at, session] = max(number, known)
                self._check_log(at, session)
            case Refused(id=id) if id.isdigit():
                self._refused.setdefault(session, set()).add(int(id))

    def passed(self, event: Event) -> None:
        """A broker lets somebody know of an event: it is kept by then."""
        if event.tick > len(self.simulation.stores[event.stream].log):
            self.fail(f"{event.stream}:{event.tick} gets about, but is not in the log")

    def _check_log(self, at: str, session: str) -> None:
        numbers = [
            event.notification["n"]
            for event in self.simulation.stores[at].log
            if event.notification["by"] == session
        ]
        if any(a >= b for a, b in pairwise(numbers)):
            self.fail(f"{at} has logged {numbers} of {session}, in this order")
        needed = set(range(1, self._accepted[at, session] + 1)) - self._refused.get(session, set())
        if not needed <= set(numbers):
            self.fail(f"{at} has accepted {sorted(needed)} of {session}, and logged {numbers}")

    # -- what courses ask ----------------------------------------------------------------------

    def durable(self, at: str, name: str, filter: Filter) -> Durable:
        """The durable subscription of this name, as it was first made."""
        return self._durables.setdefault((at, name), Durable(self, at, name, filter))

    def is_known(self, at: str, name: str) -> bool:
        """Whether somebody has made it."""
        return (at, name) in self._durables

    def forget(self, durable: Durable) -> None:
        """It was made to be no more."""
        self._durables.pop((durable.at, durable.name), None)

    def bounds(self, start: Start, stream: str) -> tuple[float, float]:
        """A subscription may begin behind the first tick, and must behind the second."""
        store = self.simulation.stores[stream]
        if start.lowest is None:
            lowest = highest = float(sum(e.time < start.time for e in store.log))
        else:
            lowest = start.lowest[stream]
            highest = inf if start.highest is None else start.highest[stream]
        return lowest, max(highest, store.first - 1)

    def matching(
        self, filter: Filter, stream: str, since: int, upto: int | None = None
    ) -> list[int]:
        """The truth: the ticks of a stream that a filter matches."""
        log = self.simulation.stores[stream].log[max(since, 0) : upto]
        return [e.tick for e in log if filter.matches(e.notification)]

    # -- at rest -------------------------------------------------------------------------------

    def check(self, subscribers: Iterable[Subscriber]) -> None:
        """Everybody has heard everything, and nothing is under way."""
        subscribers = [s for s in subscribers if s.is_alive]
        for at, session in self._accepted:
            self._check_log(at, session)
        for subscriber in subscribers:
            if subscriber.outbox or not subscriber.is_connected:
                self.fail(f"{subscriber.session} has not published {sorted(subscriber.outbox)}")
            for reading in subscriber.readings.values():
                if not reading.is_accepted or not reading.is_live:
                    self.fail(f"{reading.course.name} is not live at rest")
                reading.course.check()
                if reading.durable is not None:
                    reading.durable.check()
        self._check_rest()
        for subscriber in subscribers:
            for filter_, is_wanted in subscriber.watches.values():
                self._check_watch(subscriber, filter_, is_wanted, subscribers)

    def _check_rest(self) -> None:
        for name, node in self.simulation.nodes.items():
            deliveries = node.deliveries
            assert deliveries is not None
            if deliveries.ways.streams != set(self.streams):
                self.fail(f"{name} knows the ways of {set(deliveries.ways.streams)} only")
            flows = deliveries.flows.values()
            if deliveries._asked or deliveries.archive.reads or deliveries._starting:
                self.fail(f"{name} is still fetching at rest")
            if any(f.fetch or f.probe or f.waiting or f.probing for f in flows):
                self.fail(f"somebody at {name} waits for a flow at rest")
            for reader in deliveries.readers:
                for flow in flows:
                    if flow.stream not in reader.follows or not flow.is_live:
                        self.fail(f"{reader.session} does not follow {flow.stream} at rest")

    def _check_watch(
        self,
        watcher: Subscriber,
        filter: Filter,
        is_wanted: bool | None,
        subscribers: Iterable[Subscriber],
    ) -> None:
        node = self.simulation.nodes[watcher.at]
        held = node.subscriptions.wanted.values()
        if is_wanted is not any(f.overlaps(filter) for table in held for f in table):
            self.fail(f"{watcher.session} is told that {filter} is wanted: {is_wanted}")
        settings, topology = self.simulation.settings, self.simulation.topology
        if settings.advertisements is None and not topology.parents:
            right = any(
                r.course.filter.overlaps(filter) for s in subscribers for r in s.readings.values()
            )
            perfect = settings.subscriptions in _PERFECT
            if (right and not is_wanted) or (perfect and right is not is_wanted):
                self.fail(f"{watcher.session} is told that {filter} is wanted: {is_wanted}")
