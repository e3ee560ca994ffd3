"""The scene: what there is to draw, checked, and the size and place of each broker in pixels."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from tidings.events.errors import TidingsError
from tidings.simulation.drawing.places import (
    GAP,
    LEAST_RADIUS,
    crowded_part,
    greatest_radius,
    places_of,
    pushed_apart,
    scaled,
)
from tidings.simulation.topology import Link, Topology

_LEAST_WIDTH: Final = 1.2
"""The width of a link that carried nothing."""
_GREATEST_WIDTH: Final = 7.0
"""The width of the busiest link."""


class Facts(NamedTuple):
    """The caller's arguments, checked, by the topology's own names and links."""

    topology: Topology
    tables: dict[str, int]
    traffic: dict[Link, int]
    outside: set[Link]
    """The links that are not in the tree."""
    down: set[str]


def _facts(
    topology: Topology,
    tables: Mapping[str, int],
    traffic: Mapping[tuple[str, str], int],
    tree: Collection[tuple[str, str]] | None,
    down: Collection[str],
) -> Facts:
    for node in (*tables, *down):
        if node not in topology:
            raise TidingsError(f"cannot draw broker {node!r}: the topology has none of that name")
    carried: dict[Link, int] = {}
    for (a, b), messages in traffic.items():
        link = topology.link(a, b)
        carried[link] = carried.get(link, 0) + messages
    inside = topology.links if tree is None else [topology.link(a, b) for a, b in tree]
    return Facts(topology, dict(tables), carried, set(topology.links) - set(inside), set(down))


@dataclass(frozen=True)
class Scale:
    """A size from `least` to `greatest`, whose square grows with the value that it shows."""

    top: int
    least: float
    greatest: float

    def __call__(self, value: int) -> float:
        part = min(1.0, max(0.0, value / self.top)) if self.top > 0 else 0.0
        return math.sqrt(self.least**2 + part * (self.greatest**2 - self.least**2))

    def samples(self) -> list[int]:
        """Values for a legend, from the least to the greatest."""
        return sorted({0, self.top // 4, self.top}) if self.top > 0 else []


@dataclass(frozen=True)
class Scene:
    """Everything that has a place, in pixels."""

    facts: Facts
    spots: dict[str, Spot]
    radius: Scale
    """The radius of a broker, by its table."""
    width: Scale
    """The width of a link, by its traffic."""


class Spot(NamedTuple):
    """A circle, which may be crossed out."""

    x: float
    y: float
    r: float
    crossed: bool = False

    @property
    def arm(self) -> float:
        """How far the cross goes to each side."""
        return max(self.r * 0.72, LEAST_RADIUS) + 1.5

    @property
    def reach(self) -> float:
        """How far circle and cross go, whichever goes farther."""
        return max(self.r, self.arm) if self.crossed else self.r


def scene_of(
    topology: Topology,
    tables: Mapping[str, int],
    traffic: Mapping[tuple[str, str], int],
    tree: Collection[tuple[str, str]] | None,
    down: Collection[str],
) -> Scene:
    """The scene of these figures; a broker or link that the topology does not have is an error."""
    facts = _facts(topology, tables, traffic, tree, down)
    points = scaled(topology, places_of(topology))
    crowded = crowded_part(topology)
    largest, busiest = (max(each.values(), default=0) for each in (facts.tables, facts.traffic))
    radius = Scale(largest, LEAST_RADIUS, greatest_radius(points, crowded))
    if crowded > 0:
        points = pushed_apart(points, radius.greatest * 2 + GAP)
    width = Scale(busiest, _LEAST_WIDTH, _GREATEST_WIDTH)
    spots = {
        node: Spot(float(x), float(y), radius(facts.tables.get(node, 0)), node in facts.down)
        for node, (x, y) in zip(topology.nodes, points, strict=True)
    }
    return Scene(facts, spots, radius, width)
