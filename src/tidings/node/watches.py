"""Watches: clients that want to know whether somebody is interested in what they could publish."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator

from tidings.events import Filter
from tidings.node.ports import Port
from tidings.routing import Change
from tidings.routing.tables import Tables


class Watches:
    """Each a filter, under a session and its id; `tell` is called when its answer changes.

    A producer of something that nobody wants can be stopped, and started when somebody does.
    """

    def __init__(self, tell: Callable[[str, str, bool], None]) -> None:
        self._tell = tell
        self._watched: dict[tuple[str, str], Filter] = {}
        self._wanted: dict[tuple[str, str], bool] = {}

    def __bool__(self) -> bool:
        return bool(self._watched)

    def add(self, session: str, id: str, filter: Filter, tables: Tables[Port]) -> None:
        """Tell it now, and whenever that changes."""
        self.remove(session, id)
        self._watched[session, id] = filter
        self._set((session, id), tables.overlap(filter))

    def remove(self, session: str, id: str) -> None:
        """Tell it no longer."""
        self._watched.pop((session, id), None)
        self._wanted.pop((session, id), None)

    def close(self, session: str) -> None:
        """A session is gone."""
        for name, id in list(self._watched):
            if name == session:
                self.remove(name, id)

    def changed(self, change: Change, tables: Tables[Port]) -> None:
        """What somebody wants has changed: look again where that matters."""
        for key, filter_ in self._watched.items():
            if not self._wanted[key]:
                if any(added.overlaps(filter_) for added in change.added):
                    self._set(key, True)
            elif any(removed.overlaps(filter_) for removed in change.removed):
                self._set(key, tables.overlap(filter_))

    def audit(self, sessions: Container[str]) -> Iterator[str]:
        """Whatever cannot be true of them."""
        if self._watched.keys() != self._wanted.keys():
            yield f"{len(self._watched)} watches have {len(self._wanted)} answers"
        if any(session not in sessions for session, _ in self._watched):
            yield "there is a watch of a session that is not there"

    def look_again(self, tables: Tables[Port], most: int) -> None:
        """Compute some of the answers anew, and others the next time."""
        for key in list(self._watched)[: max(1, most // (1 + len(tables)))]:
            filter_ = self._watched[key] = self._watched.pop(key)
            self._set(key, tables.overlap(filter_))

    def _set(self, key: tuple[str, str], is_wanted: bool) -> None:
        if self._wanted.get(key) is not is_wanted:
            self._wanted[key] = is_wanted
            self._tell(*key, is_wanted)
