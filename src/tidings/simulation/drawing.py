"""Drawings: a topology, what its brokers hold and what its links carried, as one SVG document.

The area of a circle grows with the broker's table, the width of a line with the link's traffic.
Pure, and stable: equal arguments give equal text.

    places    where each broker is, in any unit: given, a radial tree, or balanced springs
    scaled    in pixels, so that circles have room between them
    labels    whatever text fits without covering circles or other text; tooltips hold the rest
    page      background, title, links, brokers, text, and the legend in a strip of its own below
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from random import Random
from textwrap import wrap
from typing import Final, NamedTuple, TypeAlias
from unicodedata import east_asian_width
from xml.sax.saxutils import escape

import numpy as np
import numpy.typing as npt

from tidings.events.errors import TidingsError
from tidings.simulation.topology import Link, Topology

Points: TypeAlias = npt.NDArray[np.float64]
"""One row (x, y) for each broker, in the order of the topology's nodes."""

_BACKGROUND: Final = "#fdfdfb"
_INK: Final = "#1f2933"
_FAINT_INK: Final = "#52606d"
_BROKER: Final = "#cfe3f7"
_BROKER_EDGE: Final = "#2f6690"
_DOWN: Final = "#fbd5d5"
_DOWN_EDGE: Final = "#c81e1e"
_OUTSIDE: Final = "#a3aab3"
_QUIET: Final = (0x8F, 0xA6, 0xBA)
_BUSY: Final = (0xC2, 0x41, 0x0C)

_LEAST_RADIUS: Final = 4.0
_GREATEST_RADIUS: Final = 24.0
_GAP: Final = 6.0  # that stays free between two circles
_FONT: Final = 11.0
_SMALL_FONT: Final = 9.5
_MARGIN: Final = 20.0
_NARROWEST: Final = 420.0  # page
_WIDEST: Final = 1500.0  # drawing, before its labels
_USUAL_DISTANCE: Final = 30.0  # between neighbours in the picture
_USUAL_LINK: Final = 92.0
_LEAST_WIDTH: Final = 1.2
_GREATEST_WIDTH: Final = 7.0
_LONGEST_NAME: Final = 14
_LONGEST_STRAIGHT_LINE: Final = 12


def draw(
    topology: Topology,
    *,
    tables: Mapping[str, int],
    traffic: Mapping[tuple[str, str], int],
    tree: Collection[tuple[str, str]] | None = None,
    down: Collection[str] = (),
    title: str = "",
) -> str:
    """The network as a self-contained SVG document.

    `tables` says how many entries a broker holds; one that is left out is drawn as small as can
    be. `traffic` says how many messages a link carried; counts of both directions are added. If
    `tree` names the links in use, all others are dashed and grey. Brokers that are `down` are red
    and crossed. A broker or link that the topology does not have is an error.

    Names and numbers are written where there is room. Every one of them is in the document in any
    case, as the tooltip of its circle or line.

    >>> from tidings.simulation.topology import line
    >>> picture = draw(line(2), tables={"b0": 3}, traffic={("b0", "b1"): 7})
    >>> "<title>b0: 3 entries</title>" in picture, "<title>b0 – b1: 7 messages</title>" in picture
    (True, True)
    """
    facts = _facts(topology, tables, traffic, tree, down)
    points = _scaled(topology, _places(topology))
    radius = _Scale(facts.greatest_table, _LEAST_RADIUS, _room(points, _quantile(topology)))
    if _quantile(topology) > 0:
        points = _apart(points, radius.greatest * 2 + _GAP)
    width = _Scale(facts.greatest_traffic, _LEAST_WIDTH, _GREATEST_WIDTH)
    spots = {
        node: _Spot(float(x), float(y), radius(facts.tables.get(node, 0)), node in facts.down)
        for node, (x, y) in zip(topology.nodes, points, strict=True)
    }
    return _page(_Scene(facts, spots, radius, width), title)


# What is to be drawn. ---------------------------------------------------------------------------


