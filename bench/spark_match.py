"""How many rows of a DataFrame per second find their filters, beside the index alone and a join.

REBECA's quote intervals: a symbol and a range of prices. The join is the best that Spark offers
for them by itself: the filters are broadcast as a table, and found by their symbol. It gives pairs
and no lists, which is less work than `tidings.spark.match` does. Numbers of matches are compared.

Rates are per second of processor time, of Java and Python together: others use the machine too.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from bench.report import Target, console, save, short, show, show_targets
from tidings import Index
from tidings.spark import match, session
from tidings.spark.match import FEW
from tidings.workloads import interval

CORES = 2
BATCH = 10_000
"""Rows in one of Spark's Arrow batches."""


def run(*, quick: bool, out: Path) -> int:
    console.rule(f"spark_match: rows against filters on local[{CORES}]")
    sizes = (1_000, 10_000) if quick else (10_000, 100_000)
    events = pa.table(interval().columns(50_000 if quick else 200_000))
    figures: dict[int, dict[str, float]] = {}
    with (
        TemporaryDirectory(prefix="tidings-bench-") as folder,
        session("bench", master=f"local[{CORES}]") as spark,
    ):
        files = Path(folder, "events")
        files.mkdir()
        half = events.num_rows // CORES
        for n in range(CORES):
            pq.write_table(events.slice(n * half, half), files / f"{n}.parquet")
        rows = spark.read.parquet(str(files))
        for size in sizes:
            figures[size] = _figures(spark, rows, events, size)
        crossover = _crossover(rows)
    show(
        "Events per second of processor time (kernel: the index alone)",
        ["filters", "kernel", "match", "of the kernel", "join", "× join", "first", "matches/event"],
        [
            [
                f"{size:,}",
                short(f["kernel"]),
                short(f["match"]),
                f"{f['match'] / f['kernel']:.0%}",
                short(f["join"]),
                f"{f['match'] / f['join']:.1f}",
                f"{f['first']:.1f} s",
                f"{f['pairs']:.1f}",
            ]
            for size, f in figures.items()
        ],
    )
    show(
        f"Few filters: rows per second, by Spark's own conditions and by the index (limit: {FEW})",
        ["filters", "conditions", "index"],
        [[str(n), short(native), short(index)] for n, (native, index) in crossover.items()],
    )
    wrong = sum(f["wrong"] for f in figures.values())
    if wrong:
        console.print("[bold red]match, the kernel and the join do not agree")
    targets = [*_targets({} if quick else figures)]  # a glance measures mostly how Spark starts
    show_targets(targets)
    save(out, "spark_match", {"figures": figures, "crossover": crossover}, targets)
    return int(wrong)


def _targets(figures: dict[int, dict[str, float]]) -> Iterator[Target]:
    for size, times in ((10_000, 1.5), (100_000, 3.0)):
        f = figures.get(size)
        of_kernel, of_join = (
            (f["match"] / f["kernel"], f["match"] / f["join"]) if f else (None, None)
        )
        yield Target(f"of the kernel's rate, {size:,} filters", of_kernel, 0.6)
        yield Target(f"times the join, {size:,} filters", of_join, times, "×")


def _figures(spark: Any, rows: Any, events: pa.Table, size: int) -> dict[str, float]:
    from pyspark.sql import functions as F  # noqa: N812

    filters = {f"desk-{n}": f for n, f in enumerate(interval().filters(size))}
    kernel, pairs = _kernel(filters, events)
    matched = match(rows, filters, keep=True)
    start = time.perf_counter()
    _drain(matched)
    first = time.perf_counter() - start
    found = matched.select(F.sum(F.size("matches"))).first()[0]
    join = rows.join(F.broadcast(_table(spark, size)), "symbol").where("price BETWEEN low AND high")
    return {
        "kernel": kernel,
        "match": _rate(lambda: _drain(matched), events.num_rows),
        "join": _rate(lambda: _drain(join), events.num_rows),
        "first": first,
        "pairs": pairs / events.num_rows,
        "wrong": float(not found == pairs == join.count()),
    }


def _kernel(filters: dict[str, Any], events: pa.Table) -> tuple[float, int]:
    """The index alone in one thread, and how many matches it finds."""
    index = Index()
    index.add_many(enumerate(filters.values()))
    batches = events.to_batches(max_chunksize=BATCH)
    index.match_batch(batches[0])
    start = time.process_time()
    pairs = sum(len(index.match_batch(batch)[0]) for batch in batches)
    return events.num_rows / (time.process_time() - start), pairs


def _table(spark: Any, size: int) -> Any:
    """The filters as a table: key, symbol, low, high."""
    columns: dict[str, list[Any]] = {"key": [], "symbol": [], "low": [], "high": []}
    for number, (stock, price) in enumerate(interval().conditions(size)):
        columns["key"].append(f"desk-{number}")
        columns["symbol"].append(stock.value)  # type: ignore[union-attr]
        columns["low"].append(float(price.low))  # type: ignore[union-attr,arg-type]
        columns["high"].append(float(price.high))  # type: ignore[union-attr,arg-type]
    return spark.createDataFrame(pa.table(columns)).cache()


def _crossover(rows: Any) -> dict[int, tuple[float, float]]:
    count = rows.count()
    found: dict[int, tuple[float, float]] = {}
    for size in (8, 16, 24, 32, 64):
        filters = {str(n): f for n, f in enumerate(interval().filters(size))}
        ways = [match(rows, filters, few=few, keep=True) for few in (size, 0)]
        native, index = (_rate(lambda way=way: _drain(way), count) for way in ways)  # type: ignore[misc]
        found[size] = (native, index)
    return found


def _drain(frame: Any) -> None:
    frame.write.format("noop").mode("overwrite").save()


def _rate(work: Callable[[], None], events: int) -> float:
    """Events per second of processor time, the best of two after one that warms up."""
    work()
    best = 0.0
    for _ in range(2):
        before = _used()
        work()
        best = max(best, events / (_used() - before))
    return best


def _used() -> float:
    """Seconds of processor time so far, of this process and all that it has started."""
    fields: dict[int, list[str]] = {}
    for path in Path("/proc").iterdir():
        if path.name.isdecimal():
            with suppress(OSError):  # it has ended
                text = (path / "stat").read_text(encoding="ascii", errors="replace")
                fields[int(path.name)] = text.rpartition(") ")[2].split()
    ours = [os.getpid()]
    for pid in ours:  # grows meanwhile
        ours += [child for child, about in fields.items() if int(about[1]) == pid]
    ticks = sum(int(number) for pid in ours for number in fields[pid][11:15])
    return ticks / os.sysconf("SC_CLK_TCK")
