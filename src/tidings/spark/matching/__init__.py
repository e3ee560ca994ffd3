"""Matching: which of many filters the events of a lake or a DataFrame satisfy.

What belongs here brings filters to Spark's processes, divides them where they are too many for one,
and asks an index about rows, a batch at a time, for a DataFrame or for a folder of matches. The
index itself is in `tidings.matching`. Nothing here knows brokers.
"""
