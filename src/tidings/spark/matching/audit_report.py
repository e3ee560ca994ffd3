"""Reports of audits: what came of one, and how it reads."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

_TIME: Final = "%Y-%m-%d %H:%M:%S"


@dataclass(frozen=True)
class Summary:
    """What came of it."""

    out: Path
    lake: Path
    events: int
    matched: int | None
    """How many events match a filter; None if that is not known, as filters were in parts."""
    matches: int
    filters: int
    silent: int
    """So many filters never matched."""
    busiest: list[tuple[str, int, datetime, datetime]]
    """Key, number of matches, first, last."""


def report(summary: Summary, since: str, until: str) -> str:
    """The report, as Markdown."""
    window = " and ".join(
        f"{word} {place}" for word, place in (("since", since), ("until", until)) if place
    )
    matched = "" if summary.matched is None else f" {summary.matched:,} of them match a filter."
    lines = [
        "# Who would have heard what",
        "",
        f"{summary.filters:,} filters and the {summary.events:,} events of `{summary.lake}`"
        f"{' ' if window else ''}{window}.{matched}",
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
    lines += ["", "`matches/` has the events that match: id, stream, tick, time, keys."]
    return "\n".join([*lines, ""])
