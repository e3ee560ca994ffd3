"""Dead letters: what could not be published, kept with where it came from and the reason."""

from __future__ import annotations

import os
from collections.abc import Mapping
from math import isfinite
from pathlib import Path
from typing import IO, Any, Final
from uuid import uuid4

import msgspec

from tidings.events import Notification
from tidings.lakes.files import synced


class DeadLetters:
    """A file with one line of JSON for each; there is none without any.

    It is written beside its path, and gets there when it is whole and on disk, in place of what
    another try has written. Letters of a try that failed stay beside it: they may come again.
    """

    def __init__(self, folder: str, name: str) -> None:
        self.path: Final = Path(folder) / name
        self.count = 0
        self._own = self.path.with_suffix(f".{uuid4().hex[:8]}{self.path.suffix}")
        self._file: IO[bytes] | None = None

    def add(self, where: Mapping[str, Any], reason: str, content: object) -> None:
        """Keep one: what it is known by, why it was not published, and all of it.

        A notification is the object that `Notification.from_json` reads, so nothing of it is lost.
        """
        if self._file is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = open(self._own, "wb")  # noqa: SIM115
        self.count += 1
        if isinstance(content, Notification):
            content = msgspec.Raw(content.to_json().encode())
        line = _in_words({**where, "reason": reason, "content": content})
        self._file.write(msgspec.json.encode(line, enc_hook=repr) + b"\n")
        self._file.flush()

    def __enter__(self) -> DeadLetters:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self.close(is_whole=kind is None)

    def close(self, *, is_whole: bool = True) -> None:
        """There are no more: these are all, or all until something failed."""
        if self._file is None:
            return
        with self._file as file:
            os.fsync(file.fileno())
        if is_whole:
            self._own.rename(self.path)
        synced(self.path.parent)


def _in_words(value: Any) -> Any:
    """The value, with numbers that JSON does not have as text: they would become null."""
    match value:
        case float() if not isfinite(value):
            return str(value)
        case dict():
            return {name: _in_words(each) for name, each in value.items()}
        case list() | tuple():
            return [_in_words(each) for each in value]
    return value
