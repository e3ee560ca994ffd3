"""The lock: only one at a time delivers from a folder."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tidings.events import TidingsError


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep others from delivering from the folder; `TidingsError` if another one does already.

    The system lets go of it if this process is killed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    handle = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        _lock(handle, folder)
        yield
    finally:
        os.close(handle)


def _lock(handle: int, folder: Path) -> None:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.ftruncate(handle, 0)
        os.write(handle, str(os.getpid()).encode())
    except BlockingIOError:
        owner = os.read(handle, 20).decode(errors="replace") or "unknown"
        raise TidingsError(
            f"{folder} is in use: process {owner} delivers from it. Stop that one, or name another "
            "folder"
        ) from None
    except OSError:
        pass  # no room for our number, or a file system without locks
