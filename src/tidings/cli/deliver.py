"""`tidings pipeline deliver`: bulk subscriptions are served, until somebody stops it."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from time import monotonic
from typing import Any, Final

import typer

from tidings.cli.complaints import remark
from tidings.cli.pipeline import gaps_told, stopped_by_signals
from tidings.spark.bulk.deliver import deliver
from tidings.spark.bulk.tally import Report
from tidings.spark.sessions import session_for_python

_SPARSE: Final = 10.0
"""Seconds between two lines where nobody looks at a terminal."""


def deliver_events(
    url: str,
    folder: Path | None,
    *,
    token: str | None,
    authority: str | None,
    inbox: Path | None,
    skip_gaps: bool,
    master: str,
) -> None:
    """Deliver until it is stopped; tells how it goes on stderr."""
    place = folder or default_folder(url)
    remark(f"the table of subscriptions is in {place}")
    with session_for_python("tidings deliver", master=master) as spark, gaps_told():
        stop = stopped_by_signals()  # only now: Spark sets a handler of its own
        report = deliver(
            spark,
            url,
            place,
            token=token,
            authority=authority,
            inbox=inbox,
            skip_gaps=skip_gaps,
            progress=_Told(),
            stop=stop,
        )
    if sys.stderr.isatty():
        typer.echo("\r\033[K", nl=False, err=True)
    rate = report.events / max(report.seconds, 1e-9)
    typer.echo(
        f"{report.events:,} events read, {report.matched:,} wanted by somebody, "
        f"{report.delivered:,} delivered to {report.subscriptions:,} subscriptions, in "
        f"{report.batches:,} batches, {report.seconds:.1f} s, {rate:,.0f}/s",
        err=True,
    )
    if report.dead:
        letters = place / "dead-letters"
        typer.echo(f"{report.dead:,} deliveries could not be published: see {letters}", err=True)
    if report.refused:
        typer.echo(f"{report.refused:,} registrations were none; the last: {report.why}", err=True)


def default_folder(url: str) -> Path:
    """A folder of the user's for what is delivered from a broker."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state, "tidings", "deliver", re.sub(r"[^A-Za-z0-9.]+", "-", url).strip("-"))


class _Told:
    """Tells each report on a terminal, and some where there is none."""

    def __init__(self) -> None:
        self._next = 0.0

    def __call__(self, report: Report) -> Any:
        dead = f", {report.dead:,} could not be" if report.dead else ""
        late = "" if report.latency is None else f", {report.latency:.1f} s after the event"
        bad = f", {report.refused:,} of them wrong" if report.refused else ""
        line = (
            f"{report.events:,} events, {report.rate:,.0f}/s, {report.matched:,} wanted, "
            f"{report.delivered:,} delivered{dead}{late}; "
            f"{report.subscriptions:,} subscriptions{bad}"
        )
        if sys.stderr.isatty():
            typer.echo(f"\r\033[K{line}", nl=False, err=True)
        elif monotonic() >= self._next:
            self._next = monotonic() + _SPARSE
            typer.echo(line, err=True)
