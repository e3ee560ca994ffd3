"""Commands about durable subscriptions: which there are, and to change them."""

from __future__ import annotations

from typing import Annotated

import typer

from tidings.cli.complaints import failures_told
from tidings.cli.options import (
    HERE,
    Authority,
    Certificate,
    Key,
    Token,
    TokenFile,
    Url,
    argument,
    group,
    login,
    option,
)

commands = group()

_Name = Annotated[str, argument("NAME", "Of the durable subscription.")]


@commands.callback(invoke_without_command=True, no_args_is_help=False)
def durables(
    context: typer.Context,
    url: Url = HERE,
    token: Token = None,
    token_file: TokenFile = None,
    authority: Authority = None,
    certificate: Certificate = None,
    key: Key = None,
) -> None:
    """List your durable subscriptions; or set one back or ahead, pause or forget it.

    They live anywhere in the network: each at the broker where it was read last. Any broker can be
    asked. The list says whose each is, where it lives, when it was read last, what it hears, and
    how far it is: the lag is how many ticks of all streams lie behind what was acknowledged; only
    some of them may hold an event for it. The exit code is 1 if a broker that may have more cannot
    be asked.

    \b
    Examples:
      tidings durables
      tidings durables --url tidings://paris
      tidings durables seek desk-7 --since -1h
    """
    if context.invoked_subcommand is not None:
        sources = map(context.get_parameter_source, context.params)
        if any(source and source.name == "COMMANDLINE" for source in sources):
            raise typer.BadParameter("options go behind the command's name")
        return
    with failures_told():
        from tidings.cli.durables import show_durables

        code = show_durables(login(url, token, token_file, authority, certificate, key))
    raise typer.Exit(code)


@commands.command()
def seek(
    name: _Name,
    since: Annotated[
        str, option("--since WHEN", "Go on with: begin, now, a time, -10m, or a cursor.")
    ],
    url: Url = HERE,
    token: Token = None,
    token_file: TokenFile = None,
    authority: Authority = None,
    certificate: Certificate = None,
    key: Key = None,
) -> None:
    """Set a durable subscription back or ahead.

    A time counts in all streams, a cursor in those that it names. Whoever reads it is told, reads
    no further, and goes on there when it subscribes again.

    \b
    Examples:
      tidings durables seek desk-7 --since -1h
      tidings durables seek desk-7 --since now
    """
    with failures_told():
        from tidings.cli import durables

        durables.seek(name, since, login(url, token, token_file, authority, certificate, key))


@commands.command()
def pause(
    name: _Name,
    url: Url = HERE,
    token: Token = None,
    token_file: TokenFile = None,
    authority: Authority = None,
    certificate: Certificate = None,
    key: Key = None,
) -> None:
    """Tell a durable subscription nothing until it is resumed.

    Whoever reads it goes on doing so, and hears nothing; nothing is lost. It lasts over restarts.

    \b
    Example:
      tidings durables pause desk-7
    """
    with failures_told():
        from tidings.cli import durables

        durables.pause(name, login(url, token, token_file, authority, certificate, key))


@commands.command()
def resume(
    name: _Name,
    url: Url = HERE,
    token: Token = None,
    token_file: TokenFile = None,
    authority: Authority = None,
    certificate: Certificate = None,
    key: Key = None,
) -> None:
    """Let a paused durable subscription go on where it was.

    \b
    Example:
      tidings durables resume desk-7
    """
    with failures_told():
        from tidings.cli import durables

        durables.resume(name, login(url, token, token_file, authority, certificate, key))


@commands.command()
def forget(
    name: _Name,
    url: Url = HERE,
    token: Token = None,
    token_file: TokenFile = None,
    authority: Authority = None,
    certificate: Certificate = None,
    key: Key = None,
) -> None:
    """Let brokers forget a durable subscription, even one that is being read.

    \b
    Example:
      tidings durables forget desk-7
    """
    with failures_told():
        from tidings.cli import durables

        durables.forget(name, login(url, token, token_file, authority, certificate, key))
