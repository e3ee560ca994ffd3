"""Ages: the names that clients have left in a store, whose they are, and when they were used last.

A name is `principal/rest`. Days are counted while the node runs, an hour at a time, and no clock
is asked for the date: a clock that jumps by years makes nothing older, and neither does a broker
that was switched off, since nobody could have used anything then.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

HOUR: Final = 3600.0
"""Seconds."""
DAY: Final = 24
"""Hours."""
IDLE: Final = 60
"""A name that nobody has used for this many days is warned about."""
FORGOTTEN: Final = 90
"""A name that nobody has used for more than this many days is forgotten."""


def principal_of(name: str) -> str:
    """Whose a name is.

    >>> principal_of("desk/orders/1")
    'desk'
    """
    return name.partition("/")[0]


class Ages:
    """The day on which each name was used last, and how many names each principal has.

    >>> ages = Ages()
    >>> ages.use("desk/a", 0), ages.use("desk/b", 7), ages.use("desk/b", 7)
    (True, True, False)
    >>> ages.counts, list(ages.unused(before=7))
    ({'desk': 2}, ['desk/a'])
    """

    def __init__(self) -> None:
        self._days: dict[str, int] = {}
        self._counts: dict[str, int] = {}

    @property
    def counts(self) -> Mapping[str, int]:
        """How many names each principal has; only those with any."""
        return self._counts

    def __contains__(self, name: str) -> bool:
        return name in self._days

    def use(self, name: str, day: int) -> bool:
        """A name is used on a day; whether that is new, and to be stored."""
        before = self._days.get(name)
        if before is None:
            whose = principal_of(name)
            self._counts[whose] = self._counts.get(whose, 0) + 1
        self._days[name] = day
        return before != day

    def day(self, name: str, otherwise: int) -> int:
        """The day on which a name was used last."""
        return self._days.get(name, otherwise)

    def forget(self, name: str) -> None:
        """There is no such name any more; an unknown one is no error."""
        if self._days.pop(name, None) is not None:
            whose = principal_of(name)
            self._counts[whose] -= 1
            if not self._counts[whose]:
                del self._counts[whose]

    def unused(self, *, before: int) -> Iterator[str]:
        """The names that nobody has used on that day or later."""
        return (name for name, day in self._days.items() if day < before)
