"""Identity: a file that tells a store from a copy of it.

The database remembers not only what is in the file but also its inode and when that was last
changed, a time that no program can set, and the inode of the mark, which each commit changes.
Whatever copies or restores a folder, with whichever tool, makes a file that differs in one of them.

A tool may leave a file alone that looks as it did when it was copied. So each start writes another
identity: a database that is put back knows one that is gone. Two names take turns, so that the one
that the database knows is there at any moment: the next one is written beside it, the database
learns of that in one commit, and only then the one before is removed.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Final

import msgspec

from tidings.broker.store import mark
from tidings.broker.store.ballast import sync_folder

NAMES: Final = ("identity", "identity.2")
"""What the file may be called, in a store's folder."""


class Identity(msgspec.Struct, frozen=True, array_like=True):
    """The file as it was written, once, and the mark beside it."""

    id: str
    inode: int
    changed: int
    """When its inode was last changed, in nanoseconds."""
    mark: int = 0
    """The inode of the mark."""


def write(folder: Path, *, beside: Identity | None = None) -> Identity:
    """Make another identity for a folder, and let it survive a crash; `beside` stays there."""
    path = next(p for p in _paths(folder) if beside is None or _inode(p) != beside.inode)
    path.unlink(missing_ok=True)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.write(handle, f"{secrets.token_hex(16)}\n".encode())
        os.fsync(handle)
    finally:
        os.close(handle)
    sync_folder(folder)
    found = _look(path)
    assert found is not None
    return found


def remove(folder: Path, *, but: Identity | None = None) -> None:
    """Take the identities of a folder away for good, all but one."""
    paths = [path for path in _paths(folder) if path.exists()]
    others = [path for path in paths if but is None or _inode(path) != but.inode]
    for path in others:
        path.unlink()
    if others:
        sync_folder(folder)


def look(folder: Path) -> tuple[Identity, ...]:
    """The identities in a folder as they are, without what cannot be read."""
    found = map(_look, _paths(folder))
    return tuple(each for each in found if each is not None)


def _paths(folder: Path) -> list[Path]:
    return [folder / name for name in NAMES]


def _inode(path: Path) -> int:
    try:
        return path.stat().st_ino
    except OSError:
        return 0


def _look(path: Path) -> Identity | None:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        status = os.fstat(handle)
        content = os.read(handle, 100).decode("ascii", errors="replace").strip()
    except OSError:
        return None
    finally:
        os.close(handle)
    return Identity(content, status.st_ino, status.st_ctime_ns, _inode(path.with_name(mark.NAME)))
