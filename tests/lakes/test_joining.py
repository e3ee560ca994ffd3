from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from random import Random

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.events import Notification
from tidings.lakes.delta import LARGE, joints
from tidings.lakes.lake import Lake
from tidings.lakes.layout import Archived

DAY = date(2026, 11, 15)
NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)


def joined(sizes: list[int]) -> tuple[list[int], int]:
    """The files of a day after they were joined, and how much was written for that."""
    for joint in joints((DAY, size) for size in sizes):
        chosen = [size for size in sizes if size < joint.below]
        assert len(chosen) == joint.files > 1
        assert sum(chosen) <= joint.below or joint.below == LARGE
        return [sum(chosen), *(size for size in sizes if size >= joint.below)], sum(chosen)
    return sizes, 0


@given(st.lists(st.lists(st.integers(1, 1_000), min_size=1), min_size=1, max_size=20))
def test_each_file_that_is_left_is_larger_than_all_the_smaller_ones(
    rounds: list[list[int]],
) -> None:
    files: list[int] = []
    for sizes in rounds:
        files, _ = joined(sorted(files + sizes))
        assert joined(files) == (files, 0)
        assert all(size > sum(files[:n]) for n, size in enumerate(files))


def test_however_often_files_are_joined_little_is_written_again() -> None:
    files: list[int] = []
    written = 0
    for _ in range(1_024):
        files, more = joined(sorted([1] * 100 + files))
        written += more
    assert sum(files) == 102_400
    assert written <= 11 * sum(files)
    assert len(files) <= 11


def test_files_of_another_day_and_large_ones_are_left_alone() -> None:
    files = [(DAY, 5), (DAY, LARGE), (DAY, LARGE), (date(2026, 11, 16), 5)]
    assert joints(files) == []
    assert joints([*files, (DAY, 4), (DAY, 4)]) == [(DAY, 3, LARGE)]


def test_ticks_and_times_are_kept_as_what_they_rise_by(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    for tick in range(1, 4):
        event = Archived("paris", tick, NOON + timedelta(seconds=tick), Notification({"n": tick}))
        lake.append([event], writer="w", version=tick)
    for _ in ("as written", "as joined"):
        for file in lake.snapshot().files():
            group = pq.read_metadata(tmp_path / file).row_group(0)
            columns = {c["path_in_schema"]: c["encodings"] for c in group.to_dict()["columns"]}
            for name in ("tick", "time"):
                assert "DELTA_BINARY_PACKED" in columns[name]
                assert "RLE_DICTIONARY" not in columns[name]
        lake.compact()
    assert len(lake.snapshot().files()) == 1


@pytest.mark.slow
def test_what_was_joined_is_not_written_again_with_every_few_files(tmp_path: Path) -> None:
    lake, random = Lake(tmp_path), Random(3)
    for tick in range(1, 37):
        said = Notification({"noise": random.randbytes(20_000)})
        event = Archived("paris", tick, NOON + timedelta(seconds=tick), said)
        lake.append([event], writer="w", version=tick)
        if tick % 3 == 0:
            lake.compact()
    live = [(tmp_path / name).stat().st_size for name in lake.snapshot().files()]
    ever = [path.stat().st_size for path in tmp_path.rglob("*.parquet")]
    assert len(live) < 6
    assert sum(ever) < 6 * sum(live)  # all of it each time would be 7.5
    assert [e.tick for e in lake.events()] == list(range(1, 37))
