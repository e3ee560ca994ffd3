"""`tidings experiment`, as far as it needs no Spark."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tidings.cli.app import app
from tidings.experiments import EXPERIMENTS

runner = CliRunner()


@pytest.mark.parametrize(
    "arguments", [[], ["--list"], ["rebeca-tables", "--list"]], ids=["nothing", "list", "both"]
)
def test_it_lists_the_experiments(arguments: list[str]) -> None:
    done = runner.invoke(app, ["experiment", *arguments])
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    for line, (name, experiment) in zip(lines, EXPERIMENTS.items(), strict=True):
        assert line.split(maxsplit=1) == [name, experiment.title]


def test_an_unknown_name_is_an_error_with_a_suggestion(tmp_path: Path) -> None:
    done = runner.invoke(app, ["experiment", "siena-scale", "--out", str(tmp_path / "out")])
    assert done.exit_code == 2
    assert done.stderr == (
        "error: there is no experiment 'siena-scale'; did you mean siena-scalability?\n"
    )
    assert not (tmp_path / "out").exists()


def test_no_run_at_all_is_refused() -> None:
    assert runner.invoke(app, ["experiment", "rebeca-tables", "--runs", "0"]).exit_code == 2


def test_listing_loads_nothing_that_an_extra_brings() -> None:
    code = (
        "import sys\n"
        "sys.argv = ['tidings', 'experiment']\n"
        "from tidings.cli import main\n"
        "try:\n"
        "    main()\n"
        "except SystemExit:\n"
        "    pass\n"
        "print('LOADED', *sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    loaded = done.stdout.rpartition("LOADED")[2].split()
    assert "tidings.experiments" in loaded
    assert {"pyspark", "matplotlib", "pandas", "scipy"}.isdisjoint(loaded)
