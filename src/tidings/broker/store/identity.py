"""Identity: a file that tells a store from a copy of it.

The database remembers not only what is in the file but also its inode and when that was last
changed, a time that no program can set. Whatever copies or restores a folder, with whichever
tool, makes a file that differs in one of them.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Final

import msgspec

from tidings.broker.store.ballast import sync_folder

_NAME: Final = "identity"


class Identity(msgspec.Struct, frozen=True, array_like=True):
    """The file as it was written, once."""

    id: str
    inode: int
    changed: int
    """When its inode was last changed, in nanoseconds."""


def write(folder: Path) -> Identity:
    """Make the file of a folder, or another one in its place, and let it survive a crash."""
    path = folder / _NAME
    path.unlink(missing_ok=True)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.write(handle, f"{secrets.token_hex(16)}\n".encode())
        os.fsync(handle)
    finally:
        os.close(handle)
    sync_folder(folder)
    found = look(folder)
    assert found is not None
    return found


def look(folder: Path) -> Identity | None:
    """The file of a folder as it is; None if it cannot be read."""
    try:
        handle = os.open(folder / _NAME, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        status = os.fstat(handle)
        content = os.read(handle, 100).decode("ascii", errors="replace").strip()
    except OSError:
        return None
    finally:
        os.close(handle)
    return Identity(content, status.st_ino, status.st_ctime_ns)
