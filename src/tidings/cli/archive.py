"""`tidings pipeline archive`: events into a lake."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import typer

from tidings.cli.progress import Line
from tidings.events import TidingsError
from tidings.spark.archiving.archive import GapError, Report, archive
from tidings.spark.lakes.lake import Lake
from tidings.spark.sessions import session_or_none


def archive_events(
    url: str,
    lake: Path,
    *,
    token: str | None,
    authority: str | None,
    filter: str | None,
    master: str,
    until_live: bool,
    skip_gaps: bool,
) -> None:
    """Archive until it is stopped, or has caught up; tells how it goes on stderr."""
    place, line = Lake(lake, filter=filter), Line()
    with session_or_none("tidings archive", master=master) as spark, gaps_told():
        stop = stopped_by_signals()  # only now: Spark sets a handler of its own
        report = archive(
            url,
            place,
            token=token,
            tls=authority,
            spark=spark,
            until="live" if until_live else None,
            on_gap="continue" if skip_gaps else "fail",
            progress=lambda report: line.tell(_told(report)),
            stop=stop,
        )
    line.clear()
    upto = f", up to {report.cursor}" if report.cursor else ""
    rate = report.events / max(report.seconds, 1e-9)
    typer.echo(
        f"{report.events:,} events archived in {report.commits:,} commits, "
        f"{report.seconds:.1f} s, {rate:,.0f}/s{upto}",
        err=True,
    )


@contextmanager
def gaps_told() -> Iterator[None]:
    """Tell of a gap in the words of the command."""
    try:
        yield
    except GapError as problem:
        raise TidingsError(
            f"{problem.lost}. With --skip-gaps it goes on there, and the lake notes the gap"
        ) from None


def stopped_by_signals() -> threading.Event:
    """Is set by Ctrl-C or SIGTERM, so that what is under way can come to its end."""
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        with suppress(ValueError):  # only the main thread may
            signal.signal(number, lambda *_: stop.set())
    return stop


def _told(report: Report) -> str:
    state = "caught up" if report.is_live else "catching up"
    return f"{report.events:,} events, {report.rate:,.0f}/s, {state}"
