"""Archiving: from brokers into a lake, by one process or by the tasks of a Spark.

What belongs here decides which stretches are hauled next, has them written as files of the lake,
and commits them. How a stretch is read is in `streams`, and what a commit is in `tidings.lakes`.
Nothing here needs Spark, if it is not given one.
"""
