"""Ballast: room on the disk that is held back for the moment when there is no other."""

from __future__ import annotations

import contextlib
import os
from functools import partial
from pathlib import Path
from typing import Final

PRIVATE: Final = 0o600
"""The rights of a store's files: they hold events, and are for the broker only."""
_STEP: Final = 1 << 20
"""Bytes that are written at once."""


class Ballast:
    """A file that takes up `size` bytes until they are needed more urgently.

    It is filled with random bytes, so that neither holes nor compression make it smaller than
    it looks. A size of 0 is no ballast, which is always in place.
    """

    def __init__(self, path: Path, size: int) -> None:
        self._path = path
        self._size = size
        self.needs = 2 * size
        """The bytes that must be free for it to be taken on again."""
        self.is_in_place = size == 0 or (path.is_file() and path.stat().st_size == size)
        """Whether there is something to throw off."""

    def release(self) -> bool:
        """Throw it off; whether that has freed anything."""
        if not self._size or not self.is_in_place:
            return False
        self.is_in_place = False
        # Some file systems free blocks only when their journal is written: make it so.
        with contextlib.suppress(OSError), open(self._path, "r+b") as file:
            file.truncate(0)
            os.fsync(file.fileno())
        with contextlib.suppress(OSError):
            self._path.unlink()
            sync_folder(self._path.parent)
        return True

    def restore(self) -> bool:
        """Take it on again if as much would still be free afterwards; whether it is in place.

        Without that margin a disk at the brim would be full, not full, and full again.
        """
        if self.is_in_place:
            return True
        try:
            self._path.unlink(missing_ok=True)
            disk = os.statvfs(self._path.parent)
            if disk.f_bavail * disk.f_frsize < self.needs:
                return False
            with open(self._path, "wb", opener=partial(os.open, mode=PRIVATE)) as file:
                for start in range(0, self._size, _STEP):
                    file.write(os.urandom(min(_STEP, self._size - start)))
                file.flush()
                os.fsync(file.fileno())
            sync_folder(self._path.parent)
        except OSError:
            with contextlib.suppress(OSError):
                self._path.unlink(missing_ok=True)
            return False
        self.is_in_place = True
        return True


def sync_folder(folder: Path) -> None:
    """Let what was made, renamed or removed in a folder survive a crash."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
