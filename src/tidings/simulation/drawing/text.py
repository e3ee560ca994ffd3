"""Text: fonts, how wide text is, and how names and numbers are written in little room."""

from __future__ import annotations

from typing import Final
from unicodedata import east_asian_width

FONT: Final = 11.0
SMALL_FONT: Final = 9.5


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
