"""Properties: what must hold at every step of every run, whatever breaks.

- Nobody is notified twice of an event (P1), of one that was not published (P2), that it does not
  want at that moment (P3), or that its publisher had not advertised where that is enforced (P5).
- The events of one publisher arrive in the order in which they were published.
- Whoever wanted an event when nothing else was under way, and has not ceased to, hears it, as long
  as no broker and no link has failed (P4).
- A broker's table for a client is exactly what the client wants.
- What a broker has told a neighbour is the reduction of what everybody else wants, computed
  afresh from its tables by the plain functions; what the neighbour holds, once it has read what
  is on the link, is that; and what it holds meanwhile is what it was to hold at some moment,
  nothing in between.

What must hold at rest (P4 again, and perfection) needs probes: see `play`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from tidings.delivery import AtMostOnce
from tidings.events import Filter, Notification, TidingsError
from tidings.node import Node
from tidings.node.ports import Neighbour
from tidings.protocol import Event
from tidings.protocol.messages import ADVERTISEMENTS, SUBSCRIPTIONS, Member, Update, View
from tidings.protocol.parts import Port
from tidings.protocol.wishes import count
from tidings.routing import reduce
from tidings.routing.statistics import Statistics
from tidings.routing.tables import Tables
from tidings.simulation.clients import Client

if TYPE_CHECKING:
    from tidings.simulation.simulation import Simulation

Table = dict[Filter, int]


class Violation(TidingsError):  # noqa: N818 - it is the run that is wrong, not a call
    """Something that must never happen has happened."""


class Told(NamedTuple):
    """What a node wants a neighbour to hold at the end of a step."""

    session: tuple[int, int]
    view: View
    sent: int
    tables: tuple[Table, Table]
    is_single: bool
    """Whether the step made one change only, so that nothing lies between it and the last."""


class Given(NamedTuple):
    """All that decides what a neighbour is to be told."""

    strategy: str
    others: Table
    """What everybody but the neighbour wants."""
    statistics: Statistics | None
    ads: frozenset[Filter] | None
    """What the neighbour advertises; None if nobody has to."""

    @classmethod
    def of(cls, tables: Tables[Port], neighbour: Neighbour, strategy: str) -> Given:
        """What is to be reduced for a neighbour by now."""
        if neighbour.role == "child":
            strategy = "flooding"
        others: Table = {}
        for port, table in tables.wanted.items():
            if port is not neighbour:
                for filter_, number in table.items():
                    others[filter_] = others.get(filter_, 0) + number
        limits = tables.limits
        ads = None if limits is None else frozenset(limits.wanted.get(neighbour, {}))
        return cls(strategy, others, tables.statistics, ads)

    def reduced(self) -> Table:
        """What the neighbour is to be told, by the plain functions alone."""
        told = reduce(self.strategy, self.others, self.statistics)
        if self.ads is None:
            return told
        return {f: n for f, n in told.items() if any(f.overlaps(ad) for ad in self.ads)}


class Properties:
    """Watches a simulation, and raises `Violation` at the first step that breaks a promise."""

    def __init__(self) -> None:
        self.simulation: Simulation
        self.is_damaged = False
        """Tables have been corrupted: until they are repaired, they need not be right."""
        self.is_steady = True
        """No broker and no link has failed so far: nothing may be lost."""
        self._owed: dict[tuple[str, str, int], set[str]] = {}
        """Who is to hear what, because of which subscriptions."""
        self._published: dict[tuple[str, int], tuple[Notification, bool]] = {}
        self._notified: set[tuple[str, str, int]] = set()
        self._last: dict[tuple[str, str], int] = {}
        self._told: dict[tuple[str, str], list[Told]] = {}
        self._state: dict[str, tuple[int, list[View], set[str]]] = {}
        self._right: dict[tuple[str, str, bool], tuple[Given, Table]] = {}

    def watch(self, simulation: Simulation) -> None:
        """Check this simulation from now on."""
        self.simulation = simulation
        simulation.watchers.append(self)

    # -- what clients see ----------------------------------------------------------------------

    def published(self, client: Client, event: Event) -> None:
        """A client hands an event to its broker."""
        advertised = any(ad.matches(event.notification) for ad in client.advertisements.values())
        self._published[event.stream, event.tick] = (event.notification, advertised)
        if self._is_at_rest() and self._may_publish(advertised):
            for reader in self.simulation.clients.values():
                wanted = reader.subscriptions.items() if reader.is_alive else ()
                ids = {id for id, f in wanted if f.matches(event.notification)}
                if ids:
                    self._owed[reader.name, event.stream, event.tick] = ids

    def _is_at_rest(self) -> bool:
        settings = self.simulation.settings
        if settings.tree and self.simulation.now < settings.silence + 7 * settings.beat:
            return False  # the first tree is still being agreed on
        return self.is_steady and self.simulation.is_settled

    def _may_publish(self, advertised: bool) -> bool:
        settings = self.simulation.settings
        return advertised or settings.advertisements is None or not settings.enforce

    def check_owed(self) -> None:
        """At rest: everybody has heard what it was to hear, unless it has lost interest."""
        for (name, stream, tick), ids in self._owed.items() if self.is_steady else ():
            client = self.simulation.clients[name]
            if client.is_alive and not ids.isdisjoint(client.subscriptions):
                self._fail(f"{name} has never heard of {stream}/{tick}, which it wants")
        self._owed.clear()

    def notified(self, client: Client, event: Event) -> None:
        """A client is about to be notified."""
        what = f"{client.name} is notified of {event.stream}/{event.tick}"
        published = self._published.get((event.stream, event.tick))
        if published is None or published[0] != event.notification:
            self._fail(f"{what}, which was not published")
        if not self._may_publish(published[1]):
            self._fail(f"{what}, which was not advertised")
        if not self.is_damaged:
            wanted = any(f.matches(event.notification) for f in client.subscriptions.values())
            if not wanted:
                self._fail(f"{what}, which it does not want")
        if (client.name, event.stream, event.tick) in self._notified:
            self._fail(f"{what} twice")
        self._notified.add((client.name, event.stream, event.tick))
        self._owed.pop((client.name, event.stream, event.tick), None)
        if event.tick <= self._last.get((client.name, event.stream), 0):
            self._fail(f"{what} after a later one")
        self._last[client.name, event.stream] = event.tick

    # -- what brokers hold ---------------------------------------------------------------------

    def stepped(self, name: str) -> None:
        """A node has dealt with an input."""
        node = self.simulation.nodes.get(name)
        if node is None:
            return
        read = sum(n.link.received for n in node.neighbours.values())
        views = [n.view for n in node.neighbours.values()]
        sessions = set(node.sessions)
        before, views_before, there = self._state.get(name, (0, views, sessions))
        # Two leases that end together are two changes.
        is_single = read - before in (0, 1) and views == views_before and len(there ^ sessions) < 2
        self._state[name] = (read, views, sessions)
        for neighbour in node.neighbours.values():
            self._note(node, neighbour, is_single)
        if self.is_damaged:
            return
        self._check_sessions(node)
        for neighbour in node.neighbours.values():
            self._check_told(node, neighbour)
            other = self.simulation.nodes.get(neighbour.name)
            if other is not None:
                self._check_link(node, other)
                self._check_moment(other, node)

    def _check_sessions(self, node: Node) -> None:
        for session in node.sessions.values():
            client = self.simulation.clients.get(session.name)
            delivery = node.delivery
            assert isinstance(delivery, AtMostOnce)
            is_connected = delivery.clients[session.name].is_connected
            if client is None or not client.is_alive or not is_connected:
                continue
            if node.exchange.subscriptions.wanted.get(session, {}) != count(client.subscriptions):
                self._fail(f"{node.name} does not hold exactly what {client.name} wants")

    def _check_told(self, node: Node, neighbour: Neighbour) -> None:
        """The reductions agree with the plain functions."""
        ads = node.exchange.advertisements
        for tables, strategy in (
            (node.exchange.subscriptions, node.settings.subscriptions),
            (ads, node.settings.advertisements),
        ):
            if tables is None or strategy is None or not tables.has(neighbour):
                continue
            if tables.repairs:
                self._fail(f"{node.name} had to repair tables that nobody has damaged")
            right = self._plain_told(node, tables, neighbour, strategy)
            if dict(tables.told(neighbour)) != right:
                self._fail(
                    f"{node.name} wants {neighbour.name} to hold {_text(tables.told(neighbour))}, "
                    f"but what the others want reduces to {_text(right)}"
                )

    def _plain_told(
        self, node: Node, tables: Tables[Port], neighbour: Neighbour, strategy: str
    ) -> Table:
        """What a neighbour is to be told. Most steps change no table: that is not computed anew."""
        given = Given.of(tables, neighbour, strategy)
        place = (node.name, neighbour.name, tables is node.exchange.subscriptions)
        known = self._right.get(place)
        if known is None or known[0] != given:
            known = self._right[place] = (given, given.reduced())
        return known[1]

    def _note(self, node: Node, neighbour: Neighbour, is_single: bool) -> None:
        """Remember what the neighbour is to hold after so many messages."""
        link = neighbour.link
        told = Told(
            (link.identity, link.peer),
            neighbour.view,
            link.sent,
            _told_tables(node, neighbour),
            is_single,
        )
        past = self._told.setdefault((node.name, neighbour.name), [])
        if past and past[-1].session != told.session:
            past.clear()
        if not past or past[-1][:-1] != told[:-1]:
            past.append(told)

    def _check_link(self, node: Node, other: Node) -> None:
        """What the neighbour holds and what is on its way to it is what it is to hold."""
        here, there = node.neighbours[other.name], other.neighbours[node.name]
        if not _in_session(here, there):
            return
        held: list[Table] = [_held(other, there, table) for table in (0, 1)]
        joined_by = there.joined_by
        for number, body in here.link.queue:
            if number <= there.link.received:
                continue
            if isinstance(body, Member):
                joined_by, held = body.number, [{}, {}]
            elif isinstance(body, Update) and body.view == (joined_by, there.joined):
                held[body.table] = _updated(held[body.table], body)
        if here.view != (joined_by, there.joined):
            return  # the neighbour has news for this node, after which both begin anew
        if tuple(held) != _told_tables(node, here):
            wanted = [_text(t) for t in _told_tables(node, here)]
            self._fail(
                f"{other.name} will hold {[_text(t) for t in held]} for {node.name}, "
                f"and is to hold {wanted}"
            )

    def _check_moment(self, node: Node, other: Node) -> None:
        """What the neighbour holds now is what it was to hold after some step of this node."""
        here, there = node.neighbours[other.name], other.neighbours[node.name]
        past = self._told.get((node.name, other.name))
        if not past or not _in_session(here, there):
            return
        before = [t for t in past if t.sent <= there.link.received]
        if not before:
            return  # it has not read the whole table yet, and holds that of the last session
        del past[: len(before) - 1]
        now = past[:2] if there.link.received > past[0].sent else past[:1]
        if {t.view for t in now} != {(there.joined_by, there.joined)}:
            return
        if len(now) > 1 and not now[1].is_single:
            return
        for table in (SUBSCRIPTIONS, ADVERTISEMENTS):
            if _held(other, there, table) not in [t.tables[table] for t in now]:
                self._fail(
                    f"{other.name} holds {_text(_held(other, there, table))} for {node.name}, "
                    "which it was to hold at no time"
                )

    def _fail(self, what: str) -> NoReturn:
        raise Violation(f"at {self.simulation.now:.3f} s: {what}")


def _in_session(here: Neighbour, there: Neighbour) -> bool:
    mine, theirs = here.link, there.link
    return mine.peer == theirs.identity and theirs.peer == mine.identity


def _told_tables(node: Node, neighbour: Neighbour) -> tuple[Table, Table]:
    return tuple(  # type: ignore[return-value]
        {} if tables is None or not tables.has(neighbour) else dict(tables.told(neighbour))
        for tables in (node.exchange.subscriptions, node.exchange.advertisements)
    )


def _held(node: Node, neighbour: Neighbour, table: int) -> Table:
    tables = node.exchange.subscriptions if table == SUBSCRIPTIONS else node.exchange.advertisements
    return {} if tables is None else dict(tables.wanted.get(neighbour, {}))


def _updated(held: Table, update: Update) -> Table:
    if update.whole:
        return dict(update.added)
    for filter_, number in update.removed.items():
        held[filter_] = held.get(filter_, 0) - number
    for filter_, number in update.added.items():
        held[filter_] = held.get(filter_, 0) + number
    return {f: n for f, n in held.items() if n > 0}


def _text(table: Mapping[Filter, int]) -> str:
    return "{" + ", ".join(f"{f} ×{n}" if n > 1 else str(f) for f, n in table.items()) + "}"
