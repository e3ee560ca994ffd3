"""Networks against slow searches that anybody can read."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from itertools import count, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.events.errors import TidingsError
from tidings.simulation.topology import (
    Link,
    Topology,
    hierarchical,
    line,
    random_graph,
    ring,
    waxman,
)

SEEDS = st.integers(0, 2**32)


@st.composite
def small_networks(draw: st.DrawFn) -> Topology:
    """A few brokers, any links that connect them, and costs that are often equal."""
    size = draw(st.integers(1, 6))
    shape = random_graph(
        size, draw(SEEDS), extra=draw(st.integers(0, (size - 1) * (size - 2) // 2))
    )
    costs = st.sampled_from([0.0, 1.0, 1.0, 2.0, 3.0])
    links = tuple(Link(link.a, link.b, cost=draw(costs)) for link in shape.links)
    return Topology(tuple(draw(st.permutations(shape.nodes))), links)


def simple_paths(network: Topology, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Every path that begins like this one and visits no broker twice."""
    yield path
    for node in network.neighbours(path[-1]):
        if node not in path:
            yield from simple_paths(network, (*path, node))


def cost_of(network: Topology, path: tuple[str, ...]) -> float:
    return sum(network.link(a, b).cost for a, b in pairwise(path))


# A network. -------------------------------------------------------------------------------------


def test_neighbours_come_in_the_order_of_the_nodes() -> None:
    network = Topology(("c", "a", "b"), (Link("a", "b"), Link("a", "c")))
    assert network.neighbours("a") == ("c", "b")
    assert network.neighbours("b") == ("a",)


def test_a_link_is_found_from_either_end() -> None:
    link = Link("a", "b", latency=0.5, cost=2)
    network = Topology(("a", "b"), (link,))
    assert network.link("a", "b") is network.link("b", "a") is link
    assert link.other("a") == "b"
    assert link.other("b") == "a"


@pytest.mark.parametrize(
    ("build", "named"),
    [
        (lambda: Topology((), ()), "at least one"),
        (lambda: Topology(("a", "a"), ()), "'a'"),
        (lambda: Topology(("a", "b"), (Link("a", "z"),)), "a – z: there is no broker 'z'"),
        (lambda: Topology(("a",), (Link("a", "a"),)), "a – a"),
        (lambda: Topology(("a", "b"), (Link("a", "b"), Link("b", "a"))), "b – a"),
        (lambda: Topology(("a", "b", "c"), (Link("a", "b"),)), "from a to c"),
        (lambda: Link("a", "b", latency=-1), "a – b: latency"),
        (lambda: Link("a", "b", cost=float("nan")), "a – b: cost"),
        (lambda: Link("a", "b", cost=float("inf")), "a – b: cost"),
        (lambda: Link("a", "b").other("c"), "'c'"),
        (lambda: line(3).neighbours("z"), "'z'"),
        (lambda: line(3).link("b0", "b2"), "b0 – b2"),
        (lambda: line(3).link("b0", "z"), "'z'"),
        (lambda: line(3).without("z"), "'z'"),
        (lambda: line(3).costs_from("z"), "'z'"),
        (lambda: line(3).hops_from("z"), "'z'"),
        (lambda: line(3).spanning_tree("z"), "'z'"),
    ],
    ids=map(str, count()),
)
def test_an_error_names_the_offender(build: Callable[[], object], named: str) -> None:
    with pytest.raises(TidingsError, match=named):
        build()


@pytest.mark.parametrize(
    ("parents", "named"),
    [
        ({"z": "b0"}, "'z'"),
        ({"b0": "b2", "b1": "b2"}, "b0 has no link with its parent 'b2'"),
        ({"b0": "b1"}, "b1 and b2"),
        ({"b0": "b1", "b1": "b0"}, "b0 is its own ancestor"),
        ({"b0": "b1", "b1": "b0", "b2": "b1"}, "b0 is its own ancestor"),
    ],
)
def test_parents_must_lead_to_one_root(parents: dict[str, str], named: str) -> None:
    with pytest.raises(TidingsError, match=f"parents: {named}|parents: .*{named}"):
        Topology(line(3).nodes, line(3).links, parents)


@pytest.mark.parametrize(
    ("positions", "named"),
    [
        ({"b0": (0, 0)}, "b1"),
        ({"b0": (0, 0), "b1": (0, float("nan"))}, "b1"),
        ({"b0": (0, 0), "b1": (0, 1), "z": (1, 1)}, "'z'"),
    ],
)
def test_positions_are_given_for_all_or_none(
    positions: dict[str, tuple[float, float]], named: str
) -> None:
    with pytest.raises(TidingsError, match=f"positions: .*{named}"):
        Topology(line(2).nodes, line(2).links, positions=positions)


