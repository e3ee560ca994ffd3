"""`tidings pipeline archive`: events into a lake."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import typer

from tidings.cli.complaints import counted, remark
from tidings.cli.progress import ProgressLine
from tidings.cli.stopping import stopped_by_signals
from tidings.client import Login
from tidings.events import Filter, TidingsError
from tidings.lakes.lake import Lake
from tidings.spark.archiving.archive import ArchiveReport, GapError, archive
from tidings.spark.interrupts import Stopped
from tidings.spark.sessions import session_or_none


def archive_events(
    login: Login,
    lake: Path,
    *,
    filter: str | None,
    master: str,
    until_live: bool,
    skip_gaps: bool,
) -> None:
    """Archive until it is stopped, or has caught up; tells how it goes on stderr."""
    wanted = None if filter is None else Filter.parse(filter)
    if not _is_nothing(lake):
        Lake(lake, filter=wanted)  # what is wrong with it is known soonest
    with login.plain():
        pass  # somebody is there
    line, stop = ProgressLine(), stopped_by_signals()
    line.starting(master)
    with ends_told(), session_or_none("tidings archive", master=master) as spark:
        report = archive(
            login.url,
            Lake(lake, filter=wanted),  # made only now: it would stay with its filter
            token=login.token,
            tls=login.tls,
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
        f"{counted(report.events, 'event')} archived in {counted(report.commits, 'commit')}, "
        f"{report.seconds:.1f} s, {rate:,.0f}/s{upto}",
        err=True,
    )


@contextmanager
def ends_told() -> Iterator[None]:
    """Tell in the words of the command of a gap, and of a stop before anything was done."""
    try:
        yield
    except GapError as problem:
        raise TidingsError(
            f"{problem.lost}. With --skip-gaps it goes on there, and the lake notes the gap"
        ) from None
    except Stopped:
        remark("stopped before it had begun")
        raise typer.Exit from None


def _is_nothing(path: Path) -> bool:
    return not any(path.iterdir()) if path.is_dir() else not path.exists()


def _told(report: ArchiveReport) -> str:
    state = "caught up" if report.is_live else "catching up"
    return f"{counted(report.events, 'event')}, {report.rate:,.0f}/s, {state}"
