"""Networks to draw, and drawings read back from their XML."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import NamedTuple

import pytest

from tidings.simulation.drawing import draw
from tidings.simulation.topology import (
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
