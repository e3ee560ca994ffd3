"""Surveys: which durable subscriptions a principal has, at all nodes that can be asked."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator

from tidings.delivery.names import Names
from tidings.delivery.streams import Reached
from tidings.protocol.epochs import broker_of
from tidings.protocol.host import Reply
from tidings.protocol.messages import Survey, Surveyed
from tidings.protocol.parts import Kernel, Neighbour, Session
from tidings.protocol.requests import Durables, Held, ListDurables

_MOST = 1_000
"""Durable subscriptions that a node tells of at once."""


class _Open:
    """An survey that waits for answers."""

    __slots__ = ("asked", "body", "found", "said", "session")

    def __init__(self, session: Session, body: ListDurables, found: list[Held]) -> None:
        self.session, self.body, self.found = session, body, found
        self.asked: dict[str, int] = {}
        """The nodes that have yet to answer, and under which number."""
        self.said: set[str] = set()
        """Those that have."""


class Surveys:
    """What clients of this node and others want to know of durable subscriptions."""

    def __init__(
        self, kernel: Kernel, reached: Reached, names: Names, read: Container[str]
    ) -> None:
        """`read` are the names that are being read here."""
        self._kernel, self._reached, self._names, self._read = kernel, reached, names, read
        self._open: dict[str, list[_Open]] = {}
        """By session."""
        self._asked: dict[int, tuple[_Open, str]] = {}
        self._number = kernel.incarnation << 32

    def list_durables(self, session: Session, body: ListDurables, _: float) -> None:
        """A client asks."""
        survey = _Open(session, body, self._found(body.principal))
        self._open.setdefault(session.name, []).append(survey)
        self._go_on(survey)

    def close(self, session: Session) -> None:
        """Its client is gone."""
        for survey in self._open.pop(session.name, []):
            for number in survey.asked.values():
                del self._asked[number]

    def anew(self, streams: Iterable[str]) -> None:
        """The ways of these streams have changed, and what was under way on them is lost."""
        nodes = set(map(broker_of, streams))
        for survey in [each for some in list(self._open.values()) for each in some]:
            lost = nodes & survey.asked.keys()
            for node in lost:
                del self._asked[survey.asked.pop(node)]
            if lost:
                self._go_on(survey)

    def _go_on(self, survey: _Open) -> None:
        ways = self._reached.ways
        streams = {broker_of(s): s for s in ways.streams if broker_of(s) not in ways.names}
        for node, stream in streams.items():
            if node not in survey.asked and node not in survey.said:
                self._number += 1
                survey.asked[node] = self._number
                self._asked[self._number] = survey, node
                via = ways.via(stream)
                assert via is not None, "the node's own streams are not asked"
                path = (self._kernel.name,)
                self._kernel.send(via, Survey(stream, survey.body.principal, self._number, path))
        if not survey.asked:
            self._answer(survey)

    def _answer(self, survey: _Open) -> None:
        some = self._open[survey.session.name]
        some.remove(survey)
        if not some:
            del self._open[survey.session.name]
        known = {*map(broker_of, self._reached.known), *self._kernel.neighbours}
        unasked = sorted(known - survey.said - self._reached.ways.names.keys())
        found = sorted(survey.found, key=lambda held: (held.name, held.home))
        answer = Durables(survey.body.id, tuple(found), tuple(unasked))
        self._kernel.emit(Reply(survey.session.name, answer))

    def _found(self, principal: str) -> list[Held]:
        """What a principal has here."""
        prefix = f"{principal}/"
        names = self._names
        mine = [name for name in names.saved if name.startswith(prefix)][:_MOST]
        ends = {s: self._reached.length(s) for s in (*self._reached.known, *self._reached.own)}
        found = []
        for name in mine:
            saved = names.saved[name]
            idle = names.holdings.idle_days(name)
            found.append(
                Held(
                    name.removeprefix(prefix),
                    self._kernel.name,
                    saved.filter,
                    saved.cursor,
                    ends,
                    name in self._read,
                    saved.is_paused,
                    idle,
                )
            )
        return found

    # -- messages ------------------------------------------------------------------------------

    def asked(self, neighbour: Neighbour, message: Survey) -> None:
        """Somebody asks what a principal has here."""
        if not self._reached.passed_on(neighbour, message):
            found = tuple(self._found(message.principal))
            self._kernel.send(neighbour, Surveyed(message.number, message.path, found))

    def told(self, _: Neighbour, message: Surveyed) -> None:
        """A node answers."""
        if self._reached.passed_back(message):
            return
        survey, node = self._asked.pop(message.number, (None, ""))
        if survey is not None:
            del survey.asked[node]
            survey.said.add(node)
            survey.found += message.found
            self._go_on(survey)

    def audit(self) -> Iterator[str]:
        """Whatever cannot be true of it."""
        asked = {(n, each) for some in self._open.values() for each in some for n in each.asked}
        if asked != {(node, each) for each, node in self._asked.values()}:
            yield "nobody waits for what was asked about durable subscriptions"
