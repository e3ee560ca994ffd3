"""How many events of a lake find their filters in a second, beside the index alone and a join.

REBECA's quote intervals: a symbol and a range of prices. Ways over the same lake:

- *folder*: `tidings pipeline match`, whose tasks write all matches as Parquet themselves; keys are
  numbers, as the kernel gives them, or names; and *counts*, the same with `--count-only`;
- *lake*: `match(lake, …)`, which gives them to Java as rows;
- *frame*: `match(df, …)` on Spark's own reading of the files;
- *join*: the best that Spark offers for these filters by itself. They are broadcast as a table and
  found by their symbol. It gives pairs and no lists, and they go nowhere, which is less work than
  any of the others; *join, files* writes them as Parquet, as *folder* does.

The kernel is `Index.match_batch` in one thread, on batches as large as those that the lake is read
in. Numbers of matches are compared. Rates are per second of processor time, of Java and Python
together: others use the machine too. What a query costs before it begins (that of a lake with one
event) is told apart, as making an index is no part of the kernel's rate either. Those by the clock
are beside them, with all that they cost, with one core and two.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.processes import family, used
from bench.report import Target, console, save, short, show, show_targets
from tidings import Index
from tidings.lakes.files import write
from tidings.lakes.lake import Lake
from tidings.lakes.portions import ROWS
from tidings.spark import match, session
from tidings.spark.matching.folder import MatchFolder
from tidings.spark.sessions import session_for_python
from tidings.workloads import Workload, interval, sparse

WAYS = (
    "counts",
    "folder, numbers",
    "folder, names",
    "lake, numbers",
    "lake, names",
    "frame",
    "join",
    "join, files",
)
SLOW = ("frame", "join", "join, files")
"""These get a quarter of the events."""
FILES = 16
"""Of a lake."""
TICK = 0.01
"""Seconds of processor time that the system counts in."""
MILLION = 1_000_000
MEMORY = 192 << 20
"""What an index may take in a process, for a million filters."""


def run(*, quick: bool, out: Path) -> int:
    console.rule("spark_match: events of a lake against filters")
    sizes = (1_000, 10_000) if quick else (10_000, 100_000)
    counts = dict(zip(sizes, (100_000, 50_000) if quick else (6_400_000, 1_600_000), strict=True))
    cores = (2,) if quick else (1, 2)
    figures: dict[str, dict[str, Any]] = {}
    with TemporaryDirectory(prefix="tidings-bench-") as folder:
        tiny = _lake(Path(folder, "tiny"), interval(), 1)
        lakes = {size: _lake(Path(folder, f"{size}"), interval(), counts[size]) for size in sizes}
        for number in cores:
            with session("bench", master=f"local[{number}]") as spark:
                for size in sizes:
                    figures[f"{size} {number}"] = _figures(spark, (lakes[size], tiny), size, folder)
                    console.print(f"{size:,} filters on local[{number}] are measured")
        large = None if quick else _million(Path(folder, "million"), folder)
    _show(figures, large)
    wrong = sum(f["wrong"] for f in figures.values())
    if wrong:
        console.print("[bold red]the ways to match do not agree")
    targets = [*_targets({} if quick else figures)]  # a glance measures mostly how Spark starts
    show_targets(targets)
    save(out, "spark_match", {"figures": figures, "million": large}, targets)
    if not quick:
        _plot(out, figures)
    return int(wrong)


def _lake(path: Path, workload: Workload, count: int) -> Path:
    """A lake of events, as the archive writes them."""
    lake = Lake(path)
    ticks = np.arange(1, count + 1)
    times = 1_794_700_800_000_000 + ticks * 40_000
    events = {
        "id": pa.array([f"paris:{tick}" for tick in ticks.tolist()]),
        "stream": pa.array(["paris"] * count),
        "tick": ticks,
        "time": pa.array(times).cast(pa.timestamp("us", "UTC")),
        "day": pa.array((times // 86_400_000_000).astype(np.int32)).cast(pa.date32()),
        "rest": pa.nulls(count, pa.string()),
        **workload.columns(count),
    }
    rows = pa.table(events)
    size = -(-count // FILES)
    parts = [rows.slice(first, size) for first in range(0, count, size)]
    written = [write(path, part, lake.schema()) for part in parts]
    lake.admit(written)
    lake.commit(written, "bench", 1, held={"paris": count})
    return path


def _figures(spark: Any, lakes: tuple[Path, Path], size: int, folder: str) -> dict[str, Any]:
    filters = dict(enumerate(interval().filters(size)))
    lake, tiny = lakes
    files = Lake(lake).snapshot().files()
    some = files[: len(files) // 4]  # for the slower ways
    paths = [lake / file for file in some]
    events = pa.concat_tables(pq.read_table(path, columns=["symbol", "price"]) for path in paths)
    kernel, pairs = _kernel(filters, events)
    total = sum(pq.read_metadata(lake / file).num_rows for file in files)
    found: dict[str, int] = {}
    work = _work(spark, lake, some, filters, folder, found)
    idle = _work(spark, tiny, Lake(tiny).snapshot().files(), filters, folder, {})
    for way in WAYS:
        work[way]()  # Java compiles what all of them use
    rates = {w: _rate(work[w], idle[w], events.num_rows if w in SLOW else total) for w in WAYS}
    kernel = max(kernel, _kernel(filters, events)[0])  # others may have used the machine before
    agree = pairs == found["join"] == found["frame"]
    agree &= found["lake, names"] == found["folder, names"] == found["folder, numbers"]
    agree &= found["folder, names"] == found["counts"] == found["lake, numbers"]
    return {
        "kernel": kernel,
        "pairs": pairs / events.num_rows,
        "wrong": float(not agree),
        **{what: {w: rates[w][what] for w in WAYS} for what in ("cpu", "clock", "begin")},
    }


def _work(
    spark: Any,
    lake: Path,
    files: list[str],
    filters: dict[int, Any],
    folder: str,
    found: dict[str, int],
) -> dict[str, Callable[[], None]]:
    """The ways as functions; numbers of matches go to `found`."""
    from pyspark.sql import functions as F  # noqa: N812

    named = {f"desk-{n}": f for n, f in filters.items()}
    frame = spark.read.parquet(*[str(lake / f) for f in files]).select("id", "symbol", "price")
    table = _table(spark, len(filters))
    ways = {
        "lake, numbers": match(lake, filters, columns=["id"]),
        "lake, names": match(lake, named, columns=["id"]),
        "frame": match(frame, named),
        "join": frame.join(F.broadcast(table), "symbol").where("price BETWEEN low AND high"),
    }
    for way in ("lake, numbers", "lake, names", "frame"):
        found[way] = ways[way].select(F.sum(F.size("matches"))).first()[0]
    found["join"] = ways["join"].count()

    def match_lake(way: str, keyed: dict[Any, Any], *, is_listed: bool = True) -> None:
        out = Path(folder, f"heard {time.perf_counter_ns()}")
        matches = MatchFolder(lake, keyed, out, is_listed=is_listed, named="bench")
        found[way] = matches.run(spark).matches
        shutil.rmtree(out)

    def joined() -> None:
        out = Path(folder, f"joined {time.perf_counter_ns()}")
        ways["join"].select("id", "key").write.parquet(str(out))
        shutil.rmtree(out)

    work: dict[str, Callable[[], None]] = {
        "counts": lambda: match_lake("counts", named, is_listed=False),
        "folder, numbers": lambda: match_lake("folder, numbers", filters),
        "folder, names": lambda: match_lake("folder, names", named),
        "join, files": joined,
    }
    return work | {way: lambda rows=rows: _drain(rows) for way, rows in ways.items()}  # type: ignore[misc]


def _kernel(filters: dict[int, Any], events: pa.Table) -> tuple[float, int]:
    """The index alone in one thread, and how many matches it finds."""
    index = Index()
    index.add_many(filters.items())
    batches = events.to_batches(max_chunksize=ROWS)
    index.match_batch(batches[0], threads=1)
    best, pairs = 0.0, 0
    for _ in range(3):
        start = time.process_time()
        pairs = sum(len(index.match_batch(batch, threads=1)[0]) for batch in batches)
        best = max(best, events.num_rows / (time.process_time() - start))
    return best, pairs


def _table(spark: Any, size: int) -> Any:
    """The filters as a table: key, symbol, low, high."""
    columns: dict[str, list[Any]] = {"key": [], "symbol": [], "low": [], "high": []}
    for number, (stock, price) in enumerate(interval().conditions(size)):
        columns["key"].append(f"desk-{number}")
        columns["symbol"].append(stock.value)  # type: ignore[union-attr]
        columns["low"].append(float(price.low))  # type: ignore[union-attr,arg-type]
        columns["high"].append(float(price.high))  # type: ignore[union-attr,arg-type]
    return spark.createDataFrame(pa.table(columns)).cache()


def _million(lake: Path, folder: str) -> dict[str, Any]:
    """A million filters in one index, and in parts that take less memory."""
    filters = {f"desk-{n}": f for n, f in enumerate(sparse().filters(MILLION))}
    _lake(lake, sparse(), count := 400_000)
    found: dict[str, Any] = {}
    for what, memory in (("whole", None), ("in parts", MEMORY)):
        with session_for_python("bench", master="local[2]"):
            start = time.perf_counter()
            matched = match(lake, filters, memory=memory, columns=["id"], folder=folder)
            made = time.perf_counter() - start
            begun = time.perf_counter()
            with _Watched() as watched:
                rows = matched.count()
            counted = time.perf_counter()
            _drain(matched)  # processes have their index now, or in parts the last one
            found[what] = {
                "prepared": made,
                "first": counted - begun,
                "rows": rows,
                "memory": watched.most,
                "rate": count / (time.perf_counter() - counted),
            }
            console.print(f"a million filters are measured: {what}")
    assert found["whole"]["rows"] == found["in parts"]["rows"]
    return found


class _Watched:
    """The most memory that a Python process of Spark's has had to itself meanwhile."""

    def __enter__(self) -> _Watched:
        import threading

        self.most = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(0.2):
            for pid, member in family().items():
                if pid != os.getpid() and "python" in member.name:
                    self.most = max(self.most, member.resident)


