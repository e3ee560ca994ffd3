"""Workloads: documented, seeded generators of events and filters, for benchmarks and experiments.

The same seed gives the same filters and events on every machine, and a longer run begins with
a shorter one. Nothing here matches anything: how many filters an event should find is computed
from how they were drawn, and `WORKLOADS` says it.
"""

from tidings.workloads.conditions import Among, Condition, Equal, Prefix, Range
from tidings.workloads.quotes import WORKLOADS, dense_eq, dense_range, interval, quote, sparse
from tidings.workloads.workload import Workload

__all__ = [
    "WORKLOADS",
    "Among",
    "Condition",
    "Equal",
    "Prefix",
    "Range",
    "Workload",
    "dense_eq",
    "dense_range",
    "interval",
    "quote",
    "sparse",
]
