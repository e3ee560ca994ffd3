"""Homes: at which node of the network a durable subscription lives.

A durable name lives at the node where it was made. Before another one makes a subscription of that
name, it asks all nodes that it can reach whether one of them has it. Two that make it at once ask
each other; then the one whose name comes first goes on::

    a  seeks  ──Seek──▶  b             b has it, or makes it and comes first: a gives up
              ◀─Sought──               b makes it and comes later: b gives up, and says no

So of two nodes that could ask each other, one at most makes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol, TypeVar

from tidings.delivery.streams import Reached
from tidings.protocol.epochs import broker_of
from tidings.protocol.host import Reply
from tidings.protocol.messages import Seek, Sought
from tidings.protocol.parts import Kernel, Neighbour, Session
from tidings.protocol.requests import Refused, Subscribe


class Search:
    """A subscription that waits until all who can be asked have said whether they have its name."""

    __slots__ = ("answered", "asked", "body", "name", "session", "time")

    def __init__(self, session: Session, body: Subscribe, time: float, own: Iterable[str]) -> None:
        self.session, self.body, self.time = session, body, time
        self.name = body.durable or ""
        self.asked: dict[str, int] = {}
        """The nodes that were asked, and under which number."""
        self.answered = set(own)
        """The nodes that do not have it."""


class Keeper(Protocol):
    """What has the durable subscriptions of a node."""

    def holds(self, name: str) -> bool:
        """Whether one of this name lives here."""

    def admit(self, session: Session, body: Subscribe, time: float) -> None:
        """Begin to read, or refuse it: it is known where the name lives."""


class Homes:
    """Who looks for a durable name here; one that is found nowhere is let in."""

    def __init__(self, kernel: Kernel, reached: Reached, keeper: Keeper) -> None:
        self._kernel, self._reached, self._keeper = kernel, reached, keeper
        self._holds = keeper.holds
        self._searches: dict[str, dict[str, Search]] = {}
        """By session and id."""
        self._makers: dict[str, dict[Search, None]] = {}
        """By name."""
        self._asked: dict[int, tuple[Search, str]] = {}
        """By number, with the node that was asked."""
        self._number = kernel.incarnation << 32
        """Answers to what an earlier node of this name asked may still be on their way."""
        self._is_due = False
        """Ways have changed since those who look were last looked after."""

    def pending(self, session: str) -> int:
        """How many subscriptions of a session wait."""
        return len(self._searches.get(session, ()))

    def seek(self, session: Session, body: Subscribe, time: float) -> None:
        """Let in a subscription whose name is not known here, or refuse it, as others say."""
        search = Search(session, body, time, self._reached.ways.names)
        self._searches.setdefault(session.name, {})[body.id] = search
        self._makers.setdefault(search.name, {})[search] = None
        self._go_on(search)

    def cancel(self, session: Session, id: str) -> None:
        """Its client no longer wants it."""
        search = self._searches.get(session.name, {}).get(id)
        if search is not None:
            self._end(search)

    def close(self, session: Session) -> None:
        """Its client is gone."""
        for search in list(self._searches.get(session.name, {}).values()):
            self._end(search)

    def anew(self, streams: Iterable[str]) -> None:
        """The ways of these streams have changed, and what was under way on them is lost."""
        for search in self._all():
            for node in map(broker_of, streams):
                self._asked.pop(search.asked.pop(node, 0), None)
        self._is_due = True
        self._kernel.soon(self._go_on_with_all)

    def _go_on_with_all(self) -> None:
        """Go on where ways have changed, but not while events are passed on: a reader let in then
        would be told that it is behind events that were matched before it was there.
        """
        if not self._is_due:
            return
        self._is_due = False
        for search in self._all():
            if search in self._makers.get(search.name, ()):  # else it has ended meanwhile
                self._go_on(search)

    def _all(self) -> list[Search]:
        return [search for some in self._searches.values() for search in some.values()]

    def audit(self) -> Iterator[str]:
        """Whatever cannot be true of it between two inputs."""
        by_session = {each for some in self._searches.values() for each in some.values()}
        if by_session != {each for some in self._makers.values() for each in some}:
            yield "somebody looks for a durable name who is not known by it"
        asked = {(number, search) for number, (search, _) in self._asked.items()}
        if asked != {(n, each) for each in by_session for n in each.asked.values()}:
            yield "nobody waits for what was asked about a durable name, or the other way round"

    def _go_on(self, search: Search) -> None:
        """Ask those that were not asked yet; decide when there are none left."""
        reachable = {broker_of(stream): stream for stream in self._reached.ways.streams}
        for node, stream in reachable.items():
            if node in search.answered or node in search.asked:
                continue
            self._number += 1
            search.asked[node] = self._number
            self._asked[self._number] = search, node
            via = self._reached.ways.via(stream)
            assert via is not None, "the node's own streams have answered"
            path = (self._kernel.name,)
            self._kernel.send(via, Seek(stream, search.name, self._number, path))
        if reachable.keys() <= search.answered:
            others = {*map(broker_of, self._reached.known), *self._kernel.neighbours}
            unasked = sorted(others - search.answered)
            is_unsure = bool(unasked) and search.body.home == "sure"
            self._decide(search, _unsure(unasked) if is_unsure else None)

    def _decide(self, search: Search, refusal: str | None) -> None:
        """Let it in, unless there is a reason not to; somebody else may have made it meanwhile."""
        if refusal is None or self._holds(search.name):
            self._end(search)
            self._keeper.admit(search.session, search.body, search.time)
        else:
            self._refuse(search, refusal)

    def _end(self, search: Search) -> None:
        for number in search.asked.values():
            del self._asked[number]
        _remove(self._searches, search.session.name, search.body.id)
        _remove(self._makers, search.name, search)

    def _refuse(self, search: Search, reason: str) -> None:
        self._end(search)
        self._kernel.emit(Reply(search.session.name, Refused(search.body.id, reason)))

    # -- messages ------------------------------------------------------------------------------

    def asked(self, neighbour: Neighbour, message: Seek) -> None:
        """Somebody looks for a durable name."""
        if not self._reached.passed_on(neighbour, message):
            has_it = self._has(message.durable, asker=message.path[0])
            self._kernel.send(neighbour, Sought(message.number, message.path, has_it))

    def _has(self, name: str, *, asker: str) -> bool:
        """Whether it lives here, or is going to."""
        if self._holds(name):
            return True
        makers = list(self._makers.get(name, ()))
        if makers and self._kernel.name < asker:
            return True
        for search in makers:
            self._refuse(search, _elsewhere(asker))
        return False

    def told(self, _: Neighbour, message: Sought) -> None:
        """Somebody answers whether a name lives there."""
        if self._reached.passed_back(message):
            return
        search, node = self._asked.pop(message.number, (None, ""))
        if search is not None:
            del search.asked[node]
            if message.has_it:
                self._decide(search, _elsewhere(node))
            else:
                search.answered.add(node)
                self._go_on(search)


K = TypeVar("K")
V = TypeVar("V")


def _remove(table: dict[str, dict[K, V]], one: str, other: K) -> None:
    """Without leaving a row that is empty."""
    del table[one][other]
    if not table[one]:
        del table[one]


def _elsewhere(broker: str) -> str:
    return (
        f"this durable subscription lives at broker {broker}; connect there, or forget it there "
        'first; with home="here" (--here) another one of its name begins here'
    )


def _unsure(unasked: list[str]) -> str:
    return (
        "this broker does not know this durable subscription, which may live at "
        f"{' or '.join(unasked)}, and cannot be asked for there now; try again later, "
        'or begin one here with home="here" (--here)'
    )
