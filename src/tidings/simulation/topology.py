"""Topologies: which brokers there are, which links join them, and what a link takes.

A `Topology` is a connected graph that cannot change. The generators below it build the shapes
that experiments with brokers use, from one broker alone to models of the internet; equal
arguments give equal topologies, on every machine. Pure: nothing here knows of nodes, messages or
time beyond the numbers on a link.
"""

from __future__ import annotations

import inspect
import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cached_property
from heapq import heappop, heappush
from itertools import combinations, count, islice
from random import Random
from typing import Final, NamedTuple

import msgspec

from tidings.events.errors import TidingsError


@dataclass(frozen=True)
class Link:
    """A link between two brokers, the same in both directions.

    `latency` is how many virtual seconds a message is under way; `cost` is what carrying one unit
    of message takes, the inverse of the bandwidth.
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
        """Both ends, in no order: what tells one link of a topology from the others."""
        return frozenset((self.a, self.b))

    def other(self, end: str) -> str:
        """The end that is not this one."""
        if end not in (self.a, self.b):
            raise TidingsError(f"{end!r} is no end of link {self}")
        return self.b if end == self.a else self.a


@dataclass(frozen=True)
class Topology:
    """A connected network of brokers.

    Whoever holds a topology can rely on this: names are distinct, each link joins two different
    brokers that exist, no two brokers share two links, and every broker reaches every other.
    Anything else is refused with an error that names the offender.

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
        """The number of brokers."""
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
        return self._rest(
            tuple(other for other in self.nodes if other != node),
            tuple(link for link in self.links if node not in link.ends),
            parents,
        )

    def without_link(self, a: str, b: str) -> Topology | None:
        """The network after this link was cut, or None if the rest is not connected.

        The rest is hierarchical only if the link did not join a child with its parent.
        """
        cut = self.link(a, b)
        parents = self.parents
        if parents is not None and (parents.get(a) == b or parents.get(b) == a):
            parents = None
        return self._rest(self.nodes, tuple(link for link in self.links if link != cut), parents)

    def _rest(
        self, nodes: tuple[str, ...], links: tuple[Link, ...], parents: Mapping[str, str] | None
    ) -> Topology | None:
        if not nodes or len(_reached(nodes, links)) < len(nodes):
            return None
        places = self.positions and {node: self.positions[node] for node in nodes}
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
    """How a cheapest path reaches its end."""

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
    """Each broker but one has a parent next to it, and nobody is its own ancestor."""
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

    >>> dict(hierarchical(ring(4), "b0").parents)
    {'b1': 'b0', 'b3': 'b0', 'b2': 'b1'}
    """
    tree = topology.spanning_tree(root)
    paths = tree.paths_from(root)
    parents = {node: path[-2] for node, path in paths.items() if node != root}
    return Topology(tree.nodes, tree.links, parents, tree.positions)


# Shapes without chance. -------------------------------------------------------------------------


def single() -> Topology:
    """One broker alone: the centralised service."""
    return Topology(_names(1), ())


def line(nodes: int, *, latency: float = 0.01, cost: float = 1.0) -> Topology:
    """Brokers in a row: b0 – b1 – b2 – …"""
    _at_least(1, nodes=nodes)
    return _joined(nodes, ((i, i + 1) for i in range(nodes - 1)), latency, cost)


def star(nodes: int, *, latency: float = 0.01, cost: float = 1.0) -> Topology:
    """All brokers around b0, which is one of the `nodes`."""
    _at_least(1, nodes=nodes)
    return _joined(nodes, ((0, i) for i in range(1, nodes)), latency, cost)


def ring(nodes: int, *, latency: float = 0.01, cost: float = 1.0) -> Topology:
    """Brokers in a circle, at least three."""
    _at_least(3, nodes=nodes)
    places = [_on_circle(i / nodes) for i in range(nodes)]
    return _joined(nodes, ((i, (i + 1) % nodes) for i in range(nodes)), latency, cost, places)


def grid(width: int, height: int, *, latency: float = 0.01, cost: float = 1.0) -> Topology:
    """Brokers in rows and columns, each linked with those beside, above and below it.

    >>> grid(3, 2).neighbours("b1")
    ('b0', 'b2', 'b4')
    """
    _at_least(1, width=width, height=height)
    places = [(float(x), float(y)) for y in range(height) for x in range(width)]
    right = [(i, i + 1) for i in range(width * height) if (i + 1) % width]
    down = [(i, i + width) for i in range(width * (height - 1))]
    return _joined(width * height, sorted(right + down), latency, cost, places)


def balanced(fanout: int, depth: int, *, latency: float = 0.01, cost: float = 1.0) -> Topology:
    """A tree in which every broker fewer than `depth` links from b0 has `fanout` more below it.

    >>> len(balanced(fanout=2, depth=3)), balanced(fanout=2, depth=3).neighbours("b1")
    (15, ('b0', 'b3', 'b4'))
    """
    _at_least(1, fanout=fanout)
    _at_least(0, depth=depth)
    nodes = sum(fanout**level for level in range(depth + 1))
    return _joined(nodes, (((i - 1) // fanout, i) for i in range(1, nodes)), latency, cost)


def router_tree(
    levels: int = 4, fanout: int = 3, *, latency: float = 0.01, cost: float = 1.0
) -> Topology:
    """A tree of routers r0, r1, … with local brokers l0, l1, … hanging on them.

    One local broker hangs on each router that has routers below it, and two on each other. With
    four levels and three routers below each this is the network on which Rebeca was evaluated.

    >>> network = router_tree()
    >>> len(network), network.neighbours("r0"), network.neighbours("r39")
    (107, ('r1', 'r2', 'r3', 'l0'), ('r12', 'l65', 'l66'))
    """
    _at_least(1, levels=levels, fanout=fanout)
    routers = [f"r{i}" for i in range(sum(fanout**level for level in range(levels)))]
    inner = len(routers) - fanout ** (levels - 1)
    links = [
        Link(routers[(i - 1) // fanout], routers[i], latency, cost) for i in range(1, len(routers))
    ]
    hosts = [router for i, router in enumerate(routers) for _ in range(1 if i < inner else 2)]
    links += [Link(router, f"l{i}", latency, cost) for i, router in enumerate(hosts)]
    return Topology((*routers, *(f"l{i}" for i in range(len(hosts)))), tuple(links))


# Shapes by chance. ------------------------------------------------------------------------------


def random_tree(nodes: int, seed: int, *, latency: float = 0.01, cost: float = 1.0) -> Topology:
    """A tree drawn uniformly from all trees with these names."""
    _at_least(1, nodes=nodes)
    return _joined(nodes, sorted(_tree_pairs(nodes, Random(seed))), latency, cost)


def random_graph(
    nodes: int,
    seed: int,
    extra: int | None = None,
    *,
    latency: float = 0.01,
    cost: float = 1.0,
) -> Topology:
    """The random tree of the same seed and `extra` more links, drawn uniformly.

    Unless told, there is one more for every two brokers, or as many as fit.
    """
    _at_least(1, nodes=nodes)
    rng = Random(seed)
    pairs = _tree_pairs(nodes, rng)
    taken = set(pairs)
    free = [pair for pair in combinations(range(nodes), 2) if pair not in taken]
    if extra is None:
        extra = min(nodes // 2, len(free))
    _at_least(0, extra=extra)
    if extra > len(free):
        raise TidingsError(
            f"extra: {nodes} brokers in a tree have room for {len(free)} more links, not {extra}"
        )
    return _joined(nodes, sorted(pairs + rng.sample(free, extra)), latency, cost)


def preferential(
    nodes: int, m: int, seed: int, *, latency: float = 0.01, cost: float = 1.0
) -> Topology:
    """A network that grew: each new broker links with `m` others, preferably with linked ones.

    The model of Barabási and Albert: the chance to be chosen grows with the number of links one
    has already. The first `m` + 1 brokers are a star around b0, so there are m · (nodes − m)
    links.
    """
    _at_least(1, m=m)
    _at_least(m + 1, nodes=nodes)
    rng = Random(seed)
    pairs = [(0, i) for i in range(1, m + 1)]
    ends = [end for pair in pairs for end in pair]  # each broker as often as it has links
    for new in range(m + 1, nodes):
        chosen: dict[int, None] = {}  # a set that keeps its order
        while len(chosen) < m:
            chosen[rng.choice(ends)] = None
        for old in chosen:
            pairs.append((old, new))
            ends += (old, new)
    return _joined(nodes, sorted(pairs), latency, cost)


_NEAREST_LATENCY: Final = 0.001
_LATENCY_ACROSS: Final = 0.05
"""Of one side of Waxman's square: about the width of a continent."""


