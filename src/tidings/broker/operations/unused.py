"""Unused: what to log of durable subscriptions that are no longer used. Pure."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from tidings.delivery.ages import FORGOTTEN, IDLE
from tidings.delivery.holdings import Holdings

_NAMED: Final = 10
"""Subscriptions that a sentence names, at most."""


class Unused:
    """Says once of each that it has not been used for long, and once that it was forgotten."""

    def __init__(self, holdings: Holdings) -> None:
        self._holdings = holdings
        self._warned: set[str] = set()

    def look(self) -> list[str]:
        """What there is to log now."""
        idle = set(self._holdings.idle())
        new, self._warned = idle - self._warned, idle
        forgotten, self._holdings.forgotten = self._holdings.forgotten, []
        said = []
        if new:
            said.append(
                f"nobody has used durable subscriptions for {IDLE} days, and after {FORGOTTEN} "
                f"they are forgotten: {_some(new)}"
            )
        if forgotten:
            said.append(
                f"forgot durable subscriptions that nobody has used for {FORGOTTEN} days: "
                f"{_some(forgotten)}"
            )
        return said


def _some(names: Collection[str]) -> str:
    """Some names, and how many more there are.

    >>> _some([f"desk/{n}" for n in range(12)])
    'desk/0, desk/1, desk/10, desk/11, desk/2, desk/3, desk/4, desk/5, desk/6, desk/7 and 2 more'
    """
    found = ", ".join(sorted(names)[:_NAMED])
    return found if len(names) <= _NAMED else f"{found} and {len(names) - _NAMED} more"