def _drain(frame: Any) -> None:
    frame.write.format("noop").mode("overwrite").save()


def _rate(work: Callable[[], None], idle: Callable[[], None], events: int) -> dict[str, float]:
    """Events per second of processor time and by the clock; and what a single event costs."""
    (used, passed), (begin, _) = _least(work), _least(idle)
    spent = max(used - begin, TICK)  # a glance may take no longer than what it begins with
    return {"cpu": events / spent, "clock": events / passed, "begin": begin}


def _least(work: Callable[[], None]) -> tuple[float, float]:
    """The least of two in seconds of processor time, and by the clock."""
    least = fastest = float("inf")
    for _ in range(2):
        before, start = used(), time.perf_counter()
        work()
        fastest = min(fastest, time.perf_counter() - start)
        least = min(least, used() - before)
    return least, fastest


# -- what came of it -----------------------------------------------------------------------------


def _show(figures: dict[str, dict[str, Any]], large: dict[str, Any] | None) -> None:
    for unit, what in (("cpu", "of processor time"), ("clock", "by the clock")):
        show(
            f"Events per second {what} (kernel: the index alone, in one thread)",
            ["filters, cores", "matches/event", "kernel", *WAYS],
            [
                [
                    name.replace(" ", ", "),
                    f"{f['pairs']:.1f}",
                    short(f["kernel"]),
                    *(f"{short(f[unit][w])} ({f[unit][w] / f['kernel']:.0%})" for w in WAYS),
                ]
                for name, f in figures.items()
            ],
        )
    show(
        "Seconds of processor time for a lake with one event",
        ["filters, cores", *WAYS],
        [
            [name.replace(" ", ", "), *(f"{f['begin'][w]:.2f}" for w in WAYS)]
            for name, f in figures.items()
        ],
    )
    if large is not None:
        show(
            "A million sparse filters, two processes",
            ["", "prepared", "first answer", "memory of a process", "events/s by the clock"],
            [
                [
                    what,
                    f"{f['prepared']:.1f} s",
                    f"{f['first']:.1f} s",
                    f"{f['memory'] / 1e6:.0f} MB",
                    short(f["rate"]),
                ]
                for what, f in large.items()
            ],
        )