class _Facts(NamedTuple):
    """The caller's arguments, checked, by the topology's own names and links."""

    topology: Topology
    tables: dict[str, int]
    traffic: dict[Link, int]
    outside: set[Link]
    down: set[str]

    @property
    def greatest_table(self) -> int:
        return max(self.tables.values(), default=0)

    @property
    def greatest_traffic(self) -> int:
        return max(self.traffic.values(), default=0)


def _facts(
    topology: Topology,
    tables: Mapping[str, int],
    traffic: Mapping[tuple[str, str], int],
    tree: Collection[tuple[str, str]] | None,
    down: Collection[str],
) -> _Facts:
    for node in (*tables, *down):
        if node not in topology:
            raise TidingsError(f"cannot draw broker {node!r}: the topology has none of that name")
    carried: dict[Link, int] = {}
    for (a, b), messages in traffic.items():
        link = topology.link(a, b)
        carried[link] = carried.get(link, 0) + messages
    inside = topology.links if tree is None else [topology.link(a, b) for a, b in tree]
    return _Facts(topology, dict(tables), carried, set(topology.links) - set(inside), set(down))


@dataclass(frozen=True)
class _Scale:
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
class _Scene:
    """Everything that has a place, in pixels."""

    facts: _Facts
    spots: dict[str, _Spot]
    radius: _Scale
    width: _Scale


class _Spot(NamedTuple):
    """A circle, which may be crossed out."""

    x: float
    y: float
    r: float
    crossed: bool = False

    @property
    def arm(self) -> float:
        """How far the cross goes to each side."""
        return max(self.r * 0.72, _LEAST_RADIUS) + 1.5

    @property
    def reach(self) -> float:
        """How far circle and cross go, whichever goes farther."""
        return max(self.r, self.arm) if self.crossed else self.r


# Where the brokers are. -------------------------------------------------------------------------


def _places(topology: Topology) -> Points:
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


def _springs(topology: Topology) -> Points:
    """Places as far from each other as there are links between them, as nearly as it goes.

    Between each two brokers stands a spring as long as their distance in links, and the stiffer
    the shorter it is; every round moves each broker to where its springs pull it. Only sums,
    products and roots are taken, each sum in a fixed order, so all machines agree.
    """
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
    """How many links each broker is from each other."""
    place = {node: i for i, node in enumerate(topology.nodes)}
    table = np.zeros((len(topology), len(topology)))
    for node in topology.nodes:
        for other, hops in topology.hops_from(node).items():
            table[place[node], place[other]] = hops
    return table


def _start(length: Points) -> Points:
    """Places by the distances to two pairs of far brokers, and a little chance against ties."""
    a = int(length[0].argmax())
    b = int(length[a].argmax())
    c = int(np.minimum(length[a], length[b]).argmax())
    d = int(length[c].argmax())
    rng = Random(0)
    chance = np.array([[rng.random(), rng.random()] for _ in range(len(length))])
    far: Points = np.stack((length[a] - length[b], length[c] - length[d]), axis=1) / 2
    start: Points = far + chance
    return start


def _scaled(topology: Topology, points: Points) -> Points:
    """The places in pixels: crowded ones get room, but the page stays within bounds."""
    if len(points) == 1:
        return np.zeros((1, 2))
    place = {node: i for i, node in enumerate(topology.nodes)}
    ends = np.array([(place[link.a], place[link.b]) for link in topology.links])
    spans = np.hypot(*(points[ends[:, 0]] - points[ends[:, 1]]).T)
    factor = max(
        _USUAL_DISTANCE / max(_crowding(points, _quantile(topology)), 1e-9),
        _USUAL_LINK / max(float(np.median(spans)), 1e-9),
    )
    extent = float((points.max(axis=0) - points.min(axis=0)).max())
    return points * min(factor, _WIDEST / max(extent, 1e-9))


def _quantile(topology: Topology) -> float:
    """Which part of the brokers may be crowded at first, because they are nudged apart later.

    None in a tree that is laid out here: a nudge could make its links cross.
    """
    return 0.0 if topology.is_tree and topology.positions is None else 0.3