def test_a_topology_is_a_value() -> None:
    network = hierarchical(waxman(20, 1), "b3")
    assert pickle.loads(pickle.dumps(network)) == network
    assert hash(hierarchical(waxman(20, 1), "b3")) == hash(network)
    assert len(network) == 20
    assert "b19" in network
    assert "b20" not in network


def test_a_topology_keeps_its_own_copy_of_what_it_is_given() -> None:
    parents = {"b1": "b0"}
    network = Topology(line(2).nodes, line(2).links, parents)
    parents.clear()
    assert network.parents == {"b1": "b0"}


# Paths. -----------------------------------------------------------------------------------------


@given(small_networks())
def test_costs_and_paths_are_those_of_an_exhaustive_search(network: Topology) -> None:
    for source in network.nodes:
        costs, paths = network.costs_from(source), network.paths_from(source)
        ways = list(simple_paths(network, (source,)))
        for target in network.nodes:
            here = [(cost_of(network, way), len(way)) for way in ways if way[-1] == target]
            assert (costs[target], len(paths[target])) == min(here)
            assert cost_of(network, paths[target]) == costs[target]
        assert list(costs.values()) == sorted(costs.values())


@given(small_networks())
def test_among_equal_paths_the_earlier_predecessor_is_taken(network: Topology) -> None:
    source = network.nodes[0]
    costs, paths = network.costs_from(source), network.paths_from(source)
    for target, path in paths.items():
        if target == source:
            continue
        equal = [
            node
            for node in network.neighbours(target)
            if costs[node] + network.link(node, target).cost == costs[target]
            and len(paths[node]) + 1 == len(path)
        ]
        assert path[-2] == equal[0]


@given(small_networks())
def test_hops_and_diameter_are_those_of_an_exhaustive_search(network: Topology) -> None:
    shortest = [
        min(len(way) - 1 for way in simple_paths(network, (a,)) if way[-1] == b)
        for a in network.nodes
        for b in network.nodes
    ]
    assert [network.hops_from(a)[b] for a in network.nodes for b in network.nodes] == shortest
    assert network.diameter == max(shortest)


@given(small_networks())
def test_a_spanning_tree_keeps_the_costs_from_its_root(network: Topology) -> None:
    for root in network.nodes:
        tree = network.spanning_tree(root)
        assert tree.is_tree
        assert tree.nodes == network.nodes
        assert set(tree.links) <= set(network.links)
        assert tree.costs_from(root) == network.costs_from(root)
        assert tree.paths_from(root) == network.paths_from(root)


@given(small_networks(), st.data())
def test_a_hierarchy_leads_each_broker_along_its_cheapest_path(
    network: Topology, data: st.DataObject
) -> None:
    root = data.draw(st.sampled_from(network.nodes))
    network = hierarchical(network, root)
    assert network.parents is not None
    assert network.root == root
    for node, path in network.paths_from(root).items():
        assert network.parents.get(node) == (path[-2] if node != root else None)


def test_a_network_without_parents_has_no_root() -> None:
    assert line(3).root is None


# What is left. ----------------------------------------------------------------------------------


@given(small_networks())
def test_without_a_broker_is_none_exactly_if_the_rest_falls_apart(network: Topology) -> None:
    for gone in network.nodes:
        others = [node for node in network.nodes if node != gone]
        rest = network.without(gone)
        whole = bool(others) and {
            way[-1] for way in simple_paths(network, (others[0],)) if gone not in way
        } == set(others)
        assert (rest is not None) == whole
        if rest is not None:
            assert rest.nodes == tuple(others)
            assert rest.links == tuple(link for link in network.links if gone not in link.ends)


def test_what_is_left_of_a_hierarchy_stays_one_while_nobody_is_orphaned() -> None:
    tree = hierarchical(line(3), "b0")
    rest = tree.without("b2")
    assert rest is not None
    assert rest.parents == {"b1": "b0"}
    circle = Topology(ring(3).nodes, ring(3).links, {"b1": "b0", "b2": "b0"}, ring(3).positions)
    orphaned = circle.without("b0")
    assert orphaned is not None
    assert orphaned.parents is None
    assert set(orphaned.positions or ()) == {"b1", "b2"}
