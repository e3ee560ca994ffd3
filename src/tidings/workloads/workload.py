"""A workload: filters and events drawn from one seed by numbers that are the same everywhere.

NumPy keeps the raw output of PCG64 and of its seeding for ever, but not what `Generator` makes
of it; and functions such as `log` may differ in the last digit between machines. So everything
is drawn from the raw output, with nothing but +, ×, ÷, floor and comparisons.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from tidings.events import Filter, Notification
from tidings.workloads.conditions import Conditions, filter_of, text_of

Uniforms = NDArray[np.float64]

BLOCK: Final = 4096
"""Rows are drawn in blocks of this many."""


def uniform_blocks(seed: int, purpose: str, columns: int) -> Iterator[Uniforms]:
    """Endless blocks of rows of numbers in [0, 1); each block is seeded by its own number.

    >>> next(uniform_blocks(0, "an example", 2))[0].tolist()
    [0.7059691105492626, 0.4352132097117112]
    """
    stream = crc32(purpose.encode())
    block = 0
    while True:
        raw = np.random.PCG64([seed, stream, block]).random_raw(BLOCK * columns)
        mantissas = (raw >> np.uint64(11)).astype(np.float64)
        yield (mantissas * 2.0**-53).reshape(BLOCK, columns)
        block += 1


def choices(uniforms: Uniforms, count: int | NDArray[np.int64]) -> NDArray[np.int64]:
    """Each number as a choice among `count`, all as likely."""
    return (uniforms * count).astype(np.int64)


def ranks(uniforms: Uniforms) -> NDArray[np.int64]:
    """Each row as a random order of its columns: the rank of each column."""
    return uniforms.argsort(axis=1, kind="stable").argsort(axis=1, kind="stable")


def zipf(uniforms: Uniforms, count: int, skew: float) -> NDArray[np.int64]:
    """Each number as a choice among `count`, the k-th of them with weight 1 / k ** skew."""
    if skew == 0:
        return choices(uniforms, count)
    reached = np.cumsum([float(k) ** -skew for k in range(1, count + 1)])
    found = np.searchsorted(reached / reached[-1], uniforms, side="right")
    return np.minimum(found, count - 1)


@dataclass(frozen=True)
class Workload:
    """A reproducible stream of filters and one of events; `n` says how many of each to make.

    Every method starts at the first one, so all forms of a filter have the same number, and
    the first thousand of a million are those of a thousand.
    """

    name: str
    selectivity: float
    """The share of the filters that an event matches, on average."""
    seed: int
    draw_filters: Callable[[Uniforms], Iterator[Conditions]]
    filter_columns: int
    """How many random numbers `draw_filters` takes for each filter."""
    draw_events: Callable[[Uniforms], dict[str, list[Any]]]
    event_columns: int

    def conditions(self, n: int) -> Iterator[Conditions]:
        """Each filter as a tuple of conditions in plain values."""
        blocks = uniform_blocks(self.seed, f"{self.name} filters", self.filter_columns)
        return islice((c for block in blocks for c in self.draw_filters(block)), n)

    def texts(self, n: int) -> Iterator[str]:
        """Each filter as text."""
        return map(text_of, self.conditions(n))

    def filters(self, n: int) -> Iterator[Filter]:
        """Each filter as its text would parse, but made faster."""
        return map(filter_of, self.conditions(n))

    def events(self, n: int) -> Iterator[dict[str, Any]]:
        """Each event as a dictionary of its attributes."""
        columns = self.columns(n)
        return (dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True))

    def notifications(self, n: int) -> Iterator[Notification]:
        """Each event as a notification."""
        return map(Notification, self.events(n))

    def columns(self, n: int) -> dict[str, list[Any]]:
        """All events by column."""
        blocks = uniform_blocks(self.seed, f"{self.name} events", self.event_columns)
        columns = self.draw_events(next(blocks))
        for block in islice(blocks, max(0, n - 1) // BLOCK):
            for name, values in self.draw_events(block).items():
                columns[name] += values
        return {name: values[:n] for name, values in columns.items()}

    def table(self, n: int) -> Any:
        """All events as a `pyarrow.Table`."""
        import pyarrow  # takes a while, and only tables need it

        return pyarrow.table(self.columns(n))
