"""Help, usage errors and versions: at once, and without loading what they do not need."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version

import pytest
from typer.testing import CliRunner

from tests.cli.conftest import Run
from tidings.cli.app import app

HEAVY = ("lark", "msgspec", "numpy", "numba", "pyarrow", "rich", "tidings.events")


@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["--version"], ["match", "--help"], ["explain"], ["no-such-command"], []],
    ids=lambda a: " ".join(a) or "nothing",
)
def test_help_and_usage_errors_load_nothing_heavy(arguments: list[str]) -> None:
    code = (
        "import sys\n"
        f"sys.argv = ['tidings', *{arguments!r}]\n"
        "from tidings.cli import main\n"
        "try:\n"
        "    main()\n"
        "except SystemExit:\n"
        "    pass\n"
        "print('LOADED', *sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    loaded = done.stdout.rpartition("LOADED")[2].split()
    assert "tidings.cli.app" in loaded
    assert [name for name in HEAVY if name in loaded] == []


def test_the_package_fetches_its_names_when_they_are_used() -> None:
    code = (
        "import sys, tidings\n"
        "assert 'tidings.events' not in sys.modules\n"
        "assert 'Filter' in dir(tidings)\n"
        "assert tidings.Filter.parse('a = 1') and 'tidings.events' in sys.modules\n"
        "from tidings import *\n"
        "assert Notification is tidings.Notification\n"
        "assert not hasattr(tidings, 'nothing_of_the_kind')\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


@pytest.mark.parametrize("command", ["explain", "match", "tour"])
def test_help_lists_every_command(command: str) -> None:
    assert f"  {command} " in CliRunner().invoke(app, ["--help"]).output


@pytest.mark.parametrize("command", ["explain", "match"])
def test_help_of_a_command_teaches_by_examples(command: str) -> None:
    shown = CliRunner().invoke(app, [command, "--help"], terminal_width=80)
    assert shown.exit_code == 0
    assert f'tidings {command} "' in shown.output
    assert "Examples:\n" in shown.output


def test_version_is_the_package_version(tidings: Run) -> None:
    assert tidings("--version").stdout == f"tidings {version('tidings')}\n"


def test_an_unknown_command_is_a_usage_error(tidings: Run) -> None:
    done = tidings("frobnicate")
    assert done.returncode == 2
    assert "frobnicate" in done.stderr


@pytest.mark.parametrize(
    "command",
    ["publish", "subscribe", "network", "pipeline archive", "pipeline deliver"],
)
def test_every_command_that_connects_has_the_same_options(command: str) -> None:
    shown = CliRunner().invoke(app, [*command.split(), "--help"], terminal_width=80).output
    for name in ("url", "token", "token-file", "authority", "certificate", "key"):
        assert f"  --{name} " in shown
        assert f"TIDINGS_{name.upper().replace('-', '_')}" in shown
