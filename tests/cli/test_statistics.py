"""`tidings pipeline statistics`, without Spark: what it writes, and what it says."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pyarrow.parquet as parquet
import pytest
from matplotlib import pyplot

from tests.cli.conftest import Run
from tests.network.brokers import free_ports
from tidings.cli.distributions import figure
from tidings.cli.statistics import tell_statistics, wanted_by, write
from tidings.client import Login
from tidings.events import Filter, Notification, TidingsError
from tidings.experiments.plots import STYLE
from tidings.lakes.lake import Lake
from tidings.lakes.layout import Archived
from tidings.routing import Statistics
from tidings.routing.statistics import Attribute, Distribution
from tidings.spark.bulk.registrations import cancellation, registration
from tidings.spark.statistics.statistics import statistics

FIRST = datetime.min.replace(tzinfo=UTC)
NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)
LAST = datetime.max.replace(tzinfo=UTC)
FIRST_TEXT = "0001-01-01 00:00:00"
NOON_TEXT = "2026-11-16 12:00:00"
LAST_TEXT = "9999-12-31 23:59:59"
FILTERS = """\
paris/low\tprice < 10
paris/high\tprice > 20 AND symbol = 'A'
rome/all\tsymbol = 'A'
"""


@pytest.mark.slow
def test_it_writes_a_report_tables_and_a_picture(tmp_path: Path, tidings: Run) -> None:
    quotes = [Notification({"symbol": "AB"[n % 2], "price": n % 40}) for n in range(400)]
    events = [Archived("b", n, NOON, quote) for n, quote in enumerate(quotes, start=1)]
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


def computed(folder: Path, *, filters: Path | None, publish: str | None = None) -> set[str]:
    """The names of what is in the folder `out` after computing without Spark."""
    tell_statistics(
        folder / "lake",
        folder / "out",
        filters=filters,
        publish=None if publish is None else Login(publish, timeout=0.0),
        master="none",
    )
    return {path.name for path in (folder / "out").iterdir()}


def test_what_an_earlier_run_has_written_does_not_stay(tmp_path: Path) -> None:
    Lake(tmp_path / "lake").append([Archived("b", 1, NOON, Notification({"n": 1}))], "test", 1)
    (tmp_path / "filters.tsv").write_text(FILTERS)
    some = computed(tmp_path, filters=tmp_path / "filters.tsv")
    tables = {"filters.parquet", "mergers.parquet", "overlaps.parquet"}
    assert computed(tmp_path, filters=None) == some - tables


def test_nothing_is_computed_to_be_published_where_nobody_is(tmp_path: Path) -> None:
    Lake(tmp_path / "lake").append([Archived("b", 1, NOON, Notification({"n": 1}))], "test", 1)
    (port,) = free_ports(1)
    for url, told in ((f"tidings://127.0.0.1:{port}", "nobody listens"), ("paris", "no broker's")):
        with pytest.raises(TidingsError, match=told):
            computed(tmp_path, filters=None, publish=url)
        assert not (tmp_path / "out").exists()


def test_names_of_bulk_subscriptions_name_no_brokers(tmp_path: Path) -> None:
    Lake(tmp_path / "lake").append([Archived("b", 1, NOON, Notification({"n": 1}))], "test", 1)
    said = [registration(f"{user}/alerts", "n = 1") for user in ("alice", "bob")]
    events = [Archived("b", n, NOON, each) for n, each in enumerate(said, start=1)]
    Lake(tmp_path / "bulk" / "registrations").append(events, "test", 1)
    computed(tmp_path, filters=tmp_path / "bulk")
    filters = parquet.read_table(tmp_path / "out" / "filters.parquet").to_pylist()
    assert [(row["key"], row["broker"]) for row in filters] == [
        ("alice/alerts", ""),
        ("bob/alerts", ""),
    ]
    assert parquet.read_table(tmp_path / "out" / "overlaps.parquet").num_rows == 0


def told(folder: Path, events: list[dict[str, Any]]) -> str:
    """The report on a lake of these events, which is written with a picture."""
    archived = [Archived("b", n, NOON, Notification(e)) for n, e in enumerate(events, start=1)]
    lake = Lake(folder / "lake")
    lake.append(archived, "test", 1)
    out = folder / "out"
    out.mkdir()
    write(statistics(None, lake), out, "a command")
    ElementTree.parse(out / "distributions.svg")
    return (out / "report.md").read_text()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("times", "spread"),
    [
        ([FIRST, NOON, LAST], f"{FIRST_TEXT} … {NOON_TEXT} … {LAST_TEXT}"),
        ([NOON, LAST, LAST], f"{NOON_TEXT} … {LAST_TEXT} … {LAST_TEXT}"),
        ([FIRST], f"{FIRST_TEXT} … {FIRST_TEXT} … {FIRST_TEXT}"),
        ([LAST], f"{LAST_TEXT} … {LAST_TEXT} … {LAST_TEXT}"),
        ([NOON, LAST.replace(year=9990)], f"{NOON_TEXT} … {NOON_TEXT} … 9991-01-01 00:00:00"),
    ],
)
def test_times_that_stand_for_always_and_never_are_told(
    tmp_path: Path, times: list[datetime], spread: str
) -> None:
    assert f"| at | 100.0% |  | {spread} |" in told(tmp_path, [{"at": time} for time in times])


def test_whatever_names_and_strings_are_they_do_not_break_the_report(tmp_path: Path) -> None:
    odd = ["a\nb", "c|d", "$5_$", "nul\0 株", "e\r\n\u2028f"]
    report = told(tmp_path, [{"note": text, "$_{$ name\n2": 1.0} for text in odd])
    rows = [line for line in report.splitlines() if line.startswith("|")]
    assert len(rows) == 4, "a header, a line, two attributes"
    assert {row.count("|") for row in rows} == {6}
    assert "a·b 20.0%" in report


def test_strings_that_begin_alike_have_bars_of_their_own(tmp_path: Path) -> None:
    told(tmp_path, [{"note": f"{'alike' * 9}{n}"} for n in range(3)])
    picture = ElementTree.parse(tmp_path / "out" / "distributions.svg")
    assert [text for text in picture.getroot().itertext() if "alike" in text] == [
        "alike" * 3 + "…"
    ] * 3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("first", "last"),
    [
        *[(100_000, 900_000), (-250_000, -150_000), (-1e6, 1e6), (1e15, 1e15 + 5), (5, 5)],
        *[(100.001, 100.009), (1 / 3, 1 / 3 + 1e-5), (12_345.5, 12_347.25), (1e299, 9e299)],
    ],
)
def test_the_labels_of_numbers_do_not_overlap(first: float, last: float) -> None:
    quantiles = tuple(first + (last - first) * n / 64 for n in range(65))
    some = {name: Attribute(1.0, number=Distribution(1.0, quantiles)) for name in "abc"}
    with pyplot.rc_context(STYLE):
        drawn = figure(Statistics(100, some))
        drawn.canvas.draw()
        for place in drawn.axes:
            boxes = [label.get_window_extent() for label in place.get_xticklabels()]
            assert not any(one.overlaps(other) for one, other in pairwise(boxes))
        pyplot.close(drawn)


@pytest.mark.slow
def test_where_there_is_no_lake_it_says_so_and_makes_none(tmp_path: Path, tidings: Run) -> None:
    done = tidings("pipeline", "statistics", "--lake", str(tmp_path / "x"), "--out", str(tmp_path))
    assert done.returncode == 2
    assert "there is no lake here" in done.stderr
    assert not (tmp_path / "x").exists()


def test_bulk_subscriptions_are_filters_too(tmp_path: Path) -> None:
    said = [
        registration("paris/1", "price < 10"),
        registration("paris/2", "price > 10"),
        cancellation("paris/1"),
    ]
    events = [Archived("b", n, NOON, each) for n, each in enumerate(said, start=1)]
    Lake(tmp_path / "deliver" / "registrations").append(events, "test", 1)
    for folder in (tmp_path / "deliver" / "registrations", tmp_path / "deliver"):
        assert wanted_by(folder) == {"paris/2": Filter.parse("price > 10")}
