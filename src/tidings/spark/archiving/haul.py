"""A haul: a stretch of a stream, brought from a broker into files of a lake by one task.

It may run anywhere, also twice: its files are nothing until they are committed. `Hands` carry hauls
out: those of this program, or of a Spark.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

import pyarrow as pa

from tidings.client import Login
from tidings.events import Filter, TidingsError
from tidings.lakes.files import Written, write
from tidings.lakes.filling import rows_to_table
from tidings.spark.interrupts import Stopped
from tidings.spark.jobs import carry_out
from tidings.spark.streams.absence import Away, Gone
from tidings.spark.streams.reading import read_rows
from tidings.spark.streams.stretch import Stretch
from tidings.spark.workers import settle

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_BYTES: Final = 64 << 20
"""Bytes in memory at which a file is written."""


@dataclass(frozen=True)
class Haul:
    """What one task is to bring."""

    stretch: Stretch
    login: Login
    filter: Filter
    folder: str
    schema: pa.Schema
    """The columns that the lake has so far."""


@dataclass(frozen=True)
class Hauled:
    """What it has brought."""

    upto: int
    """All up to this tick, if it is not `away`."""
    written: tuple[Written, ...] = ()
    gone: int | None = None
    """What follows is no longer kept, or not there: the stream goes on behind this tick."""
    away: str | None = None
    """Why nothing could be read, though it may be later."""
    failure: str | None = None
    """Why it never will be."""

    @property
    def rows(self) -> int:
        """How many events."""
        return sum(each.rows for each in self.written)

    def discard(self, folder: Path) -> None:
        """Delete its files, which will not be committed."""
        for each in self.written:
            each.discard(folder)


def haul(task: Haul, stop: threading.Event | None = None) -> Hauled:
    """Bring a stretch; `Stopped` soon after `stop` is set."""
    written: list[Written] = []
    folder = Path(task.folder)
    try:
        for table, known in _tables(task, stop):
            written.append(write(folder, table, known))
    except Gone as gone:
        if gone.upto > gone.after:
            return Hauled(gone.after, tuple(written), gone=gone.upto)
        problem: Exception = gone  # a log that is shorter than it was is not to be trusted
    except (TidingsError, OSError) as found:
        problem = found
    else:
        return Hauled(task.stretch.end, tuple(written))
    Hauled(0, tuple(written)).discard(folder)
    if isinstance(problem, Stopped):
        raise problem
    if isinstance(problem, Away):
        return Hauled(task.stretch.start, away=str(problem))
    return Hauled(task.stretch.start, failure=str(problem))


def _tables(task: Haul, stop: threading.Event | None) -> Iterator[tuple[pa.Table, pa.Schema]]:
    """Rows for one file at a time, with the columns that were known before them."""
    stretch, schema = task.stretch, task.schema
    known, tables, size = schema, [], 0
    try:
        for rows in read_rows(stretch, task.login, task.filter, stop=stop):
            if rows.ticks:
                tables.append(rows_to_table(stretch.stream, rows, schema))
                schema = tables[-1].schema  # so later ones only have more columns
                size += tables[-1].nbytes
            if size >= _BYTES:
                yield _joined(tables), known
                known, tables, size = schema, [], 0
    except Gone:
        if tables:
            yield _joined(tables), known
        raise
    if tables:
        yield _joined(tables), known


def _joined(tables: list[pa.Table]) -> pa.Table:
    return pa.concat_tables(tables, promote_options="default")


class Hands(Protocol):
    """What carries out hauls: this program, or the workers of a Spark."""

    width: int
    """How many hauls at a time are best."""

    def haul(self, tasks: Sequence[Haul], stop: threading.Event) -> list[Hauled]:
        """Carry all out, and give what they brought in the same order; `Stopped` if told to."""


class OwnHands:
    """This program by itself, one haul after another."""

    width = 1

    def haul(self, tasks: Sequence[Haul], stop: threading.Event) -> list[Hauled]:
        return [haul(task, stop) for task in tasks]


class SparkHands:
    """The workers of a Spark, which must see the lake's folder and reach the brokers."""

    def __init__(self, spark: SparkSession) -> None:
        self._context = spark.sparkContext
        self.width = max(1, self._context.defaultParallelism)

    def haul(self, tasks: Sequence[Haul], stop: threading.Event) -> list[Hauled]:
        context = self._context
        return carry_out(
            context,
            lambda: context.parallelize(tasks, len(tasks)).map(_hauled).collect(),
            "events into a lake",
            stop=stop,
        )


def _hauled(task: Haul) -> Hauled:
    found = haul(task)
    settle()
    return found
