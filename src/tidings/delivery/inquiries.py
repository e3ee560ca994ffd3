"""Inquiries: which durable subscriptions a principal has, at all nodes that can be asked."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator

from tidings.delivery.names import Names
from tidings.delivery.streams import Reached
from tidings.protocol.epochs import broker_of
from tidings.protocol.host import Reply
from tidings.protocol.messages import Inquired, Inquiry
from tidings.protocol.parts import Kernel, Neighbour, Session
from tidings.protocol.requests import Durables, Held, Inquire

_MOST = 1_000
"""Durable subscriptions that a node tells of at once."""


class _Open:
    """An inquiry that waits for answers."""

    __slots__ = ("asked", "body", "found", "said", "session")

    def __init__(self, session: Session, body: Inquire, found: list[Held]) -> None:
        self.session, self.body, self.found = session, body, found
        self.asked: dict[str, int] = {}
        """The nodes that have yet to answer, and under which number."""
        self.said: set[str] = set()
        """Those that have."""


class Inquiries:
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

    def inquire(self, session: Session, body: Inquire, _: float) -> None:
        """A client asks."""
        inquiry = _Open(session, body, self._found(body.principal))
        self._open.setdefault(session.name, []).append(inquiry)
        self._go_on(inquiry)

    def close(self, session: Session) -> None:
        """Its client is gone."""
        for inquiry in self._open.pop(session.name, []):
            for number in inquiry.asked.values():
                del self._asked[number]

    def anew(self, streams: Iterable[str]) -> None:
        """The ways of these streams have changed, and what was under way on them is lost."""
        nodes = set(map(broker_of, streams))
        for inquiry in [each for some in list(self._open.values()) for each in some]:
            lost = nodes & inquiry.asked.keys()
            for node in lost:
                del self._asked[inquiry.asked.pop(node)]
            if lost:
                self._go_on(inquiry)

    def _go_on(self, inquiry: _Open) -> None:
        ways = self._reached.ways
        streams = {broker_of(s): s for s in ways.streams if broker_of(s) not in ways.names}
        for node, stream in streams.items():
            if node not in inquiry.asked and node not in inquiry.said:
                self._number += 1
                inquiry.asked[node] = self._number
                self._asked[self._number] = inquiry, node
                via = ways.via(stream)
                assert via is not None, "the node's own streams are not asked"
                path = (self._kernel.name,)
                self._kernel.send(via, Inquiry(stream, inquiry.body.principal, self._number, path))
        if not inquiry.asked:
            self._answer(inquiry)

    def _answer(self, inquiry: _Open) -> None:
        some = self._open[inquiry.session.name]
        some.remove(inquiry)
        if not some:
            del self._open[inquiry.session.name]
        known = {*map(broker_of, self._reached.known), *self._kernel.neighbours}
        unasked = sorted(known - inquiry.said - self._reached.ways.names.keys())
        found = sorted(inquiry.found, key=lambda held: (held.name, held.home))
        answer = Durables(inquiry.body.id, tuple(found), tuple(unasked))
        self._kernel.emit(Reply(inquiry.session.name, answer))

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

    def asked(self, neighbour: Neighbour, message: Inquiry) -> None:
        """Somebody asks what a principal has here."""
        if not self._reached.passed_on(neighbour, message):
            found = tuple(self._found(message.principal))
            self._kernel.send(neighbour, Inquired(message.number, message.path, found))

    def told(self, _: Neighbour, message: Inquired) -> None:
        """A node answers."""
        if self._reached.passed_back(message):
            return
        inquiry, node = self._asked.pop(message.number, (None, ""))
        if inquiry is not None:
            del inquiry.asked[node]
            inquiry.said.add(node)
            inquiry.found += message.found
            self._go_on(inquiry)

    def audit(self) -> Iterator[str]:
        """Whatever cannot be true of it."""
        asked = {(n, each) for some in self._open.values() for each in some for n in each.asked}
        if asked != {(node, each) for each, node in self._asked.values()}:
            yield "nobody waits for what was asked about durable subscriptions"
