"""Where Spark is not installed: what needs it says so, and what does not goes on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.spark.brokers import running
from tidings import connect_sync

WITHOUT = """
import sys

sys.modules["pyspark"] = None
from tidings.cli import main

main()
"""


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", WITHOUT, "pipeline", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


@pytest.mark.slow
def test_archiving_and_delivering(tmp_path: Path) -> None:
    with running(tmp_path / "broker") as broker:
        with connect_sync(broker.url) as client:
            client.publish({"n": 1})
        for command in ("archive", "deliver"):
            done = run(command, "--lake", str(tmp_path / command), "--url", broker.url)
            assert done.returncode == 2
            *_, said = done.stderr.splitlines()
            assert said.startswith("error: Spark is not installed"), done.stderr
            assert said.endswith("Try: pip install 'tidings[spark]'")
        arguments = ("--lake", str(tmp_path / "lake"), "--url", broker.url, "--until-live")
        done = run("archive", *arguments, "--master", "none")
    assert done.returncode == 0, done.stderr
    assert "1 event archived" in done.stderr
