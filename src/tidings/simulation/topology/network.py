"""A network: brokers, the links between them, and the paths along those links."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from heapq import heappop, heappush
from itertools import islice
from typing import NamedTuple

from tidings.events.errors import TidingsError


@dataclass(frozen=True)
class Link:
    """A link between two brokers, the same in both directions.

    `latency` is how many virtual seconds a message is under way; `cost` is what one unit of message
    takes to carry, the inverse of the bandwidth.
    """

    a: str
    b: str
    latency: float = 0.01
    cost: float = 1.0

    def __post_init__(self) -> None:
        if self.a == self.b:
            raise TidingsError(f"link {self}: a broker cannot be linked with itself")
        for name, value in (("latency", self.latency), ("cost", self.cost)):
            if not 0 <= value < math.inf:
                raise TidingsError(
                    f"link {self}: {name} must be a finite number from 0 up, not {value}"
                )

    def __str__(self) -> str:
        return f"{self.a} – {self.b}"

    @property
    def ends(self) -> frozenset[str]:
        """Both ends, in no order; no two links of a topology have the same ones."""
        return frozenset((self.a, self.b))

    def other(self, end: str) -> str:
        """The end that is not this one."""
        if end not in (self.a, self.b):
            raise TidingsError(f"{end!r} is no end of link {self}")
        return self.b if end == self.a else self.a


@dataclass(frozen=True)
class Topology:
    """A connected network of brokers.

    Names are distinct, each link joins two different brokers that exist, no two brokers share two
    links, and every broker reaches every other. Anything else is refused with an error that names
    the offender.

    `parents`, of a hierarchical network, leads each broker but one to a neighbour that is nearer
    to that one, the `root`. `positions`, if given, is where to draw each broker: x grows to the
    right and y downwards, in any unit.

    >>> network = Topology(("a", "b", "c"), (Link("a", "b"), Link("c", "b", cost=3)))
    >>> network.neighbours("b"), network.is_tree, network.diameter
    (('a', 'c'), True, 2)
    >>> network.costs_from("a")
    {'a': 0.0, 'b': 1.0, 'c': 4.0}
    """

    nodes: tuple[str, ...]
    links: tuple[Link, ...]
    parents: Mapping[str, str] | None = field(default=None, hash=False)
    positions: Mapping[str, tuple[float, float]] | None = field(default=None, hash=False)

    def __post_init__(self) -> None:
        # Copies, so that nobody else holds what this topology is made of.
        object.__setattr__(self, "nodes", tuple(self.nodes))
        object.__setattr__(self, "links", tuple(self.links))
        _check_nodes(self.nodes)
        _check_links(self.nodes, self.links)
        reached = _reached(self.nodes, self.links)
        if lost := [node for node in self.nodes if node not in reached]:
            raise TidingsError(f"not connected: no path leads from {self.nodes[0]} to {lost[0]}")
        if self.parents is not None:
            object.__setattr__(self, "parents", dict(self.parents))
            _check_parents(self)
        if self.positions is not None:
            object.__setattr__(self, "positions", dict(self.positions))
            _check_positions(self.nodes, self.positions)

    def __contains__(self, node: object) -> bool:
        return node in self._places

    def __len__(self) -> int:
        return len(self.nodes)

    def neighbours(self, node: str) -> tuple[str, ...]:
        """The brokers that have a link with this one, in the order of `nodes`."""
        return tuple(self._adjacent(node))

    def link(self, a: str, b: str) -> Link:
        """The link between two brokers; either may be named first."""
        found = self._adjacent(a).get(b)
        if found is None:
            self._adjacent(b)  # says so if there is no such broker
            raise TidingsError(f"there is no link {a} – {b}")
        return found

    @property
    def root(self) -> str | None:
        """The broker without a parent, if the network is hierarchical."""
        if self.parents is None:
            return None
        return next(node for node in self.nodes if node not in self.parents)

    @property
    def is_tree(self) -> bool:
        """Whether exactly one path leads from each broker to each other."""
        return len(self.links) == len(self.nodes) - 1

    @cached_property
    def diameter(self) -> int:
        """The number of links between the two brokers that are farthest apart."""
        return max(max(self.hops_from(node).values()) for node in self.nodes)

    def hops_from(self, node: str) -> dict[str, int]:
        """How many links away each broker is, nearest first."""
        self._adjacent(node)
        hops = {node: 0}
        waiting = deque([node])
        while waiting:
            here = waiting.popleft()
            for there in self._adjacent(here):
                if there not in hops:
                    hops[there] = hops[here] + 1
                    waiting.append(there)
        return hops

    def costs_from(self, node: str) -> dict[str, float]:
        """What the cheapest path to each broker costs, cheapest first."""
        return {step.node: step.cost for step in self._cheapest(node)}

    def paths_from(self, node: str) -> dict[str, tuple[str, ...]]:
        """The cheapest path to each broker, both ends included, cheapest first.

        Among paths of equal cost the one with fewer links is taken, and among those the one whose
        last broker but one comes first in `nodes`.
        """
        paths: dict[str, tuple[str, ...]] = {}
        for step in self._cheapest(node):
            before = () if step.previous is None else paths[step.previous]
            paths[step.node] = (*before, step.node)
        return paths

    def spanning_tree(self, root: str) -> Topology:
        """The tree of the cheapest paths from the root; ties are broken as in `paths_from`."""
        used = {
            frozenset((step.node, step.previous))
            for step in self._cheapest(root)
            if step.previous is not None
        }
        links = tuple(link for link in self.links if link.ends in used)
        return Topology(self.nodes, links, positions=self.positions)

    def without(self, node: str) -> Topology | None:
        """The network after this broker left it, or None if the rest is not connected.

        The rest is hierarchical only if the broker was nobody's parent.
        """
        self._adjacent(node)
        parents = self.parents
        if parents is not None:
            kept = {child: parent for child, parent in parents.items() if child != node}
            parents = None if node in kept.values() else kept
        nodes = tuple(other for other in self.nodes if other != node)
        links = tuple(link for link in self.links if node not in link.ends)
        if not nodes or len(_reached(nodes, links)) < len(nodes):
            return None
        places = self.positions and {other: self.positions[other] for other in nodes}
        return Topology(nodes, links, parents, places)

    @cached_property
    def _places(self) -> dict[str, int]:
        return {node: place for place, node in enumerate(self.nodes)}

    @cached_property
    def _adjacency(self) -> dict[str, dict[str, Link]]:
        """For each broker its neighbours, in the order of `nodes`, with the links to them."""
        found: dict[str, dict[str, Link]] = {node: {} for node in self.nodes}
        for link in self.links:
            found[link.a][link.b] = link
            found[link.b][link.a] = link
        place = self._places
        return {
            node: {other: links[other] for other in sorted(links, key=place.__getitem__)}
            for node, links in found.items()
        }

    def _adjacent(self, node: str) -> dict[str, Link]:
        try:
            return self._adjacency[node]
        except KeyError:
            raise TidingsError(f"there is no broker {node!r}") from None

    def _cheapest(self, source: str) -> Iterator[_Step]:
        """The last steps of the cheapest paths to all brokers, cheapest first (Dijkstra).

        A candidate is ordered by cost, then by links, then by the place of its last broker but
        one. That one was settled earlier because it has a link less, so all candidates of equal
        cost and length are known before the first of them is taken.
        """
        self._adjacent(source)
        place = self._places
        settled: set[int] = set()
        waiting: list[tuple[float, int, int, int]] = [(0.0, 0, -1, place[source])]
        while waiting:
            cost, hops, before, here = heappop(waiting)
            if here in settled:
                continue
            settled.add(here)
            yield _Step(self.nodes[here], cost, self.nodes[before] if before >= 0 else None)
            for other, link in self._adjacency[self.nodes[here]].items():
                if place[other] not in settled:
                    heappush(waiting, (cost + link.cost, hops + 1, here, place[other]))


class _Step(NamedTuple):
    """The last step of a cheapest path: where it ends, at what cost, and from where."""

    node: str
    cost: float
    previous: str | None


def _check_nodes(nodes: tuple[str, ...]) -> None:
    if not nodes:
        raise TidingsError("a topology needs at least one broker")
    seen: set[str] = set()
    for node in nodes:
        if node in seen:
            raise TidingsError(f"two brokers are named {node!r}")
        seen.add(node)


def _check_links(nodes: tuple[str, ...], links: tuple[Link, ...]) -> None:
    known = set(nodes)
    seen: set[frozenset[str]] = set()
    for link in links:
        for end in (link.a, link.b):
            if end not in known:
                raise TidingsError(f"link {link}: there is no broker {end!r}")
        if link.ends in seen:
            raise TidingsError(f"link {link}: these two brokers already have a link")
        seen.add(link.ends)


def _check_parents(topology: Topology) -> None:
    """Refuse parents unless each broker but one has a neighbour as parent, without circles."""
    parents = topology.parents or {}
    for child, parent in parents.items():
        if child not in topology:
            raise TidingsError(f"parents: there is no broker {child!r}")
        if parent not in topology.neighbours(child):
            raise TidingsError(f"parents: {child} has no link with its parent {parent!r}")
    roots = [node for node in topology.nodes if node not in parents]
    if len(roots) > 1:
        raise TidingsError(f"parents: {roots[0]} and {roots[1]} both have none; one root may")
    rooted = set(roots)
    for node in topology.nodes:
        way: dict[str, None] = {}
        while node not in rooted:
            if node in way:
                raise TidingsError(f"parents: {node} is its own ancestor")
            way[node] = None
            node = parents[node]
        rooted.update(way)


def _check_positions(nodes: tuple[str, ...], positions: Mapping[str, tuple[float, float]]) -> None:
    for node in nodes:
        if node not in positions:
            raise TidingsError(f"positions: broker {node} has none, and all or no brokers must")
        if not all(map(math.isfinite, positions[node])):
            raise TidingsError(f"positions: {node} is not at a finite place: {positions[node]}")
    known = set(nodes)
    for node in positions:
        if node not in known:
            raise TidingsError(f"positions: there is no broker {node!r}")


def _reached(nodes: Iterable[str], links: Iterable[Link]) -> set[str]:
    """The brokers that have a path from the first one."""
    adjacent: dict[str, list[str]] = {node: [] for node in nodes}
    for link in links:
        adjacent[link.a].append(link.b)
        adjacent[link.b].append(link.a)
    waiting = list(islice(adjacent, 1))
    reached = set(waiting)
    while waiting:
        for node in adjacent[waiting.pop()]:
            if node not in reached:
                reached.add(node)
                waiting.append(node)
    return reached


def hierarchical(topology: Topology, root: str) -> Topology:
    """The tree of the cheapest paths from the root, with each broker's parent on its path.

    >>> from tidings.simulation.topology import ring
    >>> dict(hierarchical(ring(4), "b0").parents)
    {'b1': 'b0', 'b3': 'b0', 'b2': 'b1'}
    """
    tree = topology.spanning_tree(root)
    paths = tree.paths_from(root)
    parents = {node: path[-2] for node, path in paths.items() if node != root}
    return Topology(tree.nodes, tree.links, parents, tree.positions)
