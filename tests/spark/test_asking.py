"""Rows are asked about a few at a time, so that memory is bounded by matches; without Spark."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from tidings.events import Filter, TidingsError
from tidings.lakes.grouping import Grouping
from tidings.matching.named import NamedIndex, lists
from tidings.spark.matching import asking
from tidings.spark.matching.asking import Asking

COLUMNS = {"x": {"integer": "x"}}
ROWS = pa.record_batch({"x": pa.array(range(3_000)), "rest": pa.nulls(3_000, pa.string())})


def pieces(filters: dict[str, Filter]) -> list[tuple[int, int]]:
    """How many rows were asked about at a time, and how many matches they had."""
    asked = Asking(NamedIndex(filters), Grouping(["x"], COLUMNS), "string").pieces(ROWS)
    return [(rows.num_rows, len(numbers)) for rows, _, numbers, _ in asked]


@pytest.mark.slow
@pytest.mark.parametrize("most", [1_000, 200])
def test_so_many_matches_are_held_at_a_time(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr(asking, "_PAIRS", most)
    found = pieces({f"k{n}": Filter.parse(f"x >= -{n}") for n in range(150)})
    assert sum(rows for rows, _ in found) == ROWS.num_rows
    assert sum(pairs for _, pairs in found) == 150 * ROWS.num_rows
    assert max(pairs for _, pairs in found) <= most


@pytest.mark.slow
def test_more_filters_than_that_are_asked_about_a_row_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(asking, "_PAIRS", 100)
    found = pieces({f"k{n}": Filter.parse(f"x >= -{n}") for n in range(150)})
    assert found == [(1, 150)] * ROWS.num_rows


def test_where_little_matches_there_are_soon_many_rows_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(asking, "_PAIRS", 1_000)
    found = pieces({f"k{n}": Filter.parse(f"x = {n}") for n in range(150)})
    assert found[0][0] <= 1_000 // 150
    assert len(found) < 10


def test_more_than_a_list_can_hold_is_refused() -> None:
    counts, numbers, names = np.array([2**30] * 4), np.zeros(0, np.int64), pa.array(["a"])
    with pytest.raises(TidingsError, match="4,294,967,296 matches"):
        lists(counts, numbers, names)
