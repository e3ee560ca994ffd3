"""Where the time of one match goes: to the kernel, or to Python around it."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.report import console, save, show
from tidings.matching import Index, kernels, warm
from tidings.matching.segment import Scratch, Segment
from tidings.workloads import WORKLOADS

_EVENTS = 2_000


def run(*, quick: bool, out: Path) -> int:
    console.rule("anatomy: one match of 10,000 filters, in microseconds")
    warm.wait()
    rows = []
    data: dict[str, Any] = {}
    for name, make in WORKLOADS.items():
        workload = make()
        index = Index()
        index.add_many(list(enumerate(workload.filters(10_000))))
        events = list(workload.notifications(_EVENTS))
        for event in events:
            index.match(event)  # learns from these
        data[name] = parts = _parts(index, events, repeats=2 if quick else 10)
        rows.append((name, *(f"{micros:.2f}" for micros in parts.values())))
    header = ("workload", *next(iter(data.values())))
    show("each column includes the one before it", header, rows)
    save(out, "anatomy", {"microseconds": data}, [])
    return 0


def _parts(index: Index, events: list[Any], *, repeats: int) -> dict[str, float]:
    (segment,) = index._state.segments
    scratch = Scratch(segment)
    steps: dict[str, Callable[[Any], object]] = {
        "look at the attributes": lambda event: segment._encoded(event.attributes, scratch),
        "+ call a kernel on nothing": lambda event: _called(segment, scratch, event, idle=True),
        "+ call it on the event": lambda event: _called(segment, scratch, event),
        "+ take the rows": lambda event: segment.match(event.attributes, 0),
        "+ turn them into keys": index.match,
    }
    return {name: _best(step, events, repeats) for name, step in steps.items()}


def _called(segment: Segment, scratch: Scratch, event: Any, *, idle: bool = False) -> int:
    """Look at the attributes and call the kernel; if idle, without telling it of any of them."""
    end = segment._encoded(event.attributes, scratch)
    if idle:
        end = 0
    return kernels.match_one(
        segment.i64, segment.i32, segment.bits, segment.source.died, scratch.seen, -1,
        scratch.event_view, end, scratch.keys, scratch.work, scratch.out,
    )  # fmt: skip


def _best(step: Callable[[Any], object], events: list[Any], repeats: int) -> float:
    """Microseconds for an event, in the best of several rounds."""
    best = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        for event in events:
            step(event)
        best = min(best, time.perf_counter() - start)
    return best / len(events) * 1e6
