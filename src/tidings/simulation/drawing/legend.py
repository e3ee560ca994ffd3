"""The legend: the scales and signs that occur in a drawing, with their meanings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from tidings.simulation.drawing.scene import Scene, Spot
from tidings.simulation.drawing.signs import (
    OUTSIDE_STYLE,
    circle_at,
    line_between,
    line_style,
    px,
    text_at,
)
from tidings.simulation.drawing.text import SMALL_FONT, short, text_width


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
