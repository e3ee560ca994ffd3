"""The page: background, title, links, brokers, text, and the legend in a strip of its own below."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from textwrap import wrap
from typing import Final

from tidings.simulation.drawing.labels import Box, Label, labels_of
from tidings.simulation.drawing.scene import Scene, Spot, scene_of
from tidings.simulation.drawing.signs import (
    BACKGROUND,
    OUTSIDE_STYLE,
    SMALL_FONT,
    circle_at,
    escaped,
    line_between,
    line_style,
    px,
    short,
    shown,
    text_at,
    text_width,
)
from tidings.simulation.topology import Topology

_MARGIN: Final = 20.0
_NARROWEST: Final = 420.0
"""The least number of pixels across the page."""
_TITLE_FONT: Final = 15.0
_TITLE_LINE: Final = 21.0
"""Pixels from one line of the title to the next."""


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
    return _page(scene_of(topology, tables, traffic, tree, down), title)


def _page(scene: Scene, title: str) -> str:
    of_nodes, of_links = labels_of(scene)
    bounds = _bounds(scene, [label.box for label in (*of_nodes, *of_links)])
    inner = max(_NARROWEST - 2 * _MARGIN, bounds.right - bounds.left)
    width = inner + 2 * _MARGIN
    heading = _heading(title, inner)
    top = _MARGIN + len(heading) * _TITLE_LINE + (8 if heading else 0)
    legend, legend_height = legend_of(scene, inner)
    below = top + bounds.bottom - bounds.top + _MARGIN
    height = below + legend_height + _MARGIN / 2
    shift_x = width / 2 - (bounds.left + bounds.right) / 2
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
            f'viewBox="0 0 {width:.0f} {height:.0f}" '
            "font-family=\"Helvetica, Arial, 'DejaVu Sans', sans-serif\">",
            f"<title>{escaped(title)}</title>" if title else "<title>network</title>",
            f'<rect width="100%" height="100%" fill="{BACKGROUND}"/>',
            *heading,
            f'<g transform="translate({px(shift_x)} {px(top - bounds.top)})">',
            *_lines(scene),
            *_circles(scene),
            *(_written(label) for label in (*of_links, *of_nodes)),
            "</g>",
            f'<g transform="translate({px(_MARGIN)} {px(below)})">',
            *legend,
            "</g>",
            "</svg>\n",
        )
    )


def _heading(title: str, width: float) -> list[str]:
    """The title, in as many lines as it needs."""
    lines = wrap(shown(title, len(title)), max(10, int(width / (_TITLE_FONT * 0.68))))
    return [
        text_at(_MARGIN, _MARGIN + (i + 0.2) * _TITLE_LINE, line, _TITLE_FONT, weight="bold")
        for i, line in enumerate(lines)
    ]


def _bounds(scene: Scene, boxes: Iterable[Box]) -> Box:
    """The rectangle that circles and text take up together."""
    circles = [(spot.x, spot.y, spot.reach) for spot in scene.spots.values()]
    all_boxes = [*boxes, *(Box.around(x, y, 2 * r, 2 * r) for x, y, r in circles)]
    left, top, right, bottom = zip(*all_boxes, strict=True)
    return Box(min(left), min(top), max(right), max(bottom))


def _lines(scene: Scene) -> Iterator[str]:
    """The lines of the links, busy ones above quiet ones."""
    facts = scene.facts
    links = sorted(
        facts.topology.links,
        key=lambda link: (link not in facts.outside, facts.traffic.get(link, 0)),
    )
    for link in links:
        a, b = scene.spots[link.a], scene.spots[link.b]
        messages = facts.traffic.get(link, 0)
        style = OUTSIDE_STYLE if link in facts.outside else line_style(scene.width, messages)
        tip = f"{link}: {messages:,} message{'' if messages == 1 else 's'}"
        yield line_between(a.x, a.y, b.x, b.y, style, tip)


def _circles(scene: Scene) -> Iterator[str]:
    facts = scene.facts
    for node, spot in scene.spots.items():
        held = facts.tables.get(node)
        tip = node if held is None else f"{node}: {held:,} entr{'y' if held == 1 else 'ies'}"
        yield from circle_at(spot, f"{tip}, down" if spot.crossed else tip)


def _written(label: Label) -> str:
    box = label.box
    plate = (
        f'<rect x="{px(box.left)}" y="{px(box.top)}" width="{px(box.right - box.left)}" '
        f'height="{px(box.bottom - box.top)}" rx="2" fill="{BACKGROUND}" fill-opacity="0.85"/>'
        if label.plate
        else ""
    )
    return plate + text_at(label.x, label.y, label.text, label.size, side=label.side)


@dataclass
class _Group:
    """A row of signs with their meanings, whose origin is its left end, half-way up."""

    width: float = 0.0
    parts: list[str] = field(default_factory=list)

    def sign(self, width: float, parts: Iterable[str], meaning: str) -> None:
        """Append a sign of this width, which was drawn for the end of the row, and its meaning."""
        self.parts += parts
        self.width += width + 4
        self.words(meaning)

    def words(self, text: str) -> None:
        """Append text."""
        self.parts.append(text_at(self.width, 0, text, SMALL_FONT))
        self.width += text_width(text, SMALL_FONT) + 10


def legend_of(scene: Scene, width: float) -> tuple[list[str], float]:
    """The scales and signs that occur, in rows of at most this width, and their height."""
    row = max(22.0, scene.radius.greatest * 2 + 6)
    x, y = 0.0, row / 2
    parts: list[str] = []
    groups = [group for group in _groups(scene) if group.parts]
    for group in groups:
        if x > 0 and x + group.width > width:
            x, y = 0.0, y + row
        parts += [f'<g transform="translate({px(x)} {px(y)})">', *group.parts, "</g>"]
        x += group.width + 14
    return parts, (y + row / 2) if groups else 0.0


def _groups(scene: Scene) -> Iterator[_Group]:
    facts = scene.facts
    tables = _Group()
    if samples := scene.radius.samples():
        tables.words("table entries:")
    for value in samples:
        r = scene.radius(value)
        tables.sign(2 * r, circle_at(Spot(tables.width + r, 0, r)), short(value))
    yield tables
    traffic = _Group()
    if samples := scene.width.samples():
        traffic.words("messages:")
    for value in samples:
        x, style = traffic.width, line_style(scene.width, value)
        traffic.sign(26, [line_between(x, 0, x + 26, 0, style)], short(value))
    yield traffic
    if facts.outside:
        outside = _Group()
        outside.sign(26, [line_between(0, 0, 26, 0, OUTSIDE_STYLE)], "not in the tree")
        yield outside
    if facts.down:
        down = _Group()
        down.sign(18, circle_at(Spot(9, 0, 7, crossed=True)), "down")
        yield down
