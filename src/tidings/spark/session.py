"""Sessions: Spark, started so that it stays out of the way."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import as_file, files
from typing import TYPE_CHECKING, Final

from tidings.events.errors import TidingsError
from tidings.spark.failures import cause
from tidings.spark.java import find_java, java_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NO_SPARK: Final = "none"
"""The master of those who want no Spark."""
_MASTERS: Final = ("local", "spark://", "k8s://", "yarn")
_SETTINGS: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "4",  # ours are small; 200, the default, cost seconds
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}
_LOOPBACK: Final = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
_START_SOON: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


@contextmanager
def session(
    app: str, *, master: str = "local[*]", work_is_in_python: bool = False
) -> Iterator[SparkSession]:
    """A Spark session while the context lasts: without a web page, quiet, Arrow everywhere.

    On one machine (`local[2]`, `local[*]`) Spark listens on the loopback interface only, and its
    Python processes are of this interpreter, so they can import what this program can. Another
    `master` is a cluster: tidings must be installed on its machines with the same version of
    Python, which the environment variable `PYSPARK_PYTHON` names if it is not `python3`.

    With `work_is_in_python`, Java's own code is compiled less well, which halves the processor
    time of a start; good where Spark only hands out work to Python.

    A session that already runs in this process is used as it is, and left running at the end.
    `NoJavaError` if there is no Java, `TidingsError` if PySpark is not installed or there is no
    such master.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError as problem:
        raise TidingsError(
            f"Spark is not installed ({problem}). Try: pip install 'tidings[spark]'"
        ) from None

    if (running := SparkSession.getActiveSession()) is not None:
        yield running
        return
    started = _start(SparkSession.builder.appName(app).master(master), master, work_is_in_python)
    try:
        yield started
    finally:
        started.stop()


@contextmanager
def session_or_none(app: str, *, master: str) -> Iterator[SparkSession | None]:
    """A session for work that is in Python; None if the master is `none`: it is done here, then."""
    if master == NO_SPARK:
        yield None
        return
    with session(app, master=master, work_is_in_python=True) as started:
        yield started


def _start(builder: SparkSession.Builder, master: str, work_is_in_python: bool) -> SparkSession:
    if not master.startswith(_MASTERS):
        # Spark says so, too, but with a stack trace that Java prints by itself.
        raise TidingsError(
            f"{master!r} is no master of Spark's: give local[*], spark://HOST:PORT, k8s://HOST "
            "or yarn"
        )
    local = master.startswith("local")
    with (
        as_file(files("tidings.spark") / "log4j2.properties") as logging,
        java_home(find_java()) as home,
    ):
        options = [f"-Dlog4j2.configurationFile={logging.as_uri()}"]
        if work_is_in_python:
            options.append(_START_SOON)
        settings = {**_SETTINGS, "spark.driver.extraJavaOptions": " ".join(options)}
        if local:
            settings |= _LOOPBACK
        for name, value in settings.items():
            builder = builder.config(name, value)
        surroundings = {"JAVA_HOME": str(home)}
        if local:
            surroundings["PYSPARK_PYTHON"] = sys.executable  # Spark has no other setting for it
        with _environment(surroundings):
            try:
                return builder.getOrCreate()
            except Exception as problem:
                raise TidingsError(
                    f"Spark does not start with the master {master!r}: {cause(problem)}"
                ) from problem


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