def _crowding(points: Points, quantile: float) -> float:
    """The least distance to the nearest neighbour, but for this part of the brokers."""
    distance = np.hypot(*(points[:, None, :] - points[None, :, :]).transpose(2, 0, 1))
    np.fill_diagonal(distance, np.inf)
    return float(np.sort(distance.min(axis=0))[int(len(points) * quantile)])


def _room(points: Points, quantile: float) -> float:
    """The radius of the largest circles that leave a gap, but for this part of the brokers."""
    if len(points) == 1:
        return _GREATEST_RADIUS
    radius = (_crowding(points, quantile) - _GAP) / 2
    return max(_LEAST_RADIUS + 1, min(_GREATEST_RADIUS, radius))


def _apart(points: Points, least: float) -> Points:
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


# Where the text is. -----------------------------------------------------------------------------


class _Box(NamedTuple):
    """An upright rectangle."""

    left: float
    top: float
    right: float
    bottom: float

    @classmethod
    def around(cls, x: float, y: float, width: float, height: float) -> _Box:
        return cls(x - width / 2, y - height / 2, x + width / 2, y + height / 2)


class _Label(NamedTuple):
    """One line of text. `side` is 1 if it begins at x, −1 if it ends there, 0 if it is centred."""

    x: float
    y: float
    text: str
    side: int = 0
    size: float = _FONT
    plate: bool = True
    """Whether it lies on a plate of the background's colour, to be read above lines."""

    @property
    def box(self) -> _Box:
        width = _text_width(self.text, self.size)
        return _Box.around(self.x + self.side * width / 2, self.y, width, self.size + 2)


def _text_width(text: str, size: float) -> float:
    """An upper estimate, for no font is known here."""
    return size * sum(1.0 if east_asian_width(c) in "WF" else 0.64 for c in text)


class _Taken:
    """What text must not cover: circles and other text; and lines, which it should not."""

    def __init__(self, scene: _Scene) -> None:
        spots = scene.spots
        self._circles = np.array([(s.x, s.y, s.reach) for s in spots.values()])
        links = scene.facts.topology.links
        self._lines = np.array(
            [(*spots[link.a][:2], *spots[link.b][:2]) for link in links], dtype=float
        ).reshape(-1, 4)
        self._boxes = np.empty((0, 4))

    def add(self, box: _Box) -> None:
        self._boxes = np.vstack((self._boxes, box))

    def covers(self, box: _Box) -> bool:
        """Whether the box would cover a circle or other text."""
        x, y, r = self._circles.T
        dx = x - np.clip(x, box.left, box.right)
        dy = y - np.clip(y, box.top, box.bottom)
        if (dx * dx + dy * dy < (r + 1.5) ** 2).any():
            return True
        left, top, right, bottom = self._boxes.T
        beside = (left >= box.right) | (right <= box.left)
        return not (beside | (top >= box.bottom) | (bottom <= box.top)).all()

    def lines_under(self, box: _Box) -> int:
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


def _labels(scene: _Scene) -> tuple[list[_Label], list[_Label]]:
    """The text of the brokers and of the links, as far as there is room."""
    taken = _Taken(scene)
    of_nodes: list[_Label] = []
    for node in _by_interest(scene):
        for label in _node_labels(scene, node, taken):
            taken.add(label.box)
            of_nodes.append(label)
    of_links: list[_Label] = []
    busiest = sorted(scene.facts.traffic.items(), key=lambda item: -item[1])
    for link, messages in busiest:
        label_or_none = _link_label(scene, link, messages, taken)
        if label_or_none is not None:
            taken.add(label_or_none.box)
            of_links.append(label_or_none)
    return of_nodes, of_links


def _by_interest(scene: _Scene) -> list[str]:
    """Those that are down first, then those with the largest tables."""
    facts = scene.facts
    return sorted(
        facts.topology.nodes,
        key=lambda node: (node not in facts.down, -facts.tables.get(node, 0)),
    )


