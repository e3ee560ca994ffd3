"""Filter index: finds the filters that overlap another one."""

from __future__ import annotations

from collections.abc import Iterator

from tidings.events import Conjunction, Filter
from tidings.routing.conjunction_index import ConjunctionIndex


class FilterIndex:
    """A set of filters that knows which ones overlap another: those with a conjunction that does.

    >>> held = FilterIndex()
    >>> held.add(Filter.parse("symbol = 'DIS' OR price < 10"))
    >>> held.is_overlapped(Filter.parse("symbol = 'IBM'"))
    True
    >>> held.is_overlapped(Filter.parse("symbol = 'IBM' AND price > 10"))
    False
    """

    __slots__ = ("_conjunctions", "_count", "_owners")

    def __init__(self) -> None:
        self._conjunctions = ConjunctionIndex()
        self._owners: dict[Conjunction, dict[Filter, None]] = {}
        """For each conjunction the filters that it is part of."""
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, filter: Filter) -> None:
        """Add one that is not there."""
        self._count += 1
        for conjunction in filter.conjunctions:
            if conjunction not in self._owners:
                self._owners[conjunction] = {}
                self._conjunctions.add(conjunction)
            self._owners[conjunction][filter] = None

    def remove(self, filter: Filter) -> None:
        self._count -= 1
        for conjunction in filter.conjunctions:
            owners = self._owners[conjunction]
            del owners[filter]
            if not owners:
                del self._owners[conjunction]
                self._conjunctions.remove(conjunction)

    def overlapping(self, filter: Filter) -> list[Filter]:
        """Those that overlap it, each once."""
        return list(dict.fromkeys(f for c in self._found(filter) for f in self._owners[c]))

    def is_overlapped(self, filter: Filter) -> bool:
        """Whether some of them overlap it."""
        return any(True for _ in self._found(filter))

    def _found(self, filter: Filter) -> Iterator[Conjunction]:
        for conjunction in filter.conjunctions:
            yield from self._conjunctions.overlapping(conjunction)
