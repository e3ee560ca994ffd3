"""Dead letters: what could not be published, kept with where it came from and the reason."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Final

import msgspec


class DeadLetters:
    """A file with one line of JSON for each; there is none without any.

    Whoever writes a file of this name again begins it anew.
    """

    def __init__(self, folder: str, name: str) -> None:
        self.path: Final = Path(folder) / name
        self.count = 0
        self._file: IO[bytes] | None = None

    def add(self, where: Mapping[str, Any], reason: str, content: object) -> None:
        """Keep one: what it is known by, why it was not published, and all of it."""
        if self._file is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = open(self.path, "wb")  # noqa: SIM115
        self.count += 1
        line = {**where, "reason": reason, "content": content}
        self._file.write(msgspec.json.encode(line, enc_hook=repr) + b"\n")
        self._file.flush()

    def __enter__(self) -> DeadLetters:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """There are no more."""
        if self._file is not None:
            with suppress(OSError):
                self._file.close()
