"""How many events per second find their filters, by number of filters, beside other engines.

Each engine runs in a process of its own, one after the other. It matches ever more events until
that takes long enough to be timed, and the number of matches of each event is compared with
ours: figures of engines that do not agree mean nothing, so that fails the benchmark.
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from itertools import islice
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from bench.engines import ENGINES, PER_EVENT, Engine, Events, Filters, Matcher, Unsupported
from bench.memory import resident
from bench.report import Target, console, plot, save, short, show, show_targets
from tidings.workloads import WORKLOADS, Workload, sparse

OURS, OURS_BATCH = ENGINES["tidings"].labels
CHECKED = 256
"""Events whose matches are compared, or as many as the engine matched."""


@dataclass(frozen=True)
class Plan:
    """How thorough to be."""

    sizes: tuple[int, ...]
    events: int
    seconds: float
    """How long to match, about, for one figure."""
    patience: float
    """Seconds of loading beyond which peers are not tried, but for small sizes."""
    always: int
    """Filters with which all engines are tried: targets compare them there."""
    changes: int
    """How many filters to add one by one."""


FULL = Plan((1_000, 10_000, 100_000, 1_000_000), 65_536, 0.5, 20, 10_000, 50_000)
QUICK = Plan((1_000, 10_000), 4_096, 0.1, 3, 1_000, 5_000)


@dataclass(frozen=True)
class Cell:
    """One engine at one size of one workload: its figures, or why there are none."""

    workload: str
    label: str
    size: int
    how: str = ""
    rate: float | None = None
    """Events per second."""
    events: int = 0
    load: float | None = None
    """Seconds to load the filters."""
    matches: list[int] = field(default_factory=list)
    """Of the first events, each."""
    reason: str = ""


def run(*, quick: bool, out: Path, only: list[str] | None = None) -> int:
    plan = QUICK if quick else FULL
    cells: list[Cell] = []
    wrong = 0
    for name in only or WORKLOADS:
        console.rule(f"matching: {name}")
        found = [cell for engine in ENGINES for cell in _watched(engine, name, plan)]
        wrong += _check(found)
        best = _best(found)
        _show_workload(name, best, plan)
        cells += best.values()
    ours = _ours(plan)
    _show_ours(ours)
    figures = {(cell.workload, cell.label, cell.size): cell for cell in cells}
    targets = [*_targets(figures, ours)]
    show_targets(targets)
    data = {"plan": asdict(plan), "cells": [asdict(cell) for cell in cells], "ours": ours}
    save(out, "matching", data, targets)
    curves: dict[str, dict[str, dict[int, float]]] = {}
    for cell in cells:
        if cell.rate is not None:
            lines = curves.setdefault(cell.workload, {})
            lines.setdefault(cell.label, {})[cell.size] = cell.rate
    console.print("Plots:", *plot(out, curves), soft_wrap=True)
    return wrong


# -- measuring -----------------------------------------------------------------------------------


def _watched(engine: str, workload: str, plan: Plan) -> Iterator[Cell]:
    """The figures of an engine, from a process that is ended if it does not get anywhere."""
    with console.status(f"{engine} …"):
        for cell in _in_process(
            _measure_engine, engine, workload, plan, silence=10 * plan.patience
        ):
            if isinstance(cell, Cell):
                yield cell
            else:
                console.print(f"[bold red]{engine} on {workload}: {cell}")
                for label in ENGINES[engine].labels:
                    yield Cell(workload, label, 0, reason=str(cell))


def _measure_engine(send: Callable[[Any], None], name: str, workload_name: str, plan: Plan) -> None:
    engine = ENGINES[name]
    engine.prepare()
    workload = WORKLOADS[workload_name]()
    events = Events(workload, plan.events)
    hopeless: dict[Any, str] = {}
    for size in plan.sizes:
        filters: Filters | None = None
        for loader in engine.loaders:
            if loader in hopeless:
                for label in engine.labels:
                    send(Cell(workload_name, label, size, reason=hopeless[loader]))
                continue
            filters = filters or _filters(engine, workload, size)
            try:
                start = time.perf_counter()
                matchers = loader(filters)
                load = time.perf_counter() - start
            except Unsupported:
                continue
            rates = [0.0]
            for matcher in matchers:
                matches, rate, count = _rate(matcher, events, workload.selectivity * size, plan)
                rates.append(rate)
                at = (workload_name, matcher.label, size)
                send(Cell(*at, matcher.how, rate, events=count, load=load, matches=matches))
            del matchers
            gc.collect()
            if name == "tidings" or size < plan.always:
                continue
            if engine.growth * load > plan.patience:
                hopeless[loader] = f"> {plan.patience:.0f} s to load"
            elif max(rates) < 10:
                hopeless[loader] = "> 1 s an event"


def _filters(engine: Engine, workload: Workload, size: int) -> Filters:
    filters = Filters([*workload.conditions(size)])
    if engine.takes_filters:
        filters.filters  # noqa: B018 - made now, not while its time runs
    gc.collect()
    gc.freeze()  # a million filters are not walked again and again by the collector
    return filters


def _rate(
    matcher: Matcher, events: Events, matches: float, plan: Plan
) -> tuple[list[int], float, int]:
    """The matches of the first events; events per second; and in how large a batch."""
    most = int(min(len(events.dicts), max(1, 2e7 // max(1.0, matches))))  # results fit in memory
    rates: dict[int, float] = {}

    def once(n: int) -> tuple[Any, float]:
        encoded = matcher.encode(events, n)
        start = time.perf_counter()
        found = matcher.match(encoded)
        seconds = time.perf_counter() - start
        rates[n] = max(n / seconds, rates.get(n, 0.0))
        return found, seconds

    # A batch has a price whatever its size: start with a large one, and give it more time.
    n, enough = (min(256, most), 4 * plan.seconds) if matcher.is_batch else (1, plan.seconds)
    found, seconds = once(n)
    while n < most and 2 * seconds < enough:
        n = min(most, 4 * n)
        found, seconds = once(n)
    counts = matcher.counts(found, n)[:CHECKED]
    del found
    for _ in range(2 if seconds < enough else 0):
        once(n)
    rate, size = max((r, m) for m, r in rates.items() if 4 * m >= n)
    return counts, rate, size


def _in_process(job: Callable[..., None], *arguments: Any, silence: float) -> Iterator[Any]:
    """What `job` sends from a new process; a string at the end says what went wrong."""
    context = get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_job, args=(sender, job, arguments), daemon=True)
    process.start()
    sender.close()
    try:
        while receiver.poll(silence):
            sent = receiver.recv()
            if sent is None:
                return
            yield sent
        yield f"nothing for {silence:.0f} s, so it was ended"
    except EOFError:
        process.join()
        yield f"its process died ({process.exitcode})"
    finally:
        process.kill()
        process.join()


def _job(sender: Connection, job: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    try:
        job(sender.send, *arguments)
    except BaseException:
        sender.send(traceback.format_exc(limit=-3))
    sender.send(None)


def _check(cells: list[Cell]) -> int:
    """Compare the matches of every engine with ours; loud, and counted, where they differ."""
    ours = {cell.size: cell.matches for cell in cells if cell.label == OURS}
    wrong = sum(cell.reason != "" and cell.size == 0 for cell in cells)
    for cell in cells:
        expected = ours.get(cell.size, [])
        for number, (mine, theirs) in enumerate(zip(expected, cell.matches, strict=False)):
            if mine != theirs:
                console.print(
                    f"[bold red]MISMATCH on {cell.workload} with {cell.size:,} filters: "
                    f"event {number} matches {mine} for us, {theirs} for {cell.label} ({cell.how})"
                )
                wrong += 1
                break
    return wrong


def _best(cells: list[Cell]) -> dict[tuple[str, int], Cell]:
    """Of the formulations of an engine, the fastest at each size."""
    best: dict[tuple[str, int], Cell] = {}
    for cell in cells:
        known = best.get((cell.label, cell.size))
        if known is None or (cell.rate or 0) > (known.rate or 0):
            best[cell.label, cell.size] = cell
    return best


# -- ours alone ------------------------------------------------------------------------------------


def _ours(plan: Plan) -> dict[str, float | None]:
    """What nobody else is compared in: changes, memory, a cold start."""
    figures: dict[str, float | None] = {}
    console.rule("matching: changes, memory, cold start")
    jobs: list[tuple[Callable[..., None], tuple[Any, ...]]] = [
        (_changes, (plan.changes, plan.sizes[-1])),
        (_memory, ("sparse", plan.sizes[-1])),
        (_memory, ("dense-range", plan.sizes[-1])),
    ]
    with console.status("tidings …"):
        for job, arguments in jobs:
            for sent in _in_process(job, *arguments, silence=300):
                if isinstance(sent, str):
                    console.print(f"[bold red]{job.__name__}: {sent}")
                else:
                    figures |= sent
        figures |= _cold()
    return figures


def _changes(send: Callable[[Any], None], count: int, size: int) -> None:
    """Additions, replacements and removals one by one, each tenth followed by a match."""
    from tidings.matching import Index

    ENGINES["tidings"].prepare()
    workload = sparse()
    before = min(size, 100_000)
    filters = [*workload.filters(before + count)]
    events = [*workload.notifications(1000)]
    index = Index()
    index.add_many(enumerate(filters[:before]))
    for event in events:
        index.match(event)

    def timed(change: Callable[[int], None]) -> float:
        start = time.perf_counter()
        for at in range(count):
            change(before + at)
            if at % 10 == 0:
                index.match(events[at // 10 % len(events)])
        return count / (time.perf_counter() - start)

    send({"added one by one, per second": timed(lambda key: index.add(key, filters[key]))})
    replaced = timed(lambda key: index.replace(key, filters[key - before]))
    send({"replaced one by one, per second": replaced})
    send({"removed one by one, per second": timed(index.remove)})


_AT_A_TIME = 50_000
"""Filters that are made, added and forgotten at a time: only the index keeps them all."""


def _memory(send: Callable[[Any], None], name: str, size: int) -> None:
    """What a fresh process grows by, and what the index says of itself."""
    from tidings.matching import Index

    ENGINES["tidings"].prepare()
    workload = WORKLOADS[name]()
    warm = Index()  # so that all code is loaded, and freed space for filters is there already
    warm.add_many(enumerate(workload.filters(_AT_A_TIME)))
    events = [*workload.notifications(300)]
    for event in events:
        warm.match(event)
    del warm
    index = Index()
    before = resident()
    pairs = enumerate(workload.filters(size))
    while some := [*islice(pairs, _AT_A_TIME)]:
        index.add_many(some)
    del some
    for event in events:
        index.match(event)
    at = f"bytes per filter, {name}, {short(size)}"
    send({f"{at}: resident": (resident() - before) / size})
    send({f"{at}: explain()": index.explain()["bytes"] / size})


_COLD_START = """
import json, sys, time
from tidings import Filter, Notification
from tidings.matching import Index
texts, event = json.load(sys.stdin)
index = Index()
index.add_many((key, Filter.parse(text)) for key, text in enumerate(texts))
index.match(Notification(event))
print(time.time() - float(sys.argv[1]))
if sys.argv[2] == "wait":
    from tidings.matching import warm
    warm.wait()
