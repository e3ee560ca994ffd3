"""The demonstration accounts for every event, so running it is the test."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

import pytest

import tidings
import tidings.spark
from tests.client.brokers import BrokerProcess
from tidings.cli.demo.chronicle import Chronicle
from tidings.events import Filter

_PATIENCE = 300
"""Seconds: Spark takes its time to start, above all where other tests run."""


@pytest.mark.slow
@pytest.mark.xdist_group("demo")
def test_four_brokers_lose_nothing_though_one_is_killed(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tidings.cli", "demo", "--for", "6", "--rate", "200"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "COLUMNS": "80", "TMPDIR": str(tmp_path)},
        timeout=_PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    assert "berlin was killed" in done.stdout
    assert "berlin is back" in done.stdout
    assert "nobody missed anything, nobody heard anything else." in done.stdout
    assert "trades, says Spark" in done.stdout
    assert "that 'falling media' heard live." in done.stdout
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.glob("tidings-demo-*")), "what it made is gone"


def test_the_chronicle_has_all_that_was_published_and_needs_no_java_to_tell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = BrokerProcess(tmp_path)
    broker.start()
    chronicle = Chronicle(tmp_path / "lake", broker.url)
    try:
        with tidings.connect_sync(broker.url) as client:
            client.publish_each({"n": n} for n in range(100))
            chronicle.start()
            client.publish_each({"n": n} for n in range(100, 200))
        chronicle.finish()
    finally:
        broker.stop()
    assert (chronicle.events, chronicle.problem) == (200, None)
    assert chronicle.files > 0

    def no_java(*_: object, **__: object) -> NoReturn:
        raise tidings.spark.NoJavaError("there is no Java")

    monkeypatch.setattr("tidings.spark.sessions.session_for_python", no_java)
    answer = chronicle.ask(Filter.parse("n >= 150"))
    chronicle.close()
    assert answer is not None
    assert answer.ids == {f"paris:{n + 1}" for n in range(150, 200)}
    assert "there is no Spark (there is no Java)" in answer.by


def test_without_a_lake_the_rest_of_the_demonstration_goes_on(tmp_path: Path) -> None:
    (tmp_path / "lake").mkdir()
    (tmp_path / "lake" / "something").touch()
    chronicle = Chronicle(tmp_path / "lake", "tidings://127.0.0.1:1")
    chronicle.start()
    chronicle.finish()
    assert "which is no lake" in (chronicle.problem or "")
    assert chronicle.ask(Filter.all()) is None
    chronicle.close()
