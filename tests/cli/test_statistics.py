"""`tidings pipeline statistics`, without Spark: what it writes, and what it says."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pyarrow.parquet as parquet
import pytest

from tests.cli.conftest import Run
from tidings.cli.statistics import wanted_by
from tidings.events import Filter, Notification
from tidings.routing import Statistics
from tidings.spark.bulk.registrations import cancellation, registration
from tidings.spark.lakes.lake import Lake
from tidings.spark.lakes.layout import Archived

FILTERS = """\
paris/low\tprice < 10
paris/high\tprice > 20 AND symbol = 'A'
rome/all\tsymbol = 'A'
"""


@pytest.mark.slow
def test_it_writes_a_report_tables_and_a_picture(tmp_path: Path, tidings: Run) -> None:
    noon = datetime(2026, 11, 16, 12, tzinfo=UTC)
    quotes = [Notification({"symbol": "AB"[n % 2], "price": n % 40}) for n in range(400)]
    events = [Archived("b", n, noon, quote) for n, quote in enumerate(quotes, start=1)]
    Lake(tmp_path / "lake").append(events, "test", 1)
    (tmp_path / "filters.tsv").write_text(FILTERS)
    out = tmp_path / "out"
    done = tidings(
        *("pipeline", "statistics", "--lake", str(tmp_path / "lake"), "--out", str(out)),
        *("--filters", str(tmp_path / "filters.tsv"), "--master", "none"),
    )
    assert done.returncode == 0, done.stderr
    assert "400 events, 2 attributes, 3 filters" in done.stderr
    named = {Path(line).name for line in done.stdout.splitlines()}
    assert named == {path.name for path in out.iterdir()}
    learnt = Statistics.parse((out / "statistics.json").read_text())
    assert learnt.attributes["symbol"].strings == {"A": 0.5, "B": 0.5}
    assert json.loads((out / "statistics.json").read_text())["events"] == 400
    shares = {
        row["key"]: row["share"] for row in parquet.read_table(out / "filters.parquet").to_pylist()
    }
    assert shares == {"paris/low": 0.25, "paris/high": 0.225, "rome/all": 0.5}
    (overlap,) = parquet.read_table(out / "overlaps.parquet").to_pylist()
    assert (overlap["one"], overlap["other"], overlap["events"]) == ("paris", "rome", 140)
    report = (out / "report.md").read_text()
    assert "| paris | rome | 140 |" in report
    assert "![Distributions](distributions.svg)" in report
    assert (out / "distributions.svg").read_text().startswith("<?xml")


def test_where_there_is_no_lake_it_says_so_and_makes_none(tmp_path: Path, tidings: Run) -> None:
    done = tidings("pipeline", "statistics", "--lake", str(tmp_path / "x"), "--out", str(tmp_path))
    assert done.returncode == 2
    assert "there is no lake here" in done.stderr
    assert not (tmp_path / "x").exists()


def test_bulk_subscriptions_are_filters_too(tmp_path: Path) -> None:
    noon = datetime(2026, 11, 16, 12, tzinfo=UTC)
    said = [
        registration("paris/1", "price < 10"),
        registration("paris/2", "price > 10"),
        cancellation("paris/1"),
    ]
    events = [Archived("b", n, noon, each) for n, each in enumerate(said, start=1)]
    Lake(tmp_path / "bulk").append(events, "test", 1)
    assert wanted_by(tmp_path / "bulk") == {"paris/2": Filter.parse("price > 10")}
