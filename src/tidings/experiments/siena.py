"""Siena's comparison of architectures: what a request costs as more parties are interested.

A. Carzaniga, D. S. Rosenblum, A. L. Wolf, "Design of a Scalable Event Notification Service:
Interface and Architecture", University of Colorado 1998, section on simulation, figure 11. The
plotted values and most parameters are not in the text, so only its findings can be checked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import ClassVar, Final

from tidings.events import Filter
from tidings.experiments.compare import Finding
from tidings.experiments.experiment import Experiment, Panel, Point, Results
from tidings.node import Settings
from tidings.simulation import Client, Link, Simulation, Topology
from tidings.simulation.topology import hierarchical, transit_stub
from tidings.workloads.conditions import Equal, filter_of

SIENA: Final = "Carzaniga and others 1998"
ARCHITECTURES: Final = {
    "centralised": "ce: all parties use one server",
    "hierarchical": "hs: subscriptions go up a hierarchy, events up and down it",
    "acyclic": "as: peers in a tree, subscriptions forwarded everywhere",
    "acyclic, advertised": "aa: peers in a tree, subscriptions forwarded towards publishers",
}
OBJECTS: Final = 20
"""Objects of interest: each publishes what happens to it."""
_SECONDS: Final = 60.0
_BETWEEN_EVENTS: Final = 2.0
"""Seconds between two events of an object, on average."""
_BETWEEN_CHANGES: Final = 20.0
"""Seconds until a party subscribes or unsubscribes, on average."""


class SienaPoint(Point, frozen=True, kw_only=True):
    """An architecture, and how many parties are interested."""

    architecture: str
    parties: int


class Scalability(Experiment[SienaPoint]):
    """What a service request costs in four architectures, on random networks of 100 sites.

    The networks are transit-stub graphs; a link's cost is the inverse of its bandwidth, and what
    a request costs is the sum over all messages it causes of the links they travel. Parties and
    objects are at random sites. Each party wants to hear of one object, and now and then (a
    Poisson process) starts or stops listening; half listen at a time. Each object publishes, as a
    Poisson process too. A request is a subscription, an unsubscription, an advertisement or a
    publication. Every site has a server, so that a client and its server are at no distance, but
    for the centralised architecture, whose one server is at the site that is nearest to all.
    """

    name = "siena-scalability"
    title = "The cost of a request against the number of interested parties"
    source = f"{SIENA}, figure 11"
    runs = 3
    quantities: ClassVar[Mapping[str, str]] = {
        "cost": "cost of all messages, divided by the number of requests",
        "busiest": "share of all messages to servers that the busiest one receives",
    }
    panels = (
        Panel(
            quantity="cost",
            x="parties",
            title="cost of a request",
            x_label="interested parties",
            y_label="cost of messages for one request (1 / bandwidth)",
            log_x=True,
        ),
        Panel(
            quantity="busiest",
            x="parties",
            title="load of the busiest server",
            x_label="interested parties",
            y_label="share of all messages to servers",
            log_x=True,
        ),
    )

    def points(self, *, full: bool) -> Sequence[SienaPoint]:
        sizes = (1, 3, 10, 30, 100, 300, 1_000, 3_000) if full else (3, 10, 30, 100, 300, 1_000)
        return [
            SienaPoint(architecture=architecture, parties=parties)
            for architecture in ARCHITECTURES
            for parties in sizes
        ]

    def weight(self, point: SienaPoint) -> float:
        return point.parties

    def measure(self, point: SienaPoint, seed: int) -> Mapping[str, float]:
        # The network and the places are those of the run, so that all architectures share them.
        network = transit_stub(1, 4, 3, 8, seed=point.run)
        rng = Random(f"{point.run} {point.parties}")
        places = {f"object {n}": rng.choice(network.nodes) for n in range(OBJECTS)}
        places |= {f"party {n}": rng.choice(network.nodes) for n in range(point.parties)}
        return _Market(point.architecture, network, places, seed).run()

    def findings(self, results: Results) -> Sequence[Finding]:
        sizes = sorted({s.parameters["parties"] for s in results.summaries})
        few, many = sizes[0], sizes[-1]

        def of(quantity: str, architecture: str, parties: int) -> float:
            return results.mean(quantity, architecture=architecture, parties=parties)

        distributed = [name for name in ARCHITECTURES if name != "centralised"]
        ratios = {
            name: [of("cost", "centralised", n) / of("cost", name, n) for n in (few, many)]
            for name in distributed
        }
        return [
            Finding(
                claim="with many parties, every distributed architecture costs less than a"
                " centralised one",
                source=f"{SIENA}, figure 11",
                holds=all(last > 1 for _, last in ratios.values()),
                evidence=f"at {many:,} parties "
                + ", ".join(f"{of('cost', name, many):.3g} {name}" for name in ARCHITECTURES),
            ),
            Finding(
                claim="the advantage of distribution grows with the number of parties",
                source=f"our reading of {SIENA}, figure 11",
                holds=all(last > first for first, last in ratios.values()),
                why_not="The mixture of requests is not in the text. Here, with few parties nearly"
                " all requests are publications that nobody listens to: peers do not send them"
                " anywhere, while a central server is told of each.",
                evidence=", ".join(
                    f"centralised costs {first:.2g} times as much as {name} at {few}, {last:.2g}"
                    f" times at {many:,}"
                    for name, (first, last) in ratios.items()
                ),
            ),
            Finding(
                claim="a hierarchy burdens its top more than peers burden any of them",
                source=f"{SIENA}, on load",
                holds=all(
                    of("busiest", "hierarchical", n) > of("busiest", name, n)
                    for n in sizes
                    for name in distributed
                    if name != "hierarchical"
                ),
                evidence=", ".join(
                    f"{of('busiest', name, n):.1%} {name} at {n:,}"
                    for n in (few, many)
                    for name in distributed
                ),
            ),
        ]


class _Market:
    """One network with its parties and objects."""

    def __init__(
        self, architecture: str, network: Topology, places: Mapping[str, str], seed: int
    ) -> None:
        self._advertised = architecture == "acyclic, advertised"
        middle = min(network.nodes, key=lambda node: sum(network.costs_from(node).values()))
        if architecture == "centralised":
            topology = _everybody_at(network, middle, places)
            self._servers: Sequence[str] = (middle,)
        elif architecture == "hierarchical":
            topology = hierarchical(network, middle)
        else:
            topology = network.spanning_tree(middle)
        if architecture != "centralised":
            self._servers = topology.nodes
        settings = Settings(
            at_most_once=True,
            subscriptions="covering",
            advertisements="covering" if self._advertised else None,
        )
        self._rng = Random(seed)
        self._sim = Simulation(topology, settings, seed=seed)
        self._sim.settle()
        self._sim.traffic.reset()
        self._requests = 0
        at_home = architecture == "centralised"
        clients = {
            name: self._sim.client(name, at=name if at_home else place)
            for name, place in places.items()
        }
        self._objects = [client for name, client in clients.items() if name.startswith("object")]
        self._parties = [client for name, client in clients.items() if name.startswith("party")]

    def run(self) -> dict[str, float]:
        """Let them make requests; what that cost, and the busiest server's share of it."""
        if self._advertised:
            for number, object in enumerate(self._objects):
                self._requests += 1
                object.advertise(_about(number))
        self._sim.settle()
        for number, object in enumerate(self._objects):
            self._later(_BETWEEN_EVENTS, self._publish, object, number)
        for party in self._parties:
            interest = self._rng.randrange(OBJECTS)
            if self._rng.random() < 0.5:
                self._change(party, interest)
            else:
                self._later(_BETWEEN_CHANGES, self._change, party, interest)
        self._sim.run(self._sim.now + _SECONDS)
        traffic, topology = self._sim.traffic, self._sim.topology
        cost = sum(n * topology.link(*ends).cost for ends, n in traffic.by_link.items())
        received = [traffic.by_node[server] for server in self._servers]
        return {
            "cost": cost / self._requests,
            "busiest": max(received) / max(1, sum(received)),
        }

    def _later(
        self, mean: float, what: Callable[[Client, int], None], client: Client, number: int
    ) -> None:
        self._sim.at(self._sim.now + self._rng.expovariate(1 / mean), what, client, number)

    def _publish(self, object: Client, number: int) -> None:
        self._requests += 1
        object.publish({"object": str(number)})
        self._later(_BETWEEN_EVENTS, self._publish, object, number)

    def _change(self, party: Client, interest: int) -> None:
        self._requests += 1
        if party.subscriptions:
            party.unsubscribe(next(iter(party.subscriptions)))
        else:
            party.subscribe(_about(interest))
        self._later(_BETWEEN_CHANGES, self._change, party, interest)


def _about(number: int) -> Filter:
    return filter_of((Equal("object", str(number)),))


def _everybody_at(network: Topology, middle: str, places: Mapping[str, str]) -> Topology:
    """One server, and every client at the distance of its site from it.

    A client is a leaf of a hierarchy of its own, so that each of its messages travels alone.
    """
    cost = network.costs_from(middle)
    links = tuple(Link(name, middle, cost=cost[place]) for name, place in places.items())
    return Topology((middle, *places), links, dict.fromkeys(places, middle))
