"""Committed: how far a lake is with streams, on its disk, so that others may let go of them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from time import time
from typing import Final
from urllib.parse import unquote

import msgspec

from tidings.lakes import delta
from tidings.lakes.files import missing, synced
from tidings.lakes.lake import Lake, LakeError
from tidings.protocol.epochs import broker_of

_LONG_AGO: Final = 3600.0
"""Seconds after which everything is on the disk."""


def existing(folder: str | Path) -> Lake:
    """The lake in a folder; `LakeError` if there is none, instead of a new one."""
    delta.found(Path(folder).absolute())
    return Lake(folder)


class Committed:
    """The ticks up to which a lake has a broker's streams by now; call it as often as you like.

    Delta leaves it to the system when a commit gets from memory to the disk. Events that are
    deleted because the lake has them must be there, so what it counts on is synced first.
    `LakeError` if a file of the lake is not here, or not all of it: then nothing may be let go of.
    All files are looked at when it is called first, and later what was added since.
    """

    def __init__(self, folder: str | Path, broker: str) -> None:
        self._folder = Path(folder)
        self._broker = broker
        self._lake: Lake | None = None
        self._synced = ""

    def __call__(self) -> dict[str, int]:
        lake, held = self._found()
        try:
            self._sync(lake)
        except FileNotFoundError:
            existing(self._folder)  # it may have gone meanwhile, all of it
            raise
        return held

    def _found(self) -> tuple[Lake, dict[str, int]]:
        """The lake that was asked before, which knows what it has read already, and how far it is.

        Of one that was not, all files are looked at.
        """
        if self._lake is not None:
            with suppress(LakeError):  # perhaps another one is in its place
                return self._lake, self._held(self._lake)
        lake = existing(self._folder)
        for name, size in lake.snapshot().sizes().items():
            self._is_here(lake, name, size)
        self._lake, self._synced = lake, ""
        return lake, self._held(lake)

    def _held(self, lake: Lake) -> dict[str, int]:
        return {s: tick for s, tick in lake.held().items() if broker_of(s) == self._broker}

    def _sync(self, lake: Lake) -> None:
        """What the latest commits say that they have added, the commits, and where all that is.

        What replaces a file that is gone is in a later commit: it goes on until there is none.
        """
        log = self._folder / "_delta_log"
        while commits := [log / name for name in sorted(_recent(log)) if name > self._synced]:
            added = [file for commit in commits for file in _added(commit)]
            for name, _ in added:
                with suppress(FileNotFoundError):
                    synced(self._folder / name)
            files = [self._folder / n for n, size in added if self._is_here(lake, n, size)]
            folders = {path.parent for path in (*files, *commits)}
            for path in (*commits, *folders, *{folder.parent for folder in folders}):
                synced(path)
            self._synced = commits[-1].name

    def _is_here(self, lake: Lake, name: str, size: int) -> bool:
        """Whether a file that was added is here; `LakeError` if the lake still counts on it."""
        if (wrong := missing(self._folder / name, size)) is None:
            return True
        if name in lake.snapshot().sizes():
            raise LakeError(wrong)
        return False


def _added(commit: Path) -> Iterator[tuple[str, int]]:
    """The files that a commit has added, with their sizes."""
    for line in commit.read_bytes().splitlines():
        if b'"add"' in line and "add" in (action := msgspec.json.decode(line)):
            yield unquote(action["add"]["path"]), action["add"]["size"]


def _recent(log: Path) -> Iterator[str]:
    """The commits that the system may not have written to the disk yet."""
    late = time() - _LONG_AGO
    with os.scandir(log) as entries:
        for entry in entries:
            if entry.name.endswith(".json") and entry.stat().st_mtime > late:
                yield entry.name
