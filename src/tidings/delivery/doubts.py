"""Doubts: how often memory was found damaged, and that all readers are told.

A node whose memory was damaged may have left something out, or told somebody a wrong place,
before it found out. It counts that on disk; the number spreads to all nodes, and every reader is
told, also one that comes back later under a durable name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tidings.protocol.host import Sync
from tidings.protocol.messages import Doubt
from tidings.protocol.parts import Kernel, Neighbour, Single, Wants

SHELF = Single[dict[str, int]]("doubts")


class Doubts:
    """How often each node has found something damaged, as far as was heard here."""

    def __init__(self, kernel: Kernel, wants: Wants, tell: Callable[[], None]) -> None:
        """`tell` lets the readers here know that there are more."""
        self._kernel, self._wants, self._tell = kernel, wants, tell
        self.found: dict[str, int] = {}

    @property
    def count(self) -> int:
        return sum(self.found.values())

    def restore(self, stored: Mapping[str, Any]) -> None:
        self.found = dict(SHELF.found(stored, {}))

    def kept(self) -> dict[str, Any]:
        return {SHELF.kind: dict(self.found)} if self.found else {}

    def add(self) -> None:
        """What readers anywhere were told may lack events, or repeat some: let them know."""
        name = self._kernel.name
        self._become({**self.found, name: self.found.get(name, 0) + 1})

    def told(self, neighbour: Neighbour, message: Doubt) -> None:
        """Something was damaged elsewhere, and may have kept from us what we want."""
        news = {n: c for n, c in message.found.items() if c > self.found.get(n, 0)}
        if news:
            self._become({**self.found, **news}, besides=neighbour)

    def tell(self, neighbour: Neighbour) -> None:
        """Let a neighbour know of all of them."""
        if self.found and self._wants.is_told(neighbour):
            self._kernel.send(neighbour, Doubt(dict(self.found)))

    def _become(self, found: dict[str, int], besides: Neighbour | None = None) -> None:
        self.found = found
        self._kernel.emit(SHELF.put(dict(found)))
        self._kernel.emit(Sync())
        for neighbour in self._kernel.neighbours.values():
            if neighbour is not besides:
                self.tell(neighbour)
        self._tell()
