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
        self._watched: dict[str, dict[str, Filter]] = {}
        """By session and the client's own id."""
        self._wanted: dict[tuple[str, str], bool] = {}
        self._looked = 0
        """Those up to this one have been computed anew."""

    def requests(self) -> Mapping[type, Callable[[Session, Any, float], None]]:
        return {Watch: self._watch, Unsubscribe: self._unwatch}

    def _watch(self, session: Session, body: Watch, time: float) -> None:
        self._remove(session.name, body.id)
        self._watched.setdefault(session.name, {})[body.id] = body.filter
        self._set((session.name, body.id), self._exchange.is_wanted(body.filter))
        self._kernel.emit(Reply(session.name, Accepted(body.id)))

    def _unwatch(self, session: Session, body: Unsubscribe, time: float) -> None:
        if body.durable is None:
            self._remove(session.name, body.id)

    def standing(self, session: Session, *, besides: str) -> int:
        watched = self._watched.get(session.name, {})
        return len(watched) - (besides in watched)

    def attached(self, session: Session) -> None:
        self.left(session)

    def left(self, session: Session) -> None:
        for id in list(self._watched.get(session.name, ())):
            self._remove(session.name, id)

    def wants_changed(self, change: Change) -> None:
        """Look again where that matters."""
        if not self._watched:
            return
        for key, filter_ in self._all():
            if not self._wanted[key]:
                if any(added.overlaps(filter_) for added in change.added):
                    self._set(key, True)
            elif any(removed.overlaps(filter_) for removed in change.removed):
                self._set(key, self._exchange.is_wanted(filter_))

    def look_after(self, patience: float) -> None:
        """Compute some of the answers anew, and others the next time."""
        few = max(1, _COMPARED // (1 + len(self._exchange.subscriptions)))
        watched = list(self._all())
        begin = self._looked % max(1, len(watched))
        for key, filter_ in (watched[begin:] + watched[:begin])[:few]:
            self._set(key, self._exchange.is_wanted(filter_))
        self._looked = begin + few

    def audit(self, sessions: Collection[Session]) -> Iterator[str]:
        watched = {key for key, _ in self._all()}
        if watched != self._wanted.keys():
            yield f"{len(watched)} watches have {len(self._wanted)} answers"
        if not self._watched.keys() <= self._kernel.sessions.keys():
            yield "there is a watch of a session that is not there"

    def _all(self) -> Iterator[tuple[tuple[str, str], Filter]]:
        for session, watched in self._watched.items():
            for id, filter_ in watched.items():
                yield (session, id), filter_

    def _remove(self, session: str, id: str) -> None:
        watched = self._watched.get(session, {})
        watched.pop(id, None)
        if not watched:
            self._watched.pop(session, None)
        self._wanted.pop((session, id), None)

    def _set(self, key: tuple[str, str], is_wanted: bool) -> None:
        if self._wanted.get(key) is not is_wanted:
            self._wanted[key] = is_wanted
            session, id = key
            self._kernel.emit(Reply(session, Interest(id, is_wanted)))
