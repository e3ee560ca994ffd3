"""Merging: conjunctions that agree on all attributes but one are joined there.

One attribute after the other, in the order of their names, is a *level*. At a level, the
conjunctions that name its attribute stand in groups that agree on everything else; each group is
replaced by its join, and what comes out goes to the level of the next attribute it names::

    price = 1 AND symbol = 'A' ─┐
    price = 2 AND symbol = 'A' ─┴▶ price IN (1, 2) AND symbol = 'A' ─┐
    price IN (1, 2) AND symbol = 'B' ────────────────────────────────┴▶ … symbol IN ('A', 'B')
                          level of price                       level of symbol

A change touches one group of each level that it passes. Several groups may have the same outcome,
so arrivals are counted.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Any, TypeAlias

from tidings.events import Conjunction, Constraint
from tidings.events.constraint import unions
from tidings.events.intervals import Cut
from tidings.routing.joins import (
    MOST_COMPARED,
    JoinTree,
    Learnt,
    Stretch,
    constraint_of,
    is_tame,
    stretch_of,
    swallows,
    union_of,
)
from tidings.routing.reduction import Difference, References
from tidings.routing.statistics import Statistics


class Merging:
    """The stage that joins. With a `factor`, near intervals become one; with a `share`, gaps are
    closed that few events fall into, as far as was learnt; without either, it is perfect."""

    __slots__ = ("_factor", "_learnt", "_levels", "_outcome")

    def __init__(self, factor: float | None = None, *, share: float | None = None) -> None:
        self._factor = factor
        self._learnt = None if share is None else Learnt(share, None)
        self._levels: dict[str, _Level] = {}
        self._outcome = References()

    def apply(self, difference: Difference) -> Difference:
        arrivals: dict[str, Counts] = {}
        for conjunction in difference.lost:
            _send(arrivals, conjunction, "", -1)
        for conjunction in difference.gained:
            _send(arrivals, conjunction, "", 1)
        return self._pass(arrivals, set())

    def learn(self, statistics: Statistics) -> Difference:
        """Judge all gaps anew, by what is known now; the change of the output."""
        if self._learnt is None or self._learnt.statistics == statistics:
            return Difference((), ())
        self._learnt = Learnt(self._learnt.share, statistics)
        return self._pass({}, set(self._levels))

    def _pass(self, arrivals: dict[str, Counts], learning: set[str]) -> Difference:
        """Through all levels that something arrives at, or that have to judge anew."""
        outcome = arrivals.pop("", {})
        while arrivals or learning:
            # what leaves a level arrives at later ones only
            name = min(arrivals.keys() | learning) if learning else min(arrivals)
            level = self._levels.get(name)
            if level is None:
                level = self._levels[name] = _Level(name, self._factor, self._learnt)
            if name in learning and self._learnt is not None:
                learning.remove(name)
                for conjunction, change in level.learn(self._learnt).items():
                    _send(arrivals, conjunction, name, change)
            for conjunction, change in level.apply(arrivals.pop(name, {})).items():
                _send(arrivals, conjunction, name, change)
            for conjunction, change in arrivals.pop("", {}).items():
                outcome[conjunction] = outcome.get(conjunction, 0) + change
            if level.is_empty:
                del self._levels[name]
        return self._outcome.apply(outcome)


def _send(arrivals: dict[str, Counts], conjunction: Conjunction, after: str, change: int) -> None:
    """Put a conjunction on the way to its next level; "" stands for the way out."""
    next_name = ""
    for name in conjunction.constraints:  # in the order of their names
        if name > after:
            next_name = name
            break
    counts = arrivals.setdefault(next_name, {})
    counts[conjunction] = counts.get(conjunction, 0) + change


class _Level:
    """The groups of one attribute."""

    __slots__ = ("_factor", "_groups", "_learnt", "_name", "_repeated")

    def __init__(self, name: str, factor: float | None, learnt: Learnt | None) -> None:
        self._name = name
        self._factor = factor
        self._learnt = learnt
        self._groups: dict[Rest, Conjunction | _Group] = {}
        """The group of each rest. A group of one, as most are, is that one conjunction."""
        self._repeated: Counts = {}
        """For a conjunction that arrived several times, the number of times after the first."""

    @property
    def is_empty(self) -> bool:
        return not self._groups

    def apply(self, arrivals: Counts) -> Counts:
        """Follow the arrivals (and departures, if negative); what changes behind this level."""
        touched: dict[Rest, tuple[Conjunction, ...]] = {}
        # Those that go make room first, so that a group of one that is replaced stays one.
        for conjunction, change in sorted(arrivals.items(), key=lambda item: item[1]):
            rest = self._rest(conjunction)
            if self._is_news(rest, conjunction, change):
                if rest not in touched:
                    touched[rest] = self._outcome(rest)
                self._move(rest, conjunction, change > 0)
        return self._changes(touched)

    def learn(self, learnt: Learnt) -> Counts:
        """Judge all gaps anew; what changes behind this level."""
        before = {rest: self._outcome(rest) for rest in self._groups}
        self._learnt = learnt
        for here in self._groups.values():
            if isinstance(here, _Group):
                here.learn(learnt)
        return self._changes(before)

    def _changes(self, touched: dict[Rest, tuple[Conjunction, ...]]) -> Counts:
        """How the outcomes of these groups differ from what they were."""
        changes: Counts = {}
        for rest, before in touched.items():
            after = self._outcome(rest)
            for conjunction in before:
                changes[conjunction] = changes.get(conjunction, 0) - 1
            for conjunction in after:
                changes[conjunction] = changes.get(conjunction, 0) + 1
        return {conjunction: change for conjunction, change in changes.items() if change}

    def _rest(self, conjunction: Conjunction) -> Rest:
        found: list[Any] = []
        for name, constraint in conjunction.constraints.items():
            if name != self._name:
                found += (name, constraint)
        return tuple(found)

    def _is_news(self, rest: Rest, conjunction: Conjunction, change: int) -> bool:
        """Count; whether it was not there before, or is not there any more."""
        if not change:
            return False
        here = self._groups.get(rest)
        is_here = conjunction in here if isinstance(here, _Group) else conjunction == here
        before = self._repeated.pop(conjunction, 0) + is_here
        after = before + change
        if after > 1:
            self._repeated[conjunction] = after - 1
        return (before > 0) != (after > 0)

    def _outcome(self, rest: Rest) -> tuple[Conjunction, ...]:
        here = self._groups.get(rest)
        if here is None:
            return ()
        if isinstance(here, _Group):
            return here.outcome()
        return (here if self._learnt is None else self._learnt.closed(here, self._name),)

    def _move(self, rest: Rest, conjunction: Conjunction, arrives: bool) -> None:
        here = self._groups.get(rest)
        if here is None:
            self._groups[rest] = conjunction
        elif not isinstance(here, _Group):
            if not arrives:
                del self._groups[rest]
                return
            group = self._groups[rest] = _Group(self._name, self._factor, self._learnt)
            group.add(here)
            group.add(conjunction)
        elif arrives:
            here.add(conjunction)
        else:
            here.remove(conjunction)
            if len(here) == 1:
                self._groups[rest] = here.any_member()


class _Group:
    """Conjunctions that agree on all attributes but one, and what they become."""

    __slots__ = ("_factor", "_learnt", "_members", "_name", "_outcome", "_spans", "_tame", "_wild")

    def __init__(self, name: str, factor: float | None, learnt: Learnt | None) -> None:
        self._name = name
        self._factor = factor
        self._learnt = learnt
        self._members: dict[Conjunction, None] = {}
        self._tame = JoinTree(union_of)
        self._wild: dict[Constraint, None] = {}
        self._spans: dict[str, Sweep] = {}
        self._outcome: tuple[Conjunction, ...] | None = None

    def __len__(self) -> int:
        return len(self._members)

    def __contains__(self, conjunction: Conjunction) -> bool:
        return conjunction in self._members

    def any_member(self) -> Conjunction:
        return next(iter(self._members))

    def add(self, conjunction: Conjunction) -> None:
        self._members[conjunction] = None
        self._outcome = None
        constraint = conjunction[self._name]
        spanned = None if self._factor is None else stretch_of(constraint)
        if spanned is not None and self._factor is not None:
            domain, stretch = spanned
            if domain not in self._spans:
                self._spans[domain] = Sweep(self._factor)
            self._spans[domain].add(stretch)
        elif is_tame(constraint):
            self._tame.add(constraint)
        else:
            self._wild[constraint] = None

    def remove(self, conjunction: Conjunction) -> None:
        del self._members[conjunction]
        self._outcome = None
        constraint = conjunction[self._name]
        spanned = None if self._factor is None else stretch_of(constraint)
        if spanned is not None:
            self._spans[spanned[0]].remove(spanned[1])
        elif is_tame(constraint):
            self._tame.remove(constraint)
        else:
            del self._wild[constraint]

    def learn(self, learnt: Learnt) -> None:
        self._learnt = learnt
        self._outcome = None

    def outcome(self) -> tuple[Conjunction, ...]:
        """The conjunctions that stand for all members."""
        if self._outcome is None:
            member = self.any_member()
            found = [member.with_(self._name, c) for c in self._joined()]
            if self._learnt is not None:
                found = [self._learnt.closed(c, self._name) for c in found]
            self._outcome = tuple(found)
        return self._outcome

    def _joined(self) -> list[Constraint]:
        tame = [] if self._tame.root is None else [self._tame.root]
        found = [
            constraint_of(domain, hull)
            for domain, sweep in self._spans.items()
            for hull in sweep.hulls.items()
        ]
        if len(self._wild) > MOST_COMPARED:
            return [*found, *tame, *self._wild]
        together = [*tame, *self._wild]
        return found + unions(together) if together else found


class Sweep:
    """Intervals in the order of where they begin, and the hulls they fall into.

    After each interval the hull so far is noted. A change begins there, and ends where a hull so
    far is what it was before: usually at once.
    """

    __slots__ = ("_factor", "_so_far", "_stretches", "hulls")

    def __init__(self, factor: float) -> None:
        self._factor = factor
        self._stretches: list[Stretch] = []
        self._so_far: list[Stretch | None] = []
        """For each stretch the hull so far; None for one that is about to be swept."""
        self.hulls: dict[Cut, Cut] = {}
        """For each place where a hull begins, the place where it ends."""

    def add(self, stretch: Stretch) -> None:
        at = bisect_left(self._stretches, stretch)
        self._stretches.insert(at, stretch)
        self._so_far.insert(at, None)
        self._renew(at, [])

    def remove(self, stretch: Stretch) -> None:
        at = bisect_left(self._stretches, stretch)
        del self._stretches[at]
        gone = self._so_far.pop(at)
        assert gone is not None
        self._renew(at, [gone[0]])

    def _renew(self, at: int, stale: list[Cut]) -> None:
        """Sweep on from `at` until nothing changes; `stale` are beginnings that may be none."""
        stretches, so_far = self._stretches, self._so_far
        hull = so_far[at - 1] if at else None
        here = at
        while here < len(stretches):
            following, old = stretches[here], so_far[here]
            if hull is not None and swallows(hull, following, self._factor):
                hull = (hull[0], max(hull[1], following[1]))
            else:
                hull = following
            if hull == old:
                break
            if old is not None:
                stale.append(old[0])
            so_far[here] = hull
            here += 1
        self._renew_hulls(at, here, stale)

    def _renew_hulls(self, first: int, last: int, stale: list[Cut]) -> None:
        """Note where hulls end, for those so far from `first` to before `last` that changed."""
        so_far, hulls = self._so_far, self.hulls
        unchanged = so_far[last] if last < len(so_far) else None
        end = None if unchanged is None else hulls[unchanged[0]]
        for begin in stale:
            hulls.pop(begin, None)
        for at in range(max(first - 1, 0), last):
            hull = so_far[at]
            following = so_far[at + 1] if at + 1 < len(so_far) else None
            if hull is not None and (following is None or following[0] != hull[0]):
                hulls[hull[0]] = hull[1]
        if unchanged is not None and end is not None:
            hulls[unchanged[0]] = end


Rest: TypeAlias = tuple[Any, ...]
"""The names and constraints of a conjunction but for one attribute: name, constraint, name, …"""

Counts: TypeAlias = dict[Conjunction, int]
