"""The program, run as a user runs it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

import pytest

Run = Callable[..., "subprocess.CompletedProcess[str]"]

PROGRAM = [sys.executable, "-m", "tidings.cli"]


@pytest.fixture
def tidings() -> Run:
    """Runs `tidings` with arguments, and `input` on stdin; checks that no traceback comes out."""

    def run(*arguments: str, input: str | bytes = "", columns: int = 80) -> object:
        done = subprocess.run(
            [*PROGRAM, *arguments],
            input=input.encode() if isinstance(input, str) else input,
            capture_output=True,
            env={**os.environ, "COLUMNS": str(columns)},
            timeout=60,
        )
        out, err = done.stdout.decode(), done.stderr.decode()
        assert "Traceback" not in out + err
        return subprocess.CompletedProcess(done.args, done.returncode, out, err)

    return run
