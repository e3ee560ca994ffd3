"""The mark: how far the store has come, said beside its database after each commit.

The database alone cannot know that something is missing at its end: a write-ahead log that was
cut off, or has one wrong bit, is to SQLite one that ends there. So the last commit is also told
in a file of its own. It is written once the commit is on the disk, and is never ahead of it.

    mark      0  a commit's head behind its checksum
           4096  that of the commit before it; the next one is written over this

It survives a killed process as it stands. The disk has it a moment later, from a thread: to wait
for that, too, would make each commit wait for the disk twice.
"""

from __future__ import annotations

import contextlib
import logging
import os
import struct
import threading
from pathlib import Path
from typing import Final

import msgspec

from tidings.broker.store.ballast import sync_folder
from tidings.broker.store.seals import Damage, seal, unseal

_log = logging.getLogger(__name__)

NAME: Final = "mark"
"""The file, in a store's folder."""
_FORMAT: Final = struct.Struct(">QQQ")
_SLOT: Final = 4096
"""Bytes from one head to the other: what a disk writes as a whole, or a multiple of that."""
_LAZY: Final = 0.1
"""Seconds after which a mark that was moved is on the disk."""

_sync = getattr(os, "fdatasync", os.fsync)  # a Mac has only the other one


class Head(msgspec.Struct, frozen=True, array_like=True):
    """Where a store stands: the number of its last commit, and the current stream's last tick."""

    number: int = 0
    epoch: int = 1
    last: int = 0

    def is_ahead_of(self, other: Head) -> bool:
        """Whether it tells of something that the other one has not."""
        return self.number > other.number or (self.epoch, self.last) > (other.epoch, other.last)


def look(folder: Path) -> Head | None:
    """What the mark of a folder says; None if there is none, or nothing in it can be read."""
    with contextlib.suppress(OSError):
        content = (folder / NAME).read_bytes()
        heads = [_unpacked(content[at : at + _size()]) for at in (0, _SLOT)]
        return max((head for head in heads if head), key=lambda head: head.number, default=None)
    return None


def write(folder: Path, head: Head) -> None:
    """Make a mark, or another one in its place: afterwards there is a whole one, on the disk."""
    draft = folder / f"{NAME}.draft"
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        os.write(handle, _packed(head).ljust(_SLOT, b"\0") * 2)
        os.fsync(handle)
    finally:
        os.close(handle)
    draft.rename(folder / NAME)
    sync_folder(folder)


class Mark:
    """A mark that is moved on. One thread at a time uses it."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / NAME
        self._file = os.open(self._path, os.O_RDWR | os.O_CLOEXEC)
        self._due = threading.Event()
        self._is_closed = threading.Event()
        self._thread = threading.Thread(target=self._keep_syncing, name="tidings-mark", daemon=True)
        self._thread.start()
        self.trouble: str | None = None
        """Why it is behind, if the last move has failed."""

    def move(self, head: Head) -> None:
        """Tell of a commit that is on the disk. A failure is the mark's `trouble`, and no error:
        the mark is behind then, which proves less, but nothing wrong."""
        try:
            os.pwrite(self._file, _packed(head), head.number % 2 * _SLOT)
        except OSError as error:
            self.trouble = f"{self._path} cannot be written: {error.strerror}."
        else:
            self.trouble = None
            self._due.set()

    def close(self) -> None:
        """Let the disk have it, and let go."""
        self._is_closed.set()
        self._due.set()
        self._thread.join()
        os.close(self._file)

    def _keep_syncing(self) -> None:
        is_closed = False
        while not is_closed:
            self._due.wait()
            self._due.clear()  # before anything else: what comes from here on is another turn
            is_closed = self._is_closed.wait(_LAZY)
            try:
                _sync(self._file)
            except OSError as error:
                _log.error("%s cannot be written: %s", self._path, error.strerror)


def _size() -> int:
    return 4 + _FORMAT.size


def _packed(head: Head) -> bytes:
    return seal(_FORMAT.pack(head.number, head.epoch, head.last), "mark")


def _unpacked(sealed: bytes) -> Head | None:
    try:
        return Head(*_FORMAT.unpack(unseal(sealed, "mark")))
    except Damage:
        return None
