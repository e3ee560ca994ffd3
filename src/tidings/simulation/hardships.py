"""Hardships: what is harder for a node than it need be, drawn from the seed of a simulation.

Logs keep so little in memory, and send so little at a time, that small runs read them from the
store and in many parts. Disks are slow. Clocks are wrong: what is checked goes by the order of
what happens in virtual time, and by a clock only where somebody asks for a time.
"""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import Final

from tidings.delivery.log import Log
from tidings.delivery.logs import Logs
from tidings.node import Settings

_TODAY: Final = 1_000_000.0
"""The time of day when it begins, in seconds since 1970."""
_COMMITS: Final = (0.01, 0.1, 0.4)


class Hardships:
    """Those of one simulation."""

    def __init__(self, seed: int, nodes: Iterable[str], settings: Settings) -> None:
        self._random = Random(f"hardships {seed}")
        wrong = self._random.choice((0.5, 5.0)) * settings.margin
        self.clocks = {name: _TODAY + self._random.uniform(-wrong, wrong) for name in nodes}
        """Any two differ by no more than the margin of the nodes, or by far more."""
        self.committing = self._random.choice(_COMMITS)
        """Seconds that commits take at most."""

    def shrink(self, logs: Logs) -> None:
        """A node starts, and its memory is small."""
        tail = self._random.choice((0, 2, 100))
        for stream, log in logs.logs.items():
            logs.logs[stream] = Log(first=log.first, last=log.last, time=log.time, tail=tail)
        logs.read_limit = self._random.choice((1, 3, 100))
        logs.part_limit = self._random.choice((30, 100, 1 << 20))
