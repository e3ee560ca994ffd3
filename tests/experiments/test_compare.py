"""What agrees, what differs, and what cannot be decided."""

from __future__ import annotations

import pytest

from tidings.experiments.compare import (
    Expected,
    Summary,
    Verdict,
    compare,
    is_more,
    printed,
    student_bound,
)


def measured(mean: float, deviation: float | None, runs: int) -> Summary:
    return Summary(parameters={}, quantity="q", mean=mean, deviation=deviation, runs=runs)


def verdict(summary: Summary, value: float, tolerance: float = 0.0) -> Verdict | None:
    expected = Expected(value=value, source="somebody", tolerance=tolerance)
    return compare(summary, expected).verdict


def test_nothing_expected_has_no_verdict() -> None:
    assert compare(measured(1.0, 0.1, 5), None).verdict is None


def test_a_mean_within_the_error_agrees_and_one_beyond_it_differs() -> None:
    # Five runs: 6.62 standard errors of 1 / sqrt(5).
    assert verdict(measured(102.9, 1.0, 5), 100) is Verdict.AGREES
    assert verdict(measured(103.0, 1.0, 5), 100) is Verdict.DIFFERS
    assert verdict(measured(97.0, 1.0, 5), 100) is Verdict.DIFFERS


def test_rounding_of_the_expected_figure_adds_to_the_error() -> None:
    assert verdict(measured(103.0, 1.0, 5), 100, tolerance=0.5) is Verdict.AGREES


def test_one_run_is_decided_only_by_the_tolerance() -> None:
    assert verdict(measured(100.4, None, 1), 100, tolerance=0.5) is Verdict.AGREES
    assert verdict(measured(100.6, None, 1), 100, tolerance=0.5) is Verdict.UNDECIDED


def test_what_does_not_scatter_has_to_be_right() -> None:
    assert verdict(measured(106.0, 0.0, 5), 106) is Verdict.AGREES
    assert verdict(measured(106.1, 0.0, 5), 106) is Verdict.DIFFERS


def test_the_last_bit_of_a_sum_is_no_difference() -> None:
    assert verdict(measured(0.1 + 0.2, 0.0, 5), 0.3) is Verdict.AGREES


@pytest.mark.parametrize(("figure", "tolerance"), [("106", 0.5), ("3.73", 0.005), ("12.5", 0.05)])
def test_a_printed_figure_is_right_to_half_its_last_digit(figure: str, tolerance: float) -> None:
    assert printed(figure, "a table").tolerance == pytest.approx(tolerance)


def test_few_runs_say_less() -> None:
    bounds = [student_bound(runs) for runs in (2, 3, 5, 10, 100)]
    assert bounds == sorted(bounds, reverse=True)
    assert student_bound(1) == float("inf")
    assert student_bound(5) == pytest.approx(6.62, abs=0.01)  # from a table of the distribution


def test_one_mean_is_more_than_another_only_beyond_their_errors() -> None:
    low, high = measured(100, 1.0, 5), measured(110, 1.0, 5)
    assert is_more(high, low) is True
    assert is_more(low, high) is False
    assert is_more(measured(101, 1.0, 5), low) is None
    assert is_more(measured(200, None, 1), low) is None
