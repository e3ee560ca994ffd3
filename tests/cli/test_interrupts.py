"""Ctrl-C, however early it comes: no traceback, and the exit code that a shell expects."""

from __future__ import annotations

import subprocess
import sys

import pytest

INTERRUPTED_AT_AN_IMPORT = """
import os, signal, sys

class Interrupt:
    left = int(sys.argv.pop(1))

    def find_spec(self, name, path=None, target=None):
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupt())
from tidings.cli import main
main()
"""
"""A command that gets a Ctrl-C when it imports its n-th module."""

NOBODY = ("--url", "tidings://127.0.0.1:1")


@pytest.mark.slow
@pytest.mark.parametrize("at", [3, 30, 60, 90, 130, 170, 210])
@pytest.mark.parametrize(
    "command",
    [
        ("publish", "{}", *NOBODY),
        ("subscribe", "n > 0", *NOBODY),
        ("network", *NOBODY),
        ("match", "n > 0"),
        ("explain", "n > 0"),
        ("up", "--listen", "nowhere"),
    ],
    ids=lambda command: str(command[0]),
)
def test_while_a_command_is_imported(command: tuple[str, ...], at: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_AT_AN_IMPORT, str(at), *command],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert "Traceback" not in done.stderr
    assert "KeyboardInterrupt" not in done.stderr
    assert done.returncode == 130
