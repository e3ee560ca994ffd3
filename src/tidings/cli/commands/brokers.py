"""Commands about brokers: to run one, to talk to it, and to look at all of them."""

from __future__ import annotations

from math import inf
from pathlib import Path
from typing import Annotated

import typer

from tidings.cli.complaints import failures_told
from tidings.cli.options import (
    HERE,
    Authority,
    Certificate,
    Config,
    Key,
    SchemaFile,
    Token,
    TokenFile,
    Url,
    argument,
    login,
    option,
)

commands = typer.Typer()


@commands.command()
def up(
    config: Config = None,
    listen: Annotated[
        str | None, option("--listen HOST:PORT", "Where; port 0 finds a free one.")
    ] = None,
    store: Annotated[Path | None, option("--store DIR", "Where events are kept.")] = None,
    name: Annotated[str | None, option("--name NAME", "What its stream is called.")] = None,
    schema: SchemaFile = None,
) -> None:
    """Run a broker.

    Without a configuration it listens on 127.0.0.1:7411, asks nobody who they are, and keeps
    all events for ever in ./tidings-store. It stops on Ctrl-C or SIGTERM, after everything it
    has taken in was kept; it comes back from a crash with all that it had accepted.

    With a schema, it warns a subscriber whose filter names an attribute that is not declared
    there, and which one may be meant; the subscription begins all the same.

    \b
    A configuration, say tidings.toml; all of it is optional:
      name = "paris"
      listen = "0.0.0.0:7411"
      store = "/var/lib/tidings"
      metrics = "127.0.0.1:9411"         # for Prometheus
      deliverers = ["pipeline"]          # principals that may run `tidings pipeline deliver`
      schema = "schema.toml"             # subscribers are warned of other attributes
      erasers = ["privacy"]              # principals that may run `tidings erase`
      drain = 10                         # seconds to finish when it is stopped
      [neighbours]                       # other brokers
      london = "london.example:7411"     # or tidings+tls://london.example:7411
      rome = {}                          # it dials us; in a hierarchy {role = "parent"}
      oslo = {address = "oslo.example", own_token_file = "paris.token"}  # what we show it
      [routing]
      subscriptions = "covering"         # or flooding, simple, identity, merging, ...
      [tls]
      certificate = "paris.pem"
      key = "paris.key"
      client_authority = "clients.pem"   # whose certificates name principals, and let them in
      neighbour_authority = "brokers.pem"    # whose certificates neighbours show
      [tokens]                           # or have tokens: see `tidings token`
      desk-7 = "sha256:..."              # or above, tokens = "tokens.toml": a file with [tokens],
                                         # which is read anew when it changes
      [limits]
      connections = 5000
      publish_rate = 1000                # of each session, in a second
      durables = 1000                    # durable subscriptions of each principal
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

        run_broker(config, listen=listen, store=store, name=name, schema=schema)


@commands.command()
def publish(
    event: Annotated[
        str | None, argument("EVENT", "A JSON object; none reads them from stdin.")
    ] = None,
    url: Url = HERE,
    token: Token = None,
    token_file: TokenFile = None,
    authority: Authority = None,
    certificate: Certificate = None,
    key: Key = None,
    rate: Annotated[
        float | None, option("--rate N", "Events a second, at most.", min=0.001)
    ] = None,
    advertise: Annotated[
        str | None, option("--advertise FILTER", "Say first what will be published.")
    ] = None,
    name: Annotated[
        str | None, option("--name NAME", "The session's name, else a random one.")
    ] = None,
    wait: Annotated[
        bool, option("--wait", "Wait for a broker that is not there yet, until Ctrl-C.")
    ] = False,
    strict: Annotated[bool, option("--strict", "Stop at the first line that is wrong.")] = False,
    resume: Annotated[
        bool, option("--resume", "Leave out what was published before under this --name.")
    ] = False,
    content: Annotated[
        Path | None, option("--content FILE", "Publish these bytes; EVENT has their attributes.")
    ] = None,
    content_type: Annotated[
        str | None, option("--content-type TYPE", "What the bytes are, such as image/png.")
    ] = None,
) -> None:
    """Publish an event, or those that stdin has.

    Events are JSON objects, one on each line: plain attributes or CloudEvents. They are sent as
    they come; the command ends when all of them are on the broker's disk. If the connection is
    lost meanwhile, it is made anew, and each event is still published once. A broker that cannot
    be reached at the beginning is an error, or with --wait is waited for.

    A line that is no event, or that the broker refuses, is reported on stderr with its number,
    and the others are published.

    If the command itself was killed, run it again on the same lines with --name and --resume:
    it goes on behind the last event that is kept.

    \b
    Exit codes:
      0  all were published
      1  a line was wrong or refused
      2  nothing could be published: no broker, no access, or a wrong argument
      130  Ctrl-C; what was read by then is published

    \b
    Examples:
      tidings publish '{"symbol": "DIS", "change": -4.0}'
      tidings publish < quotes.jsonl
      tail -f quotes.jsonl | tidings publish --url tidings://broker.example:7411
      tidings publish --rate 100 --advertise "EXISTS symbol" < quotes.jsonl
      tidings publish --name import-7 --resume < quotes.jsonl
      tidings publish --wait '{"started": true}'
      tidings publish --content cat.gif --content-type image/gif '{"subject": "cat"}'
    """
    with failures_told():
        from tidings.cli.publish import publish

        patience = inf if wait else 0.0
        code = publish(
            event,
            login(url, token, token_file, authority, certificate, key, wait=patience),
            name=name,
            advertise=advertise,
            rate=rate,
            strict=strict,
            resume=resume,
            content=content,
            content_type=content_type,
        )
    raise typer.Exit(code)


@commands.command()
def subscribe(
    context: typer.Context,
    filter: Annotated[str | None, argument("FILTER", "A filter, in quotes.")] = None,
    url: Url = HERE,
    token: Token = None,
    token_file: TokenFile = None,
    authority: Authority = None,
    certificate: Certificate = None,
    key: Key = None,
    durable: Annotated[
        str | None, option("--durable NAME", "Go on where the last one of this name has ended.")
    ] = None,
    since: Annotated[
        str | None, option("--since WHEN", "Begin with: begin, a time, -10m, or a cursor.")
    ] = None,
    replace: Annotated[
        bool, option("--replace", "Give a durable subscription another filter.")
    ] = False,
    forget: Annotated[
        bool, option("--forget", "Let the broker forget a durable subscription, and end.")
    ] = False,
    here: Annotated[
        bool, option("--here", "Begin a durable one anew, though it may live elsewhere.")
    ] = False,
    until: Annotated[
        str | None, option("--until WHEN", "End: now (once caught up), or at a time.")
    ] = None,
    count: Annotated[int | None, option("--count N", "End after this many events.", min=1)] = None,
    with_meta: Annotated[
        bool, option("--with-meta", "With each event's id, time and cursor.")
    ] = False,
    lake: Annotated[
        str | None,
        option(
            "--lake DIR",
            "Has what brokers no longer keep; else the broker's own, if it has one.",
            envvar="TIDINGS_LAKE",
        ),
    ] = None,
    bulk: Annotated[
        str | None, option("--bulk NAME", "Leave it to `tidings pipeline deliver`, under a name.")
    ] = None,
    filters: Annotated[
        Path | None, option("--filters FILE", "Register all of these in bulk, and end.")
    ] = None,
    cancel: Annotated[
        bool, option("--cancel", "End what was registered by --bulk or --filters.")
    ] = False,
) -> None:
    """Print the events that a filter admits, as they happen or back through history.

    Each event is a line of JSON. It goes on until Ctrl-C, which makes the exit code 130, unless
    --until or --count says when to end. If the connection is lost, it is made anew, and no event
    is lost or told twice.

    Times are ISO 8601 (2026-11-15T12:00Z) or say how long ago (-10m, "2 hours ago"). A cursor is
    a place in the streams, as --with-meta prints it: --since CURSOR begins right behind it.

    With --durable, the broker remembers what was printed: when this command is run again under
    the same name, it goes on there, even if it was killed. With --since as well, it begins there
    anew, whatever was printed before. Another filter under the same name is refused; --replace
    changes it, and it goes on behind what was printed under the old one. It goes on at any broker
    of the network; while one that may have it cannot be asked, it is refused, and --here begins
    another one all the same. A broker keeps 1,000 of these for each principal, and each for 90
    days after it was used last; --forget ends one. See also `tidings durables`.

    What brokers no longer keep comes from a lake that `tidings pipeline archive` fills, if there
    is one: first what it holds, then what brokers have, with no gap and no repetition.

    With --bulk, the filter is registered for `tidings pipeline deliver`, which serves millions of
    them within a second or two. What it delivers is printed, durably under the same name; run
    without a filter, it goes on with the one that is registered. Whoever is the first to listen
    under a name hears all that was delivered to it since it was cancelled last, as far as brokers
    keep it. If there is nothing, and no registration either, it says so and listens. --filters
    registers many at once: a name, a tab and a filter on each line.

    \b
    Examples:
      tidings subscribe "symbol = 'DIS' AND change < 0"
      tidings subscribe "EXISTS symbol" --durable desk-7
      tidings subscribe --durable desk-7 --forget
      tidings subscribe "price > 100" --since -10m
      tidings subscribe "TRUE" --since begin --until now > all.jsonl
      tidings subscribe "price > 100" --since 2026-11-15T12:00Z --until 2026-11-15T13:00Z
      tidings subscribe "price > 100" --since 2025-01-01 --lake quotes
      tidings subscribe "change < -5" --bulk desk-7
      tidings subscribe --bulk desk-7 --cancel
      tidings subscribe --filters desks.tsv
    """
    if bulk is not None or filters is not None:
        _check_bulk(context, filter, bulk, filters, is_cancelled=cancel)
    elif cancel:
        raise typer.BadParameter("--cancel needs --bulk NAME or --filters FILE: what is to end")
    elif forget:
        _check_forget(context, filter, durable)
    elif filter is None:
        raise typer.BadParameter("give a FILTER; only --bulk NAME and --filters FILE need none")
    elif replace and durable is None:
        raise typer.BadParameter("--replace needs --durable NAME: what is to have another filter")
    elif here and durable is None:
        raise typer.BadParameter("--here needs --durable NAME: what is to begin here")
    with failures_told():
        from tidings.cli import subscribe as live

        broker, code = login(url, token, token_file, authority, certificate, key), 0
        if bulk is not None or filters is not None:
            from tidings.cli import bulk as in_bulk

            if filters is not None:
                code = in_bulk.register_many(filters, broker, is_cancelled=cancel)
            elif cancel:
                code = in_bulk.cancel(bulk or "", broker)
            else:
                code = in_bulk.subscribe_in_bulk(
                    filter,
                    bulk or "",
                    broker,
                    since=since,
                    until=until,
                    count=count,
                    with_meta=with_meta,
                )
        elif forget:
            live.forget(durable or "", broker)
        else:
            code = live.subscribe(
                filter or "",
                broker,
                durable=durable,
                since=since,
                replace=replace,
                here=here,
                until=until,
                count=count,
                with_meta=with_meta,
                lake=lake,
            )
    raise typer.Exit(code)


def _check_forget(context: typer.Context, filter: str | None, durable: str | None) -> None:
    if durable is None:
        raise typer.BadParameter("--forget needs --durable NAME: what is to be forgotten")
    wrong = _typed(context, "since", "replace", "until", "count", "with_meta", "lake")
    if wrong or filter is not None:
        raise typer.BadParameter(f"--forget goes without {wrong or 'a FILTER'}")


def _check_bulk(
    context: typer.Context,
    filter: str | None,
    name: str | None,
    filters: Path | None,
    *,
    is_cancelled: bool,
) -> None:
    what = "--filters" if filters is not None else "--cancel" if is_cancelled else "--bulk"
    ignored = ["durable", "replace", "forget", "here", "lake"]
    if what != "--bulk":
        ignored += ["since", "until", "count", "with_meta"]
    if wrong := _typed(context, *ignored):
        raise typer.BadParameter(f"{what} goes without {wrong}")
    if filters is not None and (filter is not None or name is not None):
        raise typer.BadParameter("--filters has names and filters of its own: give no others")
    if is_cancelled and filter is not None:
        raise typer.BadParameter("--cancel ends whatever is registered: give no FILTER")


def _typed(context: typer.Context, *names: str) -> str:
    """Which of the options this command line has: what the environment says is for all of them."""
    sources = {name: context.get_parameter_source(name) for name in names}
    typed = [name for name, source in sources.items() if source and source.name == "COMMANDLINE"]
    return ", ".join(f"--{name.replace('_', '-')}" for name in typed)


@commands.command()
def erase(
    filter: Annotated[str, argument("FILTER", "What is to be gone, in quotes.")],
    url: Url = HERE,
    token: Token = None,
    token_file: TokenFile = None,
    lakes: Annotated[
        list[Path] | None, option("--lake DIR", "Erase in a lake, too; may be given again.")
    ] = None,
    only_lakes: Annotated[
        bool, option("--only-lakes", "Ask no broker: erase only where --lake says.")
    ] = False,
    dry_run: Annotated[bool, option("--dry-run", "Only count what would be erased.")] = False,
    yes: Annotated[bool, option("--yes", "Do not ask before it is done.")] = False,
    reason: Annotated[
        str, option("--reason TEXT", "What the record of the erasure says; for all to read.")
    ] = "",
    keep_files: Annotated[
        bool, option("--keep-files", "Leave a lake's old files to those who read them now.")
    ] = False,
    authority: Authority = None,
    certificate: Certificate = None,
    key: Key = None,
) -> None:
    """Erase the events that a filter matches, wherever they are kept.

    It counts them first, and asks. Then they are gone from the logs of all brokers that can be
    reached, in whatever epoch, and from the lakes that are named: from memory, and from every byte
    of their files. Their places stay, so that no id and no cursor is wrong, but nobody hears them:
    no subscriber, no lake, no pipeline. What is published later is kept, though it matches, too.

    Not reached are, and the report names them where it can: brokers that are down (run it again
    when they are back, which does no harm), lakes that were not named, backups, and whatever
    subscribers have made of what they heard.

    The erasure is itself an event, {"tidings.erasure": ID, "erased": N, "by": ...}, with the
    --reason. Of the filter it has only a digest, as that may itself say whose events these were.

    Brokers that ask who somebody is let only those principals erase that their configuration
    names: erasers = ["privacy"].

    \b
    Exit codes:
      0  nothing that matches is left, as far as is known here
      1  something may be left: the report says where; or the answer was no
      2  nothing was erased: no broker, no access, or a wrong argument
      130  Ctrl-C; what was erased by then stays so, and run again it goes on

    \b
    Examples:
      tidings erase "customer = 'c-17'" --dry-run
      tidings erase "customer = 'c-17'" --reason "request 4711"
      tidings erase "customer = 'c-17'" --lake quotes --lake /srv/orders --yes
      tidings erase "customer = 'c-17'" --lake copy-of-quotes --only-lakes
    """
    if only_lakes and not lakes:
        raise typer.BadParameter("--only-lakes needs --lake DIR: where to erase")
    if only_lakes and reason:
        raise typer.BadParameter("--reason is for the record, which a broker publishes")
    with failures_told():
        from tidings.cli.erase import erase

        code = erase(
            filter,
            None if only_lakes else login(url, token, token_file, authority, certificate, key),
            lakes=lakes or [],
            is_dry=dry_run,
            is_sure=yes,
            reason=reason,
            keep_files=keep_files,
        )
    raise typer.Exit(code)


@commands.command()
def token(
    name: Annotated[str, argument("NAME", "Whose it is to be.")],
    lasting: Annotated[
        str | None, option("--for TIME", "How long it is to be valid, like 30d; else for ever.")
    ] = None,
) -> None:
    """Make a token, by which a client or a neighbour proves its name to a broker.

    Prints the token, which is not kept, and the line for the broker's configuration, which
    holds only a hash of it. Somebody may have several, so that a new one comes before the old
    one goes: desk-7 = ["sha256:...", {hash = "sha256:...", until = 2026-12-19T12:00:00Z}].

    \b
    Examples:
      tidings token desk-7
      tidings token desk-7 --for 30d
    """
    with failures_told():
        from tidings.cli.up import print_token

        print_token(name, lasting)


@commands.command()
def network(
    url: Url = HERE,
    token: Token = None,
    token_file: TokenFile = None,
    authority: Authority = None,
    certificate: Certificate = None,
    key: Key = None,
    watch: Annotated[bool, option("--watch", "Go on, until Ctrl-C.")] = False,
    draw: Annotated[Path | None, option("--draw FILE", "Draw the network, too, as SVG.")] = None,
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

        broker = login(url, token, token_file, authority, certificate, key)
        show_network(broker, watch=watch, picture=draw)


@commands.command()
def demo(
    seconds: Annotated[
        float | None, option("--for SECONDS", "End after this time, else on Ctrl-C.", min=1.0)
    ] = None,
    rate: Annotated[float, option("--rate N", "Trades a second.", min=1.0)] = 100.0,
) -> None:
    """Watch four brokers carry a market to those who listen.

    Starts four brokers on this machine, in a temporary folder, with two feeds and five
    subscribers, and shows who hears what, why, and by which way. Half-way, one broker is killed
    and comes back. At the end what everybody heard is compared with what was published.
    """
    from tidings.cli.terminal import output

    with failures_told():
        from tidings.cli.demo.demonstration import demonstrate

        went_well = demonstrate(output(), seconds=seconds, rate=rate)
    raise typer.Exit(0 if went_well else 1)
