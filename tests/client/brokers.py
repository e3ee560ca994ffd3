"""A real broker in a process of its own, which can be stopped, killed and started again."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

PROGRAM = [sys.executable, "-m", "tidings.cli"]

_programs: list[subprocess.Popen[str]] = []
"""Those that were started and may still run."""


class BrokerProcess:
    """`tidings up`, on a free port that it keeps."""

    def __init__(self, folder: Path, *, name: str = "paris", config: str = "") -> None:
        self.name, self.folder = name, folder
        self.port = 0
        self.url = ""
        self._config = config
        self._process: subprocess.Popen[str] | None = None

    def start(self, *, config: str | None = None) -> None:
        """With another configuration, or as it was."""
        self._config = self._config if config is None else config
        file = self.folder / "tidings.toml"
        file.write_text(self._config)
        self._log = (self.folder / "log").open("a")
        self._process = subprocess.Popen(
            [
                *[*PROGRAM, "up", "--config", str(file), "--name", self.name],
                *["--listen", f"127.0.0.1:{self.port}", "--store", str(self.folder / "store")],
            ],
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            cwd=self.folder,
        )
        assert self._process.stdout is not None
        ready = self._process.stdout.readline()
        found = re.search(r"(tidings(?:\+tls)?)://127\.0\.0\.1:(\d+)", ready)
        if found is None:
            self.kill()
            raise AssertionError(ready + (self.folder / "log").read_text())
        self.port = int(found[2])
        self.url = found[0]

    def signal(self, number: int) -> None:
        """Send it a signal, and wait for its end if it ends by that."""
        assert self._process is not None
        self._process.send_signal(number)
        if number in (signal.SIGKILL, signal.SIGTERM):
            self._process.wait(30)
            self._forget()

    def kill(self) -> None:
        self.signal(signal.SIGKILL)

    def stop(self) -> None:
        if self._process is not None:
            self.signal(signal.SIGCONT)
            self.signal(signal.SIGTERM)

    def _forget(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._log.close()
        self._process = None


def program(*arguments: str, url: str) -> subprocess.Popen[str]:
    """`tidings` with arguments, as a process to talk with; it ends with its test at the latest."""
    process = subprocess.Popen(
        [*PROGRAM, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TIDINGS_URL": url, "PYTHONUNBUFFERED": "1"},
    )
    _programs.append(process)
    return process


def end_programs() -> None:
    """Kill what a test has started and not ended."""
    while _programs:
        with _programs.pop() as process:
            process.kill()
