"""Guarantees: what must hold for publishers and subscribers of nodes with a log, whatever breaks.

- What was accepted is in the log, once, in the order of its publisher, after any crash.
- A subscription hears of every stream exactly what matches, from where it began, in order: see
  `courses`. What a client did not read is counted exactly; what it acknowledged it is not told
  again, and what it did not, it is.
- Progress passes over nothing, and a cursor given back continues where it was.
- A stream that went back has lost its end, and whoever was beyond is told; all others hear what is
  left of it, and all of the one that comes after. No tick ever has two contents.
- A durable subscription lives at one node, as far as nodes could ask each other.
- At rest nothing is being fetched, nobody waits, all who read are told that they are live, and
  whoever watches knows whether somebody is interested.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from math import inf
from typing import NoReturn

from tidings.events import Filter
from tidings.protocol import Accepted, Deliver, Event, Reply, Subscribe
from tidings.protocol.epochs import broker_of, epoch_of
from tidings.simulation.courses import Durable, Start
from tidings.simulation.properties import Violation
from tidings.simulation.simulation import Simulation
from tidings.simulation.subscribers import Subscriber

_PERFECT = ("simple", "identity", "covering", "merging")


class Guarantees:
    """The checks of one simulation; `Violation` says what does not hold."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self._durables: dict[tuple[str, str], Durable] = {}
        self._said: dict[tuple[str, str], set[int]] = {}
        self._accepted: dict[tuple[str, str], int] = {}
        self._refused: dict[str, set[int]] = {}
        self._made: dict[tuple[str, str], tuple[float, set[str]]] = {}
        """By node and name: when it was made there, and which others could not be asked then."""
        self._older: set[str] = set()
        """Nodes whose stores went back."""

    @property
    def streams(self) -> Iterable[str]:
        return self.simulation.streams

    def fail(self, what: str) -> NoReturn:
        """It does not hold."""
        raise Violation(f"at {self.simulation.now:.3f} s: {what}")

    # -- publishing ----------------------------------------------------------------------------

    def said(self, at: str, instance: str, numbers: Iterable[int]) -> None:
        """A process publishes something under these numbers."""
        self._said.setdefault((at, instance), set()).update(numbers)

    def sent(self, at: str, instance: str, effect: Deliver | Reply) -> None:
        """A broker tells a client something; whether that arrives or not, it must be true."""
        if isinstance(effect, Deliver):
            self.passed(effect.event)
            return
        match effect.answer:
            case Accepted(id="publish" | "attach", number=number):
                known = self._accepted.get((at, instance), 0)
                self._accepted[at, instance] = max(number, known)
                self._check_log(at, instance)

    def refused(self, instance: str, number: int) -> None:
        """A broker decides to refuse a publication.

        Its host keeps that together with whatever is kept behind it, and says so to whoever comes
        back: see `broker.refusals`.
        """
        self._refused.setdefault(instance, set()).add(number)

    def passed(self, event: Event) -> None:
        """A broker lets somebody know of an event: it is kept by then."""
        if not self.is_true(event):
            self.fail(f"{event.stream}:{event.tick} gets about, but is not in the log")

    def is_true(self, event: Event) -> bool:
        """Whether it is what was kept under its tick, though that may be lost by now."""
        ever = self.simulation.stores[broker_of(event.stream)].ever.get(event.stream, [])
        return event.tick <= len(ever) and ever[event.tick - 1] == event

    def _check_log(self, at: str, instance: str) -> None:
        """What a process has published up to an accepted number is in the log, and is its own."""
        numbers = [
            event.notification["n"]
            for log in self.simulation.stores[at].ever.values()
            for event in log
            if event.notification["by"] == instance
        ]
        if any(a >= b for a, b in pairwise(numbers)):
            self.fail(f"{at} has logged {numbers} of {instance}, in this order")
        accepted, said = self._accepted[at, instance], self._said.get((at, instance), set())
        needed = {n for n in said if n <= accepted} - self._refused.get(instance, set())
        if not needed <= set(numbers):
            self.fail(f"{at} has accepted {sorted(needed)} of {instance}, and logged {numbers}")

    # -- what courses ask ----------------------------------------------------------------------

    def admitted(self, at: str, body: Subscribe) -> None:
        """A node is about to let a subscription in."""
        delivery = self.simulation.nodes[at].from_log
        name = body.durable
        if name is not None and name not in delivery.subscriptions.saved:
            ways = () if body.home == "here" else delivery.reached.ways.streams
            unasked = self.simulation.stores.keys() - {broker_of(stream) for stream in ways}
            self._made[at, name] = self.simulation.now, unasked
            self._check_homes(name, {at})

    def _check_homes(self, name: str, holders: set[str]) -> None:
        """A durable subscription lives at one node, as far as they could ask each other.

        A node that went back may know one that was forgotten there, and made elsewhere.
        """
        stores = self.simulation.stores.items()
        holders = holders | {node for node, s in stores if f"durable:{name}" in s.content}
        holders -= self._older
        for one in holders:
            for other in holders - {one}:
                if other not in self._unasked(one, name) and one not in self._unasked(other, name):
                    self.fail(f"{name} lives at {one} and at {other}")

    def _unasked(self, at: str, name: str) -> set[str]:
        return self._made[at, name][1]

    def has_made(self, at: str, name: str) -> bool:
        """Whether a durable subscription lives at a node, and has for a moment."""
        is_there = name in self.simulation.nodes[at].from_log.subscriptions.saved
        return is_there and self._made[at, name][0] < self.simulation.now

    def durable(self, at: str, name: str, filter: Filter) -> Durable:
        """The durable subscription of this name; the filter is for one that is new."""
        if (at, name) not in self._durables:
            self._durables[at, name] = Durable.made(self, at, name, filter)
        return self._durables[at, name]

    def went_back(self, at: str) -> None:
        """What a broker knew of durable subscriptions is older now: nothing is expected of them."""
        self._older.add(at)
        for key in [key for key in self._durables if key[0] == at]:
            del self._durables[key]

    def is_known(self, at: str, name: str) -> bool:
        """Whether somebody has made it."""
        return (at, name) in self._durables

    def bounds(self, start: Start, stream: str) -> tuple[float, float]:
        """A subscription may begin behind the first tick, and must behind the second."""
        if stream in start.exact:
            lowest = highest = float(start.exact[stream])
        else:
            lowest = start.lowest.get(stream, 0)
            if not start.is_now:  # a clock that is behind may say for a while that it is earlier
                highest = sum(e.time < start.time for e in self._known(stream))
            elif start.highest is None or broker_of(stream) in start.unheard:
                highest = inf
            else:
                highest = start.highest.get(stream, 0)
        if epoch_of(stream) > 1:  # whoever has read the one before may hear all of it
            lowest = 0.0
        return lowest, max(highest, self.first(stream) - 1)

    def _known(self, stream: str) -> list[Event]:
        """All that ever was kept of a stream, and what its broker is about to keep."""
        broker = broker_of(stream)
        commits = self.simulation.commits.get(broker)
        pending = [] if commits is None else commits.events(stream)
        return self.simulation.stores[broker].ever[stream] + pending

    def lost(self, filter: Filter) -> int:
        """Matching events of streams that have lost their end since."""
        stores = self.simulation.stores.values()
        ends = [each.ever[s][len(log) :] for each in stores for s, log in each.logs.items()]
        return sum(filter.matches(event.notification) for end in ends for event in end)

    def first(self, stream: str) -> int:
        """The first tick of a stream that is kept."""
        return self.simulation.stores[broker_of(stream)].firsts[stream]

    def can_be_read(self, stream: str, tick: int) -> bool:
        """Whether an event is kept, and sound."""
        return self.simulation.stores[broker_of(stream)].has(stream, tick)

    def matching(
        self, filter: Filter, stream: str, since: int, upto: int | None = None
    ) -> list[int]:
        """The truth: the ticks of a stream that a filter matches."""
        log = self.simulation.log(stream)[max(since, 0) : upto]
        return [e.tick for e in log if filter.matches(e.notification)]

    # -- at rest -------------------------------------------------------------------------------

    def check(self, subscribers: Iterable[Subscriber]) -> None:
        """Everybody has heard everything, and nothing is under way."""
        subscribers = [s for s in subscribers if s.is_alive]
        for at, instance in self._accepted:
            self._check_log(at, instance)
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
        for name in {name for _, name in self._made}:
            self._check_homes(name, set())
        for subscriber in subscribers:
            for filter_, is_wanted in subscriber.watches.values():
                self._check_watch(subscriber, filter_, is_wanted, subscribers)

    def _check_rest(self) -> None:
        for name, node in self.simulation.nodes.items():
            delivery = node.from_log
            ways, reading = delivery.reached.ways, delivery.reading
            if ways.streams != set(self.streams):
                self.fail(f"{name} knows the ways of {set(ways.streams)} only")
            flows = reading.flows.values()
            if delivery.subscriptions.homes._searches:
                self.fail(f"{name} still looks for durable names at rest")
            if len(delivery.fetching) or delivery.logs.reads or reading.telling.starting:
                self.fail(f"{name} is still fetching at rest")
            if any(f.fetch or f.probe or f.waiting or f.probing for f in flows):
                self.fail(f"somebody at {name} waits for a flow at rest")
            for reader in reading.readers:
                for flow in flows:
                    if not reader.follows(flow.stream) or not flow.is_live:
                        self.fail(f"{reader.session} does not follow {flow.stream} at rest")

    def _check_watch(
        self,
        watcher: Subscriber,
        filter: Filter,
        is_wanted: bool | None,
        subscribers: Iterable[Subscriber],
    ) -> None:
        node = self.simulation.nodes[watcher.at]
        held = node.exchange.subscriptions.wanted.values()
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
