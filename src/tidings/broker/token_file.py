"""The token file: who has which tokens, read anew when the file changes.

A file that is being written is left alone: it is read once it has stood unchanged from one look to
the next. One that cannot be read, or is wrong, changes nothing: what was known last holds.
"""

from __future__ import annotations

import logging
import os
from typing import Final, TypeAlias

from tidings.broker.configuration import Configuration, load_tokens
from tidings.broker.tokens import Tokens
from tidings.events import TidingsError

_log = logging.getLogger(__name__)

_State: TypeAlias = tuple[int, int, int] | None
"""What changes with a file: its inode, its size, and when it was last written."""


class TokenFile:
    """The tokens that a broker knows now: those of a file, or else those of its configuration."""

    def __init__(self, configuration: Configuration) -> None:
        """`TidingsError` if there is a file, and it cannot be read."""
        self.trouble: str | None = None
        """Why the file is not read as it is now."""
        self._path: Final = configuration.token_file
        self._seen = self._read = self._state()
        self._tokens = configuration.known_tokens()

    def tokens(self) -> Tokens | None:
        """Those that are known now; None if nobody is asked for one."""
        return self._tokens

    def look(self) -> None:
        """Read the file if it has changed; to be called about once in a second."""
        if self._path is None:
            return
        before, self._seen = self._seen, self._state()
        if self._seen != before or self._seen == self._read:
            return
        self._read = self._seen
        try:
            self._tokens = load_tokens(self._path)
        except TidingsError as problem:
            self.trouble = f"{problem}; the tokens that were known before still hold"
        else:
            self.trouble = None
            _log.info("%s has changed: %d tokens are known", self._path, len(self._tokens))

    def _state(self) -> _State:
        if self._path is None:
            return None
        try:
            found = os.stat(self._path)
        except OSError:
            return None
        return found.st_ino, found.st_size, found.st_mtime_ns
