"""Clients: programs that attach to a node, say what they want and publish what happens.

A client keeps what it has asked for and what it has heard, so that after its broker was down it
can say all of it again. It renews its lease while it is alive; one that crashes just stops.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tidings.events import Filter, Notification
from tidings.protocol import (
    Advertise,
    Attach,
    Detach,
    Event,
    Publish,
    Refused,
    Renew,
    Resend,
    Subscribe,
    Unadvertise,
    Unsubscribe,
)
from tidings.protocol.requests import Answer, RequestBody
from tidings.protocol.wishes import summary


class Client:
    """A client of one broker; made by `Simulation.client`."""

    def __init__(self, name: str, at: str, ask: Callable[[Client, RequestBody], bool]) -> None:
        self.name = name
        self.at = at
        self.subscriptions: dict[str, Filter] = {}
        self.advertisements: dict[str, Filter] = {}
        self.heard: list[Event] = []
        """What it was notified of, in order."""
        self.refused: list[Refused] = []
        self.cursor: dict[str, int] = {}
        self.is_alive = True
        self.keeps = True
        """Whether it keeps what it hears; a client in a long run may only count it."""
        self.count = 0
        self.tick = 0
        self._ids = 0
        self._ask = ask

    def subscribe(self, filter: Filter | str) -> str:
        """Want to hear what the filter matches; the id is for `unsubscribe`."""
        id, wanted = self._next_id(), _filter(filter)
        self.subscriptions[id] = wanted
        self._ask(self, Subscribe(id, wanted))
        return id

    def unsubscribe(self, id: str) -> None:
        """Want it no longer."""
        self.subscriptions.pop(id, None)
        self._ask(self, Unsubscribe(id))

    def advertise(self, filter: Filter | str) -> str:
        """Say what will be published; the id is for `unadvertise`."""
        id, offered = self._next_id(), _filter(filter)
        self.advertisements[id] = offered
        self._ask(self, Advertise(id, offered))
        return id

    def unadvertise(self, id: str) -> None:
        """Take it back."""
        self.advertisements.pop(id, None)
        self._ask(self, Unadvertise(id))

    def publish(self, notification: Notification | Mapping[str, Any]) -> int:
        """Say what happened; the tick it got."""
        if not isinstance(notification, Notification):
            notification = Notification(notification)
        self.tick += 1
        self._ask(self, Publish(self.tick, (notification,)))
        return self.tick

    def close(self) -> None:
        """Leave in good order."""
        self._ask(self, Detach())
        self.subscriptions.clear()
        self.advertisements.clear()
        self.is_alive = False

    def crash(self) -> None:
        """Vanish: nobody is told."""
        self.is_alive = False

    def attach(self) -> None:
        """Say all of it (again)."""
        self._ask(
            self,
            Attach(dict(self.subscriptions), dict(self.advertisements), dict(self.cursor)),
        )

    def renew(self) -> None:
        """Say that it is still there."""
        self._ask(self, Renew(summary(self.subscriptions, self.advertisements)))

    # -- what the simulation calls -------------------------------------------------------------

    def notify(self, event: Event) -> None:
        """It is told of an event."""
        self.count += 1
        self.cursor[event.stream] = event.tick
        if self.keeps:
            self.heard.append(event)

    def answered(self, answer: Answer) -> None:
        """Its broker answers."""
        if isinstance(answer, Resend):
            self.attach()
        elif isinstance(answer, Refused):
            self.refused.append(answer)

    def _next_id(self) -> str:
        self._ids += 1
        return str(self._ids)


def _filter(filter: Filter | str) -> Filter:
    return Filter.parse(filter) if isinstance(filter, str) else filter
