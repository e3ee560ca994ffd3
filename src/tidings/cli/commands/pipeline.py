"""Commands of the data pipeline, which run on Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tidings.cli.complaints import failures_told
from tidings.cli.options import (
    HERE,
    Authority,
    Certificate,
    Key,
    Master,
    MasterOrNone,
    SchemaFile,
    Token,
    TokenFile,
    Url,
    group,
    login,
    option,
)

commands = group(
    help="Keep events in a lake, match history, serve subscriptions in bulk, and learn.",
)


@commands.command()
def archive(
    lake: Annotated[Path, option("--lake DIR", "A Delta table; made if it is missing.")],
    url: Url = HERE,
    token: Token = None,
    token_file: TokenFile = None,
    authority: Authority = None,
    certificate: Certificate = None,
    key: Key = None,
    filter: Annotated[
        str | None,
        option("--filter FILTER", "What to archive; a lake stays with what it was made for."),
    ] = None,
    master: MasterOrNone = "local[*]",
    until_live: Annotated[bool, option("--until-live", "End once it has caught up.")] = False,
    skip_gaps: Annotated[
        bool, option("--skip-gaps", "Go on though brokers no longer keep what comes next.")
    ] = False,
) -> None:
    """Bring what is published into a lake, each event once.

    It begins where the lake ends, and goes on until Ctrl-C. Killed at any moment and started
    again, it goes on where it was: how far the lake is is part of the same commit as the events.
    The lake is a Delta table by day, which any reader of Delta sees just as it was committed.

    A stream is copied straight from the log of its broker, if that is one of those in the URL
    and the lake is for everything; that is several times as fast.

    \b
    Examples:
      tidings pipeline archive --lake quotes
      tidings pipeline archive --lake falling --filter "change < 0" --until-live
      tidings pipeline archive --lake quotes --master none
    """
    with failures_told():
        from tidings.cli.archive import archive_events

        archive_events(
            login(url, token, token_file, authority, certificate, key),
            lake,
            filter=filter,
            master=master,
            until_live=until_live,
            skip_gaps=skip_gaps,
        )


@commands.command("match")
def match_lake(
    lake: Annotated[Path, option("--lake DIR", "The lake.")],
    filters: Annotated[
        Path, option("--filters FILE", "Filters: one on each line, or a key, a tab and a filter.")
    ],
    out: Annotated[Path, option("--out DIR", "Where to write; not there yet.")],
    since: Annotated[
        str | None, option("--since WHEN", "A time, how long ago, or a cursor.")
    ] = None,
    until: Annotated[str | None, option("--until WHEN", "Likewise, or now: where to end.")] = None,
    count_only: Annotated[
        bool, option("--count-only", "Write no matches, only how many there are.")
    ] = False,
    schema: SchemaFile = None,
    master: MasterOrNone = "local[*]",
) -> None:
    """Find who would have heard what, of all that a lake holds.

    Every event is matched with every filter of a file, which is read as `tidings match` reads it.
    Written are `matches` (stream, tick and time of each event that matches, and in `matches` the
    keys), `summary.parquet` (for each key how often, first and last, also for those that never
    match) and a report. With --count-only there are no `matches`, which takes less time and room.

    The folder is there when all of it is; until then it is called DIR.unfinished. Stopped or
    killed, the same command goes on where it was, with the lake as it was.

    \b
    Examples:
      tidings pipeline match --lake quotes --filters desks.tsv --out heard
      tidings pipeline match --lake quotes --filters desks.tsv --out today --since "1 day ago"
      tidings pipeline match --lake /shared/quotes --filters desks.tsv --out /shared/heard \\
          --master spark://host:7077
    """
    with failures_told():
        from tidings.cli.match_lake import match_lake as match_all

        code = match_all(
            lake,
            filters,
            out,
            schema_file=schema,
            since=since,
            until=until,
            is_listed=not count_only,
            master=master,
        )
    raise typer.Exit(code)


@commands.command()
def deliver(
    url: Url = HERE,
    token: Token = None,
    token_file: TokenFile = None,
    authority: Authority = None,
    certificate: Certificate = None,
    key: Key = None,
    lake: Annotated[
        Path | None,
        option(
            "--lake DIR",
            "Where the table of subscriptions is, and how far it is; else a folder of yours.",
        ),
    ] = None,
    inbox: Annotated[
        Path | None, option("--inbox DIR", "Deliver into this Delta table instead.")
    ] = None,
    skip_gaps: Annotated[
        bool, option("--skip-gaps", "Go on though brokers no longer keep what comes next.")
    ] = False,
    master: Master = "local[*]",
) -> None:
    """Serve bulk subscriptions: those of `tidings subscribe --bulk`, by the million.

    They live in a table. What is published is matched against it on Spark, many events at a
    time, and published once more for those who want it, within a second or two; or it is
    appended to an inbox (name, id, time, event). Each event is delivered once to each name, even
    if this is killed: started again, it goes on where it was. The first time, it says when it is
    ready, and delivers what is published from then on. It ends on Ctrl-C.

    \b
    Examples:
      tidings pipeline deliver
      tidings pipeline deliver --lake /var/lib/tidings/deliver --inbox /var/lib/tidings/inbox
    """
    with failures_told():
        from tidings.cli.deliver import deliver_events

        deliver_events(
            login(url, token, token_file, authority, certificate, key),
            lake,
            inbox=inbox,
            skip_gaps=skip_gaps,
            master=master,
        )


@commands.command()
def statistics(
    lake: Annotated[Path, option("--lake DIR", "The lake to look at.")],
    out: Annotated[
        Path, option("--out DIR", "Where to write, instead of what an earlier run wrote.")
    ],
    filters: Annotated[
        Path | None,
        option(
            "--filters FILE",
            "Filters as `tidings match` takes them (the key paris/7 is of the broker paris),"
            " or the folder of `deliver`.",
        ),
    ] = None,
    publish: Annotated[str | None, option("--publish URL", "Tell brokers, too, as events.")] = None,
    token: Token = None,
    token_file: TokenFile = None,
    authority: Authority = None,
    certificate: Certificate = None,
    key: Key = None,
    master: MasterOrNone = "local[*]",
) -> None:
    """Find out what a lake's events are like, and let brokers know.

    Writes a report, the distribution of every attribute as JSON and as a picture, and, given
    filters, tables of how many events each matches, which of them could be merged at what cost,
    and which brokers want the same. Brokers that merge by what they learn (learnt:0.001) listen
    to what is published.

    \b
    Examples:
      tidings pipeline statistics --lake quotes --out quotes-statistics
      tidings pipeline statistics --lake quotes --out s --filters f.tsv --publish tidings://paris
    """
    with failures_told():
        from tidings.cli.statistics import tell_statistics

        tell_statistics(
            lake,
            out,
            filters=filters,
            publish=None
            if publish is None
            else login(publish, token, token_file, authority, certificate, key),
            master=master,
        )
