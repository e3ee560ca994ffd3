"""Places: where each broker is, in any unit, and then in pixels, with room between the circles.

They are given, or else a row is a ribbon, a tree is radial, and any other network is held by
balanced springs.
"""

from __future__ import annotations

import math
from random import Random
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from tidings.simulation.topology import Topology

Points: TypeAlias = npt.NDArray[np.float64]
"""One row (x, y) for each broker, in the order of the topology's nodes."""

_LONGEST_STRAIGHT_LINE: Final = 12
"""The greatest number of brokers in a row that is drawn straight."""


def places_of(topology: Topology) -> Points:
    """Where each broker is, in any unit; links of a tree cross only if its places are given."""
    if topology.positions is not None:
        return np.array([topology.positions[node] for node in topology.nodes], dtype=float)
    if not topology.is_tree:
        return _springs(topology)
    row = _row(topology)
    if row is not None:
        return _winding(topology, row)
    return _radial(topology)


def _row(topology: Topology) -> list[str] | None:
    """The brokers from one end to the other, if they are a row too long to be drawn straight."""
    if len(topology) <= _LONGEST_STRAIGHT_LINE:
        return None
    if any(len(topology.neighbours(node)) > 2 for node in topology.nodes):
        return None
    first = next(node for node in topology.nodes if len(topology.neighbours(node)) == 1)
    return list(topology.hops_from(first))


def _winding(topology: Topology, row: list[str]) -> Points:
    """The row as a ribbon that turns at the margins."""
    across = math.ceil(math.sqrt(len(row) * 1.6))
    place = {}
    for i, node in enumerate(row):
        y, x = divmod(i, across)
        place[node] = (x if y % 2 == 0 else across - 1 - x, y)
    return np.array([place[node] for node in topology.nodes], dtype=float)


def _radial(topology: Topology) -> Points:
    """A tree around its root or centre, each generation on a circle of its own.

    No links cross: each subtree stays in a sector of its own, and a sector is no wider than what
    its broker sees without looking through the circle it is on, so that the links between two
    generations stay between their two circles.
    """
    root = topology.root or _centre(topology)
    hops = topology.hops_from(root)
    below: dict[str, list[str]] = {
        node: [other for other in topology.neighbours(node) if hops[other] > hops[node]]
        for node in topology.nodes
    }
    # What a broker needs of the turn: its own width where it is, or what those below it need.
    need: dict[str, float] = {}
    for node in reversed(hops):  # farthest first
        need[node] = max(1 / max(hops[node], 1), sum(need[child] for child in below[node]))
    place = {root: (0.0, 0.0)}
    # As one reads: of two children the first is at the left and the second at the right, and an
    # only child is at the right.
    sectors = {root: (math.pi / 2 if len(below[root]) > 1 else -math.pi, 2 * math.pi)}
    for node, depth in hops.items():
        start, width = sectors[node]
        if depth > 0:
            middle = start + width / 2
            place[node] = (depth * math.cos(middle), depth * math.sin(middle))
            width = min(width, 2 * math.acos(depth / (depth + 1)))
            start = middle - width / 2
        together = sum(need[child] for child in below[node])
        for child in below[node]:
            part = width * need[child] / together
            sectors[child] = (start, part)
            start += part
    return np.round(np.array([place[node] for node in topology.nodes], dtype=float), 6)


