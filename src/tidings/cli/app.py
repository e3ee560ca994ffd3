"""The program: its commands put together, and what holds for all of them."""

from __future__ import annotations

import os
import sys
from io import TextIOWrapper
from typing import Annotated

import typer

from tidings.cli.commands import brokers, durables, filters, pipeline, simulations, stores
from tidings.cli.options import group

app = group(
    add_completion=False,
    pretty_exceptions_enable=False,
    epilog="New here? Run: tidings tour",
)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"tidings {version('tidings')}")
        raise typer.Exit


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


for each in (filters, brokers, simulations):
    app.add_typer(each.commands)
app.add_typer(pipeline.commands, name="pipeline")
app.add_typer(stores.commands, name="store")
app.add_typer(durables.commands, name="durables")


def have_streams() -> None:
    """Make sure that text can be written, wherever the caller has sent stdout and stderr."""
    if sys.stdout is None:  # closed: `>&-`
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without Unicode gets ? for ●
