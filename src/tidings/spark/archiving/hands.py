"""Hands: who hauls, a program by itself or a Spark."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from tidings.spark.archiving.haul import Haul, Hauled, haul
from tidings.spark.jobs import carry_out
from tidings.spark.workers import settle

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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
