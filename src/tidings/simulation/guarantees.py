"""Guarantees: what must hold for publishers and subscribers, and between brokers, whatever breaks.

- What was accepted is in the log, once, in the order of its publisher, after any crash. What was
  refused, or not advertised where it must be, is not, and its publisher knows which is which.
- A subscription hears of every stream exactly what matches, from where it began, in order: see
  `courses`. What a client did not read is counted exactly; what it acknowledged it is not told
  again, and what it did not, it is.
- Progress passes over nothing, and a cursor given back continues where it was. Below a time to
  which a stream was said to be complete, nothing more of it is heard.
- A stream that went back has lost its end, and whoever was beyond is told; all others hear what is
  left of it, and all of the one that comes after. No tick ever has two contents.
- A durable subscription lives at one node, as far as nodes could ask each other.
- Brokers hold of each other exactly what they are to hold: see `agreement`.
- At rest nothing is being fetched, nobody waits, all who read are told that they are live, and
  whoever watches knows whether somebody is interested.

Where events are delivered at most once, less is promised: nobody hears anything twice, out of
order, made up, or that it does not want or its publisher had to advertise first; and whoever wants
an event when nothing is under way hears it, as long as no broker and no link has failed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from tidings.events import Filter, Notification, TidingsError
from tidings.node import Node
from tidings.protocol.epochs import broker_of
from tidings.protocol.host import Deliver, Input, Reply
from tidings.protocol.messages import Event
from tidings.protocol.requests import Accepted, Publish, Since, Subscribe
from tidings.simulation.agreement import Agreement
from tidings.simulation.courses import Start
from tidings.simulation.durables import Durable
from tidings.simulation.truth import Logs, Said, Truth

if TYPE_CHECKING:
    from tidings.simulation.clients import Client, Reading
    from tidings.simulation.simulation import Simulation


class Violation(TidingsError):  # noqa: N818 - it is the run that is wrong, not a call
    """Something that must never happen has happened."""


PERFECT: Final = ("simple", "identity", "covering", "merging", "imperfect:1")
"""The strategies after which a table admits nothing that nobody wants."""


class Guarantees:
    """The checks of one simulation; `Violation` says what does not hold.

    Nothing is checked until somebody says so: clients tell it everything all the same.
    """

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.is_watching = self.is_thorough = False
        """Whether anything is checked; and whether tables are, at every step."""
        self.is_damaged = False
        """Nodes have been damaged: until they are repaired, they may do anything."""
        self.agreement = Agreement(simulation, self.fail)
        self.logs, self._said = Logs(simulation), Said()
        at_most_once = simulation.settings.at_most_once
        self.truth: Truth = self._said if at_most_once else self.logs
        self._is_steady = True
        """Nothing has failed since the network was at rest: nothing may be lost."""
        self._durables: dict[str, Durable] = {}
        self._numbers: dict[tuple[str, str], dict[int, Notification]] = {}
        """By node and process: all that it has published there."""
        self._authors: dict[int, tuple[str, int]] = {}
        """By the identity of a notification: the process that has published it, and its number."""
        self._accepted: dict[tuple[str, str], int] = {}
        """By node and process: up to which number that was told that all is kept."""
        self._refused: dict[str, set[int]] = {}
        """By process: what a broker has decided to refuse, and may keep when it comes again."""
        self._declined: dict[tuple[str, str], set[int]] = {}
        """By node and process: what that was told is refused."""
        self._offered: dict[tuple[str, str], set[int]] = {}
        """By node and process: what came when it had advertised it."""
        self._older: set[str] = set()
        """Nodes whose stores went back, or that were damaged."""

    def watch(self, *, thorough: bool = True) -> None:
        """Check everything from now on, or all but the tables, which are compared at rest."""
        self.is_watching, self.is_thorough = True, thorough
        for node in self.simulation.nodes.values():
            self.started(node)

    def started(self, node: Node) -> None:
        if self.is_thorough:
            self.agreement.listen(node)

    def fail(self, what: str) -> None:
        """It does not hold; if nodes are damaged, it need not."""
        if not self.is_damaged:
            raise Violation(f"at {self.simulation.now:.3f} s: {what}")

    def stepped(self, name: str, input: Input | None = None) -> None:
        """A node has dealt with an input; without one, it is looked at in any case."""
        is_watching = self.is_thorough and not self.is_damaged
        if not is_watching or not self.agreement.is_touched_by(input):
            return
        node = self.simulation.nodes.get(name)
        if node is not None:
            self.agreement.note(node)
            self.agreement.check(node)

    def completed(self, reading: Reading, complete: Mapping[str, float]) -> None:
        """A client is told below which times streams are complete."""
        for stream, time in complete.items():
            if time < reading.complete.get(stream, 0.0):
                self._fail_of(stream, f"{reading.course.name} is told less of {stream} than before")
            reading.complete[stream] = max(time, reading.complete.get(stream, 0.0))

    def in_time(self, reading: Reading, event: Event) -> None:
        """A client hears an event."""
        below = reading.complete.get(event.stream, 0.0)
        if event.time < below:
            place = f"{event.stream}:{event.tick} of time {event.time}"
            what = f"{place}, though the stream was complete below {below}"
            self._fail_of(event.stream, f"{reading.course.name} hears {what}")

    def _fail_of(self, stream: str, what: str) -> None:
        """It does not hold of a stream, unless that went back without a trace."""
        if broker_of(stream) not in self._older:
            self.fail(what)

    # -- what goes wrong -----------------------------------------------------------------------

    def unsettled(self) -> None:
        """A broker or a link is about to fail."""
        self._is_steady = False
        self._said.forgive()

    def damaged(self) -> None:
        """A node is about to be damaged."""
        self.unsettled()
        self.is_damaged = True

    def repaired(self) -> None:
        """All faults are over, and the network is at rest: from now on all is well again."""
        if self.is_damaged:
            self.is_damaged = False
            self._start_anew()
        self._is_steady = True

    def _start_anew(self) -> None:
        self.agreement.forget()
        for node in self.simulation.nodes.values():
            for tables in (node.exchange.subscriptions, node.exchange.advertisements):
                if tables is not None:
                    tables.repairs = 0
        for client in self.simulation.clients.values():
            if self.truth is self._said:
                client.last = self._said.lengths()
            for reading in client.readings.values():
                reading.course.excuse()
                reading.complete.clear()
        for durable in self._durables.values():
            durable.is_wild = True
        for known in (self._numbers, self._authors, self._accepted, self._refused, self._declined):
            known.clear()
        self._older.update(self.simulation.stores)

    def went_back(self, at: str) -> None:
        """What a broker knew of durable subscriptions is older now: nothing is expected of them."""
        self._older.add(at)
        for durable in self._durables.values():
            if at in durable.places or self._known(at, durable.name)[0]:
                durable.is_wild = True

    def is_older(self, at: str) -> bool:
        """Whether a broker may have forgotten who has published there."""
        return at in self._older

    # -- publishing ----------------------------------------------------------------------------

    def said(self, at: str, instance: str, numbered: dict[int, Notification]) -> None:
        """A process publishes something under these numbers."""
        self._numbers.setdefault((at, instance), {}).update(numbered)
        self._authors |= {id(each): (instance, number) for number, each in numbered.items()}

    def came(self, at: str, instance: str, body: Publish, ads: Iterable[Filter]) -> None:
        """Publications come to a broker that keeps them; by now these are advertised."""
        offered = self._offered.setdefault((at, instance), set())
        for number, notification in enumerate(body.notifications, body.number):
            if any(ad.matches(notification) for ad in ads):
                offered.add(number)

    def published(self, client: Client, body: Publish) -> None:
        """A client hands events to its broker, where they are delivered at most once."""
        if not self.is_watching:
            return
        is_free = not self._must_advertise
        is_at_rest = self._is_steady and self._has_tree() and self.simulation.is_settled
        for tick, notification in enumerate(body.notifications, body.number):
            ads = client.advertisements.values()
            may = is_free or any(ad.matches(notification) for ad in ads)
            self._said.add(client.session, tick, notification, may=may)
        if is_at_rest:
            ticks = range(body.number, body.number + len(body.notifications))
            self._said.must_be_heard(client.session, ticks)

    @property
    def _must_advertise(self) -> bool:
        """Whether what was not advertised is refused."""
        settings = self.simulation.settings
        return settings.advertisements is not None and settings.enforce

    def _has_tree(self) -> bool:
        """Whether the first tree is agreed on by now."""
        settings = self.simulation.settings
        return not settings.tree or self.simulation.now >= settings.silence + 7 * settings.beat

    def sent(self, at: str, instance: str, effect: Deliver | Reply) -> None:
        """A broker tells a client something; whether that arrives or not, it must be true."""
        if not self.is_watching:
            return
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
        back: see `delivery.refusals`.
        """
        self._refused.setdefault(instance, set()).add(number)

    def believed(self, at: str, instance: str, numbers: Iterable[int]) -> None:
        """A process takes these publications for kept."""
        refused = self._refused.get(instance, set()).intersection(numbers)
        if self.is_watching and refused and not refused <= set(self._logged(at, instance)):
            self.fail(f"{instance} takes {sorted(refused)} for kept, which {at} has refused")

    def declined(self, at: str, instance: str, number: int) -> None:
        """A process is told that a publication is refused: it is not kept, and never will be."""
        if self.is_watching:
            self._declined.setdefault((at, instance), set()).add(number)
            self._check_log(at, instance)

    def passed(self, event: Event) -> None:
        """A broker lets somebody know of an event: it is kept by then."""
        if self.is_watching and not self.truth.is_true(event):
            self.fail(f"{event.stream}:{event.tick} gets about, but is not in the log")

    def _check_log(self, at: str, instance: str) -> None:
        """What a process has published up to an accepted number is in the log, and is its own."""
        numbers, whose = self._logged(at, instance), (at, instance)
        if any(a >= b for a, b in pairwise(numbers)):
            self.fail(f"{at} has logged {numbers} of {instance}, in this order")
        if declined := self._declined.get(whose, set()).intersection(numbers):
            self.fail(f"{at} has logged {sorted(declined)} of {instance}, and told it otherwise")
        unoffered = set(numbers) - self._offered.get(whose, set())
        if self._must_advertise and unoffered:
            self.fail(f"{at} has logged {sorted(unoffered)} of {instance}, not advertised")
        accepted, said = self._accepted.get(whose, 0), self._numbers.get(whose, {})
        needed = {n for n in said if n <= accepted} - self._refused.get(instance, set())
        if not needed <= set(numbers):
            self.fail(f"{at} has accepted {sorted(needed)} of {instance}, and logged {numbers}")

    def _logged(self, at: str, instance: str) -> list[int]:
        """The numbers of a process that a broker has kept, in the order of its log."""
        logs = self.simulation.stores[at].ever.values()
        authors = [self._authors.get(id(event.notification)) for log in logs for event in log]
        return [each[1] for each in authors if each is not None and each[0] == instance]

    # -- hearing -------------------------------------------------------------------------------

    def begin(self, at: str, since: Since = None) -> Start:
        """Where a subscription begins that is asked for at this moment."""
        time, exact = self.simulation.time(at), dict(since) if isinstance(since, dict) else {}
        if not self.is_watching:
            return Start(time, {}, is_now=since is None, exact=exact)
        if self.truth is self._said:
            return Start(time, {}, is_now=True, highest=self._said.lengths())
        if since is None:
            return Start.now(self.simulation, self.logs, at)
        time = since if isinstance(since, float) else 0.0
        return Start(time, self.logs.before(time), exact=exact)

    def heard(self, client: Client, event: Event) -> None:
        """A client is told of an event that is delivered at most once."""
        if not self.is_watching:
            return
        what = f"{client.session} is told of {event.stream}:{event.tick}"
        if not self.truth.is_true(event):
            self.fail(f"{what}, which was not published, or had to be advertised first")
        if event.tick <= client.last.get(event.stream, 0):
            self.fail(f"{what} twice, or after a later one")
        courses = [reading.course for reading in client.readings.values()]
        wanting = [each for each in courses if each.filter.matches(event.notification)]
        if not wanting:
            self.fail(f"{what}, which it does not want")
        for course in wanting:
            course.heard(event)

    def gone(self, stream: str, since: int, upto: int) -> int:
        """How many ticks behind one, up to another, are no longer kept, as far as is known."""
        broker = broker_of(stream)
        first = self.simulation.stores[broker].firsts[stream]
        return max(0, (upto if broker in self._older else min(upto, first - 1)) - since)

    def doubted(self, client: Client) -> None:
        """A client is told that something may be wrong with what it has heard."""
        if self.is_watching:
            self.fail(f"{client.session} is told of a doubt, and nobody has damaged anything")

    # -- durable subscriptions -----------------------------------------------------------------

    def admitted(self, at: str, body: Subscribe) -> None:
        """A node is about to let a subscription in: nobody else has, or may have, its name."""
        durable = self._durables.get(body.durable or "")
        if durable is None:
            return
        durable.places.add(at)
        if durable.is_wild:
            return
        simulation, name = self.simulation, durable.name
        own = simulation.nodes[at].from_log
        knowing = {n: self._known(n, name) for n in simulation.stores}
        forgotten = max((epoch for epoch, is_there in knowing.values() if not is_there), default=0)
        later = {n for n, (epoch, is_there) in knowing.items() if is_there and epoch > forgotten}
        saved = own.subscriptions.saved.get(name)
        if saved is not None:  # who gave it keeps it under the same epoch
            later = {n for n in later if knowing[n][0] > saved.epoch}
            later |= self._having(name) - {at}
        if not later:
            return
        asked = {*own.reached.known, *own.reached.ways.streams, *simulation.nodes[at].neighbours}
        is_alone = body.home == "here" or any(knowing[n][0] >> 32 for n in later)
        if is_alone or not later - {at} <= set(map(broker_of, asked)):
            durable.is_wild = True
        elif self.is_watching:
            self.fail(f"{name} is let in at {at} ({saved}), and {later} know it: {knowing}")

    def _known(self, at: str, name: str) -> tuple[int, bool]:
        """The epoch of a durable name at a node, and whether it was not forgotten there."""
        node = self.simulation.nodes.get(at)
        if node is not None:
            names = node.from_log.subscriptions.names
            epoch = names.epoch(name)
            return epoch, epoch > 0 and bool(names.home(name))
        content = self.simulation.stores[at].content
        if saved := content.get(f"durable:{name}"):
            return int(saved[4]), True
        gone = content.get(f"gone:{name}") or ("", 0)
        return int(gone[1]), bool(gone[0])

    def _having(self, name: str) -> set[str]:
        """The nodes that have a durable name, or would if they were up."""
        nodes, stores = self.simulation.nodes, self.simulation.stores
        up = {n for n, node in nodes.items() if name in node.from_log.subscriptions.saved}
        return up | {n for n in stores.keys() - nodes if f"durable:{name}" in stores[n].content}

    def _check_homes(self, durable: Durable) -> None:
        """A durable subscription lives at one node."""
        homes = self._having(durable.name)
        if self.is_watching and not durable.is_wild and len(homes) > 1:
            self.fail(f"{durable.name} lives at {' and at '.join(sorted(homes))}")

    def durable(self, name: str, filter: Filter) -> Durable:
        """The durable subscription of this name; the filter is for one that is new."""
        if name not in self._durables:
            self._durables[name] = Durable.made(self, name, filter)
        return self._durables[name]

    def is_known(self, name: str) -> bool:
        """Whether somebody has made it."""
        return name in self._durables

    # -- at rest -------------------------------------------------------------------------------

    def check(self, clients: Iterable[Client]) -> None:
        """These clients have heard everything, and nothing is under way."""
        there = [client for client in clients if client.is_alive]
        for client in there:
            self._check_client(client)
        if not self.is_thorough:
            self.agreement.compare()
        if self.truth is self._said:
            return
        for at, instance in self._accepted:
            self._check_log(at, instance)
        self._check_nodes()
        for durable in self._durables.values():
            self._check_homes(durable)
        for client in there:
            for filter_, is_wanted in client.watches.values():
                self._check_watch(client, filter_, is_wanted, there)

    def _check_client(self, client: Client) -> None:
        if client.outbox or not client.is_connected:
            self.fail(f"{client.session} has not published {sorted(client.outbox)}")
        for reading in client.readings.values():
            if client.is_logged and not (reading.is_accepted and reading.is_live):
                self.fail(f"{reading.course.name} is not live at rest")
            reading.course.check()
            if reading.durable is not None:
                reading.durable.check()

    def _check_nodes(self) -> None:
        for name, node in self.simulation.nodes.items():
            delivery = node.from_log
            ways, reading = delivery.reached.ways, delivery.reading
            if ways.streams != set(self.truth.streams):
                self.fail(f"{name} knows the ways of {set(ways.streams)} only")
            flows = reading.flows.values()
            if delivery.subscriptions.homes._searches:
                self.fail(f"{name} still looks for durable names at rest")
            if delivery.erasing.is_busy:
                self.fail(f"{name} still erases at rest")
            if len(delivery.fetching) or delivery.logs.reads or reading.telling.starting:
                self.fail(f"{name} is still fetching at rest")
            if any(f.fetch or f.probe or f.waiting or f.probing for f in flows):
                self.fail(f"somebody at {name} waits for a flow at rest")
            for reader in reading.readers:
                for flow in flows:
                    if not reader.follows(flow.stream) or not flow.is_live:
                        self.fail(f"{reader.session} does not follow {flow.stream} at rest")

    def _check_watch(
        self, watcher: Client, filter: Filter, is_wanted: bool | None, clients: Iterable[Client]
    ) -> None:
        node = self.simulation.nodes[watcher.at]
        held = node.exchange.subscriptions.wanted.values()
        if is_wanted is not any(f.overlaps(filter) for table in held for f in table):
            self.fail(f"{watcher.session} is told that {filter} is wanted: {is_wanted}")
        settings, topology = self.simulation.settings, self.simulation.topology
        if settings.advertisements is None and not topology.parents:
            wanted = (f for client in clients for f in client.subscriptions.values())
            right = any(each.overlaps(filter) for each in wanted)
            perfect = settings.subscriptions in PERFECT[:-1]
            if (right and not is_wanted) or (perfect and right is not is_wanted):
                self.fail(f"{watcher.session} is told that {filter} is wanted: {is_wanted}")
