"""Spark: the data pipeline, one of the three hosts of filters and patterns.

What belongs here starts Spark, or hands our own objects to it; what those objects decide is
written, and tested, below this row and without Spark. Importing this package imports neither
PySpark nor Java: the first session does.
"""

from tidings.spark.java import NoJavaError
from tidings.spark.session import session

__all__ = ["NoJavaError", "session"]