"""


def _cold() -> dict[str, float | None]:
    """Seconds from the start of a process to the first answer of 1 000 filters."""
    workload = sparse()
    given = json.dumps([[*workload.texts(1000)], next(workload.events(1))])
    with tempfile.TemporaryDirectory() as cache:

        def seconds(then: str = "") -> float:
            command = [sys.executable, "-c", _COLD_START, str(time.time()), then]
            environment = {**os.environ, "NUMBA_CACHE_DIR": cache}
            done = subprocess.run(
                command, input=given, env=environment, capture_output=True, text=True, check=False
            )
            if done.returncode:
                console.print(f"[bold red]cold start: {done.stderr}")
                return float("inf")
            return float(done.stdout)

        empty = seconds()
        seconds("wait")
        return {
            "first match of a cold process, seconds: nothing compiled": empty,
            "first match of a cold process, seconds: kernels on disk": seconds(),
        }


# -- telling ----------------------------------------------------------------------------------


def _show_workload(name: str, cells: dict[tuple[str, int], Cell], plan: Plan) -> None:
    def said(label: str, size: int) -> str:
        cell = cells.get((label, size)) or cells.get((label, 0))
        if cell is None:
            return ""
        return cell.reason.splitlines()[-1] if cell.rate is None else short(cell.rate)

    labels = [label for engine in ENGINES.values() for label in engine.labels]
    rows = [
        [label, *(said(label, size) for size in plan.sizes), _how(cells, label)]
        for label in labels
        if any(known == label for known, _ in cells)
    ]
    header = ["events/s with this many filters", *map(short, plan.sizes), "fastest as"]
    show(
        f"{name}: an event matches {WORKLOADS[name]().selectivity:.3%} of the filters", header, rows
    )
    loads = [
        f"{short(size / cell.load)}/s at {short(size)}"
        for size in plan.sizes
        if (cell := cells.get((OURS, size))) and cell.load
    ]
    console.print("tidings adds in bulk:", ", ".join(loads))


def _how(cells: dict[tuple[str, int], Cell], label: str) -> str:
    hows = (c.how for (known, _), c in cells.items() if known == label and c.how)
    return "; ".join(dict.fromkeys(hows))


def _show_ours(figures: dict[str, float | None]) -> None:
    rows = [[what, "—" if n is None else short(n)] for what, n in figures.items()]
    show("tidings alone", ["", ""], rows)


Figures = dict[tuple[str, str, int], Cell]


def _targets(figures: Figures, ours: dict[str, float | None]) -> Iterator[Target]:
    def rate(workload: str, label: str, size: int) -> float | None:
        cell = figures.get((workload, label, size))
        return cell.rate if cell else None

    def ratio(mine: float | None, theirs: float | None) -> float | None:
        return mine / theirs if mine and theirs else None

    for workload, wanted in (("dense-range", 3), ("sparse", 2)):
        for size in (10_000, 100_000):
            mine = rate(workload, OURS_BATCH, size)
            theirs = {label: rate(workload, label, size) for label in ENGINES["duckdb"].labels}
            yield Target(
                f"match_batch against duckdb, {workload}, {short(size)}",
                ratio(mine, max(rate or 0.0 for rate in theirs.values())),
                wanted,
                "×",
                note="; ".join(f"{label}: {short(r)}/s" for label, r in theirs.items() if r),
            )
    for workload in dict.fromkeys(name for name, _, _ in figures):
        peers = {label: rate(workload, label, 10_000) for label in PER_EVENT}
        fastest = max(peers, key=lambda label: peers[label] or 0.0)
        skipped = [label for label in PER_EVENT if (workload, label, 10_000) in figures]
        skipped = [label for label in skipped if peers[label] is None]
        note = f"{fastest}: {short(peers[fastest] or 0.0)}/s"
        yield Target(
            f"match against the best one-by-one peer, {workload}, 10k",
            ratio(rate(workload, OURS, 10_000), peers[fastest]),
            20,
            "×",
            note=f"{note}; not tried: {', '.join(skipped)}" if skipped else note,
        )
    small, large = (rate("sparse", OURS, size) for size in (10_000, 1_000_000))
    yield Target("match, sparse, 10k", small, 100_000, "/s")
    yield Target("match, sparse, 1M", large, 20_000, "/s")
    yield Target(
        "cost of an event, sparse, from 10k to 1M", ratio(small, large), 5, "×", at_most=True
    )
    for workload in ("sparse", "dense-range"):
        at = f"bytes per filter, {workload}, 1M"
        said = ours.get(f"{at}: explain()")
        note = f"explain() says {short(said)}" if said else ""
        yield Target(at, ours.get(f"{at}: resident"), 400, at_most=True, note=note)
    for workload in dict.fromkeys(name for name, _, _ in figures):
        size, cell = max((key[2], c) for key, c in figures.items() if key[:2] == (workload, OURS))
        added = size / cell.load if cell.load else None
        yield Target(f"added in bulk, {workload}, {short(size)}", added, 100_000, "/s")
    one_by_one = ours.get("added one by one, per second")
    yield Target("added one by one while matching", one_by_one, 20_000, "/s")
    for state in ("nothing compiled", "kernels on disk"):
        first = ours.get(f"first match of a cold process, seconds: {state}")
        yield Target(f"first match of a cold process, {state}", first, 2, " s", at_most=True)
