"""What a link failure costs, depending on how long a broker waits for a lost neighbour.

Z. Shen, S. Tirthapura, "Self-Stabilizing Routing in Publish-Subscribe Systems", DEBS 2004. The
horizontal axis of its figures, the alphabet of its strings and the threshold of its adaptive
strategy are not in the text; here the axis is the length of the outage, and two alphabets are
tried: 26 letters, the obvious reading (by --full only, since it takes long), and 6, chosen by us
because there the cost of withdrawing subscriptions and that of a second of wasted events under
heavy load are alike, so that patience can matter at all. That 6 comes nearer to the paper is
therefore no confirmation of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from random import Random
from string import ascii_lowercase
from typing import ClassVar, Final

from tidings.experiments.compare import Finding
from tidings.experiments.experiment import Experiment, Panel, Point, Results
from tidings.node import Settings
from tidings.simulation import Client, Simulation, Topology
from tidings.simulation.topology import random_tree
from tidings.workloads.conditions import Equal, filter_of

SHEN: Final = "Shen and Tirthapura 2004"
ROUTERS: Final = 100
PATTERNS: Final = 20
"""Subscriptions at each router."""
LIGHT, HEAVY = 5.0, 0.1
"""Seconds between two events of a router."""
STRATEGIES: Final = {
    "strawman": "strawman",
    "static 3 s": "static:3",
    "static 10 s": "static:10",
    "adaptive": "adaptive:100",
}
FAILURES: Final = 3
"""Links that fail one after the other in one measurement: it matters much which one does."""
_DRAIN: Final = 0.2
"""Seconds in which an event reaches everybody."""


class OutagePoint(Point, frozen=True, kw_only=True):
    """How patient brokers are, how often a router publishes, and how long a link is down."""

    strategy: str
    letters: int
    interval: float
    outage: float


class Outages(Experiment[OutagePoint]):
    """What one link failure costs in a tree of 100 routers.

    Events and subscriptions are random strings of three letters; each router has 20 of them. When
    a link fails, a broker can drop at once what its lost neighbour wanted (*strawman*), after a
    fixed time (*static*), or when a hundred events have waited for it (*adaptive*). Dropping costs
    the unsubscriptions that spread on either side, and the subscriptions that spread again once
    the link is back. Not dropping costs the events that travel to the broken link in vain: those
    hops that a network without the lost side would not have made. The cost is their sum, in hops.
    Subscriptions do not change during the outage, so that all of them are the failure's doing.

    The paper does not give its alphabet, its outages or its threshold. The alphabet of 6 letters
    was chosen by us, as one in which patience can matter either way; with 26, hardly an event is
    wanted by anybody. Which strategy is best depends on the outages that are summed over.
    """

    name = "self-stabilisation"
    title = "The cost of a link failure, for four kinds of patience"
    source = f"{SHEN}, evaluation"
    runs = 3
    quantities: ClassVar[Mapping[str, str]] = {
        "cost": "hops of (un)subscriptions and of unwanted events, for one failure",
        "subscription hops": "of these, (un)subscriptions",
        "event hops": "of these, unwanted events",
    }
    panels = tuple(
        Panel(
            quantity="cost",
            x="outage",
            title=f"{load} load: an event every {interval:g} s at each router, {letters} letters",
            x_label="outage in seconds",
            y_label="hops for one link failure",
            where={"interval": interval, "letters": letters},
        )
        for letters in (6, 26)
        for load, interval in (("light", LIGHT), ("heavy", HEAVY))
    )

    def points(self, *, full: bool) -> Sequence[OutagePoint]:
        some: dict[tuple[int, float], tuple[float, ...]] = {
            (6, LIGHT): (2.0, 5.0, 8.0, 15.0),
            (6, HEAVY): (0.5, 2.0, 5.0),
        }
        every = (1.0, 2.0, 5.0, 8.0, 12.0, 20.0, 30.0)
        if full:
            some = {(letters, load): every for letters in (6, 26) for load in (LIGHT, HEAVY)}
        return [
            OutagePoint(strategy=strategy, letters=letters, interval=interval, outage=outage)
            for (letters, interval), outages in some.items()
            for strategy in STRATEGIES
            for outage in outages
        ]

    def weight(self, point: OutagePoint) -> float:
        return (10 + point.outage / point.interval) * point.letters

    def measure(self, point: OutagePoint, seed: int) -> Mapping[str, float]:
        # The tree, the failure and all strings are those of the run: strategies share them.
        rng = Random(f"{point.run} {point.letters} {point.interval}")
        network = _Network(point.letters, STRATEGIES[point.strategy], rng, seed)
        failed = rng.sample(network.topology.links, FAILURES)
        costs = [network.fail(link.a, link.b, point.outage, point.interval) for link in failed]
        subscriptions, events = (sum(kind) / FAILURES for kind in zip(*costs, strict=True))
        return {
            "cost": subscriptions + events,
            "subscription hops": subscriptions,
            "event hops": events,
        }

    def findings(self, results: Results) -> Sequence[Finding]:
        return [
            finding
            for letters in sorted({s.parameters["letters"] for s in results.summaries})
            for finding in _findings(results, letters)
        ]


class _Network:
    """A tree of routers that all have their subscriptions."""

    def __init__(self, letters: int, grace: str, rng: Random, seed: int) -> None:
        self._letters = ascii_lowercase[:letters]
        self._rng = rng
        self.topology: Topology = random_tree(ROUTERS, rng.getrandbits(32), latency=0.001)
        settings = Settings(at_most_once=True, subscriptions="identity", grace=grace, delay=0.01)
        self._sim = Simulation(self.topology, settings, seed=seed)
        self._sim.settle()
        self._wanted_at: dict[str, set[str]] = {}
        self._clients: list[Client] = []
        self._paths_from: dict[str, Mapping[str, tuple[tuple[str, str], ...]]] = {}
        for router in self.topology.nodes:
            client = self._sim.client(f"client of {router}", at=router)
            client.keeps = False
            self._clients.append(client)
            texts = [self._string() for _ in range(PATTERNS)]
            for text in texts:
                self._wanted_at.setdefault(text, set()).add(router)
            client.want(filter_of((Equal("text", text),)) for text in texts)
            self._sim.settle()

    def _string(self) -> str:
        return "".join(self._rng.choices(self._letters, k=3))

    def fail(self, a: str, b: str, outage: float, interval: float) -> tuple[int, int]:
        """Cut a link for so long: the hops of subscriptions, and those of unwanted events.

        Publishing pauses at the end, so that no event is on its way when the link is back.
        """
        sim, side = self._sim, _side(self.topology, a, b)
        sim.traffic.reset()
        sim.fail_link(a, b)
        needed = 0
        began = sim.now
        for when, client in self._publications(outage, interval):
            sim.run(began + when)
            text = self._string()
            client.publish({"text": text})
            here = self._wanted_at.get(text, set())
            near = here & side if client.at in side else here - side
            needed += self._hops(client.at, near)
        sim.run(began + outage + _DRAIN)
        events = sim.traffic.events - needed
        sim.restore_link(a, b)
        sim.settle()
        return sim.traffic.filters, events

    def _publications(self, outage: float, interval: float) -> list[tuple[float, Client]]:
        """When which client publishes: each as a Poisson process."""
        found: list[tuple[float, Client]] = []
        for client in self._clients:
            when = self._rng.expovariate(1 / interval)
            while when < outage:
                found.append((when, client))
                when += self._rng.expovariate(1 / interval)
        return sorted(found, key=lambda publication: publication[0])

    def _hops(self, source: str, targets: set[str]) -> int:
        """Links of the smallest tree that joins a router with others."""
        paths = self._paths(source)
        return len({link for target in targets for link in paths[target]})

    def _paths(self, source: str) -> Mapping[str, tuple[tuple[str, str], ...]]:
        found = self._paths_from.get(source)
        if found is None:
            ways = self.topology.paths_from(source)
            found = {to: tuple(pairwise(way)) for to, way in ways.items()}
            self._paths_from[source] = found
        return found


def _side(topology: Topology, a: str, b: str) -> set[str]:
    """The routers that are on the side of `a` when its link with `b` is down."""
    return {node for node, way in topology.paths_from(a).items() if b not in way}


def _findings(results: Results, letters: int) -> Sequence[Finding]:
    """What the paper says in words, for one alphabet."""
    unknown = (
        f"The paper does not say of how many letters its strings are. With {letters} there are"
        f" {letters**3:,} of them: the more, the more subscriptions are unique and have to be"
        " withdrawn and made again, and the fewer events travel in vain."
    )

    def costs(interval: float) -> dict[str, float]:
        """Of each strategy, over all outages."""
        return {
            strategy: sum(
                s.mean
                for s in results.where(
                    "cost", strategy=strategy, interval=interval, letters=letters
                )
            )
            for strategy in STRATEGIES
        }

    def told(found: Mapping[str, float]) -> str:
        return f"{letters} letters, summed over all outages: " + ", ".join(
            f"{name} {cost:,.0f}" for name, cost in found.items()
        )

    light, heavy = costs(LIGHT), costs(HEAVY)
    return [
        Finding(
            claim="under heavy load, strawman costs least and adaptive little more",
            source=SHEN,
            holds=min(heavy, key=heavy.__getitem__) == "strawman"
            and heavy["adaptive"] < min(heavy["static 3 s"], heavy["static 10 s"]),
            evidence=told(heavy),
            why_not=unknown,
        ),
        Finding(
            claim="under light load, adaptive and static 10 s cost alike, and far less than"
            " strawman and static 3 s",
            source=SHEN,
            holds=max(light["adaptive"], light["static 10 s"])
            < 0.75 * min(light["strawman"], light["static 3 s"]),
            evidence=told(light),
            why_not=unknown,
        ),
    ]
