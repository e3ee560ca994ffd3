"""The simulation: nodes, links and clients in virtual time, all from one seed.

Everything that happens is an entry in one queue, ordered by time and then by when it was entered;
all chance comes from one generator. So a seed gives the same run, bit for bit. Brokers talk to
each other over links that can be slow, lossy, doubling, overtaking or cut. What nodes want done is
carried out in `Commits`; those that deliver at most once keep at once what they sync.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from heapq import heappop, heappush
from math import inf
from random import Random
from statistics import fmean
from typing import Any, Final

from tidings.delivery.erased import Eraser, is_erased
from tidings.delivery.subscriptions import Subscriptions
from tidings.events import TidingsError
from tidings.node import Node, Settings
from tidings.overlay import Role
from tidings.protocol.epochs import broker_of
from tidings.protocol.host import (
    Append,
    Connect,
    Damaged,
    Deliver,
    Disconnect,
    Effect,
    EraseLog,
    Input,
    LinkDown,
    LinkUp,
    LogErased,
    Read,
    Recall,
    Recalled,
    Received,
    Reply,
    Request,
    Send,
    Span,
    Store,
    Sync,
    Trimmed,
    Wake,
    Woken,
)
from tidings.protocol.messages import (
    Charge,
    Charged,
    EraseAt,
    ErasedAt,
    Event,
    Fetch,
    Fetched,
    Frame,
    Move,
    Moved,
    Offer,
    Seek,
    Sought,
    Streams,
    Survey,
    Surveyed,
)
from tidings.protocol.parts import Session
from tidings.protocol.requests import Publish, RequestBody, Subscribe
from tidings.simulation.clients import Client
from tidings.simulation.commits import Commits
from tidings.simulation.guarantees import Guarantees, Violation
from tidings.simulation.hardships import Hardships
from tidings.simulation.store import MemoryStore
from tidings.simulation.topology import Link, Topology
from tidings.simulation.trace import Traffic, current

_READING: Final = (
    Charge,
    Charged,
    EraseAt,
    ErasedAt,
    Fetch,
    Fetched,
    Surveyed,
    Survey,
    Move,
    Moved,
    Seek,
    Sought,
    Streams,
)
_AT_ONCE: Final = (Wake, Connect, Disconnect)
"""Effects that wait for no commit."""
_PIECE: Final = 8
"""Events of a log among which is erased at a time."""


@dataclass(frozen=True)
class Conditions:
    """How links behave. Chances are between 0 and 1."""

    loss: float = 0.0
    duplication: float = 0.0
    jitter: float = 0.0
    """The most seconds added to a packet's latency, so that one may overtake another."""
    bandwidth: float = inf
    """Packets per second on a link of cost 1; a link of cost c carries a c-th of it."""


@dataclass
class Channel:
    """One direction of a link."""

    source: str
    target: str
    latency: float
    cost: float
    conditions: Conditions
    is_up: bool = True
    is_silent: bool = False
    """Cut without anybody being told."""
    busy_until: float = 0.0


