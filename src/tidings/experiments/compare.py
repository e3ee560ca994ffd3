"""Comparing: does what came out agree with what was expected?

Two sources of disagreement are no disagreement. The mean over a few runs scatters by its standard
error; the fewer the runs, the less is known of that error itself, and Student's distribution
accounts for that. And a figure printed with three digits may have been half a unit of the last
digit more or less.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from math import erf, hypot, inf, sqrt
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
    """The standard deviation of a single run; None if there was only one run."""
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
    """How far off the value may be for reasons of its own, such as having been rounded."""


class Verdict(Enum):
    """What a comparison says."""

    AGREES = "agrees"
    DIFFERS = "differs"
    UNDECIDED = "undecided"
    """There are too few runs to tell: the error of a single run is unknown."""


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """A result beside what was expected, if anything was."""

    summary: Summary
    expected: Expected | None = None
    verdict: Verdict | None = None


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """Something that a paper says in words, and whether our measurements say the same."""

    claim: str
    source: str
    holds: bool | None
    """Whether our figures say the same as the paper; None if they scatter too much to tell."""
    evidence: str
    """The measured figures that decide whether the claim holds."""
    why_not: str = ""

    @property
    def verdict(self) -> Verdict:
        """What the finding says, in the words that a comparison of figures uses."""
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
    """True if all answers are true, False if one is false, and otherwise None: unknown.

    >>> all_hold([True, True]), all_hold([True, None]), all_hold([None, False])
    (True, None, False)
    """
    found = set(answers)
    return False if False in found else None if None in found else True


def printed(figure: str, source: str) -> Expected:
    """A figure as a paper prints it: right to half a unit of its last digit.

    >>> printed("3.73", "Fig. 6.2").tolerance
    0.005
    """
    _, _, decimals = figure.partition(".")
    half = 0.5 * 10 ** -len(decimals)
    return Expected(value=float(figure), source=source, tolerance=half)


def student_bound(runs: int) -> float:
    """How many standard errors a mean over `runs` is off at most, with that `CONFIDENCE`.

    >>> [round(student_bound(n), 2) for n in (2, 3, 5, 10, 1000)]
    [235.8, 19.21, 6.62, 4.09, 3.01]
    """
    if runs < 2:
        return inf
    from scipy.stats import t  # here because it takes a second, and listing experiments should not

    return float(t.isf((1 - CONFIDENCE) / 2, runs - 1))
