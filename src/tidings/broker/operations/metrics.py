"""Metrics: what has gone through a broker since it started. Plain numbers, cheap to raise."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from typing import Final

STEPS: Final = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0)
"""Upper bounds, in seconds, of the buckets in which commits are counted by their duration."""


@dataclass(slots=True)
class Metrics:
    """What a broker has done since it started. Raised where it happens, read by `prometheus` and
    `status`."""

    opened: int = 0
    """Connections accepted or dialled."""
    published: int = 0
    """Notifications that clients have handed in."""
    kept: int = 0
    """Events committed to the log."""
    delivered: int = 0
    """Events handed to clients, once for each session."""
    missed: int = 0
    """Events of live subscriptions that were not sent, as their client did not read."""
    refused: int = 0
    """Requests and connections refused."""
    replaced: int = 0
    """Nodes that were replaced, as they could not be trusted any more."""
    bytes_in: int = 0
    bytes_out: int = 0
    commit_seconds: float = 0.0
    """Seconds that all commits took together."""
    commits: list[int] = field(default_factory=lambda: [0] * (len(STEPS) + 1))
    """Commits, by the bucket of their duration; the last one has no upper bound."""

    def committed(self, seconds: float) -> None:
        """Count a commit that took this time."""
        self.commit_seconds += seconds
        self.commits[bisect_left(STEPS, seconds)] += 1