class Simulation:
    """A network in virtual time.

    >>> from tidings.simulation.topology import line
    >>> sim = Simulation(line(3), Settings())
    >>> reader, writer = sim.client("reader", at="b0"), sim.client("writer", at="b2")
    >>> _ = reader.subscribe("price < 10")
    >>> sim.settle()
    >>> writer.publish({"price": 5})
    >>> sim.settle()
    >>> [event.notification["price"] for event in reader.heard], sim.traffic.events
    ([5], 2)
    """

    def __init__(
        self,
        topology: Topology,
        settings: Settings | None = None,
        *,
        seed: int = 0,
        conditions: Conditions | None = None,
        is_harsh: bool = False,
        has_pulse: bool = False,
    ) -> None:
        """In a harsh one, clocks are wrong, disks slow and memories small: see `Hardships`.

        In one that has a pulse, nodes know the time of day also while nothing happens, so that
        they promise times, every beat: such a network is never at rest.
        """
        self._has_pulse = has_pulse
        self.topology = topology
        self.settings = settings or Settings()
        self.random = Random(seed)
        self.hardships = Hardships(seed, topology.nodes, self.settings) if is_harsh else None
        self.clocks = {} if self.hardships is None else self.hardships.clocks
        """The time of day when it begins, as the clock of each node has it; it may be set anew."""
        self.now = 0.0
        self.steps = 0
        self.traffic = Traffic()
        self.reading = 0.05
        """Seconds that reading a log takes at most."""
        self.committing = 0.02 if self.hardships is None else self.hardships.committing
        """Seconds that a commit takes at most."""
        self.nodes: dict[str, Node] = {}
        """Those that are up."""
        self.clients: dict[str, Client] = {}
        self.lines: dict[str, Client] = {}
        """By session: those who are connected."""
        self.fetching = 0
        """Packets that tell ways, or ask another node and answer it: at rest there are none."""
        commits = not self.settings.at_most_once
        self.stores = {name: MemoryStore(name, is_fragile=commits) for name in topology.nodes}
        self.commits: dict[str, Commits] = {}
        """Of those nodes with a log that are up."""
        self._trace = current()
        self._number = 0 if self._trace is None else self._trace.begin()
        self._asking = ""
        """Which client the input comes from that is being dealt with."""
        self._queue: list[tuple[float, int, Callable[..., None], Any, Any]] = []
        self._entered = 0
        self._under_way = 0
        self._unsettled: Channel | None = None
        self._wakes: dict[str, float] = {}
        self._doomed: dict[str, int] = {}
        self.may_fail = False
        """Nodes have been damaged: one that raises an exception is replaced by a new one."""
        self.replaced: list[tuple[float, str, str]] = []
        """When a node was replaced, which, and why."""
        self._conditions = conditions or Conditions()
        """How new channels behave."""
        self.channels = self._channels(self._conditions)
        self._met = set(self.channels)
        """Which node has connected to which, or has it among its configured neighbours."""
        self._parted: set[tuple[str, str]] = set()
        """Which node has disconnected from which."""
        self.guarantees = Guarantees(self)
        for name in topology.nodes:
            self._start(name)

    def _channels(self, conditions: Conditions) -> dict[tuple[str, str], Channel]:
        found = {}
        for link in self.topology.links:
            for a, b in ((link.a, link.b), (link.b, link.a)):
                found[a, b] = Channel(a, b, link.latency, link.cost, conditions)
        return found

    # -- time ----------------------------------------------------------------------------------

    def time(self, node: str) -> float:
        """The time of day that a node's clock shows, right or wrong."""
        return self.clocks.get(node, 0.0) + self.now

    @property
    def skew(self) -> float:
        """Seconds by which the clocks of two nodes differ at most."""
        times = [self.time(node) for node in self.stores]
        return max(times) - min(times)

    def at(self, when: float, what: Callable[..., None], a: Any = None, b: Any = None) -> None:
        """Have something happen later."""
        self._entered += 1
        heappush(self._queue, (when, self._entered, what, a, b))

    def carry(self, when: float, what: Callable[..., None], a: Any = None, b: Any = None) -> None:
        """The same; the network has not settled before."""
        self._under_way += 1
        self.at(when, self._carried, what, (a, b))

    def _carried(self, what: Callable[..., None], given: tuple[Any, Any]) -> None:
        self._under_way -= 1
        what(*given)

    def step(self) -> bool:
        """Let the next thing happen; False if there is none."""
        if not self._queue:
            return False
        self.now, _, what, a, b = heappop(self._queue)
        self.steps += 1
        what(a, b)
        return True

    def run(self, until: float) -> None:
        """Let everything happen that happens up to this time."""
        queue = self._queue
        while queue and queue[0][0] <= until:
            self.step()
        self.now = max(self.now, until)

    def settle(self, within: float = 3600.0) -> None:
        """Run until every link is open and everything said has been heard and acknowledged."""
        end = self.now + within
        while not self.is_settled:
            if not self.step() or self.now > end:
                raise TidingsError(f"the network has not settled within {within:g} seconds")

    @property
    def is_settled(self) -> bool:
        """Whether nothing is under way on links that work."""
        if not all(commits.is_settled for commits in self.commits.values()):
            return False
        if self._under_way or (self._unsettled is not None and not self._is_quiet(self._unsettled)):
            return False
        for channel in self.channels.values():
            if not self._is_quiet(channel):
                self._unsettled = channel  # look there first the next time
                return False
        return True

    def _is_quiet(self, channel: Channel) -> bool:
        node = self.nodes.get(channel.source)
        if node is None or channel.target not in self.nodes:
            return True
        if not channel.is_up or channel.is_silent:
            return True
        neighbour = node.neighbours.get(channel.target)
        if neighbour is None:
            return False  # it is about to hear of it
        link = neighbour.link
        return bool(link.peer) and not link.queue

    # -- nodes ---------------------------------------------------------------------------------

    def _start(self, name: str, *, was_damaged: bool = False) -> None:
        node = Node(
            name,
            self.settings,
            neighbours={n: _role(self.topology, name, n) for n in self.topology.neighbours(name)},
            stored=self.stores[name].content,
            logs=self.stores[name].spans(),
            instance=f"{name} started at step {self.steps}",
            was_damaged=was_damaged,
        )
        self.nodes[name] = node
        if not self.settings.at_most_once:
            self.commits[name] = self._commits(name)
            self._listen(name, node.from_log.subscriptions)
            if self.hardships is not None:
                self.hardships.shrink(node.from_log.logs)
        self.guarantees.started(node)
        self._perform(name, node.start(self.now, self.time(name)))
        if self.settings.check < inf:
            self.at(self.now + self.settings.check, self._nudge, name, node)
        configured = self.topology.neighbours(name)
        for neighbour in configured:
            self._arrange(name, neighbour)
            if not self._is_up(name, neighbour):
                self.hear(name, LinkDown(neighbour))
        for neighbour in self._reached(name):
            if neighbour not in configured:
                self.hear(name, LinkUp(neighbour))

    def _listen(self, name: str, subscriptions: Subscriptions) -> None:
        """What a subscription finds is decided when it is let in, which may be later than asked."""
        admit = subscriptions.admit

        def listened(session: Session, body: Subscribe, time: float) -> None:
            if not session.is_own:
                self.guarantees.admitted(name, body)
            client = self.lines.get(session.name)
            if client is not None:
                client.admitted(body)
            admit(session, body, time)

        subscriptions.admit = listened  # type: ignore[method-assign]

    def _commits(self, name: str) -> Commits:
        return Commits(
            self.stores[name],
            self.random,
            seconds=lambda: self.committing,
            later=lambda seconds, what: self.at(self.now + seconds, lambda *_: what()),
            carry_out=partial(self._carry_out, name),
            distrust=partial(self._replace, name),
            crash=partial(self.crash, name),
        )

    def versions(self, name: str, key: str) -> list[Any]:
        """All values that a crash of a node may leave under a key; None if it may leave none."""
        commits = self.commits.get(name)
        return [self.stores[name].content.get(key)] if commits is None else commits.versions(key)

    def hear(self, name: str, input: Input) -> None:
        """A node's host has something to tell it."""
        node = self.nodes.get(name)
        if node is None:
            return
        try:
            effects = node.handle(input, self.now)
        except Exception as problem:
            self._replace(name, problem)
            return
        if name in self.commits and name in self._doomed:
            self.commits[name].crash_within(self._doomed.pop(name))
        if name in self._doomed:
            self._perform(name, _cut(effects, self._doomed.pop(name)))
            self.crash(name)
        else:
            self._perform(name, effects)
        if self.guarantees.is_thorough:
            self.guarantees.stepped(name, input)

    def _replace(self, name: str, problem: Exception) -> None:
        """A node is not to be trusted any more: another one takes its place, as after a crash."""
        if not self.may_fail:
            if isinstance(problem, Damaged):
                what = f"{name} finds itself damaged, which nobody has done: {problem}"
                raise Violation(f"at {self.now:.3f} s: {what}") from None
            raise problem
        self.replaced.append((self.now, name, f"{type(problem).__name__}: {problem}"))
        self.crash(name)
        self.restart(name, was_damaged=True)

    def _nudge(self, name: str, node: Node) -> None:
        """Wake a node, whatever it remembers of its timers."""
        if self.nodes.get(name) is node:
            self.at(self.now + self.settings.check, self._nudge, name, node)
            self.hear(name, self._woken(name))

    def _perform(self, name: str, effects: list[Effect]) -> None:
        commits = self.commits.get(name)
        if commits is None:
            self._carry_out(name, effects)
            return
        for effect in effects:
            if isinstance(effect, EraseLog) and not effect.is_dry:
                self.guarantees.logs.erasing(effect)
            if isinstance(effect, _AT_ONCE):
                self._carry_out(name, [effect])
            elif isinstance(effect, Deliver | Reply) and effect.session in self.lines:
                self.lines[effect.session].meant(effect)
            elif isinstance(effect, Append) and self._trace is not None:
                for event in effect.events:
                    self._trace.published(self._number, self.now, self._asking, name, event)
        commits.gather([effect for effect in effects if not isinstance(effect, _AT_ONCE)])

    def _carry_out(self, name: str, effects: list[Effect]) -> None:
        for effect in effects:
            if effect.__class__ is Send:
                if (name, effect.neighbour) in self.channels:
                    self._transmit(self.channels[name, effect.neighbour], effect.packet)
            elif effect.__class__ in (Deliver, Reply):
                if effect.session in self.lines:
                    self.lines[effect.session].told(effect)
            elif effect.__class__ is Wake:
                self._wakes[name] = effect.at
                self.at(effect.at, self._wake, name, effect.at)
            elif effect.__class__ is Store:
                self.stores[name].write(effect.key, effect.value)
            elif effect.__class__ is Read:
                self._read(name, effect)
            elif effect.__class__ is Recall:
                self._recall(name, effect)
            elif effect.__class__ is EraseLog:
                self._erase(name, effect)
            elif effect.__class__ is Sync:
                self.stores[name].sync()
            elif effect.__class__ is Connect:
                self._parted.discard((name, effect.neighbour))
                if effect.address:
                    self._met.add((name, effect.neighbour))
                self.at(self.now, self._arrange, name, effect.neighbour)
            elif effect.__class__ is Disconnect:
                self._met.discard((name, effect.neighbour))
                self._parted.add((name, effect.neighbour))
                self.at(self.now, self._arrange, name, effect.neighbour)

    def _read(self, name: str, read: Read) -> None:
        found: list[Input] = []
        self._look(
            name,
            lambda: found.append(self.stores[name].read(read)),
            answer=lambda: self.hear(name, found[0]),
        )

    def _erase(self, name: str, effect: EraseLog) -> None:
        """Erase piece by piece, and answer when all is done, unless the node is another by then."""
        node, store, eraser = self.nodes[name], self.stores[name], Eraser(effect.filter, effect.id)
        at = self.now

        def do(what: Callable[[], None], _: Any) -> None:
            if self.nodes.get(name) is node:
                what()

        def answer() -> None:
            log = store.logs[effect.stream][store.firsts[effect.stream] - 1 : effect.upto]
            done = eraser.matches if effect.is_dry else eraser.has_erased
            last = max((event.tick for event in log if is_erased(event)), default=0)
            self.hear(name, LogErased(effect.number, sum(map(done, log)), last))

        for first in range(1, effect.upto + 1, _PIECE):
            at += self.random.random() * self.reading
            ticks = range(first, min(first + _PIECE, effect.upto + 1))
            if not effect.is_dry:
                self.carry(at, do, partial(store.erase, effect.stream, ticks, eraser))
        self.carry(at, do, answer)

    def _look(self, name: str, *looks: Callable[[], None], answer: Callable[[], None]) -> None:
        """Look at what is stored, and answer later, unless the node is somebody else by then.

        Where commits go on meanwhile, it is looked at one by one, each at a time of its own.
        """
        node, seconds = self.nodes[name], self.random.random() * self.reading

        def do(what: Callable[[], None], _: Any) -> None:
            if self.nodes.get(name) is node:
                what()

        moments = sorted(self.random.random() for _ in looks) if name in self.commits else ()
        for moment, look in zip(moments, looks, strict=False):
            self.carry(self.now + seconds * moment, do, look)
        if not moments:
            for look in looks:
                look()
        self.carry(self.now + seconds, do, answer)

    def _recall(self, name: str, recall: Recall) -> None:
        """The values are looked up, then the logs, and who is there when the answer comes."""
        store, stored, spans = self.stores[name], dict[str, Any](), dict[str, Span]()

        def answer() -> None:
            known = {s: c for s, c in self.lines.items() if c.at == name and c.is_known}
            there = {session: client.is_full for session, client in known.items()}
            up = frozenset(self._reached(name))
            self.hear(name, Recalled(recall.number, stored, spans, there, up))

        self._look(
            name,
            lambda: stored.update(store.written()),
            lambda: spans.update(store.spans()),
            answer=answer,
        )

    def trim(self, name: str, stream: str, first: int) -> None:
        """A broker keeps one of its logs from this tick on only."""
        store = self.stores[name]
        store.trim(stream, first)
        self.hear(name, Trimmed(stream, store.firsts[stream]))

    def _woken(self, name: str) -> Woken:
        return Woken(self.time(name) if self._has_pulse else 0.0)

    def _wake(self, name: str, at: float) -> None:
        if self._wakes.get(name) == at and name in self.nodes:
            self.hear(name, self._woken(name))

    def crash(self, name: str) -> None:
        """A node is gone, with all it had not synced."""
        if self.nodes.pop(name, None) is not None:
            if name in self.commits:
                self.commits.pop(name).stop()
            self.stores[name].crash(self.random)
            self._wakes.pop(name, None)
            self._doomed.pop(name, None)
            for client in [each for each in self.lines.values() if each.at == name]:
                client.broken()
            self._forget_meetings(name)

    def go_back(self, name: str, commits: int, *, is_noticed: bool = True) -> None:
        """A node that is down has lost the last commits of its store."""
        assert name not in self.nodes
        self.stores[name].go_back(commits, is_noticed=is_noticed)

    def log(self, stream: str) -> list[Event]:
        """What is kept of a stream, or was until it was trimmed."""
        return self.stores[broker_of(stream)].logs[stream]

    @property
    def streams(self) -> list[str]:
        """Of all nodes, in all epochs."""
        return [stream for store in self.stores.values() for stream in store.logs]

    def crash_within(self, name: str, effects: int) -> None:
        """A node crashes while it carries out the effects of its next input.

        If it commits, these are of the whole batch; the commit is the first.
        """
        if name in self.nodes:
            self._doomed[name] = effects

    def spare(self) -> None:
        """No node crashes that was about to, and no commit fails."""
        self._doomed.clear()
        for store in self.stores.values():
            store.failures.clear()
        for commits in self.commits.values():
            commits.spare()

    def restart(self, name: str, *, was_damaged: bool = False) -> None:
        """A node comes back with what its store kept."""
        if name not in self.nodes:
            self._start(name, was_damaged=was_damaged)

    # -- links ---------------------------------------------------------------------------------

    def _transmit(self, channel: Channel, packet: Frame | Offer) -> None:
        if self.commits and packet.__class__ is Frame:
            self.fetching += isinstance(packet.body, _READING)
            if packet.body.__class__ is Event and not is_erased(packet.body):
                self.guarantees.passed(packet.body)
        conditions = channel.conditions
        if not channel.is_up or channel.is_silent:
            self.traffic.lost += 1
            return
        if conditions.loss and self.random.random() < conditions.loss:
            self.traffic.lost += 1
            return
        self._enter(channel, packet)
        if conditions.duplication and self.random.random() < conditions.duplication:
            self._enter(channel, packet)

    def _enter(self, channel: Channel, packet: Frame | Offer) -> None:
        conditions = channel.conditions
        arrival = self.now + channel.latency
        if conditions.bandwidth < inf:
            sent = max(self.now, channel.busy_until) + channel.cost / conditions.bandwidth
            channel.busy_until = sent
            arrival = sent + channel.latency
        if conditions.jitter:
            arrival += self.random.random() * conditions.jitter
        if packet.__class__ is Frame and packet.body is not None:
            self._under_way += 1
        self.at(arrival, self._arrive, channel, packet)

    def _arrive(self, channel: Channel, packet: Frame | Offer) -> None:
        if packet.__class__ is Frame and packet.body is not None:
            self._under_way -= 1
        if not channel.is_up or channel.is_silent or channel.target not in self.nodes:
            self.traffic.lost += 1
            return
        self.traffic.count(channel.source, channel.target, packet, channel.cost)
        if self._trace is not None:
            self._trace.carried(self._number, self.now, channel.source, channel.target, packet)
        self.hear(channel.target, Received(channel.source, packet))

    def _arrange(self, a: str, b: str) -> None:
        """There is a channel while one of two nodes has connected, and none has disconnected."""
        ends = {(a, b), (b, a)}
        is_wanted = bool(ends & self._met) and not ends & self._parted
        if is_wanted is ((a, b) in self.channels) or not {a, b} <= self.stores.keys():
            return
        latency, cost = self._distance(a, b)
        for one, other in sorted(ends):
            if is_wanted:
                new = Channel(one, other, latency, cost, self._conditions, is_up=False)
                self.channels[one, other] = new
            else:
                self.channels.pop((one, other)).is_up = False
                self.hear(one, LinkDown(other))
        if is_wanted:
            self.at(self.now + latency, self._connected, self.channels[a, b])

    def _connected(self, channel: Channel, _: Any) -> None:
        if self.channels.get((channel.source, channel.target)) is channel:
            self.restore_link(channel.source, channel.target)

    def _distance(self, a: str, b: str) -> tuple[float, float]:
        """Latency and cost: of the link if there is one, else as is usual where its ends are."""
        if b in self.topology.neighbours(a):
            link = self.topology.link(a, b)
            return link.latency, link.cost
        near = [each for (source, _), each in self.channels.items() if source in (a, b)]
        usual = Link(a, b)
        return (
            fmean(each.latency for each in near) if near else usual.latency,
            fmean(each.cost for each in near) if near else usual.cost,
        )

    def _forget_meetings(self, name: str) -> None:
        """A node that is down does not remember whom it has met, and from whom it has parted."""
        asked = [pair for pair in self._met | self._parted if pair[0] == name]
        self._met.difference_update(asked)
        self._parted.difference_update(asked)
        self._met.update((name, n) for n in self.topology.neighbours(name))
        for _, other in sorted(asked):
            self._arrange(name, other)

    def _is_up(self, a: str, b: str) -> bool:
        return (a, b) in self.channels and self.channels[a, b].is_up

    def _reached(self, name: str) -> list[str]:
        """Those that a node has a working channel to."""
        return [n for source, n in self.channels if source == name and self._is_up(name, n)]

    def fail_link(self, a: str, b: str, *, silently: bool = False) -> None:
        """Cut a link, with what is on it; both ends notice at once, unless it fails silently."""
        for one, other in ((a, b), (b, a)):
            channel = self.channels[one, other]
            if silently:
                channel.is_silent = True
            elif channel.is_up:
                channel.is_up = False
                self.hear(one, LinkDown(other))

    def restore_link(self, a: str, b: str) -> None:
        for one, other in ((a, b), (b, a)):
            channel = self.channels[one, other]
            channel.is_silent = False
            if not channel.is_up:
                channel.is_up = True
                self.hear(one, LinkUp(other))

    def set_conditions(self, conditions: Conditions) -> None:
        """From now on all links behave like this."""
        self._conditions = conditions
        for channel in self.channels.values():
            channel.conditions = conditions

    def change_conditions(self, **changes: float) -> None:
        """From now on all links differ from what they were in these respects."""
        self.set_conditions(replace(self._conditions, **changes))

    # -- clients -------------------------------------------------------------------------------

    def client(self, name: str, *, at: str) -> Client:
        """A new client of a broker."""
        if name in self.clients:
            raise TidingsError(f"there is a client {name!r} already")
        if at not in self.stores:
            raise TidingsError(f"there is no node {at!r}")
        client = self.clients[name] = Client(self, name, at)
        client.begin()
        return client

    def ask(self, client: Client, body: RequestBody) -> None:
        """What a client says to its broker arrives there."""
        if isinstance(body, Publish) and self.settings.at_most_once:
            self.guarantees.published(client, body)
            if self._trace is not None:
                for tick, notification in enumerate(body.notifications, body.number):
                    event = Event(client.session, tick, notification)
                    self._trace.published(self._number, self.now, client.name, client.at, event)
        self._asking = client.name
        self.hear(client.at, Request(client.session, body, self.time(client.at)))
        self._asking = ""

    def trace_heard(self, client: Client, event: Event) -> None:
        """A client is told of something."""
        if self._trace is not None:
            self._trace.heard(self._number, self.now, client.at, client.name, event)

    # -- looking -------------------------------------------------------------------------------

    def table_sizes(self) -> dict[str, int]:
        """For each node, how many subscriptions of neighbours it holds."""
        return {
            name: sum(
                sum(node.exchange.subscriptions.wanted.get(n, {}).values())
                for n in node.neighbours.values()
            )
            for name, node in self.nodes.items()
        }

    def tree(self) -> set[tuple[str, str]]:
        """The links that belong to the tree, by their ends in order."""
        return {
            (min(name, n.name), max(name, n.name))
            for name, node in self.nodes.items()
            for n in node.neighbours.values()
            if node.exchange.subscriptions.has(n)
        }


def _cut(effects: list[Effect], number: int) -> list[Effect]:
    """The first of them. A host stores all that lies between two syncs at once, or nothing."""
    done, rest = effects[:number], effects[number:]
    if Sync() in rest:
        while done and done[-1].__class__ is Store:
            done.pop()
    return done


def _role(topology: Topology, node: str, neighbour: str) -> Role:
    """What a neighbour is to a node."""
    parents = topology.parents or {}
    if parents.get(node) == neighbour:
        return "parent"
    return "child" if parents.get(neighbour) == node else "peer"