def _node_labels(scene: _Scene, node: str, taken: _Taken) -> list[_Label]:
    """Inside the circle or beside it, with the number or, if only that has room, without."""
    spot, name = scene.spots[node], _shown(node, _LONGEST_NAME)
    held = scene.facts.tables.get(node)
    number = "" if held is None else _short(held)
    if not spot.crossed and (inside := _inside(spot, name, number)):
        return inside
    beside = _beside(spot, f"{name} · {number}" if number else name, taken)
    if beside is None and number:
        if not spot.crossed and (inside := _inside(spot, name, "")):
            return inside
        beside = _beside(spot, name, taken)
    return [] if beside is None else [beside]


def _inside(spot: _Spot, name: str, number: str) -> list[_Label]:
    """The name above the number, if both fit into the circle."""
    rise = _FONT * 0.55 if number else 0.0
    widest = max(_text_width(name, _FONT), _text_width(number, _SMALL_FONT))
    if math.hypot(widest / 2, rise + _FONT * 0.35) > spot.r + 1:  # corners are rarely inked
        return []
    above = _Label(spot.x, spot.y - rise, name, plate=False)
    below = _Label(spot.x, spot.y + rise, number, size=_SMALL_FONT, plate=False)
    return [above, below] if number else [above]


def _beside(spot: _Spot, text: str, taken: _Taken) -> _Label | None:
    """Where it crosses the fewest lines, if anywhere."""
    best: _Label | None = None
    fewest = 3
    for dx, dy, side in _around(spot.reach):
        label = _Label(spot.x + dx, spot.y + dy, text, side)
        lines = taken.lines_under(label.box)
        if lines < fewest and not taken.covers(label.box):
            best, fewest = label, lines
    return best


def _around(r: float) -> Iterator[tuple[float, float, int]]:
    """Where a label next to a circle may be and on which side, the preferred places first."""
    away, above = r + 4, r + 3 + _FONT / 2
    yield from ((away, 0, 1), (-away, 0, -1), (0, above, 0), (0, -above, 0))
    slant = 0.75
    for side, up in ((1, 1), (-1, 1), (1, -1), (-1, -1)):
        yield side * away * slant, up * above * slant, side


def _link_label(scene: _Scene, link: Link, messages: int, taken: _Taken) -> _Label | None:
    """The count on the line, near its middle, if enough of the line stays in sight."""
    if messages <= 0:
        return None
    a, b = scene.spots[link.a], scene.spots[link.b]
    length = math.dist(a[:2], b[:2])
    number = _short(messages)
    box = _Label(0, 0, number, size=_SMALL_FONT).box
    along, up = abs(b.x - a.x) / length, abs(b.y - a.y) / length
    hidden = min((box.right * 2) / max(along, 1e-9), (box.bottom * 2) / max(up, 1e-9))
    if length - a.r - b.r < hidden + 14:
        return None
    for part in (0.5, 0.42, 0.58, 0.34, 0.66):
        x, y = a.x + (b.x - a.x) * part, a.y + (b.y - a.y) * part
        label = _Label(x, y, number, size=_SMALL_FONT)
        if taken.lines_under(label.box) == 1 and not taken.covers(label.box):
            return label
    return None


def _shown(name: str, longest: int) -> str:
    """Text that can be drawn: what cannot be seen is a dot, what is too long is cut."""
    name = "".join(c if c.isprintable() else "·" for c in name)
    return name if len(name) <= longest else name[: longest - 1] + "…"


def _short(number: int) -> str:
    """A number in little room.

    >>> _short(1234), _short(45678), _short(3_456_789)
    ('1,234', '46k', '3.5M')
    """
    if number < 10_000:
        return f"{number:,}"
    for unit, letter in ((10**9, "G"), (10**6, "M")):
        if number >= unit:
            return f"{number / unit:.1f}{letter}"
    return f"{number / 1000:.0f}k"


# The page. --------------------------------------------------------------------------------------


