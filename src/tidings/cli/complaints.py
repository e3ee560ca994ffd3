"""Complaints: what commands say on stderr. Needs no Rich, so that errors answer soon."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import typer

if TYPE_CHECKING:
    from tidings.events import Filter

FAILED: Final = 2
_PIPE_CLOSED: Final = 128 + 13  # what a shell reports of a program that SIGPIPE ended


def complain(message: str) -> None:
    """Say what went wrong."""
    clear_line()
    typer.secho("error: ", fg=typer.colors.RED, bold=True, err=True, nl=False)
    typer.echo(message, err=True)


def remark(message: str) -> None:
    """Say something that is no failure."""
    clear_line()
    typer.secho(message, fg=typer.colors.BRIGHT_BLACK, err=True)


def remark_if_none(wanted: Filter) -> None:
    """Say of a filter that can never match that it is one, and why."""
    if not wanted.conjunctions:
        why = "; ".join(wanted.reasons)
        remark(f"this filter can never match{': ' if why else ''}{why}")


def counted(number: int, what: str, many: str = "") -> str:
    """How many there are of something; `many` is what several are called, if not by an s.

    >>> counted(1, "event"), counted(2_000, "event")
    ('1 event', '2,000 events')
    """
    return f"{number:,} {what if number == 1 else many or what + 's'}"


def connection_told() -> Callable[[bool, str], None]:
    """What to be told with of a connection: says when it is lost, and when there is one again."""
    is_lost = False

    def told(is_connected: bool, what: str) -> None:
        nonlocal is_lost
        if is_connected and is_lost:
            remark(what)
        elif not is_connected:
            remark(f"{what}; trying again")
        is_lost = not is_connected

    return told


def clear_line() -> None:
    """Leave nothing of what was shown of progress on a terminal's line."""
    if sys.stderr.isatty():
        typer.echo("\r\033[K", nl=False, err=True)


def shortened(text: str, most: int) -> str:
    """The text on one line of at most `most` characters, without control characters.

    >>> shortened("a rather long text", 9)
    'a rather…'
    """
    cut = text if len(text) <= most else text[: most - 1] + "…"
    return "".join(c if c.isprintable() else "·" for c in cut)


_EXTRAS: Final = {
    "deltalake": "lakes",
    "matplotlib": "experiments",
    "numba": "broker",
    "numpy": "broker",
    "pandas": "spark",
    "prometheus_client": "broker",
    "pyarrow": "lakes",
    "pyspark": "spark",
    "scipy": "experiments",
}
"""What brings each package that not everybody has."""


def lacking(problem: ModuleNotFoundError, extra: str | None = None) -> str:
    """What is not installed, and how to install it; any other module's absence is a mistake."""
    package = (problem.name or "").partition(".")[0]
    if package not in _EXTRAS:
        raise problem
    return f"{package} is not installed. Try: pip install 'tidings[{extra or _EXTRAS[package]}]'"


@contextmanager
def failures_told(extra: str | None = None) -> Iterator[None]:
    """Turn every expected failure of a command into a message and an exit code.

    `extra` brings what the command needs, if that is more than what it may miss first.
    """
    from tidings.events.errors import TidingsError

    try:
        yield
        return
    except TidingsError as problem:
        complain(str(problem))
    except ModuleNotFoundError as problem:
        complain(lacking(problem, extra))
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
