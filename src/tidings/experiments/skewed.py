"""A skewed market: what happens all the time, what hardly ever does, and what is learnt of it."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, Final

from tidings.events import Filter, Notification
from tidings.routing import Statistics
from tidings.workloads.conditions import Equal, Range, filter_of

SYMBOLS: Final = 20
LEARNT_FROM: Final = 20_000
"""So many events are in the lake, before those that are measured."""
_OUTLIERS: Final = 0.05
"""So many prices are anywhere."""


class Market:
    """What is traded and what is wanted in one run, the same for all rules."""

    def __init__(self, run: int) -> None:
        rng = Random(f"market {run}")
        self._places = [rng.uniform(10.0, 90.0) for _ in range(SYMBOLS)]
        self._weights = [1.0 / (k + 1) for k in range(SYMBOLS)]

    def _symbol(self, rng: Random) -> int:
        return rng.choices(range(SYMBOLS), self._weights)[0]

    def event(self, rng: Random) -> dict[str, Any]:
        """A trade."""
        symbol = self._symbol(rng)
        price = rng.gauss(self._places[symbol], 3.0)
        if rng.random() < _OUTLIERS:
            price = rng.uniform(0.0, 100.0)
        return {"symbol": f"S{symbol}", "price": round(min(100.0, max(0.0, price)), 2)}

    def filter(self, rng: Random) -> Filter:
        """What somebody wants."""
        low = round(rng.uniform(0.0, 95.0), 1)
        wide = round(rng.uniform(2.0, 6.0), 1)
        symbol = Equal("symbol", f"S{self._symbol(rng)}")
        return filter_of((symbol, Range("price", low, round(low + wide, 1))))


@lru_cache(maxsize=8)
def learn(run: int) -> Statistics:
    """What the pipeline learns from the part of the trace that lies before the measurement."""
    from tidings.lakes.lake import Lake
    from tidings.lakes.layout import Archived
    from tidings.spark.statistics.statistics import statistics

    market, rng = Market(run), Random(f"first part {run}")
    when = datetime(2026, 11, 16, tzinfo=UTC)
    events = [
        Archived("trace", number, when, Notification(market.event(rng)))
        for number in range(1, LEARNT_FROM + 1)
    ]
    with TemporaryDirectory(prefix="tidings-adaptive-") as folder:
        lake = Lake(folder)
        lake.append(events, "experiment", 1)
        return statistics(None, lake).statistics
