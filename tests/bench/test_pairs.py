"""What pairs of runs of a benchmark tell."""

import pytest

from bench.pairs import COSTS, rows, verdict


@pytest.mark.parametrize(
    ("ratios", "expected"),
    [
        ([1.1, 1.03, 1.2, 1.04, 1.05], "slower"),
        ([0.9, 0.97, 0.8, 0.96, 0.95], "faster"),
        ([1.1, 1.03, 1.2, 0.99, 1.05], "noise"),  # one of five disagrees
        ([1.01, 1.011, 1.012, 1.013, 1.014], "noise"),  # nobody would notice
        ([1.3, 1.3, 1.3, 1.3], "noise"),  # too few to tell
        ([1.1] * 9 + [0.9], "slower"),
        ([1.1] * 8 + [0.9] * 2, "noise"),
        ([1.0] * 5, "noise"),
    ],
)
def test_a_figure_is_slower_if_nearly_all_pairs_say_so(ratios: list[float], expected: str) -> None:
    assert verdict(ratios) == expected


def test_only_runs_of_one_pair_are_compared() -> None:
    """The machine became twice as slow with each pair; here is always 10 % slower than there."""
    pairs = [({"event": 1.1 * 2**n}, {"event": 1.0 * 2**n}) for n in range(5)]
    assert list(rows(pairs)) == [["event", "4", "4.4", "1.100", "1.100 … 1.100", "slower"]]


def test_a_figure_that_a_run_lacks_is_left_out() -> None:
    pairs = [({"old": 1.0, "new": 1.0}, {"old": 1.0})] * 5
    assert [row[0] for row in rows(pairs)] == ["old"]


def test_a_rate_is_turned_over_so_that_less_is_better() -> None:
    assert dict(COSTS["simulation"]({"rates": {"simple": 4.0}})) == {"simple: message": 0.25}
