"""Progress: how far a long command is, for those who look."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import rich.progress


class Progress:
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
def progress() -> Iterator[Progress]:
    """Show progress in bytes on stderr while the context lasts, if somebody is looking."""
    if not sys.stderr.isatty():
        yield Progress(None)
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TransferSpeedColumn
    from rich.progress import Progress as Bars

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
    )
    with Bars(*columns, console=Console(stderr=True), transient=True) as bars:
        yield Progress(bars)
