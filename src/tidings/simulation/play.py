"""Playing: run a scenario to its end, and check what must hold then.

After the last step the faults are over. Within `bound` the network must have come to rest with
exactly the right tables; then every client publishes every probe, and exactly those who want it
must hear it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import inf
from random import Random
from typing import Any

from tidings.events import Filter, Notification, TidingsError
from tidings.overlay import Tree
from tidings.simulation.clients import Client
from tidings.simulation.damage import damage_tables
from tidings.simulation.population import written_out
from tidings.simulation.properties import Properties, Violation
from tidings.simulation.scenario import ACTIONS, Scenario, Step
from tidings.simulation.simulation import Conditions, Simulation

PERFECT = ("simple", "identity", "covering", "merging", "imperfect:1")


@dataclass
class Play:
    """A scenario under way."""

    scenario: Scenario
    simulation: Simulation
    properties: Properties | None = None
    clients: dict[str, Client] = field(default_factory=dict)
    """By the names of the scenario: a client that vanished may join again as somebody new."""
    ids: dict[tuple[str, str], str] = field(default_factory=dict)

    @classmethod
    def begin(cls, scenario: Scenario, *, check: bool = False) -> Play:
        """Build the network; with `check`, watch over it at every step."""
        scenario = written_out(scenario)
        try:
            conditions = Conditions(**scenario.conditions)
        except TypeError as problem:
            raise TidingsError(f"conditions: {problem}") from None
        simulation = Simulation(
            scenario.topology(), scenario.settings, seed=scenario.seed, conditions=conditions
        )
        play = cls(scenario, simulation)
        if check:
            play.properties = Properties()
            play.properties.watch(simulation)
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
        if self.properties is not None and step.do in self._unsettling:
            self.properties.is_steady = False
        getattr(self, f"_{step.do}")(step)

    @property
    def _unsettling(self) -> Collection[str]:
        """After what events may be lost: in a tree that has to be agreed on, lost packets too."""
        faults = ("crash", "restart", "cut", "mute", "corrupt")
        return (*faults, "loss", "jitter") if self.simulation.settings.tree else faults

    # -- clients -------------------------------------------------------------------------------

    def _client(self, step: Step) -> Client | None:
        client = self.clients.get(step.client)
        return client if client is not None and client.is_alive else None

    def _join(self, step: Step) -> None:
        if self._client(step) is None and step.node in self.simulation.stores:
            number = sum(n.startswith(f"{step.client}.") for n in self.simulation.clients) + 1
            name = f"{step.client}.{number}"
            self.clients[step.client] = self.simulation.client(name, at=step.node)

    def _subscribe(self, step: Step) -> None:
        if client := self._client(step):
            self.ids[client.name, step.id] = client.subscribe(step.filter)

    def _unsubscribe(self, step: Step) -> None:
        if client := self._client(step):
            client.unsubscribe(self.ids.get((client.name, step.id), "none"))

    def _advertise(self, step: Step) -> None:
        if client := self._client(step):
            self.ids[client.name, step.id] = client.advertise(step.filter)

    def _unadvertise(self, step: Step) -> None:
        if client := self._client(step):
            client.unadvertise(self.ids.get((client.name, step.id), "none"))

    def _publish(self, step: Step) -> None:
        if client := self._client(step):
            client.publish(step.event)

    def _leave(self, step: Step) -> None:
        client = self._client(step)
        if client is not None and client.at in self.simulation.nodes:
            client.close()

    def _vanish(self, step: Step) -> None:
        if client := self._client(step):
            client.crash()

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
            self.simulation.fail_link(step.node, step.to)

    def _mute(self, step: Step) -> None:
        if (step.node, step.to) in self.simulation.channels:
            self.simulation.fail_link(step.node, step.to, silently=True)

    def _mend(self, step: Step) -> None:
        if (step.node, step.to) in self.simulation.channels:
            self.simulation.restore_link(step.node, step.to)

    def _loss(self, step: Step) -> None:
        self.simulation.change_conditions(loss=step.value)

    def _duplication(self, step: Step) -> None:
        self.simulation.change_conditions(duplication=step.value)

    def _jitter(self, step: Step) -> None:
        self.simulation.change_conditions(jitter=step.value)

    def _corrupt(self, step: Step) -> None:
        node = self.simulation.nodes.get(step.node)
        if node is not None:
            if self.properties is not None:
                self.properties.is_damaged = True
            damage_tables(node, Random(step.number))

    # -- the end -------------------------------------------------------------------------------

    def heal(self) -> None:
        """All faults are over."""
        simulation = self.simulation
        simulation.spare()
        simulation.set_conditions(Conditions())
        for link in simulation.topology.links:
            simulation.restore_link(link.a, link.b)
        for node in simulation.topology.nodes:
            simulation.restart(node)

    def converge(self) -> None:
        """Heal, let the time pass that the network may take, and check that it has converged."""
        self.heal()
        self.simulation.run(self.simulation.now + bound(self.simulation))
        self.simulation.settle()
        if self.properties is not None:
            self.properties.check_owed()
            self.properties.is_damaged = False
            for node in self.simulation.nodes.values():
                for tables in (node.exchange.subscriptions, node.exchange.advertisements):
                    if tables is not None:
                        tables.repairs = 0
            for name in self.simulation.topology.nodes:
                self.properties.stepped(name)

    def probe(self, probes: Iterable[Mapping[str, Any]]) -> None:
        """At rest: everybody publishes everything, and exactly those who want it hear it."""
        for each in probes:
            self._probe_tables(Notification(each))
            for client in self.living():
                self._probe_client(client, Notification(each))

    def living(self) -> list[Client]:
        """The clients that are there."""
        return [c for c in self.simulation.clients.values() if c.is_alive]

    def _probe_client(self, publisher: Client, probe: Notification) -> None:
        before = {c.name: c.count for c in self.living()}
        publisher.publish(probe)
        self.simulation.settle()
        settings = self.simulation.settings
        may = (
            settings.advertisements is None
            or not settings.enforce
            or _any(publisher.advertisements, probe)
        )
        for client in self.living():
            heard = client.count - before[client.name]
            wanted = may and _any(client.subscriptions, probe)
            if heard != wanted:
                raise Violation(
                    f"at rest: {client.name} at {client.at} hears {publisher.name} at "
                    f"{publisher.at} publish {dict(probe)} {heard} times, not {int(wanted)}"
                )

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
    """Within so many seconds after the last fault all tables are exactly right.

    The tree has to be agreed on, leases of vanished clients have to end, a link that has been
    silent has to be tried again, digests have to be compared twice (a table that is repaired may
    be what the next one is computed from), and all that has to travel across the network.
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
    return tree + again + lease + checks + across


def _any(filters: Mapping[str, Filter], notification: Notification) -> bool:
    return any(f.matches(notification) for f in filters.values())
