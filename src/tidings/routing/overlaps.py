"""Overlaps: finding the filters that overlap another one.

Two conjunctions that ask for different single values of an attribute can't overlap. So each is
filed under one attribute that it asks a single value of, if there is one, and under that value::

    symbol ── 'DIS' ── symbol = 'DIS', symbol = 'DIS' AND price < 10
           └─ 'IBM' ── symbol = 'IBM'
    ─────── price < 10

A conjunction that asks for one symbol looks under that one; any other looks under all symbols.
"""

from __future__ import annotations

from collections.abc import Iterator

from tidings.events import Conjunction, Constraint, Filter
from tidings.routing.forms import is_single


class Overlaps:
    """A set of filters that knows which ones overlap another."""

    __slots__ = ("_elsewhere", "_filed")

    def __init__(self) -> None:
        self._filed: dict[str, dict[Constraint, dict[Conjunction, dict[Filter, None]]]] = {}
        self._elsewhere: dict[Conjunction, dict[Filter, None]] = {}

    def add(self, filter: Filter) -> None:
        """Add one that is not there."""
        for conjunction in filter.conjunctions:
            name = _file(conjunction)
            if name is None:
                file = self._elsewhere
            else:
                drawer = self._filed.setdefault(name, {})
                file = drawer.setdefault(conjunction.constraints[name], {})
            file.setdefault(conjunction, {})[filter] = None

    def remove(self, filter: Filter) -> None:
        """Remove one that is there."""
        for conjunction in filter.conjunctions:
            name = _file(conjunction)
            if name is None:
                _take(self._elsewhere, conjunction, filter)
                continue
            drawer, value = self._filed[name], conjunction.constraints[name]
            _take(drawer[value], conjunction, filter)
            if not drawer[value]:
                del drawer[value]
            if not drawer:
                del self._filed[name]

    def overlapping(self, filter: Filter) -> list[Filter]:
        """Those that overlap it, each once."""
        found: dict[Filter, None] = {}
        for conjunction in filter.conjunctions:
            for candidate, owners in self._candidates(conjunction):
                if candidate.overlaps(conjunction):
                    found.update(owners)
        return list(found)

    def is_overlapped(self, filter: Filter) -> bool:
        """Whether some of them overlap it."""
        return any(
            candidate.overlaps(conjunction)
            for conjunction in filter.conjunctions
            for candidate, _ in self._candidates(conjunction)
        )

    def _candidates(
        self, conjunction: Conjunction
    ) -> Iterator[tuple[Conjunction, dict[Filter, None]]]:
        yield from self._elsewhere.items()
        for name, drawer in self._filed.items():
            constraint = conjunction.constraints.get(name)
            if constraint is not None and is_single(constraint):
                yield from drawer.get(constraint, _NOTHING).items()
            else:
                for file in drawer.values():
                    yield from file.items()


_NOTHING: dict[Conjunction, dict[Filter, None]] = {}


def _file(conjunction: Conjunction) -> str | None:
    """The attribute to file it under: the first it asks a single value of."""
    for name, constraint in conjunction.constraints.items():
        if is_single(constraint):
            return name
    return None


def _take(
    file: dict[Conjunction, dict[Filter, None]], conjunction: Conjunction, filter: Filter
) -> None:
    owners = file[conjunction]
    del owners[filter]
    if not owners:
        del file[conjunction]
