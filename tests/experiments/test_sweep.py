"""Sweeps on a real Spark: what is measured, counted, summarised, reported, and what fails."""

from __future__ import annotations

from pathlib import Path
from statistics import mean, stdev
from typing import Any

import pyarrow.parquet as parquet
import pytest

from tests.experiments.coins import Breaks, Draw, Sets
from tidings.experiments import conduct
from tidings.experiments.compare import Verdict
from tidings.experiments.experiment import repeated, seed_of
from tidings.experiments.sweep import ExperimentError, summarise, sweep

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("sweep")]

SETS = Sets()


def test_every_point_is_measured_once_with_its_own_seed(spark: Any) -> None:
    points = repeated(SETS.points(full=True), 3)
    told: list[int] = []
    found = sweep(SETS, points, spark, told.append)
    rows = found.measurements.to_pylist()
    assert found.failures == ()
    assert [Draw(clients=r["clients"], stocks=r["stocks"], run=r["run"]) for r in rows] == points
    for row, point in zip(rows, points, strict=True):
        assert row["seed"] == seed_of("sets", point)
        assert row["value"] == SETS.measure(point, row["seed"])["entries"]
        assert row["seconds"] >= 0
    assert told == sorted(told)
    assert told[-1] == len(points)


def test_spark_summarises_as_the_definitions_say(spark: Any) -> None:
    points = repeated(SETS.points(full=False), 4)
    measurements = sweep(SETS, points, spark).measurements
    summaries = summarise(measurements, spark)
    assert [s.parameters for s in summaries] == [
        {"clients": 1, "stocks": 40},
        {"clients": 5, "stocks": 40},
    ]
    for summary in summaries:
        values = [
            row["value"]
            for row in measurements.to_pylist()
            if row["clients"] == summary.parameters["clients"]
        ]
        assert summary.runs == 4
        assert summary.mean == pytest.approx(mean(values))
        assert summary.deviation == pytest.approx(stdev(values))


def test_one_run_has_no_deviation(spark: Any) -> None:
    measurements = sweep(SETS, repeated(SETS.points(full=False), 1), spark).measurements
    assert {s.deviation for s in summarise(measurements, spark)} == {None}


def test_a_whole_experiment_writes_what_it_found(spark: Any, tmp_path: Path) -> None:
    outcome = conduct(SETS, tmp_path / "sets", runs=6)
    assert {c.verdict for c in outcome.comparisons} == {Verdict.AGREES}
    assert [finding.holds for finding in outcome.findings] == [True]
    assert sorted(path.name for path in outcome.files) == [
        "measurements.parquet",
        "report.md",
        "sets.png",
        "sets.svg",
    ]
    table = parquet.read_table(tmp_path / "sets" / "measurements.parquet")
    assert table.num_rows == 12
    assert table.column_names == [
        *("clients", "stocks", "run", "seed", "quantity", "value", "seconds"),
    ]
    report = (tmp_path / "sets" / "report.md").read_text(encoding="utf-8")
    assert "`tidings experiment sets --runs 6`" in report
    assert "2 of 2 expected figures agree" in report
    assert report.count("| agrees |") == 2


def test_the_same_experiment_twice_gives_the_same_figures_and_plots(
    spark: Any, tmp_path: Path
) -> None:
    once, again = (conduct(SETS, tmp_path / name, runs=2) for name in ("once", "again"))
    assert once.comparisons == again.comparisons
    first, second = ((tmp_path / name / "sets.svg").read_bytes() for name in ("once", "again"))
    assert first == second


def test_a_point_that_fails_is_named_and_the_others_are_kept(spark: Any, tmp_path: Path) -> None:
    with pytest.raises(ExperimentError) as caught:
        conduct(Breaks(), tmp_path, runs=2)
    assert str(caught.value) == (
        "the point clients=5, stocks=40, run=0 failed (1 more failed): ValueError: five is too many"
    )
    assert "in measure" in (tmp_path / "failures.txt").read_text(encoding="utf-8")
    assert parquet.read_table(tmp_path / "measurements.parquet")["clients"].to_pylist() == [1, 1]
