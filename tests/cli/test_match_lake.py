"""`tidings pipeline match`: what it writes, says and refuses."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.cli.conftest import PROGRAM, Run
from tests.lakes.filled import ODD, fill
from tests.spark.test_match_folder import check
from tidings.events import Filter


@pytest.mark.slow
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
    assert "nothing matches 1 of 3 filters" in done.stderr
    assert done.stdout == f"{out / 'report.md'}\n"
    check(out, events, {key: Filter.parse(text) for key, text in texts.items()})
    assert "done before" in tidings("pipeline", "match", *arguments, "--until", "now").stderr
    wrong = tidings("pipeline", "match", *arguments[:-1], str(path), "--master", "none")
    assert wrong.returncode == 2
    assert "something else here" in wrong.stderr


@pytest.mark.slow
def test_filters_from_a_pipe_are_told_apart(tmp_path: Path, tidings: Run) -> None:
    path, out = tmp_path / "lake", tmp_path / "heard"
    events = fill(path, ODD)
    arguments = ["pipeline", "match", "--lake", str(path), "--filters", "/dev/stdin"]
    arguments += ["--out", str(out), "--master", "none"]
    assert tidings(*arguments, input="all\tTRUE\n").returncode == 0
    assert tidings(*arguments[:-3], f"{out} again", *arguments[-2:], input="TRUE").returncode == 0
    check(out.with_name("heard again"), events, {1: Filter.all()})  # without a key, by its line
    other = tidings(*arguments, input="none\tsymbol = 'S9'\n")
    assert other.returncode == 2
    assert "matches of other filters or events" in other.stderr
    assert "done before" in tidings(*arguments, input="all\tTRUE\n").stderr
    check(out, events, {"all": Filter.all()})


@pytest.mark.slow
@pytest.mark.parametrize("content", ["", "\n \n"])
def test_a_file_without_filters_is_refused(tmp_path: Path, tidings: Run, content: str) -> None:
    fill(tmp_path / "lake", ODD[:5])
    file = tmp_path / "filters.tsv"
    file.write_text(content)
    arguments = ["--lake", str(tmp_path / "lake"), "--filters", str(file)]
    done = tidings("pipeline", "match", *arguments, "--out", str(tmp_path / "heard"))
    assert done.returncode == 2
    assert done.stderr == f"error: {file}: there are no filters in this file\n"


@pytest.mark.parametrize(
    ("master", "wanted"),
    [
        (
            "sparky",
            "'sparky' is no master of Spark's: give local[*], spark://HOST:PORT, k8s://HOST "
            "or yarn, or none to do without it",
        ),
        pytest.param(
            "spark://127.0.0.1:1",
            "Spark does not start with the master 'spark://127.0.0.1:1': no master can be reached "
            "there (Connection refused)",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "local[x]",
            "Spark does not start with the master 'local[x]': Could not parse Master URL: "
            "'local[x]'",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_master_that_is_none_is_told_in_a_sentence(
    tmp_path: Path, tidings: Run, master: str, wanted: str
) -> None:
    fill(tmp_path / "lake", ODD[:5])
    file = tmp_path / "filters.tsv"
    file.write_text("all\tTRUE\n")
    arguments = ["--lake", str(tmp_path / "lake"), "--filters", str(file)]
    done = tidings("pipeline", "match", *arguments, "--out", str(tmp_path / "heard"),
                   "--master", master)  # fmt: skip
    assert (done.returncode, done.stderr) == (2, f"error: {wanted}\n")
    assert not (tmp_path / "heard.unfinished").exists(), "the lake of then is not what is wanted"


@pytest.mark.slow
def test_killed_and_started_again(tmp_path: Path, tidings: Run) -> None:
    path, out = tmp_path / "lake", tmp_path / "heard"
    events = fill(path, ODD)
    file = tmp_path / "filters.tsv"
    file.write_text("all\tTRUE\n")
    arguments = ["pipeline", "match", "--lake", str(path), "--filters", str(file)]
    arguments += ["--out", str(out), "--master", "none"]
    unfinished = out.with_name("heard.unfinished")
    with subprocess.Popen([*PROGRAM, *arguments], stderr=subprocess.DEVNULL) as process:
        while not (unfinished / "match.json").exists():
            assert process.poll() is None, "it ended before it had begun"
        process.kill()
    if not out.exists():  # else it was faster than we were
        assert "going on with" in tidings(*arguments).stderr
    check(out, events, {"all": Filter.all()})
