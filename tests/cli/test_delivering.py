"""`tidings pipeline deliver`: what is told before Spark starts."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tidings.spark.delivering.lock import locked

HOLDING = """
import sys
from pathlib import Path

from tidings.spark.delivering.lock import locked

with locked(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_second_one_on_the_same_folder_is_refused_until_the_first_is_killed(
    tmp_path: Path, tidings: Run
) -> None:
    folder = tmp_path / "deliver"
    command = [sys.executable, "-c", HOLDING, str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == b"held\n"
        # Nobody is at this address, so it would wait for minutes were it not refused.
        done = tidings("pipeline", "deliver", "--lake", str(folder), "--url", "tidings://[::1]:1")
        first.send_signal(signal.SIGKILL)
    assert done.returncode == 2
    told = f"error: {folder} is in use: process {first.pid} delivers from it."
    assert done.stderr.startswith(told)
    with locked(folder):
        pass


@pytest.mark.parametrize(
    ("master", "told"),
    [
        ("none", "error: this needs Spark, so the master cannot be 'none': give local[*], "),
        ("sparky", "error: 'sparky' is no master of Spark's: give local[*], "),
    ],
)
def test_a_master_that_it_does_not_take_is_told_with_those_that_it_does(
    tmp_path: Path, tidings: Run, master: str, told: str
) -> None:
    done = tidings("pipeline", "deliver", "--lake", str(tmp_path), "--master", master)
    assert done.returncode == 2
    assert f"{told}spark://HOST:PORT, k8s://HOST or yarn\n" in done.stderr
