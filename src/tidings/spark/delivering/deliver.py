"""Delivering: bulk subscriptions, served by a Spark query.

A broker with a million subscriptions does for each event what a table can do for a thousand events
at once. So these live in a table, and are served in micro-batches, within a second or two::

    registrations ──▶ lake ─────────────┐ as of the cursor that the offset names
                                        ▼
    brokers' logs ──▶ tasks: read, match ──▶ broker: the event, "tidings.for" = who wants it
                                         └─▶ inbox: a Delta table (name, id, time, event)

Each event is delivered once to each name, whatever is killed: a batch that runs again reads the
same ticks and judges by the same table, so that the broker knows what of it was published before
(`publishing` says how), and an inbox takes a batch once.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, Final, Literal

from tidings.client import ConnectionFailed, Login
from tidings.client.tls import Tls
from tidings.client.token import Token
from tidings.events import TidingsError
from tidings.lakes.lake import EVERYTHING, Lake
from tidings.spark.archiving.archive import archive
from tidings.spark.bulk.bulk import Keeper
from tidings.spark.bulk.registrations import ALL
from tidings.spark.delivering.lock import locked
from tidings.spark.delivering.tally import METRICS, DeliverReport, Tally
from tidings.spark.format.options import spoken
from tidings.spark.jobs import cause
from tidings.spark.streams.absence import OnGap, Patience

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_log = logging.getLogger("tidings.spark")

EVERY: Final = 0.3
"""Seconds within which a registration is in the table."""
AT_A_TIME: Final = 50_000
"""Ticks of a batch, at most: what has gathered is delivered bit by bit."""
_PACE: Final = "250 milliseconds"
"""Batches begin no sooner after each other: each costs Spark 0.1 s of processor time."""
_GLANCE: Final = 0.5
_PATIENCE: Final = "120"
"""Seconds that a broker may be away before it is an error."""
_AGAIN: Final = 1.0
"""Seconds between two attempts to find one."""
_LOOK: Final = 0.01
_GRACE: Final = 5.0
"""Seconds that a batch gets to end, when it is all to end."""
_SETTINGS: Final = {
    # The usual one took a third of a second longer for each batch on a local disk. Both rename a
    # file into place when all of it is there.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing."
        "FileSystemBasedCheckpointFileManager"
    ),
    "spark.sql.streaming.numRecentProgressUpdates": "20",
}


def deliver(
    spark: SparkSession,
    url: str,
    folder: str | Path,
    *,
    token: Token = None,
    tls: Tls = None,
    inbox: str | Path | None = None,
    skip_gaps: bool = False,
    ready: Callable[[bool], Any] | None = None,
    progress: Callable[[DeliverReport], Any] | None = None,
    stop: threading.Event | None = None,
    options: dict[str, str] | None = None,
) -> DeliverReport:
    """Serve the bulk subscriptions of a network until `stop` is set; returns how it went.

    `folder` is where the table of subscriptions and the checkpoint are: run again with the same
    one, it goes on where it was. A new one begins now, with all registrations that are kept.
    What is delivered is published at the broker, or appended to `inbox`, a Delta table. With
    `skip_gaps` it goes on though brokers no longer keep what comes next, which else is an error.
    A broker that is away is waited for, from the beginning; after two minutes it is an error.
    That somebody else delivers from the same folder is one at once. `ready` is called when it is
    settled where it begins: what is published from then on is delivered, whatever is killed. It is
    told whether that is where it was. `options` are more of those that the format takes for
    reading.
    """
    from tidings.spark.format.source import register  # which needs Spark

    register(spark)
    place = Path(folder).absolute()
    table = place / "registrations"
    checkpoint = place / ("checkpoint" if inbox is None else "checkpoint-inbox")
    on_gap: OnGap = "continue" if skip_gaps else "fail"
    stop, login = stop or threading.Event(), Login(url, token, tls)
    with (
        locked(place),
        _Registrar(login, table, on_gap, stop) as registrar,
    ):
        beginning = _Beginning(checkpoint, ready)
        if stop.is_set():
            return Tally().report(registrar.keeper.known)
        reading = spoken(login) | {"subscriptions": str(table)}
        reading["filter"] = str(EVERYTHING)  # not what is delivered
        reading |= {"maxEventsPerTrigger": str(AT_A_TIME), "timeout": _PATIENCE, "onGap": on_gap}
        reading |= options or {}
        with _settings(spark):  # a query keeps those that it began with
            if inbox is None:
                query = _publishing(spark, reading, checkpoint, place / "dead-letters")
            else:
                query = _collecting(spark, reading, checkpoint, Path(inbox).absolute())
        try:
            return _followed(query, registrar, beginning, progress, stop)
        finally:
            query.stop()


@contextmanager
def _settings(spark: SparkSession) -> Iterator[None]:
    before = {name: spark.conf.get(name, None) for name in _SETTINGS}
    for name, value in _SETTINGS.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            if old is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, old)


class _Registrar(threading.Thread):
    """Keeps the table of subscriptions up to date, from the moment on when it has caught up."""

    def __init__(
        self,
        login: Login,
        table: Path,
        on_gap: OnGap,
        stop: threading.Event,
    ) -> None:
        super().__init__(name="tidings registrations", daemon=True)
        self._login, self._lake, self._on_gap = login, Lake(table, filter=ALL), on_gap
        self._stop_early, self._end = stop, threading.Event()
        self.problem: BaseException | None = None

    def __enter__(self) -> _Registrar:
        self._archive(until="live", stop=self._stop_early)
        self.keeper = Keeper(self._lake.path)
        self.keeper.follow()
        self.start()
        return self

    def _archive(
        self,
        *,
        until: Literal["live"] | None,
        stop: threading.Event,
        progress: Callable[[Any], None] | None = None,
    ) -> None:
        """As `archive` does, but a broker that is away at the beginning is waited for."""
        patience, level = Patience(float(_PATIENCE)), logging.WARNING
        while not stop.is_set():
            try:
                archive(
                    self._login.url,
                    self._lake,
                    token=self._login.token,
                    tls=self._login.tls,
                    every=EVERY,
                    until=until,
                    on_gap=self._on_gap,
                    progress=progress,
                    stop=stop,
                )
            except ConnectionFailed as problem:
                if patience.is_over:
                    raise
                # First, since the problem ends with a hint, or with a command to type.
                _log.log(level, "trying again for %s seconds: %s", _PATIENCE, problem)
                level = logging.DEBUG  # once is enough
                stop.wait(_AGAIN)
            else:
                return

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self.join()

    def run(self) -> None:
        try:
            # To follow may take long, which must not keep anybody from seeing how batches go.
            self._archive(until=None, stop=self._end, progress=lambda _: self.keeper.follow())
        except BaseException as problem:
            self.problem = problem


def _publishing(
    spark: SparkSession, reading: dict[str, str], checkpoint: Path, letters: Path
) -> StreamingQuery:
    """The tasks publish: there is nothing left to write but how many there were."""
    said = {**reading, "deliver": "true", "deadLetters": str(letters)}
    rows = spark.readStream.format("tidings").options(**said).load()
    counted = _counted(rows, "matched", "delivered", "refused", "times")
    writer = counted.writeStream.format("noop").trigger(processingTime=_PACE)
    return writer.option("checkpointLocation", str(checkpoint)).start()


def _collecting(
    spark: SparkSession, reading: dict[str, str], checkpoint: Path, inbox: Path
) -> StreamingQuery:
    from tidings.spark.delivering.inbox import Inbox

    schema = "matches ARRAY<STRING>, id STRING, time TIMESTAMP, attributes STRING"
    rows = spark.readStream.format("tidings").schema(schema).options(**reading).load()
    counted = _counted(rows, "1", "size(matches)", "0", "unix_micros(time) / 1e6")
    events = counted.withColumnRenamed("attributes", "event")
    writer = events.writeStream.foreachBatch(Inbox(inbox).take).trigger(processingTime=_PACE)
    return writer.option("checkpointLocation", str(checkpoint)).start()


def _counted(rows: DataFrame, *counts: str) -> DataFrame:
    """Have Spark add these up, and tell it with the progress of each batch."""
    from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it

    named = zip(counts, ("matched", "delivered", "refused", "time"), strict=True)
    return rows.observe(METRICS, *[F.sum(F.expr(count)).alias(name) for count, name in named])


# -- how it goes -----------------------------------------------------------------------------------


class _Beginning:
    """Tells once that Spark has written where the first batch begins: it is settled for good."""

    def __init__(self, checkpoint: Path, ready: Callable[[bool], Any] | None) -> None:
        self._offsets, self._ready = checkpoint / "offsets", ready
        self._goes_on = self._is_settled()

    def _is_settled(self) -> bool:
        return any(path.name.isdecimal() for path in self._offsets.glob("*"))

    def look(self) -> None:
        """Tell, if it is so and has not been told."""
        if self._ready is not None and self._is_settled():
            self._ready(self._goes_on)
            self._ready = None


def _followed(
    query: StreamingQuery,
    registrar: _Registrar,
    beginning: _Beginning,
    progress: Callable[[DeliverReport], Any] | None,
    stop: threading.Event,
) -> DeliverReport:
    tally = Tally()
    while not stop.wait(_GLANCE):
        if registrar.problem is not None:
            raise registrar.problem
        if not query.isActive:
            problem = query.exception()
            raise TidingsError(f"delivering has ended: {cause(problem)}") from None
        beginning.look()
        tally.add(query.recentProgress)
        if progress is not None:
            progress(tally.report(registrar.keeper.known))
    _stop(query)
    tally.add(query.recentProgress)
    return tally.report(registrar.keeper.known)


def _stop(query: StreamingQuery) -> None:
    """Between two batches, if that can be: nothing is lost otherwise, but Python complains."""
    last, end = query.lastProgress, monotonic() + _GRACE
    while query.isActive and monotonic() < end:
        now = query.lastProgress
        if not query.status["isTriggerActive"] or (now and now["batchId"]) != (
            last and last["batchId"]
        ):
            break
        sleep(_LOOK)
    query.stop()
