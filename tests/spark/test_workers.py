"""Processes of Spark's after a task of ours."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import pytest

from tests.lakes.filled import ODD, fill
from tidings.events import Filter
from tidings.spark.matching.folder import MatchFolder

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("session")]


def test_what_a_task_has_loaded_is_not_searched_for_garbage_after_each(
    spark: Any, tmp_path: Path
) -> None:
    fill(tmp_path / "lake", ODD)
    MatchFolder(tmp_path / "lake", {"low": Filter.parse("x < 5")}, tmp_path / "out").run(spark)
    # The match was one task of one of the processes, whichever that was.
    held = spark.sparkContext.parallelize(range(8), 8).map(lambda _: gc.get_freeze_count())
    assert held.max() > 10_000
