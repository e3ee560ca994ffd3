"""`tidings store`: check, back up, restore or renew the store of a broker."""

from __future__ import annotations

from pathlib import Path

import typer

from tidings.broker.configuration import USUAL, Configuration
from tidings.broker.store.backup import Restored, back_up, renew, restore
from tidings.broker.store.check import check
from tidings.cli.complaints import complain
from tidings.cli.progress import ProgressLine
from tidings.events import TidingsError
from tidings.protocol.host import Span


def check_store(folder: Path | None, config: Path | None) -> bool:
    """Print what a check finds; whether all is well."""
    path, _ = _store(folder, config)
    line = ProgressLine()
    report = check(path, told=lambda done, total: line.count(done, total, "events read"))
    line.clear()
    in_use = ", which runs" if report.is_in_use else ""
    typer.echo(f"{path} is the store of {report.broker}{in_use}.")
    for stream, span in report.spans.items():
        typer.echo(f"  {stream}: {_kept(span)}")
    for problem in report.problems:
        complain(problem)
    if report.doubt is not None:
        complain(f"a start would begin an epoch: {report.doubt}")
    if report.problems:
        typer.echo("It is damaged: see `tidings store restore --help`.")
    elif report.doubt is None:
        typer.echo("All is well.")
    return not report.problems and report.doubt is None


def back_up_store(folder: Path, target: Path) -> None:
    """Write a backup, and print up to where it goes."""
    line = ProgressLine()
    taken = back_up(folder, target, told=lambda done, n: line.count(done, n, "pages copied"))
    line.clear()
    typer.echo(f"{target} has the store of {taken.broker} up to {taken.place}.")


def restore_store(backup: Path, folder: Path, *, replace: bool, above: int) -> None:
    """Restore a backup, and print what that means."""
    line = ProgressLine()
    done = restore(
        backup,
        folder,
        replace=replace,
        above=above,
        told=lambda done, total: line.count(done, total, "events checked"),
    )
    line.clear()
    assert done.taken is not None
    typer.echo(f"{folder} has the store of {done.broker} as it was at {done.taken.place}.")
    typer.echo(
        f"The next start begins {done.begins}. Readers who have heard more than the backup holds "
        "are told so; all others go on."
    )
    _tell_aside(done)


def renew_store(folder: Path | None, config: Path | None, *, name: str | None, above: int) -> None:
    """Begin an empty store, and print what that means."""
    path, configured = _store(folder, config)
    done = renew(path, broker=name or configured, above=above)
    typer.echo(f"{path} has an empty store of {done.broker}, which begins with {done.begins}.")
    _tell_aside(done)


def _tell_aside(done: Restored) -> None:
    if done.aside is not None:
        typer.echo(f"What was there before is in {done.aside}.")


def _store(folder: Path | None, config: Path | None) -> tuple[Path, str | None]:
    """The folder of the store, and the broker's name if a configuration says it."""
    if folder is not None and config is not None:
        raise TidingsError("give a folder or a configuration, not both")
    if folder is not None:
        return folder, None
    if config is None and not USUAL.exists():
        raise TidingsError("say which store: its folder, or --config with the broker's file")
    configuration = Configuration.load(config or USUAL)
    return Path(configuration.store), configuration.name


def _kept(span: Span) -> str:
    if span.last < span.first:
        return f"nothing is kept of it, it ends at tick {span.last}"
    return f"ticks {span.first:,} to {span.last:,} are kept"
