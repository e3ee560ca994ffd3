"""Retention by a lake: what it lacks must stay, whatever age and size say."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final, TypeAlias

_log = logging.getLogger(__name__)

Archived: TypeAlias = Callable[[], int]
"""Up to which tick a lake has a broker's stream, for good. It may raise anything."""


class Archive:
    """The lake of a broker, as far as the broker is concerned: a number that it asks for.

    While that cannot be had, nothing is let go of. That is no trouble for those who publish, as
    long as there is room on the disk.
    """

    def __init__(self, folder: str, stream: str, ask: Archived) -> None:
        self.folder: Final = folder
        self.upto: int | None = None
        """The last tick that it holds, when it was last asked; None if that is not known."""
        self.trouble: str | None = None
        """Why nothing is let go of, if that is so."""
        self._stream = stream
        self._ask = ask

    async def look(self, last: Callable[[], int]) -> int:
        """The last tick that may be let go of. `last` is where the broker's own log ends."""
        try:
            upto = await asyncio.to_thread(self._ask)
        except Exception as problem:  # these are the files of others: whatever is wrong with them
            return self._fails(f"the lake {self.folder} cannot be read: {problem}")
        if upto > (end := last()):
            return self._fails(
                f"the lake {self.folder} holds {self._stream} up to {upto}, but that stream ends "
                f"at {end}: this is not the {self._stream} that was archived there"
            )
        if self.trouble is not None:
            _log.info("the lake %s can be read again", self.folder)
        self.upto, self.trouble = upto, None
        return upto

    def _fails(self, why: str) -> int:
        if self.trouble is None:
            _log.error("no event is let go of: %s", why)
        self.upto, self.trouble = None, why
        return 0
