"""`tidings pipeline`: events into a lake."""

from __future__ import annotations

import signal
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import typer

from tidings.spark.archive import Report, archive
from tidings.spark.lake import Lake


def archive_events(
    url: str,
    lake: Path,
    *,
    token: str | None,
    authority: str | None,
    filter: str,
    until_live: bool,
    skip_gaps: bool,
) -> None:
    """Archive until it is stopped, or has caught up; tells how it goes on stderr."""
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        with suppress(ValueError):  # only the main thread may
            signal.signal(number, lambda *_: stop.set())
    report = archive(
        url,
        Lake(lake),
        token=token,
        tls=authority,
        filter=filter,
        until="live" if until_live else None,
        on_gap="continue" if skip_gaps else "fail",
        progress=_tell,
        stop=stop,
    )
    if sys.stderr.isatty():
        typer.echo("\r\033[K", nl=False, err=True)
    place = f", up to {report.cursor}" if report.cursor else ""
    typer.echo(
        f"{report.events:,} events archived in {report.commits:,} commits, "
        f"{report.seconds:.1f} s{place}",
        err=True,
    )


def _tell(report: Report) -> Any:
    state = "caught up" if report.is_live else "catching up"
    line = f"{report.events:,} events, {report.rate:,.0f}/s, {state}"
    if sys.stderr.isatty():
        typer.echo(f"\r\033[K{line}", nl=False, err=True)
