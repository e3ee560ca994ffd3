"""Inquiries: what may be kept elsewhere is kept here only after that was asked.

A client that has no answer from one node sends what has an id to another one, and names those that
may have kept it. That one asks each of them, and keeps it only if none has::

    client  ──Publish──▶  a                 a keeps it, or never got it; no answer comes back
    client  ──Publish, a may have it──▶  b
                          a  ◀──Inquire──  b
                          a  ──Inquired──▶ b     kept, at a tick: b answers the client with that
                                                 not kept: b keeps it

A node that has said "not kept" to another one may still find the publication in its own buffers,
or be sent it again. So it notes who has asked, and asks back before it keeps it: of two that could
ask each other, one at most keeps it. If both are about to, the one whose name comes first goes on:
it says that it is not decided yet, and the other asks again. The other one says "not kept", and
from then on what it was told itself no longer counts: it asks anew.

Who wants something kept though nobody can be asked (`maybe_twice`) is told that it may be kept
twice. But what a node has said "not kept" of it never keeps before it has asked back: else somebody
would have been told elsewhere that it is kept once.

What is kept counts from the moment at which it is to be written; the answer goes out behind the
commit, as all answers do. So a node never says "not kept" of what is being written, and "kept" only
of what is on disk. A crash drops the notes of who has asked: but also every connection, with all
that was in its buffers, and all that waited here. A client that comes back names the others itself.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Final, NamedTuple, Protocol

from tidings.delivery.ages import principal_of
from tidings.delivery.ids import Ids, Place, digest_of
from tidings.delivery.streams import Reached
from tidings.protocol.epochs import broker_of
from tidings.protocol.messages import Inquire, Inquired
from tidings.protocol.parts import Kernel, Neighbour, Session
from tidings.protocol.requests import Publish

PATIENCE: Final = 5.0
"""Seconds for which a node tries to ask those that may have kept something."""
LEAST: Final = 1.0
"""Seconds for which it tries at least, if what is published has waited before for other things."""
MOST_BEHIND: Final = 8_192
"""Publications of one name that may wait behind others; a client has no more under way."""
NOTES: Final = 131_072
"""Ids of which a node notes who has asked; the first to be forgotten is the one noted first."""


class Findings(NamedTuple):
    """What is known of the ids of a publication when it is taken."""

    found: Mapping[bytes, Place] = {}
    """Those that are kept elsewhere."""
    unsure: Collection[bytes] = ()
    """Those that may be kept where nobody could ask."""
    unasked: Collection[str] = ()
    """The nodes that could not be asked."""
    twice: Collection[bytes] = ()
    """Those that are kept at several nodes, or may be."""
    may_be_twice: bool = False
    """Whether what is unsure may be kept all the same."""


class Behind(NamedTuple):
    """A request that has to wait, since what came before it does."""

    session: Session
    body: Publish
    time: float
    came: float


class Inquiry:
    """A publication that waits until others have said whether they have kept it."""

    __slots__ = (
        "body",
        "digests",
        "found",
        "name",
        "open",
        "session",
        "time",
        "twice",
        "until",
        "word",
    )

    def __init__(
        self, session: Session, name: str, body: Publish, time: float, *, until: float
    ) -> None:
        self.session, self.name, self.body, self.time = session, name, body, time
        self.until = until
        """When it is decided by what is known then."""
        self.digests: tuple[bytes, ...] = ()
        """Of the ids of which nothing is known here."""
        self.open: dict[str, int] = {}
        """The nodes that have not answered yet, and under which number each is asked."""
        self.found: dict[bytes, Place] = {}
        self.twice: set[bytes] = set()
        """Those that were found at several nodes: somebody was bold."""
        self.word: set[str] = set()
        """The nodes that were told that it is not kept here: they must be asked."""

    @property
    def principal(self) -> str:
        """Whose it is."""
        return principal_of(self.name)


class Publishes(Protocol):
    """What takes a request to publish something."""

    def __call__(
        self, session: Session, body: Publish, time: float, *, came: float | None = None
    ) -> None: ...


class Inquiries:
    """What waits at a node for the answers of others, and who has asked this one."""

    def __init__(
        self,
        kernel: Kernel,
        reached: Reached,
        ids: Ids,
        take: Callable[[Session, str, Publish, float, Findings], None],
        publish: Publishes,
    ) -> None:
        """What has waited is given to `take`, and what came behind it to `publish`."""
        self._kernel, self._reached, self._ids = kernel, reached, ids
        self._take, self._publish = take, publish
        self._waiting: dict[str, Inquiry] = {}
        """By the name under which it is published: what comes behind has to wait."""
        self._by_id: dict[tuple[str, bytes], Inquiry] = {}
        """By principal and digest."""
        self._asked: dict[int, tuple[Inquiry, str]] = {}
        """By number, with the node that is asked."""
        self._notes: dict[tuple[str, bytes], tuple[str, ...]] = {}
        """By principal and digest: the nodes that were told that it is not kept here."""
        self._number = kernel.incarnation << 32
        """Answers to what an earlier node of this name asked may still be on their way."""

        self._behind: dict[str, list[Behind]] = {}
        """By name: what came after what waits."""

    def put_behind(
        self, session: Session, name: str, body: Publish, time: float, *, came: float
    ) -> bool | None:
        """Whether something of a name waits, so that this has to wait behind it, and does.

        None if too much does already.
        """
        if name not in self._waiting:
            return False
        behind = self._behind.setdefault(name, [])
        count = sum(len(each.body.notifications) for each in behind)
        if count + len(body.notifications) > MOST_BEHIND:
            return None
        behind.append(Behind(session, body, time, came))
        return True

    def __len__(self) -> int:
        return len(self._waiting)

    # -- asking --------------------------------------------------------------------------------

    def begin(
        self, session: Session, name: str, body: Publish, time: float, *, came: float
    ) -> bool:
        """Whether others have to be asked before this is taken: then they are."""
        if not body.ids or not (body.elsewhere or self._notes):
            return False
        principal = principal_of(name)
        digests = [digest_of(id) for id in body.ids if id]
        unknown = [each for each in digests if self._ids.find(principal, each) is None]
        nodes = dict.fromkeys(body.elsewhere) if unknown else {}
        askers = {each for digest in unknown for each in self._notes.get((principal, digest), ())}
        nodes |= dict.fromkeys(sorted(askers))
        nodes.pop(self._kernel.name, None)
        if not nodes:
            return False
        until = max(came + PATIENCE, self._kernel.now + LEAST)
        inquiry = Inquiry(session, name, body, time, until=until)
        inquiry.digests, inquiry.word = tuple(dict.fromkeys(unknown)), askers
        self._waiting[name] = inquiry
        self._by_id |= {(principal, digest): inquiry for digest in inquiry.digests}
        for node in nodes:
            self._open(inquiry, node)
            self._ask(inquiry, node)
        return True

    def _open(self, inquiry: Inquiry, node: str) -> None:
        """What a node has answered, or will to what it was asked so far, does not count."""
        self._asked.pop(inquiry.open.get(node, 0), None)
        self._number += 1
        inquiry.open[node] = self._number
        self._asked[self._number] = inquiry, node

    def _ask(self, inquiry: Inquiry, node: str) -> None:
        stream = next((s for s in self._reached.ways.streams if broker_of(s) == node), None)
        via = None if stream is None else self._reached.ways.via(stream)
        if stream is not None and via is not None:
            path, number = (self._kernel.name,), inquiry.open[node]
            self._kernel.send(
                via, Inquire(stream, inquiry.principal, inquiry.digests, number, path)
            )

    def again(self) -> None:
        """Ask those again that have not answered, or not decided; or wait no longer."""
        for inquiry in list(self._waiting.values()):
            if self._kernel.now >= inquiry.until:
                self._decide(inquiry)
            else:
                for node in inquiry.open:
                    self._ask(inquiry, node)

    def close(self, session: Session) -> None:
        """Its client is gone, and will say itself who may have kept what waits here."""
        for inquiry in [each for each in self._waiting.values() if each.session is session]:
            self._end(inquiry)
            self._behind.pop(inquiry.name, None)

    def told(self, _: Neighbour, message: Inquired) -> None:
        """A node says whether it has kept something."""
        if self._reached.passed_back(message):
            return
        inquiry, node = self._asked.get(message.number, (None, ""))
        if inquiry is None:
            return
        for at, place in message.kept.items():
            first = inquiry.found.setdefault(inquiry.digests[at], Place(*place))
            if first != Place(*place):
                inquiry.twice.add(inquiry.digests[at])
        if not message.undecided:
            del self._asked[inquiry.open.pop(node)]
            self._kernel.soon(self._decide_all)

    def _decide_all(self) -> None:
        """Take what nobody need be asked for any more, but not while something else is taken."""
        for inquiry in [each for each in self._waiting.values() if not each.open]:
            if self._waiting.get(inquiry.name) is inquiry:
                self._decide(inquiry)

    def _decide(self, inquiry: Inquiry) -> None:
        self._end(inquiry)
        unasked = tuple(sorted(inquiry.open))
        unsure = frozenset(inquiry.digests) - inquiry.found.keys() if unasked else frozenset()
        if unasked and inquiry.body.maybe_twice:
            inquiry.twice |= inquiry.found.keys()
        may_be_twice = inquiry.body.maybe_twice and inquiry.word.isdisjoint(unasked)
        twice = frozenset(inquiry.twice)
        findings = Findings(inquiry.found, unsure, unasked, twice, may_be_twice)
        self._take(inquiry.session, inquiry.name, inquiry.body, inquiry.time, findings)
        for each in self._behind.pop(inquiry.name, ()):
            self._publish(each.session, each.body, each.time, came=each.came)

    def _end(self, inquiry: Inquiry) -> None:
        del self._waiting[inquiry.name]
        for digest in inquiry.digests:
            self._by_id.pop((inquiry.principal, digest), None)
        for number in inquiry.open.values():
            del self._asked[number]

    # -- being asked ---------------------------------------------------------------------------

    def asked(self, neighbour: Neighbour, message: Inquire) -> None:
        """Another node is about to keep something: say whether it is kept here."""
        if self._reached.passed_on(neighbour, message):
            return
        asker = message.path[0]
        kept: dict[int, tuple[str, int, float]] = {}
        undecided = []
        for at, digest in enumerate(message.digests):
            place = self._ids.find(message.principal, digest)
            inquiry = self._by_id.get((message.principal, digest))
            if place is not None:
                kept[at] = (place.stream, place.tick, place.time)
            elif inquiry is not None and self._kernel.name < asker:
                undecided.append(at)
            else:
                self._note(message.principal, digest, asker)
                if inquiry is not None:
                    inquiry.word.add(asker)
                    self._open(inquiry, asker)
        answer = Inquired(message.number, message.path, kept, tuple(undecided))
        self._kernel.send(neighbour, answer)

    def _note(self, principal: str, digest: bytes, asker: str) -> None:
        """From now on this is kept here only if the asker has not kept it."""
        key = principal, digest
        before = self._notes.pop(key, ())
        self._notes[key] = before if asker in before else (*before, asker)
        if len(self._notes) > NOTES:
            del self._notes[next(iter(self._notes))]

    def kept(self, principal: str, digests: Iterable[bytes]) -> None:
        """Something is kept under these ids: whoever asks is told so."""
        if self._notes:
            for digest in digests:
                self._notes.pop((principal, digest), None)

    def audit(self) -> Iterator[str]:
        """Whatever cannot be true of it between two inputs."""
        asked = {(number, inquiry) for number, (inquiry, _) in self._asked.items()}
        if asked != {(n, each) for each in self._waiting.values() for n in each.open.values()}:
            yield "nobody waits for what was asked about an id, or the other way round"
        waiting = set(self._waiting.values())
        if not waiting.issuperset(self._by_id.values()):
            yield "an id waits of which no publication does"
        if not self._behind.keys() <= self._waiting.keys():
            yield "something waits behind what does not wait"
