"""Where things are drawn, and that nothing is in the way."""

from __future__ import annotations

import math
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.simulation.drawing.pictures import NETWORKS, Line, busy, each_network, seen
from tidings.simulation.drawing import draw
from tidings.simulation.topology import Topology, grid, hierarchical, line, random_tree, ring, star


def side(a: tuple[float, float], b: tuple[float, float], c: tuple[float, float]) -> float:
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])


def cross(one: Line, two: Line) -> bool:
    """Whether two lines cross; those that share an end do not."""
    if {one.start, one.end} & {two.start, two.end}:
        return False
    for axis in (0, 1):  # lines that continue each other have no side, but a distance
        ones, twos = ({p[axis] for p in (item.start, item.end)} for item in (one, two))
        if max(ones) < min(twos) or max(twos) < min(ones):
            return False
    return (
        side(one.start, one.end, two.start) * side(one.start, one.end, two.end) <= 0
        and side(two.start, two.end, one.start) * side(two.start, two.end, one.end) <= 0
    )


def assert_nothing_crosses(network: Topology) -> None:
    lines = seen(draw(network, tables={}, traffic={})).lines
    assert len(lines) == len(network.links)
    assert [pair for pair in combinations(lines.items(), 2) if cross(pair[0][1], pair[1][1])] == []


@pytest.mark.parametrize(
    "name", ["long line", "star", "balanced", "router tree", "random tree", "pair"]
)
def test_links_of_a_tree_do_not_cross(name: str) -> None:
    assert_nothing_crosses(NETWORKS[name])


@pytest.mark.slow
@settings(max_examples=60)
@given(st.integers(2, 60), st.integers(0, 2**32), st.data())
def test_links_of_no_tree_cross_wherever_its_root_is(
    size: int, seed: int, data: st.DataObject
) -> None:
    tree = random_tree(size, seed)
    assert_nothing_crosses(tree)
    assert_nothing_crosses(hierarchical(tree, data.draw(st.sampled_from(tree.nodes))))


def test_a_short_line_is_drawn_from_left_to_right() -> None:
    for size in range(2, 10):
        circles = seen(draw(line(size), tables={}, traffic={})).circles.values()
        assert [c.x for c in circles] == sorted({c.x for c in circles})
        assert len({c.y for c in circles}) == 1


@each_network
def test_circles_do_not_touch(network: Topology) -> None:
    for one, two in combinations(seen(busy(network)).circles.values(), 2):
        assert math.dist(one[:2], two[:2]) > one.r + two.r


@each_network
def test_everything_is_on_the_page_and_above_the_legend(network: Topology) -> None:
    picture = seen(busy(network))
    (width, height), (dx, dy) = picture.size, picture.shift
    for x, y, r, _ in picture.circles.values():
        assert r <= x + dx <= width - r
        assert r <= y + dy <= picture.legend_top - r
    for x, y, _ in picture.texts:
        assert 0 <= x + dx <= width
        assert 0 <= y + dy <= picture.legend_top
    assert picture.legend_top <= height
    assert max(width, height) < 1900


@each_network
def test_text_beside_a_circle_covers_no_circle(network: Topology) -> None:
    picture = seen(busy(network))
    outside = [text for text in picture.texts if " · " in text[2]]
    for x, y, _ in outside:
        for circle in picture.circles.values():
            assert math.dist((x, y - 4), circle[:2]) > circle.r


def test_given_positions_are_kept_up_to_scale() -> None:
    circles = seen(draw(grid(4, 3), tables={}, traffic={})).circles
    step = circles["b1"].x - circles["b0"].x
    for name, (x, y) in (grid(4, 3).positions or {}).items():
        assert circles[name].x - circles["b0"].x == pytest.approx(x * step, abs=0.3)
        assert circles[name].y - circles["b0"].y == pytest.approx(y * step, abs=0.3)


def test_brokers_at_one_position_are_drawn_beside_each_other() -> None:
    shape = star(6)
    network = Topology(shape.nodes, shape.links, positions=dict.fromkeys(shape.nodes, (3.0, 3.0)))
    circles = seen(busy(network)).circles.values()
    assert all(math.dist(a[:2], b[:2]) > a.r + b.r for a, b in combinations(circles, 2))


def test_a_graph_is_drawn_with_neighbours_near() -> None:
    """A circle without positions comes out round: every link about as long as the others."""
    shape = ring(16)
    lines = seen(draw(Topology(shape.nodes, shape.links), tables={}, traffic={})).lines.values()
    lengths = [math.dist(item.start, item.end) for item in lines]
    assert max(lengths) < 1.1 * min(lengths)
