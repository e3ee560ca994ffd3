"""Sessions: Spark, started so that it stays out of the way."""

from __future__ import annotations

import os
import re
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.resources import as_file, files
from typing import TYPE_CHECKING, Final

from tidings.events.errors import TidingsError
from tidings.spark.interrupts import held_back
from tidings.spark.java import find_java, java_home
from tidings.spark.jobs import cause

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NO_SPARK: Final = "none"
"""The master of those who want no Spark."""
_CLUSTER: Final = "spark://"
_MASTERS: Final = ("local", _CLUSTER, "k8s://", "yarn")
_GIVE: Final = "give local[*], spark://HOST:PORT, k8s://HOST or yarn"
_SETTINGS: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "4",  # ours are small; 200, the default, cost seconds
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.python.daemon.module": "tidings.spark.daemon",  # which does not complain
}
_LOOPBACK: Final = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
_PLACE: Final = re.compile(r"([^:]+|\[.+\]):([0-9]{1,5})")
_PATIENCE: Final = 10.0
"""Seconds for a master to be reached."""
_UNREACHED: Final = "no master can be reached there"
_START_SOON: Final = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]


def session(app: str = "tidings", *, master: str = "local[*]") -> SparkSession:
    """A Spark session that knows the format "tidings": without a web page, quiet, Arrow everywhere.

    On one machine (`local[2]`, `local[*]`) Spark listens on the loopback interface only, and its
    Python processes are of this interpreter, so they can import what this program can. Another
    `master` is a cluster: tidings must be installed on its machines with the same version of
    Python, which the environment variable `PYSPARK_PYTHON` names if it is not `python3`.

    A session that already runs in this process is taken as it is. As any of Spark's, it ends with
    `stop()`, or with the context that it is used for: `with session() as spark`. Ctrl-C waits until
    it has started, and does then what it did before. `NoJavaError` if there is no Java,
    `TidingsError` if PySpark is not installed or there is no such master.
    """
    spark = _running()
    if spark is None:
        _check(master)
        with held_back() as hold:
            spark = _start(app, master, [], hold)

    from tidings.spark.format.source import register  # which needs Spark

    register(spark)
    return spark


@contextmanager
def session_for_python(app: str, *, master: str = "local[*]") -> Iterator[SparkSession]:
    """A session while the context lasts, for work that Spark only hands out to Python.

    Java's own code is compiled less well, which halves the processor time of a start. A session
    that already runs in this process is used as it is, and left running at the end.
    """
    if (running := _running()) is not None:
        yield running
        return
    _check(master)
    started: SparkSession | None = None
    try:
        with held_back() as hold:
            started = _start(app, master, _START_SOON, hold)
        yield started
    finally:
        if started is not None:
            with held_back():
                started.stop()


@contextmanager
def session_or_none(app: str, *, master: str) -> Iterator[SparkSession | None]:
    """A session for work that is in Python; None if the master is `none`: it is done here, then."""
    if master == NO_SPARK:
        yield None
        return
    if not master.startswith(_MASTERS):
        raise TidingsError(f"{master!r} is no master of Spark's: {_GIVE}, or none to do without it")
    with session_for_python(app, master=master) as started:
        yield started


def _running() -> SparkSession | None:
    try:
        from pyspark import SparkContext
        from pyspark.sql import SparkSession
    except ImportError as problem:
        raise TidingsError(
            f"Spark is not installed ({problem}). Try: pip install 'tidings[spark]'"
        ) from None
    found = SparkSession.getActiveSession()  # of this thread only
    if found is None and SparkContext._active_spark_context is not None:
        found = SparkSession.builder.getOrCreate()
    return found


def _check(master: str) -> None:
    """`TidingsError` if it is none of Spark's, or nobody is there.

    Spark finds out, too, but has Java print a stack trace, or takes a minute for it.
    """
    if master == NO_SPARK:
        raise TidingsError(f"this needs Spark, so the master cannot be 'none': {_GIVE}")
    if not master.startswith(_MASTERS):
        raise TidingsError(f"{master!r} is no master of Spark's: {_GIVE}")
    if not master.startswith(_CLUSTER):
        return
    places = [_PLACE.fullmatch(place) for place in master.removeprefix(_CLUSTER).split(",")]
    problems: list[object] = []
    for place in filter(None, places):
        try:
            socket.create_connection((place[1].strip("[]"), int(place[2])), _PATIENCE).close()
            return  # another one may be down then
        except (OSError, OverflowError, UnicodeError) as problem:  # no port, or no name of a host
            problems.append(getattr(problem, "strerror", None) or problem)
    if problems:
        raise _unstarted(master, f"{_UNREACHED} ({problems[0]})")


def _unstarted(master: str, why: str) -> TidingsError:
    # What Spark says of a master that does not answer is what it does then: it stops itself.
    if not master.startswith("local") and "stopped SparkContext" in why:
        why = _UNREACHED
    return TidingsError(f"Spark does not start with the master {master!r}: {why}")


def _start(
    app: str, master: str, java_options: list[str], hold: Callable[[], None]
) -> SparkSession:
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    local = master.startswith("local")
    with (
        as_file(files("tidings.spark") / "log4j2.properties") as logging,
        java_home(find_java()) as home,
    ):
        options = [f"-Dlog4j2.configurationFile={logging.as_uri()}", *java_options]
        settings = {**_SETTINGS, "spark.driver.extraJavaOptions": " ".join(options)}
        if local:
            settings |= _LOOPBACK
        configuration = SparkConf().setAppName(app).setMaster(master).setAll(list(settings.items()))
        surroundings = {"JAVA_HOME": str(home)}
        if local:
            surroundings["PYSPARK_PYTHON"] = sys.executable  # Spark has no other setting for it
        with _environment(surroundings):
            try:
                SparkContext.getOrCreate(configuration)
                hold()  # Spark has set a handler, which speaks to Java whatever we are saying to it
                return SparkSession.builder.getOrCreate()
            except Exception as problem:
                raise _unstarted(master, cause(problem)) from problem


@contextmanager
def _environment(changes: dict[str, str]) -> Iterator[None]:
    """Environment variables while the context lasts."""
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
