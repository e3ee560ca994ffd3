"""Metrics: what has gone through a broker since it started. Plain numbers, cheap to raise."""

from __future__ import annotations

from bisect import bisect_left
from typing import Final

STEPS: Final = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0)
"""Commits are counted by how many seconds they took, up to each of these."""


class Metrics:
    """Raised by whoever sees it happen, read by metrics and status."""

    __slots__ = (
        "bytes_in",
        "bytes_out",
        "commit_seconds",
        "commits",
        "delivered",
        "kept",
        "missed",
        "opened",
        "published",
        "refused",
        "replaced",
    )

    def __init__(self) -> None:
        self.opened = 0
        """Connections."""
        self.published = 0
        """Notifications that clients have handed in."""
        self.kept = 0
        """Events committed to the log."""
        self.delivered = 0
        """Events handed to clients, once for each session."""
        self.missed = 0
        """Events of live subscriptions that were not sent, since the client did not read."""
        self.refused = 0
        """Requests and connections."""
        self.replaced = 0
        """Nodes that could not be trusted any more."""
        self.bytes_in = self.bytes_out = 0
        self.commit_seconds = 0.0
        self.commits = [0] * (len(STEPS) + 1)

    def committed(self, seconds: float) -> None:
        """A commit took so long."""
        self.commit_seconds += seconds
        self.commits[bisect_left(STEPS, seconds)] += 1
