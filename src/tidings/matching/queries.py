"""Queries: how the filters of a segment relate to another filter.

Covered and overlapping filters are found by comparing intervals in bulk. Where that decides, it
decides as the algebra would; where it doesn't (several intervals, patterns, sets, ends between
neighbouring floats), the algebra itself is asked. So each comparison has three outcomes.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tidings.events import Conjunction, Filter
from tidings.events.constraint import Constraint
from tidings.events.intervals import Intervals
from tidings.events.strings import Strings
from tidings.matching.kernels import HIGHEST, LOWEST
from tidings.matching.segment import Segment

NO: Final = 0
PERHAPS: Final = 1
YES: Final = 2

Outcomes = npt.NDArray[np.int8]
I64 = npt.NDArray[np.int64]


def covered(segment: Segment, filter: Filter) -> list[int]:
    """The rows whose filters `filter` covers; dead ones too."""
    best = np.full(len(segment.source.conj_row), NO, np.int8)
    for conjunction in filter.conjunctions:
        best = np.maximum(best, _Comparison(segment, conjunction).within())
    outcome = np.full(segment.source.rows, YES, np.int8)  # what admits nothing is covered
    np.minimum.at(outcome, segment.source.conj_row, best)
    return _decided(segment, outcome, filter.covers)


def overlapping(segment: Segment, filter: Filter) -> list[int]:
    """The rows whose filters overlap `filter`; dead ones too."""
    best = np.full(len(segment.source.conj_row), NO, np.int8)
    for conjunction in filter.conjunctions:
        best = np.maximum(best, _Comparison(segment, conjunction).overlap())
    outcome = np.full(segment.source.rows, NO, np.int8)
    np.maximum.at(outcome, segment.source.conj_row, best)
    return _decided(segment, outcome, filter.overlaps)


def equal(segment: Segment, filter: Filter) -> list[int]:
    """The rows whose filters are equal to `filter`; dead ones too."""
    same = segment.source.hashes == hash(filter)
    return _decided(segment, same.astype(np.int8) * PERHAPS, filter.__eq__)


def mergeable(segment: Segment, filter: Filter) -> list[int]:
    """The rows whose filters have a merger with `filter`; dead ones too.

    Conjunctions merge if one covers the other or if they differ in one attribute at most.
    """
    source = segment.source
    outcome = np.full(source.rows, PERHAPS, np.int8)
    single = np.bincount(source.conj_row, minlength=source.rows) == 1
    if len(filter.conjunctions) == 1:
        comparison = _Comparison(segment, filter.conjunctions[0])
        near = np.maximum(comparison.within(), comparison.around())
        near = np.maximum(near, comparison.differences() <= 1)
        by_row = np.zeros(source.rows, np.int8)
        np.maximum.at(by_row, source.conj_row, near)
        outcome[single] = np.minimum(by_row[single], PERHAPS)
    return _decided(segment, outcome, lambda mine: filter.merge(mine) is not None)


def _decided(segment: Segment, outcome: Outcomes, decide: Any) -> list[int]:
    found: list[int] = np.flatnonzero(outcome == YES).tolist()
    unsure = np.flatnonzero(outcome == PERHAPS).tolist()
    return found + [row for row in unsure if decide(segment.source.filter(row, segment.lines))]


class _Comparison:
    """One conjunction compared with all conjunctions of a segment, attribute by attribute."""

    def __init__(self, segment: Segment, conjunction: Conjunction) -> None:
        self.segment = segment
        self.source = segment.source
        self.conjunction = conjunction
        self.size = len(self.source.conj_row)
        self.cond_conj = np.repeat(np.arange(self.size), np.diff(self.source.cond_off))
        lows, highs, self.simple = segment.spans()
        self.lows, self.highs = lows, highs

    def within(self) -> Outcomes:
        """Whether the conjunction covers each of the segment's."""
        outcome = np.full(self.size, YES, np.int8)
        for name, constraint in self.conjunction.constraints.items():
            answer = np.full(self.size, NO, np.int8)  # nothing said of it is too much
            for conds, asked in self._conditions(name, constraint):
                if asked is None:
                    answer[self.cond_conj[conds]] = PERHAPS
                    continue
                low, high = asked
                touches = (self.lows[conds] >= low) & (self.highs[conds] <= high)
                surely = (self.lows[conds] > low) | (low == LOWEST)
                surely &= (self.highs[conds] < high) | (high == HIGHEST)
                state = np.where(touches, np.where(surely, YES, PERHAPS), NO)
                answer[self.cond_conj[conds]] = np.where(self.simple[conds], state, PERHAPS)
            answer[self._with_rest(name)] = PERHAPS
            outcome = np.minimum(outcome, answer)
        return outcome

    def around(self) -> Outcomes:
        """Whether each of the segment's may cover the conjunction."""
        named = set(self.conjunction.constraints)
        wrong = np.zeros(self.size, bool)
        foreign = [line.number for line in self.segment.lines.lines if line.attribute not in named]
        wrong[self.cond_conj[np.isin(self.source.cond_line, foreign)]] = True
        for conj, rest in self.source.rest.items():
            wrong[conj] |= any(name not in named for name, _ in rest)
        for name, constraint in self.conjunction.constraints.items():
            for conds, asked in self._conditions(name, constraint):
                if asked is not None:
                    low, high = asked
                    outside = (self.lows[conds] > low) | (self.highs[conds] < high)
                    wrong[self.cond_conj[conds[outside & self.simple[conds]]]] = True
        return np.where(wrong, NO, PERHAPS).astype(np.int8)

    def overlap(self) -> Outcomes:
        """Whether the conjunction overlaps each of the segment's."""
        outcome = np.full(self.size, YES, np.int8)
        for name, constraint in self.conjunction.constraints.items():
            answer = np.full(self.size, YES, np.int8)
            for conds, asked in self._conditions(name, constraint):
                if asked is None:
                    answer[self.cond_conj[conds]] = PERHAPS
                    continue
                low, high = asked
                shared = np.minimum(self.highs[conds], high)
                begin = np.maximum(self.lows[conds], low)
                state = np.where(begin < shared, YES, np.where(begin == shared, PERHAPS, NO))
                answer[self.cond_conj[conds]] = np.where(self.simple[conds], state, PERHAPS)
            for conds in self._other_domains(name, constraint):
                answer[self.cond_conj[conds]] = NO
            answer[self._with_rest(name)] = PERHAPS
            outcome = np.minimum(outcome, answer)
        return outcome

    def differences(self) -> npt.NDArray[np.int64]:
        """In how many attributes each of the segment's surely differs from the conjunction."""
        count = np.full(self.size, len(self.conjunction.constraints))
        for name, constraint in self.conjunction.constraints.items():
            same = np.zeros(self.size, bool)
            for conds, asked in self._conditions(name, constraint):
                if asked is None:
                    same[self.cond_conj[conds]] = True
                    continue
                low, high = asked
                # "after 'a'" and "before 'a\\0'" are one place, but may have neighbouring keys
                like = (np.abs(self.lows[conds] - low) <= 1) & (self.highs[conds] == high)
                same[self.cond_conj[conds]] = like | ~self.simple[conds]
            same[self._with_rest(name)] = True
            count -= same
        return count

    def _conditions(
        self, name: str, constraint: Constraint
    ) -> list[tuple[I64, tuple[int, int] | None]]:
        """The conditions on an attribute, with the span asked for where it is a single one."""
        groups: list[tuple[I64, tuple[int, int] | None]] = []
        asked = self._asked(name, constraint)
        for line in set(self.segment.lines.by_attribute.get(name, {}).values()):
            conds = np.flatnonzero(self.source.cond_line == line.number)
            if asked is None or line.elements:
                groups.append((conds, None))
            elif line.domain in constraint.parts:
                groups.append((conds, asked))
        return groups

    def _other_domains(self, name: str, constraint: Constraint) -> list[I64]:
        if self._asked(name, constraint) is None:
            return []
        return [
            np.flatnonzero(self.source.cond_line == line.number)
            for line in set(self.segment.lines.by_attribute.get(name, {}).values())
            if not line.elements and line.domain not in constraint.parts
        ]

    def _asked(self, name: str, constraint: Constraint) -> tuple[int, int] | None:
        """The constraint as one span of keys of the segment, if it is that."""
        if constraint.absent or constraint.others or len(constraint.parts) != 1:
            return None
        part: Any = next(iter(constraint.parts.values()))
        if isinstance(part, Strings):
            if part.passing or part.failing:
                return None
            part = part.intervals
        if not isinstance(part, Intervals):
            return None
        spans = list(part.spans())
        return self.segment.span(name, spans[0]) if len(spans) == 1 else None

    def _with_rest(self, name: str) -> list[int]:
        return [c for c, rest in self.source.rest.items() if any(name == n for n, _ in rest)]
