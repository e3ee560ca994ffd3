"""Agreement: what brokers hold of their clients and of each other, at every step of every run.

- A broker's table for a client is exactly what the client wants, once it is connected, where
  events are delivered at most once; else it is what the client may be sent.
- What a broker has told a neighbour is the reduction of what everybody else wants, computed
  afresh from its tables by the plain functions; what the neighbour holds, once it has read what
  is on the link, is that; and what it holds meanwhile is what it was to hold at some moment,
  nothing in between.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from tidings.delivery import AtMostOnce
from tidings.events import Filter
from tidings.node import Node
from tidings.node.ports import Neighbour
from tidings.protocol.digest import count
from tidings.protocol.host import Input, Received
from tidings.protocol.messages import (
    ADVERTISEMENTS,
    SUBSCRIPTIONS,
    Charge,
    Charged,
    Event,
    Fetch,
    Fetched,
    Frame,
    Heard,
    Member,
    Move,
    Moved,
    Seek,
    Silence,
    Sought,
    Streams,
    Survey,
    Surveyed,
    Update,
    View,
)
from tidings.protocol.parts import Port
from tidings.routing import reduce
from tidings.routing.statistics import Statistics
from tidings.routing.tables import Tables

if TYPE_CHECKING:
    from tidings.simulation.simulation import Simulation

Table = dict[Filter, int]
_TABLES: Final = (SUBSCRIPTIONS, ADVERTISEMENTS)
_OTHER: Final = (
    Charge,
    Charged,
    Event,
    Fetch,
    Fetched,
    Heard,
    Surveyed,
    Survey,
    Move,
    Moved,
    Seek,
    Silence,
    Sought,
    Streams,
)
"""What nodes say that is not of tables."""


class Told(NamedTuple):
    """What a node wants a neighbour to hold after a change."""

    ends: tuple[int, int]
    """The identities of both ends, which tell one conversation from another."""
    view: View
    sent: int
    table: Table


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


class Agreement:
    """What brokers tell each other, compared with what they are to tell."""

    def __init__(self, simulation: Simulation, fail: Callable[[str], None]) -> None:
        """`fail` is told what does not hold."""
        self._simulation, self._fail = simulation, fail
        self._told: dict[tuple[str, str, int], list[Told]] = {}
        """By who tells whom, and of which table."""
        self._has_told = False
        """Whether a node has told a neighbour something since this was last asked."""
        self._right: dict[tuple[str, str, bool], tuple[Given, Table]] = {}

    def listen(self, node: Node) -> None:
        """A step of a node may change tables several times: take note whenever it says so."""
        exchange = node.exchange
        send = exchange._send

        def noted(neighbour: Neighbour, update: Update) -> None:
            send(neighbour, update)
            self._has_told = True
            self._note(node, neighbour, update.table)

        exchange._send = noted  # type: ignore[method-assign,assignment]

    def forget(self) -> None:
        """Nothing that was told so far counts."""
        self._told.clear()

    def is_touched_by(self, input: Input | None) -> bool:
        """Whether what is told or held may be different after this.

        Most of what nodes say to each other is of other things.
        """
        had_told, self._has_told = self._has_told, False
        if had_told or not isinstance(input, Received):
            return True
        body = input.packet.body if isinstance(input.packet, Frame) else input.packet
        return body is not None and not isinstance(body, _OTHER)

    def note(self, node: Node) -> None:
        """Remember what the neighbours of a node are to hold by now."""
        for neighbour in node.neighbours.values():
            if isinstance(neighbour, Neighbour):  # a damaged node may have nothing there
                for table in _TABLES:
                    self._note(node, neighbour, table)

    def check(self, node: Node) -> None:
        """After what a node has done everything agrees."""
        self._check_sessions(node)
        for neighbour in node.neighbours.values():
            self._check_told(node, neighbour)
            other = self._simulation.nodes.get(neighbour.name)
            if other is not None:
                self._check_link(node, other)
                for table in _TABLES:
                    self._check_moment(other, node, table)

    def _check_sessions(self, node: Node) -> None:
        """A broker with a log wants for a client what it has let in, which may be less for now."""
        delivery = node.delivery
        if not isinstance(delivery, AtMostOnce):
            return
        for session in node.sessions.values():
            client = self._simulation.lines.get(session.name)
            if client is None or not delivery.clients[session.name].is_connected:
                continue
            if node.exchange.subscriptions.wanted.get(session, {}) != count(client.subscriptions):
                self._fail(f"{node.name} does not hold exactly what {client.name} wants")

    def compare(self) -> None:
        """At rest: whatever can be compared in a time that grows with the tables, agrees.

        Brokers hold what their clients want, have computed what they tell from what they hold,
        and hold what they were told. That they computed it rightly is left to probes.
        """
        for node in self._simulation.nodes.values():
            self._check_sessions(node)
            for tables in (node.exchange.subscriptions, node.exchange.advertisements):
                if tables is not None and not tables.audit():
                    self._fail(f"{node.name} has not computed what it tells from what it holds")
            for neighbour in node.neighbours:
                if neighbour in self._simulation.nodes:
                    self._check_link(node, self._simulation.nodes[neighbour])

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

    def _note(self, node: Node, neighbour: Neighbour, table: int) -> None:
        """Remember what the neighbour is to hold after all messages that were sent so far."""
        link = neighbour.link
        told = Told(
            _ends(neighbour),
            neighbour.view,
            link.sent,
            _told(node, neighbour, table),
        )
        past = self._told.setdefault((node.name, neighbour.name, table), [])
        if past and past[-1].ends != told.ends:
            past.clear()
        if not past or past[-1] != told:
            past.append(told)

    def _check_link(self, node: Node, other: Node) -> None:
        """What the neighbour holds and what is on its way to it is what it is to hold."""
        here, there = node.neighbours[other.name], other.neighbours[node.name]
        if not _are_talking(here, there):
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
        told = [_told(node, here, table) for table in _TABLES]
        if held != told:
            wanted = [_text(table) for table in told]
            self._fail(
                f"{other.name} will hold {[_text(t) for t in held]} for {node.name}, "
                f"and is to hold {wanted}"
            )

    def _check_moment(self, node: Node, other: Node, table: int) -> None:
        """What the neighbour holds now is what it was to hold after some change of this node."""
        here, there = node.neighbours[other.name], other.neighbours[node.name]
        past = self._told.get((node.name, other.name, table))
        if not past or not _are_talking(here, there) or past[-1].ends != _ends(here):
            return
        before = [t for t in past if t.sent <= there.link.received]
        if not before:
            return  # it has not read the whole table yet, and holds that of the last conversation
        del past[: len(before) - 1]
        now = past[:2] if there.link.received > past[0].sent else past[:1]
        if {t.view for t in now} != {(there.joined_by, there.joined)}:
            return
        held = _held(other, there, table)
        if held not in [told.table for told in now]:
            self._fail(
                f"{other.name} holds {_text(held)} for {node.name}, which it was to hold at no time"
            )


def _ends(neighbour: Neighbour) -> tuple[int, int]:
    return neighbour.link.identity, neighbour.link.peer


def _are_talking(here: Neighbour, there: Neighbour) -> bool:
    mine, theirs = here.link, there.link
    return mine.peer == theirs.identity and theirs.peer == mine.identity


def _told(node: Node, neighbour: Neighbour, table: int) -> Table:
    tables = node.exchange.tables(table)
    return {} if tables is None or not tables.has(neighbour) else dict(tables.told(neighbour))


def _held(node: Node, neighbour: Neighbour, table: int) -> Table:
    tables = node.exchange.tables(table)
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
