"""The commands, their arguments and their help. What they do is in the files named like them."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from tidings.cli.complaints import complain

FAILED: Final = 2
_PIPE_CLOSED: Final = 128 + 13  # what a shell reports of a program that SIGPIPE ended


@contextmanager
def failures_told() -> Iterator[None]:
    """Turn every expected failure of a command into a message and an exit code."""
    from tidings.events.errors import TidingsError

    try:
        yield
        return
    except TidingsError as problem:
        complain(str(problem))
    except BrokenPipeError:
        _let_go_of_output()
        raise typer.Exit(_PIPE_CLOSED) from None
    except OSError as problem:
        complain(_spoken(problem))
    raise typer.Exit(FAILED)


def _spoken(problem: OSError) -> str:
    what = problem.strerror or str(problem)
    return f"{problem.filename}: {what}" if problem.filename else what


def _let_go_of_output() -> None:
    """Nobody reads any more: keep Python from trying, and complaining, once more at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(nowhere, stream.fileno())


def have_streams() -> None:
    """Make sure that text can be written, wherever the caller has sent stdout and stderr."""
    if sys.stdout is None:  # closed: `>&-`
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without Unicode gets ? for ●


app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help keeps examples as written, and needs no Rich to start
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="New here? Run: tidings tour",
)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"tidings {version('tidings')}")
        raise typer.Exit


SchemaFile = Annotated[
    Path | None,
    typer.Option(
        "--schema",
        metavar="FILE",
        help="A TOML file that declares attributes and event types.",
    ),
]


Url = Annotated[
    str,
    typer.Option(
        "--url",
        metavar="URL",
        envvar="TIDINGS_URL",
        show_envvar=True,
        help="The broker: tidings://HOST:PORT, or several with commas, or tidings+tls://.",
    ),
]
Token = Annotated[
    str | None,
    typer.Option(
        "--token",
        metavar="TOKEN",
        envvar="TIDINGS_TOKEN",
        show_envvar=True,
        help="Proves who you are; better in the environment than here, where others see it.",
    ),
]
Authority = Annotated[
    str | None,
    typer.Option(
        "--authority",
        metavar="FILE",
        help="With TLS: who signed the broker's certificate, if not a public authority.",
    ),
]
_HERE: Final = "tidings://127.0.0.1:7411"


