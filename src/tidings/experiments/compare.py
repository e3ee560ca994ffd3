"""Comparing: does what came out agree with what was expected?

Two sources of disagreement are no disagreement. A mean over few runs scatters: with n runs, by
the standard error, and the fewer they are, the less is known of that error itself, which is what
Student's distribution accounts for. And a figure printed with three digits may have been half a
unit of the last digit more or less.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from math import atan, cos, erf, hypot, inf, nan, pi, sin, sqrt
from typing import Any, Final

import msgspec

CONFIDENCE: Final = erf(3 / sqrt(2))
"""How often a right figure is found to agree: as often as a normal one is within 3 sigma."""


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """One quantity at one point, over all runs."""

    parameters: Mapping[str, Any]
    quantity: str
    mean: float
    deviation: float | None
    """The standard deviation of a single run; unknown of one run alone."""
    runs: int

    @property
    def error(self) -> float | None:
        """The standard error of the mean."""
        return None if self.deviation is None else self.deviation / sqrt(self.runs)


class Expected(msgspec.Struct, frozen=True, kw_only=True):
    """What should come out, according to whom."""

    value: float
    source: str
    tolerance: float = 0.0
    """How far off a figure may be for reasons of its own, such as having been rounded."""
    why_not: str = ""
    """Why ours may be different, where that is known."""


class Verdict(Enum):
    """What a comparison says."""

    AGREES = "agrees"
    DIFFERS = "differs"
    UNDECIDED = "undecided"
    """Too few runs to tell: one alone has no known error at all."""


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """A result beside what was expected, if anything was."""

    summary: Summary
    expected: Expected | None = None
    verdict: Verdict | None = None


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """Something a paper says in words, and whether ours says the same."""

    claim: str
    source: str
    holds: bool | None
    """None if the figures scatter too much to tell."""
    evidence: str
    """The measured figures that decide it."""
    why_not: str = ""

    @property
    def verdict(self) -> Verdict:
        """As of a figure."""
        if self.holds is None:
            return Verdict.UNDECIDED
        return Verdict.AGREES if self.holds else Verdict.DIFFERS


def compare(summary: Summary, expected: Expected | None) -> Comparison:
    """Hold a result against what was expected of it."""
    verdict = None if expected is None else _verdict(summary, expected)
    return Comparison(summary=summary, expected=expected, verdict=verdict)


def _verdict(summary: Summary, expected: Expected) -> Verdict:
    off = abs(summary.mean - expected.value)
    slack = expected.tolerance + 1e-9 * abs(expected.value)  # sums of floats are not exact
    if off <= slack:
        return Verdict.AGREES
    if summary.error is None:
        return Verdict.UNDECIDED
    within = off <= slack + student_bound(summary.runs) * summary.error
    return Verdict.AGREES if within else Verdict.DIFFERS


def is_more(one: Summary, other: Summary) -> bool | None:
    """Whether the mean of one is above that of another; None if chance alone may explain it."""
    if one.error is None or other.error is None:
        return None
    bound = student_bound(min(one.runs, other.runs)) * hypot(one.error, other.error)
    difference = one.mean - other.mean
    return difference > 0 if abs(difference) > bound else None


def all_hold(answers: Iterable[bool | None]) -> bool | None:
    """True if all are; False if one is false; else nobody knows.

    >>> all_hold([True, True]), all_hold([True, None]), all_hold([None, False])
    (True, None, False)
    """
    found = set(answers)
    return False if False in found else None if None in found else True


def printed(figure: str, source: str, *, scale: float = 1.0, why_not: str = "") -> Expected:
    """A figure as a paper prints it: right to half a unit of its last digit.

    >>> printed("3.73", "Fig. 6.2").tolerance
    0.005
    >>> printed("106", "Fig. 6.2", scale=670).tolerance
    335.0
    """
    _, _, decimals = figure.partition(".")
    half = 0.5 * 10 ** -len(decimals)
    return Expected(
        value=float(figure) * scale, source=source, tolerance=half * scale, why_not=why_not
    )


def student_bound(runs: int) -> float:
    """So many standard errors a mean over `runs` is off at most, with that `CONFIDENCE`.

    >>> [round(student_bound(n), 2) for n in (2, 3, 5, 10, 1000)]
    [235.8, 19.21, 6.62, 4.09, 3.01]
    """
    if runs < 2:
        return inf if runs == 1 else nan
    low, high = 0.0, 1.0
    while _within(high, runs - 1) < CONFIDENCE:
        low, high = high, 2 * high
    for _ in range(60):
        middle = (low + high) / 2
        if _within(middle, runs - 1) < CONFIDENCE:
            low = middle
        else:
            high = middle
    return high


def _within(bound: float, freedom: int) -> float:
    """The probability that Student's t is not further from 0: the finite sums for whole degrees
    of freedom (Abramowitz and Stegun 26.7.3 and 26.7.4)."""
    angle = atan(bound / sqrt(freedom))
    square = cos(angle) ** 2
    if freedom % 2:
        term = total = cos(angle) if freedom > 1 else 0.0
        for k in range(3, freedom - 1, 2):
            term *= square * (k - 1) / k
            total += term
        return 2 / pi * (angle + sin(angle) * total)
    term = total = 1.0
    for k in range(2, freedom - 1, 2):
        term *= square * (k - 1) / k
        total += term
    return sin(angle) * total
