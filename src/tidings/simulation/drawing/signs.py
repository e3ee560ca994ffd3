"""Signs: circles, lines and text as elements of SVG, their colours, and how wide text is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final
from unicodedata import east_asian_width
from xml.sax.saxutils import escape

from tidings.simulation.drawing.scene import Scale, Spot

FONT: Final = 11.0
SMALL_FONT: Final = 9.5


BACKGROUND: Final = "#fdfdfb"
_INK: Final = "#1f2933"
_FAINT_INK: Final = "#52606d"
_BROKER: Final = "#cfe3f7"
_BROKER_EDGE: Final = "#2f6690"
_DOWN: Final = "#fbd5d5"
_DOWN_EDGE: Final = "#c81e1e"
_OUTSIDE: Final = "#a3aab3"
_QUIET: Final = (0x8F, 0xA6, 0xBA)
_BUSY: Final = (0xC2, 0x41, 0x0C)

OUTSIDE_STYLE: Final = f'stroke="{_OUTSIDE}" stroke-width="1.2" stroke-dasharray="4 4"'


def line_style(scale: Scale, messages: int) -> str:
    """How a link is drawn that carried this number of messages: the more, the wider and redder."""
    width = scale(messages)
    part = (width - scale.least) / (scale.greatest - scale.least)
    red, green, blue = (round(q + (b - q) * part) for q, b in zip(_QUIET, _BUSY, strict=True))
    return f'stroke="#{red:02x}{green:02x}{blue:02x}" stroke-width="{width:.2f}"'


def circle_at(spot: Spot, tip: str = "") -> Iterator[str]:
    """A circle with a tooltip, and its cross if it is crossed out."""
    fill, edge = (_DOWN, _DOWN_EDGE) if spot.crossed else (_BROKER, _BROKER_EDGE)
    title = f"<title>{escaped(tip)}</title>" if tip else ""
    yield (
        f'<circle cx="{px(spot.x)}" cy="{px(spot.y)}" r="{px(spot.r)}" fill="{fill}" '
        f'stroke="{edge}" stroke-width="1.3">{title}</circle>'
    )
    if spot.crossed:
        (x, y), arm = spot[:2], spot.arm
        style = f'stroke="{_DOWN_EDGE}" stroke-width="1.8"'
        yield line_between(x - arm, y - arm, x + arm, y + arm, style)
        yield line_between(x - arm, y + arm, x + arm, y - arm, style)


def line_between(x: float, y: float, to_x: float, to_y: float, style: str, tip: str = "") -> str:
    """A straight line with a tooltip."""
    title = f"<title>{escaped(tip)}</title>" if tip else ""
    return f'<line x1="{px(x)}" y1="{px(y)}" x2="{px(to_x)}" y2="{px(to_y)}" {style}>{title}</line>'


def text_at(
    x: float, y: float, text: str, size: float, *, side: int = 1, weight: str = "normal"
) -> str:
    """A line of text that has its middle at y; `side` as in a label."""
    anchor = {1: "start", 0: "middle", -1: "end"}[side]
    ink = _FAINT_INK if size < FONT else _INK
    return (
        f'<text x="{px(x)}" y="{px(y + size * 0.36)}" font-size="{size}" font-weight="{weight}" '
        f'text-anchor="{anchor}" fill="{ink}">{escaped(text)}</text>'
    )


def px(number: float) -> str:
    """A coordinate to a tenth of a pixel, on which all machines agree; never "-0.0"."""
    return f"{round(number, 1) + 0.0:.1f}"


def escaped(text: str) -> str:
    """Text as it is written in XML, without characters that cannot be drawn."""
    return escape(shown(text, len(text)))


def text_width(text: str, size: float) -> float:
    """How wide text is at most; no more is known, because the reader's fonts are not."""
    return size * sum(1.0 if east_asian_width(c) in "WF" else 0.64 for c in text)


def shown(name: str, longest: int) -> str:
    """Text that can be drawn: what cannot be seen is a dot, what is too long is cut."""
    name = "".join(c if c.isprintable() else "·" for c in name)
    return name if len(name) <= longest else name[: longest - 1] + "…"


def short(number: int) -> str:
    """A number in little room.

    >>> short(1234), short(45678), short(3_456_789)
    ('1,234', '46k', '3.5M')
    """
    if number < 10_000:
        return f"{number:,}"
    for unit, letter in ((10**9, "G"), (10**6, "M")):
        if number >= unit:
            return f"{number / unit:.1f}{letter}"
    return f"{number / 1000:.0f}k"