def waxman(
    nodes: int, seed: int, alpha: float = 0.2, beta: float = 0.15, *, cost: float = 1.0
) -> Topology:
    """Brokers anywhere in a square, linked by chance, and rather with near ones than with far.

    Waxman's model: two brokers at distance d have a link with probability α · exp(−d / (β · D)),
    where D is the diagonal. A greater α gives more links, a greater β more long ones. Parts that
    would be unconnected are joined by the shortest links that do it. A link's latency grows with
    its length.
    """
    _at_least(1, nodes=nodes)
    for name, value in (("alpha", alpha), ("beta", beta)):
        if not 0 < value <= 1:
            raise TidingsError(f"{name} must be greater than 0 and at most 1, not {value}")
    rng = Random(seed)
    places = [(round(rng.random(), 6), round(rng.random(), 6)) for _ in range(nodes)]
    length = {(i, j): math.dist(places[i], places[j]) for i, j in combinations(range(nodes), 2)}
    reach = beta * math.sqrt(2)
    pairs = [pair for pair, d in length.items() if rng.random() < alpha * math.exp(-d / reach)]
    pairs += _joining(nodes, pairs, sorted(length, key=length.__getitem__))
    names = _names(nodes)
    links = (
        Link(
            names[i],
            names[j],
            round(_NEAREST_LATENCY + _LATENCY_ACROSS * length[i, j], 6),
            cost,
        )
        for i, j in sorted(pairs)
    )
    return Topology(names, tuple(links), positions=dict(zip(names, places, strict=True)))


