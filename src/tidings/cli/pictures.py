"""Pictures: sets of values on a line.

::

    x < 4 OR x = 7        ━━━━━━━━━━━━○───────────●────────────
                                      4           7

A thick line is inside, a thin one outside; ● belongs to the set, ○ does not. Distances mean
nothing: places are spread so that their labels fit. Pure: intervals in, lines of text out.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from datetime import datetime
from typing import Any, Final, NamedTuple

from rich.cells import cell_len, set_cell_size

from tidings.events.intervals import AFTER, BEFORE, Cut, Intervals
from tidings.events.phrases import literal
from tidings.events.values import time_text

INSIDE: Final = "━"
OUTSIDE: Final = "─"
OMITTED: Final = "┄"
CLOSED: Final = "●"
OPEN: Final = "○"

_LONGEST_LABEL: Final = 22
_GAPS: Final = (12, 9, 6, 3)  # tried in turn until the picture is narrow enough


def picture(*rows: Intervals, width: int = 60) -> list[str]:
    """Sets over one domain above each other on the same line, and below it the labels.

    The picture is at most `width` wide if that is at least 60; places that do not fit are left
    out before the last one, and counted.

    >>> from tidings.events.intervals import NUMBERS
    >>> low, high = Intervals.below(NUMBERS, 4), Intervals.above(NUMBERS, 7, closed=True)
    >>> for line in picture(low, high):
    ...     print(line)
    ━━━━━━━━━━━━○────────────────────────
    ────────────────────────●━━━━━━━━━━━━
                4           7
    """
    own = [_places(row) for row in rows]
    places = sorted(set().union(*own))
    if not places:
        return [(INSIDE if row.is_full else OUTSIDE) * 2 * _GAPS[0] for row in rows]
    stops = _fitting(places, width)
    return [
        *(_row(row, marked, stops) for row, marked in zip(rows, own, strict=True)),
        _labels(stops),
    ]


class _Stop(NamedTuple):
    """A labelled column of the picture."""

    column: int
    label: str
    place: Any
    stands_for_many: bool = False
    """Whether it marks no place but the gap where some are left out."""


def _places(row: Intervals) -> set[Any]:
    """The values at which the set begins, ends, or has a single member or gap."""
    order = row.order
    singles = [
        value
        for part in (row, row.inverse())
        for span in part.spans()
        if (value := order.value(span)) is not None
    ]
    told = {order.cut(value, side) for value in singles for side in (BEFORE, AFTER)}
    ends = [_spelt(row, cut) for cut in row.cuts if cut not in told]
    return {*singles, *ends}


def _spelt(row: Intervals, cut: Cut) -> Any:
    """The shortest value to name a place by: after 'a' rather than before 'a\\0'."""
    return min(row.order.spellings(cut), key=lambda c: len(literal(c[0])))[0]


def label(value: object) -> str:
    """A value as it is written under the line.

    >>> label("DIS"), label(2.0)
    ("'DIS'", '2')
    """
    text = time_text(value).removesuffix("T00:00:00Z") if isinstance(value, datetime) else ""
    text = text or "".join(c if c.isprintable() else "·" for c in literal(value))
    if cell_len(text) <= _LONGEST_LABEL:
        return text
    return set_cell_size(text, _LONGEST_LABEL - 1).rstrip() + "…"


def _fitting(places: list[Any], width: int) -> list[_Stop]:
    """Columns for the places, as far apart as the width allows."""
    most = width // _GAPS[-1]
    if len(places) <= most:
        for gap in _GAPS:
            stops = _spread([_Stop(0, label(p), p) for p in places], gap)
            if _end(stops) <= width:
                return stops
    last = _Stop(0, label(places[-1]), places[-1])
    for kept in range(min(most, len(places) - 2), 0, -1):
        shown = [_Stop(0, label(p), p) for p in places[:kept]]
        omitted = _Stop(0, f"{len(places) - kept - 1:,} more", None, True)
        stops = _spread([*shown, omitted, last], _GAPS[-1])
        if _end(stops) <= width:
            break
    return stops


def _spread(stops: list[_Stop], gap: int) -> list[_Stop]:
    """The stops in columns at least `gap` apart, and as far as their labels need."""
    spread: list[_Stop] = []
    column = free = 0
    for stop in stops:
        size = cell_len(stop.label)
        left = (size - 1) // 2
        column = max(column + gap, free + left)
        free = column - left + size + 2
        spread.append(stop._replace(column=column))
    return spread


def _end(stops: list[_Stop]) -> int:
    """The width of a picture with these columns."""
    first, last = stops[0], stops[-1]
    return last.column + 1 + max(first.column, cell_len(last.label) // 2 + 1)


def _row(row: Intervals, marked: set[Any], stops: list[_Stop]) -> str:
    line = ""
    inside = row.inside
    for stop in stops:
        if stop.stands_for_many:
            start = stop.column - (cell_len(stop.label) - 1) // 2
            line += _stroke(inside) * (start - len(line)) + OMITTED * cell_len(stop.label)
            continue
        before, here = _state(row, stop.place, BEFORE), row.matches(stop.place)
        line += _stroke(before) * (stop.column - len(line))
        line += (CLOSED if here else OPEN) if stop.place in marked else _stroke(here)
        inside = _state(row, stop.place, AFTER)
    return line + _stroke(inside) * (_end(stops) - len(line))


def _stroke(inside: bool) -> str:
    return INSIDE if inside else OUTSIDE


def _state(row: Intervals, value: Any, side: int) -> bool:
    """Whether the line just before or just after the value is inside."""
    cut = row.order.cut(value, side)
    if isinstance(cut, bool):  # the line has no such side
        return False
    passed = bisect_left(row.cuts, cut) if side == BEFORE else bisect_right(row.cuts, cut)
    return bool(row.inside ^ (passed & 1))


def _labels(stops: list[_Stop]) -> str:
    line = ""
    for stop in stops:
        start = stop.column - (cell_len(stop.label) - 1) // 2
        line += " " * (start - cell_len(line)) + stop.label
    return line
