"""Commands about the store of a broker: to check it, to back it up, and to go on from a backup."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tidings.cli.complaints import failures_told
from tidings.cli.options import Config, argument, group, option

commands = group()

_OptionalFolder = Annotated[
    Path | None, argument("FOLDER", "Of the store; else what the configuration says.")
]
_Above = Annotated[
    int,
    option(
        "--above EPOCH",
        "An epoch that readers know of, though no store does: 2 if they know paris~2.",
        min=0,
    ),
]


@commands.callback()
def store() -> None:
    """Check, back up and restore the store of a broker.

    A broker that cannot prove that its log goes on where it ended, since it was damaged or
    restored, never uses a tick twice: it closes its stream, say paris, and begins paris~2.
    """


@commands.command()
def check(folder: _OptionalFolder = None, config: Config = None) -> None:
    """Read all of a store, and say what is wrong with it.

    Every event and every value has a checksum, and the ticks of a stream leave no gap; whether
    the log goes on where it ended is proved by two files beside it, `mark` and `identity`. The
    broker may run meanwhile; if it does not, the structure of the database is checked, too.
    FOLDER may also be the file of a backup.

    \b
    Exit codes:
      0  all is well
      1  something is damaged, or a start would begin an epoch
      2  this is no store, or it cannot be read

    \b
    Examples:
      tidings store check /var/lib/tidings
      tidings store check --config paris.toml
      tidings store check paris-monday.db
    """
    with failures_told():
        from tidings.cli.store import check_store

        is_well = check_store(folder, config)
    if not is_well:
        raise typer.Exit(1)


@commands.command()
def backup(
    folder: Annotated[Path, argument("FOLDER", "Of the store.")],
    target: Annotated[Path, argument("DEST", "A file that is not there yet.")],
) -> None:
    """Copy a store into a file, while its broker runs.

    The copy is the store as it was at one moment, and it says which. Commits go on meanwhile.

    \b
    Examples:
      tidings store backup /var/lib/tidings /backups/paris-monday.db
      tidings store check /backups/paris-monday.db
    """
    with failures_told():
        from tidings.cli.store import back_up_store

        back_up_store(folder, target)


@commands.command()
def restore(
    backup: Annotated[Path, argument("BACKUP", "What `tidings store backup` has made.")],
    folder: Annotated[Path, argument("FOLDER", "Of the store.")],
    replace: Annotated[
        bool, option("--replace", "Put a store that is there aside, within its folder.")
    ] = False,
    above: _Above = 0,
) -> None:
    """Put a backup into a folder, for a broker that does not run.

    What was published after the backup is not in it. So the next start closes the stream where
    the backup ends and begins another one: paris, then paris~2. Readers who are beyond that end
    are told so; all others go on. Its epoch is above any that the backup or a replaced store
    knows of. The backup is checked first.

    \b
    Examples:
      tidings store restore /backups/paris-monday.db /var/lib/tidings
      tidings store restore --replace /backups/paris-monday.db /var/lib/tidings
    """
    with failures_told():
        from tidings.cli.store import restore_store

        restore_store(backup, folder, replace=replace, above=above)


@commands.command()
def renew(
    folder: _OptionalFolder = None,
    config: Config = None,
    name: Annotated[
        str | None, option("--name NAME", "The broker, if the store cannot say it.")
    ] = None,
    above: _Above = 0,
) -> None:
    """Begin an empty log in another epoch, if there is no backup.

    What is left of the old store is put aside, within its folder. Events, durable subscriptions
    and publishers' numbers are gone; readers are told so, and begin with the new stream. After
    the loss of a whole disk, say with --above which epoch readers know of.

    \b
    Examples:
      tidings store renew /var/lib/tidings
      tidings store renew --config paris.toml
      tidings store renew /var/lib/tidings --name paris --above 2
    """
    with failures_told():
        from tidings.cli.store import renew_store

        renew_store(folder, config, name=name, above=above)
