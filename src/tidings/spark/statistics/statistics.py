"""Statistics of a lake, computed on Spark: distributions, selectivity, mergers, overlaps.

Each task reads some of the lake's files straight from Parquet and makes a sketch and counts of a
bounded size; a last one adds them up, one after the other, so that the driver gets one of each.
What they decide is in `sketch` and `selectivity`.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from tidings.events import Filter, TidingsError
from tidings.lakes.lake import Lake
from tidings.lakes.layout import BODY
from tidings.lakes.portions import Piece, read
from tidings.routing import Statistics
from tidings.routing.joins import Stretch
from tidings.spark.jobs import carry_out, cause
from tidings.spark.statistics.selectivity import (
    Counts,
    Merger,
    Owner,
    Selectivity,
    broker_of,
    brokers_of,
    mergers,
)
from tidings.spark.statistics.sketch import Sketch, of_the_world

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TASKS: Final = 4
"""Tasks for each core, if there are files enough: the last ones then end together."""

OnProgress = Callable[[int, int], None]
"""Takes the number of events that were looked at, and the number of all."""
Found = tuple[Sketch, Counts | None]
"""What some events say; of filters, if there are any."""


@dataclass(frozen=True)
class Findings:
    """What a lake says. Tables are Arrow tables; those of filters are None if none were given."""

    statistics: Statistics
    """To be published: see `Statistics.notification`."""
    seconds: float
    filters: pa.Table | None = None
    """Columns: key, broker, filter, events that it matches, their share of all. The rarest last."""
    mergers: pa.Table | None = None
    """Columns: broker, filter, attribute, low, high (the gap), events in it, those that no filter
    there wants (wasted), both as shares, and the share that was estimated. The cheapest first."""
    overlaps: pa.Table | None = None
    """Columns: one, other (brokers), events that both want, their share of all events, and of what
    either wants. The most alike first."""

    @property
    def events(self) -> int:
        """How many were looked at."""
        return self.statistics.events

    @property
    def rate(self) -> float:
        """Events for each second."""
        return self.events / self.seconds if self.seconds else 0.0


def statistics(
    spark: SparkSession | None,
    lake: Lake,
    filters: Mapping[str, Filter] | None = None,
    *,
    owner: Owner = broker_of,
    progress: OnProgress = lambda done, total: None,
) -> Findings:
    """What the events of a lake are like, and what filters would make of them.

    Events about tidings itself, which have an attribute `tidings.…`, are left out. The filter of a
    key `paris/17` belongs to the broker `paris`, unless `owner` says otherwise. Without Spark
    (None) the same is done in this process. On a cluster, all machines must see the lake.
    `TidingsError` names a file that cannot be read, or says that there are too many brokers.
    """
    began = time.monotonic()
    wanted = dict(filters or {})
    brokers = brokers_of(wanted, owner)
    candidates = mergers(wanted, owner)
    job, asked = _job(lake), (wanted, candidates, owner)
    done = _alone(job, asked, progress) if spark is None else _spread(spark, job, asked, progress)
    sketch, counts = _sum(done)
    if wanted and counts is None:  # there is no file
        counts = Selectivity(*asked).none()
    learnt = sketch.statistics()
    return Findings(
        statistics=learnt,
        seconds=time.monotonic() - began,
        filters=_filters(wanted, owner, counts) if counts is not None else None,
        mergers=_mergers(candidates, counts, learnt) if counts is not None else None,
        overlaps=_overlaps(brokers, counts) if counts is not None else None,
    )


def _sum(parts: Iterable[Found]) -> Found:
    sketch, counts = Sketch(), None
    for some, counted in parts:
        sketch.merge(some)
        counts = counted if counts is None or counted is None else counts.plus(counted)
    return sketch, counts


# -- tasks -----------------------------------------------------------------------------------------


_Asked = tuple[dict[str, Filter], list[Merger], Owner]
"""Filters, candidate mergers, and whose they are."""


@dataclass(frozen=True)
class _Job:
    """What every task has to know: the lake, as it is at one moment."""

    folder: Path
    files: list[Piece]
    schema: pa.Schema

    def batches(self, files: Iterable[Piece]) -> Iterator[pa.RecordBatch]:
        for file in files:
            for batch in map(of_the_world, read(self.folder, file, self.schema)):
                if batch.num_rows:
                    yield batch

    def run(self, files: Iterable[Piece], selectivity: Selectivity | None) -> Found:
        """The sketch and the counts of these files."""
        sketch = Sketch()
        counts: Counts | None = None if selectivity is None else selectivity.none()
        for batch in self.batches(files):
            sketch.add(batch)
            if selectivity is not None and counts is not None:
                counts = counts.plus(selectivity.count(batch))
        return sketch, counts


def _job(lake: Lake) -> _Job:
    held = lake.snapshot()
    columns = [field for field in held.schema() if field.name not in ("day", BODY)]
    found = held.search(None, None, None).found
    files = [Piece(str(file["path"]), int(file["num_records"] or 0)) for file in found]
    return _Job(lake.path, files, pa.schema(columns))


def _rows(files: Iterable[Piece]) -> int:
    return sum(file.rows for file in files)


def _alone(job: _Job, asked: _Asked, progress: OnProgress) -> Iterator[Found]:
    selectivity = Selectivity(*asked) if asked[0] else None
    done, total = 0, _rows(job.files)
    for file in job.files:
        yield job.run([file], selectivity)
        done += file.rows
        progress(done, total)


def _spread(spark: SparkSession, job: _Job, asked: _Asked, progress: OnProgress) -> Iterator[Found]:
    context = spark.sparkContext
    tasks = min(len(job.files), _TASKS * context.defaultParallelism)
    if not tasks:
        return
    content, total = pickle.dumps(asked) if asked[0] else b"", _rows(job.files)
    key, done = blake2b(content).hexdigest(), context.accumulator(0)

    def collected() -> pa.Table:
        sent = context.broadcast(content)

        def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    files = job.files[number::tasks]
                    selectivity = _selectivity(key, lambda: sent.value)
                    yield _packed(job.run(files, selectivity))
                    done.add(_rows(files))

        rows = spark.range(0, tasks, 1, tasks).mapInArrow(work, _FOUND)
        try:
            return rows.repartition(1).mapInArrow(_packed_sum, _FOUND).toArrow()
        finally:
            with suppress(Exception):  # Java may have ended, and why is what matters
                # Here and now: Java prints pages if Spark is stopped before it is done.
                sent.destroy(blocking=True)

    try:
        table = carry_out(
            context, collected, "statistics of a lake", told=lambda: progress(done.value, total)
        )
    except Exception as problem:
        raise TidingsError(cause(problem)) from problem
    yield from map(pickle.loads, table["found"].to_pylist())


_FOUND: Final = "found binary"


def _packed(found: Found) -> pa.RecordBatch:
    return pa.record_batch({"found": pa.array([pickle.dumps(found)], pa.large_binary())})


def _packed_sum(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield _packed(_sum(pickle.loads(each.as_py()) for batch in batches for each in batch["found"]))


_kept: dict[str, Selectivity | None] = {}
"""The last one that was made in this process, by a digest of what it was made from."""


def _selectivity(key: str, content: Callable[[], bytes]) -> Selectivity | None:
    """The index of what this digest names, made once in each process."""
    if key not in _kept:
        asked = content()
        _kept.clear()
        _kept[key] = Selectivity(*pickle.loads(asked)) if asked else None
    return _kept[key]


# -- tables ----------------------------------------------------------------------------------------


def _filters(filters: Mapping[str, Filter], owner: Owner, counts: Counts) -> pa.Table:
    matched = counts.matched.tolist()
    return pa.table(
        {
            "key": pa.array(list(filters), pa.string()),
            "broker": pa.array([owner(key) for key in filters], pa.string()),
            "filter": pa.array([str(f) for f in filters.values()], pa.string()),
            "events": pa.array(matched, pa.int64()),
            "share": pa.array([n / max(1, counts.events) for n in matched], pa.float64()),
        }
    ).sort_by([("events", "descending"), ("key", "ascending")])


def _mergers(candidates: list[Merger], counts: Counts, learnt: Statistics) -> pa.Table:
    whole = max(1, counts.events)
    ends = [_ends(merger.gap) for merger in candidates]
    return pa.table(
        {
            "broker": pa.array([m.broker for m in candidates], pa.string()),
            "filter": pa.array([str(m.conjunction) for m in candidates], pa.string()),
            "attribute": pa.array([m.name for m in candidates], pa.string()),
            "low": pa.array([low for low, _ in ends], pa.string()),
            "high": pa.array([high for _, high in ends], pa.string()),
            "inside": pa.array(counts.inside.tolist(), pa.int64()),
            "wasted": pa.array(counts.wasted.tolist(), pa.int64()),
            "inside_share": pa.array((counts.inside / whole).tolist(), pa.float64()),
            "wasted_share": pa.array((counts.wasted / whole).tolist(), pa.float64()),
            "estimate": pa.array([m.estimate(learnt) for m in candidates], pa.float64()),
        }
    ).sort_by([("wasted", "ascending"), ("broker", "ascending"), ("filter", "ascending")])


def _ends(gap: Stretch) -> tuple[str, str]:
    low, high = (value.isoformat() if hasattr(value, "isoformat") else value for value, _ in gap)
    return str(low), str(high)


def _overlaps(brokers: list[str], counts: Counts) -> pa.Table:
    rows = []
    for a, one in enumerate(brokers):
        for b, other in enumerate(brokers[a + 1 :], start=a + 1):
            both = int(counts.shared[a, b])
            either = int(counts.shared[a, a] + counts.shared[b, b]) - both
            rows.append((one, other, both, both / max(1, counts.events), both / max(1, either)))
    names = ("one", "other", "events", "share", "alike")
    kinds = (pa.string(), pa.string(), pa.int64(), pa.float64(), pa.float64())
    columns = list(zip(*rows, strict=True)) or [()] * len(names)
    found = {n: pa.array(c, k) for n, c, k in zip(names, columns, kinds, strict=True)}
    return pa.table(found).sort_by([("alike", "descending"), ("one", "ascending")])
