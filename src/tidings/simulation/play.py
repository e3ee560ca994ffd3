"""Playing: run a scenario to its end, and check what must hold then.

After the last step the faults are over. Within `bound` the network must have come to rest: tables
are exactly right, and everybody has heard what it wants. Then every client publishes every probe,
and exactly those who want it must hear it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import inf
from random import Random
from typing import Any, Final

from tidings.events import Filter, Notification, TidingsError
from tidings.overlay import Tree
from tidings.simulation.clients import Client
from tidings.simulation.damage import damage, damage_tables
from tidings.simulation.guarantees import PERFECT, Violation
from tidings.simulation.population import written_out
from tidings.simulation.scenario import ACTIONS, Scenario, Step
from tidings.simulation.simulation import Conditions, Simulation

_READING: Final = 0.05
_COMMITTING: Final = 0.02
_REST: Final = 3.0
"""Seconds of rest in which no way is told, and nothing is asked of another node."""
_PART: Final = 0.2
"""How long it may take to fetch one event, where each is fetched alone."""

_ACTS: Final[Mapping[str, Callable[[Client, Step, str], object]]] = {
    "vanish": lambda who, _, __: who.crash(),
    "unsubscribe": lambda who, step, id: who.unsubscribe(id, forget=step.forget),
    "again": lambda who, _, id: who.read_on(id),
    "ack": lambda who, step, _: who.acknowledge(late=step.number > 0),
    "publish": lambda who, step, _: who.publish(step.event, *step.more),
    "advertise": lambda who, step, _: who.advertise(step.filter, id=step.id),
    "unadvertise": lambda who, step, _: who.unadvertise(step.id),
    "erase": lambda who, step, _: who.erase(step.filter),
    "watch": lambda who, step, _: who.watch(step.filter, id=step.id),
    "unwatch": lambda who, step, _: who.unwatch(step.id),
    "stall": lambda who, _, __: who.stall(),
    "drain": lambda who, _, __: who.drain(),
    "hang": lambda who, _, __: who.hang_up(),
}
"""What a client does by itself; the last argument is what it calls the subscription of a step,
which may be one that a scenario knows nothing of."""


@dataclass
class Play:
    """A scenario under way."""

    scenario: Scenario
    simulation: Simulation
    clients: dict[str, Client] = field(default_factory=dict)
    """By name, those that have not left: one that has vanished may join again."""
    zombies: list[Client] = field(default_factory=list)
    """Those that were taken for dead."""
    ids: dict[tuple[str, str], str] = field(default_factory=dict)
    """By process and the id in the scenario: what the client calls a subscription."""
    backs: dict[str, int] = field(default_factory=dict)
    """How often the store of a broker went back."""
    damages: list[str] = field(default_factory=list)
    """What was damaged, and when."""

    @classmethod
    def begin(cls, scenario: Scenario, *, check: bool = False, thorough: bool = True) -> Play:
        """Build the network; with `check`, watch over it at every step, tables only if thorough."""
        scenario = written_out(scenario)
        try:
            conditions = Conditions(**scenario.conditions)
        except TypeError as problem:
            raise TidingsError(f"conditions: {problem}") from None
        simulation = Simulation(
            scenario.topology(),
            scenario.settings,
            seed=scenario.seed,
            conditions=conditions,
            is_harsh=scenario.is_harsh,
        )
        play = cls(scenario, simulation)
        if check:
            simulation.guarantees.watch(thorough=thorough)
        for step in play.steps():
            simulation.at(step.at, play.perform, step)
        return play

    def steps(self) -> Iterator[Step]:
        """All that is to happen, in order."""
        return iter(self.scenario.steps)

    def run(self, progress: Callable[[float], None] = lambda _: None) -> None:
        """Run to the end of the scenario, saying how far it has come."""
        simulation, duration = self.simulation, self.scenario.duration
        slices = 100
        for number in range(1, slices + 1):
            simulation.run(until=duration * number / slices)
            progress(number / slices)

    def perform(self, step: Step, _: Any = None) -> None:
        """Do what a step says; what makes no sense by now is left out."""
        if step.do not in ACTIONS:
            raise TidingsError(f"no action {step.do!r}; there are {', '.join(ACTIONS)}")
        if step.do in self._unsettling:
            self.simulation.guarantees.unsettled()
        if step.do in ("loss", "duplication", "jitter"):
            self.simulation.change_conditions(**{step.do: step.value})
        elif not step.client or step.do == "join":
            getattr(self, f"_{step.do}")(step)
        elif (client := self.clients.get(step.client)) is not None and client.is_alive:
            if (act := _ACTS.get(step.do)) is not None:
                act(client, step, self.ids.get((client.instance, step.id), step.id))
            else:
                getattr(self, f"_client_{step.do}")(client, step)

    @property
    def _unsettling(self) -> Collection[str]:
        """After what events may be lost: in a tree that has to be agreed on, lost packets too."""
        faults = ("crash", "restart", "cut", "mute", "corrupt", "damage")
        return (*faults, "loss", "jitter") if self.simulation.settings.tree else faults

    # -- clients -------------------------------------------------------------------------------

    def _join(self, step: Step) -> None:
        simulation = self.simulation
        if step.node not in simulation.stores:
            return
        if step.client not in simulation.clients:
            self.clients[step.client] = simulation.client(step.client, at=step.node)
        else:
            client = self.clients[step.client] = simulation.clients[step.client]
            if not client.is_alive:
                client.begin()

    def _client_leave(self, who: Client, _: Step) -> None:
        who.close()
        del self.clients[who.name]

    def _client_subscribe(self, who: Client, step: Step) -> None:
        checks = self.simulation.guarantees
        # What a store that went back still knows of a name is anybody's guess.
        name = step.durable and f"{step.durable}{'+' * sum(self.backs.values())}"
        filter_ = Filter.parse(step.filter)
        if name and checks.is_known(name) and not step.unlike:
            filter_ = checks.durable(name, filter_).latest.filter
        self.ids[who.instance, step.id] = who.subscribe(
            filter_,
            durable=name or None,
            since=self._since(who, step),
            replace=step.replace,
            home=step.home,
        )

    def _since(self, who: Client, step: Step) -> Any:
        match step.since:
            case "time":
                return self.simulation.time(who.at) - (1.0 - step.value) * self.simulation.now
            case "log":
                store = self.simulation.stores[who.at]
                return {store.stream: int(step.value * len(store.log))}
        return step.since or None

    def _client_take(self, who: Client, step: Step) -> None:
        for other in self.clients.values():
            if other is not who and other.durables:
                who.take_over(other)
                return

    def _client_hop(self, who: Client, step: Step) -> None:
        if step.node in self.simulation.stores:
            who.hop(step.node)

    def _client_split(self, who: Client, step: Step) -> None:
        """It is taken for dead; the network lets it through again after a while."""
        who.publish(step.event)
        zombie = who.split()
        zombie.publish(step.event)
        self.zombies.append(zombie)
        self.simulation.at(self.simulation.now + step.value, zombie.connect)

    # -- faults --------------------------------------------------------------------------------

    def _crash(self, step: Step) -> None:
        if step.number:
            self.simulation.crash_within(step.node, step.number)
        else:
            self.simulation.crash(step.node)

    def _restart(self, step: Step) -> None:
        if step.node in self.simulation.stores:
            self.simulation.restart(step.node)

    def _cut(self, step: Step) -> None:
        if (step.node, step.to) in self.simulation.channels:
            self.simulation.fail_link(step.node, step.to, silently=step.do == "mute")

    _mute = _cut

    def _mend(self, step: Step) -> None:
        if (step.node, step.to) in self.simulation.channels:
            self.simulation.restore_link(step.node, step.to)

    def _damage(self, step: Step) -> None:
        node = self.simulation.nodes.get(step.node)
        if node is None:
            return
        self.simulation.guarantees.damaged()
        self.simulation.may_fail = True
        if step.do == "corrupt":
            damage_tables(node, Random(step.number))
        else:
            what = damage(node, Random(step.number))
            self.damages.append(f"{self.simulation.now:.2f} {node.name}: {what}")

    _corrupt = _damage

    # -- faults of what is kept ----------------------------------------------------------------

    def _slow(self, step: Step) -> None:
        self.simulation.reading = self.simulation.committing = step.value

    def _fail(self, step: Step) -> None:
        store = self.simulation.stores.get(step.node)
        if store is not None:
            store.failures += [step.value > 0] * step.number

    def _trim(self, step: Step) -> None:
        if step.node in self.simulation.nodes:
            for stream, log in self.simulation.stores[step.node].logs.items():
                self.simulation.trim(step.node, stream, int(len(log) * step.value) + 1)

    def _spoil(self, step: Step) -> None:
        """A node may still have them in memory."""
        store = self.simulation.stores.get(step.node)
        if store is not None:
            first = int(len(store.log) * step.value) + 1
            store.spoil(range(first, first + step.number))

    def _back(self, step: Step) -> None:
        sim = self.simulation
        if step.node not in sim.stores:
            return
        sim.crash(step.node)
        self.backs[step.node] = self.backs.get(step.node, 0) + 1
        sim.guarantees.went_back(step.node)
        for each in [*self.clients.values(), *self.zombies]:
            if each.at == step.node:
                each.crash()
                each.durables.clear()
        sim.go_back(step.node, step.number, is_noticed=not step.value)

    # -- the end -------------------------------------------------------------------------------

    def heal(self) -> None:
        """All faults are over, and whoever has vanished is back."""
        simulation = self.simulation
        simulation.spare()
        simulation.set_conditions(Conditions())
        simulation.reading, simulation.committing = _READING, _COMMITTING
        for link in simulation.topology.links:
            simulation.restore_link(link.a, link.b)
        for node in simulation.topology.nodes:
            simulation.restart(node)
        for client in self.clients.values():
            client.drain()
            if not client.is_alive:
                client.begin()

    def converge(self) -> None:
        """Heal, let the time pass that the network may take, and check that it has converged."""
        self.heal()
        self.simulation.run(self.simulation.now + self.patience)
        self._settle()
        self.simulation.guarantees.repaired()
        self.check()

    @property
    def patience(self) -> float:
        """How long the network may take to come to rest."""
        return recovery_bound(self.simulation) if self.damages else bound(self.simulation)

    def check(self) -> None:
        """At rest: everybody has heard everything, and has nothing more to say."""
        simulation, guarantees = self.simulation, self.simulation.guarantees
        if not guarantees.is_watching:
            return
        for name in simulation.topology.nodes:
            guarantees.stepped(name)
        guarantees.check(self.clients.values())
        self._check_zombies()
        before = simulation.fetching
        simulation.run(simulation.now + (_REST if simulation.commits else 0.0))
        if simulation.fetching > before:
            guarantees.fail(f"{simulation.fetching - before} questions, answers or ways at rest")

    def _check_zombies(self) -> None:
        """Of all instances under a name, one is left."""
        for zombie in self.zombies:
            client = self.clients.get(zombie.name)
            if client is None or client.at != zombie.at:
                continue  # fencing is the affair of one broker
            if zombie.is_alive and client.is_alive:
                self.simulation.guarantees.fail(
                    f"{zombie.instance} still is {zombie.name} beside {client.instance}"
                )

    def probe(self, probes: Iterable[Mapping[str, Any]]) -> None:
        """At rest: everybody publishes everything, and exactly those who want it hear it."""
        events = [Notification(each) for each in probes]
        for event in events:
            self._probe_tables(event)
        for client in self.living():
            client.publish(*events)
            self._settle()
        if self.simulation.commits:
            self.simulation.run(self.simulation.now + self.patience)
        self.check()

    def _settle(self) -> None:
        """Nodes with logs always have something to say: how far their streams are."""
        if not self.simulation.commits:
            self.simulation.settle()

    def living(self) -> list[Client]:
        return [c for c in self.clients.values() if c.is_alive]

    def _probe_tables(self, probe: Notification) -> None:
        """Remote tables admit what is wanted behind the link, and perfect ones nothing else."""
        settings, simulation = self.simulation.settings, self.simulation
        perfect = settings.subscriptions in PERFECT
        for a, b in sorted(simulation.tree()):
            for here, there in ((a, b), (b, a)):
                node = simulation.nodes[here]
                neighbour = node.neighbours[there]
                beyond = self._beyond(here, there)
                on_this_side = self._beyond(there, here)
                if neighbour.role == "parent":
                    continue  # everything goes upwards
                wanted = any(_any(c.subscriptions, probe) for c in beyond)
                advertised = settings.advertisements is None or neighbour.role != "peer"
                if not advertised and not any(_any(c.advertisements, probe) for c in on_this_side):
                    continue  # no such event will come this way
                table = node.exchange.subscriptions.wanted.get(neighbour, {})
                admitted = any(f.matches(probe) for f in table)
                if (wanted and not admitted) or (perfect and admitted and not wanted):
                    raise Violation(
                        f"at rest: {here} would {'' if admitted else 'not '}send {dict(probe)} to "
                        f"{there}, behind which it is {'' if wanted else 'not '}wanted"
                    )

    def _beyond(self, here: str, there: str) -> list[Client]:
        """The clients on the far side of a link of the tree."""
        tree = self.simulation.tree()
        seen, todo = {here, there}, [there]
        while todo:
            node = todo.pop()
            for other in self.simulation.topology.neighbours(node):
                if (min(node, other), max(node, other)) in tree and other not in seen:
                    seen.add(other)
                    todo.append(other)
        seen.discard(here)
        return [c for c in self.living() if c.at in seen]


def bound(simulation: Simulation) -> float:
    """Seconds after the last fault within which all is exactly right.

    The tree has to be agreed on, leases of vanished clients have to end, a link that has been
    silent has to be tried again, digests have to be compared twice (a table that is repaired may
    be what the next one is computed from), and all that has to travel across the network. Then
    what is kept and was not heard yet is fetched, perhaps one by one.
    """
    settings, topology = simulation.settings, simulation.topology
    latency = max((link.latency for link in topology.links), default=0.0)
    across = (topology.diameter + 1) * (3 * latency + settings.delay)
    tree = 0.0
    if settings.tree:
        tree = Tree.bound(
            period=settings.beat,
            expiry=settings.silence,
            latency=latency,
            diameter=topology.diameter,
        )
    again = 16 * settings.pause
    lease = settings.lease if settings.lease < inf else 0.0
    checks = 0.0
    if settings.check < inf:
        checks = (topology.diameter + 1) * settings.check + max(settings.check, settings.check_most)
    return tree + again + lease + checks + across + _fetching(simulation)


def recovery_bound(simulation: Simulation) -> float:
    """Seconds after the last damage within which all is exactly right.

    A node audits itself with every check, and compares itself with its store and its host in the
    longest period. What was asked and lost is asked again after two of these. Then everything is as
    after a crash, or after another fault of the tables; but a stream whose last tick is wrong is
    forgotten first, where that is all that is known of it.
    """
    settings = simulation.settings
    longest = max(settings.check, settings.check_most)
    memory = 2 * settings.memory if settings.at_most_once else 0.0
    return 3 * settings.check + 4 * longest + settings.silence + 2 * bound(simulation) + memory


def _fetching(simulation: Simulation) -> float:
    if simulation.settings.at_most_once:
        return 0.0
    longest = max(sum(map(len, store.logs.values())) for store in simulation.stores.values())
    return _REST + longest * _PART


def _any(filters: Mapping[str, Filter], notification: Notification) -> bool:
    return any(f.matches(notification) for f in filters.values())
