"""Complaints: what commands say on stderr. Needs no Rich, so that errors answer soon."""

from __future__ import annotations

import typer


def complain(message: str) -> None:
    """Say what went wrong."""
    typer.secho("error: ", fg=typer.colors.RED, bold=True, err=True, nl=False)
    typer.echo(message, err=True)


def remark(message: str) -> None:
    """Say something that is no failure."""
    typer.secho(message, fg=typer.colors.BRIGHT_BLACK, err=True)


def shortened(text: str, most: int) -> str:
    """The text on one line of at most so many characters, without control characters.

    >>> shortened("a rather long text", 9)
    'a rather…'
    """
    cut = text if len(text) <= most else text[: most - 1] + "…"
    return "".join(c if c.isprintable() else "·" for c in cut)
