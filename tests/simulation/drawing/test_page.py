"""What is drawn, and that equal arguments give equal text."""

from __future__ import annotations

import os
import subprocess
import sys
import xml.etree.ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.simulation.drawing.pictures import SVG, busy, each_network, seen
from tidings.events.errors import TidingsError
from tidings.simulation.drawing import draw
from tidings.simulation.topology import Link, Topology, line, ring, router_tree, single


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
            timeout=300,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(drawn) == 1
