"""Commands that are stopped while Spark is at work: they say so, and nothing else."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from tests.cli.conftest import PROGRAM, Run
from tests.lakes.filled import ODD, fill
from tests.spark.test_match_folder import check
from tidings.events import Filter
from tidings.spark.java import find_java

pytestmark = pytest.mark.slow

TELLING = """\
#!/bin/sh
case "$*" in *SparkSubmit*) touch '{marker}' ;; esac
exec '{java}' "$@"
"""


def stopped(arguments: list[str], begun: Path, name: str, **environment: str) -> tuple[int, str]:
    """The exit code of a command that gets a Ctrl-C once there is a file of this name, and what it
    has said then; its processes are a group, which all get it as a terminal does it."""
    process = subprocess.Popen(
        [*PROGRAM, "pipeline", *arguments, "--master", "local[2]"],
        env={**os.environ, **environment},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        while not list(begun.glob(name)):
            assert process.poll() is None, "it ended before it was stopped"
        os.killpg(process.pid, signal.SIGINT)
        _, said = process.communicate(timeout=60)
    finally:
        with suppress(ProcessLookupError):  # as it should be
            os.killpg(process.pid, signal.SIGKILL)
    told = [line for line in said.splitlines() if line and "events" not in line]  # how far it was
    return process.returncode, "\n".join(told)


def test_in_the_middle_of_a_task_and_it_goes_on_where_it_was(tmp_path: Path, tidings: Run) -> None:
    lake, out, filters = tmp_path / "lake", tmp_path / "heard", tmp_path / "filters.tsv"
    events = fill(lake, ODD, commits=1)
    filters.write_text("all\tTRUE\n")
    arguments = ["match", "--lake", str(lake), "--filters", str(filters), "--out", str(out)]
    file = next(lake.rglob("*.parquet"))
    kept = file.rename(tmp_path / "kept")
    os.mkfifo(file)  # whoever reads it waits for ever
    unfinished = out.with_name("heard.unfinished")
    code, said = stopped(arguments, unfinished / "matches", ".part-*")
    assert said == f"stopped; the same command goes on where it was, with {unfinished}"
    assert code == 130
    kept.replace(file)
    assert "going on with" in tidings("pipeline", *arguments, "--master", "none").stderr
    check(out, events, {"all": Filter.all()})


@pytest.mark.parametrize("command", ["statistics", "match"])
def test_while_spark_starts(tmp_path: Path, command: str) -> None:
    fill(tmp_path / "lake", ODD)
    filters = tmp_path / "filters.tsv"
    filters.write_text("all\tTRUE\n")
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(TELLING.format(marker=tmp_path / "started", java=find_java().program))
    java.chmod(0o755)
    arguments = [command, "--lake", str(tmp_path / "lake"), "--out", str(tmp_path / "out")]
    arguments += ["--filters", str(filters)]
    code, said = stopped(arguments, tmp_path, "started", JAVA_HOME=str(tmp_path))
    assert said == "stopped; the same command begins anew"
    assert code == 130
    assert not (tmp_path / "out.unfinished").exists()
