"""Shapes by chance, against their definitions; and what a seed means."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import combinations, count, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.events.errors import TidingsError
from tidings.simulation.topology import (
    Link,
    Topology,
    preferential,
    random_graph,
    random_tree,
    transit_stub,
    waxman,
)

SEEDS = st.integers(0, 2**32)
SIZES = st.integers(1, 30)


@given(SIZES, SEEDS)
def test_a_random_tree_is_a_tree(size: int, seed: int) -> None:
    network = random_tree(size, seed)
    assert len(network) == size
    assert network.is_tree


def test_random_trees_are_uniform() -> None:
    drawn = Counter(frozenset(link.ends for link in random_tree(4, s).links) for s in range(3200))
    assert len(drawn) == 16  # Cayley: 4 ** 2
    assert all(140 < times < 260 for times in drawn.values())


@given(SIZES, SEEDS, st.floats(0, 1))
def test_a_random_graph_is_its_tree_and_the_extra_links(
    size: int, seed: int, density: float
) -> None:
    extra = int(density * ((size - 1) * (size - 2) // 2))
    network = random_graph(size, seed, extra=extra)
    assert len(network.links) == size - 1 + extra
    assert set(random_tree(size, seed).links) <= set(network.links)


def test_a_random_graph_has_half_a_link_more_per_broker_unless_told() -> None:
    assert len(random_graph(20, 1).links) == 19 + 10
    assert len(random_graph(3, 1).links) == 3
    with pytest.raises(TidingsError, match="room for 1 more links, not 2"):
        random_graph(3, 1, extra=2)


@given(st.integers(1, 40), SEEDS, st.floats(0.01, 1), st.floats(0.01, 1))
def test_a_waxman_network_is_slower_over_longer_links(
    size: int, seed: int, alpha: float, beta: float
) -> None:
    network = waxman(size, seed, alpha, beta)
    assert len(network) == size
    places = network.positions
    assert places is not None
    assert all(0 <= x <= 1 and 0 <= y <= 1 for x, y in places.values())

    def length(link: Link) -> float:
        (ax, ay), (bx, by) = places[link.a], places[link.b]
        return float(((ax - bx) ** 2 + (ay - by) ** 2) ** 0.5)

    by_length = sorted(network.links, key=length)
    assert [link.latency for link in by_length] == sorted(link.latency for link in by_length)


def test_more_alpha_gives_more_links_and_more_beta_longer_ones() -> None:
    def mean_latency(network: Topology) -> float:
        return sum(link.latency for link in network.links) / len(network.links)

    assert len(waxman(80, 1, alpha=0.6).links) > 2 * len(waxman(80, 1, alpha=0.2).links)
    assert mean_latency(waxman(80, 1, beta=0.8)) > 1.3 * mean_latency(waxman(80, 1, beta=0.1))


def test_a_sparse_waxman_network_is_joined_by_the_shortest_links() -> None:
    network = waxman(30, 7, alpha=1e-9)
    places = network.positions
    assert places is not None
    assert network.is_tree
    for a, b in combinations(network.nodes, 2):  # the property of a least spanning tree
        (ax, ay), (bx, by) = places[a], places[b]
        direct = 0.001 + 0.05 * ((ax - bx) ** 2 + (ay - by) ** 2) ** 0.5
        path = network.paths_from(a)[b]
        steps = pairwise(path)
        assert max(network.link(x, y).latency for x, y in steps) <= direct + 1e-6


@given(st.integers(1, 3), st.integers(1, 4), st.integers(0, 3), st.integers(1, 4), SEEDS)
def test_a_transit_stub_network_has_cheap_stubs_behind_dear_transits(
    domains: int, transit_nodes: int, stubs: int, stub_nodes: int, seed: int
) -> None:
    network = transit_stub(domains, transit_nodes, stubs, stub_nodes, seed)
    transits = domains * transit_nodes
    assert len(network) == transits * (1 + stubs * stub_nodes)
    dear: Counter[str] = Counter()
    for link in network.links:
        a, b = sorted(int(end[1:]) for end in link.ends)
        if b < transits:
            inside = a // transit_nodes == b // transit_nodes
            assert (link.latency, link.cost) == ((0.01, 4.0) if inside else (0.04, 8.0))
        else:
            stub = (b - transits) // stub_nodes
            if a < transits:
                assert a == stub // stubs
                assert (link.latency, link.cost) == (0.005, 2.0)
                dear[f"stub {stub}"] += 1
            else:
                assert (a - transits) // stub_nodes == stub
                assert (link.latency, link.cost) == (0.001, 1.0)
    assert list(dear.values()) == [1] * (transits * stubs)


@given(st.integers(1, 5), st.integers(1, 40), SEEDS)
def test_preferential_growth_adds_the_same_number_of_links_each_time(
    m: int, more: int, seed: int
) -> None:
    network = preferential(m + more, m, seed)
    assert len(network) == m + more
    assert len(network.links) == m * more
    for new in range(m + 1, m + more):
        older = [other for other in network.neighbours(f"b{new}") if int(other[1:]) < new]
        assert len(older) == m


def test_preferential_growth_makes_hubs() -> None:
    network = preferential(300, 2, 1)
    assert max(len(network.neighbours(node)) for node in network.nodes) > 20


SEEDED: list[Callable[[int], Topology]] = [
    lambda seed: random_tree(25, seed),
    lambda seed: random_graph(25, seed),
    lambda seed: waxman(25, seed),
    lambda seed: transit_stub(2, 3, 2, 3, seed),
    lambda seed: preferential(25, 2, seed),
]


@pytest.mark.parametrize("generate", SEEDED, ids=map(str, count()))
def test_a_seed_decides_everything(generate: Callable[[int], Topology]) -> None:
    assert generate(1) == generate(1)
    assert generate(1) != generate(2)


def test_a_seed_keeps_its_meaning_from_version_to_version() -> None:
    def pairs(network: Topology) -> str:
        return " ".join(f"{link.a[1:]}-{link.b[1:]}" for link in network.links)

    assert pairs(random_tree(8, 1)) == "0-2 1-2 1-4 1-7 3-4 5-7 6-7"
    assert pairs(random_graph(6, 1)) == "0-2 0-3 0-4 1-3 1-4 2-5 3-4 3-5"
    assert pairs(waxman(8, 1)) == "0-7 1-5 1-6 2-4 2-7 3-5 3-7"
    assert pairs(transit_stub(2, 2, 1, 2, 1)) == "0-1 0-2 0-5 1-6 2-3 2-9 3-11 4-5 6-7 8-9 10-11"
    assert pairs(preferential(7, 2, 1)) == "0-1 0-2 0-3 0-5 0-6 1-3 1-4 2-6 3-4 3-5"


@pytest.mark.parametrize(
    "build",
    [
        lambda: random_tree(0, 1),
        lambda: random_graph(5, 1, extra=-1),
        lambda: waxman(0, 1),
        lambda: waxman(5, 1, alpha=0),
        lambda: waxman(5, 1, beta=2),
        lambda: transit_stub(0, 1, 1, 1, 1),
        lambda: transit_stub(1, 1, 1, 0, 1),
        lambda: preferential(3, 3, 1),
        lambda: preferential(3, 0, 1),
    ],
    ids=map(str, count()),
)
def test_sizes_that_make_no_network_are_refused(build: Callable[[], Topology]) -> None:
    with pytest.raises(TidingsError, match="must be"):
        build()
