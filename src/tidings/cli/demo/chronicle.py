"""The demonstration's chronicle: a lake that takes in all that is published, to be asked later."""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Final, NamedTuple

from tidings.events import Filter, TidingsError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidings.lakes.lake import Lake

_EVERY: Final = 1.0
"""Seconds between two commits to the lake."""
_PATIENCE: Final = 30.0
"""Seconds to wait for the broker, and for the last commit to the lake."""


class Answer(NamedTuple):
    """What the lake knows of a filter."""

    ids: frozenset[str]
    by: str
    """What has found it out: Spark, or the lake itself."""
    seconds: float
    """How long that took."""


class Chronicle:
    """Archives what a broker can be told of, in a thread of its own, while others publish."""

    def __init__(self, folder: Path, url: str) -> None:
        self.events = self.files = 0
        """How many events and files are in the lake."""
        self.problem: str | None = None
        """Why there is no lake, if so."""
        self._folder, self._url = folder, url
        self._lake: Lake | None = None
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="chronicle", daemon=True)
        self._open = ExitStack()
        self._starter = ThreadPoolExecutor(1, "chronicle-spark")
        self._spark: Future[SparkSession] | None = None

    def start(self) -> None:
        """Begin, once the broker is up."""
        self._thread.start()

    def finish(self) -> None:
        """Take in what is left, and end."""
        self._stopped.set()
        self._thread.join(_PATIENCE)

    def _keep(self) -> None:
        try:
            from tidings.lakes.lake import Lake
            from tidings.spark.archiving.archive import archive

            self._lake = lake = Lake(self._folder)
            archive(
                self._url,
                lake,
                every=_EVERY,
                stop=self._stopped,
                wait=_PATIENCE,
                progress=lambda _: self._look(lake),
            )
            archive(self._url, lake, until="live")
            self._look(lake)
        except (TidingsError, ImportError) as problem:  # without the extra `spark`, for example
            self.problem = str(problem)

    def _look(self, lake: Lake) -> None:
        view = lake.snapshot()
        self.events = sum(view.held().values())
        self.files = len(view.files())

    def prepare(self, filter: Filter) -> None:
        """Let Spark start, and rehearse a question, which takes some seconds the first time."""
        if self.problem is None:
            self._start()
            self._starter.submit(self._by_spark, filter)

    def _start(self) -> None:
        if self._spark is None:
            self._spark = self._starter.submit(self._started)

    def _started(self) -> SparkSession:
        from tidings.spark import install
        from tidings.spark.sessions import session_for_python

        spark = self._open.enter_context(session_for_python("tidings demo", master="local[1]"))
        install(spark)
        return spark

    def close(self) -> None:
        """Let go of Spark."""
        self._starter.shutdown(cancel_futures=True)
        self._open.close()

    def ask(self, filter: Filter) -> Answer | None:
        """What the lake has of a filter, by Spark or, where there is none, without; None if there
        is no lake."""
        if self._lake is None or self.problem is not None:
            return None
        begun = monotonic()
        self._start()
        try:
            found, by = self._starter.submit(self._by_spark, filter).result(), "Spark"
        except Exception as problem:  # whatever it is that Spark or Java lack here
            why = str(problem).partition("\n")[0] or type(problem).__name__
            found = frozenset(event.id for event in self._lake.events(filter))
            by = f"the lake itself, as there is no Spark ({why})"
        return Answer(found, by, monotonic() - begun)

    def _by_spark(self, filter: Filter) -> frozenset[str]:
        import tidings.spark

        assert self._spark is not None
        spark = self._spark.result()
        lake = spark.read.format("tidings").option("lake", str(self._folder)).load()
        past = lake.where(tidings.spark.column(filter, lake.schema)).select("id")
        return frozenset(row.id for row in past.collect())
