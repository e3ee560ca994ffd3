"""Shapes by chance: a seed decides which network of its kind each generator makes."""

from __future__ import annotations

import math
from collections.abc import Iterable
from heapq import heappop, heappush
from itertools import combinations, count, islice
from random import Random
from typing import Final, NamedTuple

from tidings.events.errors import TidingsError
from tidings.simulation.topology.network import Link, Topology
from tidings.simulation.topology.shapes import at_least, joined, numbered

# By hand, because recorded seeds must go on making the same networks. Of a seed, networkx makes the
# same trees and no other of these; for the trees alone it is too much to install.


def random_tree(nodes: int, seed: int, *, latency: float = 0.01, cost: float = 1.0) -> Topology:
    """A tree drawn uniformly from all trees with these names."""
    at_least(1, nodes=nodes)
    return joined(nodes, sorted(_tree_pairs(nodes, Random(seed))), latency, cost)


def random_graph(
    nodes: int,
    seed: int,
    extra: int | None = None,
    *,
    latency: float = 0.01,
    cost: float = 1.0,
) -> Topology:
    """The random tree of the same seed and `extra` more links, drawn uniformly.

    By default there is one more for every two brokers, or as many as there is room for.
    """
    at_least(1, nodes=nodes)
    rng = Random(seed)
    pairs = _tree_pairs(nodes, rng)
    taken = set(pairs)
    free = [pair for pair in combinations(range(nodes), 2) if pair not in taken]
    if extra is None:
        extra = min(nodes // 2, len(free))
    at_least(0, extra=extra)
    if extra > len(free):
        raise TidingsError(
            f"extra: {nodes} brokers in a tree have room for {len(free)} more links, not {extra}"
        )
    return joined(nodes, sorted(pairs + rng.sample(free, extra)), latency, cost)


def preferential(
    nodes: int, m: int, seed: int, *, latency: float = 0.01, cost: float = 1.0
) -> Topology:
    """A network that grew: each new broker links with `m` others, preferably with linked ones.

    The model of Barabási and Albert: the more links a broker has already, the likelier it is
    chosen. The first `m` + 1 brokers are a star around b0, so there are m · (nodes − m)
    links.
    """
    at_least(1, m=m)
    at_least(m + 1, nodes=nodes)
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
    return joined(nodes, sorted(pairs), latency, cost)


_NEAREST_LATENCY: Final = 0.001
"""The latency of a link without length."""
_LATENCY_ACROSS: Final = 0.05
"""The latency that one side of Waxman's square adds: about the width of a continent."""


def waxman(
    nodes: int, seed: int, alpha: float = 0.2, beta: float = 0.15, *, cost: float = 1.0
) -> Topology:
    """Brokers anywhere in a square, linked by chance, and rather with near ones than with far.

    Waxman's model: two brokers at distance d have a link with probability α · exp(−d / (β · D)),
    where D is the diagonal. A greater α gives more links, a greater β more long ones. Parts that
    would be unconnected are joined by the shortest links that join them. A link's latency grows
    with its length.
    """
    at_least(1, nodes=nodes)
    for name, value in (("alpha", alpha), ("beta", beta)):
        if not 0 < value <= 1:
            raise TidingsError(f"{name} must be greater than 0 and at most 1, not {value}")
    rng = Random(seed)
    places = [(round(rng.random(), 6), round(rng.random(), 6)) for _ in range(nodes)]
    length = {(i, j): math.dist(places[i], places[j]) for i, j in combinations(range(nodes), 2)}
    reach = beta * math.sqrt(2)
    pairs = [pair for pair, d in length.items() if rng.random() < alpha * math.exp(-d / reach)]
    pairs += _joining(nodes, pairs, sorted(length, key=length.__getitem__))
    names = numbered(nodes)
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
    """The latency and cost of all links of one kind."""

    latency: float
    cost: float


_IN_STUB: Final = _Kind(0.001, 1.0)
_TO_STUB: Final = _Kind(0.005, 2.0)
_IN_TRANSIT: Final = _Kind(0.01, 4.0)
_BETWEEN_TRANSITS: Final = _Kind(0.04, 8.0)
_DENSITY_OF_TRANSITS: Final = 0.4
"""The share of links among the pairs that the tree of a transit domain leaves unlinked.

The same share is taken of the pairs of transit domains.
"""
_DENSITY_OF_STUBS: Final = 0.2
"""The share of links among the pairs that the tree of a stub domain leaves unlinked."""


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
    at_least(1, transit_domains=transit_domains, transit_nodes=transit_nodes)
    at_least(0, stubs_per_transit=stubs_per_transit)
    at_least(1, stub_nodes=stub_nodes)
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
    names = numbered(next(fresh))
    return Topology(names, tuple(Link(names[i], names[j], *kinds[i, j]) for i, j in sorted(kinds)))


# What these are made of. -------------------------------------------------------------------------


def _tree_pairs(nodes: int, rng: Random) -> list[tuple[int, int]]:
    """The links of a uniformly drawn tree; each tree is the meaning of one of Prüfer's sequences.

    A sequence names the neighbours from which, one after another, the least leaf is plucked.
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
    """The links of a random tree, and each other pair with the probability `density`."""
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
