"""`tidings pipeline archive`, with a real broker."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.client.brokers import BrokerProcess
from tidings import connect_sync
from tidings.spark.lakes.lake import Lake


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
