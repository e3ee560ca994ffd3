"""All parts of a node as one, for whoever has something to tell them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from tidings.protocol.host import Damaged, Recalled
from tidings.protocol.parts import Change, Neighbour, Part, Session, Shelf, Single, Step


class Parts(Part):
    """Tells each of them, in order, what it is told."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self.all = tuple(parts)
        kinds = [each.kind for part in parts for each in part.saved()]
        assert len(kinds) == len(set(kinds)), f"two parts keep the same: {sorted(kinds)}"
        # Only those who listen: some of these are said for each request.
        self._askers = [part for part in parts if type(part).asked is not Part.asked]
        self._settlers = [part for part in parts if type(part).settle is not Part.settle]
        self._keepers = [part for part in parts if type(part).standing is not Part.standing]
        self._watchers = [p for p in parts if type(p).wants_changed is not Part.wants_changed]

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

    def start(self, stored: Mapping[str, Any], time: float) -> None:
        for part in self.all:
            part.start(stored, time)

    def came(self, session: Session) -> None:
        for part in self.all:
            part.came(session)

    def asked(self, session: Session) -> None:
        for part in self._askers:
            part.asked(session)

    def attached(self, session: Session) -> None:
        for part in self.all:
            part.attached(session)

    def left(self, session: Session) -> None:
        for part in self.all:
            part.left(session)

    def linked(self, neighbour: Neighbour) -> None:
        for part in self.all:
            part.linked(neighbour)

    def unlinked(self, neighbour: Neighbour) -> None:
        for part in self.all:
            part.unlinked(neighbour)

    def begun(self, neighbour: Neighbour) -> None:
        for part in self.all:
            part.begun(neighbour)

    def given_up(self, neighbour: Neighbour) -> None:
        for part in self.all:
            part.given_up(neighbour)

    def opened(self, neighbour: Neighbour) -> None:
        for part in self.all:
            part.opened(neighbour)

    def closed(self, neighbour: Neighbour) -> None:
        for part in self.all:
            part.closed(neighbour)

    def wants_changed(self, change: Change) -> None:
        for part in self._watchers:
            part.wants_changed(change)

    def advertised(self, neighbour: Neighbour, *, has_grown: bool) -> None:
        for part in self.all:
            part.advertised(neighbour, has_grown=has_grown)

    def repaired(self, neighbour: Neighbour) -> None:
        for part in self.all:
            part.repaired(neighbour)

    def doubted(self) -> None:
        for part in self.all:
            part.doubted()

    @property
    def settles(self) -> bool:
        """Whether any of them has something to do when all has been dealt with."""
        return bool(self._settlers)

    def settle(self) -> bool:
        has_more = False
        for part in self._settlers:
            has_more |= part.settle()
        return has_more

    def mend(self) -> bool:
        sound = [part.mend() for part in self.all]
        return all(sound)

    def look_after(self, patience: float) -> None:
        for part in self.all:
            part.look_after(patience)

    def audit(self, sessions: Collection[Session]) -> Iterator[str]:
        for part in self.all:
            yield from part.audit(sessions)

    def kept(self) -> Mapping[str, Any]:
        return {key: value for part in self.all for key, value in part.kept().items()}

    def recall(self) -> None:
        for part in self.all:
            part.recall()

    def recalled(self, found: Recalled) -> None:
        for part in self.all:
            part.recalled(found)


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
