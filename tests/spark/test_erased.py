"""What was erased comes by no way of the pipeline: from logs, from lakes, or as matches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tidings
from tests.client.brokers import BrokerProcess
from tests.lakes.filled import ODD, fill
from tests.spark.brokers import running
from tests.spark.test_lake_match import FILTERS, expected, found
from tests.spark.test_match_folder import check
from tidings.client import Login
from tidings.events import Filter
from tidings.lakes.erasing import erase
from tidings.lakes.lake import Lake
from tidings.lakes.layout import EVERYTHING, Archived
from tidings.spark import install, match
from tidings.spark.archiving.archive import archive
from tidings.spark.streams.reading import read, read_rows
from tidings.spark.streams.stretch import Stretch

WANTED = Filter.parse("customer = 'c-7'")


def erased(broker: BrokerProcess) -> None:
    """A hundred events, of which ten were erased; and the record of that."""
    with tidings.connect_sync(broker.url, wait=30) as client:
        client.publish_many({"customer": f"c-{n % 10}", "n": n} for n in range(100))
        assert client.erase(WANTED).count == 10


def test_a_stretch_has_nothing_of_it_copied_or_told(tmp_path: Path) -> None:
    with running(tmp_path) as broker:
        erased(broker)
        stretch, login = Stretch("paris", 0, 101, {}), Login(broker.url)
        for filter_ in (EVERYTHING, Filter.all(), Filter.parse("n >= 0 OR EXISTS tidings.erasure")):
            rows = [
                record for rows in read_rows(stretch, login, filter_) for record in rows.records
            ]
            events = [event for some in read(stretch, login, filter_) for event in some]
            assert [row.get("n") for row in rows] == [event.get("n") for event in events]
            assert [row.get("n") for row in rows] == [
                *(n for n in range(100) if n % 10 != 7),
                None,
            ]


def test_what_is_archived_later_has_no_row_for_it(tmp_path: Path) -> None:
    with running(tmp_path / "paris") as broker:
        erased(broker)
        lake = Lake(tmp_path / "lake", filter="TRUE")
        archive(broker.url, lake, until="live")
        assert len(list(lake.events())) == 91
        assert lake.held() == {"paris": 101}
        assert "tidings.erased" not in lake.schema().names


@pytest.fixture
def left(tmp_path: Path) -> tuple[Path, list[Archived]]:
    """A lake in which was erased, and the events that are left."""
    path, wanted = tmp_path / "lake", Filter.parse("EXISTS x AND x < 30")
    events = fill(path, [said for said in ODD if said.content is None])
    assert erase(Lake(path), wanted, "erase-1").erased > 20
    return path, [event for event in events if not wanted.matches(event.notification)]


@pytest.mark.slow
@pytest.mark.xdist_group("lake_match")
def test_a_lake_is_matched_and_read_without_it(
    spark: Any, left: tuple[Path, list[Archived]], tmp_path: Path
) -> None:
    path, events = left
    everything = {**FILTERS, "all": Filter.all()}
    assert found(match(Lake(path), everything)) == expected(events, everything)
    install(spark)
    rows = spark.read.format("tidings").option("lake", str(path)).load()
    ids = rows.select("id").toArrow()["id"].to_pylist()
    assert sorted(ids) == sorted(event.id for event in events)


@pytest.mark.slow
def test_who_would_have_heard_what_is_answered_without_it(
    left: tuple[Path, list[Archived]], tmp_path: Path
) -> None:
    from typer.testing import CliRunner

    from tidings.cli.app import app

    path, events = left
    (tmp_path / "filters").write_text("all\tTRUE\nnone\tNOT EXISTS x\n")
    arguments = ["--lake", str(path), "--filters", str(tmp_path / "filters")]
    arguments += ["--out", str(tmp_path / "heard"), "--master", "none"]
    assert CliRunner().invoke(app, ["pipeline", "match", *arguments]).exit_code == 0
    check(tmp_path / "heard", events, {"all": Filter.all(), "none": Filter.parse("NOT EXISTS x")})
