"""Watches: clients that want to know whether somebody is interested in what they could publish."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Final

from tidings.events import Filter
from tidings.protocol.host import Reply
from tidings.protocol.parts import Change, Kernel, Part, Session
from tidings.protocol.requests import Accepted, Interest, Unsubscribe, Watch
from tidings.routing.exchange import Exchange

_COMPARED: Final = 20_000
"""Filters that all answers computed anew at a time may have to be compared with."""


class Watches(Part):
    """Each a filter, under a session and its id; its client is told when the answer changes.

    A producer of something that nobody wants can be stopped, and started when somebody does.
    """

    def __init__(self, kernel: Kernel, exchange: Exchange) -> None:
        self._kernel, self._exchange = kernel, exchange
        self._watched: dict[tuple[str, str], Filter] = {}
        self._wanted: dict[tuple[str, str], bool] = {}

    def requests(self) -> Mapping[type, Callable[[Session, Any, float], None]]:
        return {Watch: self._watch, Unsubscribe: self._unwatch}

    def _watch(self, session: Session, body: Watch, time: float) -> None:
        self._remove(session.name, body.id)
        self._watched[session.name, body.id] = body.filter
        self._set((session.name, body.id), self._exchange.is_wanted(body.filter))
        self._kernel.emit(Reply(session.name, Accepted(body.id)))

    def _unwatch(self, session: Session, body: Unsubscribe, time: float) -> None:
        if body.durable is None:
            self._remove(session.name, body.id)

    def attached(self, session: Session) -> None:
        self.left(session)

    def left(self, session: Session) -> None:
        for name, id in list(self._watched):
            if name == session.name:
                self._remove(name, id)

    def wants_changed(self, change: Change) -> None:
        """Look again where that matters."""
        for key, filter_ in self._watched.items():
            if not self._wanted[key]:
                if any(added.overlaps(filter_) for added in change.added):
                    self._set(key, True)
            elif any(removed.overlaps(filter_) for removed in change.removed):
                self._set(key, self._exchange.is_wanted(filter_))

    def look_after(self, patience: float) -> None:
        """Compute some of the answers anew, and others the next time."""
        few = max(1, _COMPARED // (1 + len(self._exchange.subscriptions)))
        for key in list(self._watched)[:few]:
            filter_ = self._watched[key] = self._watched.pop(key)
            self._set(key, self._exchange.is_wanted(filter_))

    def audit(self, sessions: Collection[Session]) -> Iterator[str]:
        if self._watched.keys() != self._wanted.keys():
            yield f"{len(self._watched)} watches have {len(self._wanted)} answers"
        if any(name not in self._kernel.sessions for name, _ in self._watched):
            yield "there is a watch of a session that is not there"

    def _remove(self, session: str, id: str) -> None:
        self._watched.pop((session, id), None)
        self._wanted.pop((session, id), None)

    def _set(self, key: tuple[str, str], is_wanted: bool) -> None:
        if self._wanted.get(key) is not is_wanted:
            self._wanted[key] = is_wanted
            session, id = key
            self._kernel.emit(Reply(session, Interest(id, is_wanted)))
