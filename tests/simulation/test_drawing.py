"""Drawings, read back from their XML: what is drawn, where, and that nothing is in the way."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from itertools import combinations
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidings.events.errors import TidingsError
from tidings.simulation.drawing import draw
from tidings.simulation.topology import (
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
    transit_stub,
    waxman,
)

SVG = "{http://www.w3.org/2000/svg}"
NETWORKS = {
    "single": single(),
    "pair": line(2),
    "line": line(5),
    "long line": line(40),
    "star": star(30),
    "ring": ring(9),
    "grid": grid(5, 4),
    "balanced": balanced(2, 4),
    "router tree": router_tree(),
    "hierarchy": hierarchical(waxman(40, 2), "b3"),
    "random tree": random_tree(60, 1),
    "random graph": random_graph(40, 1),
    "waxman": waxman(60, 1),
    "transit stub": transit_stub(2, 3, 2, 3, 1),
    "preferential": preferential(60, 2, 1),
}
each_network = pytest.mark.parametrize("network", NETWORKS.values(), ids=NETWORKS.keys())


class Circle(NamedTuple):
    x: float
    y: float
    r: float
    fill: str


class Line(NamedTuple):
    start: tuple[float, float]
    end: tuple[float, float]
    width: float
    colour: str
    dashed: bool


class Picture(NamedTuple):
    """A drawing as its reader sees it; what is keyed by tooltips is in the network's own unit."""

    size: tuple[float, float]
    shift: tuple[float, float]
    legend_top: float
    circles: dict[str, Circle]
    lines: dict[str, Line]
    texts: list[tuple[float, float, str]]
    legend: str


def seen(text: str) -> Picture:
    root = ET.fromstring(text)
    network, legend = root.findall(f"{SVG}g")
    circles = {
        tip: Circle(*(float(c.attrib[k]) for k in ("cx", "cy", "r")), c.attrib["fill"])
        for c in network.iter(f"{SVG}circle")
        if (tip := c.findtext(f"{SVG}title"))
    }
    lines = {
        tip: Line(
            (float(item.attrib["x1"]), float(item.attrib["y1"])),
            (float(item.attrib["x2"]), float(item.attrib["y2"])),
            float(item.attrib["stroke-width"]),
            item.attrib["stroke"],
            "stroke-dasharray" in item.attrib,
        )
        for item in network.iter(f"{SVG}line")
        if (tip := item.findtext(f"{SVG}title"))
    }
    texts = [
        (float(t.attrib["x"]), float(t.attrib["y"]), t.text or "")
        for t in network.iter(f"{SVG}text")
    ]
    return Picture(
        (float(root.attrib["width"]), float(root.attrib["height"])),
        moved(network),
        moved(legend)[1],
        circles,
        lines,
        texts,
        " ".join(t.text or "" for t in legend.iter(f"{SVG}text")),
    )


def moved(group: ET.Element) -> tuple[float, float]:
    x, y = group.attrib["transform"].removeprefix("translate(").removesuffix(")").split()
    return float(x), float(y)


def busy(network: Topology) -> str:
    """A drawing in which sizes differ."""
    tables = {node: i * i for i, node in enumerate(network.nodes)}
    traffic = {(link.b, link.a): i for i, link in enumerate(network.links)}
    return draw(network, tables=tables, traffic=traffic, title="busy")


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


# What is drawn. ---------------------------------------------------------------------------------


@each_network
def test_every_broker_and_link_is_drawn_with_its_numbers(network: Topology) -> None:
    picture = seen(busy(network))
    held = {f"{node}: {i * i:,}" for i, node in enumerate(network.nodes)}
    assert {tip.rsplit(" ", 1)[0] for tip in picture.circles} == held
    carried = {f"{link}: {i:,}" for i, link in enumerate(network.links)}
    assert {tip.rsplit(" ", 1)[0] for tip in picture.lines} == carried


def test_area_grows_with_the_table() -> None:
    tables = {"b0": 0, "b1": 100, "b2": 200, "b3": 400}
    circles = seen(draw(line(5), tables=tables, traffic={})).circles
    areas = [circles[f"b{i}: {n} entries"].r ** 2 for i, n in enumerate(tables.values())]
    assert areas[1] - areas[0] == pytest.approx((areas[3] - areas[0]) / 4, rel=0.05)
    assert areas[2] - areas[0] == pytest.approx((areas[3] - areas[0]) / 2, rel=0.05)
    assert circles["b4"].r == circles["b0: 0 entries"].r


def test_width_and_colour_grow_with_the_traffic_of_both_directions() -> None:
    traffic = {("b0", "b1"): 10, ("b1", "b0"): 20, ("b1", "b2"): 5}
    lines = seen(draw(line(4), tables={}, traffic=traffic)).lines
    busy_line, calm, idle = (
        lines[f"b{i} – b{i + 1}: {n} messages"] for i, n in enumerate((30, 5, 0))
    )
    assert busy_line.width > calm.width > idle.width
    assert len({busy_line.colour, calm.colour, idle.colour}) == 3


