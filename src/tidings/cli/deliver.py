"""`tidings pipeline deliver`: bulk subscriptions are served, until somebody stops it."""

from __future__ import annotations

import os
import re
from pathlib import Path

import typer

from tidings.cli.archive import ends_told
from tidings.cli.complaints import counted, remark
from tidings.cli.progress import ProgressLine
from tidings.cli.stopping import stopped_by_signals
from tidings.client import Login
from tidings.spark.delivering.deliver import deliver
from tidings.spark.delivering.lock import locked
from tidings.spark.delivering.tally import DeliverReport
from tidings.spark.sessions import session_for_python


def deliver_events(
    login: Login,
    folder: Path | None,
    *,
    inbox: Path | None,
    skip_gaps: bool,
    master: str,
) -> None:
    """Deliver until it is stopped; tells how it goes on stderr."""
    place = folder or default_folder(login.url)
    with locked(place):
        pass  # else it is known only when Spark has started
    line, stop = ProgressLine(), stopped_by_signals()

    def ready(goes_on: bool) -> None:
        line.clear()
        remark("going on where it was" if goes_on else "delivering what is published from now on")

    remark(f"the table of subscriptions is in {place}")
    line.starting(master)
    with ends_told(), session_for_python("tidings deliver", master=master) as spark:
        report = deliver(
            spark,
            login.url,
            place,
            token=login.token,
            tls=login.tls,
            inbox=inbox,
            skip_gaps=skip_gaps,
            ready=ready,
            progress=lambda report: line.tell(_told(report)),
            stop=stop,
        )
    line.clear()
    rate = report.events / max(report.seconds, 1e-9)
    typer.echo(
        f"{counted(report.events, 'event')} read, {report.matched:,} wanted by somebody, "
        f"{report.delivered:,} delivered to {counted(report.subscriptions, 'subscription')}, in "
        f"{counted(report.batches, 'batch', 'batches')}, {report.seconds:.1f} s, {rate:,.0f}/s",
        err=True,
    )
    if report.dead:
        letters = place / "dead-letters"
        dead = counted(report.dead, "delivery", "deliveries")
        typer.echo(f"{dead} could not be published: see {letters}", err=True)
    if report.refused:
        wrong = counted(report.refused, "registration")
        typer.echo(f"{wrong} could not be read; the last: {report.why}", err=True)


def default_folder(url: str) -> Path:
    """A folder of the user's for what is delivered from a broker."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state, "tidings", "deliver", re.sub(r"[^A-Za-z0-9.]+", "-", url).strip("-"))


def _told(report: DeliverReport) -> str:
    dead = f", {report.dead:,} could not be" if report.dead else ""
    late = "" if report.latency is None else f", {report.latency:.1f} s after the event"
    bad = f", {report.refused:,} of them wrong" if report.refused else ""
    return (
        f"{counted(report.events, 'event')}, {report.rate:,.0f}/s, {report.matched:,} wanted, "
        f"{report.delivered:,} delivered{dead}{late}; "
        f"{counted(report.subscriptions, 'subscription')}{bad}"
    )
