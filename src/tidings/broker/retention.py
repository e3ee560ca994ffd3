"""Retention by a lake: events that it lacks stay, whatever age and size say."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

_log = logging.getLogger(__name__)

Archived: TypeAlias = Callable[[], Mapping[str, int]]
"""Tells up to which tick a lake has each of a broker's streams, for good. May raise anything."""


class LakeProgress:
    """How far the lake of a broker is, as of the last look.

    While that is not known, nothing is let go of; clients may publish while the disk has room.
    """

    def __init__(self, folder: str, ask: Archived) -> None:
        self.folder: Final = folder
        self.held: Mapping[str, int] | None = None
        """The last tick of each stream in the lake; None if that is not known."""
        self.trouble: str | None = None
        """Why nothing is let go of, if that is so."""
        self._ask = ask

    async def look(self) -> Mapping[str, int]:
        """The last tick of each stream that it holds; nothing, if that cannot be known."""
        try:
            held = await asyncio.to_thread(self._ask)
        except Exception as problem:  # these are the files of others: whatever is wrong with them
            self._fails(f"the lake {self.folder} cannot be read: {problem}")
            return {}
        if self.trouble is not None:
            _log.info("the lake %s can be read again", self.folder)
        self.held, self.trouble = held, None
        return held

    def _fails(self, why: str) -> None:
        if self.trouble is None:
            _log.error("no event is let go of: %s", why)
        self.held, self.trouble = None, why
