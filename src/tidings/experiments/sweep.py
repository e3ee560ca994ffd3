"""Sweeps: every point of an experiment as a Spark task of its own, and Spark's summary of them.

The driver only holds what came out. Each task gets the whole list of points, which is small, and
the number of the one it measures; the ranges of Spark have as many partitions as we like, so one
point is one task, and tasks are begun in their order. What simulations leave as traces is analysed
by Spark, too.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from tidings.events.errors import TidingsError
from tidings.experiments.compare import Summary
from tidings.experiments.experiment import Experiment, P, described, parameters, seed_of
from tidings.simulation.trace import traced

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import DataFrame, SparkSession

_LOOK: Final = 0.2  # seconds between two looks at how many tasks have finished
_FOUND: Final = "point long, quantity string, value double, seconds double, error string"


class ExperimentError(TidingsError):
    """Some points could not be measured; `details` holds their tracebacks."""

    def __init__(self, message: str, *, details: str = "") -> None:
        super().__init__(message)
        self.details = details


@dataclass(frozen=True)
class Sweep:
    """What came out: a row for each quantity of each point, and what went wrong."""

    measurements: pa.Table
    failures: tuple[tuple[str, str], ...]
    """For each point that failed: its description, and the traceback."""

    def error(self) -> ExperimentError | None:
        """What to raise if a point failed; it names the first."""
        if not self.failures:
            return None
        point, trace = self.failures[0]
        reason = trace.rstrip().rpartition("\n")[2]
        others = len(self.failures) - 1
        more = f" ({others} more failed)" if others else ""
        return ExperimentError(
            f"the point {point} failed{more}: {reason}",
            details="\n".join(f"{point}\n{trace}" for point, trace in self.failures),
        )


def sweep(
    experiment: Experiment[P],
    points: Sequence[P],
    session: SparkSession,
    finished: Callable[[int], None] = lambda count: None,
    *,
    traces: Path | None = None,
) -> Sweep:
    """Measure all points, the longest first; `finished` is told how many are, now and then.

    The table has a column for each parameter, then run, seed, quantity, value and the seconds
    that the point took. What a point yields depends on nothing but the point. A point that
    raises does not keep the others from being measured.

    With `traces`, an empty folder that all machines see, the simulations of each point are traced
    there, and what Spark finds in the traces is measured, too.
    """
    ordered = sorted(points, key=experiment.weight, reverse=True)
    tasks = session.range(0, len(ordered), 1, max(1, len(ordered)))
    found = tasks.mapInArrow(_task(experiment, ordered, traces), _FOUND)
    rows = _watched(session.sparkContext, found.toArrow, finished).to_pylist()
    failures = tuple(
        (described(ordered[row["point"]]), row["error"]) for row in rows if row["error"] is not None
    )
    if traces is not None:
        seconds = {row["point"]: row["seconds"] for row in rows if row["error"] is None}
        found_there = analyse(session, traces).to_pylist()
        rows += [
            {**row, "seconds": seconds[row["point"]], "error": None}
            for row in found_there
            if row["point"] in seconds
        ]
    place = {point: at for at, point in enumerate(points)}
    good = sorted(
        (row for row in rows if row["error"] is None),
        key=lambda row: place[ordered[row["point"]]],
    )
    return Sweep(_table(experiment, [(ordered[row["point"]], row) for row in good]), failures)


def _task(
    experiment: Experiment[P], points: Sequence[P], traces: Path | None
) -> Callable[[Any], Iterator[Any]]:
    """What Spark runs for a batch of point numbers; it is sent to another process."""

    def measure(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                with nullcontext() if traces is None else traced(trace_of(traces, number)):
                    yield _measured(experiment, points[number], number)

    return measure


def _measured(experiment: Experiment[P], point: P, number: int) -> pa.RecordBatch:
    began = time.perf_counter()
    try:
        found = experiment.measure(point, seed_of(experiment.name, point))
        wrong = None
    except Exception:
        found, wrong = {"": float("nan")}, traceback.format_exc()
    seconds = time.perf_counter() - began
    count = len(found)
    return pa.record_batch(
        {
            "point": pa.array([number] * count, pa.int64()),
            "quantity": pa.array(list(found), pa.string()),
            "value": pa.array([float(value) for value in found.values()], pa.float64()),
            "seconds": pa.array([seconds] * count, pa.float64()),
            "error": pa.array([wrong] * count, pa.string()),
        }
    )


def _table(experiment: Experiment[P], rows: Sequence[tuple[P, dict[str, Any]]]) -> pa.Table:
    return pa.Table.from_pylist(
        [
            {
                **parameters(point),
                "run": point.run,
                "seed": seed_of(experiment.name, point),
                "quantity": row["quantity"],
                "value": row["value"],
                "seconds": row["seconds"],
            }
            for point, row in rows
        ]
    )


def _watched(
    context: SparkContext, collect: Callable[[], pa.Table], finished: Callable[[int], None]
) -> pa.Table:
    """What `collect` returns, while its tasks are counted; an interrupt cancels them."""
    group = f"tidings-{time.monotonic_ns()}"

    def job() -> pa.Table:
        context.setJobGroup(group, "an experiment", interruptOnCancel=True)
        return collect()

    with ThreadPoolExecutor(1) as thread:
        running = thread.submit(job)
        try:
            while not _done(running):
                finished(_count(context, group))
            finished(_count(context, group))
            return running.result()
        except KeyboardInterrupt:
            context.cancelJobGroup(group)
            raise


def _done(running: Future[Any]) -> bool:
    try:
        running.exception(timeout=_LOOK)
    except NotYet:
        return False
    return True


def _count(context: SparkContext, group: str) -> int:
    """How many tasks of a group of jobs have finished."""
    tracker = context.statusTracker()
    jobs = (tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group))
    stages = (tracker.getStageInfo(stage) for job in jobs if job for stage in job.stageIds)
    return sum(stage.numCompletedTasks for stage in stages if stage)


def summarise(measurements: pa.Table, session: SparkSession) -> list[Summary]:
    """Mean, standard deviation and number of runs of each quantity at each point, by Spark.

    In the order in which points and quantities first appear in the table.
    """
    from pyspark.sql import functions as f

    if not measurements.num_rows:
        return []
    names = measurements.column_names
    keys = names[: names.index("run")]
    numbered = measurements.append_column("at", pa.array(range(measurements.num_rows)))
    grouped = (
        session.createDataFrame(numbered)
        .groupBy(*keys, "quantity")
        .agg(
            f.avg("value").alias("mean"),
            f.stddev_samp("value").alias("deviation"),
            f.count("value").alias("runs"),
            f.min("at").alias("at"),
        )
        .orderBy("at")
    )
    return [
        Summary(
            parameters={key: row[key] for key in keys},
            quantity=row["quantity"],
            mean=row["mean"],
            deviation=row["deviation"],
            runs=row["runs"],
        )
        for row in grouped.toArrow().to_pylist()
    ]


QUANTITIES: Final = {
    "hops": "links that an event travels on average, whoever hears it",
    "in vain": "share of these hops to a broker that neither tells a client of it nor passes it on",
    "delay": "seconds from publishing to hearing, the median",
    "delay of 99 %": "seconds within which 99 % of what is heard is heard",
    "busiest link": "its share of all messages between brokers, in one direction",
}
"""What traces tell; a quantity is left out where nothing was published, carried or heard."""

_EVENT: Final = ["point", "simulation", "stream", "tick"]


def trace_of(folder: Path, point: int) -> Path:
    """The file for the simulations of a point; its folder is made."""
    place = folder / f"point={point}"
    place.mkdir(parents=True, exist_ok=True)
    return place / "trace.parquet"


def analyse(session: SparkSession, folder: Path) -> pa.Table:
    """Point, quantity and value, for all traces in a folder."""
    from pyspark.sql import functions as f

    trace = session.read.parquet(str(folder)).cache()
    try:
        parts = [_hops(trace), _delays(trace), _busiest(trace)]
        wide = parts[0].join(parts[1], "point", "outer").join(parts[2], "point", "outer")
        pairs = [
            f.struct(f.lit(n).alias("quantity"), f.col(f"`{n}`").alias("value")) for n in QUANTITIES
        ]
        long = wide.select("point", f.explode(f.array(*pairs)).alias("pair"))
        told = long.where("pair.value IS NOT NULL").select("point", "pair.quantity", "pair.value")
        return told.toArrow()
    finally:
        trace.unpersist()


def _hops(trace: DataFrame) -> DataFrame:
    """Hops of an event, and those that led nowhere."""
    from pyspark.sql import functions as f

    carried = trace.where("what = 'event'")
    onward = trace.where("what IN ('event', 'hear')")
    onward = onward.select(*_EVENT, f.col("source").alias("target")).distinct()
    in_vain = carried.join(onward, [*_EVENT, "target"], "left_anti").groupBy("point")
    published = trace.where("what = 'publish'").groupBy("point").agg(f.count("*").alias("events"))
    return (
        published.join(carried.groupBy("point").agg(f.count("*").alias("carried")), "point", "left")
        .join(in_vain.agg(f.count("*").alias("lost")), "point", "left")
        .select(
            "point",
            (f.coalesce("carried", f.lit(0)) / f.col("events")).alias("hops"),
            (f.coalesce("lost", f.lit(0)) / f.col("carried")).alias("in vain"),
        )
    )


def _delays(trace: DataFrame) -> DataFrame:
    """How long it took until what was published was heard."""
    from pyspark.sql import functions as f

    published = trace.where("what = 'publish'").select(*_EVENT, f.col("time").alias("begun"))
    heard = trace.where("what = 'hear'").join(published, _EVENT)
    delay = f.col("time") - f.col("begun")
    return heard.groupBy("point").agg(
        f.percentile(delay, 0.5).alias("delay"),
        f.percentile(delay, 0.99).alias("delay of 99 %"),
    )


def _busiest(trace: DataFrame) -> DataFrame:
    """How uneven the load of links is."""
    from pyspark.sql import functions as f

    between = trace.where("what IN ('event', 'update', 'other')")
    links = between.groupBy("point", "source", "target").agg(f.count("*").alias("messages"))
    share = f.max("messages") / f.sum("messages")
    return links.groupBy("point").agg(share.alias("busiest link"))
