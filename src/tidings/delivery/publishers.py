"""Publishers: who may publish under a name now, and up to which number all is kept.

A name belongs to one process at a time. Each process draws an *instance*. One that attaches under
a name as another instance raises the name's *epoch*: it goes on with the numbers, and the one that
had the name before is fenced. A process says which epoch it was given, so it is known again after
any number of others, and is never told that its number is kept when another's is::

    attach   old, epoch 0    given epoch 1
    publish  old, number 1   kept
    publish  old, number 2   lost on the way
    attach   new, epoch 0    given epoch 2, kept up to 1
    publish  new, number 2   kept
    attach   old, epoch 1    fenced

All of it holds at one broker: another one knows nothing of it.
"""

from __future__ import annotations

from collections.abc import ItemsView, Iterable
from typing import Any, Final, NamedTuple

from msgspec.structs import astuple

from tidings.delivery.ages import Ages
from tidings.protocol.requests import Kept

RUNS: Final = 4
"""Of each name it is stored where the last publications are kept, in so many runs at most: by its
usual limits a client waits for the answers to no more frames than this."""


class Publisher(NamedTuple):
    """What is stored of a name."""

    number: int = 0
    """Its publications are kept up to this one."""
    day: int = 0
    """When it was used last: see `ages`."""
    epoch: int = 0
    instance: str = ""
    """Of the process that has the name; empty if it was drawn at random, so that nobody else can
    have it."""
    runs: tuple[tuple[Any, ...], ...] = ()
    """Where the last of its publications are kept: the fields of each `Kept`."""

    @property
    def kept(self) -> tuple[Kept, ...]:
        """Where the last of its publications are kept."""
        return tuple(Kept(*run) for run in self.runs)


class Publishers:
    """All names under which something is or was published.

    >>> names = Publishers()
    >>> names.claim("desk", "old", 0, day=0), names.claim("desk", "new", 0, day=1)
    (1, 2)
    >>> names.claim("desk", "old", 1, day=2) is None
    True
    """

    def __init__(self) -> None:
        self._known: dict[str, Publisher] = {}
        self.ages = Ages()

    def restore(self, name: str, stored: Iterable[Any]) -> None:
        """Take up what was stored."""
        self._set(name, Publisher(*stored))

    def __getitem__(self, name: str) -> Publisher:
        return self._known.get(name, _NOBODY)

    def items(self) -> ItemsView[str, Publisher]:
        """All names, with what is stored of them."""
        return self._known.items()

    def claim(self, name: str, instance: str, epoch: int, *, day: int) -> int | None:
        """The epoch of an instance that attaches, and says which it was given before (0: none).

        None if it is fenced. An epoch other than the one it had says that this broker no longer
        knows what the instance has published. What is new is to be stored before it is told.
        """
        known = self._known.get(name)
        if known is None and not instance:
            return 0
        if known is None or epoch > known.epoch:  # forgotten since, or lost with a disk
            granted = epoch + 1
        elif instance == known.instance:
            self.use(name, day=day)
            return known.epoch
        elif epoch:
            return None
        else:
            granted = known.epoch + 1
        number, runs = (0, ()) if known is None else (known.number, known.runs)
        self._set(name, Publisher(number, day, granted, instance, runs))
        return granted

    def keep(self, name: str, number: int, kept: Iterable[Kept] = (), *, day: int) -> Publisher:
        """Everything up to this number is kept, the last of it here: what to store with it."""
        before = self[name]
        runs = (*before.runs, *map(astuple, kept))[-RUNS:]
        found = before._replace(number=number, day=day, runs=runs)
        self._set(name, found)
        return found

    def use(self, name: str, *, day: int) -> bool:
        """Somebody has the name on a day; whether that is new, and to be stored."""
        known = self._known.get(name)
        if known is None or known.day == day:
            return False
        self._set(name, known._replace(day=day))
        return True

    def forget(self, name: str) -> bool:
        """Nobody will come back under this name; whether it was known."""
        self.ages.forget(name)
        return self._known.pop(name, None) is not None

    def _set(self, name: str, known: Publisher) -> None:
        self._known[name] = known
        self.ages.use(name, known.day)


_NOBODY = Publisher()