class _Kind(NamedTuple):
    """What all links of one kind take."""

    latency: float
    cost: float


_IN_STUB: Final = _Kind(0.001, 1.0)
_TO_STUB: Final = _Kind(0.005, 2.0)
_IN_TRANSIT: Final = _Kind(0.01, 4.0)
_BETWEEN_TRANSITS: Final = _Kind(0.04, 8.0)
_DENSITY_OF_TRANSITS: Final = 0.4  # of the pairs in a domain that its tree leaves unlinked
_DENSITY_OF_STUBS: Final = 0.2


def transit_stub(
    transit_domains: int,
    transit_nodes: int,
    stubs_per_transit: int,
    stub_nodes: int,
    seed: int,
) -> Topology:
    """A network of networks: stubs at the edge, joined through transit domains in the middle.

    The model of Zegura, Calvert and Bhattacharjee. There are `transit_domains` of `transit_nodes`
    brokers each, every one of which serves `stubs_per_transit` stub domains of `stub_nodes`
    brokers; a stub has one link to the broker that serves it, so traffic inside a domain never
    leaves it. Links are fast and cheap in a stub, slower to its transit broker and in a transit
    domain, and slowest between transit domains. The transit brokers come first, domain by domain.
    """
    _at_least(1, transit_domains=transit_domains, transit_nodes=transit_nodes)
    _at_least(0, stubs_per_transit=stubs_per_transit)
    _at_least(1, stub_nodes=stub_nodes)
    rng = Random(seed)
    fresh = count()
    kinds: dict[tuple[int, int], _Kind] = {}

    def domain(size: int, density: float, kind: _Kind) -> list[int]:
        members = list(islice(fresh, size))
        for i, j in _dense_pairs(size, density, rng):
            kinds[members[i], members[j]] = kind
        return members

    transits = [
        domain(transit_nodes, _DENSITY_OF_TRANSITS, _IN_TRANSIT) for _ in range(transit_domains)
    ]
    for i, j in _dense_pairs(transit_domains, _DENSITY_OF_TRANSITS, rng):
        kinds[rng.choice(transits[i]), rng.choice(transits[j])] = _BETWEEN_TRANSITS
    for transit in (broker for members in transits for broker in members):
        for _ in range(stubs_per_transit):
            stub = domain(stub_nodes, _DENSITY_OF_STUBS, _IN_STUB)
            kinds[transit, rng.choice(stub)] = _TO_STUB
    names = _names(next(fresh))
    return Topology(names, tuple(Link(names[i], names[j], *kinds[i, j]) for i, j in sorted(kinds)))


# What the generators are made of. ---------------------------------------------------------------


def _names(nodes: int) -> tuple[str, ...]:
    return tuple(f"b{i}" for i in range(nodes))


def _joined(
    nodes: int,
    pairs: Iterable[tuple[int, int]],
    latency: float,
    cost: float,
    places: list[tuple[float, float]] | None = None,
) -> Topology:
    """A topology whose links all take the same."""
    names = _names(nodes)
    links = tuple(Link(names[i], names[j], latency, cost) for i, j in pairs)
    positions = None if places is None else dict(zip(names, places, strict=True))
    return Topology(names, links, positions=positions)


def _on_circle(turn: float) -> tuple[float, float]:
    """Clockwise from the top; rounded because machines differ in a sine's last digit."""
    angle = 2 * math.pi * turn
    return round(math.sin(angle), 6), round(-math.cos(angle), 6)


def _at_least(least: int, **parameters: int) -> None:
    for name, value in parameters.items():
        if value < least:
            raise TidingsError(f"{name} must be at least {least}, not {value}")


