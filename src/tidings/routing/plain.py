"""The oracle of routing: each strategy as a function of the multiset, as simple as can be.

It recomputes everything from scratch and compares everything with everything. What it returns
is the definition; the incremental versions must equal it at any time.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce as fold

from tidings.events import Conjunction, Constraint, Filter
from tidings.events.constraint import unions
from tidings.routing.joins import (
    MOST_COMPARED,
    Learnt,
    Stretch,
    constraint_of,
    cover_of,
    digest,
    is_tame,
    place,
    stretch_of,
    swallows,
)
from tidings.routing.naming import Strategy
from tidings.routing.statistics import Statistics


def reduce(
    strategy: str, wanted: Mapping[Filter, int], statistics: Statistics | None = None
) -> dict[Filter, int]:
    """What a neighbour is to hold if everybody else wants `wanted` (filter: how often).

    What has been learnt of the events, in `statistics`, matters to the strategy `learnt` only.

    >>> wanted = {Filter.parse("price < 10"): 2, Filter.parse("price < 5"): 1}
    >>> reduce("covering", wanted)
    {Filter.parse('price < 10'): 1}
    """
    name, factor, share, most = Strategy.parse(strategy)
    if name == "flooding":
        return {Filter.all(): 1}
    if name == "simple":
        return dict(wanted)
    if name == "identity":
        return dict.fromkeys(wanted, 1)
    found = _maximal({c for f in wanted for c in f.conjunctions})
    if name != "covering":
        learnt = Learnt(share, statistics) if name == "learnt" else None
        found = _maximal(_merged(found, factor if name == "imperfect" else None, learnt))
    if name == "bounded":
        found = _maximal(_bounded(found, most))
    return {Filter([c]): 1 for c in sorted(found, key=str)}


# -- covering ----------------------------------------------------------------------------------


def _maximal(conjunctions: set[Conjunction]) -> set[Conjunction]:
    return {c for c in conjunctions if not any(_beats(k, c) for k in conjunctions)}


def _beats(one: Conjunction, other: Conjunction) -> bool:
    """Whether `one` makes `other` superfluous; of two that cover each other, one does."""
    if one == other or not one.covers(other):
        return False
    return not other.covers(one) or str(one) < str(other)


# -- merging -----------------------------------------------------------------------------------


def _merged(
    conjunctions: set[Conjunction], factor: float | None, learnt: Learnt | None
) -> set[Conjunction]:
    """Attribute by attribute, join those that agree on everything else, and close small gaps."""
    for name in sorted({name for c in conjunctions for name in c.constraints}):
        groups: dict[Conjunction, list[Constraint]] = {}
        untouched = set()
        for c in conjunctions:
            if name in c.constraints:
                groups.setdefault(c.without(name), []).append(c[name])
            else:
                untouched.add(c)
        joint = {
            rest.with_(name, constraint)
            for rest, constraints in groups.items()
            for constraint in _joined(constraints, factor)
        }
        conjunctions = untouched | {c if learnt is None else learnt.closed(c, name) for c in joint}
    return conjunctions


def _joined(constraints: list[Constraint], factor: float | None) -> list[Constraint]:
    if factor is None:
        return _perfectly(constraints)
    stretches: dict[str, list[Stretch]] = {}
    others = []
    for constraint in constraints:
        found = stretch_of(constraint)
        if found is None:
            others.append(constraint)
        else:
            stretches.setdefault(found[0], []).append(found[1])
    hulls = [
        constraint_of(domain, hull)
        for domain, some in stretches.items()
        for hull in _swept(sorted(some), factor)
    ]
    return hulls + _perfectly(others)


def _perfectly(constraints: list[Constraint]) -> list[Constraint]:
    wild = [c for c in constraints if not is_tame(c)]
    if len(wild) <= MOST_COMPARED:
        return unions(constraints) if constraints else []
    tame = [c for c in constraints if is_tame(c)]
    return wild + (unions(tame) if tame else [])


def _swept(stretches: list[Stretch], factor: float) -> list[Stretch]:
    hulls = stretches[:1]
    for following in stretches[1:]:
        hull = hulls[-1]
        if swallows(hull, following, factor):
            hulls[-1] = (hull[0], max(hull[1], following[1]))
        else:
            hulls.append(following)
    return hulls


# -- bounded -----------------------------------------------------------------------------------


def _bounded(conjunctions: set[Conjunction], most: int) -> set[Conjunction]:
    """Half of the room is for those that stay as they are, chosen by their digests. The others
    are put in an order where like stands by like, and cut into runs, each of which becomes its
    hull: if there is room where the attributes change, and then where the digests say, read
    from behind."""
    ranked = sorted(conjunctions, key=digest)
    kept = most - most // 2
    others = sorted(ranked[kept:], key=place)
    firsts = {tuple(c.constraints): c for c in reversed(others)}.values()
    begins = sorted(others, key=lambda c: (c not in firsts, digest(c)[::-1]))[: most // 2 - 1]
    runs: list[list[Conjunction]] = []
    for c in others:
        if not runs or c in begins:
            runs.append([])
        runs[-1].append(c)
    return {*ranked[:kept], *(fold(_wider, run) for run in runs)}


def _wider(one: Conjunction, other: Conjunction) -> Conjunction:
    shared = [name for name in one.constraints if name in other.constraints]
    return Conjunction({name: cover_of(one[name], other[name]) for name in shared})
