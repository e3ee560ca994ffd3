"""All parts of a node as one, to be told something together."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

from tidings.protocol.host import Damaged
from tidings.protocol.parts import Change, Part, Session, Shelf, Single, Step

_TOLD: Final = (
    *("start", "came", "attached", "left", "linked", "unlinked", "begun", "given_up", "opened"),
    *("closed", "advertised", "repaired", "doubted", "look_after", "recall", "recalled"),
)
"""What parts are told, and do not answer."""


class Parts(Part):
    """Tells each of them, in order, what it is told."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self.all = tuple(parts)
        kinds = [each.kind for part in parts for each in part.saved()]
        assert len(kinds) == len(set(kinds)), f"two parts keep the same: {sorted(kinds)}"
        for name in _TOLD:
            setattr(self, name, partial(_tell, name, self.all))
        self._askers, self._watchers = self._listeners("asked"), self._listeners("wants_changed")
        self._settlers = self._listeners("settle")
        self._keepers = self._listeners("standing")

    def _listeners(self, name: str) -> list[Part]:
        """The parts that have a method of this name of their own."""
        default = getattr(Part, name)
        return [part for part in self.all if getattr(type(part), name) is not default]

    def handlers(self, of: Callable[[Part], Mapping[type, Any]]) -> dict[type, tuple[Any, ...]]:
        """Who handles something of each type, in order."""
        found: dict[type, tuple[Any, ...]] = {}
        for part in self.all:
            for kind, handler in of(part).items():
                found[kind] = (*found.get(kind, ()), handler)
        return found

    def saved(self) -> Collection[Shelf[Any] | Single[Any]]:
        return [each for part in self.all for each in part.saved()]

    def steps(self) -> Sequence[Step]:
        return [step for part in self.all for step in part.steps()]

    def standing(self, session: Session, *, besides: str) -> int:
        standing = 0
        for part in self._keepers:
            standing += part.standing(session, besides=besides)
        return standing

    # Some of these are said for each request: only to those that listen.

    def asked(self, session: Session) -> None:
        for part in self._askers:
            part.asked(session)

    def wants_changed(self, change: Change) -> None:
        for part in self._watchers:
            part.wants_changed(change)

    @property
    def settles(self) -> bool:
        """Whether any of them has something to do when all has been dealt with."""
        return bool(self._settlers)

    def settle(self) -> bool:
        found = [part.settle() for part in self._settlers]
        return any(found)

    def mend(self) -> bool:
        sound = [part.mend() for part in self.all]
        return all(sound)

    def audit(self, sessions: Collection[Session]) -> Iterator[str]:
        for part in self.all:
            yield from part.audit(sessions)

    def kept(self) -> Mapping[str, Any]:
        return {key: value for part in self.all for key, value in part.kept().items()}


def _tell(what: str, listeners: Sequence[Part], *about: Any, **more: Any) -> None:
    for part in listeners:
        getattr(part, what)(*about, **more)


class Recollection:
    """What was to be stored when the host was asked what is."""

    def __init__(self, number: int, kept: Mapping[str, Any], kinds: Iterable[str]) -> None:
        """`number` is that of the question, and `kinds` are those of the keys to compare."""
        self.number = number
        self._kept, self._kinds = dict(kept), frozenset(kinds)
        self.changed: set[str] = set()
        """The keys that have been stored anew since."""

    def compare(self, stored: Mapping[str, Any]) -> None:
        """`Damaged` if something is stored but not known, or the other way round."""
        ours = {k: v for k, v in stored.items() if k.partition(":")[0] in self._kinds}
        for key in (self._kept.keys() | ours.keys()) - self.changed:
            known, found = self._kept.get(key), ours.get(key)
            if known != (tuple(found) if isinstance(found, list) else found):
                raise Damaged(f"{key} is {found} in the store, and {known} in memory")