def _targets(figures: dict[str, dict[str, Any]]) -> Iterator[Target]:
    for size, times in ((10_000, 1.5), (100_000, 3.0)):
        f = figures.get(f"{size} 1")
        for way in WAYS[:5]:
            rate = f["cpu"][way] / f["kernel"] if f else None
            yield Target(f"{way}: of the kernel's rate, {size:,} filters", rate, 0.6)
        for way in WAYS[:6]:
            rate = f["cpu"][way] / f["cpu"]["join"] if f else None
            yield Target(f"{way}: times the join, {size:,} filters", rate, times, "×")


def _plot(out: Path, figures: dict[str, dict[str, Any]]) -> None:
    """Bars: for each size, the ways beside each other, in events per second of processor time."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    chosen = {name: f for name, f in figures.items() if name.endswith(" 1")}
    figure, panels = pyplot.subplots(1, len(chosen), figsize=(4.6 * len(chosen), 3.6))
    for panel, (name, f) in zip(panels, chosen.items(), strict=True):
        rates = {"kernel": f["kernel"], **f["cpu"]}
        colours = ["0.6", *["tab:blue"] * 3, *["tab:cyan"] * 3, *["tab:orange"] * 2]
        bars = panel.barh(list(rates), list(rates.values()), color=colours)
        panel.bar_label(bars, [short(rate) for rate in rates.values()], padding=3)
        panel.axvline(0.6 * f["kernel"], color="0.6", linestyle="--", linewidth=1)
        panel.invert_yaxis()
        panel.set_xlim(0, 1.15 * max(rates.values()))
        panel.set_title(f"{int(name.split()[0]):,} filters, {f['pairs']:.0f} matches per event")
        panel.set_xlabel("events / second of processor time\n(dashed: 60 % of the kernel)")
        panel.locator_params(axis="x", nbins=5)
        panel.xaxis.set_major_formatter(lambda rate, _: short(rate))
        panel.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    for kind in ("svg", "png"):
        figure.savefig(out / f"spark_match.{kind}", dpi=120)
