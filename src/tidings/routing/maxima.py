"""Maxima: the conjunctions that no other one covers, kept up to date.

Those that are covered hang below one that covers them, and take what hangs below them along::

    price < 10                maximal: told
    ├── price < 5
    │   └── price < 3
    └── price < 10 AND symbol = 'DIS'

If one goes that is not maximal, what hangs below it moves up. If a maximal one goes, those that
hang directly below look for another cover or become maximal themselves; the rest is not touched.
"""

from __future__ import annotations

from tidings.events import Conjunction
from tidings.routing.conjunction_index import ConjunctionIndex
from tidings.routing.reduction import Difference, OrderedSet


class Maxima:
    """The stage that keeps what no other conjunction covers."""

    __slots__ = ("_above", "_below", "_gained", "_index", "_lost")

    def __init__(self) -> None:
        self._above: dict[Conjunction, Conjunction | None] = {}
        """For each conjunction the one it hangs below; None if it is maximal."""
        self._below: dict[Conjunction, OrderedSet] = {}
        self._index = ConjunctionIndex()
        """The maximal conjunctions."""
        self._gained: OrderedSet = {}
        self._lost: OrderedSet = {}

    def apply(self, difference: Difference) -> Difference:
        homeless: OrderedSet = {}
        for conjunction in difference.lost:
            self._remove(conjunction, homeless)
        # A cover names no more attributes than what it covers, so the likely covers come first.
        waiting = [*homeless, *difference.gained]
        for conjunction in sorted(waiting, key=lambda c: len(c.constraints)):
            self._insert(conjunction)
        gained, self._gained = self._gained, {}
        lost, self._lost = self._lost, {}
        return Difference(gained, lost)

    def _remove(self, conjunction: Conjunction, homeless: OrderedSet) -> None:
        above = self._above.pop(conjunction)
        below = self._below.pop(conjunction, {})
        if above is None:
            if conjunction in homeless:
                del homeless[conjunction]
            else:
                self._demote(conjunction)
            homeless.update(below)
            for other in below:
                self._above[other] = None
        else:
            self._detach(conjunction, above)
            for other in below:
                self._attach(other, above)

    def _insert(self, conjunction: Conjunction) -> None:
        for other in self._index.covering(conjunction):
            if _beats(other, conjunction):
                self._attach(conjunction, other)
                return
        for other in self._index.covered(conjunction):
            self._demote(other)
            self._attach(other, conjunction)
        self._above[conjunction] = None
        self._index.add(conjunction)
        if conjunction in self._lost:
            del self._lost[conjunction]
        else:
            self._gained[conjunction] = None

    def _demote(self, conjunction: Conjunction) -> None:
        self._index.remove(conjunction)
        if conjunction in self._gained:
            del self._gained[conjunction]
        else:
            self._lost[conjunction] = None

    def _attach(self, conjunction: Conjunction, above: Conjunction) -> None:
        self._above[conjunction] = above
        self._below.setdefault(above, {})[conjunction] = None

    def _detach(self, conjunction: Conjunction, above: Conjunction) -> None:
        below = self._below[above]
        del below[conjunction]
        if not below:
            del self._below[above]


def _beats(one: Conjunction, other: Conjunction) -> bool:
    """Whether `one`, which covers `other`, makes it superfluous: not if they cover each other
    and `other` is the one to keep."""
    return not other.covers(one) or str(one) < str(other)
