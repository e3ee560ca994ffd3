"""Rows that wait to be published: read as they were written, a piece at a time."""

from __future__ import annotations

import tracemalloc
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tidings.events import Notification, TidingsError
from tidings.spark.format.staging import Row, Staging

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)


def staged(folder: Path, count: int, size: int) -> tuple[Staging, str]:
    staging = Staging(folder, "query")
    rows = (Row(0, n, Notification({"n": n, "text": "x" * size}), {}) for n in range(count))
    file, found, largest = staging.write(rows)
    assert found == count
    assert size < largest < size + 100 or count == 0
    return staging, file


@pytest.mark.parametrize(("count", "size"), [(0, 1), (1, 1), (2_500, 1), (30, 1 << 20)])
def test_what_was_written_is_read_in_order_and_from_any_place(
    tmp_path: Path, count: int, size: int
) -> None:
    staging, file = staged(tmp_path, count, size)
    for skip in (0, 1, 17, 2_000):
        read = [e.notification["n"] for e in staging.events([file, file], skip=skip)]
        assert read == [*range(count), *range(count)][skip:]


@pytest.mark.parametrize("keys", [({}, {}), ({"id": "a", "at": NOON}, {"id": None, "at": None})])
def test_a_row_keeps_its_task_and_what_it_is_known_by(
    tmp_path: Path, keys: tuple[dict[str, Any], ...]
) -> None:
    staging = Staging(tmp_path, "query")
    rows = [Row(task, n, Notification({}), keys[n % 2]) for task in (7, 2) for n in range(1_500)]
    files = [staging.write(iter(rows[at : at + 1_500]))[0] for at in (0, 1_500)]
    assert list(staging.events(files)) == rows


def test_large_rows_are_in_memory_a_few_at_a_time(tmp_path: Path) -> None:
    staging, file = staged(tmp_path, 100, 1 << 20)
    tracemalloc.start()
    try:
        assert sum(1 for _ in staging.events([file])) == 100
        assert tracemalloc.get_traced_memory()[1] < 64 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("left", [2, 100])
def test_a_file_that_ends_too_early_is_said(tmp_path: Path, left: int) -> None:
    staging, file = staged(tmp_path, 20, 10)
    path = tmp_path / "query" / "rows" / file
    path.write_bytes(path.read_bytes()[:left])
    with pytest.raises(TidingsError, match="ends within a record"):
        list(staging.events([file]))


def test_a_file_that_is_elsewhere_is_said(tmp_path: Path) -> None:
    with pytest.raises(TidingsError, match="is not there: the option staging must be a folder"):
        list(Staging(tmp_path, "query").events(["none.rows"]))
