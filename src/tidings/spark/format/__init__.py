"""The format "tidings": events of brokers and lakes as DataFrames, and rows to publish.

What belongs here speaks Spark's interface of data sources: options, schemas, offsets, partitions,
rows, commits. What reads from brokers is in `streams`, and what reads files of a lake in
`tidings.lakes`. Nothing here starts a session or a query.
"""
