"""A lake with all that events can be, for whoever has to read it exactly."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests.matching.strategies import PROBES
from tidings.events import Notification
from tidings.lakes.lake import Lake
from tidings.lakes.layout import Archived

START = datetime(2026, 11, 14, 23, 50, tzinfo=UTC)
ODD = [
    *PROBES,
    *[Notification({"x": n, "quantity": n % 7, "symbol": f"S{n % 5}"}) for n in range(60)],
    *[Notification({"Ärger": n, "_hidden": "a", "x": 2**70 + n}) for n in range(3)],
    Notification({"time": datetime(2026, 1, 1, tzinfo=UTC), "id": "mine", "tick": 0.5}),
    Notification({"time": "noon", "day": True, "rest": b"none", "body": 1, "content": "x"}),
    Notification({"x": {"a": 1}, "o": {"z": {"deep": [1]}}, "y": 5}),
    Notification({"y": {}, "o": {"z": [5, 4, 5]}, "x": None, "_hidden": {"a": 1}}),
    Notification({"quantity": 3, "symbol": "S1", "x": [3, 1, 3]}),
    Notification.of_bytes(b"GIF89a", "image/gif", {"x": 1, "symbol": "S2"}),
]
"""Every value of every domain, alone and together, and names that are no columns."""


def fill(path: Path, events: Sequence[Notification], *, commits: int = 3) -> list[Archived]:
    """Put events into a lake, two streams over two days, in this many commits; what is there."""
    lake = Lake(path)
    archived = [
        Archived(("paris", "rome")[n % 2], n // 2 + 1, START + timedelta(seconds=3 * n), event)
        for n, event in enumerate(events)
    ]
    size = -(-len(archived) // commits)
    for version, first in enumerate(range(0, len(archived), size), start=1):
        lake.append(archived[first : first + size], writer="tests", version=version)
    return archived
