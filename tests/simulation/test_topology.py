"""Topologies against their definitions, and against slow searches that anybody can read."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import combinations, count, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.events.errors import TidingsError
from tidings.simulation.topology import (
    GENERATORS,
    Link,
    Topology,
    balanced,
    grid,
    hierarchical,
    line,
    preferential,
    random_graph,
    random_tree,
    ring,
    router_tree,
    single,
    star,
    topology,
    transit_stub,
    waxman,
)

SEEDS = st.integers(0, 2**32)
SIZES = st.integers(1, 30)


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
        (lambda: line(3).without_link("b0", "b2"), "b0 – b2"),
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


@given(small_networks())
def test_without_a_link_is_none_exactly_if_it_was_a_bridge(network: Topology) -> None:
    for link in network.links:
        rest = network.without_link(link.b, link.a)
        detour = any(
            way[-1] == link.b and way != (link.a, link.b)
            for way in simple_paths(network, (link.a,))
        )
        assert (rest is not None) == detour
        if rest is not None:
            assert set(network.links) - set(rest.links) == {link}


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
    spare, needed = circle.without_link("b1", "b2"), circle.without_link("b0", "b1")
    assert spare is not None
    assert spare.parents == circle.parents
    assert needed is not None
    assert needed.parents is None


# Generators. ------------------------------------------------------------------------------------


@given(SIZES)
def test_lines_stars_and_rings_have_their_shapes(size: int) -> None:
    assert [(link.a, link.b) for link in line(size).links] == list(pairwise(line(size).nodes))
    assert line(size).diameter == size - 1
    assert star(size).neighbours("b0") == tuple(f"b{i}" for i in range(1, size))
    assert star(size).is_tree
    circle = ring(size + 2)
    assert all(len(circle.neighbours(node)) == 2 for node in circle.nodes)
    assert circle.diameter == (size + 2) // 2


def test_one_alone_has_nobody_to_talk_to() -> None:
    assert single().nodes == ("b0",)
    assert single().neighbours("b0") == ()
    assert single().diameter == 0
    assert single().is_tree
    assert single().without("b0") is None


@given(st.integers(1, 6), st.integers(1, 6))
def test_a_grid_links_what_is_one_step_apart(width: int, height: int) -> None:
    network = grid(width, height)
    assert network.positions is not None
    for a, b in combinations(network.nodes, 2):
        (ax, ay), (bx, by) = network.positions[a], network.positions[b]
        assert (b in network.neighbours(a)) == (abs(ax - bx) + abs(ay - by) == 1)
    assert network.diameter == width + height - 2


@given(st.integers(1, 4), st.integers(0, 4))
def test_a_balanced_tree_has_all_its_leaves_at_one_depth(fanout: int, depth: int) -> None:
    network = balanced(fanout, depth)
    per_level = Counter(network.hops_from("b0").values())
    assert per_level == {level: fanout**level for level in range(depth + 1)}
    assert network.is_tree
    for node, hops in network.hops_from("b0").items():
        below = len(network.neighbours(node)) - (node != "b0")
        assert below == (fanout if hops < depth else 0)


def test_the_router_tree_is_the_one_of_the_evaluation() -> None:
    network = router_tree(levels=4, fanout=3)
    routers = [node for node in network.nodes if node[0] == "r"]
    assert (len(routers), len(network) - len(routers), len(network.links)) == (40, 67, 106)
    assert network == router_tree()
    levels = Counter(hops for node, hops in network.hops_from("r0").items() if node[0] == "r")
    assert levels == {0: 1, 1: 3, 2: 9, 3: 27}


@given(st.integers(1, 4), st.integers(1, 3))
def test_each_router_has_its_local_brokers(levels: int, fanout: int) -> None:
    network = router_tree(levels, fanout)
    hops = network.hops_from("r0")
    for node in network.nodes:
        near = network.neighbours(node)
        if node[0] == "l":
            assert len(near) == 1
        else:
            leaf = hops[node] == levels - 1
            assert sum(other[0] == "l" for other in near) == (2 if leaf else 1)
    assert network.is_tree


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
        lambda: line(0),
        lambda: star(0),
        lambda: ring(2),
        lambda: grid(0, 2),
        lambda: grid(2, 0),
        lambda: balanced(0, 2),
        lambda: balanced(2, -1),
        lambda: router_tree(0, 3),
        lambda: router_tree(3, 0),
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


# By name. ---------------------------------------------------------------------------------------

PARAMETERS = {
    "nodes": 12,
    "seed": 1,
    "fanout": 2,
    "depth": 2,
    "m": 2,
    "width": 2,
    "height": 3,
    "transit_domains": 2,
    "transit_nodes": 2,
    "stubs_per_transit": 1,
    "stub_nodes": 2,
}
NEEDS = {
    "single": (),
    "line": ("nodes",),
    "star": ("nodes",),
    "balanced": ("fanout", "depth"),
    "router_tree": (),
    "random_tree": ("nodes", "seed"),
    "ring": ("nodes",),
    "random_graph": ("nodes", "seed"),
    "waxman": ("nodes", "seed"),
    "transit_stub": (
        "transit_domains",
        "transit_nodes",
        "stubs_per_transit",
        "stub_nodes",
        "seed",
    ),
    "preferential": ("nodes", "m", "seed"),
    "grid": ("width", "height"),
}


@pytest.mark.parametrize("kind", GENERATORS)
def test_every_generator_can_be_called_by_name(kind: str) -> None:
    given_parameters = {name: PARAMETERS[name] for name in NEEDS[kind]}
    assert topology(kind, **given_parameters) == GENERATORS[kind](**given_parameters)
    for name in given_parameters:
        rest = {other: value for other, value in given_parameters.items() if other != name}
        with pytest.raises(TidingsError, match=f"'{kind}': parameter '{name}' is missing"):
            topology(kind, **rest)


@pytest.mark.parametrize(
    ("kind", "parameters", "said"),
    [
        ("waxmann", {"nodes": 3}, "unknown topology 'waxmann', did you mean 'waxman'?"),
        ("cube", {}, "unknown topology 'cube'. There are single, line, "),
        ("single", {"nodes": 3}, "unknown parameter 'nodes'. It takes none"),
        ("line", {"nods": 3}, "unknown parameter 'nods', did you mean 'nodes'?"),
        ("line", {"nodes": "3"}, "parameter 'nodes': Expected `int`, got `str`"),
        ("line", {"nodes": 3.5}, "parameter 'nodes': Expected `int`, got `float`"),
        ("line", {"nodes": True}, "parameter 'nodes': Expected `int`, got `bool`"),
        ("line", {"nodes": 0}, "topology 'line': nodes must be at least 1, not 0"),
        ("line", {"nodes": 2, "cost": -1}, "topology 'line': link b0 – b1: cost"),
    ],
)
def test_a_wrong_description_is_answered_with_what_would_be_right(
    kind: str, parameters: dict[str, object], said: str
) -> None:
    with pytest.raises(TidingsError) as caught:
        topology(kind, **parameters)
    assert said in str(caught.value)


def test_a_whole_number_will_do_for_a_latency() -> None:
    assert topology("line", nodes=2, latency=1).links == (Link("b0", "b1", 1.0),)
