"""Bounded: never more than N conjunctions, whatever comes in.

All are ranked by their digests, which nobody can foresee but everybody computes alike. The first
half of the room is for those that rank first, as they are. The others stand in an order that puts
like by like, and are cut into as many runs as there is room left; each run becomes one hull::

    s = 'A' AND p = 1   s = 'A' AND p = 5 │ s = 'B' AND p = 2   s = 'C' AND p = 3 │ t > 1   t > 7
    ────────── s = 'A' AND p IN (1, 5) ───┴─── s IN ('B', 'C') AND p IN (2, 3) ───┴─── t > 1

Runs are cut where the attributes change, as far as there is room, since a hull of conjunctions
that name no attribute in common would admit everything; and then where the digests say. So a
change moves one conjunction in or out, at most one more across the line between the halves, and
a cut or two; the other runs stay.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from typing import Final, TypeAlias

from tidings.events import Conjunction
from tidings.routing.joins import JoinTree, Place, cover_of, digest, place
from tidings.routing.reduction import Difference, References

_FIRST: Final[Place] = ()
"""The place where the first run begins: before all others."""


class Bounded:
    """The stage that makes at most `most` conjunctions of any number; together they cover all."""

    __slots__ = ("_by_key", "_kept", "_outcome", "_ranked", "_runs")

    def __init__(self, most: int) -> None:
        self._kept = most - most // 2
        self._ranked: list[str] = []
        self._by_key: dict[str, Conjunction] = {}
        self._runs = _Runs(most // 2)
        self._outcome = References()

    def apply(self, difference: Difference) -> Difference:
        changes: dict[Conjunction, int] = {}
        for conjunction in difference.lost:
            self._remove(digest(conjunction), changes)
        for conjunction in difference.gained:
            key = digest(conjunction)
            self._by_key[key] = conjunction
            self._add(key, changes)
        self._runs.tell(changes)
        return self._outcome.apply(changes)

    def _add(self, key: str, changes: dict[Conjunction, int]) -> None:
        rank = bisect_left(self._ranked, key)
        self._ranked.insert(rank, key)
        if rank >= self._kept:
            self._runs.add(self._by_key[key])
            return
        _note(changes, self._by_key[key], 1)
        if len(self._ranked) > self._kept:
            pushed_out = self._ranked[self._kept]
            _note(changes, self._by_key[pushed_out], -1)
            self._runs.add(self._by_key[pushed_out])

    def _remove(self, key: str, changes: dict[Conjunction, int]) -> None:
        rank = bisect_left(self._ranked, key)
        del self._ranked[rank]
        conjunction = self._by_key.pop(key)
        if rank >= self._kept:
            self._runs.remove(conjunction)
            return
        _note(changes, conjunction, -1)
        if len(self._ranked) >= self._kept:
            moved_up = self._ranked[self._kept - 1]
            _note(changes, self._by_key[moved_up], 1)
            self._runs.remove(self._by_key[moved_up])


def _note(changes: dict[Conjunction, int], conjunction: Conjunction, change: int) -> None:
    changes[conjunction] = changes.get(conjunction, 0) + change


_Candidate: TypeAlias = tuple[bool, str, Place]
"""Where a run may begin, and what it ranks by."""


def _candidate(here: Place, *, is_first: bool) -> _Candidate:
    """The first of those that name the same attributes come first, then the digests decide; from
    behind, because from before they decide who stays as it is."""
    return not is_first, here[-1][::-1], here


class _Runs:
    """Conjunctions in the order of their places, cut into at most `most` runs."""

    __slots__ = ("_before", "_begins", "_cuts", "_order", "_ranked", "_runs")

    def __init__(self, most: int) -> None:
        self._cuts = most - 1
        self._order: list[Place] = []
        self._ranked: list[_Candidate] = []
        """Places where a run may begin, best first; one begins at each of the first `_cuts`."""
        self._begins: list[Place] = [_FIRST]
        self._runs: dict[Place, _Run] = {_FIRST: _Run()}
        self._before: dict[Place, Conjunction | None] = {}
        """The runs touched since the last `tell`, and their hulls before that."""

    def add(self, conjunction: Conjunction) -> None:
        here = place(conjunction)
        self._touched(here).add(here, conjunction)
        at = bisect_left(self._order, here)
        is_first = not self._are_alike(at - 1, here)
        if is_first and self._are_alike(at, here):  # the next one was first, and is no more
            self._withdraw(_candidate(self._order[at], is_first=True))
            self._enter(_candidate(self._order[at], is_first=False))
        self._order.insert(at, here)
        self._enter(_candidate(here, is_first=is_first))

    def remove(self, conjunction: Conjunction) -> None:
        here = place(conjunction)
        self._touched(here).remove(here, conjunction)
        at = bisect_left(self._order, here)
        del self._order[at]
        is_first = not self._are_alike(at - 1, here)
        self._withdraw(_candidate(here, is_first=is_first))
        if is_first and self._are_alike(at, here):
            self._withdraw(_candidate(self._order[at], is_first=False))
            self._enter(_candidate(self._order[at], is_first=True))

    def _are_alike(self, at: int, here: Place) -> bool:
        """Whether there is one at this position, and it names the same attributes."""
        return 0 <= at < len(self._order) and bool(self._order[at][0] == here[0])

    def _enter(self, candidate: _Candidate) -> None:
        rank = bisect_left(self._ranked, candidate)
        self._ranked.insert(rank, candidate)
        if rank < self._cuts:
            self._cut(candidate[2])
            if len(self._ranked) > self._cuts:
                self._join(self._ranked[self._cuts][2])

    def _withdraw(self, candidate: _Candidate) -> None:
        rank = bisect_left(self._ranked, candidate)
        del self._ranked[rank]
        if rank < self._cuts:
            self._join(candidate[2])
            if len(self._ranked) >= self._cuts:
                self._cut(self._ranked[self._cuts - 1][2])

    def tell(self, changes: dict[Conjunction, int]) -> None:
        """Note how the hulls have changed since the last time."""
        before, self._before = self._before, {}
        for begin, hull in before.items():
            if hull is not None:
                _note(changes, hull, -1)
            run = self._runs.get(begin)
            if run is not None and len(run):
                _note(changes, run.hull(), 1)

    def _touched(self, here: Place) -> _Run:
        """The run of this place, which is about to change."""
        begin = self._begins[bisect_right(self._begins, here) - 1]
        run = self._runs[begin]
        if begin not in self._before:
            self._before[begin] = run.hull() if len(run) else None
        return run

    def _cut(self, here: Place) -> None:
        """Let a run begin here."""
        run = self._touched(here)
        insort(self._begins, here)
        self._before.setdefault(here, None)
        self._runs[here] = run.split(here)

    def _join(self, here: Place) -> None:
        """Let the run that begins here be part of the one before it."""
        later = self._touched(here)
        at = bisect_left(self._begins, here)
        del self._begins[at], self._runs[here]
        self._touched(here).take(later)


class _Run:
    """Conjunctions, and one that covers them all: of each attribute that all of them name, a
    constraint that covers theirs."""

    __slots__ = ("_members", "_named", "_trees")

    def __init__(self) -> None:
        self._members: dict[Place, Conjunction] = {}
        self._trees: dict[str, JoinTree] = {}
        self._named: dict[str, int] = {}
        """For each attribute, the number of members that name it."""

    def __len__(self) -> int:
        return len(self._members)

    def add(self, here: Place, conjunction: Conjunction) -> None:
        self._members[here] = conjunction
        for name, constraint in conjunction.constraints.items():
            if name not in self._trees:
                self._trees[name] = JoinTree(cover_of)
            self._trees[name].add(constraint)
            self._named[name] = self._named.get(name, 0) + 1

    def remove(self, here: Place, conjunction: Conjunction) -> None:
        del self._members[here]
        for name, constraint in conjunction.constraints.items():
            self._trees[name].remove(constraint)
            self._named[name] -= 1
            if not self._named[name]:
                del self._trees[name], self._named[name]

    def split(self, here: Place) -> _Run:
        """Give away those from this place on."""
        later, moving = _Run(), [other for other in self._members if other >= here]
        if 2 * len(moving) > len(self):  # rather give away all, and take the fewer back
            moving = [other for other in self._members if other < here]
            self._exchange(later)
            self._take(moving, later)
        else:
            later._take(moving, self)
        return later

    def take(self, later: _Run) -> None:
        """Take all members of another one, which is not used any more."""
        if len(later) > len(self):
            self._exchange(later)
        for other, conjunction in later._members.items():
            self.add(other, conjunction)

    def _take(self, places: list[Place], giver: _Run) -> None:
        for other in places:
            conjunction = giver._members[other]
            giver.remove(other, conjunction)
            self.add(other, conjunction)

    def _exchange(self, other: _Run) -> None:
        self._members, other._members = other._members, self._members
        self._trees, other._trees = other._trees, self._trees
        self._named, other._named = other._named, self._named

    def hull(self) -> Conjunction:
        everyone = len(self._members)
        if everyone == 1:
            return next(iter(self._members.values()))
        return Conjunction(
            {
                name: tree.root
                for name, tree in self._trees.items()
                if tree.root is not None and self._named[name] == everyone
            }
        )