def _page(scene: _Scene, title: str) -> str:
    of_nodes, of_links = _labels(scene)
    bounds = _bounds(scene, [label.box for label in (*of_nodes, *of_links)])
    inner = max(_NARROWEST - 2 * _MARGIN, bounds.right - bounds.left)
    width = inner + 2 * _MARGIN
    heading = _heading(title, inner)
    top = _MARGIN + len(heading) * _TITLE_LINE + (8 if heading else 0)
    legend, legend_height = _legend(scene, inner)
    below = top + bounds.bottom - bounds.top + _MARGIN
    height = below + legend_height + _MARGIN / 2
    shift_x = width / 2 - (bounds.left + bounds.right) / 2
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
            f'viewBox="0 0 {width:.0f} {height:.0f}" '
            "font-family=\"Helvetica, Arial, 'DejaVu Sans', sans-serif\">",
            f"<title>{_escaped(title)}</title>" if title else "<title>network</title>",
            f'<rect width="100%" height="100%" fill="{_BACKGROUND}"/>',
            *heading,
            f'<g transform="translate({_n(shift_x)} {_n(top - bounds.top)})">',
            *_lines(scene),
            *_circles(scene),
            *(_written(label) for label in (*of_links, *of_nodes)),
            "</g>",
            f'<g transform="translate({_n(_MARGIN)} {_n(below)})">',
            *legend,
            "</g>",
            "</svg>\n",
        )
    )


_TITLE_FONT: Final = 15.0
_TITLE_LINE: Final = 21.0


def _heading(title: str, width: float) -> list[str]:
    """The title, in as many lines as it needs."""
    lines = wrap(_shown(title, len(title)), max(10, int(width / (_TITLE_FONT * 0.68))))
    return [
        _text(_MARGIN, _MARGIN + (i + 0.2) * _TITLE_LINE, line, _TITLE_FONT, weight="bold")
        for i, line in enumerate(lines)
    ]


def _bounds(scene: _Scene, boxes: Iterable[_Box]) -> _Box:
    """What circles and text take up together."""
    circles = [(spot.x, spot.y, spot.reach) for spot in scene.spots.values()]
    all_boxes = [*boxes, *(_Box.around(x, y, 2 * r, 2 * r) for x, y, r in circles)]
    left, top, right, bottom = zip(*all_boxes, strict=True)
    return _Box(min(left), min(top), max(right), max(bottom))


def _lines(scene: _Scene) -> Iterator[str]:
    """The links, busy ones above quiet ones."""
    facts = scene.facts
    links = sorted(
        facts.topology.links,
        key=lambda link: (link not in facts.outside, facts.traffic.get(link, 0)),
    )
    for link in links:
        a, b = scene.spots[link.a], scene.spots[link.b]
        messages = facts.traffic.get(link, 0)
        style = _OUTSIDE_STYLE if link in facts.outside else _line_style(scene.width, messages)
        tip = f"{link}: {messages:,} message{'' if messages == 1 else 's'}"
        yield _line(a.x, a.y, b.x, b.y, style, tip)


_OUTSIDE_STYLE: Final = f'stroke="{_OUTSIDE}" stroke-width="1.2" stroke-dasharray="4 4"'


def _line_style(scale: _Scale, messages: int) -> str:
    width = scale(messages)
    part = (width - scale.least) / (scale.greatest - scale.least)
    red, green, blue = (round(q + (b - q) * part) for q, b in zip(_QUIET, _BUSY, strict=True))
    return f'stroke="#{red:02x}{green:02x}{blue:02x}" stroke-width="{width:.2f}"'


def _circles(scene: _Scene) -> Iterator[str]:
    facts = scene.facts
    for node, spot in scene.spots.items():
        held = facts.tables.get(node)
        tip = node if held is None else f"{node}: {held:,} entr{'y' if held == 1 else 'ies'}"
        yield from _circle(spot, f"{tip}, down" if spot.crossed else tip)


def _circle(spot: _Spot, tip: str = "") -> Iterator[str]:
    fill, edge = (_DOWN, _DOWN_EDGE) if spot.crossed else (_BROKER, _BROKER_EDGE)
    title = f"<title>{_escaped(tip)}</title>" if tip else ""
    yield (
        f'<circle cx="{_n(spot.x)}" cy="{_n(spot.y)}" r="{_n(spot.r)}" fill="{fill}" '
        f'stroke="{edge}" stroke-width="1.3">{title}</circle>'
    )
    if spot.crossed:
        (x, y), arm = spot[:2], spot.arm
        style = f'stroke="{_DOWN_EDGE}" stroke-width="1.8"'
        yield _line(x - arm, y - arm, x + arm, y + arm, style)
        yield _line(x - arm, y + arm, x + arm, y - arm, style)


