"""What a subscription that comes and goes costs a broker, and a watch, in tables of any size."""

from __future__ import annotations

import gc
import time
from pathlib import Path
from typing import NamedTuple

from bench.report import Target, console, save, short, show, show_targets
from tidings.events import Filter
from tidings.routing import reduction
from tidings.routing.reduction import Reduction
from tidings.routing.tables import Tables
from tidings.workloads import WORKLOADS

_STRATEGIES = ["covering", "merging", "imperfect:1.5", "bounded:1000"]
_WORKLOADS = ["interval", "quote", "dense-range", "sparse"]
_KNOWN = "few symbols: in a large table nothing is new, so this is only a count"
_LIST = f"{_KNOWN}; a new one costs as much as the one IN list that all become"
_NOTES = {
    ("quote", "covering"): _KNOWN,
    ("quote", "merging"): _LIST,
    ("quote", "imperfect:1.5"): _LIST,
    ("quote", "bounded:1000"): _LIST,
}
_UNWANTED = [Filter.parse(f"price = -{n} AND volume < -1") for n in range(1, 4)]
_MOST = 20
"""How many times more a change may cost in the large table."""
_MOST_WATCHED = 10
"""Milliseconds in which a watch of the large table is answered."""


class Cost(NamedTuple):
    """Of one table: seconds to fill it, how many filters are told, and what a change costs."""

    held: int
    fill: float
    told: int
    mean: float
    median: float
    worst: float


def run(*, quick: bool, out: Path, only: list[str] | None = None) -> int:
    console.rule("routing: one filter comes and goes, on one core")
    small, large = (1_000, 10_000) if quick else (1_000, 100_000)
    changes = 200 if quick else 400
    costs: dict[str, dict[str, list[Cost]]] = {}
    targets = []
    for workload in only or _WORKLOADS:
        filters = list(WORKLOADS[workload]().filters(large + changes))
        more = filters[large:]
        for strategy in _STRATEGIES:
            pair = [_measured(strategy, filters[:held], more) for held in (small, large)]
            costs.setdefault(workload, {})[strategy] = pair
            targets.append(
                Target(
                    f"{workload}, {strategy}: {short(large)} of {short(small)}",
                    pair[1].mean / pair[0].mean,
                    _MOST,
                    "×",
                    at_most=True,
                    note=_NOTES.get((workload, strategy), ""),
                )
            )
        first, others = _watched(filters[:large], [*_UNWANTED, *more])
        note = f"at worst, once the first one has been answered in {first:.2f} s"
        watch = f"{workload}: a watch of {short(large)}"
        targets.append(Target(watch, others * 1e3, _MOST_WATCHED, " ms", at_most=True, note=note))
    show(
        "Microseconds to add a filter, remove it, and say each time what changes",
        ["workload, strategy", "held", "told", "mean", "median", "worst", "to fill it"],
        [
            [
                f"{workload}, {strategy}",
                short(cost.held),
                short(cost.told),
                *(short(seconds * 1e6) for seconds in (cost.mean, cost.median, cost.worst)),
                f"{cost.fill:.2f} s",
            ]
            for workload, of_one in costs.items()
            for strategy, pair in of_one.items()
            for cost in pair
        ],
    )
    show_targets(targets)
    save(out, "routing", {"costs": costs}, targets)
    return 0


def _watched(held: list[Filter], watches: list[Filter]) -> tuple[float, float]:
    """Seconds until the first watch is answered, and the most that another one takes."""
    tables = Tables[str]()
    tables.change("clients", dict.fromkeys(held, 1))
    times = []
    for filter_ in watches:
        start = time.process_time()
        tables.overlap(filter_)
        times.append(time.process_time() - start)
    return times[0], max(times[1:])


def _measured(strategy: str, held: list[Filter], more: list[Filter]) -> Cost:
    mine = reduction(strategy)
    gc.collect()
    start = time.process_time()
    for filter_ in held:
        mine.add(filter_)
    mine.drain()
    fill = time.process_time() - start
    gc.collect()
    gc.disable()  # a collection takes longer than many changes, and is not theirs
    try:
        times = sorted(_change(mine, filter_) for filter_ in more)
    finally:
        gc.enable()
    mean, median = sum(times) / len(times), times[len(times) // 2]
    return Cost(len(held), fill, len(mine.output), mean, median, times[-1])


def _change(mine: Reduction, filter_: Filter) -> float:
    start = time.process_time()
    mine.add(filter_)
    mine.drain()
    mine.remove(filter_)
    mine.drain()
    return time.process_time() - start
