"""Holdings: how many durable subscriptions clients have left in a node, and which nobody uses.

The node counts the hours that it runs, and stores the count; `delivery.ages` says why. A durable
subscription is used on a day on which somebody subscribes to it, acknowledges, or has it open.
That is stored once for each day, with what is stored anyway, and costs no sync of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from tidings.delivery.ages import DAY, FORGOTTEN, IDLE, Ages
from tidings.protocol.parts import Kernel, Shelf, Single

HOURS: Final = Single[int]("hours", is_exact=False)
USED: Final = Shelf[int]("used", is_exact=False)


class Holdings:
    """The durable subscriptions in a node's store, by the day on which they were used last."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self.durables = Ages()
        self.hours = 0
        """The node has run for this many hours, in all its lives."""
        self.forgotten: list[str] = []
        """Durable subscriptions that nobody used for too long, until that has been told."""

    @property
    def day(self) -> int:
        """Which day it is, by the hours that the node has run."""
        return self.hours // DAY

    def restore(self, stored: Mapping[str, Any], names: Iterable[str]) -> None:
        """Take up what an earlier node had stored of the durable subscriptions of these names."""
        self.hours = HOURS.found(stored, 0)
        for name in names:
            self.durables.use(name, stored.get(USED.key(name), self.day))

    def pass_hour(self) -> bool:
        """Another hour is over; whether a day is."""
        self.hours += 1
        self._kernel.emit(HOURS.put(self.hours))
        return self.hours % DAY == 0

    def use(self, name: str) -> None:
        if self.durables.use(name, self.day):
            self._kernel.emit(USED.put(name, self.day))

    def forget(self, name: str) -> None:
        self.durables.forget(name)
        self._kernel.emit(USED.drop(name))

    def idle(self) -> Iterator[str]:
        """The durable subscriptions that have been unused for long enough to warn about."""
        return self.durables.unused(before=self.day - IDLE + 1)

    def expired(self, ages: Ages) -> list[str]:
        """The names that have been unused for long enough to be forgotten."""
        return list(ages.unused(before=self.day - FORGOTTEN))