def _tree_pairs(nodes: int, rng: Random) -> list[tuple[int, int]]:
    """A uniformly drawn tree: each is the meaning of exactly one of Prüfer's sequences.

    A sequence names, for one leaf after another, the neighbour from which the least leaf that is
    left is plucked.
    """
    if nodes < 2:
        return []
    sequence = [rng.randrange(nodes) for _ in range(nodes - 2)]
    degree = [1] * nodes
    for node in sequence:
        degree[node] += 1
    leaves = [node for node in range(nodes) if degree[node] == 1]  # sorted, therefore a heap
    pairs = []
    for node in sequence:
        leaf = heappop(leaves)
        pairs.append((min(leaf, node), max(leaf, node)))
        degree[node] -= 1
        if degree[node] == 1:
            heappush(leaves, node)
    pairs.append((heappop(leaves), heappop(leaves)))
    return pairs


def _dense_pairs(nodes: int, density: float, rng: Random) -> list[tuple[int, int]]:
    """A random tree, and each other pair with this probability."""
    tree = set(_tree_pairs(nodes, rng))
    return [
        pair for pair in combinations(range(nodes), 2) if pair in tree or rng.random() < density
    ]


def _joining(
    nodes: int, pairs: Iterable[tuple[int, int]], candidates: Iterable[tuple[int, int]]
) -> list[tuple[int, int]]:
    """The first candidates that join what the pairs leave unconnected (Kruskal)."""
    above = list(range(nodes))

    def part(node: int) -> int:
        while above[node] != node:
            above[node] = above[above[node]]
            node = above[node]
        return node

    for i, j in pairs:
        above[part(i)] = part(j)
    joining = []
    for i, j in candidates:
        if part(i) != part(j):
            above[part(i)] = part(j)
            joining.append((i, j))
    return joining


# By name, for scenario files. -------------------------------------------------------------------

GENERATORS: Final[dict[str, Callable[..., Topology]]] = {
    generator.__name__: generator
    for generator in (
        single,
        line,
        star,
        balanced,
        router_tree,
        random_tree,
        ring,
        random_graph,
        waxman,
        transit_stub,
        preferential,
        grid,
    )
}
"""The generators by the names that a scenario file calls them."""


def topology(kind: str, **parameters: object) -> Topology:
    """The topology that a generator makes of these parameters.

    A kind that does not exist, and a parameter that is unknown, missing, or of the wrong type or
    size, is reported by name, together with what would be right.

    >>> topology("waxman", nodes=100, seed=1).nodes[-1]
    'b99'
    >>> topology("line", node=5)
    Traceback (most recent call last):
    tidings.events.errors.TidingsError: topology 'line': unknown parameter 'node', did you mean \
'nodes'? It takes nodes, latency (0.01), cost (1.0)
    """
    generator = GENERATORS.get(kind)
    if generator is None:
        raise TidingsError(
            f"unknown topology {kind!r}{_nearest(kind, GENERATORS)} "
            f"There are {', '.join(GENERATORS)}"
        )
    signature = inspect.signature(generator, eval_str=True)
    fault = _fault(signature, parameters)
    if fault is not None:
        raise TidingsError(f"topology {kind!r}: {fault} It takes {_spelt(signature)}")
    try:
        return generator(**parameters)
    except TidingsError as error:
        raise TidingsError(f"topology {kind!r}: {error}") from None


def _fault(signature: inspect.Signature, given: Mapping[str, object]) -> str | None:
    """What is wrong with the parameters, if anything is."""
    takes = signature.parameters
    for name in given:
        if name not in takes:
            return f"unknown parameter {name!r}{_nearest(name, takes)}"
    for name, parameter in takes.items():
        if name not in given:
            if parameter.default is parameter.empty:
                return f"parameter {name!r} is missing."
            continue
        try:
            msgspec.convert(given[name], parameter.annotation)
        except msgspec.ValidationError as error:
            return f"parameter {name!r}: {error}."
    return None


def _nearest(name: str, names: Iterable[str]) -> str:
    """The end of a sentence about an unknown name."""
    near = get_close_matches(name, list(names), n=1)
    return f", did you mean {near[0]!r}?" if near else "."


def _spelt(signature: inspect.Signature) -> str:
    """The parameters, each with what it is if nothing is said.

    >>> _spelt(inspect.signature(random_tree))
    'nodes, seed, latency (0.01), cost (1.0)'
    """
    return (
        ", ".join(
            name if p.default is p.empty else f"{name} ({p.default})"
            for name, p in signature.parameters.items()
        )
        or "none"
    )