def _centre(tree: Topology) -> str:
    """The middle of a longest path, which makes the fewest circles."""
    far = list(tree.hops_from(tree.nodes[0]))[-1]
    path = max(tree.paths_from(far).values(), key=len)
    return path[len(path) // 2]


_ROUNDS: Final = 150
"""Rounds after which the springs are taken to be at rest."""


def _springs(topology: Topology) -> Points:
    """Places whose distances are, as nearly as possible, the numbers of links between them.

    Between each two brokers stands a spring as long as their distance in links, and the stiffer
    the shorter it is; every round moves each broker to where its springs pull it. Only sums,
    products and roots are taken, each sum in a fixed order, so all machines agree.
    """
    # By hand, because networkx's `kamada_kawai_layout` draws the same pictures, but needs scipy to
    # do so, which is too much for the core; its `spring_layout` draws worse ones.
    length = _hops(topology)
    np.fill_diagonal(length, 1.0)
    stiff = 1.0 / (length * length)
    np.fill_diagonal(stiff, 0.0)
    total = stiff.sum(axis=0)
    points = _start(length)
    for _ in range(_ROUNDS):
        pulled = np.empty_like(points)
        apart = points[:, None, :] - points[None, :, :]  # apart[j, i] leads from i to j
        distance = np.sqrt(apart[:, :, 0] ** 2 + apart[:, :, 1] ** 2) + 1e-9
        rest = stiff * length / distance
        for axis in (0, 1):
            wanted = stiff * points[:, axis][:, None] - rest * apart[:, :, axis]
            pulled[:, axis] = wanted.sum(axis=0) / total
        points = pulled
    return np.round(points, 6)


def _hops(topology: Topology) -> Points:
    """How many links each broker is away from each other."""
    place = {node: i for i, node in enumerate(topology.nodes)}
    table = np.zeros((len(topology), len(topology)))
    for node in topology.nodes:
        for other, hops in topology.hops_from(node).items():
            table[place[node], place[other]] = hops
    return table


def _start(length: Points) -> Points:
    """Places by the distances from two pairs of far brokers, with a little chance against ties."""
    a = int(length[0].argmax())
    b = int(length[a].argmax())
    c = int(np.minimum(length[a], length[b]).argmax())
    d = int(length[c].argmax())
    rng = Random(0)
    chance = np.array([[rng.random(), rng.random()] for _ in range(len(length))])
    far: Points = np.stack((length[a] - length[b], length[c] - length[d]), axis=1) / 2
    start: Points = far + chance
    return start


LEAST_RADIUS: Final = 4.0
"""The radius of a broker whose table is empty."""
_GREATEST_RADIUS: Final = 24.0
"""The radius of the broker with the largest table, where there is room."""
GAP: Final = 6.0
"""Pixels that stay free between two circles."""
_WIDEST: Final = 1500.0
"""Pixels across the drawing without its labels."""
_USUAL_DISTANCE: Final = 30.0
"""Pixels between brokers that are neighbours in the picture."""
_USUAL_LINK: Final = 92.0
"""Pixels along a link."""


def scaled(topology: Topology, points: Points) -> Points:
    """The places in pixels: crowded brokers get room, but the page stays within bounds."""
    if len(points) == 1:
        return np.zeros((1, 2))
    place = {node: i for i, node in enumerate(topology.nodes)}
    ends = np.array([(place[link.a], place[link.b]) for link in topology.links])
    spans = np.hypot(*(points[ends[:, 0]] - points[ends[:, 1]]).T)
    factor = max(
        _USUAL_DISTANCE / max(_crowding(points, crowded_part(topology)), 1e-9),
        _USUAL_LINK / max(float(np.median(spans)), 1e-9),
    )
    extent = float((points.max(axis=0) - points.min(axis=0)).max())
    return points * min(factor, _WIDEST / max(extent, 1e-9))


def crowded_part(topology: Topology) -> float:
    """The share of the brokers that may be crowded at first, because they are nudged apart later.

    It is 0 in a tree that is laid out here: a nudge could make its links cross.
    """
    return 0.0 if topology.is_tree and topology.positions is None else 0.3


def _crowding(points: Points, crowded: float) -> float:
    """The least distance to the nearest neighbour, but for the share `crowded` of the brokers."""
    distance = np.hypot(*(points[:, None, :] - points[None, :, :]).transpose(2, 0, 1))
    np.fill_diagonal(distance, np.inf)
    return float(np.sort(distance.min(axis=0))[int(len(points) * crowded)])


def greatest_radius(points: Points, crowded: float) -> float:
    """The radius of circles that leave a gap, but for the share `crowded` of the brokers."""
    if len(points) == 1:
        return _GREATEST_RADIUS
    radius = (_crowding(points, crowded) - GAP) / 2
    return max(LEAST_RADIUS + 1, min(_GREATEST_RADIUS, radius))


def pushed_apart(points: Points, least: float) -> Points:
    """The points, pushed from each other until no two are much nearer than `least`."""
    rng = Random(1)
    points = points + [[rng.random() * 0.01, rng.random() * 0.01] for _ in range(len(points))]
    for _ in range(80):
        apart = points[:, None, :] - points[None, :, :]
        distance = np.sqrt(apart[:, :, 0] ** 2 + apart[:, :, 1] ** 2)
        np.fill_diagonal(distance, least)
        push = np.maximum(0.0, least - distance) / distance / 2
        if not push.any():
            break
        points = points - (push[:, :, None] * apart).sum(axis=0) * 0.9
    return np.round(points, 3)
