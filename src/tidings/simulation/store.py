"""A store in memory that forgets in a crash what was not synced."""

from __future__ import annotations

from random import Random
from typing import Any


class MemoryStore:
    """What a node stores. Writes survive a crash once synced; later ones may, in order."""

    def __init__(self) -> None:
        self.content: dict[str, Any] = {}
        self._unsynced: list[tuple[str, Any]] = []

    def write(self, key: str, value: Any) -> None:
        """Remember to keep a value; None forgets the key."""
        self._unsynced.append((key, value))

    def sync(self) -> None:
        """Keep all that was written so far."""
        self._keep(len(self._unsynced))

    def crash(self, random: Random) -> None:
        """Some of what was not synced is kept, the rest is gone."""
        self._keep(random.randint(0, len(self._unsynced)))

    def _keep(self, number: int) -> None:
        for key, value in self._unsynced[:number]:
            if value is None:
                self.content.pop(key, None)
            else:
                self.content[key] = value
        self._unsynced.clear()
