"""`tidings pipeline match`: who would have heard what, of all that a lake holds."""

from __future__ import annotations

import time
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

import typer

from tidings.cli.complaints import counted, remark, shortened
from tidings.cli.match import read_filters
from tidings.cli.progress import ProgressLine, progress
from tidings.cli.stopping import stops_told
from tidings.events import Filter, Schema, TidingsError
from tidings.spark.matching.folder import MatchFolder
from tidings.spark.matching.report import Summary, moment
from tidings.spark.sessions import session_or_none

_BUSIEST: Final = 5
_LONGEST: Final = 50


def match_lake(
    lake: Path,
    filters: Path,
    out: Path,
    *,
    schema_file: Path | None,
    since: str | None,
    until: str | None,
    is_listed: bool,
    master: str,
) -> int:
    """Match all that a lake holds, and write who would have heard it; returns the exit code."""
    schema = None if schema_file is None else Schema.load(schema_file)
    with progress() as shown:
        wanted = _keyed(read_filters(filters, schema, shown))
    if not wanted:
        raise TidingsError(f"{filters}: there are no filters in this file")
    until = None if until == "now" else until  # the lake as it is when it begins
    named = _named([filters] if schema_file is None else [filters, schema_file])
    folder = MatchFolder(
        lake, wanted, out, since=since, until=until, is_listed=is_listed, named=named
    )
    if folder.was_complete:
        summary = folder.summary()
        done = moment(summary.began)
        remark(f"{out}: this was done before, at {done}; remove the folder to do it again")
        _tell(summary)
        return 0
    if folder.was_begun:
        remark(f"going on with what is in {out}.unfinished")
    began = time.monotonic()
    summary = _run(folder, master)
    _tell(summary, time.monotonic() - began)
    return 0


def _run(folder: MatchFolder, master: str) -> Summary:
    """Do it; Spark is started first, so that there is nothing to go on with where that fails."""
    goes_on = f"the same command goes on where it was, with {folder.out}.unfinished"
    line = ProgressLine()
    line.starting(master)
    with (
        stops_told(goes_on if folder.was_begun else "the same command begins anew"),
        session_or_none("tidings pipeline match", master=master) as spark,
    ):
        folder.begin()
        with stops_told(goes_on):
            summary = folder.run(
                spark,
                lambda events, matches: line.count(
                    events, folder.events, "events", f", {matches:,} matches"
                ),
            )
    line.clear()
    return summary


def _keyed(filters: Sequence[tuple[str | int, Filter]]) -> dict[Any, Filter]:
    """By their keys; all of these are texts if any is: a line without a key has its number."""
    are_numbers = all(isinstance(key, int) for key, _ in filters)
    return {key if are_numbers else str(key): filter_ for key, filter_ in filters}


def _named(files: Sequence[Path]) -> str | None:
    """A name for the content of files; None if one can't be read again, as a pipe can't."""
    if not all(file.is_file() for file in files):
        return None
    return blake2b(b"".join(file.read_bytes() for file in files), digest_size=16).hexdigest()


def _tell(summary: Summary, seconds: float | None = None) -> None:
    matched = "" if summary.matched is None else f", {summary.matched:,} of which match"
    rate = f"; {summary.events / seconds:,.0f} a second" if seconds and seconds > 1 else ""
    remark(f"{counted(summary.events, 'event')}{matched}{rate}")
    remark(
        f"{counted(summary.matches, 'match', 'matches')}; nothing matches {summary.silent:,} of "
        f"{counted(summary.filters, 'filter')}"
    )
    for key, count, first, last in summary.busiest[:_BUSIEST]:
        remark(f"  {count:>12,}  {shortened(key, _LONGEST)}  {first:%Y-%m-%d} to {last:%Y-%m-%d}")
    typer.echo(str(summary.out / "report.md"))
