"""The report on a match of a whole lake: what came of it, and how it reads."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from tidings.events.values import EPOCH, MICROSECOND
from tidings.lakes.pruning import Place, Window
from tidings.protocol.cursors import cursor_text

_TIME: Final = "%Y-%m-%d %H:%M:%S"


@dataclass(frozen=True)
class Summary:
    """What came of it."""

    out: Path
    lake: Path
    window: Window
    began: datetime
    """The lake is as it was then."""
    is_listed: bool
    """Whether matches were written, or only counted."""
    events: int
    matched: int | None
    """How many events match a filter; None if that is not known, as filters were in parts."""
    matches: int
    filters: int
    silent: int
    """How many filters never matched."""
    busiest: list[tuple[str, int, datetime, datetime]]
    """Key, number of matches, first, last."""


def moment(time: datetime) -> str:
    """A time, to be read.

    >>> moment(EPOCH)
    '1970-01-01 00:00:00 UTC'
    """
    return f"{time:{_TIME}} UTC"


def span(window: Window) -> str:
    """Where it begins and ends, in times and cursors, whatever words it was asked for with.

    >>> span(Window.of("2026-11-15", "paris:17"))
    'since 2026-11-15 00:00:00 UTC and until paris:17'
    """
    places = {"since": _placed(window.since), "until": _placed(window.until)}
    return " and ".join(f"{word} {place}" for word, place in places.items() if place)


def _placed(place: Place) -> str:
    if place.time is not None:
        return moment(EPOCH + place.time * MICROSECOND)
    return "" if place.cursor is None else cursor_text(place.cursor)


def report(summary: Summary) -> str:
    """The report, as Markdown."""
    window = span(summary.window)
    matched = "" if summary.matched is None else f" {summary.matched:,} of them match a filter."
    lines = [
        "# Who would have heard what",
        "",
        f"{summary.filters:,} filters and the {summary.events:,} events of `{summary.lake}`"
        f"{' ' if window else ''}{window}, as it was at {moment(summary.began)}.{matched}",
        f"There are {summary.matches:,} matches; {summary.silent:,} of the filters match nothing.",
        "",
        "| filter | matches | first | last |",
        "|---|---|---|---|",
    ]
    for key, count, first, last in summary.busiest:
        name = key.replace("|", "\\|")
        lines.append(f"| {name} | {count:,} | {first:{_TIME}} | {last:{_TIME}} |")
    if summary.filters - summary.silent > len(summary.busiest):
        lines += ["", "All filters are in `summary.parquet`, those that match nothing with 0."]
    if summary.is_listed:
        lines += ["", "`matches/` has the events that match: stream, tick, time, matches."]
    return "\n".join([*lines, ""])
