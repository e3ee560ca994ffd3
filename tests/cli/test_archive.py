"""`tidings pipeline archive`, with a real broker."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.client.brokers import BrokerProcess
from tests.network.brokers import free_ports
from tests.spark.brokers import running
from tidings import connect_sync
from tidings.broker.store import SQLiteStore
from tidings.lakes.lake import Lake


@pytest.mark.slow
def test_what_was_published_is_in_the_lake_once(tmp_path: Path, tidings: Run) -> None:
    broker = BrokerProcess(tmp_path)
    broker.start()
    try:
        with connect_sync(broker.url) as client:
            arguments = ("--url", broker.url, "--lake", str(tmp_path / "lake"), "--until-live")
            arguments += ("--master", "none")
            for count in (3, 2):
                for n in range(count):
                    client.publish({"n": n})
                done = tidings("pipeline", "archive", *arguments, "--filter", "n >= 0")
                assert done.returncode == 0, done.stderr
                assert f"{count} events archived" in done.stderr
    finally:
        broker.stop()
    found = [event.notification["n"] for event in Lake(tmp_path / "lake").events("n > 0")]
    assert found == [1, 2, 1]


@pytest.mark.slow
def test_a_gap_is_told_with_the_option_that_leaves_it_out(tmp_path: Path, tidings: Run) -> None:
    broker = BrokerProcess(tmp_path)
    broker.start()
    arguments = ("pipeline", "archive", "--lake", str(tmp_path / "lake"))
    arguments += ("--until-live", "--master", "none", "--url", broker.url)
    try:
        with connect_sync(broker.url) as client:
            client.publish({"n": 1})
            assert tidings(*arguments).returncode == 0
            client.publish({"n": 2})
            client.publish({"n": 3})
        broker.stop()
        store = SQLiteStore(broker.folder / "store", broker.name)
        store.trim(before=1e12)
        store.close()
        broker.start()
        done = tidings(*arguments)
        assert done.returncode == 2
        assert "holds paris up to 1, but it is kept from 3 on only" in done.stderr
        assert "--skip-gaps" in done.stderr
        assert "on_gap" not in done.stderr
        assert tidings(*arguments, "--skip-gaps").returncode == 0
    finally:
        broker.stop()


@pytest.mark.slow
def test_what_is_no_lake_is_told_in_a_line(tmp_path: Path, tidings: Run) -> None:
    file = tmp_path / "file"
    file.write_text("price > 1\n")
    Lake(tmp_path / "lake")
    match = ("match", "--filters", str(file), "--out", str(tmp_path / "out"), "--lake")
    for arguments, told in (
        (("archive", "--lake", str(file)), "there is something else here, which is no lake"),
        ((*match, str(file)), "there is no lake here"),
        ((*match, str(tmp_path / "lake"), "--until", "begin"), "'begin' is no place to end"),
    ):
        done = tidings("pipeline", *arguments, "--master", "none")
        assert done.returncode == 2
        assert told in done.stderr
        assert len(done.stderr.splitlines()) <= 2, done.stderr


@pytest.mark.slow
def test_no_lake_is_made_for_what_cannot_be_archived(tmp_path: Path, tidings: Run) -> None:
    lake = tmp_path / "lake"
    (port,) = free_ports(1)
    nobody = f"tidings://127.0.0.1:{port}"
    for arguments, told in (
        (("--url", nobody, "--master", "none"), "nobody listens there"),
        (("--url", "paris", "--master", "none"), "'paris' is no broker's address"),
        (("--url", nobody, "--filter", "n = = 1"), "expected"),
    ):
        done = tidings("pipeline", "archive", "--lake", str(lake), *arguments)
        assert done.returncode == 2
        assert told in done.stderr
        assert not lake.exists()
    with running(tmp_path / "broker") as broker:
        arguments = ("--url", broker.url, "--master", "spark://127.0.0.1:1")
        done = tidings("pipeline", "archive", "--lake", str(lake), *arguments)
        assert done.returncode == 2
        assert "no master can be reached there" in done.stderr
        assert not lake.exists()
