"""Stages: what the incremental reductions are put together from.

A stage keeps the outcome of one step up to date. It is told which conjunctions its input has
gained and lost, and says the same of its output, so stages can be put behind one another::

    covering               References ─▶ Maxima ─▶ told
    merging, imperfect,    References ─▶ Maxima ─▶ Merging ─▶ Maxima ─▶ told
      learnt
    bounded                References ─▶ Maxima ─▶ Merging ─▶ Maxima ─▶ Bounded ─▶ Maxima ─▶ told

Dictionaries stand for sets everywhere, because their order does not depend on how Python
happens to hash strings in this process.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol, TypeAlias

from tidings.events import Conjunction

OrderedSet: TypeAlias = dict[Conjunction, None]


class Difference(NamedTuple):
    """Which conjunctions a set has gained and lost; none is in both."""

    gained: Iterable[Conjunction]
    lost: Iterable[Conjunction]


class Stage(Protocol):
    """One step of a reduction, kept up to date."""

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
