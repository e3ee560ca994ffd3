"""`tidings pipeline match`: what it writes, says and refuses."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.cli.conftest import PROGRAM, Run
from tests.spark.lakes import ODD, fill
from tests.spark.test_audit import check
from tidings.events import Filter


def test_the_command(tmp_path: Path, tidings: Run) -> None:
    path = tmp_path / "lake"
    events = fill(path, ODD)
    texts = {"first": "symbol = 'S1'", "none": "symbol = 'S9'", "all": "TRUE"}
    file = tmp_path / "filters.tsv"
    file.write_text("".join(f"{key}\t{text}\n" for key, text in texts.items()))
    out = tmp_path / "heard"
    arguments = ["--lake", str(path), "--filters", str(file), "--out", str(out)]
    done = tidings("pipeline", "match", *arguments, "--master", "none")
    assert done.returncode == 0, done.stderr
    assert f"{len(events):,} events, {len(events):,} of which match" in done.stderr
    assert "1 of 3 filters match nothing" in done.stderr
    assert done.stdout == f"{out / 'report.md'}\n"
    check(out, events, {key: Filter.parse(text) for key, text in texts.items()})
    assert "done before" in tidings("pipeline", "match", *arguments).stderr
    wrong = tidings("pipeline", "match", *arguments[:-1], str(path), "--master", "none")
    assert wrong.returncode == 2
    assert "something else here" in wrong.stderr


def test_killed_and_started_again(tmp_path: Path, tidings: Run) -> None:
    path, out = tmp_path / "lake", tmp_path / "heard"
    events = fill(path, ODD)
    file = tmp_path / "filters.tsv"
    file.write_text("all\tTRUE\n")
    arguments = ["pipeline", "match", "--lake", str(path), "--filters", str(file)]
    arguments += ["--out", str(out), "--master", "none"]
    unfinished = out.with_name("heard.unfinished")
    with subprocess.Popen([*PROGRAM, *arguments], stderr=subprocess.DEVNULL) as process:
        while not (unfinished / "audit.json").exists():
            assert process.poll() is None, "it ended before it had begun"
        process.kill()
    if not out.exists():  # else it was faster than we were
        assert "going on with" in tidings(*arguments).stderr
    check(out, events, {"all": Filter.all()})