@app.callback()
def tidings(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Say what happened; hear what you asked for.

    Filters are written like SQL conditions:

    \b
      tidings explain "symbol = 'DIS' AND price BETWEEN 50 AND 60"
      tidings match "change < 0" quotes.jsonl
    """


@app.command()
def explain(
    filter: Annotated[str, typer.Argument(metavar="FILTER", help="A filter, in quotes.")],
    other: Annotated[
        str | None, typer.Argument(metavar="OTHER", help="Another one, to compare with.")
    ] = None,
    schema: SchemaFile = None,
) -> None:
    """Show what a filter admits, or how two filters relate.

    For one filter: its normal form, what each attribute may be, drawn as intervals on a line,
    and a notification that matches. In the pictures ● belongs to the interval and ○ does not.

    For two filters: whether one covers the other, whether they overlap, what both admit, and
    their merger if one conjunction can say it.

    \b
    Examples:
      tidings explain "price < 50 OR price > 60"
      tidings explain "subject UNDER 'economy' AND tags CONTAINS 'us'"
      tidings explain "change < 0" "symbol = 'DIS' AND change < -1"
    """
    with failures_told():
        from tidings.events import Filter

        declared = _schema(schema)
        first = Filter.parse(filter, schema=declared)
        second = None if other is None else Filter.parse(other, schema=declared)

        # Not before the filters are right: an error needs no pictures, and answers sooner.
        from tidings.cli.explain import explain_filter, explain_pair
        from tidings.cli.terminal import output

        if second is None:
            explain_filter(first, output())
        else:
            explain_pair(first, second, output(), schema=declared)


@app.command()
def match(
    filter: Annotated[
        str | None,
        typer.Argument(metavar="FILTER", help="A filter, in quotes; not with --filters."),
    ] = None,
    files: Annotated[
        list[str] | None,
        typer.Argument(metavar="FILE", help="Files of events; none, or -, is stdin."),
    ] = None,
    filters: Annotated[
        Path | None,
        typer.Option(
            "--filters",
            metavar="FILE",
            help="Many filters: one on each line, or a key, a tab and a filter.",
        ),
    ] = None,
    schema: SchemaFile = None,
) -> None:
    """Print the events that a filter, or one of many, admits.

    Events are JSON objects, one on each line: plain attributes or CloudEvents. Lines that match
    are printed as they came, as soon as they came; blank lines are skipped. At the end, stderr
    tells how many matched.

    A line that is no event is reported on stderr with its number and passed over; after ten
    of them, the others are only counted.

    With --filters, an event that matches is printed after the keys of the filters it matches:
    a JSON array and a tab. A filter without a key has the number of its line as key. All of
    them are looked up at once, so a hundred thousand are no trouble.

    \b
    Exit codes:
      0  something matched
      1  nothing matched
      2  a line or a file could not be read, or a filter is wrong

    \b
    Examples:
      tidings match "symbol = 'DIS' AND change < 0" quotes.jsonl
      tail -f quotes.jsonl | tidings match "price > 100"
      tidings match "type = 'order.placed' AND data.total >= 1000" < cloudevents.jsonl
      tidings match --filters desks.tsv quotes.jsonl
    """
    if filter is None and filters is None:
        raise typer.BadParameter("give a filter, or a file of filters with --filters")
    names = files or []
    if filters is not None and filter is not None:
        names = [filter, *names]  # then even the first is a file of events
    with failures_told():
        from tidings.cli.match import match_files, match_many

        if filters is not None:
            code = match_many(filters, names or ["-"], schema=_schema(schema))
        else:
            assert filter is not None
            code = match_files(filter, names or ["-"], schema=_schema(schema))
    raise typer.Exit(code)


@app.command()
def experiment(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Which one; none lists them.")
    ] = None,
    listed: Annotated[bool, typer.Option("--list", help="List the experiments.")] = False,
    full: Annotated[
        bool, typer.Option("--full", help="The sizes of the paper; may take hours.")
    ] = False,
    runs: Annotated[
        int | None,
        typer.Option("--runs", metavar="N", min=1, help="Measure each point so often."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="Where to write; else experiments/NAME."),
    ] = None,
    traces: Annotated[
        bool,
        typer.Option("--traces", help="Keep all that travelled, and analyse that, too."),
    ] = False,
    master: Annotated[
        str, typer.Option("--master", metavar="URL", help="The Spark to run on.")
    ] = "local[*]",
) -> None:
    """Measure again what a paper measured, and compare.

    Brokers run in the simulator, many simulations side by side on Spark: on this machine, or on
    a cluster that has tidings installed. The figures are held against what theory or the paper
    says. A report, plots and all measurements are written to a directory.

    \b
    Examples:
      tidings experiment
      tidings experiment rebeca-tables
      tidings experiment rebeca-tables --full --master spark://host:7077
    """
    with failures_told():
        from tidings.experiments import find

        chosen = None if name is None or listed else find(name)

        from tidings.cli.experiment import list_experiments, run_experiment
        from tidings.cli.terminal import output

        if chosen is None:
            list_experiments(output())
        else:
            where = out or Path("experiments", chosen.name)
            run_experiment(chosen, where, full=full, runs=runs, master=master, traces=traces)


@app.command()
def simulate(
    scenario: Annotated[
        Path, typer.Argument(metavar="SCENARIO", help="A TOML file, or the JSON of a kept run.")
    ],
    draw: Annotated[
        Path | None,
        typer.Option("--draw", metavar="FILE", help="Draw the network at the end, as SVG."),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Check all that must hold; 1 is the exit code if not.")
    ] = False,
    seed: Annotated[
        int | None,
        typer.Option("--seed", metavar="N", min=0, help="Other clients, events and faults."),
    ] = None,
    save_steps: Annotated[
        Path | None,
        typer.Option("--save-steps", metavar="FILE", help="Write all that happens, as JSON."),
    ] = None,
    trace: Annotated[
        Path | None,
        typer.Option("--trace", metavar="FILE", help="Write all that travels, as Parquet."),
    ] = None,
) -> None:
    """Simulate a network of brokers in virtual time.

    A scenario says which network, what its clients do, and what breaks. The brokers in it are
    the real ones; only time, links and disks are simulated. The same scenario gives the same
    run, so whatever is found can be replayed.

    \b
    A scenario, say market.toml:
      duration = 20                 # seconds
      [network]
      kind = "waxman"               # or line, balanced, random_tree, grid, ...
      nodes = 30
      seed = 1
      [settings]
      subscriptions = "covering"    # or flooding, simple, identity, merging, ...
      tree = true                   # the network has cycles: agree on a tree
      [workload]                    # clients by the number; they ask for quotes
      subscriptions = 5             # each
      events = 20                   # a second
      begin = 8
      [faults]
      crashes = 6                   # a minute
      [[steps]]                     # and what else is to happen
      at = 12
      do = "crash"
      node = "b7"

    With --check, the promises of the service are checked all the time; at the end all faults
    are over, and the network must recover.

    \b
    Exit codes:
      0  done, and nothing was wrong
      1  a promise was broken
      2  the scenario is wrong, or a file cannot be read or written

    \b
    Examples:
      tidings simulate market.toml
      tidings simulate market.toml --check --draw market.svg
      tidings simulate market.toml --seed 7 --save-steps run-7.json
    """
    with failures_told():
        from tidings.cli.simulate import simulate_file

        code = simulate_file(
            scenario, picture=draw, check=check, seed=seed, steps=save_steps, trace=trace
        )
    raise typer.Exit(code)


@app.command()
def up(
    config: Annotated[
        Path | None,
        typer.Option("--config", metavar="FILE", help="Else tidings.toml, if it is there."),
    ] = None,
    listen: Annotated[
        str | None,
        typer.Option("--listen", metavar="HOST:PORT", help="Where; port 0 finds a free one."),
    ] = None,
    store: Annotated[
        Path | None, typer.Option("--store", metavar="DIR", help="Where events are kept.")
    ] = None,
    name: Annotated[
        str | None, typer.Option("--name", metavar="NAME", help="What its stream is called.")
    ] = None,
) -> None:
    """Run a broker.

    Without a configuration it listens on 127.0.0.1:7411, asks nobody who they are, and keeps
    all events for ever in ./tidings-store. It stops on Ctrl-C or SIGTERM, after everything it
    has taken in was kept; it comes back from a crash with all that it had accepted.

    \b
    A configuration, say tidings.toml; all of it is optional:
      name = "paris"
      listen = "0.0.0.0:7411"
      store = "/var/lib/tidings"
      metrics = "127.0.0.1:9411"         # for Prometheus
      drain = 10                         # seconds to finish when it is stopped
      [neighbours]                       # other brokers
      london = "london.example:7411"
      rome = {}                          # it dials us
      [routing]
      subscriptions = "covering"         # or flooding, simple, identity, merging, ...
      [tls]
      certificate = "paris.pem"
      key = "paris.key"
      authority = "clients.pem"          # principals are named in certificates
      [tokens]                           # or have tokens: see `tidings token`
      desk-7 = "sha256:..."
      [limits]
      connections = 5000
      publish_rate = 1000                # of each session, in a second
      [retention]
      age = "7d"
      size = "10GB"
      lake = "/srv/quotes"               # what it lacks is not let go of

    \b
    Examples:
      tidings up
      tidings up --config paris.toml
      tidings up --name paris --listen 127.0.0.1:0 --store paris
    """
    with failures_told():
        from tidings.cli.up import run_broker

        run_broker(config, listen=listen, store=store, name=name)


@app.command()
def publish(
    event: Annotated[
        str | None,
        typer.Argument(metavar="EVENT", help="A JSON object; none reads them from stdin."),
    ] = None,
    url: Url = _HERE,
    token: Token = None,
    rate: Annotated[
        float | None,
        typer.Option("--rate", metavar="N", min=0.001, help="So many a second at most."),
    ] = None,
    advertise: Annotated[
        str | None,
        typer.Option("--advertise", metavar="FILTER", help="Say first what will be published."),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option("--name", metavar="NAME", help="The session's name, else a random one."),
    ] = None,
    authority: Authority = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Stop at the first line that is wrong.")
    ] = False,
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Leave out what was published before under this --name."),
    ] = False,
) -> None:
    """Publish an event, or those that stdin has.

    Events are JSON objects, one on each line: plain attributes or CloudEvents. They are sent as
    they come; the command ends when all of them are on the broker's disk. If the connection is
    lost meanwhile, it is made anew, and each event is still published once.

    A line that is no event, or that the broker refuses, is reported on stderr with its number,
    and the others are published.

    If the command itself was killed, run it again on the same lines with --name and --resume:
    it goes on behind the last event that is kept.

    \b
    Exit codes:
      0  all were published
      1  a line was wrong or refused
      2  nothing could be published: no broker, no access, or a wrong argument

    \b
    Examples:
      tidings publish '{"symbol": "DIS", "change": -4.0}'
      tidings publish < quotes.jsonl
      tail -f quotes.jsonl | tidings publish --url tidings://broker.example:7411
      tidings publish --rate 100 --advertise "EXISTS symbol" < quotes.jsonl
      tidings publish --name import-7 --resume < quotes.jsonl
    """
    with failures_told():
        from tidings.cli.publish import publish

        code = publish(
            event,
            url=url,
            token=token,
            name=name,
            authority=authority,
            advertise=advertise,
            rate=rate,
            strict=strict,
            resume=resume,
        )
    raise typer.Exit(code)


@app.command()
def subscribe(
    context: typer.Context,
    filter: Annotated[
        str | None, typer.Argument(metavar="FILTER", help="A filter, in quotes.")
    ] = None,
    url: Url = _HERE,
    token: Token = None,
    durable: Annotated[
        str | None,
        typer.Option(
            "--durable", metavar="NAME", help="Go on where the last one of this name has ended."
        ),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            "--since", metavar="WHEN", help="Begin with: begin, a time, -10m, or a cursor."
        ),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option("--until", metavar="WHEN", help="End: now (once caught up), or at a time."),
    ] = None,
    count: Annotated[
        int | None,
        typer.Option("--count", metavar="N", min=1, help="End after so many events."),
    ] = None,
    with_meta: Annotated[
        bool, typer.Option("--with-meta", help="With each event's id, time and cursor.")
    ] = False,
    lake: Annotated[
        str | None,
        typer.Option(
            "--lake",
            metavar="DIR",
            envvar="TIDINGS_LAKE",
            help="Has what brokers no longer keep; else the broker's own, if it has one.",
        ),
    ] = None,
    bulk: Annotated[
        str | None,
        typer.Option(
            "--bulk", metavar="NAME", help="Leave it to `tidings pipeline deliver`, under a name."
        ),
    ] = None,
    filters: Annotated[
        Path | None,
        typer.Option("--filters", metavar="FILE", help="Register all of these in bulk, and end."),
    ] = None,
    cancel: Annotated[
        bool, typer.Option("--cancel", help="End what was registered by --bulk or --filters.")
    ] = False,
    authority: Authority = None,
) -> None:
    """Print the events that a filter admits, as they happen or back through history.

    Each event is a line of JSON. It goes on until Ctrl-C, unless --until or --count says when to
    end. If the connection is lost, it is made anew, and no event is lost or told twice.

    Times are ISO 8601 (2026-11-15T12:00Z) or say how long ago (-10m, "2 hours ago"). A cursor is
    a place in the streams, as --with-meta prints it: --since CURSOR begins right behind it.

    With --durable, the broker remembers what was printed: when this command is run again under
    the same name, it goes on there, even if it was killed.

    What brokers no longer keep comes from a lake that `tidings pipeline archive` fills, if there
    is one: first what it holds, then what brokers have, with no gap and no repetition.

    With --bulk, the filter is registered for `tidings pipeline deliver`, which serves millions of
    them within a second or two. What it delivers is printed, durably under the same name; run
    without a filter, it goes on with the one that is registered. --filters registers many at
    once: a name, a tab and a filter on each line.

    \b
    Examples:
      tidings subscribe "symbol = 'DIS' AND change < 0"
      tidings subscribe "EXISTS symbol" --durable desk-7
      tidings subscribe "price > 100" --since -10m
      tidings subscribe "TRUE" --since begin --until now > all.jsonl
      tidings subscribe "price > 100" --since 2026-11-15T12:00Z --until 2026-11-15T13:00Z
      tidings subscribe "price > 100" --since 2025-01-01 --lake quotes
      tidings subscribe "change < -5" --bulk desk-7
      tidings subscribe --bulk desk-7 --cancel
      tidings subscribe --filters desks.tsv
    """
    if bulk is not None or filters is not None:
        _refuse_what_bulk_ignores(context, has_filters=filters is not None, is_cancelled=cancel)
        _subscribe_in_bulk(
            filter,
            bulk,
            filters,
            is_cancelled=cancel,
            url=url,
            token=token,
            authority=authority,
            until=until,
            count=count,
            with_meta=with_meta,
        )
    if cancel:
        raise typer.BadParameter("--cancel needs --bulk NAME or --filters FILE: what is to end")
    if filter is None:
        raise typer.BadParameter("give a FILTER; only --bulk NAME and --filters FILE need none")
    with failures_told():
        from tidings.cli.subscribe import subscribe

        code = subscribe(
            filter,
            url=url,
            token=token,
            authority=authority,
            durable=durable,
            since=since,
            until=until,
            count=count,
            with_meta=with_meta,
            lake=lake,
        )
    raise typer.Exit(code)


def _refuse_what_bulk_ignores(
    context: typer.Context, *, has_filters: bool, is_cancelled: bool
) -> None:
    what = "--filters" if has_filters else "--cancel" if is_cancelled else "--bulk"
    ignored = ["durable", "since", "lake"]
    if has_filters or is_cancelled:
        ignored += ["until", "count", "with_meta"]
    wrong = [f"--{name.replace('_', '-')}" for name in ignored if _was_typed(context, name)]
    if wrong:
        raise typer.BadParameter(f"{what} goes without {', '.join(wrong)}")


def _was_typed(context: typer.Context, name: str) -> bool:
    """Whether the option is of this command line: what the environment says is for all of them."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _subscribe_in_bulk(
    filter: str | None,
    name: str | None,
    filters: Path | None,
    *,
    is_cancelled: bool,
    url: str,
    token: str | None,
    authority: str | None,
    until: str | None,
    count: int | None,
    with_meta: bool,
) -> None:
    if filters is not None and (filter is not None or name is not None):
        raise typer.BadParameter("--filters has names and filters of its own: give no others")
    if is_cancelled and filter is not None:
        raise typer.BadParameter("--cancel ends whatever is registered: give no FILTER")
    with failures_told():
        from tidings.cli.bulk import cancel, register_many, subscribe_in_bulk

        if filters is not None:
            code = register_many(
                filters, url=url, token=token, authority=authority, is_cancelled=is_cancelled
            )
        elif is_cancelled:
            code = cancel(name or "", url=url, token=token, authority=authority)
        else:
            code = subscribe_in_bulk(
                filter,
                name or "",
                url=url,
                token=token,
                authority=authority,
                until=until,
                count=count,
                with_meta=with_meta,
            )
    raise typer.Exit(code)


