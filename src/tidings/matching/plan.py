"""Plans: how each conjunction of a segment will be found.

Three ways, by what they cost for an average event:

- *posting*: under the points of one of its conditions (`symbol = 'DIS'`). Costs a check of the
  remaining conditions, a few nanoseconds, but only when an event has that very value.
- *presence*: under the mere presence of a rarely used attribute.
- *bit sets*: one bit in the bit sets of all attributes. Costs a fraction of a nanosecond, but for
  every event.

So a posting wins iff its values are rare among events: how rare is learnt from a sample of
events, mixed with what the constants of the filters themselves suggest while there is none. But
where bit sets would be for so few that looking at them at all costs more than the candidates that
these make as postings, there are none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from tidings.matching.source import I64, Source, members

RARE: Final = 1 / 256
"""A value that fewer events than this have is better found by a posting than by bit sets."""
RARE_WITH_REST: Final = 1 / 4
"""`RARE` where a check in Python follows, so that candidates are dear."""
FEW_POINTS: Final = 64
PRESENCE_PER_SLOT: Final = 2_000
"""Bits that are intersected in the time that one candidate takes to check."""
BITS: Final = 8.0
"""Candidates that are checked in the time that it takes to look at bit sets at all."""
_PRIOR: Final = 0.25
"""Events that each constant of the filters counts for, as evidence that events have it too."""

Keys = npt.NDArray[np.int64]
F64 = npt.NDArray[np.float64]


@dataclass(eq=False, slots=True)
class Sample:
    """Keys seen in a sample of events, line by line."""

    events: int
    lines: I64
    keys: I64

    def of(self, line: int) -> I64:
        """The keys seen on one line."""
        keys: I64 = self.keys[self.lines == line]
        return keys


@dataclass(eq=False, slots=True)
class Plan:
    """For each conjunction, the condition it is found by; or the line; or neither."""

    condition: I64
    """Index of the condition whose points it is posted under, or -1."""
    line: I64
    """The line whose presence it is posted under, or -1."""
    frequency: F64
    """For each condition that is a list of points, the share of events that have one."""

    def cost(self, condition: I64) -> float:
        """How many candidates an average event will have, if conjunctions are found by these.

        Bits count too, for what they cost compared with a candidate.
        """
        found = condition >= 0
        bits = _cost_of_bits(int(np.count_nonzero(~found & (self.line < 0))))
        return float(self.frequency[condition[found]].sum()) + bits


def make_plan(
    source: Source, keys: Keys, element_line: npt.NDArray[np.bool_], sample: Sample
) -> Plan:
    """Choose how each conjunction is found. `keys` are the cuts' keys in the segment."""
    conjs = len(source.conj_row)
    cond_conj = np.repeat(np.arange(conjs), np.diff(source.cond_off))
    points = _are_points(source, keys)
    frequency = _frequencies(source, keys, points, sample)
    rest = np.zeros(conjs, bool)
    rest[list(source.rest)] = True
    limit = np.where(rest[cond_conj], RARE_WITH_REST, RARE)
    limit[element_line[source.cond_line]] = np.inf  # bit sets know nothing of elements
    few = points & (np.diff(source.cut_off) <= 2 * FEW_POINTS)
    condition = _rarest(few & (frequency <= limit), frequency, cond_conj, conjs)
    line = _rare_lines(source, cond_conj, condition, element_line, sample)
    slots = (condition < 0) & (line < 0)
    posted = _rarest(few, frequency, cond_conj, conjs)[slots]
    if (posted >= 0).all() and frequency[posted].sum() < _cost_of_bits(len(posted)):
        condition[slots] = posted
    return Plan(condition, line, frequency)


def _cost_of_bits(slots: int) -> float:
    """What bit sets of this many slots cost for an event, in candidates."""
    return BITS + slots / PRESENCE_PER_SLOT if slots else 0.0


def _rarest(usable: npt.NDArray[np.bool_], frequency: F64, cond_conj: I64, conjs: int) -> I64:
    """For each conjunction, the usable condition that the fewest events meet, or -1."""
    condition = np.full(conjs, -1, np.int64)
    best = np.flatnonzero(usable)[np.argsort(-frequency[usable], kind="stable")]
    condition[cond_conj[best]] = best  # the last one written is the rarest
    return condition


def _are_points(source: Source, keys: Keys) -> npt.NDArray[np.bool_]:
    """Whether a condition's cuts are pairs around single values."""
    counts = np.diff(source.cut_off)
    points = (counts > 0) & (counts % 2 == 0) & (source.cond_inside == 0)
    if len(keys):
        step = np.ones(len(keys), np.int64)
        step[:-1] = keys[1:] - keys[:-1]
        first = np.arange(len(keys)) - np.repeat(source.cut_off[:-1], counts)
        wrong = np.zeros(len(keys) + 1, np.int64)
        np.cumsum((first % 2 == 0) & (step != 1), out=wrong[1:])
        points &= wrong[source.cut_off[1:]] == wrong[source.cut_off[:-1]]
    result: npt.NDArray[np.bool_] = points
    return result


def _frequencies(source: Source, keys: Keys, points: npt.NDArray[np.bool_], sample: Sample) -> F64:
    """For each condition of points, the share of events that have one of them."""
    frequency = np.ones(len(points))
    chosen = np.flatnonzero(points)
    if not len(chosen):
        return frequency
    cuts, offsets = members(source.cut_off, chosen)
    values = keys[cuts[::2]]  # every other cut begins a point
    lines = np.repeat(source.cond_line[chosen], np.diff(offsets) // 2)
    shares = np.empty(len(values))
    order = np.argsort(lines, kind="stable")
    bounds = np.flatnonzero(np.diff(lines[order])) + 1
    for part in np.split(order, bounds):
        seen, counts = np.unique(sample.of(int(lines[part[0]])), return_counts=True)
        distinct = len(np.unique(values[part]))
        shares[part] = (_lookup(seen, counts, values[part]) + _PRIOR) / (
            sample.events + _PRIOR * distinct
        )
    sums = np.concatenate([[0.0], np.cumsum(shares)])
    frequency[chosen] = sums[offsets[1:] // 2] - sums[offsets[:-1] // 2]
    return frequency


def _lookup(seen: Keys, counts: npt.NDArray[np.int64], values: Keys) -> F64:
    if not len(seen):
        return np.zeros(len(values))
    at = np.minimum(np.searchsorted(seen, values), len(seen) - 1)
    return np.where(seen[at] == values, counts[at], 0).astype(float)


def _rare_lines(
    source: Source,
    cond_conj: npt.NDArray[np.int64],
    condition: I64,
    element_line: npt.NDArray[np.bool_],
    sample: Sample,
) -> I64:
    """For conjunctions not found yet, the line whose presence makes the fewest candidates."""
    line = np.full(len(condition), -1, np.int64)
    left = (condition[cond_conj] < 0) & ~element_line[source.cond_line]
    if not left.any():
        return line
    uses = np.bincount(source.cond_line[left], minlength=len(element_line))
    share = np.ones(len(element_line))
    if sample.events:
        seen = np.bincount(sample.lines, minlength=len(element_line))[: len(element_line)]
        share = np.minimum(1.0, (seen + 1.0) / (sample.events + 1.0))
    candidates = uses * share
    affordable = left & (
        candidates[source.cond_line] * PRESENCE_PER_SLOT < np.count_nonzero(condition < 0)
    )
    order = np.flatnonzero(affordable)
    order = order[np.argsort(-candidates[source.cond_line[order]], kind="stable")]
    line[cond_conj[order]] = source.cond_line[order]
    return line
