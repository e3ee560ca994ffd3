"""Committed: how far a lake is with a stream, on its disk, so that others may let go of it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from time import time
from typing import Final
from urllib.parse import unquote

import msgspec

from tidings.spark.lakes import delta
from tidings.spark.lakes.lake import Lake, LakeError

_LONG_AGO: Final = 3600.0
"""Seconds after which everything is on the disk."""


def existing(folder: str | Path) -> Lake:
    """The lake in a folder; `LakeError` if there is none, instead of a new one."""
    delta.found(Path(folder).absolute())
    return Lake(folder)


class Committed:
    """The tick up to which a lake has a stream, by now; call it as often as you like.

    Delta leaves it to the system when a commit gets from memory to the disk. Whoever deletes
    events because the lake has them wants them there, so what it counts on is synced first.
    """

    def __init__(self, folder: str | Path, stream: str) -> None:
        self._folder = Path(folder)
        self._stream = stream
        self._lake: Lake | None = None
        self._synced = ""

    def __call__(self) -> int:
        upto = self._held().get(self._stream, 0)
        self._sync()
        return upto

    def _held(self) -> dict[str, int]:
        """What the lake holds that was asked before, which knows what it has read already."""
        if self._lake is not None:
            with suppress(LakeError):  # perhaps another one is in its place
                return self._lake.held()
        self._lake, self._synced = existing(self._folder), ""
        return self._lake.held()

    def _sync(self) -> None:
        """What the latest commits say that they have added, the commits, and where all that is."""
        log = self._folder / "_delta_log"
        commits = [log / name for name in sorted(_recent(log)) if name > self._synced]
        files = [self._folder / path for commit in commits for path in _added(commit)]
        folders = {path.parent for path in (*files, *commits)}
        for path in (*files, *commits, *folders, *{folder.parent for folder in folders}):
            with suppress(FileNotFoundError):  # it was joined with others since, and they are here
                _synced(path)
        self._synced = commits[-1].name if commits else self._synced


def _added(commit: Path) -> Iterator[str]:
    for line in commit.read_bytes().splitlines():
        if b'"add"' in line and "add" in (action := msgspec.json.decode(line)):
            yield unquote(action["add"]["path"])


def _recent(log: Path) -> Iterator[str]:
    """The commits that the system may not have written to the disk yet."""
    late = time() - _LONG_AGO
    with os.scandir(log) as entries:
        for entry in entries:
            if entry.name.endswith(".json") and entry.stat().st_mtime > late:
                yield entry.name


def _synced(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