@app.command()
def token(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Whose it is to be.")],
) -> None:
    """Make a token, by which a client or a neighbour proves its name to a broker.

    Prints the token, which is not kept, and the line for the broker's configuration, which
    holds only a hash of it.

    \b
    Example:
      tidings token desk-7
    """
    with failures_told():
        from tidings.cli.up import print_token

        print_token(name)


@app.command()
def network(
    url: Url = _HERE,
    token: Token = None,
    authority: Annotated[
        Path | None,
        typer.Option("--authority", metavar="FILE", help="Who signed the certificates, for TLS."),
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Go on, until Ctrl-C.")] = False,
    draw: Annotated[
        Path | None,
        typer.Option("--draw", metavar="FILE", help="Draw the network, too, as SVG."),
    ] = None,
) -> None:
    """Show the brokers of a network, their links and what they hold.

    \b
    Examples:
      tidings network
      tidings network --url tidings://paris.example:7411 --watch
      tidings network --draw network.svg
    """
    with failures_told():
        from tidings.cli.network import show_network

        try:
            show_network(url, token=token, authority=authority, watch=watch, picture=draw)
        except KeyboardInterrupt:
            raise typer.Exit(0) from None


pipeline = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Keep events in a lake, match history, serve subscriptions in bulk, and learn.",
)
app.add_typer(pipeline, name="pipeline")


