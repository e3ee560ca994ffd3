"""The exchange of tables: each neighbour is told what all others want, as a difference.

        clients                          neighbours
           │ want, advertise                │ updates
           ▼                                ▼
       ┌────────────────────────────────────────────┐
       │  advertisements ──restrict──▶ subscriptions│   tables, a reduction for each neighbour
       └────────────────────────────────────────────┘
                                            │ updates: the difference, as one message
                                            ▼
                                        neighbours

Whatever changes a table changes what neighbours are to be told, and each of them is told the
difference at once, in one message. That is all there is to subscribing, unsubscribing, covering,
merging and advertising.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from tidings.events import Filter, Notification
from tidings.protocol.messages import ADVERTISEMENTS, SUBSCRIPTIONS, Update
from tidings.protocol.parts import Kernel, Neighbour, Part, Port, Session, Table, Version
from tidings.routing import Change, Statistics
from tidings.routing.tables import NOTHING, Tables

_AUDITED: Final = 20_000
"""Filters in tables that are audited each time; larger tables are audited more rarely."""


class Exchange(Part):
    """What all ports want and advertise, and what each neighbour was told of it."""

    def __init__(
        self, kernel: Kernel, *, subscriptions: str, advertisements: str | None, period: float
    ) -> None:
        """Take the strategies by which neighbours are told; None if there are no advertisements.

        Small tables are audited after each `period`, in seconds.
        """
        self._kernel = kernel
        self._period = period
        self._audit_at = 0.0
        self._strategies = {SUBSCRIPTIONS: subscriptions, ADVERTISEMENTS: advertisements or ""}
        self.advertisements: Tables[Port] | None = None if advertisements is None else Tables()
        self.subscriptions: Tables[Port] = Tables(limits=self.advertisements)

    def messages(self) -> Mapping[type, Callable[[Any, Any], None]]:
        return {Update: self._updated}

    def tables(self, table: int) -> Tables[Port] | None:
        """One of the two, by its number."""
        return self.subscriptions if table == SUBSCRIPTIONS else self.advertisements

    # -- what parts ask: see `Wants` -----------------------------------------------------------

    @property
    def is_advertised(self) -> bool:
        return self.advertisements is not None

    def filters(self, notification: Notification) -> list[Filter]:
        return self.subscriptions.filters(notification)

    def filters_of(self, notifications: Sequence[Notification]) -> list[list[Filter]]:
        return self.subscriptions.filters_of(notifications)

    def holders(self, filters: Iterable[Filter]) -> Collection[Port]:
        return self.subscriptions.holders(filters)

    def match(self, notification: Notification) -> set[Port]:
        return self.subscriptions.match(notification)

    def is_told(self, neighbour: Neighbour) -> bool:
        return self.subscriptions.has(neighbour)

    def told(self, neighbour: Neighbour) -> Table:
        return self.subscriptions.told(neighbour)

    def told_advertised(self, neighbour: Neighbour) -> Table | None:
        ads = self.advertisements
        return None if ads is None or not ads.has(neighbour) else ads.told(neighbour)

    def wanted(self, port: Port) -> Table:
        return self.subscriptions.wanted.get(port, NOTHING)

    def is_wanted(self, filter: Filter) -> bool:
        return self.subscriptions.overlap(filter)

    def advertised_by(self, session: Session) -> Table | None:
        ads = self.advertisements
        return None if ads is None else ads.wanted.get(session, NOTHING)

    def is_for_all(
        self, session: Session, notification: Notification, *, enforce: bool
    ) -> bool | None:
        if self.advertisements is None:
            return False
        if any(ad.matches(notification) for ad in session.advertisements.values()):
            return False
        return None if enforce else True

    def want(self, session: Session, added: Table, removed: Table) -> None:
        self._change(SUBSCRIPTIONS, session, added, removed)

    def advertise(self, session: Session, added: Table, removed: Table) -> None:
        self._change(ADVERTISEMENTS, session, added, removed)

    def become(self, session: Session, wanted: Table, advertised: Table) -> None:
        self.replace(ADVERTISEMENTS, session, advertised)
        self.replace(SUBSCRIPTIONS, session, wanted)

    def learn(self, statistics: Statistics) -> None:
        """This is known of the events from now on: tell each neighbour what follows."""
        self.subscriptions.learn(statistics)
        for neighbour in self._kernel.neighbours.values():
            self._tell(SUBSCRIPTIONS, neighbour)

    # -- ports come and go ---------------------------------------------------------------------

    def left(self, session: Session) -> None:
        self.replace(SUBSCRIPTIONS, session, NOTHING, leaving=True)
        self.replace(ADVERTISEMENTS, session, NOTHING, leaving=True)

    def linked(self, neighbour: Neighbour) -> None:
        """A parent tells its children only "everything", so what they want goes upwards only."""
        for table in (ADVERTISEMENTS, SUBSCRIPTIONS):
            tables = self.tables(table)
            if tables is not None:
                downwards = neighbour.role == "child"
                tables.open(neighbour, "flooding" if downwards else self._strategies[table])

    def unlinked(self, neighbour: Neighbour) -> None:
        self.replace(SUBSCRIPTIONS, neighbour, NOTHING, leaving=True)
        self.replace(ADVERTISEMENTS, neighbour, NOTHING, leaving=True)
        self._kernel.parts.closed(neighbour)

    def given_up(self, neighbour: Neighbour) -> None:
        self.replace(SUBSCRIPTIONS, neighbour, NOTHING)
        self.replace(ADVERTISEMENTS, neighbour, NOTHING)
        self._kernel.parts.closed(neighbour)

    def begun(self, neighbour: Neighbour) -> None:
        for table in (ADVERTISEMENTS, SUBSCRIPTIONS):
            tables = self.tables(table)
            if tables is not None and tables.has(neighbour):
                tables.drain(neighbour)
                told = dict(tables.told(neighbour))
                self._send(neighbour, Update(table, neighbour.view, told, {}, whole=True))
        self._kernel.parts.opened(neighbour)

    # -- changes -------------------------------------------------------------------------------

    def replace(self, table: int, port: Port, whole: Table, *, leaving: bool = False) -> None:
        """A port wants or advertises exactly this; nothing any more if it is leaving."""
        tables = self.tables(table)
        if tables is None:
            return
        change = tables.replace(port, whole)
        if leaving:
            tables.close(port)
        self._changed(table, port, change)

    def _change(self, table: int, port: Port, added: Table, removed: Table) -> None:
        tables = self.tables(table)
        if tables is not None:
            self._changed(table, port, tables.change(port, added, removed))

    def _changed(self, table: int, port: Port, change: Change) -> None:
        """What a port wants or advertises has changed: tell each neighbour what follows."""
        if not change:
            return
        if table == SUBSCRIPTIONS:
            self._kernel.parts.wants_changed(change)
        elif not isinstance(port, Session):
            told = port.told
            self.subscriptions.restrict(port, change)
            self._tell(SUBSCRIPTIONS, port)
            if change.added or port.told > told:
                self._kernel.parts.advertised(port, has_grown=port.told > told)
        for neighbour in self._kernel.neighbours.values():
            if neighbour is not port:
                self._tell(table, neighbour)

    def _tell(self, table: int, neighbour: Neighbour) -> None:
        tables = self.tables(table)
        if tables is not None and tables.has(neighbour):
            change = tables.drain(neighbour)
            if change and neighbour.is_open:
                self._send(neighbour, Update(table, neighbour.view, change.added, change.removed))

    def _send(self, neighbour: Neighbour, update: Update) -> None:
        self._kernel.send(neighbour, update)
        if update.table == SUBSCRIPTIONS:
            neighbour.told = Version(neighbour.told + 1)

    def _updated(self, neighbour: Neighbour, message: Update) -> None:
        if not neighbour.sees(message.view):
            return
        if message.whole:
            self.replace(message.table, neighbour, message.added)
        else:
            self._change(message.table, neighbour, message.added, message.removed)

    # -- auditing ------------------------------------------------------------------------------

    def mend(self) -> bool:
        """Compute anew what does not fit the tables; whether all did.

        It looks at every filter at once, while clients wait: with many it is rare, and a node
        without neighbours, which nobody else depends on, does without it.
        """
        kernel = self._kernel
        parts = len(self.subscriptions) // _AUDITED
        period = self._period * (1 + parts)
        if kernel.now < self._audit_at <= kernel.now + period or (parts and not kernel.neighbours):
            return True
        self._audit_at = kernel.now + period
        sound = [t.audit() for t in (self.advertisements, self.subscriptions) if t is not None]
        return all(sound)

    def audit(self, sessions: Collection[Session]) -> Iterator[str]:
        kernel = self._kernel
        known: set[Port] = {*kernel.neighbours.values(), *kernel.sessions.values()}
        for tables in (self.subscriptions, self.advertisements):
            if tables is None:
                continue
            for name, neighbour in kernel.neighbours.items():
                if tables.has(neighbour) is not neighbour.is_linked:
                    yield f"the tables of {name} are open: {not neighbour.is_linked}"
            if not tables.wanted.keys() <= known:
                yield "there is a table of somebody who is not there"
