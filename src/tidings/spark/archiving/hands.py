"""Hands: who hauls, a program by itself or a Spark."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from itertools import count
from typing import TYPE_CHECKING, Final, Protocol

from tidings.spark.archiving.haul import Haul, Hauled, haul
from tidings.spark.streams.absence import Stopped
from tidings.spark.workers import settle

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_GLANCE: Final = 0.1
"""Seconds between two looks at whether to stop."""
_PATIENCE: Final = 5.0
"""Seconds that tasks have to finish by themselves when all is to stop."""
_NUMBERS: Final = count(1)


class Hands(Protocol):
    """Whoever carries out hauls."""

    width: int
    """So many at a time are best."""

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
        from pyspark import InheritableThread

        found: list[Hauled] = []
        failures: list[BaseException] = []
        group = f"tidings archive {next(_NUMBERS)}"

        def work() -> None:
            try:
                self._context.setJobGroup(group, "events into a lake", interruptOnCancel=True)
                found.extend(self._context.parallelize(tasks, len(tasks)).map(_hauled).collect())
            except BaseException as problem:
                failures.append(problem)

        job = InheritableThread(target=work, name="tidings archive", daemon=True)
        job.start()
        while job.is_alive() and not stop.is_set():
            job.join(_GLANCE)
        if job.is_alive():
            job.join(_PATIENCE)
        if job.is_alive():
            self._context.cancelJobGroup(group)
            job.join()
        if failures and stop.is_set():
            raise Stopped("stopped while Spark was at work")
        if failures:
            raise failures[0]
        return found


def _hauled(task: Haul) -> Hauled:
    found = haul(task)
    settle()
    return found