@pipeline.command()
def archive(
    lake: Annotated[
        Path, typer.Option("--lake", metavar="DIR", help="A Delta table; made if it is missing.")
    ],
    url: Url = _HERE,
    token: Token = None,
    authority: Authority = None,
    filter: Annotated[
        str | None,
        typer.Option(
            "--filter",
            metavar="FILTER",
            help="What to archive; a lake stays with what it was made for.",
        ),
    ] = None,
    master: Annotated[
        str, typer.Option("--master", metavar="MASTER", help="Spark's; none: without Spark.")
    ] = "local[*]",
    until_live: Annotated[
        bool, typer.Option("--until-live", help="End once it has caught up.")
    ] = False,
    skip_gaps: Annotated[
        bool,
        typer.Option("--skip-gaps", help="Go on though brokers no longer keep what comes next."),
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
        from tidings.cli.pipeline import archive_events

        archive_events(
            url,
            lake,
            token=token,
            authority=authority,
            filter=filter,
            master=master,
            until_live=until_live,
            skip_gaps=skip_gaps,
        )


@pipeline.command()
def statistics(
    lake: Annotated[Path, typer.Option("--lake", metavar="DIR", help="The lake to look at.")],
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Where to write.")],
    filters: Annotated[
        Path | None,
        typer.Option(
            "--filters",
            metavar="FILE",
            help="Filters as `tidings match` takes them (the key paris/7 is of the broker paris),"
            " or a lake of registrations.",
        ),
    ] = None,
    publish: Annotated[
        str | None,
        typer.Option("--publish", metavar="URL", help="Tell brokers, too, as events."),
    ] = None,
    token: Token = None,
    authority: Authority = None,
    master: Annotated[
        str, typer.Option("--master", metavar="MASTER", help="Spark's; none: without Spark.")
    ] = "local[*]",
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
            publish=publish,
            token=token,
            authority=authority,
            master=master,
        )


@pipeline.command("match")
def match_lake(
    lake: Annotated[Path, typer.Option("--lake", metavar="DIR", help="The lake.")],
    filters: Annotated[
        Path,
        typer.Option(
            "--filters",
            metavar="FILE",
            help="Filters: one on each line, or a key, a tab and a filter.",
        ),
    ],
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Where to write; not there yet.")
    ],
    since: Annotated[
        str | None,
        typer.Option("--since", metavar="WHEN", help="A time, how long ago, or a cursor."),
    ] = None,
    until: Annotated[
        str | None, typer.Option("--until", metavar="WHEN", help="Likewise, where to end.")
    ] = None,
    count_only: Annotated[
        bool, typer.Option("--count-only", help="Write no matches, only how many there are.")
    ] = False,
    schema: SchemaFile = None,
    master: Annotated[
        str,
        typer.Option("--master", metavar="URL", help="The Spark to run on; none: this process."),
    ] = "local[*]",
) -> None:
    """Find who would have heard what, of all that a lake holds.

    Every event is matched with every filter of a file, which is read as `tidings match` reads it.
    Written are `matches` (id, stream, tick and time of each event that matches, and the keys),
    `summary.parquet` (for each key how often, first and last, also for those that never match)
    and a report. With --count-only there are no `matches`, which takes less time and room.

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
        from tidings.cli.backfill import match_lake as match_all

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


@pipeline.command()
def deliver(
    url: Url = _HERE,
    token: Token = None,
    authority: Authority = None,
    lake: Annotated[
        Path | None,
        typer.Option(
            "--lake",
            metavar="DIR",
            help="Where the table of subscriptions is, and how far it is; else a folder of yours.",
        ),
    ] = None,
    inbox: Annotated[
        Path | None,
        typer.Option("--inbox", metavar="DIR", help="Deliver into this Delta table instead."),
    ] = None,
    skip_gaps: Annotated[
        bool,
        typer.Option("--skip-gaps", help="Go on though brokers no longer keep what comes next."),
    ] = False,
    master: Annotated[
        str, typer.Option("--master", metavar="MASTER", help="Spark's.")
    ] = "local[*]",
) -> None:
    """Serve bulk subscriptions: those of `tidings subscribe --bulk`, by the million.

    They live in a table. What is published is matched against it on Spark, many events at a
    time, and published once more for those who want it, within a second or two; or it is
    appended to an inbox (name, id, time, event). Each event is delivered once to each name, even
    if this is killed: started again, it goes on where it was. It ends on Ctrl-C.

    \b
    Examples:
      tidings pipeline deliver
      tidings pipeline deliver --lake /var/lib/tidings/deliver --inbox /var/lib/tidings/inbox
    """
    with failures_told():
        from tidings.cli.deliver import deliver_events

        deliver_events(
            url,
            lake,
            token=token,
            authority=authority,
            inbox=inbox,
            skip_gaps=skip_gaps,
            master=master,
        )


@app.command()
def demo(
    seconds: Annotated[
        float | None,
        typer.Option(
            "--for", metavar="SECONDS", min=5.0, help="End after so long, else on Ctrl-C."
        ),
    ] = None,
    rate: Annotated[
        float, typer.Option("--rate", metavar="N", min=1.0, help="Trades a second.")
    ] = 100.0,
) -> None:
    """Watch four brokers carry a market to those who listen.

    Starts four brokers on this machine, in a temporary folder, with two feeds and five
    subscribers, and shows who hears what, why, and by which way. Half-way, one broker is killed
    and comes back. At the end what everybody heard is compared with what was published.
    """
    from tidings.cli.terminal import output

    with failures_told():
        from tidings.cli.demo import demonstrate

        went_well = demonstrate(output(), seconds=seconds, rate=rate)
    raise typer.Exit(0 if went_well else 1)


@app.command()
def tour() -> None:
    """Take a tour of filters: two minutes to read, nothing to prepare."""
    from tidings.cli.terminal import output
    from tidings.cli.tour import guide

    with failures_told():
        guide(output())


def _schema(path: Path | None) -> Any:  # a `Schema`, which is not imported before it is needed
    if path is None:
        return None
    from tidings.events import Schema

    return Schema.load(path)