def _line(x: float, y: float, to_x: float, to_y: float, style: str, tip: str = "") -> str:
    title = f"<title>{_escaped(tip)}</title>" if tip else ""
    return f'<line x1="{_n(x)}" y1="{_n(y)}" x2="{_n(to_x)}" y2="{_n(to_y)}" {style}>{title}</line>'


def _written(label: _Label) -> str:
    box = label.box
    plate = (
        f'<rect x="{_n(box.left)}" y="{_n(box.top)}" width="{_n(box.right - box.left)}" '
        f'height="{_n(box.bottom - box.top)}" rx="2" fill="{_BACKGROUND}" fill-opacity="0.85"/>'
        if label.plate
        else ""
    )
    return plate + _text(label.x, label.y, label.text, label.size, side=label.side)


def _text(
    x: float, y: float, text: str, size: float, *, side: int = 1, weight: str = "normal"
) -> str:
    """A line of text that has its middle at y; `side` as in a label."""
    anchor = {1: "start", 0: "middle", -1: "end"}[side]
    ink = _FAINT_INK if size < _FONT else _INK
    return (
        f'<text x="{_n(x)}" y="{_n(y + size * 0.36)}" font-size="{size}" font-weight="{weight}" '
        f'text-anchor="{anchor}" fill="{ink}">{_escaped(text)}</text>'
    )


def _n(number: float) -> str:
    """A coordinate to a tenth of a pixel, by which machines agree; never "-0.0"."""
    return f"{round(number, 1) + 0.0:.1f}"


def _escaped(text: str) -> str:
    return escape(_shown(text, len(text)))


# The legend. ------------------------------------------------------------------------------------


@dataclass
class _Group:
    """Signs with their meanings in one row, drawn from its own left end and middle."""

    width: float = 0.0
    parts: list[str] = field(default_factory=list)

    def sign(self, width: float, parts: Iterable[str], meaning: str) -> None:
        """A sign of this width, already drawn at the end of the row, and its meaning."""
        self.parts += parts
        self.width += width + 4
        self.words(meaning)

    def words(self, text: str) -> None:
        self.parts.append(_text(self.width, 0, text, _SMALL_FONT))
        self.width += _text_width(text, _SMALL_FONT) + 10


def _legend(scene: _Scene, width: float) -> tuple[list[str], float]:
    """The scales and signs that occur, in rows of at most this width, and their height."""
    row = max(22.0, scene.radius.greatest * 2 + 6)
    x, y = 0.0, row / 2
    parts: list[str] = []
    groups = [group for group in _groups(scene) if group.parts]
    for group in groups:
        if x > 0 and x + group.width > width:
            x, y = 0.0, y + row
        parts += [f'<g transform="translate({_n(x)} {_n(y)})">', *group.parts, "</g>"]
        x += group.width + 14
    return parts, (y + row / 2) if groups else 0.0


def _groups(scene: _Scene) -> Iterator[_Group]:
    facts = scene.facts
    tables = _Group()
    if samples := scene.radius.samples():
        tables.words("table entries:")
    for value in samples:
        r = scene.radius(value)
        tables.sign(2 * r, _circle(_Spot(tables.width + r, 0, r)), _short(value))
    yield tables
    traffic = _Group()
    if samples := scene.width.samples():
        traffic.words("messages:")
    for value in samples:
        style = _line_style(scene.width, value)
        traffic.sign(26, [_line(traffic.width, 0, traffic.width + 26, 0, style)], _short(value))
    yield traffic
    if facts.outside:
        outside = _Group()
        outside.sign(26, [_line(0, 0, 26, 0, _OUTSIDE_STYLE)], "not in the tree")
        yield outside
    if facts.down:
        down = _Group()
        down.sign(18, _circle(_Spot(9, 0, 7, crossed=True)), "down")
        yield down
