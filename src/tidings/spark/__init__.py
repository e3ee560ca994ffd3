"""Spark: the data pipeline, one of the three hosts of filters and patterns.

What belongs here starts Spark, or hands our own objects to it; what those objects decide is
written, and tested, below this row and without Spark. Importing this package imports neither
PySpark nor Java: the first session does.
"""

from typing import TYPE_CHECKING

from tidings.spark.columns import column, maybe
from tidings.spark.java import NoJavaError
from tidings.spark.match import match
from tidings.spark.session import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["NoJavaError", "column", "install", "match", "maybe", "session"]


def install(spark: "SparkSession") -> None:
    """Make the format "tidings" known to a session, to read events and to publish rows."""
    from tidings.spark.source import register

    register(spark)
