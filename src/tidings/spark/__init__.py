"""Spark: the data pipeline, one of the three hosts of filters and patterns.

What belongs here starts Spark, or hands our own objects to it; what those objects decide is
written, and tested, below this row and without Spark. Importing this package imports neither
PySpark nor Java: the first session does.

The rooms, each of which uses only those below it::

    delivering  who subscribed in bulk is served         statistics  what events are like
    matching    who wants what of a lake or a DataFrame
    format      DataFrames of events, and rows to publish
    archiving   from brokers into a lake                 bulk        subscriptions by the million
    streams     reading from brokers                     columns     filters as conditions
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from tidings.spark.java import NoJavaError
from tidings.spark.sessions import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidings.spark.archiving.archive import archive
    from tidings.spark.columns.columns import column, maybe
    from tidings.spark.delivering.deliver import deliver
    from tidings.spark.format.events import events
    from tidings.spark.matching.match import match

__all__ = [
    "NoJavaError",
    "archive",
    "column",
    "deliver",
    "events",
    "install",
    "match",
    "maybe",
    "session",
]

_WHERE: Final = {
    "archive": "archiving.archive",
    "column": "columns.columns",
    "deliver": "delivering.deliver",
    "events": "format.events",
    "match": "matching.match",
    "maybe": "columns.columns",
}


def __getattr__(name: str) -> Any:
    """Names are fetched when they are first used: none of them is for every program."""
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_WHERE[name]}"), name)


def install(spark: "SparkSession") -> None:
    """Make the format "tidings" known to a session, to read events and to publish rows."""
    from tidings.spark.format.source import register

    register(spark)
