"""Archiving: from brokers into a lake, by one process or by the tasks of a Spark."""
