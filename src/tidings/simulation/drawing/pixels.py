"""Pixels: places scaled, and brokers pushed apart, so that circles have room between them."""

from __future__ import annotations

from random import Random
from typing import Final

import numpy as np

from tidings.simulation.drawing.places import Points
from tidings.simulation.topology import Topology

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
