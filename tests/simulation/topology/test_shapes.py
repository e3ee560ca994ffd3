"""Shapes without chance, against their definitions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import combinations, count, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.events.errors import TidingsError
from tidings.simulation.topology import (
    Topology,
    balanced,
    grid,
    line,
    ring,
    router_tree,
    single,
    star,
)

SIZES = st.integers(1, 30)


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
    ],
    ids=map(str, count()),
)
def test_sizes_that_make_no_network_are_refused(build: Callable[[], Topology]) -> None:
    with pytest.raises(TidingsError, match="must be"):
        build()
