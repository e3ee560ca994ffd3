"""Reductions: what all of them promise, the changes that they tell, and what they are made of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, Protocol, TypeAlias

from tidings.events import Conjunction, Filter
from tidings.routing.statistics import Statistics


class Change(NamedTuple):
    """What a neighbour has to add and to remove, all at once. Counts are positive, and no filter
    is in both.

    >>> low = Filter.parse("price < 10")
    >>> bool(Change({low: 1}, {})), bool(Change({}, {}))
    (True, False)
    """

    added: dict[Filter, int]
    removed: dict[Filter, int]

    def __bool__(self) -> bool:
        """Whether anything has to be told."""
        return bool(self.added or self.removed)


class Reduction(Protocol):
    """What a neighbour is to hold, as a function of the multiset of filters that others want.

    `output` always equals `reduce` of the filters that were added and not removed, and of what was
    learnt last, in whatever order that happened. Work may be put off until somebody asks.
    """

    def add(self, filter: Filter) -> None:
        """One more wants it."""

    def remove(self, filter: Filter) -> None:
        """One less wants it; `KeyError` if nobody does, and then nothing has changed."""

    def learn(self, statistics: Statistics) -> None:
        """This is known of the events from now on; most strategies pay no attention."""

    def drain(self) -> Change:
        """The net change of `output` since the last time, or since the beginning."""

    @property
    def output(self) -> Mapping[Filter, int]:
        """What the neighbour is to hold: how often each filter. A view, to be copied if kept."""


class Net:
    """Differences added up until they are asked for: what came and went again is not told."""

    __slots__ = ("_counts",)

    def __init__(self) -> None:
        self._counts: dict[Filter, int] = {}

    def note(self, filter: Filter, count: int) -> None:
        """Add `count` copies of the filter, or take them away if it is negative."""
        total = self._counts.get(filter, 0) + count
        if total:
            self._counts[filter] = total
        else:
            del self._counts[filter]

    def drain(self) -> Change:
        """The sum of what was noted since the last time."""
        counts, self._counts = self._counts, {}
        added = {f: n for f, n in counts.items() if n > 0}
        removed = {f: -n for f, n in counts.items() if n < 0}
        return Change(added, removed)


OrderedSet: TypeAlias = dict[Conjunction, None]


class Difference(NamedTuple):
    """Which conjunctions a set has gained and lost; none is in both."""

    gained: Iterable[Conjunction]
    lost: Iterable[Conjunction]


class Stage(Protocol):
    """One step of a reduction, kept up to date: incremental reductions are put together from these.

    It is told which conjunctions its input has gained and lost, and says the same of its output,
    so stages can be put behind one another::

        covering     References ─▶ Maxima ─▶ told
        merging      References ─▶ Maxima ─▶ Merging ─▶ Maxima ─▶ told
        bounded      References ─▶ Maxima ─▶ Merging ─▶ Maxima ─▶ Bounded ─▶ Maxima ─▶ told

    `imperfect` and `learnt` are as `merging`.

    Dictionaries stand for sets everywhere, because their order does not depend on how Python
    happens to hash strings in this process.
    """

    def apply(self, difference: Difference) -> Difference:
        """Follow a change of the input; the change of the output, net."""


class References:
    """A multiset seen as a set: only the first to come and the last to go are news."""

    __slots__ = ("_counts",)

    def __init__(self) -> None:
        self._counts: dict[Conjunction, int] = {}

    def apply(self, changes: dict[Conjunction, int]) -> Difference:
        """Follow net changes of the counts."""
        gained, lost = [], []
        counts = self._counts
        for conjunction, change in changes.items():
            if not change:
                continue
            before = counts.get(conjunction, 0)
            after = before + change
            if after:
                counts[conjunction] = after
                if not before:
                    gained.append(conjunction)
            else:
                del counts[conjunction]
                lost.append(conjunction)
        return Difference(gained, lost)
