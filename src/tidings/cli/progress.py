"""Progress: how far a long command is, for those who look."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING, Final

import typer

from tidings.cli.complaints import clear_line

if TYPE_CHECKING:
    import rich.progress

_OFTEN: Final = 0.1
"""Seconds between two lines on a terminal."""
_SPARSE: Final = 10.0
"""Seconds between two lines where there is no terminal."""


class ProgressLine:
    """A line on stderr: written over and over on a terminal, now and then elsewhere.

    Tell it as often as you like.
    """

    def __init__(self) -> None:
        self._is_seen = sys.stderr.isatty()
        self._due = 0.0 if self._is_seen else monotonic() + _SPARSE
        self._begin: tuple[float, int] | None = None

    def tell(self, text: str) -> None:
        """Show this, if it is time."""
        now = monotonic()
        if now < self._due:
            return
        self._due = now + (_OFTEN if self._is_seen else _SPARSE)
        typer.echo(f"\r\033[K{text}" if self._is_seen else text, nl=not self._is_seen, err=True)

    def starting(self, master: str) -> None:
        """Show that Spark is starting, which takes seconds, if it is."""
        if master != "none":
            self.tell("starting Spark")

    def count(self, done: int, total: int, what: str, more: str = "") -> None:
        """Show how many there are by now, and how many come in a second."""
        now = monotonic()
        since, before = self._begin = self._begin or (now, done)
        if now >= self._due:
            rate = f", {(done - before) / (now - since):,.0f}/s" if now - since > 1 else ""
            self.tell(f"{done:,} of {total:,} {what}{rate}{more}")

    def clear(self) -> None:
        """Leave nothing of it on a terminal."""
        clear_line()


class ProgressBars:
    """Bars on a terminal, nothing elsewhere."""

    def __init__(self, bars: rich.progress.Progress | None) -> None:
        self._bars = bars

    def counter(self, what: str, total: int | None) -> Callable[[int], None]:
        """A bar, as a function that is told of every step; `total` steps if that is known."""
        if self._bars is None:
            return lambda steps: None
        bars, bar = self._bars, self._bars.add_task(what, total=total)
        return lambda steps: bars.advance(bar, steps)


@contextmanager
def bars(*columns: rich.progress.ProgressColumn | str) -> Iterator[rich.progress.Progress | None]:
    """Bars on stderr while the context lasts, if somebody is looking; None if not.

    Each has a description, and these columns behind it.
    """
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress

    shown = ("{task.description}", BarColumn(), *columns)
    with Progress(*shown, console=Console(stderr=True), transient=True) as found:
        yield found


@contextmanager
def progress() -> Iterator[ProgressBars]:
    """Show progress in bytes on stderr while the context lasts, if somebody is looking."""
    if not sys.stderr.isatty():  # then Rich need not be imported
        yield ProgressBars(None)
        return
    from rich.progress import DownloadColumn, TransferSpeedColumn

    with bars(DownloadColumn(), TransferSpeedColumn()) as found:
        yield ProgressBars(found)
