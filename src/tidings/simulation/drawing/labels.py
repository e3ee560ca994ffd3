"""Labels: the text that fits without covering circles or other text; tooltips hold the rest."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from tidings.simulation.drawing.scene import Scene, Spot
from tidings.simulation.drawing.signs import FONT, SMALL_FONT, short, shown, text_width
from tidings.simulation.topology import Link

_LONGEST_NAME: Final = 14
"""Characters of a name that a label shows."""


class Box(NamedTuple):
    """An upright rectangle."""

    left: float
    top: float
    right: float
    bottom: float

    @classmethod
    def around(cls, x: float, y: float, width: float, height: float) -> Box:
        return cls(x - width / 2, y - height / 2, x + width / 2, y + height / 2)


class Label(NamedTuple):
    """One line of text. `side` is 1 if it begins at x, −1 if it ends there, 0 if it is centred."""

    x: float
    y: float
    text: str
    side: int = 0
    size: float = FONT
    plate: bool = True
    """Whether the text lies on a plate of the background's colour, to be read above lines."""

    @property
    def box(self) -> Box:
        width = text_width(self.text, self.size)
        return Box.around(self.x + self.side * width / 2, self.y, width, self.size + 2)


class _Taken:
    """What text must not cover, circles and other text, and what it should not: lines."""

    def __init__(self, scene: Scene) -> None:
        spots = scene.spots
        self._circles = np.array([(s.x, s.y, s.reach) for s in spots.values()])
        links = scene.facts.topology.links
        self._lines = np.array(
            [(*spots[link.a][:2], *spots[link.b][:2]) for link in links], dtype=float
        ).reshape(-1, 4)
        self._boxes = np.empty((0, 4))

    def add(self, box: Box) -> None:
        self._boxes = np.vstack((self._boxes, box))

    def covers(self, box: Box) -> bool:
        """Whether the box would cover a circle or other text."""
        x, y, r = self._circles.T
        dx = x - np.clip(x, box.left, box.right)
        dy = y - np.clip(y, box.top, box.bottom)
        if (dx * dx + dy * dy < (r + 1.5) ** 2).any():
            return True
        left, top, right, bottom = self._boxes.T
        beside = (left >= box.right) | (right <= box.left)
        return not (beside | (top >= box.bottom) | (bottom <= box.top)).all()

    def lines_under(self, box: Box) -> int:
        """How many lines pass under the box: those of which a part is left in all its bounds."""
        x, y, to_x, to_y = self._lines.T
        first, last = np.zeros(len(x)), np.ones(len(x))
        for start, step, low, high in (
            (x, to_x - x, box.left, box.right),
            (y, to_y - y, box.top, box.bottom),
        ):
            step = np.where(step == 0, 1e-12, step)
            one, two = (low - start) / step, (high - start) / step
            first = np.maximum(first, np.minimum(one, two))
            last = np.minimum(last, np.maximum(one, two))
        return int((first < last).sum())


def labels_of(scene: Scene) -> tuple[list[Label], list[Label]]:
    """The text of the brokers and of the links, as far as there is room."""
    taken = _Taken(scene)
    of_nodes: list[Label] = []
    for node in _by_interest(scene):
        for label in _node_labels(scene, node, taken):
            taken.add(label.box)
            of_nodes.append(label)
    of_links: list[Label] = []
    busiest = sorted(scene.facts.traffic.items(), key=lambda item: -item[1])
    for link, messages in busiest:
        label_or_none = _link_label(scene, link, messages, taken)
        if label_or_none is not None:
            taken.add(label_or_none.box)
            of_links.append(label_or_none)
    return of_nodes, of_links


def _by_interest(scene: Scene) -> list[str]:
    """The brokers: first those that are down, then those with the largest tables."""
    facts = scene.facts
    return sorted(
        facts.topology.nodes,
        key=lambda node: (node not in facts.down, -facts.tables.get(node, 0)),
    )


def _node_labels(scene: Scene, node: str, taken: _Taken) -> list[Label]:
    """A broker's name, inside its circle or beside it, and the number if there is room for it."""
    spot, name = scene.spots[node], shown(node, _LONGEST_NAME)
    held = scene.facts.tables.get(node)
    number = "" if held is None else short(held)
    if not spot.crossed and (inside := _inside(spot, name, number)):
        return inside
    beside = _beside(spot, f"{name} · {number}" if number else name, taken)
    if beside is None and number:
        if not spot.crossed and (inside := _inside(spot, name, "")):
            return inside
        beside = _beside(spot, name, taken)
    return [] if beside is None else [beside]


def _inside(spot: Spot, name: str, number: str) -> list[Label]:
    """The name above the number, if both fit into the circle, else nothing."""
    rise = FONT * 0.55 if number else 0.0
    widest = max(text_width(name, FONT), text_width(number, SMALL_FONT))
    if math.hypot(widest / 2, rise + FONT * 0.35) > spot.r + 1:  # corners are rarely inked
        return []
    above = Label(spot.x, spot.y - rise, name, plate=False)
    below = Label(spot.x, spot.y + rise, number, size=SMALL_FONT, plate=False)
    return [above, below] if number else [above]


def _beside(spot: Spot, text: str, taken: _Taken) -> Label | None:
    """The label beside the circle that crosses the fewest lines, if there is room for any."""
    best: Label | None = None
    fewest = 3
    for dx, dy, side in _around(spot.reach):
        label = Label(spot.x + dx, spot.y + dy, text, side)
        lines = taken.lines_under(label.box)
        if lines < fewest and not taken.covers(label.box):
            best, fewest = label, lines
    return best


def _around(r: float) -> Iterator[tuple[float, float, int]]:
    """The places of a label next to a circle, each with its side, the preferred ones first."""
    away, above = r + 4, r + 3 + FONT / 2
    yield from ((away, 0, 1), (-away, 0, -1), (0, above, 0), (0, -above, 0))
    slant = 0.75
    for side, up in ((1, 1), (-1, 1), (1, -1), (-1, -1)):
        yield side * away * slant, up * above * slant, side


def _link_label(scene: Scene, link: Link, messages: int, taken: _Taken) -> Label | None:
    """The count on the line, near its middle, if enough of the line stays in sight."""
    if messages <= 0:
        return None
    a, b = scene.spots[link.a], scene.spots[link.b]
    length = math.dist(a[:2], b[:2])
    number = short(messages)
    box = Label(0, 0, number, size=SMALL_FONT).box
    along, up = abs(b.x - a.x) / length, abs(b.y - a.y) / length
    hidden = min((box.right * 2) / max(along, 1e-9), (box.bottom * 2) / max(up, 1e-9))
    if length - a.r - b.r < hidden + 14:
        return None
    for part in (0.5, 0.42, 0.58, 0.34, 0.66):
        x, y = a.x + (b.x - a.x) * part, a.y + (b.y - a.y) * part
        label = Label(x, y, number, size=SMALL_FONT)
        if taken.lines_under(label.box) == 1 and not taken.covers(label.box):
            return label
    return None