def test_links_outside_the_tree_are_dashed_and_grey() -> None:
    tree = [("b1", "b0"), ("b1", "b2"), ("b3", "b2")]
    traffic = {("b0", "b3"): 9, ("b0", "b1"): 3}
    picture = seen(draw(ring(4), tables={}, traffic=traffic, tree=tree))
    assert [tip for tip, item in picture.lines.items() if item.dashed] == ["b3 – b0: 9 messages"]
    assert "not in the tree" in picture.legend
    assert not any(item.dashed for item in seen(busy(ring(4))).lines.values())


def test_brokers_that_are_down_are_red_and_crossed() -> None:
    text = draw(line(3), tables={"b1": 1}, traffic={}, down=["b1", "b2"])
    circles = seen(text).circles
    assert circles["b1: 1 entry, down"].fill == circles["b2, down"].fill != circles["b0"].fill
    crosses = [item for item in ET.fromstring(text).iter(f"{SVG}line") if not len(item)]
    assert len([item for item in crosses if item.attrib["stroke"] == "#c81e1e"]) == 2 * 2 + 2
    assert "down" in seen(text).legend
    assert "down" not in seen(busy(line(3))).legend


def test_the_legend_shows_the_ends_of_both_scales() -> None:
    legend = seen(draw(line(2), tables={"b0": 1200}, traffic={("b0", "b1"): 56_789})).legend
    assert "table entries: 0 300 1,200" in legend
    assert "messages: 0 14k 57k" in legend
    assert seen(draw(single(), tables={}, traffic={})).legend == ""


def test_names_and_numbers_are_written_where_there_is_room() -> None:
    picture = seen(draw(line(3), tables={"b0": 900, "b1": 0}, traffic={("b0", "b1"): 42}))
    written = [text for _, _, text in picture.texts]
    assert sorted(written) == ["42", "900", "b0", "b1 · 0", "b2"]
    in_tree = [text for _, _, text in seen(busy(router_tree())).texts]
    assert sum(text[0] in "rl" for text in in_tree) > 100


def test_a_background_is_painted_over_the_whole_page() -> None:
    first = ET.fromstring(busy(line(3))).find(f"{SVG}rect")
    assert first is not None
    assert (first.attrib["width"], first.attrib["height"]) == ("100%", "100%")


def test_any_text_can_be_a_name_or_a_title() -> None:
    names = ("<b>&\"'", "]]>", "\x00\n\ud800", "东京", "a name that is far too long for a label")
    network = Topology(names, tuple(Link(names[0], name) for name in names[1:]))
    text = draw(network, tables=dict.fromkeys(names, 1), traffic={}, title="<&> \x01 " * 30)
    picture = seen(text)
    drawn = ("<b>&\"'", "]]>", "···", "东京", "a name that is far too long for a label")
    assert list(picture.circles) == [f"{name}: 1 entry" for name in drawn]
    text.encode()


@settings(max_examples=30)
@given(st.lists(st.text(max_size=20), min_size=1, max_size=8, unique=True), st.text())
def test_a_drawing_is_well_formed(names: list[str], title: str) -> None:
    network = Topology(tuple(names), tuple(Link(names[0], name) for name in names[1:]))
    text = draw(network, tables=dict.fromkeys(names, 3), traffic={}, title=title)
    circles = [c for c in ET.fromstring(text).iter(f"{SVG}circle") if len(c)]
    assert len(circles) == len(names)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"tables": {"z": 1}, "traffic": {}}, "'z'"),
        ({"tables": {}, "traffic": {("b0", "b2"): 1}}, "b0 – b2"),
        ({"tables": {}, "traffic": {}, "tree": [("b2", "b0")]}, "b2 – b0"),
        ({"tables": {}, "traffic": {}, "down": ["y"]}, "'y'"),
    ],
)
def test_what_the_topology_does_not_have_cannot_be_drawn(arguments: dict, named: str) -> None:
    with pytest.raises(TidingsError, match=named):
        draw(line(3), **arguments)


# Where it is. -----------------------------------------------------------------------------------


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


# Again. -----------------------------------------------------------------------------------------


@each_network
def test_equal_arguments_give_equal_text(network: Topology) -> None:
    assert busy(network) == busy(
        Topology(network.nodes, network.links, network.parents, network.positions)
    )


@pytest.mark.slow
def test_another_process_draws_the_same() -> None:
    """Sets of names are ordered differently in each process; nothing may depend on that."""
    program = (
        "from tidings.simulation.drawing import draw\n"
        "from tidings.simulation.topology import random_graph\n"
        "import sys\n"
        "sys.stdout.reconfigure(encoding='utf-8')\n"
        "n = random_graph(30, 1)\n"
        "t = [(x.a, x.b) for x in n.spanning_tree('b0').links]\n"
        "print(draw(n, tables={'b1': 3}, traffic={t[0]: 5}, tree=t, down={'b4', 'b5'}), end='')"
    )
    drawn = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(drawn) == 1
